"""The mean-field Gaussian posterior of the parameters of a module.

All parameters are in two flat vectors, ``loc`` and ``variance``, which are changed in place, so
that an update takes a few operations for any number of layers.  Names give views into them.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor, nn
from typing_extensions import override

from tractable.gaussian import Gaussian

Scheme = Literal["lecun", "he", "xavier"]
SCHEMES: tuple[Scheme, ...] = ("lecun", "he", "xavier")


_REFERENCE_WEIGHTS = 5000
"""Weights of a matrix that has the ``prior_variance_ratio`` r itself, if ``scale_by_layer_size``.

A layer that adds ``s = r k`` to the variance of an output moves by ``v g`` when that output is
observed, relative to its size by ``r sqrt(k / n)`` times the message (from ``sum_w v g^2 = s d^2``,
with n equal weights): with one ``r`` for all, a large layer hardly learns beside a small one.
"""


class Posterior(Mapping[str, Gaussian]):
    """Independent Gaussians of named parameters; ``posterior[name]`` is a ``Gaussian``.

    All means and all variances are in two flat vectors, which learners change in place.

    Args:
        shapes: shape of each parameter, in the order of the module.
        loc: means of all parameters, flat, in that order.
        variance: variances of all parameters, flat.
        prior_variance: prior variance of each parameter, one number per name.
    """

    def __init__(
        self,
        shapes: dict[str, torch.Size],
        loc: Tensor,
        variance: Tensor,
        prior_variance: dict[str, float],
    ) -> None:
        self.shapes = shapes
        self.loc = loc
        self.variance = variance
        self.prior_variance = prior_variance

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without ``leaves``: unpickled views would not share their vector."""
        kept = ("shapes", "loc", "variance", "prior_variance")
        return {name: self.__dict__[name] for name in kept}

    # --- parameters by name ------------------------------------------------------------------

    def __getitem__(self, name: str) -> Gaussian:
        """Return the Gaussian of one parameter, as views that follow later updates."""
        if name not in self.shapes:
            raise KeyError(f"no parameter {name!r}; there are {', '.join(self.shapes)}")
        index = list(self.shapes).index(name)
        return Gaussian.wrap(self.split(self.loc)[index], self.split(self.variance)[index])

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self.shapes)

    @override
    def __len__(self) -> int:
        return len(self.shapes)

    def split(self, flat: Tensor) -> list[Tensor]:
        """Return views of a flat vector, one for each parameter, in its shape.

        Args:
            flat: values of all parameters, ``[n_parameters]``.
        """
        return views(flat, self.shapes)

    def gaussians(self) -> dict[str, Gaussian]:
        """Return all parameters by name, as ``torch.func.functional_call`` takes them."""
        parts = zip(self.shapes, self.split(self.loc), self.split(self.variance), strict=True)
        return {name: Gaussian.wrap(loc, variance) for name, loc, variance in parts}

    def means(self) -> dict[str, Tensor]:
        """Return the mean of each parameter by name."""
        return dict(zip(self.shapes, self.split(self.loc), strict=True))

    def snr(self) -> dict[str, Tensor]:
        """Return the signal-to-noise ratio ``|mean| / std`` of each parameter by name."""
        ratio = self.loc.abs() / self.variance.sqrt()
        return dict(zip(self.shapes, self.split(ratio), strict=True))

    # --- samples and point estimates ---------------------------------------------------------

    def sample(
        self, n_samples: int = 1, generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        """Return samples of all parameters by name, each ``[n_samples, *shape]``.

        Args:
            n_samples: number of samples.
            generator: random number generator on the device of the posterior.  Default: the
                global generator of torch.
        """
        shape = (n_samples, len(self.loc))
        noise = torch.randn(
            shape, generator=generator, dtype=self.loc.dtype, device=self.loc.device
        )
        flat = self.loc + self.variance.sqrt() * noise
        sizes = [shape.numel() for shape in self.shapes.values()]
        parts = zip(self.shapes.items(), flat.split(sizes, 1), strict=True)
        return {name: part.reshape(n_samples, *shape) for (name, shape), part in parts}

    def iter_samples(
        self, n_samples: int, generator: torch.Generator
    ) -> Iterator[dict[str, Tensor]]:
        """Yield samples of all parameters by name, one after the other to bound the memory.

        Args:
            n_samples: number of samples.
            generator: random number generator on the CPU.
        """
        std = self.variance.sqrt()
        for _ in range(n_samples):
            eps = torch.randn(std.shape, generator=generator, dtype=std.dtype).to(std.device)
            flat = torch.addcmul(self.loc, std, eps)
            yield dict(zip(self.shapes, self.split(flat), strict=True))

    def to_module(self, net: nn.Module) -> nn.Module:
        """Return a copy of ``net`` whose parameters are the posterior means.

        A posterior contains parameters only.  ``Learner.mean_module`` also copies the buffers that
        were learned, such as the running statistics of batch normalization.

        Raises:
            TypeError: ``net`` has buffers, whose values are not those that the learner uses.
        """
        buffers = [name for name, _ in net.named_buffers()]
        if buffers:
            shown = ", ".join(buffers[:3]) + (", ..." if len(buffers) > 3 else "")
            raise TypeError(
                f"the network has buffers ({shown}), but a posterior contains parameters only: use "
                f"mean_module() of the learner, which copies its running statistics as well"
            )
        module = copy.deepcopy(net)
        named = dict(module.named_parameters())
        with torch.no_grad():
            for name, mean in self.means().items():
                named[name].copy_(mean)
        return module

    # --- pruning -----------------------------------------------------------------------------

    def pruning_mask(self, fraction: float, *, per_layer: bool = False) -> Tensor:
        """Return which entries remain when ``fraction`` of them is pruned, flat, as booleans.

        The entries with the smallest signal-to-noise ratio ``|mean| / std`` are pruned first;
        without any variance, those with the smallest mean.

        Args:
            fraction: share of the entries to prune, from 0 to 1.
            per_layer: prune this share of each parameter, rather than of all together.
        """
        if not 0 <= fraction <= 1:
            raise ValueError(f"fraction must lie between 0 and 1, got {fraction}")
        constant = self.variance == 0
        # Constants rank above all uncertain entries (zeros below them), in the order of their size.
        size = self.loc.abs()
        ratio = torch.where(constant, size, size / self.variance.sqrt().clamp_min(1e-30))
        if bool(constant.any()) and not bool(constant.all()):
            top = ratio[~constant].max()
            ratio = torch.where(constant & (size > 0), top + size, torch.where(constant, -1, ratio))
        mask = torch.ones_like(ratio, dtype=torch.bool)
        parts = [(ratio, mask)]
        for part, left in zip(*map(self.split, parts[0]), strict=True) if per_layer else parts:
            count = round(fraction * part.numel())
            if count:
                # A stable sort, so that exactly this many are pruned in case of ties.
                left.view(-1)[part.flatten().argsort(stable=True)[:count]] = False
        return mask

    def pruned(self, fraction: float, *, per_layer: bool = False) -> Posterior:
        """Return a copy in which ``fraction`` of the entries is zero, with zero variance.

        Args:
            fraction: share of the entries to prune, from 0 to 1.
            per_layer: prune this share of each parameter, rather than of all together.
        """
        mask = self.pruning_mask(fraction, per_layer=per_layer)
        return Posterior(self.shapes, self.loc * mask, self.variance * mask, self.prior_variance)

    def stored_bytes(self, *, sparse: bool = False) -> int:
        """Return the number of bytes of all means, and of all variances unless they are zero.

        Args:
            sparse: count nonzero entries only, plus one bit for each entry.
        """
        each = self.loc.element_size() * (2 if bool((self.variance > 0).any()) else 1)
        if not sparse:
            return each * self.loc.numel()
        nonzero = int(((self.loc != 0) | (self.variance > 0)).sum())
        return each * nonzero + -(-self.loc.numel() // 8)

    # --- memory for learners -----------------------------------------------------------------

    @cached_property
    def leaves(self) -> tuple[list[Tensor], list[Tensor]]:
        """Means and variances as leaves of an autograd graph, which receive messages."""
        locs = [part.detach().requires_grad_() for part in self.split(self.loc)]
        variances = [part.detach().requires_grad_() for part in self.split(self.variance)]
        return locs, variances

    @cached_property
    def scratch(self) -> Tensor:
        """A vector of the size of all parameters for intermediate results of updates."""
        return torch.empty_like(self.loc)

    @cached_property
    def flat_prior_variance(self) -> Tensor:
        """The prior variances as a flat vector."""
        parts = [
            self.loc.new_full((shape.numel(),), self.prior_variance[name])
            for name, shape in self.shapes.items()
        ]
        return torch.cat(parts)


def trainable_shapes(net: nn.Module) -> dict[str, torch.Size]:
    """Return the shape of each trainable parameter by name."""
    shapes = {}
    for name, parameter in net.named_parameters():
        if not parameter.requires_grad:
            continue
        if not parameter.is_floating_point():
            raise TypeError(f"parameter {name!r} is {parameter.dtype}, not floating point")
        shapes[name] = parameter.shape
    if not shapes:
        raise ValueError(
            "the network has no trainable parameters: set requires_grad=True for at least one"
        )
    return shapes


def flat(parts: list[Tensor]) -> Tensor:
    """Return the entries of all tensors in one vector."""
    return torch.cat([part.reshape(-1) for part in parts])


def views(vector: Tensor, shapes: Mapping[str, torch.Size]) -> list[Tensor]:
    """Return views of a flat vector, one for each parameter, in its shape."""
    sizes = [shape.numel() for shape in shapes.values()]
    parts = zip(vector.split(sizes), shapes.values(), strict=True)
    return [part.view(shape) for part, shape in parts]


def initial_posterior(
    net: nn.Module,
    *,
    scheme: Scheme,
    gain: float,
    generator: torch.Generator,
    dtype: torch.dtype,
    device: torch.device,
    prior_variance_ratio: float = 1.0,
    scale_by_layer_size: bool = False,
    kept: Mapping[str, float] | None = None,
    smaller: Mapping[str, float] | None = None,
) -> Posterior:
    """Return the prior of the trainable parameters of ``net``, with random initial means.

    The means of weights and biases are drawn with the variance ``gain`` times 1 / fan_in
    (``"lecun"``, as in the TAGI papers), 2 / fan_in (``"he"``) or 2 / (fan_in + fan_out)
    (``"xavier"``), and their variance is ``prior_variance_ratio`` times that: 1 as published, less
    for a network so deep that the variance would hide the signal.  Scales and offsets of
    normalization layers keep their means (1 and 0) and get the variance ``gain / 100`` times
    ``prior_variance_ratio``.  Embeddings have fan_in 1, and units of recurrent layers count their
    inputs and the previous state together.  Parameters with ``requires_grad=False`` are constants.

    With ``scale_by_layer_size``, a matrix of n weights has the ratio ``r sqrt(n / 5000)``; see
    ``_REFERENCE_WEIGHTS``.

    Args:
        net: the module.
        scheme: see above.
        gain: see above.
        generator: random number generator of the means.
        dtype: dtype of the posterior.
        device: device of the posterior.
        prior_variance_ratio: see above.
        scale_by_layer_size: see above.
        kept: parameters whose values in ``net`` are the means, with their variance ratios.
        smaller: parameters with smaller initial means, with the factors of their variance; their
            prior is as wide as that of others.
    """
    if scheme not in SCHEMES:
        raise ValueError(f"init must be one of {', '.join(SCHEMES)}; got {scheme!r}")
    for name, number in (("gain", gain), ("prior_variance_ratio", prior_variance_ratio)):
        if not (math.isfinite(number) and number > 0):
            raise ValueError(f"{name} must be a positive number, got {number}")
    shapes, named = trainable_shapes(net), dict(net.named_parameters())
    kept, smaller = kept or {}, smaller or {}
    locs: list[Tensor] = []
    prior: dict[str, float] = {}
    for name in shapes:
        parameter, fans = named[name], _fans(net, name)
        size = gain / 100 if fans is None else gain * _unit_variance(scheme, *fans)
        random = fans is not None and name not in kept
        mean = _initial_mean(parameter, size if random else None, generator, dtype)
        locs.append(mean * math.sqrt(smaller[name]) if name in smaller else mean)
        is_matrix = scale_by_layer_size and parameter.ndim > 1
        scale = math.sqrt(parameter.numel() / _REFERENCE_WEIGHTS) if is_matrix else 1.0
        prior[name] = size * kept.get(name, prior_variance_ratio) * scale
    loc = torch.cat(locs).to(device)
    posterior = Posterior(shapes, loc, torch.empty_like(loc), prior)
    posterior.variance = posterior.flat_prior_variance.clone()
    return posterior


def _initial_mean(
    parameter: Tensor, variance: float | None, generator: torch.Generator, dtype: torch.dtype
) -> Tensor:
    """Return random initial means with this variance, or the parameter itself, flat."""
    if variance is None:
        return parameter.detach().to("cpu", dtype).flatten()
    noise = torch.randn(parameter.numel(), generator=generator, dtype=dtype)
    return noise * math.sqrt(variance)


def _unit_variance(scheme: Scheme, fan_in: int, fan_out: int) -> float:
    if scheme == "he":
        return 2 / fan_in
    return 1 / fan_in if scheme == "lecun" else 2 / (fan_in + fan_out)


def is_scale(net: nn.Module, name: str) -> bool:
    """Return whether a parameter is a scale or offset, such as those of normalization layers."""
    return _fans(net, name) is None


def _fans(net: nn.Module, name: str) -> tuple[int, int] | None:
    """Return fan-in and fan-out of a weight or bias; None for scales and offsets."""
    owner_name, _, leaf = name.rpartition(".")
    owner = dict(net.named_modules())[owner_name]
    parameter = dict(net.named_parameters())[name]
    if isinstance(owner, nn.Embedding | nn.EmbeddingBag):
        return 1, 1
    if isinstance(owner, nn.RNNBase | nn.RNNCellBase) and "_hr" not in leaf:
        return _recurrent_fans(owner, leaf)
    own = not type(owner).__module__.startswith("torch.nn")
    if own and parameter.ndim > 2 and parameter.numel() == max(parameter.shape):
        return None  # one number for each channel, in a shape that broadcasts
    if parameter.ndim < 2:
        weight = getattr(owner, leaf.replace("bias", "weight"), None)
        if "bias" not in leaf or not isinstance(weight, Tensor) or weight.ndim < 2:
            return None
        parameter = nn.Parameter(weight)
    window = parameter.shape[2:].numel()
    outer, inner = parameter.shape[0] * window, parameter.shape[1] * window
    transposed = isinstance(owner, nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d)
    return (outer, inner) if transposed else (inner, outer)


def _recurrent_fans(owner: nn.Module, leaf: str) -> tuple[int, int]:
    """Return the fans of a recurrent layer: a unit sums its inputs and the previous state."""
    place = leaf.partition("_")[2].partition("_")[2]  # of "weight_ih_l0", "l0"
    names = [f"weight_{kind}{'_' if place else ''}{place}" for kind in ("ih", "hh")]
    inputs, hidden = (getattr(owner, name).shape[1] for name in names)
    return inputs + hidden, hidden
