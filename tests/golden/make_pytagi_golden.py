r"""Record what the peer library pytagi computes, as golden files for the tests.

Run it in an environment of its own (pytagi 0.1.12 is the last release that
imports on a machine without MPI and NCCL), from the root of the repository::

    python -m venv pytagi-venv
    pytagi-venv/bin/pip install pytagi==0.1.12 numpy==2.4.6
    pytagi-venv/bin/python tests/golden/make_pytagi_golden.py

It writes ``pytagi_fnn.json`` and ``pytagi_cnn.json`` next to itself. pytagi
computes in float32; numbers are written with nine significant digits, which
round-trips float32 exactly. Names and layouts are those of the equivalent
``torch.nn.Sequential``: ``"0.weight"`` is ``[out, in]`` for a linear layer and
``[out, in, height, width]`` for a convolution. Every layer is written as its
torch class name and keyword arguments.

What pytagi does in one training step
-------------------------------------
Every case is recomputed here in float64 from the equations below, and nothing
is written unless all numbers agree within ``RTOL`` and ``ATOL``.

Forward, with independent units and weights. For ``z = W a + b`` (and the same
over patches for a convolution)::

    mu_z  = mu_W mu_a + mu_b
    var_z = var_W mu_a^2 + var_W var_a + mu_W^2 var_a + var_b

``ReLU`` is linearized at the mean: ``J = 1[mu_z > 0]``, ``mu_a = J mu_z``,
``var_a = J^2 var_z``. ``AvgPool2d`` with a k-by-k window takes the mean of the
means, and the sum of the variances over ``k^4``.

Messages, from the observation ``y = z + v``, ``v ~ N(0, sigma_v^2)``::

    d_mu = (y - mu_z) / (var_z + sigma_v^2)     d_var = -1 / (var_z + sigma_v^2)

They travel to activations through ``mu_W^T`` and ``(mu_W^2)^T``, through ReLU
by ``J`` and ``J^2``, through pooling by ``1/k^2`` and ``1/k^4``; to weights
they are ``d_mu mu_a^T`` and ``d_var (mu_a^2)^T``, to biases ``d_mu`` and
``d_var``. All are taken at the moments before the update.

Batch update. Messages are *summed* over the batch (and over the positions of a
convolution), never averaged::

    delta_mu  = var   sum(d_mu)
    delta_var = var^2 sum(d_var)

Then each is clipped to ``[-bar, bar]`` with ``bar = sqrt(var) / c``, the same
bar for the mean and for the variance, where ``c`` depends on the batch size
alone: 0.1 for 1, 1 for 2 to 255, 2 for 256 and more. A variance that would be
zero or negative becomes 1e-5. An observation that is NaN sends no message.

The cases are chosen so that no clip and no floor is reached (this script
checks it), so the recorded updates are exactly ``mu + delta_mu`` and
``var + delta_var``; and no ReLU input has a mean within ``MARGIN`` of zero,
so rounding cannot switch a unit.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.metadata import version
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytagi.nn as pnn
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Array = NDArray[Any]
Layer = dict[str, Any]
Moments = tuple[Array, Array]
Parameters = dict[str, Moments]

RTOL, ATOL = 1e-5, 1e-6  # ATOL is for means, which may be close to zero
MARGIN = 1e-3
FLOOR = 1e-5


@dataclass(frozen=True)
class Case:
    """One network, one batch size and one sequence of updates."""

    name: str
    layers: list[Layer]
    input_shape: tuple[int, ...]
    batch_size: int
    updates: int
    sigma_v: float
    prior_scale: float
    """Prior variances are drawn around ``prior_scale / fan_in``."""
    seed: int


def linear(inputs: int, outputs: int) -> Layer:
    return {"type": "Linear", "in_features": inputs, "out_features": outputs}


def conv(inputs: int, outputs: int, kernel: int, padding: int = 0) -> Layer:
    return {
        "type": "Conv2d",
        "in_channels": inputs,
        "out_channels": outputs,
        "kernel_size": kernel,
        "padding": padding,
    }


def pool(kernel: int, stride: int) -> Layer:
    return {"type": "AvgPool2d", "kernel_size": kernel, "stride": stride}


RELU: Layer = {"type": "ReLU"}
FLATTEN: Layer = {"type": "Flatten"}

FNN = [linear(3, 8), RELU, linear(8, 8), RELU, linear(8, 2)]
CNN = [conv(1, 3, 3), RELU, pool(2, 2), conv(3, 4, 2), RELU, FLATTEN, linear(16, 2)]
CNN_OVERLAP = [
    conv(1, 2, 4, padding=1),
    RELU,
    pool(3, 2),
    conv(2, 3, 2),
    RELU,
    FLATTEN,
    linear(3, 2),
]

FILES = {
    "pytagi_fnn.json": [
        Case("fnn_batch_1", FNN, (3,), 1, 5, 0.3, 1.0, 123),
        Case("fnn_batch_4", FNN, (3,), 4, 5, 1.0, 0.05, 0),
    ],
    "pytagi_cnn.json": [
        Case("cnn_batch_1", CNN, (1, 8, 8), 1, 3, 0.3, 1.0, 139),
        Case("cnn_batch_2", CNN, (1, 8, 8), 2, 3, 0.5, 0.1, 134),
        Case("cnn_overlapping_pool_batch_2", CNN_OVERLAP, (1, 6, 6), 2, 3, 0.7, 0.1, 8),
    ],
}


# --- pytagi -----------------------------------------------------------------


class Peer:
    """The case's network in pytagi, with parameters named and shaped as in torch."""

    def __init__(self, case: Case, parameters: Parameters) -> None:
        self.batch_size = case.batch_size
        self.shapes = {name: mean.shape for name, (mean, _) in parameters.items()}
        # pytagi has no Flatten layer: its indices skip the ones in torch's.
        kept = [i for i, layer in enumerate(case.layers) if layer["type"] != "Flatten"]
        self.keys = {
            str(i): f"{case.layers[i]['type']}.{k}"
            for k, i in enumerate(kept)
            if f"{i}.weight" in parameters
        }
        size = case.input_shape[-1] if len(case.input_shape) == 3 else 0
        self.net = pnn.Sequential(
            *(_pytagi_layer(case.layers[i], size if i == 0 else 0) for i in kept)
        )
        self.net.set_threads(1)
        # A first pass allocates all buffers; preinit_layer() forgets the
        # parameter updates of convolutions, and backward() then crashes.
        self.forward(np.zeros((case.batch_size, *case.input_shape), np.float32))
        self.net.load_state_dict(
            {
                key: tuple(
                    moment.ravel().tolist()
                    for kind in ("weight", "bias")
                    for moment in parameters[f"{i}.{kind}"]
                )
                for i, key in self.keys.items()
            }
        )
        self.updater = pnn.OutputUpdater("cpu")

    def forward(self, x: Array) -> Moments:
        mean, variance = self.net(x.ravel())
        shape = (self.batch_size, -1)
        return np.array(mean).reshape(shape), np.array(variance).reshape(shape)

    def update(self, y: Array, sigma_v: float) -> None:
        self.updater.update(
            output_states=self.net.output_z_buffer,
            mu_obs=y.ravel(),
            var_obs=np.full(y.size, sigma_v**2, np.float32),
            delta_states=self.net.input_delta_z_buffer,
        )
        self.net.backward()
        self.net.step()

    def parameters(self) -> Parameters:
        state = self.net.state_dict()
        out: Parameters = {}
        for i, key in self.keys.items():
            for name, (mean, variance) in {
                f"{i}.weight": state[key][:2],
                f"{i}.bias": state[key][2:],
            }.items():
                shape = self.shapes[name]
                out[name] = np.reshape(mean, shape), np.reshape(variance, shape)
        return out


def _pytagi_layer(layer: Layer, image_size: int) -> pnn.BaseLayer:
    if layer["type"] == "Linear":
        return pnn.Linear(layer["in_features"], layer["out_features"])
    if layer["type"] == "Conv2d":
        return pnn.Conv2d(
            layer["in_channels"],
            layer["out_channels"],
            layer["kernel_size"],
            padding=layer["padding"],
            in_width=image_size,
            in_height=image_size,
        )
    if layer["type"] == "AvgPool2d":
        return pnn.AvgPool2d(layer["kernel_size"], layer["stride"])
    return pnn.ReLU()


# --- the same in float64, from the equations --------------------------------


def patches(a: Array, kernel: int, stride: int, padding: int) -> Array:
    """``[batch, channel, row, column, kernel row, kernel column]``."""
    a = np.pad(a, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    return sliding_window_view(a, (kernel, kernel), axis=(2, 3))[:, :, ::stride, ::stride]


def fold(windows: Array, shape: tuple[int, ...], stride: int, padding: int) -> Array:
    """Add windows back to where ``patches`` took them from."""
    batch, channels, height, width = shape
    out = np.zeros((batch, channels, height + 2 * padding, width + 2 * padding))
    rows, columns, kernel = windows.shape[2], windows.shape[3], windows.shape[4]
    for i in range(kernel):
        for j in range(kernel):
            row = slice(i, i + stride * rows, stride)
            column = slice(j, j + stride * columns, stride)
            out[:, :, row, column] += windows[..., i, j]
    return out[:, :, padding : padding + height, padding : padding + width]


class Reference:
    """TAGI as written in the module docstring, without clip and floor."""

    def __init__(self, case: Case, parameters: Parameters) -> None:
        self.layers = case.layers
        self.parameters = {
            name: (mean.astype(np.float64), variance.astype(np.float64))
            for name, (mean, variance) in parameters.items()
        }

    def forward(self, x: Array) -> Moments:
        a = x.astype(np.float64)
        var = np.zeros_like(a)
        self.seen: list[Array] = []  # what each layer needs on the way back
        self.margin = np.inf
        for i, layer in enumerate(self.layers):
            if layer["type"] == "ReLU":
                self.margin = min(self.margin, float(np.abs(a).min()))
                self.seen.append((a > 0).astype(np.float64))
                a, var = a * self.seen[-1], var * self.seen[-1]
            elif layer["type"] == "AvgPool2d":
                self.seen.append(a)
                k, stride = layer["kernel_size"], layer["stride"]
                a = patches(a, k, stride, 0).sum((-1, -2)) / k**2
                var = patches(var, k, stride, 0).sum((-1, -2)) / k**4
            elif layer["type"] == "Flatten":
                self.seen.append(a)
                a, var = a.reshape(len(a), -1), var.reshape(len(a), -1)
            else:
                self.seen.append(a)
                (mu_w, var_w), (mu_b, var_b) = self._weight_bias(i)
                mean = apply(layer, mu_w, a, mu_b)
                var = apply(layer, var_w, a**2, var_b) + apply(layer, var_w + mu_w**2, var)
                a = mean
        self.output = a, var
        return self.output

    def update(self, y: Array, sigma_v: float) -> None:
        mean, variance = self.output
        d_mu = (y - mean) / (variance + sigma_v**2)
        d_var = -1 / (variance + sigma_v**2)
        updated: Parameters = {}
        for i in reversed(range(len(self.layers))):
            layer, a = self.layers[i], self.seen[i]
            if layer["type"] == "ReLU":
                d_mu, d_var = d_mu * a, d_var * a**2
            elif layer["type"] == "AvgPool2d":
                k, stride = layer["kernel_size"], layer["stride"]
                window = np.ones((k, k))
                d_mu = fold(d_mu[..., None, None] * window / k**2, a.shape, stride, 0)
                d_var = fold(d_var[..., None, None] * window / k**4, a.shape, stride, 0)
            elif layer["type"] == "Flatten":
                d_mu, d_var = d_mu.reshape(a.shape), d_var.reshape(a.shape)
            else:
                (mu_w, var_w), (mu_b, var_b) = self._weight_bias(i)
                summed = tuple(range(d_mu.ndim))[:1] + tuple(range(d_mu.ndim))[2:]
                updated[f"{i}.weight"] = (
                    mu_w + var_w * to_weight(layer, d_mu, a),
                    var_w + var_w**2 * to_weight(layer, d_var, a**2),
                )
                updated[f"{i}.bias"] = (
                    mu_b + var_b * d_mu.sum(summed),
                    var_b + var_b**2 * d_var.sum(summed),
                )
                d_mu = to_input(layer, mu_w, d_mu, a.shape)
                d_var = to_input(layer, mu_w**2, d_var, a.shape)
        self.parameters = updated

    def _weight_bias(self, i: int) -> tuple[Moments, Moments]:
        return self.parameters[f"{i}.weight"], self.parameters[f"{i}.bias"]


def apply(layer: Layer, weight: Array, a: Array, bias: Array | float = 0.0) -> Array:
    if layer["type"] == "Linear":
        return a @ weight.T + bias
    windows = patches(a, layer["kernel_size"], 1, layer["padding"])
    return np.einsum("ocij,bcrsij->bors", weight, windows) + np.reshape(bias, (-1, 1, 1))


def to_weight(layer: Layer, message: Array, a: Array) -> Array:
    if layer["type"] == "Linear":
        return message.T @ a
    windows = patches(a, layer["kernel_size"], 1, layer["padding"])
    return np.einsum("bors,bcrsij->ocij", message, windows)


def to_input(layer: Layer, weight: Array, message: Array, shape: tuple[int, ...]) -> Array:
    if layer["type"] == "Linear":
        return message @ weight
    windows = np.einsum("ocij,bors->bcrsij", weight, message)
    return fold(windows, shape, 1, layer["padding"])


# --- recording --------------------------------------------------------------


def draw_parameters(case: Case, rng: np.random.Generator) -> Parameters:
    parameters: Parameters = {}
    for i, layer in enumerate(case.layers):
        if layer["type"] == "Linear":
            shape: tuple[int, ...] = (layer["out_features"], layer["in_features"])
        elif layer["type"] == "Conv2d":
            k = layer["kernel_size"]
            shape = (layer["out_channels"], layer["in_channels"], k, k)
        else:
            continue
        fan_in = prod(shape[1:])
        for name, size in ((f"{i}.weight", shape), (f"{i}.bias", shape[:1])):
            mean = rng.normal(0.0, fan_in**-0.5, size)
            variance = case.prior_scale / fan_in * rng.uniform(0.5, 1.5, size)
            parameters[name] = mean.astype(np.float32), variance.astype(np.float32)
    return parameters


def check_close(given: Moments, truth: Moments) -> None:
    np.testing.assert_allclose(given[0], truth[0], RTOL, ATOL)
    np.testing.assert_allclose(given[1], truth[1], RTOL, 0.0)


def check_unclipped(case: Case, before: Parameters, after: Parameters) -> None:
    cap = 0.1 if case.batch_size == 1 else 1.0
    for name, (mean, variance) in before.items():
        bar = np.sqrt(variance) / cap
        for new, old in zip(after[name], (mean, variance), strict=True):
            assert (np.abs(new - old) < 0.95 * bar).all(), f"{case.name}: {name} is clipped"
        assert (after[name][1] > 2 * FLOOR).all(), f"{case.name}: {name} is near the floor"


def record(case: Case) -> dict[str, Any]:
    """Run the case in pytagi, check every number, and return what to write."""
    rng = np.random.default_rng(case.seed)
    parameters = draw_parameters(case, rng)
    peer, reference = Peer(case, parameters), Reference(case, parameters)
    outputs = case.layers[-1]["out_features"]
    updates = []
    for _ in range(case.updates):
        x = rng.normal(size=(case.batch_size, *case.input_shape)).astype(np.float32)
        y = rng.normal(size=(case.batch_size, outputs)).astype(np.float32)
        before = peer.parameters()
        predicted, expected = peer.forward(x), reference.forward(x)
        check_close(predicted, expected)
        assert reference.margin > MARGIN, f"{case.name}: a ReLU input at {reference.margin}"
        peer.update(y, case.sigma_v)
        reference.update(y, case.sigma_v)
        after = peer.parameters()
        check_unclipped(case, before, after)
        for name, moments in after.items():
            check_close(moments, reference.parameters[name])
        updates.append(
            {
                "x": numbers(x),
                "y": numbers(y),
                "predicted_mean": numbers(predicted[0]),
                "predicted_variance": numbers(predicted[1]),
                "parameters": named(after),
            }
        )
    return {
        "name": case.name,
        "layers": case.layers,
        "batch_size": case.batch_size,
        "sigma_v": case.sigma_v,
        "parameters": named(parameters),
        "updates": updates,
    }


def named(parameters: Parameters) -> dict[str, Any]:
    return {
        name: {"mean": numbers(mean), "variance": numbers(variance)}
        for name, (mean, variance) in parameters.items()
    }


def numbers(array: Array) -> Any:
    """Nested lists, each number with the nine digits that identify a float32."""
    if array.ndim:
        return [numbers(row) for row in array]
    return float(f"{array:.9g}")


def main() -> None:
    for file, cases in FILES.items():
        content = {
            "source": f"pytagi {version('pytagi')}, float32, CPU",
            "cases": [record(case) for case in cases],
        }
        path = Path(__file__).with_name(file)
        path.write_text(json.dumps(content, separators=(",", ":")) + "\n")
        print(f"{path.name}: {len(cases)} cases, {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
