"""A drifting series, followed online: sunspots over 235 years.

Each month is predicted from the twelve before it and then learnt, once.  The sun's cycles differ in
height and length, so what was learnt long ago is forgotten slowly.  Needs the data set: name its
folder in ``TRACTABLE_DATA``, or let it be downloaded.

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
    """Walk through the series; compare with "the same as last month" and with the last year."""
    torch.set_num_threads(1)
    try:
        series = sunspots()
    except DataNotFound as error:
        print(f"this example needs the sunspot series: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    numbers = series.values[:, 0].sqrt()  # counts: their root has an even spread
    scale = numbers[:120].mean()  # what the first ten years say
    level = numbers / scale - 1

    net = nn.Sequential(nn.Linear(PAST, 32), nn.ReLU(), nn.Linear(32, 1))
    model = tr.TAGI(net, tr.likelihoods.Normal(0.18), gain=0.25)
    said, naive, year, inside = [], [], [], []
    for month in range(PAST, len(level)):
        past, now = level[month - PAST : month], level[month]
        p = model.predict(past.unsqueeze(0))
        low, high = p.interval(0.9)
        said.append(float(p.mean - now))
        naive.append(float(past[-1] - now))
        year.append(float(past.mean() - now))
        inside.append(bool(low <= now <= high))
        model.update(past, now.reshape(1), memory=MEMORY)

    def rms(errors: list[float]) -> float:
        return float(scale * torch.tensor(errors[120:]).square().mean().sqrt())

    covered = sum(inside[120:]) / len(inside[120:])
    print(f"{len(said)} months, errors of the root of the sunspot number after the first ten years")
    print(f"online {rms(said):.3f}, last month again {rms(naive):.3f}, last year {rms(year):.3f}")
    print(f"90 % intervals hold {covered:.1%}")

    assert rms(said) < 0.97 * min(rms(naive), rms(year))
    assert 0.8 < covered < 0.97


if __name__ == "__main__":
    main()
