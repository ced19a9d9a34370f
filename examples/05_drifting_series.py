"""Online forecasting of a nonstationary series: sunspots over 235 years.

Each month is predicted from the previous twelve, and the model is then updated once. The solar
cycles differ in height and length, so the model remembers 1,000 months only. The data set is read
from the directory in ``TRACTABLE_DATA`` or downloaded.

    TRACTABLE_DATA=folder python examples/05_drifting_series.py
"""

import sys

import torch
from torch import nn

import tractable as tr
from tractable.data import DataNotFound, sunspots

PAST = 12
MEMORY = 1_000  # months


def main() -> None:
    """Compare the one-month-ahead errors with those of two simple forecasts."""
    torch.set_num_threads(1)
    try:
        series = sunspots()
    except DataNotFound as error:
        print(f"this example needs the sunspot series: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    numbers = series.values[:, 0].sqrt()  # the square root stabilizes the variance of counts
    scale = numbers[:120].mean()  # estimated on the first ten years
    level = numbers / scale - 1

    net = nn.Sequential(nn.Linear(PAST, 32), nn.ReLU(), nn.Linear(32, 1))
    model = tr.TAGI(net, tr.likelihoods.Normal(0.18), gain=0.25)
    model_errors, naive, year, inside = [], [], [], []
    for month in range(PAST, len(level)):
        past, now = level[month - PAST : month], level[month]
        p = model.predict(past.unsqueeze(0))
        low, high = p.interval(0.9)
        model_errors.append(float(p.mean - now))
        naive.append(float(past[-1] - now))
        year.append(float(past.mean() - now))
        inside.append(bool(low <= now <= high))
        model.update(past, now.reshape(1), memory_rows=MEMORY)

    def rms(errors: list[float]) -> float:
        return float(scale * torch.tensor(errors[120:]).square().mean().sqrt())

    covered = sum(inside[120:]) / len(inside[120:])
    print(f"{len(model_errors)} months; RMSE of square roots after the first ten years:")
    print(
        f"model {rms(model_errors):.3f}, last value {rms(naive):.3f}, yearly mean {rms(year):.3f}"
    )
    print(f"coverage of the 90 % intervals {covered:.1%}")

    assert rms(model_errors) < 0.97 * min(rms(naive), rms(year))
    assert 0.8 < covered < 0.97


if __name__ == "__main__":
    main()
