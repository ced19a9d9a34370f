"""The posterior of another fit as a prior: transfer, fine-tuning and continual learning.

The posterior of one set of rows is the prior for the next ("Understanding Deep Learning", eqs.
9.11 and 9.12, with that posterior in place of the prior).  Each parameter starts from its posterior
mean, with its posterior variance times a factor.  Parts that the other fit does not have, such as a
new head, are initialized at random.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tractable.posterior import Posterior
from tractable.priors import NormalEach

Shapes = Mapping[str, torch.Size]
NAME = "posterior"


@dataclass(frozen=True)
class TransferredPrior:
    """Gaussians of another fit, with scaled variances, as a prior.

    Attributes:
        variance: mean variance of each parameter, to which forgetting returns.
        gaussians: mean and variance of each parameter's entries; None for a prior from a file,
            which contains the posterior of the learner instead.
    """

    variance: dict[str, float]
    gaussians: dict[str, tuple[Tensor, Tensor]] | None = None

    @classmethod
    def of(
        cls, given: Any, shapes: Shapes, reinit: Collection[str], prior_scale: float
    ) -> TransferredPrior:
        """Return the prior for a posterior, a learner, or the JSON values of a file.

        Args:
            given: a posterior, a learner that has one, or the result of ``config``.
            shapes: the shape of every parameter of the network.
            reinit: names of parameters that are initialized at random.
            prior_scale: factor on the variances.
        """
        if isinstance(given, TransferredPrior):
            return given
        if not (math.isfinite(prior_scale) and prior_scale > 0):
            raise ValueError(f"prior_scale must be a positive number, got {prior_scale}")
        expected = {name: shape for name, shape in shapes.items() if name not in reinit}
        if not expected:
            raise ValueError(
                "reinit names every parameter, so that the prior has no effect: leave out some "
                "names, or leave out prior="
            )
        if isinstance(given, dict):
            return cls(_numbers(given, expected))
        posterior = posterior_of(given)
        gaussians = {}
        for name, shape in expected.items():
            loc, variance = _matching(posterior, name, shape)
            gaussians[name] = (loc, prior_scale * variance)
        return cls({name: float(v.mean()) for name, (_, v) in gaussians.items()}, gaussians)

    def config(self) -> dict[str, Any]:
        """Return the prior as JSON values."""
        return {"name": NAME, "variance": dict(self.variance)}

    def put_into(self, posterior: Posterior) -> None:
        """Set these parameters of a posterior in place; the others stay unchanged."""
        posterior.prior_variance |= self.variance
        vars(posterior).pop("flat_prior_variance", None)
        if self.gaussians is None:
            return
        locs = dict(zip(posterior.shapes, posterior.split(posterior.loc), strict=True))
        variances = dict(zip(posterior.shapes, posterior.split(posterior.variance), strict=True))
        for name, (loc, variance) in self.gaussians.items():
            locs[name].copy_(loc)
            variances[name].copy_(variance)


def is_posterior(given: Any) -> bool:
    """Return whether a prior is a posterior, or a learner that has one."""
    return isinstance(given, Posterior) or isinstance(getattr(given, "posterior", None), Posterior)


def posterior_of(given: Any) -> Posterior:
    """Return the given posterior, or that of the given learner."""
    posterior = given if isinstance(given, Posterior) else getattr(given, "posterior", None)
    if not isinstance(posterior, Posterior):
        raise TypeError(
            f"prior must be the posterior of another fit, or its learner, got "
            f"{type(given).__name__}"
        )
    return posterior


def transferred_normal_prior(
    given: Any, shapes: Shapes, reinit: Collection[str], prior_scale: float, sigma: float = 1.0
) -> NormalEach:
    """Return a prior over all weights as a flat vector; reinitialized ones are ``N(0,
    sigma^2)``.
    """
    prior = TransferredPrior.of(given, shapes, reinit, prior_scale)
    assert prior.gaussians is not None
    locs, sigmas = [], []
    for name, shape in shapes.items():
        size = shape.numel()
        zero, wide = torch.zeros(size), torch.full((size,), sigma**2)
        loc, variance = prior.gaussians.get(name, (zero, wide))
        locs.append(loc.detach().cpu().reshape(-1).double())
        sigmas.append(variance.detach().cpu().reshape(-1).double().sqrt())
    return NormalEach(torch.cat(locs), torch.cat(sigmas))


def _matching(posterior: Posterior, name: str, shape: torch.Size) -> tuple[Tensor, Tensor]:
    theirs = posterior.shapes.get(name)
    if theirs != shape:
        found = (
            "is not in the prior" if theirs is None else f"has shape {tuple(theirs)} in the prior"
        )
        raise ValueError(
            f"the prior belongs to another network: {name} {found}, expected {tuple(shape)}; to "
            f"initialize this part at random, use reinit=[{name.rpartition('.')[0]!r}]"
        )
    loc, variance = posterior[name].loc.detach(), posterior[name].variance.detach()
    if not bool((variance > 0).any()):
        raise ValueError(
            f"the prior is a point estimate: {name} has variance 0, so it could not be trained; "
            f"TAGI(net, init='net') starts from weights without variance"
        )
    if not bool(torch.isfinite(loc).all() and torch.isfinite(variance).all()):
        raise ValueError(f"the prior has NaN or infinite values for {name}")
    return loc, variance


def _numbers(given: dict[str, Any], expected: Shapes) -> dict[str, float]:
    """Return the variances in a file, checked."""
    variance = given.get("variance")
    if given.get("name") != NAME or not isinstance(variance, dict) or list(variance) != [*expected]:
        raise ValueError("the file does not contain its prior: pass load(path, prior=...)")
    for name, number in variance.items():
        if isinstance(number, bool) or not isinstance(number, int | float) or not number > 0:
            raise ValueError(
                f"the prior variance of {name} in the file is not positive: {number!r}"
            )
    return {name: float(number) for name, number in variance.items()}
