"""The local reparameterization trick: sample a layer's outputs instead of its weights.

A ``Local`` is a Gaussian parameter.  In a linear or convolutional layer it gives a *sample* of the
output, with noise of its own for every row of the batch (eqs. 16 to 18):

    b = gamma + sqrt(delta) zeta        gamma = a mu        delta = a^2 sigma^2

In any other function it is replaced by one draw of itself, the same wherever it is used; and so it
is where no layer can be seen with all its rows: inside ``torch.func.vmap`` and its kin, and in
TorchScript.

Exact: the distribution of each output of a layer whose weights are used once per row; and of all
outputs together, where weights are drawn.
Approximate: where a layer is used several times in one pass, its outputs are drawn independently.

Source: Kingma, Salimans & Welling, "Variational dropout and the local reparameterization trick"
(2015); "Weight uncertainty in neural networks" (a replication), section 2.5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._C import (  # torch has no public names for the last two
    DisableTorchFunctionSubclass,
    _DisableFuncTorch,
    _functorch,
)
from torch.utils._pytree import tree_map

Noise = Callable[[torch.Size], Tensor]

_LAYERS = {
    F.linear, F.conv1d, F.conv2d, F.conv3d,
    F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d,
}  # fmt: skip
_FORM = {
    *(getattr(Tensor, name).__get__ for name in ("shape", "dtype", "device", "ndim", "layout")),
    *(Tensor.size, Tensor.dim, Tensor.numel, Tensor.stride, Tensor.__len__),
    *(Tensor.is_floating_point, Tensor.is_complex),
}
"""Attributes and methods of a parameter that need no sample of it."""


class Local(Tensor):
    """A parameter ``N(loc, variance)`` whose layers are sampled at their outputs."""

    loc: Tensor
    variance: Tensor
    noise: Noise
    drawn: list[Tensor]
    """Noise of the layers that the parameter was used in, in this pass."""
    _draw: Tensor | None

    @classmethod
    def wrap(cls, loc: Tensor, variance: Tensor, noise: Noise) -> Local:
        """Return a parameter that draws standard normals from ``noise``."""
        self = Tensor._make_wrapper_subclass(  # noqa: SLF001  (torch has no public name)
            cls, loc.shape, strides=loc.stride(), dtype=loc.dtype, device=loc.device
        )
        self.loc, self.variance, self.noise, self._draw = loc, variance, noise, None
        self.drawn = []
        return self

    def draw(self) -> Tensor:
        """Return a sample of the parameter, the same at every call."""
        if self._draw is None:
            with _DisableFuncTorch():  # one for all rows of a vmap, and valid after it
                self._draw = self.loc + self.variance.sqrt() * self.noise(self.loc.shape)
        return self._draw

    def noise_of_layer(self, shape: torch.Size) -> Tensor:
        """Return noise for the outputs of a layer, the same if a backward pass repeats the layer.

        ``torch.utils.checkpoint`` does: then a layer must have been used but once.
        """
        if torch._C._current_graph_task_id() == -1:  # noqa: SLF001  (no backward pass; no public name)
            self.drawn.append(self.noise(shape))
        elif len(self.drawn) != 1:
            raise TypeError(
                "estimator='local' cannot repeat the noise of a checkpointed layer that is used "
                "twice: use estimator='weights', or no checkpoint"
            )
        return self.drawn[-1]

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        """Both moments."""
        return f"Local(loc={self.loc}, variance={self.variance})"

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Sample the output of a layer; other functions receive a sample of the parameter."""
        kwargs = kwargs or {}
        if func in _LAYERS and _functorch.maybe_current_level() is None:
            sampled = _layer(func, *args, **kwargs)
            if sampled is not None:
                return sampled
        if func in _FORM:
            with DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        args, kwargs = tree_map(lambda a: a.draw() if isinstance(a, Local) else a, (args, kwargs))
        with DisableTorchFunctionSubclass():
            return func(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Raise an error: no kernel may receive the parameter itself."""
        raise NotImplementedError(  # a TypeError would be lost where Python tries the other operand
            f"estimator='local' cannot give a parameter to {func}, called from below torch's "
            f"Python functions, as where it is an argument of torch.func.vmap or its kin: use "
            f"estimator='weights'"
        )


def _layer(
    func: Any, input: Tensor, weight: Tensor, bias: Tensor | None = None, *args: Any, **kwargs: Any
) -> Tensor | None:
    """Return a sample of a layer's output; None unless only the weight is such a parameter."""
    if not isinstance(weight, Local) or isinstance(input, Local):
        return None
    mean, variance = (bias.loc, bias.variance) if isinstance(bias, Local) else (bias, None)
    gamma = func(input, weight.loc, mean, *args, **kwargs)  # eq. (17)
    delta = func(input * input, weight.variance, variance, *args, **kwargs)  # eq. (18)
    zeta = weight.noise_of_layer(gamma.shape)
    return _Perturb.apply(gamma, delta, zeta)  # eq. (16)


class _Perturb(torch.autograd.Function):
    """Compute ``gamma + sqrt(delta) zeta``, with derivative zero where ``delta`` is zero.

    (The source adds 1e-32 to ``delta`` instead, which float32 then divides by.)
    """

    @staticmethod
    def forward(ctx: Any, gamma: Tensor, delta: Tensor, zeta: Tensor) -> Tensor:
        ctx.save_for_backward(delta, zeta)
        # Rounding in a convolution may leave a zero slightly negative.
        return torch.addcmul(gamma, delta.clamp_min(0).sqrt_(), zeta)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        delta, zeta = ctx.saved_tensors
        if torch.is_grad_enabled():  # the network itself holds a gradient: this is part of it
            spread = delta > 0
            slope = zeta / (2 * torch.where(spread, delta, 1).sqrt())
            return g, torch.where(spread, slope, 0) * g, None
        std = delta.clamp_min(0).sqrt_()
        slope = (zeta / (2 * std)).masked_fill_(std == 0, 0)
        return g, slope.mul_(g), None
