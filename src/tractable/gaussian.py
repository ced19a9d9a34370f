"""The tensor type ``Gaussian`` and the table of moment rules.

``Gaussian`` is a subclass of ``torch.Tensor``, so ``torch.func.functional_call`` accepts it as a
parameter, and an unchanged ``nn.Module`` computes with it: each torch function that the module
calls arrives in ``__torch_function__``, which looks up the *moment rule* of the function.  A rule
takes the arguments of the torch function and returns the Gaussian of its result.
"""

from __future__ import annotations

import functools
import importlib
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch._C import DisableTorchFunctionSubclass

from tractable.errors import NoMomentRule, close_names
from tractable.torch_functions import METADATA, function_name, normalize_keywords

if TYPE_CHECKING:
    from tractable.rules.shared_variance import SharedVariance

Rule = Callable[..., Any]
View = Callable[[Tensor], Tensor]

_RULES: dict[Any, Rule] = {}
"""The moment rule of each torch function."""

_messages_required: ContextVar[bool] = ContextVar("require_messages", default=False)


@contextmanager
def require_messages(required: bool = True) -> Iterator[None]:
    """Within this block, a function through which messages cannot pass raises ``NoMomentRule``.

    Learning enters this block, prediction does not; see ``tractable.rules.custom_function``.

    Args:
        required: whether messages are required; False switches the check off inside a block.
    """
    token = _messages_required.set(required)
    try:
        yield
    finally:
        _messages_required.reset(token)


class Gaussian(Tensor):
    """Independent Gaussians ``N(loc, variance)``, one for each entry.

    The fields are called ``loc``, ``variance`` and ``stddev``, as in ``torch.distributions``,
    because ``Tensor.mean``, ``Tensor.var`` and ``Tensor.std`` are methods that modules call.

    Args:
        loc: means, a tensor of dtype float32 or float64.
        variance: variances, of the same shape, or a number or tensor that broadcasts to it; finite
            and not negative.

    >>> Gaussian(torch.tensor([1.0, 2.0]), 0.5) + 1
    Gaussian(loc=tensor([2., 3.]), variance=tensor([0.5000, 0.5000]))
    """

    loc: Tensor
    variance: Tensor
    shared: SharedVariance | None = None
    """Variance that the positions share, if known; see ``tractable.rules.shared_variance``."""
    view_origin: tuple[Gaussian, View] | None = None
    """For a view: its base, and the function that takes the view of a tensor."""
    views: list[tuple[weakref.ref[Gaussian], View]] | None = None
    """The views of this object, and the functions that take them."""

    @staticmethod
    def __new__(cls, loc: Tensor, variance: Tensor | float) -> Gaussian:
        """Check the moments and wrap them."""
        if type(loc) is not Tensor and not isinstance(loc, torch.nn.Parameter):
            raise TypeError(f"loc must be a torch.Tensor, got {type(loc).__name__}")
        if loc.dtype not in (torch.float32, torch.float64):
            raise TypeError(f"loc must have dtype float32 or float64, got {loc.dtype}")
        if isinstance(variance, Gaussian):
            raise TypeError("variance must be a number or a torch.Tensor, got Gaussian")
        variance = torch.as_tensor(variance, dtype=loc.dtype, device=loc.device)
        if variance.shape != loc.shape:
            try:
                variance = variance.expand(loc.shape).contiguous()
            except RuntimeError as error:
                raise ValueError(
                    f"variance has shape {tuple(variance.shape)}, which does not broadcast to the "
                    f"shape {tuple(loc.shape)} of loc"
                ) from error
        if not bool(torch.isfinite(loc).all()):
            raise ValueError("loc has NaN or infinite entries")
        if not bool((torch.isfinite(variance) & (variance >= 0)).all()):
            raise ValueError("variance has negative, NaN or infinite entries")
        return cls.wrap(loc, variance)

    def __init__(self, loc: Tensor, variance: Tensor | float) -> None:
        """Do nothing, because ``__new__`` has set the fields; it exists for the signature."""

    @classmethod
    def wrap(cls, loc: Tensor, variance: Tensor, shared: SharedVariance | None = None) -> Gaussian:
        """Return the Gaussian of moments that are known to be valid, without checks: for rules.

        Args:
            loc: means.
            variance: variances, of the same shape.
            shared: variance that positions share; see ``tractable.rules.shared_variance``.
        """
        self = Tensor._make_wrapper_subclass(  # noqa: SLF001  (torch has no public name)
            cls, loc.shape, strides=loc.stride(), dtype=loc.dtype, device=loc.device
        )
        self.loc = loc
        self.variance = variance
        self.shared = shared
        return self

    def with_moments(self, loc: Tensor, variance: Tensor) -> Gaussian:
        """Return the result of an elementwise function of this Gaussian, for rules.

        The variance that positions share is kept if the shape is, because a function that acts
        entry by entry does not change the share.

        Args:
            loc: means of the result.
            variance: variances of the result.
        """
        return Gaussian.wrap(loc, variance, self.shared if loc.shape == self.shape else None)

    @property
    def stddev(self) -> Tensor:
        """The standard deviations."""
        return self.variance.sqrt()

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        """Return both moments as torch prints tensors."""
        return f"Gaussian(loc={self.loc}, variance={self.variance})"

    def __format__(self, spec: str) -> str:
        """Format the representation; a number format does not apply to two moments."""
        return format(repr(self), spec)

    def register_as_view_of(self, base: Gaussian, view: View) -> Gaussian:
        """Register this object as ``view`` of ``base``, so that in-place changes reach both; return
        it.

        Args:
            base: the Gaussian that this is a view of.
            view: function from a tensor of the shape of ``base`` to its view.
        """
        self.view_origin = base, view
        if base.views is None:
            base.views = []
        base.views.append((weakref.ref(self), view))
        return self

    def assign_(self, other: Gaussian) -> Gaussian:
        """Replace the moments by those of ``other``, in this object, its base and its views.

        Raises:
            NoMomentRule: the shape differs, or this is an expanded view (one entry in several
                places).
        """
        if other.shape != self.shape:
            raise NoMomentRule(
                f"no moment rule for changing the shape of a Gaussian in place, from "
                f"{tuple(self.shape)} to {tuple(other.shape)}"
            )
        moments = other.loc.to(self.loc.dtype), other.variance.to(self.loc.dtype)
        if self.view_origin is None:
            self.set_moments(*moments, other.shared)
            return self
        base, view = self.view_origin
        entries = torch.arange(base.numel(), device=base.device).reshape(base.shape)
        entries = view(entries).reshape(-1)
        if entries.unique().numel() < entries.numel():
            raise NoMomentRule("no moment rule for changing an expanded Gaussian in place")
        base.assign_(
            Gaussian.wrap(
                _written(base.loc, entries, moments[0]),
                _written(base.variance, entries, moments[1]),
            )
        )
        return self

    def set_moments(
        self, loc: Tensor, variance: Tensor, shared: SharedVariance | None = None
    ) -> None:
        """Replace the moments in this object and its views.

        Args:
            loc: means.
            variance: variances.
            shared: variance that positions share.
        """
        self.loc, self.variance, self.shared = loc, variance, shared
        alive = []
        for reference, view in self.views or ():
            part = reference()
            if part is not None:
                part.set_moments(view(loc), view(variance))
                alive.append((reference, view))
        self.views = alive or None

    def __deepcopy__(self, memo: dict[int, Any]) -> Gaussian:
        """Return a copy that shares no memory, detached from any graph."""
        return Gaussian.wrap(self.loc.detach().clone(), self.variance.detach().clone())

    def __reduce_ex__(self, protocol: object) -> Any:
        """Pickle both moments."""
        return Gaussian.wrap, (self.loc.detach(), self.variance.detach())

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the moment rule of ``func``, or raise ``NoMomentRule``."""
        if kwargs and ("axis" in kwargs or "keepdims" in kwargs):
            kwargs = normalize_keywords(kwargs)
        rule = _RULES.get(func)
        if rule is None:
            if func in METADATA:
                with DisableTorchFunctionSubclass():
                    return func(*args, **(kwargs or {}))
            rule = _find_rule(func)
        if (
            not torch.is_grad_enabled()
            and _messages_required.get()
            and _rules_module("custom_function").passes_messages()
        ):
            with torch.enable_grad():
                return rule(*args, **(kwargs or {}))
        return rule(*args, **kwargs) if kwargs else rule(*args)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Raise ``NoMomentRule``: rules work on the moments, so no kernel gets a Gaussian."""
        raise NoMomentRule(
            f"no moment rule for {function_name(func)!r}, which was called from below the Python "
            f"functions of torch, for instance by torch.func.vmap. This is not supported for "
            f"Gaussians: write the network for a batch of rows, or use a learner that draws weights"
        )


def moment_rule(*functions: Any) -> Callable[[Rule], Rule]:
    """Register the decorated function as the moment rule of torch functions.

    The rule is called with the arguments of the torch function, any of which may be a ``Gaussian``,
    and returns a ``Gaussian``.  It replaces a rule that was registered before.

    Args:
        functions: the torch functions, for example ``torch.exp, torch.Tensor.exp``.

    >>> @moment_rule(torch.negative)
    ... def negative(x):
    ...     return Gaussian.wrap(-x.loc, x.variance)
    """
    if not functions:
        raise TypeError("moment_rule needs at least one torch function, got none")
    _fill_table()  # first, so that the rules of the library do not replace this one

    def register(rule: Rule) -> Rule:
        for function in functions:
            _RULES[function] = _in_place_if_asked(function, rule)
        return rule

    return register


def _in_place_if_asked(function: Any, rule: Rule) -> Rule:
    """Return the rule with support for the argument ``inplace`` of functions such as ``F.relu``."""
    code = getattr(function, "__code__", None)
    if code is None or "inplace" not in code.co_varnames[: code.co_argcount]:
        return rule
    position = code.co_varnames.index("inplace")

    @functools.wraps(rule)
    def run(*args: Any, **kwargs: Any) -> Any:
        inplace = kwargs.pop("inplace", False)
        if len(args) > position:
            args, inplace = args[:position], args[position]
        z = rule(*args, **kwargs)
        if inplace and isinstance(z, Gaussian) and z is not args[0]:
            return write_in_place(args[0], z)
        return z

    return run


def write_in_place(target: Tensor, value: Gaussian) -> Gaussian:
    """Write ``value`` into ``target``, which is seen under all its names, bases and views; return
    it.

    A plain tensor becomes a Gaussian, because modules of torch write states into tensors of zeros.

    Raises:
        NoMomentRule: ``target`` is a plain tensor that requires gradients or is not floating point.
    """
    if isinstance(target, Gaussian):
        return target.assign_(value)
    if type(target) is not Tensor or target.requires_grad or not target.is_floating_point():
        raise NoMomentRule(
            f"no moment rule for writing a Gaussian into a {type(target).__name__} of "
            f"{target.dtype}{' that requires gradients' if target.requires_grad else ''}"
        )
    base = target._base  # noqa: SLF001  (torch has no public name)
    if base is not None:
        entries = torch.arange(base.numel(), device=base.device).as_strided(
            target.shape, target.stride(), target.storage_offset() - base.storage_offset()
        )
        zeros = torch.zeros_like(base)
        _convert(
            base,
            _written(base.clone(), entries.reshape(-1), value.loc.to(base.dtype)),
            _written(zeros, entries.reshape(-1), value.variance.to(base.dtype)),
        )
    return _convert(target, value.loc.to(target.dtype), value.variance.to(target.dtype))


def _convert(plain: Tensor, loc: Tensor, variance: Tensor) -> Gaussian:
    plain.loc, plain.variance = loc, variance  # type: ignore[attr-defined]
    plain.__class__ = Gaussian
    return plain  # type: ignore[return-value]


def _written(tensor: Tensor, entries: Tensor, values: Tensor) -> Tensor:
    """Return a copy of ``tensor`` with ``values`` at flat positions ``entries``."""
    flat = tensor.reshape(-1).index_put((entries,), values.reshape(-1))
    return flat.reshape(tensor.shape)


def functions_with_rule() -> list[str]:
    """Return the names of the torch functions that have a moment rule, sorted."""
    _fill_table()
    return sorted({function_name(function) for function in _RULES})


def find_rule(function: Any) -> Rule | None:
    """Return the moment rule of a torch function, or None.

    A function without a rule in the table may get one automatically, see
    ``tractable.rules.fallback``.
    """
    _fill_table()
    rule = _RULES.get(function)
    if rule is None:
        rule = _rules_module("fallback").automatic_rule(function)
        if rule is not None:
            rule = _RULES[function] = _in_place_if_asked(function, rule)
    return rule


def _find_rule(function: Any) -> Rule:
    rule = find_rule(function)
    if rule is None:
        raise NoMomentRule(_no_rule_message(function))
    return rule


def _fill_table() -> None:
    """Import the rules of the library, which registers them."""
    importlib.import_module("tractable.rules")


def _rules_module(name: str) -> Any:
    """Return a module of ``tractable.rules``, imported late because it imports this one."""
    return importlib.import_module(f"tractable.rules.{name}")


def _no_rule_message(function: Any) -> str:
    name = function_name(function)
    similar = close_names(name.strip("_"), functions_with_rule())
    hint = f" Functions with a similar name that have one: {', '.join(similar)}." if similar else ""
    caller = _rules_module("custom_function").enclosing_function()
    where = f", which the autograd.Function {caller.__name__!r} calls" if caller else ""
    return (
        f"no moment rule for {name!r}{where}.{hint} Register one with "
        f"@tractable.moment_rule(...): see 'How to write a moment rule' in docs/developer/rule.md"
    )
