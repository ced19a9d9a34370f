"""A forecast with honest intervals: hours of a day, and a level that wanders.

Of such a series everything is known: no forecast of k steps can have a smaller standard deviation
than the square root of 0.25 + 0.01 k.

    python examples/09_forecast.py
"""

import numpy as np
import torch

from tractable.forecast import Forecaster


def main() -> None:
    """Forecast a day, beside what came and beside the least error that is possible."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    hours = np.arange(1600)
    level = 20 + np.cumsum(0.1 * rng.standard_normal(1600))
    y = level + 4 * np.sin(2 * np.pi * hours / 24) + 0.5 * rng.standard_normal(1600)
    times = np.datetime64("2024-01-01T00") + hours

    model = Forecaster(horizon=24).fit(y[:1200], time=times[:1200])
    forecast = model.predict()
    for k in (1, 6, 24):
        least = (0.25 + 0.01 * k) ** 0.5
        print(
            f"{k:2} hours ahead: {forecast.mean[k - 1]:.1f} ± {forecast.std[k - 1]:.2f}, "
            f"came {y[1199 + k]:.1f}; least possible ± {least:.2f}"
        )

    tested = model.backtest(y, time=times)
    ours, naive = tested.summary()["model"], tested.summary()["seasonal naive"]
    print(f"{len(tested.origins)} forecasts: mean error {ours['mae']:.2f}, ", end="")
    print(f"the same hour of the day before {naive['mae']:.2f}")
    print(f"90 % intervals hold {ours['coverage_90']:.1%}")

    assert ours["mae"] < 0.9 * naive["mae"]
    assert 0.8 < ours["coverage_90"] < 0.97


if __name__ == "__main__":
    main()
