"""Rows too few to know a noise by.

Two or three rows lie on a line, and a network that goes through them finds no noise.  What they do
say is how far apart targets are: with their mean and their variance s^2 (divisor n - 1) a new one
lies about s sqrt(1 + 1/n) from the mean of n, and predictions are to doubt at least as much.
"""

from __future__ import annotations

import warnings

from tractable.learners import Learner
from tractable.likelihoods import Normal

FEWEST_ROWS = 5
WANTED = 20
"""Rows from which some are held out to find the noise by."""


def warn(name: str, rows: int) -> None:
    """Say that rows are too few to know the error of a prediction by."""
    if rows < FEWEST_ROWS:
        warnings.warn(
            f"{name} was given {rows} rows, too few to tell noise from signal: its error bars are "
            f"at least the spread of the targets; give {WANTED} rows or more",
            UserWarning,
            stacklevel=3,
        )


def widen(learner: Learner, rows: int) -> None:
    """Make the noise of so few standardised targets that of a new one: ``(n + 1) / (n - 1)``.

    Standardised targets have the variance 1 with the divisor n.
    """
    likelihood = learner.likelihood
    if rows < FEWEST_ROWS and isinstance(likelihood, Normal):
        least = (rows + 1) / (rows - 1)
        noise = float(likelihood.noise_mean.min())
        if 0 < noise < least:
            learner.rescale_noise(least / noise)
