"""A model of rows: which do not belong, what the holes may be, and new ones.

Two columns that go together, y = 2 x + noise of 0.3, so the truth of every answer is known.

    python examples/11_rows.py
"""

import torch

import tractable as tr
from tractable.generative import GaussianMixture


def rows(number: int, seed: int) -> torch.Tensor:
    """Draw rows."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(number, generator=generator, dtype=torch.float64)
    y = 2 * x + 0.3 * torch.randn(number, generator=generator, dtype=torch.float64)
    return torch.stack([x, y], 1)


def main() -> None:
    """Fit, then ask: novelty, holes, samples."""
    torch.set_num_threads(1)
    model = GaussianMixture(seed=0).fit(rows(2_000, 0))
    p = model.predict()
    truth = torch.distributions.MultivariateNormal(
        torch.zeros(2).double(), torch.tensor([[1.0, 2.0], [2.0, 4.09]]).double()
    )
    new = rows(2_000, 1)
    print(f"log density of new rows {p.log_prob(new).mean():.2f}, ", end="")
    print(f"of the true density {truth.log_prob(new).mean():.2f}")

    usual, odd = p.novelty(torch.tensor([[1.0, 2.0], [1.0, -2.0]]).double()).tolist()
    print(f"novelty of (1, 2): {usual:.2f}; of (1, -2), each value usual by itself: {odd:.2f}")

    hole = torch.tensor([[1.0, float("nan")]]).double()
    generator = torch.Generator().manual_seed(0)
    filled = tr.infer.impute(model, hole, draws=2_000, generator=generator)
    y = filled.draws[:, 0, 1].double()
    print(f"where x = 1, y is {y.mean():.2f} ± {y.std():.2f}, truly 2.00 ± 0.30")

    made = p.sample(2_000, generator)
    found = tr.metrics.two_sample(made, new)
    print(
        f"a classifier tells new rows from drawn ones with probability {found.auroc:.2f}; ", end=""
    )
    print("0.50 is a toss")

    assert abs(float(p.log_prob(new).mean() - truth.log_prob(new).mean())) < 0.05
    assert odd > 0.99 > usual
    assert abs(float(y.mean()) - 2) < 0.1
    assert 0.25 < float(y.std()) < 0.35
    assert not found.differs(0.99)


if __name__ == "__main__":
    main()
