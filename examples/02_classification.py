"""Classification with known class probabilities.

The classes are four overlapping Gaussian clusters. Bayes' rule gives the true class
probabilities, so the classifier can be compared with the best possible one.

    python examples/02_classification.py
"""

import torch
from torch import Tensor, nn

import tractable as tr
from tractable import metrics

CENTRES = torch.tensor([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
SPREAD = 0.8


def draw(rows: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return points and their class labels."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(len(CENTRES), (rows,), generator=generator)
    noise = torch.randn(rows, 2, generator=generator)
    return CENTRES[labels] + SPREAD * noise, labels


def bayes(x: Tensor) -> Tensor:
    """Return the true class probabilities of equally likely and equally wide clusters."""
    return (-0.5 * (torch.cdist(x, CENTRES) / SPREAD) ** 2).softmax(-1)


def main() -> None:
    """Fit on 1,000 points and compare with Bayes' rule on 4,000."""
    torch.set_num_threads(1)
    x, y = draw(1000, seed=0)
    x_test, y_test = draw(4000, seed=1)

    likelihood = tr.likelihoods.Categorical(4, link="probit")
    net = nn.Sequential(nn.Linear(2, 50), nn.ReLU(), nn.Linear(50, likelihood.outputs))
    model = tr.TAGI(net, likelihood).fit(x, y, epochs=20)
    test = model.predict(x_test)

    true = bayes(x_test)
    best_error = (true.argmax(-1) != y_test).double().mean().item()
    best_nll = -true[torch.arange(len(y_test)), y_test].log().mean().item()
    error, nll = metrics.error_rate(test, y_test), metrics.nll(test, y_test)
    difference = (test.probs - true).abs().mean().item()
    print(f"error {error:.1%}, Bayes' rule {best_error:.1%}")
    print(f"negative log-likelihood {nll:.3f}, Bayes' rule {best_nll:.3f}")
    print(f"mean absolute difference from the true probabilities {difference:.3f}")
    print(f"calibration error {metrics.ece(test, y_test):.1%}")

    assert error < best_error + 0.02
    assert nll < best_nll + 0.05
    assert difference < 0.05


if __name__ == "__main__":
    main()
