"""A generative model of table rows: novelty scores, imputation and sampling.

The table has two columns with y = 2 x + noise of standard deviation 0.3, so all results can be
compared with the true distribution.

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
    """Fit the model, then compute novelty scores, impute a value and draw samples."""
    torch.set_num_threads(1)
    model = GaussianMixture(seed=0).fit(rows(2_000, 0))
    p = model.predict()
    truth = torch.distributions.MultivariateNormal(
        torch.zeros(2).double(), torch.tensor([[1.0, 2.0], [2.0, 4.09]]).double()
    )
    new = rows(2_000, 1)
    print(f"mean log density of new rows {p.log_prob(new).mean():.2f}, ", end="")
    print(f"of the true distribution {truth.log_prob(new).mean():.2f}")

    usual, odd = p.novelty_share(torch.tensor([[1.0, 2.0], [1.0, -2.0]]).double()).tolist()
    print(f"novelty of (1, 2): {usual:.2f}; of (1, -2), with common single values: {odd:.2f}")

    incomplete = torch.tensor([[1.0, float("nan")]]).double()
    generator = torch.Generator().manual_seed(0)
    filled = tr.infer.impute(model, incomplete, n_samples=2_000, generator=generator)
    y = filled.draws[:, 0, 1].double()
    print(f"y for x = 1: {y.mean():.2f} ± {y.std():.2f}, true 2.00 ± 0.30")

    made = p.sample(2_000, generator)
    found = tr.metrics.two_sample(made, new)
    print(f"AUROC of a classifier of samples against new rows {found.auroc:.2f}; chance 0.50")

    assert abs(float(p.log_prob(new).mean() - truth.log_prob(new).mean())) < 0.05
    assert odd > 0.99 > usual
    assert abs(float(y.mean()) - 2) < 0.1
    assert 0.25 < float(y.std()) < 0.35
    assert not found.differs(0.99)


if __name__ == "__main__":
    main()
