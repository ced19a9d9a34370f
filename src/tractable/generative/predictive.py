"""Predictive distributions of generative models: rows in the units of the data."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tractable.errors import InvalidInput, Unsupported
from tractable.generative.column_scaler import ColumnScaler, as_matrix

_OVERFLOW = 1e6  # standard deviations from which the square of a value may overflow


class Density(ABC):
    """A distribution of rows in the units of a model; the interface that a model implements.

    Without a context it is one distribution; with a context of k rows it is k of them.
    """

    @abstractmethod
    def log_prob(self, z: Tensor) -> Tensor:
        """Return the log density of each row, in nats; with k contexts, row i under context i."""

    @abstractmethod
    def sample(self, n_samples: int, generator: torch.Generator) -> Tensor:
        """Return rows ``[n_samples, columns]``; with k contexts ``[n_samples, k, columns]``."""

    def log_prob_by_weights(self, z: Tensor) -> Tensor:
        """Return the log density under each weight sample or ensemble member, ``[samples, rows]``.

        One sample where the weights are certain, or where the model does not distinguish them.
        """
        return self.log_prob(z).unsqueeze(0)

    def impute(
        self, z: Tensor, known: Tensor, n_samples: int, generator: torch.Generator
    ) -> Tensor:
        """Return samples of the unknown columns given the known ones.

        Args:
            z: rows; unknown values are ignored.
            known: mask of the known values.
            n_samples: number of samples of each row.
            generator: random generator.

        Returns:
            ``[n_samples, rows, columns]``.

        Raises:
            Unsupported: the model has no conditional distributions.
        """
        raise Unsupported(
            f"{type(self).__name__} cannot impute missing values: generative.GaussianMixture does "
            f"it in closed form, generative.VAE and generative.Diffusion by sampling"
        )


def repeat_context(context: Tensor | None, rows: int) -> Tensor | None:
    """Return a context with one row for each of ``rows`` rows; a single row is repeated."""
    if context is None or len(context) == rows:
        return context
    return context.expand(rows, -1)


class DensityPredictive:
    """The distribution of a new row, or of one new row for each row of a context.

    Args:
        density: the distribution in the units of the model.
        scaler: conversion to the units of the data.
        n_contexts: number of rows of the context; None without one.
        held_out: returns the log densities of rows that were not used for training.
        dtype: type of rows.
        seed: seed of samples without a generator.
    """

    def __init__(
        self,
        density: Density,
        scaler: ColumnScaler,
        *,
        n_contexts: int | None,
        held_out: Callable[[], Tensor],
        dtype: torch.dtype,
        seed: int,
    ) -> None:
        self.density, self.scaler, self.n_contexts = density, scaler, n_contexts
        self.dtype, self.seed = dtype, seed
        self._held_out, self._reference = held_out, None  # type: Callable[[], Tensor], Any

    def log_prob(self, rows: Any) -> Tensor:
        """Return the log density of each row, in nats and in the units of the data.

        Args:
            rows: ``[m, columns]``; with a context of k rows, m is k, and row i is evaluated under
                context i (a context of one row holds for any number).
        """
        z, x = self._to_model(rows)
        with torch.no_grad():
            found = self.density.log_prob(z)
        found = found - self.scaler.log_scale
        # Where squares overflow, the log density is NaN, and the density zero.
        overflow = found.isnan() & (z.abs() > _OVERFLOW).any(1)
        possible = self.scaler.matches_constants(x) & ~overflow
        return torch.where(possible, found, found.new_tensor(-math.inf))

    def log_prob_std(self, rows: Any) -> Tensor:
        """Return the standard deviation of each row's log density over the weights, in nats.

        It is taken over weight samples or ensemble members, and 0 where the weights are certain.

        Args:
            rows: as for ``log_prob``.
        """
        z, _ = self._to_model(rows)
        with torch.no_grad():
            return self.density.log_prob_by_weights(z).std(0, correction=0)

    def novelty_share(self, rows: Any) -> Tensor:
        """Return the share of held-out rows that have a higher density than each row.

        It is uniform over 0 to 1 for new rows of the same distribution, whatever the data and
        however good the model: one such row in a hundred has more than 0.99. It is near 1 for
        unusual rows, and NaN where the log density is.

        Args:
            rows: as for ``log_prob``.

        Raises:
            Unsupported: the model was fitted without held-out rows.
        """
        if self._reference is None:
            self._reference = self._held_out().double().nan_to_num(-math.inf).sort().values
        found = self.log_prob(rows).double()
        count = len(self._reference)
        n_higher = count - torch.searchsorted(self._reference, found, right=True)
        return torch.where(found.isnan(), found, n_higher / count).to(self.dtype)

    def sample(self, n_samples: int, generator: torch.Generator | None = None) -> Tensor:
        """Return new rows in the units of the data.

        Args:
            n_samples: number of rows; with a context, number for each of its rows.
            generator: random generator. Default: one with the seed of the model, so that the same
                call returns the same rows.

        Returns:
            ``[n_samples, columns]``, or ``[n_samples, k, columns]`` with a context of k rows.
        """
        if isinstance(n_samples, bool) or not isinstance(n_samples, int) or n_samples < 1:
            raise ValueError(f"n_samples must be a whole number from 1, got {n_samples!r}")
        with torch.no_grad():
            return self.scaler.to_data(self.density.sample(n_samples, self._generator(generator)))

    def impute(
        self, rows: Any, n_samples: int = 1, generator: torch.Generator | None = None
    ) -> Tensor:
        """Return rows with missing values (NaN) replaced by samples given the known values.

        Args:
            rows: ``[m, columns]``, NaN where a value is missing.
            n_samples: number of samples of each row.
            generator: random generator. Default: one with the seed of the model.

        Returns:
            ``[n_samples, m, columns]`` in the units of the data; known values are unchanged.

        Raises:
            Unsupported: the model has no conditional distributions.
        """
        given = as_matrix(rows, "rows", self.dtype, len(self.scaler.steps), allow_missing=True)
        known = ~given.isnan()
        complete = torch.where(known, given, self.scaler.units.mean.to(self.dtype))
        if self.n_contexts not in (None, 1, len(given)):
            raise InvalidInput(f"there are {len(given)} rows and {self.n_contexts} contexts")
        generator = self._generator(generator)
        missing = ~known.all(1)
        if self.n_contexts not in (None, 1):  # all rows, to match their contexts
            missing = torch.ones_like(missing)
        filled = complete.repeat(n_samples, 1, 1)
        if bool(missing.any()):
            with torch.no_grad():
                z = self.scaler.to_model(complete[missing], self.dtype)
                mask = known[missing][:, self.scaler.varying]
                sampled = self.density.impute(z, mask, n_samples, generator)
                sampled = self.scaler.to_data(sampled)
            filled[:, missing] = torch.where(known[missing], filled[:, missing], sampled)
        return filled

    def _generator(self, given: torch.Generator | None) -> torch.Generator:
        return torch.Generator().manual_seed(self.seed) if given is None else given

    def _to_model(self, given: Any) -> tuple[Tensor, Tensor]:
        """Return checked rows in the units of the model and of the data."""
        rows = as_matrix(given, "rows", self.dtype, len(self.scaler.steps))
        if self.n_contexts not in (None, 1, len(rows)):
            raise InvalidInput(
                f"there are {len(rows)} rows and {self.n_contexts} contexts: row i is evaluated "
                f"under context i"
            )
        return self.scaler.to_model(rows, self.dtype), rows

    def __repr__(self) -> str:
        contexts = "" if self.n_contexts is None else f", n_contexts={self.n_contexts}"
        return f"{type(self).__name__}(columns={len(self.scaler.steps)}{contexts})"


def no_density_error(model: str, reason: str) -> Unsupported:
    """Return the error of models that have samples and no density."""
    return Unsupported(f"{model} has no log_prob and no novelty_share: {reason}")
