"""Optimization of a function that is expensive to call: ask for a point, tell its value.

TAGI learns the function from all values so far.  The next point comes from inference plus
posterior sampling: ``optimize`` (eq. 4) walks from many starting points to the optima the model
knows of, the places found and points scattered around the best ones are the candidates, and one
draw of the weights from the posterior (Thompson sampling) chooses among them.

Inputs are scaled to [-1, 1].  Targets become normal scores of their ranks, so that the model
represents the order of the values and not a few extreme ones.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tractable.infer.optimize import limits, optimize
from tractable.learners import TAGI
from tractable.likelihoods import Normal
from tractable.nn import mlp

Array = np.ndarray[Any, np.dtype[np.float64]]


class BlackBoxOptimizer:
    """A minimizer of an expensive function of bounded inputs, by Thompson sampling.

    Args:
        bounds: lowest and highest value of each input, ``[inputs, 2]``.
        maximize: whether to maximize instead of minimize.
        n_initial: number of points of a scrambled Sobol sequence before the model is used.
            Default: two for each input, at least five and at most ten.
        hidden_size: units of each of the two hidden layers.
        noise_std: standard deviation of the noise of the model, in units of the normal scores.
        epochs: number of passes over all values each time that the model is fitted.
        seed: seed of the random number generator for all that is drawn.

    >>> search = BlackBoxOptimizer([(-1, 1)], n_initial=3)
    >>> for _ in range(12):
    ...     x = search.ask()
    ...     search.tell(x, (x[0] - 0.3) ** 2)
    >>> bool(search.best_value < 0.05)
    True
    """

    def __init__(
        self,
        bounds: Any,
        *,
        maximize: bool = False,
        n_initial: int | None = None,
        hidden_size: int = 64,
        noise_std: float = 0.1,
        epochs: int = 50,
        seed: int = 0,
    ) -> None:
        box = torch.as_tensor(np.asarray(bounds, dtype=np.float64))
        if box.ndim != 2 or box.shape[1] != 2 or len(box) == 0:
            raise ValueError(
                f"bounds must be one pair (low, high) per input, got shape {tuple(box.shape)}"
            )
        if not bool(torch.isfinite(box).all()):
            raise ValueError(f"bounds must be finite numbers, got {box.tolist()}")
        checked = limits(box, torch.zeros(1, len(box), dtype=torch.float64))
        assert checked is not None
        self.low, self.high = checked
        inputs = len(box)
        if n_initial is None:
            n_initial = min(max(2 * inputs, 5), 10)
        if n_initial < 1:
            raise ValueError(f"n_initial must be at least 1, got {n_initial}")
        self.maximize = maximize
        self.n_initial = n_initial
        self.hidden_size = hidden_size
        self.noise_std = noise_std
        self.epochs = epochs
        self.seed = seed
        self.generator = torch.Generator().manual_seed(seed)
        self.sobol = torch.quasirandom.SobolEngine(inputs, scramble=True, seed=seed)
        self.model: TAGI | None = None
        self._x: list[Tensor] = []
        self._y: list[float] = []

    # --- the two calls -------------------------------------------------------------------

    def ask(self) -> Array:
        """Return the next point to evaluate."""
        if len(self._y) < self.n_initial:
            unit = 2 * self.sobol.draw(1, dtype=torch.float64)[0] - 1
        else:
            unit = self._propose()
        return (self.low + (unit + 1) / 2 * (self.high - self.low)).numpy()

    def tell(self, x: Any, value: float) -> None:
        """Add a value of the function.

        Args:
            x: any point within the bounds, ``[inputs]``.
            value: value of the function at ``x``, finite.
        """
        point = torch.as_tensor(np.asarray(x, dtype=np.float64)).reshape(-1)
        if point.shape != self.low.shape:
            raise ValueError(f"x must have {len(self.low)} coordinates, got {len(point)}")
        if not bool(((point >= self.low) & (point <= self.high)).all()):
            raise ValueError(f"x = {point.tolist()} lies outside the bounds")
        number = float(value)
        if not math.isfinite(number):
            raise ValueError(f"value must be a finite number, got {number}")
        self._x.append(2 * (point - self.low) / (self.high - self.low) - 1)
        self._y.append(number)

    # --- results --------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self._y)

    @property
    def best_value(self) -> float:
        """Best value so far."""
        return self._y[self._best()]

    @property
    def best_point(self) -> Array:
        """Point of the best value so far."""
        unit = self._x[self._best()]
        return (self.low + (unit + 1) / 2 * (self.high - self.low)).numpy()

    def _best(self) -> int:
        if not self._y:
            raise ValueError("there is no value yet: pass one with tell(x, value)")
        return int(np.argmax(self._y) if self.maximize else np.argmin(self._y))

    # --- proposing -----------------------------------------------------------------------

    def _propose(self) -> Tensor:
        x = torch.stack(self._x).float()
        scores = self._scores()
        self.model = self._learn(x, scores)
        order = scores.argsort()
        best = x[order[: max(3, len(x) // 10)]]
        found = optimize(
            self.model, self._starts(best), input_std=0.1, maximize=False, steps=30,
            tolerance=1e-3, bounds=(-1, 1), max_step=math.inf,
        )  # fmt: skip
        pool = torch.cat([found.location.loc, self._around(best, 200), self._uniform(100)])
        distance = torch.cdist(pool, x).amin(1)
        pool = pool[distance > 1e-4 * math.sqrt(x.shape[1])]
        if len(pool) == 0:
            pool = self._uniform(1)
        samples = self.model.posterior.sample(1, self.generator)
        drawn = {name: sample[0] for name, sample in samples.items()}
        with torch.no_grad():
            values = self.model.method.network(drawn, pool)[:, 0]
        return pool[int(values.argmin())].double()

    def _learn(self, x: Tensor, scores: Tensor) -> TAGI:
        sizes = (self.hidden_size, self.hidden_size)
        net = mlp(x.shape[1], sizes, 1, first_activation="tanh")
        seed = int(torch.randint(2**31, (1,), generator=self.generator))
        # Values are exact: none is an outlier, and the steps need no limit.
        model = TAGI(net, Normal(self.noise_std), dtype=torch.float32, seed=seed, robust=False)
        return model.fit(
            x,
            scores.unsqueeze(1),
            epochs=self.epochs,
            batch_size=1,
            progress=False,
            distance_aware=False,
        )

    def _scores(self) -> Tensor:
        """Return normal scores of the ranks of all values; low is good."""
        y = torch.tensor(self._y, dtype=torch.float64)
        ranks = (-y if self.maximize else y).argsort().argsort()
        return torch.special.ndtri((ranks + 0.5) / len(y)).float()

    def _starts(self, best: Tensor) -> Tensor:
        return torch.cat([best, self._around(best, 20), self._uniform(20)])

    def _around(self, best: Tensor, n: int) -> Tensor:
        """Return points around the best ones, at 1 % to 60 % of half the range."""
        chosen = best[torch.randint(len(best), (n,), generator=self.generator)]
        scale = 10 ** (-2 + 1.8 * torch.rand(n, 1, generator=self.generator))
        noise = torch.randn(n, best.shape[1], generator=self.generator)
        return (chosen + scale * noise).clamp(-1, 1)

    def _uniform(self, n: int) -> Tensor:
        return 2 * torch.rand(n, len(self.low), generator=self.generator) - 1
