"""Online learning from a stream: predict each observation, then update with it.

Every prediction is made before the model sees the observation, so the errors are test errors. The
example compares a network with exact Bayesian linear regression.

    python examples/03_stream.py
"""

import torch
from torch import nn

import tractable as tr

STEPS = 2000
NOISE = 0.2


def main() -> None:
    """Process the stream once with a network and with Bayesian linear regression."""
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
    print(
        f"RMSE, first 500: network {rms(errors[first]):.2f}, linear {rms(linear_errors[first]):.2f}"
    )
    print(
        f"RMSE, last 500:  network {rms(errors[last]):.2f}, linear {rms(linear_errors[last]):.2f}"
    )
    print(f"noise {NOISE}; coverage of the 90 % intervals of the last 500: {covered:.0%}")

    assert rms(errors[last]) < 0.75 * rms(linear_errors[last]), (
        "the network learns the nonlinear part"
    )
    assert rms(errors[last]) < rms(errors[first]), "the error keeps decreasing"


if __name__ == "__main__":
    main()
