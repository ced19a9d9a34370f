"""Learning from a stream: predict, then be told, once each.

Every prediction is made before its observation is learnt, so the error is an honest one all along.
A linear part is compared with the exact Bayesian answer, which one pass of TAGI should approach.

    python examples/03_stream.py
"""

import torch
from torch import nn

import tractable as tr

STEPS = 2000
NOISE = 0.2


def main() -> None:
    """One pass over the stream, a network and the textbook's linear regression side by side."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(STEPS, 3, generator=generator)
    smooth = x @ torch.tensor([1.0, -0.5, 0.25])
    bend = torch.sin(2 * x[:, 0])
    y = smooth + bend + NOISE * torch.randn(STEPS, generator=generator)

    net = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    model = tr.TAGI(net, tr.likelihoods.Normal(NOISE), gain=0.5)
    precision, shift = torch.eye(4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)
    errors, linear_errors, inside = [], [], []
    for i in range(STEPS):
        p = model.predict(x[i : i + 1])
        low, high = p.interval(0.9)
        errors.append(float(p.mean - y[i]))
        inside.append(bool(low <= y[i] <= high))
        model.update(x[i], y[i : i + 1])

        row = torch.cat([x[i], torch.ones(1)]).double()
        linear_errors.append(float(row @ torch.linalg.solve(precision, shift) - y[i]))
        precision += torch.outer(row, row) / NOISE**2
        shift += row * float(y[i]) / NOISE**2

    def rms(values: list[float]) -> float:
        return float(torch.tensor(values).square().mean().sqrt())

    first, last = slice(0, 500), slice(-500, None)
    covered = sum(inside[last]) / 500
    print(f"first 500: network {rms(errors[first]):.2f}, linear {rms(linear_errors[first]):.2f}")
    print(f"last 500:  network {rms(errors[last]):.2f}, linear {rms(linear_errors[last]):.2f}")
    print(f"the noise is {NOISE}; 90 % intervals hold {covered:.0%} of the last 500")

    assert rms(errors[last]) < 0.75 * rms(linear_errors[last]), "it learns what is not linear"
    assert rms(errors[last]) < rms(errors[first]), "and goes on learning"


if __name__ == "__main__":
    main()
