"""What happens to an ``autograd.Function`` of the user's own that meets a Gaussian.

Torch runs its forward without a graph and takes its backward for the gradient.  That backward knows
nothing of moments, so no message would pass, and nothing below would learn: in silence.  So, where
messages are wanted, the first call of a Function compares its backward with the derivative of its
forward, at the means.  If they are the same, the rules of what its forward calls carry the
messages; a Function with another backward (a straight-through estimator, reversed gradients) is
refused by name.

Exact: nothing is added to what the rules of the forward are exact in.
Approximate: the comparison is made once, for the first arguments seen.
"""

from __future__ import annotations

import inspect
from types import FrameType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from tractable.errors import NoMomentRule
from tractable.gaussian import Gaussian

_APPLY = inspect.unwrap(torch.autograd.Function.apply.__func__).__code__  # type: ignore[attr-defined]
_agrees: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


def passes_messages() -> bool:
    """Whether we are inside a Function that lets messages through; raise if it would cut them."""
    frame = _applied()
    if frame is None:
        return False
    kind, args = frame.f_locals["cls"], frame.f_locals["args"]
    if kind not in _agrees:
        _agrees[kind] = kind.__name__ == "CheckpointFunction" or _same(kind, args)
    if _agrees[kind]:
        return True
    raise NoMomentRule(
        f"no moment rule for {kind.__name__!r}, an autograd.Function whose backward is not the "
        "derivative of its forward: messages would be cut. Call torch functions in its place"
    )


def enclosing_function() -> Any:
    """The Function whose forward is running, or None."""
    frame = _applied()
    return None if frame is None else frame.f_locals["cls"]


def _applied() -> FrameType | None:
    """The innermost call of a Function that we are inside."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code is not _APPLY:
        frame = frame.f_back
    return frame


def _same(kind: Any, args: tuple[Any, ...]) -> bool:
    """Whether backward is the derivative of forward, for these arguments."""
    _agrees[kind] = True  # while it is asked
    try:
        by_backward, by_forward = (_gradients(run, args) for run in (kind.apply, _forward(kind)))
    except Exception:  # whatever a user's function may raise
        return False
    pairs = zip(by_backward, by_forward, strict=True)
    return all(torch.allclose(a, b, rtol=1e-3, atol=1e-5) for a, b in pairs)


def _forward(kind: Any) -> Any:
    if kind.setup_context is not torch.autograd.Function.setup_context:
        return kind.forward

    def nothing(*args: Any) -> None: ...

    context = SimpleNamespace(
        save_for_backward=nothing,
        save_for_forward=nothing,
        mark_dirty=nothing,
        mark_non_differentiable=nothing,
        set_materialize_grads=nothing,
        needs_input_grad=(True,) * 99,
    )
    return lambda *args: kind.forward(context, *args)


def _gradients(run: Any, args: tuple[Any, ...]) -> list[Tensor]:
    values = [a.loc.detach().clone() if isinstance(a, Gaussian) else a for a in args]
    leaves = [v.requires_grad_() for v, a in zip(values, args, strict=True) if v is not a]
    with torch.enable_grad():
        z = run(*(v.clone() if isinstance(v, Tensor) else v for v in values))
        z = z[0] if isinstance(z, tuple) else z
        d = torch.linspace(1, 2, z.numel(), dtype=z.dtype, device=z.device).reshape(z.shape)
        found = torch.autograd.grad(z, leaves, d, allow_unused=True)
    return [torch.zeros_like(v) if g is None else g for g, v in zip(found, leaves, strict=True)]
