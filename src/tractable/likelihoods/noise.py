"""Noise parameters of a likelihood: reading, learning, calibrating and storing them.

A likelihood is a density (``tractable.likelihoods.base``) with noise parameters.  They are buffers
of the module: saved with a model, checked when it is loaded, and changed by the methods below.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor, nn

from tractable.likelihoods.targets import count_non_finite

if TYPE_CHECKING:
    from tractable.likelihoods.base import Likelihood


class HeldOut(NamedTuple):
    """Predictions of one fit for rows that it was not trained on."""

    likelihood: Likelihood
    """Likelihood of the fit."""
    y: Tensor
    """Targets, as ``Likelihood.targets`` returns them."""
    mean: Tensor
    """Mean of the outputs."""
    variance: Tensor
    """Variance of the outputs."""


class Noise(nn.Module):
    """The noise parameters of a likelihood.  The default: nothing is learned or calibrated.

    A likelihood whose noise is learned overrides ``update_noise``, ``sufficient_statistics`` and
    ``m_step`` and has the trait ``learns_noise``; ``tractable.likelihoods.online_em.OnlineEM``
    implements all three for a parameter with a sufficient statistic.  One that can be calibrated
    overrides ``held_out_scale`` and ``rescale`` and has the trait ``supports_calibration``.
    """

    @property
    def noise(self) -> dict[str, Tensor]:
        """Current noise parameters by name, such as ``{"sigma": tensor([0.1])}``.

        A name that is an argument of the constructor has the same meaning there.
        """
        return {}

    # --- learning --------------------------------------------------------------------------

    def update_noise(
        self,
        y: Tensor,
        mean: Tensor,
        variance: Tensor,
        *,
        weight: Tensor | None = None,
        memory_rows: float | None = None,
    ) -> dict[str, Tensor]:
        """Return new values of the buffers after a batch; empty if nothing is learned.

        Args:
            y: targets.
            mean: mean of the outputs.
            variance: variance of the outputs.
            weight: weight of each target in [0, 1], in double precision; used by likelihoods
                with the trait ``supports_outliers``.  Default: 1.
            memory_rows: effective number of rows that the noise remembers.  Default: all.
        """
        return {}

    def sufficient_statistics(self, y: Tensor, z: Tensor) -> Tensor | None:
        """Return what ``m_step`` needs to know of a batch; None if nothing is learned.

        The gradient-based learners sum it over an epoch.

        Args:
            y: targets.
            z: sampled outputs; several samples stand one after the other along the rows.
        """
        return None

    def m_step(self, statistics: Tensor) -> None:
        """Set the buffers to the values of maximum likelihood, given summed statistics."""
        raise TypeError(f"{type(self).__name__} learns nothing from statistics")

    # --- calibration -----------------------------------------------------------------------

    def held_out_scale(self, held_out: list[HeldOut], *, outliers: bool = False) -> float:
        """Return the factor on the noise variance that maximizes the held-out likelihood.

        Args:
            held_out: predictions of each fit for rows that it was not trained on.
            outliers: give outliers less weight, so that a few do not determine the factor.
        """
        raise TypeError(f"{type(self).__name__} has no noise to calibrate on held-out rows")

    def rescale(self, scale: float) -> None:
        """Multiply the noise variance by a factor, usually one of ``held_out_scale``."""
        raise TypeError(f"{type(self).__name__} has no noise to rescale")

    # --- buffers ---------------------------------------------------------------------------

    def set_buffers(self, values: dict[str, Tensor]) -> None:
        """Set buffers to values that ``update_noise`` returned."""
        for name, value in values.items():
            setattr(self, name, value)

    @contextmanager
    def holding(self, values: dict[str, Tensor]) -> Iterator[None]:
        """Set buffers inside the block; restore all buffers at its end."""
        held = dict(self.named_buffers(remove_duplicate=False))
        try:
            self.set_buffers(values)
            yield
        finally:
            self.set_buffers(held)

    def check_buffers(self, values: dict[str, Tensor]) -> None:
        """Check buffers that were read from a file.

        Raises:
            ValueError: a number is not finite, or impossible for this likelihood.
        """
        for name, value in values.items():
            if value.is_floating_point() and count_non_finite(value):
                raise ValueError(f"{name} of {type(self).__name__} has NaN or infinite values")


def repeat_targets(y: Tensor, z: Tensor) -> Tensor:
    """Return targets once for each sample of the outputs that stand along the rows of ``z``."""
    return y.repeat(len(z) // len(y), *[1] * (y.ndim - 1))
