"""Summary of a network by layer: shapes, parameters, receptive fields and signal propagation.

The variance of signals and of gradients should neither decrease nor increase strongly from layer to
layer ("Understanding Deep Learning", section 7.5: for ReLU units, weights of variance 2 / fan-in
preserve it).  Units that are constant for all rows are dead: they do not learn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from tractable.diagnostics.receptive_field import ReceptiveFieldMode
from tractable.diagnostics.result import Cell, DiagnosticResult
from tractable.learners.learner import Learner
from tractable.learners.network.output_selection import single_output
from tractable.plots.style import COLORS, get_axes, legend, style_axes
from tractable.posterior import Posterior
from tractable.training.data import as_tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes

VANISHING_RATIO = 1e-3
"""Ratio of the scales of two layers below which signals vanish; above its inverse they explode."""
_ACTIVATIONS = (
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.ELU, nn.Hardswish,
    nn.Hardtanh, nn.Softplus, nn.Mish, nn.PReLU, nn.SELU,
)  # fmt: skip


@dataclass(frozen=True)
class LayerSummary:
    """Summary of one layer.

    Attributes:
        name: path of the layer in the network.
        class_name: class of the module.
        shape: shape of the output, without the rows.
        n_parameters: number of parameters.
        receptive_field: one number for each spatial dimension; None if unknown.
        output_std: standard deviation of the output over rows and units.
        output_gradient_std: standard deviation of the loss gradient with respect to the output.
        dead_fraction: fraction of an activation's units that are constant for all rows; None for
            other layers.
        snr: median signal-to-noise ratio ``|mean| / std`` of the weights; None without variances.
        pruned_fraction: fraction of the weights that are exactly zero without variance; None
            without variances.
    """

    name: str
    class_name: str
    shape: tuple[int, ...]
    n_parameters: int
    receptive_field: tuple[int, ...] | None
    output_std: float
    output_gradient_std: float | None
    dead_fraction: float | None
    snr: float | None
    pruned_fraction: float | None


@dataclass(frozen=True)
class Summary(DiagnosticResult):
    """Summary of a network by layer.

    Attributes:
        layers: layers in the order of their calls.
        n_parameters: number of all parameters.
        n_rows: number of rows in the forward pass.
    """

    layers: tuple[LayerSummary, ...]
    n_parameters: int
    n_rows: int

    def table_header(self) -> list[str]:
        """Return the names of the table's columns."""
        return ["layer", "class", "output", "parameters", "receptive field", "output std",
                "gradient std", "dead", "SNR", "pruned"]  # fmt: skip

    def table_rows(self) -> list[list[Cell]]:
        """Return the rows of the table."""
        found: list[list[Cell]] = [
            [
                la.name, la.class_name, "x".join(map(str, la.shape)), la.n_parameters,
                None if la.receptive_field is None else "x".join(map(str, la.receptive_field)),
                la.output_std, la.output_gradient_std,
                None if la.dead_fraction is None else f"{100 * la.dead_fraction:.0f} %",
                la.snr, la.pruned_fraction,
            ]
            for la in self.layers
        ]  # fmt: skip
        total: list[Cell] = ["all", "", "", self.n_parameters, *[None] * 6]
        return [*found, total]

    def recommendation(self) -> str:
        """Return the problems of signal propagation, if there are any."""
        problems = []
        stopped = [la.name for la in self.layers if la.output_gradient_std == 0]
        if stopped:
            problems.append(
                f"no gradient reaches {', '.join(stopped[:3])}: gradient learners cannot train "
                "what comes before (a step function, or a detached tensor)"
            )
        dead = [la for la in self.layers if la.dead_fraction is not None and la.dead_fraction > 0.5]
        if dead:
            problems.append(
                f"{100 * (dead[0].dead_fraction or 0):.0f} % of the units of {dead[0].name} are "
                "dead: lower the learning rate or reinitialize the network"
            )
        for direction, field in (("forward", "output_std"), ("backward", "output_gradient_std")):
            sizes = [getattr(la, field) for la in self.layers if la.n_parameters]
            sizes = [size for size in sizes if size]
            ratio = sizes[-1] / sizes[0] if len(sizes) > 1 else 1.0
            ratio = ratio if direction == "forward" else 1 / ratio
            if not VANISHING_RATIO < ratio < 1 / VANISHING_RATIO:
                grows = "grow" if ratio > 1 else "fade"
                problems.append(
                    f"signals {grows} {direction}s by a factor {ratio:.1g}: for ReLU units, use "
                    "initial weights of variance 2 / fan-in (torch's default is 1 / (3 fan-in))"
                )
        if not problems:
            return "Signals pass through all layers, forwards and backwards."
        text = f"{'; '.join(problems)}."
        return text.capitalize() if text[0].islower() else text

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the scales of outputs and gradients by layer."""
        ax = get_axes(ax)
        places = range(len(self.layers))
        ax.plot(places, [la.output_std for la in self.layers], "o-", color=COLORS[0],
                label="output", markersize=4)  # fmt: skip
        backward = [
            math.nan if la.output_gradient_std is None else la.output_gradient_std
            for la in self.layers
        ]
        ax.plot(places, backward, "s--", color=COLORS[1], label="gradient", markersize=4)
        ax.set_yscale("log")
        ax.set_xticks(list(places), [la.name for la in self.layers], rotation=45)
        style_axes(ax, xlabel="layer", ylabel="standard deviation")
        legend(ax)
        return ax


def summary(model: Learner | nn.Module, x: Any, y: Any = None, *, seed: int = 0) -> Summary:
    """Return a summary of a network by layer, for these rows.

    Args:
        model: a learner, used at its mean weights (one member of an ensemble); or a module.
        x: inputs (on the meta device, only shapes, counts and receptive fields are computed).
        y: targets, for the gradient of a learner's loss; without them, the gradient is that of a
            random combination of the outputs.
        seed: random seed of that combination.
    """
    module, posterior, likelihood = _unpack_model(model)
    if isinstance(model, Learner):
        rows = model.checks.inputs(x)
    else:
        rows = as_tensor(x, "inputs")
        like = next(module.parameters(), None)
        if rows.is_floating_point() and like is not None:
            rows = rows.to(like)
    if not isinstance(rows, Tensor):
        raise TypeError("summary supports only networks with one input tensor")
    was = module.training
    module.eval()
    try:
        outputs_of_layers, gradients = _run(module, rows, y, likelihood, seed)
    finally:
        module.train(was)
    entries = []
    for name, part, out, field in outputs_of_layers:
        gradient = gradients.get(id(out))
        entries.append(
            LayerSummary(
                name,
                type(part).__name__,
                tuple(out.shape[1:]),
                _count(part),
                field,
                _std(out),
                None if gradient is None else _std(gradient),
                _dead(part, out),
                *_weight_snr(posterior, name, part),
            )
        )
    total = sum(p.numel() for p in module.parameters() if p.requires_grad)
    return Summary(tuple(entries), total, len(rows))


LayerOutput = tuple[str, nn.Module, Tensor, tuple[int, ...] | None]


def _run(
    module: nn.Module, rows: Tensor, y: Any, likelihood: Any, seed: int
) -> tuple[list[LayerOutput], dict[int, Tensor]]:
    """Return the output of each layer, and the gradient of the loss with respect to it."""
    outputs_of_layers: list[LayerOutput] = []
    x = rows.clone()
    if x.is_floating_point():
        x.requires_grad_()
    with (
        torch.enable_grad(),
        ReceptiveFieldMode(x) as fields,
        _recording_outputs(module, outputs_of_layers, fields),
    ):
        z = single_output(module(x))
        if y is not None and likelihood is not None:
            targets = likelihood.check_targets(as_tensor(y, "targets").to(z.device), z.shape)
            loss = -likelihood.log_prob(targets, z).sum() / len(z)
        else:
            generator = torch.Generator().manual_seed(seed)
            weight = torch.randn(z.shape, generator=generator, dtype=z.dtype, device="cpu").to(z)
            loss = (weight * z).sum() / len(z)
        outputs = [out for _, _, out, _ in outputs_of_layers if out.requires_grad]
        found: tuple[Tensor | None, ...] = ()
        if outputs and loss.requires_grad:
            found = torch.autograd.grad(loss, outputs, allow_unused=True)
    gradients = {
        id(out): torch.zeros_like(out) if g is None else g
        for out, g in zip(outputs, found, strict=False)
    }
    return outputs_of_layers, gradients


@contextmanager
def _recording_outputs(
    module: nn.Module, outputs_of_layers: list[LayerOutput], fields: ReceptiveFieldMode
) -> Iterator[None]:
    """Record the output of every layer that contains no other layers."""
    handles = []
    leaves = [(name, part) for name, part in module.named_modules() if not any(part.children())]

    def make_hook(name: str) -> Any:
        def hook(part: nn.Module, inputs: Any, out: Any) -> None:
            tensor = (
                out
                if isinstance(out, Tensor)
                else single_output(out[:1] if isinstance(out, tuple) else out)
            )
            field = fields.field_of(tensor)
            size = None if field is None or not field.size else field.size
            outputs_of_layers.append((name or "net", part, tensor, size))

        return hook

    try:
        for name, part in leaves:
            handles.append(part.register_forward_hook(make_hook(name)))
        yield
    finally:
        for handle in handles:
            handle.remove()


def _unpack_model(model: Learner | nn.Module) -> tuple[nn.Module, Posterior | None, Any]:
    if isinstance(model, nn.Module):
        return model, None, None
    if not isinstance(model, Learner):
        raise TypeError(f"summary takes a learner or a module, got {type(model).__name__}")
    return model.mean_module(), model.posterior, model.likelihood


def _count(part: nn.Module) -> int:
    return sum(p.numel() for p in part.parameters() if p.requires_grad)


def _std(values: Tensor) -> float:
    if values.is_meta or not values.numel():  # meta tensors have no values
        return math.nan
    return float(values.detach().double().flatten().std(correction=0))


def _dead(part: nn.Module, out: Tensor) -> float | None:
    """Return the fraction of units that are constant for all rows (and positions)."""
    if not isinstance(part, _ACTIVATIONS) or len(out) < 2 or out.is_meta:
        return None
    units = out.detach().transpose(0, 1).flatten(1) if out.ndim > 1 else out.detach()[None]
    return float((units.amax(1) == units.amin(1)).double().mean())


def _weight_snr(
    posterior: Posterior | None, name: str, part: nn.Module
) -> tuple[float | None, float | None]:
    """Return the median signal-to-noise ratio of a layer's weights, and the pruned fraction."""
    if posterior is None or not bool((posterior.variance > 0).any()):
        return None, None
    own = [n for n in posterior if n.rpartition(".")[0] == name]
    if not own and name == "net":  # a network that is one layer
        own = [n for n in posterior if "." not in n]
    if not own:
        return None, None
    loc = torch.cat([posterior[n].loc.flatten() for n in own])
    variance = torch.cat([posterior[n].variance.flatten() for n in own])
    gone = (loc == 0) & (variance == 0)
    left = ~gone & (variance > 0)
    ratio = loc[left].abs() / variance[left].sqrt()
    return float(ratio.median()) if ratio.numel() else None, float(gone.double().mean())
