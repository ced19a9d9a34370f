"""Which torch functions a network calls on Gaussians, and how their moments are found.

The network is run once, with a Gaussian for every parameter, as ``TAGI`` runs it.  A function
without a moment rule is noted, and its value at the means is used to go on; so all of them are
found at once, before any training.

Exact: what is called, how often, and whether messages reach every parameter, for these inputs.
Approximate: a branch that other inputs would take is not seen; the warnings say what is known to
be off, not by how much in this network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from tractable.errors import InvalidInput, NoMomentRule
from tractable.gaussian import Gaussian, find_rule
from tractable.learners.network.functional import Network
from tractable.learners.network.module_copy import refuse_scripted
from tractable.rules.activation import Mode, activation_moments
from tractable.torch_functions import function_name
from tractable.training.data import TensorFormat
from tractable.training.inputs import Inputs

Kind = Literal["exact", "linearized", "automatic", "own", "none"]
KINDS: tuple[Kind, ...] = ("exact", "linearized", "automatic", "own", "none")

_EXACT = """
    structural bilinear arithmetic reduction embedding pool einsum interpolation
""".split()
"""Modules of rules whose moments are exact for independent entries."""
_AUTOMATIC = ("fallback", "linearized")
_CLOSED = ("relu", "leaky_relu", "abs", "absolute", "exp", "sin", "cos")
"""Activations with a closed form in the mode ``"exact"``."""
_QUOTIENTS = ("div", "divide", "true_divide", "truediv", "rtruediv", "rdiv")
_VARIANCE = 1e-2  # of the parameters; what is called does not depend on it


@dataclass(frozen=True)
class CoveredFunction:
    """A torch function that a network calls on Gaussians.

    Attributes:
        name: what torch calls it.
        calls: how often.
        kind: ``"exact"`` (for independent arguments), ``"linearized"`` (a rule with its tangent at
            the means), ``"automatic"`` (the same, by autograd, or by running its parts), ``"own"``
            (a rule that was registered outside of the library) or ``"none"``.
    """

    name: str
    calls: int
    kind: Kind


@dataclass(frozen=True, repr=False)
class Coverage:
    """The result of ``coverage``; true if the network can be trained in closed form.

    Attributes:
        functions: the torch functions called on Gaussians, most often called first.
        warnings: where the variance is known to be off.
        unreached: parameters that no message reaches, so that they would never learn.
    """

    functions: tuple[CoveredFunction, ...]
    warnings: tuple[str, ...] = ()
    unreached: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of the functions without a rule."""
        return tuple(found.name for found in self.functions if found.kind == "none")

    @property
    def complete(self) -> bool:
        """Whether every function has a moment rule, and messages reach every parameter."""
        return not self.missing and not self.unreached

    def __bool__(self) -> bool:
        """Return whether the coverage is complete."""
        return self.complete

    def table(self) -> str:
        """Return the functions as lines of text."""
        rows = [("function", "calls", "moments")]
        rows += [(f.name, str(f.calls), f.kind) for f in self.functions]
        widths = [max(len(row[i]) for row in rows) for i in range(2)]
        return "\n".join(f"{a:{widths[0]}}  {b:>{widths[1]}}  {c}" for a, b, c in rows)

    def words(self) -> list[str]:
        """Return the remarks beside the table, one sentence each."""
        statements = [f"no moment rule for {', '.join(self.missing)}"] if self.missing else []
        if self.unreached:
            statements.append(f"no message reaches {', '.join(self.unreached)}")
        if not statements:
            statements.append(
                "every function has a moment rule, and messages reach every parameter"
            )
        return [*statements, *self.warnings]

    def __repr__(self) -> str:
        """Return the table and the remarks."""
        return "\n".join([self.table(), *(f"- {word}" for word in self.words())])


def coverage(net: nn.Module, x: Any, *, moments: Mode = "linear") -> Coverage:
    """List the torch functions of a network with the kind of their moment rules, before training.

    Args:
        net: any module; it is left as it is.
        x: some rows of inputs, as ``fit`` takes them.
        moments: how activations map mean and variance, as ``TAGI`` takes it.

    >>> net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
    >>> coverage(net, torch.zeros(4, 2))
    function  calls  moments
    linear        2  exact
    relu          1  linearized
    - every function has a moment rule, and messages reach every parameter
    """
    network = Network(net, torch.get_default_dtype(), torch.device("cpu"))
    refuse_scripted(network.module)
    format = TensorFormat.of(network.module, network.dtype, network.device)
    try:
        return _watched(network, format.inputs(x), moments)
    except (RuntimeError, IndexError, InvalidInput):
        if format.integers:
            raise
        return _watched(network, replace(format, integers=True).inputs(x), moments)


def _watched(network: Network, x: Inputs, moments: Mode) -> Coverage:
    own = {name: network.module.get_parameter(name).detach() for name in network.shapes}
    locs = {name: value.clone().requires_grad_() for name, value in own.items()}
    parameters = {
        name: Gaussian.wrap(loc, torch.full_like(loc, _VARIANCE, requires_grad=True))
        for name, loc in locs.items()
    }
    recorder = _FunctionRecorder(
        moments, {id(gaussian): name for name, gaussian in parameters.items()}
    )
    tensors: dict[str, Tensor] = {**parameters, **network.initial_buffers()}
    with torch.enable_grad(), network.holding(tensors), activation_moments(moments):
        with recorder:
            z = network.run(x, train=True)
        reached = _reached(z, locs)
    counts = sorted(recorder.calls.items(), key=lambda item: (-item[1], item[0]))
    functions = tuple(CoveredFunction(name, calls, recorder.kinds[name]) for name, calls in counts)
    unreached = tuple(name for name in locs if name not in reached)
    return Coverage(functions, tuple(recorder.warnings()), unreached)


def _reached(z: Any, locs: dict[str, Tensor]) -> set[str]:
    """Return the parameters that a message from the output reaches."""
    if not isinstance(z, Gaussian) or not z.loc.requires_grad:
        return set()
    found = torch.autograd.grad(
        [z.loc, z.variance], list(locs.values()),
        [torch.ones_like(z.loc), torch.zeros_like(z.variance)], allow_unused=True,
    )  # fmt: skip
    return {name for name, message in zip(locs, found, strict=True) if message is not None}


@dataclass
class _FunctionRecorder(TorchFunctionMode):
    """Records torch functions called on Gaussians, and continues at the means without a rule.

    Attributes:
        moments: as of ``coverage``.
        parameters: names of the parameters by the identity of their Gaussians.
        calls: number of calls of each function.
        kinds: how each finds its moments; the worst, if that depends on its arguments.
        uses: number of functions that took each parameter.
        odd: what is known to be off.
    """

    moments: Mode
    parameters: dict[int, str]
    calls: Counter[str] = field(default_factory=Counter)
    kinds: dict[str, Kind] = field(default_factory=dict)
    uses: Counter[str] = field(default_factory=Counter)
    odd: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        gaussians = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Gaussian)]
        if not gaussians:
            return func(*args, **kwargs)
        try:
            found = func(*args, **kwargs)
        except NoMomentRule:
            found = _at_the_means(func, args, kwargs, gaussians)
            self._note(func, "none", gaussians)
            return found
        if any(isinstance(leaf, Tensor) for leaf in tree_leaves(found)):
            self._note(func, _kind(func, args, self.moments), gaussians)
            self.odd.update(dict.fromkeys(_odd(_plain(func), args, self.moments)))
        return found

    def _note(self, func: Any, kind: Kind, gaussians: list[Gaussian]) -> None:
        name = _plain(func)
        self.calls[name] += 1
        before = self.kinds.get(name, "exact")
        self.kinds[name] = max(before, kind, key=KINDS.index)
        self.uses.update({self.parameters[id(g)] for g in gaussians if id(g) in self.parameters})

    def warnings(self) -> Iterable[str]:
        """Yield known inaccuracies, one sentence each."""
        yield from self.odd
        again = [name for name, uses in self.uses.items() if uses > 1]
        if again:
            yield (
                f"used more than once: {', '.join(again)}; the uses of a weight count as "
                f"independent, and the variance may be off by a half either way"
            )


def _at_the_means(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], gaussians: list[Gaussian]
) -> Any:
    """Return the value of a function at the means, as Gaussians without variance."""
    nothing = sum(0 * gaussian.variance.sum() for gaussian in gaussians)
    args, kwargs = tree_map(lambda a: a.loc if isinstance(a, Gaussian) else a, (args, kwargs))

    def wrapped(value: Any) -> Any:
        if not isinstance(value, Tensor) or not (value.is_floating_point() or value.is_complex()):
            return value
        return Gaussian.wrap(value, torch.zeros_like(value) + nothing)

    return tree_map(wrapped, func(*args, **kwargs))


def _kind(func: Any, args: tuple[Any, ...], moments: Mode) -> Kind:
    rule, name = find_rule(func), _plain(func)
    home, _, module = getattr(rule, "__module__", "").rpartition(".")
    if home != "tractable.rules":
        return "automatic" if home in ("torch", "torch.nn") else "own"
    if module in _AUTOMATIC:
        return "automatic"
    if module == "activation":
        return "exact" if moments == "exact" and name in _CLOSED else "linearized"
    tangent = (
        "max" in name
        or (name in _QUOTIENTS and isinstance(args[1], Gaussian))
        or (name == "pow" and args[1] not in (1, 2))
    )
    return "exact" if module in _EXACT and not tangent else "linearized"


def _plain(func: Any) -> str:
    """Return the name of a function, for operators without underscores."""
    name = function_name(func)
    return name.strip("_") if name.startswith("__") else name


def _odd(name: str, args: tuple[Any, ...], moments: Mode) -> Iterable[str]:
    """Yield known inaccuracies of a call, one sentence each."""
    x = args[0] if args else None
    features = name == "sum" and args[1:2] == (-1,)  # as a softmax by hand sums them
    pooled = "avg_pool" in name or (name in ("mean", "sum") and not features)
    if pooled and isinstance(x, Gaussian) and x.ndim > 2 and x.shared is None:
        yield (
            f"{name} over positions that share weights: they count as independent, and the "
            f"variance comes out too small (0.2 to 0.7 of the true one after convolutions)"
        )
    if name in _QUOTIENTS and isinstance(args[1], Gaussian):
        yield (
            f"{name} of one Gaussian by another: they count as independent; of a softmax by hand "
            f"(exp over its sum) the variance is 1.6 to 5 times too large"
        )
    if name in ("sin", "cos") and moments == "linear":
        yield f"{name} by its tangent has no bound: use moments='exact'"
