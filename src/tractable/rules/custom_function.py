"""Calls of a user's ``autograd.Function`` with Gaussian arguments.

Torch runs the forward of such a function without a graph and uses its backward for the gradient.
That backward knows nothing about moments, so that no message would pass, silently.  Therefore,
where messages are required, the first call of a function compares its backward with the
derivative of its forward, at the means.  If they agree, the messages pass through the rules of the
functions that its forward calls.  Otherwise (a straight-through estimator, reversed gradients) an
error names the function.

Exact: nothing is added to what the rules of the forward are exact in.
Approximate: the comparison is made once, for the first arguments.
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
    """Return whether the call is inside an ``autograd.Function`` that messages can pass through.

    Raises:
        NoMomentRule: it is inside a function whose backward is not the derivative of its forward.
    """
    frame = _apply_frame()
    if frame is None:
        return False
    kind, args = frame.f_locals["cls"], frame.f_locals["args"]
    if kind not in _agrees:
        _agrees[kind] = kind.__name__ == "CheckpointFunction" or _backward_is_derivative(kind, args)
    if _agrees[kind]:
        return True
    raise NoMomentRule(
        f"no moment rule for {kind.__name__!r}, an autograd.Function whose backward is not the "
        "derivative of its forward, so that messages cannot pass: call torch functions instead"
    )


def enclosing_function() -> Any:
    """Return the ``autograd.Function`` whose forward is running, or None."""
    frame = _apply_frame()
    return None if frame is None else frame.f_locals["cls"]


def _apply_frame() -> FrameType | None:
    """Return the frame of the innermost running ``autograd.Function.apply``."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code is not _APPLY:
        frame = frame.f_back
    return frame


def _backward_is_derivative(kind: Any, args: tuple[Any, ...]) -> bool:
    """Return whether backward is the derivative of forward, for these arguments."""
    _agrees[kind] = True  # so that the calls below pass
    try:
        by_backward, by_forward = (_gradients(run, args) for run in (kind.apply, _forward(kind)))
    except Exception:  # a user's function may raise anything
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
