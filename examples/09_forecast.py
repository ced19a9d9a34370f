"""A forecast with calibrated intervals: a daily cycle plus a random walk.

The series is simulated. The smallest possible standard deviation of a k-step forecast is the
square root of 0.25 + 0.01 k.

    python examples/09_forecast.py
"""

import numpy as np
import torch

from tractable.forecast import Forecaster


def main() -> None:
    """Forecast one day and compare with the observations and the smallest possible error."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    hours = np.arange(1600)
    level = 20 + np.cumsum(0.1 * rng.standard_normal(1600))
    y = level + 4 * np.sin(2 * np.pi * hours / 24) + 0.5 * rng.standard_normal(1600)
    times = np.datetime64("2024-01-01T00") + hours

    model = Forecaster(horizon=24).fit(y[:1200], times=times[:1200])
    forecast = model.predict()
    for k in (1, 6, 24):
        minimum = (0.25 + 0.01 * k) ** 0.5
        print(
            f"{k:2} hours ahead: {forecast.mean[k - 1]:.1f} ± {forecast.std[k - 1]:.2f}, "
            f"observed {y[1199 + k]:.1f}; smallest possible std {minimum:.2f}"
        )

    tested = model.backtest(y, times=times)
    ours, naive = tested.summary()["model"], tested.summary()["seasonal naive"]
    print(f"{len(tested.origins)} forecasts: mean absolute error {ours['mae']:.2f}, ", end="")
    print(f"seasonal naive {naive['mae']:.2f}")
    print(f"coverage of the 90 % intervals {ours['coverage_90']:.1%}")

    assert ours["mae"] < 0.9 * naive["mae"]
    assert 0.8 < ours["coverage_90"] < 0.97


if __name__ == "__main__":
    main()
