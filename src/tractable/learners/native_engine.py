"""Which TAGI learners the compiled kernel can serve, and how they hand over to it.

The kernel changes the posterior's flat vectors and the likelihood's noise in place, so a model
is the same whichever engine taught it.  There is no mathematics here: the torch path defines it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tractable import native
from tractable.gaussian import Gaussian
from tractable.learners.cancellation import stop_if_cancelled
from tractable.likelihoods import Bernoulli, Categorical, Likelihood, Normal
from tractable.posterior import Posterior

if TYPE_CHECKING:
    from tractable.learners.tagi import TAGI

Engine = Literal["auto", "torch", "native"]
ENGINES: tuple[Engine, ...] = ("auto", "torch", "native")

# Where the kernel stops being faster than torch on one thread (benchmarks/native.py): in large
# batches BLAS wins, and outside of an epoch parameters are copied in and out at every call.
# Counted in parameters times rows of a batch, and in parameters.
_EPOCH_WORK = 1 << 24
_UPDATE_WORK, _UPDATE_PARAMETERS = 1 << 22, 1 << 18
_PREDICT_WORK, _PREDICT_PARAMETERS = 1 << 21, 1 << 17
# Rows whose outputs are drawn together: with more of them, drawing the weights costs less.
_DRAWN_TOGETHER = 8

_log = logging.getLogger("tractable")


class UnsupportedByKernel(ValueError):
    """Something that the compiled kernel does not do; ``engine="torch"`` does."""


def choose(learner: TAGI, engine: Engine) -> NativeEngine | None:
    """The kernel for this learner, or None for torch.

    Raises:
        UnsupportedByKernel: ``engine="native"`` and the kernel is missing or cannot serve.
    """
    if engine not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}; got {engine!r}")
    if engine == "torch":
        return None
    try:
        described = describe(learner)
    except UnsupportedByKernel:
        if engine == "native":
            raise
        return None
    if native.kernel() is None:
        if engine == "native":
            raise UnsupportedByKernel(f"engine='native': {_MISSING}")
        _notice()
        return None
    if engine == "auto":
        described.only_where_faster = True
        if not described.suits_epoch(1):
            return None
    return described


_MISSING = (
    "the compiled kernel is not installed (no C++ compiler when tractable was installed?); "
    "tractable.config.show() tells more"
)


@cache
def _notice() -> None:
    """Once per process, and through logging: a missing extra is no fault of the user's code."""
    _log.warning("small networks learn with torch, several times slower: %s", _MISSING)


# --- what a network is to the kernel -----------------------------------------------------------


@dataclass
class _Walk:
    """Layers met so far on the way through a network."""

    before: list[tuple[str, float]] = field(default_factory=list)
    layers: list[tuple[int, int, bool, list[tuple[str, float]]]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    flattens: bool = False

    def visit(self, module: nn.Module, name: str) -> None:
        what = f"{type(module).__name__} ({name or 'the network'})"
        if module._forward_hooks or module._forward_pre_hooks:
            raise UnsupportedByKernel(f"engine='native' runs no hooks, and {what} has some")
        if type(module) is nn.Sequential:
            # Not named_children, which would pass over a layer that is used twice.
            for child_name, child in module._modules.items():
                assert child is not None
                self.visit(child, f"{name}.{child_name}" if name else child_name)
        elif type(module) is nn.Linear:
            self._linear(module, name)
        elif type(module) in _ACTIVATIONS:
            slope = module.negative_slope if isinstance(module, nn.LeakyReLU) else 0.0
            steps = self.layers[-1][3] if self.layers else self.before
            steps.append((_ACTIVATIONS[type(module)], slope))
        elif isinstance(module, nn.Dropout) and self.layers:
            pass  # the weights are uncertain already: see tractable.rules.shape
        elif isinstance(module, nn.Flatten):
            if (module.start_dim, module.end_dim) != (1, -1):
                raise UnsupportedByKernel(f"engine='native' flattens rows only, not as {what}")
            self.flattens |= not self.layers
        elif type(module) is not nn.Identity:
            raise UnsupportedByKernel(
                f"engine='native' takes Linear layers and the activations identity, ReLU, "
                f"LeakyReLU, Tanh and Sigmoid in nn.Sequential; there is {what}"
            )

    def _linear(self, module: nn.Linear, name: str) -> None:
        if self.layers and self.layers[-1][1] != module.in_features:
            raise UnsupportedByKernel(
                f"layer {name} takes {module.in_features} inputs and gets {self.layers[-1][1]}"
            )
        biased = module.bias is not None
        self.layers.append((module.in_features, module.out_features, biased, []))
        prefix = f"{name}." if name else ""
        self.names += [f"{prefix}weight", f"{prefix}bias"] if biased else [f"{prefix}weight"]


_ACTIVATIONS: dict[type[nn.Module], str] = {
    nn.ReLU: "relu",
    nn.LeakyReLU: "leaky_relu",
    nn.Tanh: "tanh",
    nn.Sigmoid: "sigmoid",
}


def describe(learner: TAGI) -> NativeEngine:
    """The kernel's view of a learner.

    Raises:
        UnsupportedByKernel: names the first thing that the kernel does not do.
    """
    if learner.dtype != torch.float32 or learner.device.type != "cpu":
        raise UnsupportedByKernel(
            f"engine='native' computes in float32 on the CPU, not in {learner.dtype} on "
            f"{learner.device}"
        )
    if learner.compile:
        raise UnsupportedByKernel("compile=True asks for torch.compile: engine='native' has none")
    walk = _Walk()
    walk.visit(learner.net, "")
    if walk.names != list(learner.posterior.shapes):
        raise UnsupportedByKernel("engine='native' takes no frozen or shared parameters")
    activations = [*walk.before, *(step for layer in walk.layers for step in layer[3])]
    if learner.moments == "exact" and any("relu" in name for name, _ in activations):
        raise UnsupportedByKernel("engine='native' has moments='linear' only")
    arguments = {
        "before": walk.before,
        "layers": walk.layers,
        "rule": learner.batch_rule,
        **_observed(learner.likelihood, walk.layers[-1][1]),
    }
    return NativeEngine(arguments, walk.layers[0][0], walk.flattens)


def _observed(likelihood: Likelihood, outputs: int) -> dict[str, Any]:
    if type(likelihood) is Normal:
        if likelihood.outputs not in (1, outputs) or (
            likelihood.learns_noise and likelihood.outputs != outputs
        ):
            raise UnsupportedByKernel(
                f"the network has {outputs} outputs and the likelihood {likelihood.outputs}"
            )
        kind = "inferred" if likelihood.learns_noise else "normal"
        return {"likelihood": kind, "tree_noise": 1.0, "paths": None}
    if type(likelihood) is Bernoulli and outputs == 1:
        paths = torch.tensor([[-1], [1]], dtype=torch.int8)
        return {"likelihood": "probit_tree", "tree_noise": 1.0, "paths": paths.numpy()}
    if type(likelihood) is Categorical and likelihood.outputs == outputs:
        return {
            "likelihood": f"{likelihood.link}_tree",
            "tree_noise": likelihood._noise(),
            "paths": likelihood.paths.contiguous().numpy(),
        }
    raise UnsupportedByKernel(
        f"engine='native' takes Normal, Bernoulli and Categorical likelihoods that fit the "
        f"network, not {likelihood} with {outputs} outputs"
    )


Floats = NDArray[np.float32]
Outputs = Callable[[Floats], tuple[Floats, Floats]]


# --- running -----------------------------------------------------------------------------------


class NativeEngine:
    """Runs the kernel on a posterior and a likelihood; holds no state that is learnt.

    Args:
        arguments: of the kernel's constructor.
        inputs: number of inputs of the first layer.
        flattens: whether the network flattens its inputs itself.
        only_where_faster: leave large batches to torch.
    """

    def __init__(
        self,
        arguments: dict[str, Any],
        inputs: int,
        flattens: bool,
        only_where_faster: bool = False,
    ) -> None:
        self.arguments, self.inputs, self.flattens = arguments, inputs, flattens
        self.only_where_faster = only_where_faster
        self.parameters = sum((into + bias) * out for into, out, bias, _ in arguments["layers"])
        compiled = native.kernel()
        self._learner: Any = None if compiled is None else compiled.Learner(**arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles build a kernel of their own."""
        return NativeEngine, (self.arguments, self.inputs, self.flattens, self.only_where_faster)

    @property
    def instruction_set(self) -> str:
        """What the loops use here."""
        return str(self._learner.instructions)

    def takes(self, x: Tensor) -> bool:
        """Whether the kernel can read such inputs; others go the way of torch."""
        rows = x.shape[1:]
        width = rows.numel() if self.flattens else rows[-1] if len(rows) == 1 else -1
        return width == self.inputs and x.dtype == torch.float32 and len(x) > 0

    def suits_epoch(self, batch_size: int) -> bool:
        """Whether it is worth while for whole epochs in such batches."""
        return not self.only_where_faster or self.parameters * batch_size <= _EPOCH_WORK

    def suits_updates(self, rows: int) -> bool:
        """Whether it is worth while for one batch."""
        return not self.only_where_faster or (
            self.parameters <= _UPDATE_PARAMETERS and self.parameters * rows <= _UPDATE_WORK
        )

    def suits_predictions(self, rows: int) -> bool:
        """Whether it is worth while for predicting rows."""
        return not self.only_where_faster or (
            self.parameters <= _PREDICT_PARAMETERS and self.parameters * rows <= _PREDICT_WORK
        )

    def suits_draws(self, rows: int) -> bool:
        """Whether drawing outputs is worth while; the work grows with the square of the rows."""
        return rows <= _DRAWN_TOGETHER

    def learn(
        self,
        posterior: Posterior,
        likelihood: Likelihood,
        x: Tensor,
        y: Tensor,
        *,
        order: Tensor | None = None,
        batch_size: int | None = None,
        forget: float = 0.0,
        advance: Callable[[int], object] | None = None,
    ) -> int:
        """Learn all rows once, in batches; see ``tractable.learners.tagi``.

        Args:
            posterior: changed in place.
            likelihood: its noise is changed in place.
            x: checked inputs.
            y: checked targets.
            order: which row comes when; as they stand by default.
            batch_size: rows per update; all by default.
            forget: share of the information to forget over these rows.
            advance: called a few times a second with the number of batches done since.

        Returns:
            The number of batches learnt.  If it is less than all of them, a message of the next
            one was not finite, and the model is as it was before that batch.  If ``advance`` or
            a signal raises, the model is as it was before the call.
        """
        reported = 0

        def report(done: int) -> None:
            nonlocal reported
            stop_if_cancelled()
            if advance is not None:
                advance(done - reported)
            reported = done

        mean, variance = self._inputs(x)
        targets, doubt = y, None
        if isinstance(y, Gaussian):
            targets, doubt = y.loc, _rows(y.variance)
        targets = targets.detach().reshape(len(x), -1).contiguous()
        labels, noise = True, [_NO_NOISE, _NO_NOISE]
        if isinstance(likelihood, Normal):
            labels, noise = False, _noise(likelihood)
        learnt = int(
            self._learner.learn(
                posterior.loc.detach().numpy(),
                posterior.variance.detach().numpy(),
                [posterior.prior_variance[name] for name in posterior.shapes],
                noise[0].numpy(),
                noise[1].numpy(),
                mean,
                variance,
                None if labels else targets.to(torch.float32).numpy(),
                doubt,
                targets.to(torch.int64).numpy() if labels else None,
                None if order is None else order.contiguous().numpy(),
                len(x) if batch_size is None else batch_size,
                forget,
                report,
            )
        )
        if advance is not None:
            advance(learnt - reported)
        return learnt

    def outputs(self, posterior: Posterior, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of the network's outputs."""
        loc, variance = posterior.loc.detach().numpy(), posterior.variance.detach().numpy()
        mean, spread = self._learner.predict(loc, variance, *self._inputs(x))
        return torch.from_numpy(mean), torch.from_numpy(spread)

    def draws(
        self, posterior: Posterior, x: Tensor, samples: int, generator: torch.Generator
    ) -> Tensor:
        """Outputs of all rows under draws of the weights, of shape (samples, rows, outputs)."""
        loc, variance = posterior.loc.detach().numpy(), posterior.variance.detach().numpy()
        normals = torch.randn(samples * len(x) * self._learner.units, generator=generator)
        drawn = self._learner.draw(loc, variance, _rows(x), samples, normals.numpy())
        return torch.from_numpy(drawn)

    def snapshot(self, posterior: Posterior) -> Outputs:
        """The outputs of the network with the parameters it has now, for arrays of rows."""
        loc, variance = posterior.loc.detach().numpy(), posterior.variance.detach().numpy()
        compiled = native.kernel()
        assert compiled is not None
        outputs: Outputs = compiled.Snapshot(self._learner, loc, variance).predict
        return outputs

    def derivatives(self, posterior: Posterior, x: Gaussian) -> tuple[Tensor, ...] | None:
        """Mean, variance and curvature of the output by the inputs; None where it cannot."""
        if not self._learner.gives_derivatives:
            return None
        loc, variance = posterior.loc.detach().numpy(), posterior.variance.detach().numpy()
        found = self._learner.derivatives(loc, variance, _rows(x.loc), _rows(x.variance))
        return tuple(torch.from_numpy(part) for part in found)

    def _inputs(self, x: Tensor) -> tuple[Any, Any]:
        if isinstance(x, Gaussian):
            return _rows(x.loc), _rows(x.variance)
        return _rows(x), None


_NO_NOISE = torch.zeros(0, dtype=torch.float64)


def _rows(x: Tensor) -> Any:
    return x.detach().reshape(len(x), -1).contiguous().numpy()


def _noise(likelihood: Normal) -> list[Tensor]:
    """The noise buffers themselves, made writable by the kernel."""
    for name in ("noise_mean", "noise_variance"):
        tensor = getattr(likelihood, name)
        if not (tensor.is_contiguous() and tensor.dtype == torch.float64):
            setattr(likelihood, name, tensor.double().contiguous())
    return [likelihood.noise_mean.detach(), likelihood.noise_variance.detach()]
