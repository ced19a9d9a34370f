"""Random networks for the kernel, and calls of it that it must answer."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tractable import native

Rng = np.random.Generator
Arguments = dict[str, Any]
Outcome = Any  # result of a call, or the exception that it raised

ACTIVATIONS = ["relu", "leaky_relu", "tanh", "sigmoid"]
KINDS = ["normal", "inferred", "probit_tree", "normal_tree"]


@dataclass(frozen=True)
class Network:
    """A kernel's learner and the arguments that made it."""

    arguments: Arguments
    learner: Any

    @property
    def layers(self) -> list[Any]:
        """Inputs, outputs, bias and activations of each."""
        return list(self.arguments["layers"])

    @property
    def inputs(self) -> int:
        return int(self.layers[0][0])

    @property
    def outputs(self) -> int:
        return int(self.layers[-1][1])

    @property
    def parameters(self) -> int:
        return sum((into + bias) * out for into, out, bias, _ in self.layers)

    @property
    def tensors(self) -> int:
        return sum(1 + bias for _, _, bias, _ in self.layers)

    @property
    def tree(self) -> bool:
        return self.arguments["paths"] is not None


@dataclass
class Call:
    """A method of the kernel with its arguments."""

    network: Network
    name: str
    arguments: Arguments

    @property
    def batches(self) -> int:
        """Of a whole epoch."""
        return -(-len(self.arguments["x"]) // int(self.arguments["batch_size"]))

    def run(self) -> Outcome:
        """What comes of it."""
        try:
            if self.name == "snapshot":
                rest = dict(self.arguments)
                x = rest.pop("x")
                return compiled().Snapshot(self.network.learner, **rest).predict(x=x)
            return getattr(self.network.learner, self.name)(**self.arguments)
        except Exception as error:
            return error


def compiled() -> Any:
    """The compiled module, which must be there."""
    module = native.kernel()
    assert module is not None, "the kernel was not built"
    return module


def activations(rng: Rng, most: int) -> list[tuple[str, float]]:
    """None, one or several."""
    return [(str(rng.choice(ACTIVATIONS)), 0.1) for _ in range(int(rng.integers(0, most + 1)))]


def width(rng: Rng) -> int:
    """Log-uniform up to 70: on both sides of whole vectors."""
    return int(np.exp(rng.uniform(0, np.log(70))))


def constructor(rng: Rng) -> Arguments:
    """Arguments of a learner."""
    widths = [width(rng) for _ in range(int(rng.integers(2, 6)))]
    if rng.random() < 0.4:
        widths[-1] = 1  # as derivatives need
    kind = str(rng.choice(KINDS))
    simple = rng.random() < 0.5
    layers = [
        (into, out, bool(rng.integers(0, 2)), activations(rng, 1 if simple else 2))
        for into, out in pairwise(widths)
    ]
    if simple:
        layers[-1] = (*layers[-1][:3], [])
    paths = None
    if kind.endswith("tree"):
        paths = rng.integers(-1, 2, (int(rng.integers(1, 9)), widths[-1])).astype(np.int8)
    return {
        "before": [] if simple else activations(rng, 1),
        "layers": layers,
        "likelihood": kind,
        "tree_noise": float(rng.uniform(0.1, 2)),
        "paths": paths,
        "rule": str(rng.choice(["damped", "published"])),
        "instructions": str(rng.choice(["", *compiled().instruction_sets()])),
        "limit": bool(rng.integers(0, 2)),
        "gate": paths is None and bool(rng.integers(0, 2)),
    }


def random_network(rng: Rng) -> Network:
    """A network and its learner."""
    arguments = constructor(rng)
    return Network(arguments, compiled().Learner(**arguments))


def floats(rng: Rng, *shape: int) -> Any:
    """Standard normal numbers."""
    return rng.normal(size=shape).astype(np.float32)


def random_call(rng: Rng, network: Network) -> Call:
    """A call that the kernel must answer."""
    names = ["learn", "learn", "predict", "draw", "snapshot"]
    if network.learner.gives_derivatives:
        names += ["derivatives"] * 2
    name = str(rng.choice(names))
    rows = int(rng.integers(0 if rng.random() < 0.1 else 1, 10 if name == "draw" else 80))
    fan_in = max(into for into, _, _, _ in network.layers)
    arguments: Arguments = {
        "loc": floats(rng, network.parameters) / np.float32(np.sqrt(fan_in)),
        "variance": rng.uniform(0, 1 / fan_in, network.parameters).astype(np.float32),
        "x": floats(rng, rows, network.inputs),
    }
    if name in ("learn", "predict", "derivatives"):
        given = name == "derivatives" or rng.random() < 0.3
        arguments["x_variance"] = np.abs(floats(rng, rows, network.inputs)) if given else None
    if name == "draw":
        samples = int(rng.integers(1, 6))
        arguments["samples"] = samples
        arguments["normals"] = floats(rng, samples * rows * network.learner.units)
    if name == "learn":
        arguments |= targets(rng, network, rows)
    return Call(network, name, arguments)


def targets(rng: Rng, network: Network, rows: int) -> Arguments:
    """Return the arguments of learning in addition to the inputs."""
    noises = network.outputs
    if network.tree:
        noises = 0
    elif network.arguments["likelihood"] == "normal" and rng.random() < 0.5:
        noises = 1
    classes = len(network.arguments["paths"]) if network.tree else 0
    uncertain = not network.tree and rng.random() < 0.3
    return {
        "priors": [1.0] * network.tensors,
        "noise_mean": rng.uniform(0.1, 1, noises),
        "noise_variance": rng.uniform(0.01, 0.1, noises),
        "y": None if network.tree else floats(rng, rows, network.outputs),
        "y_variance": np.abs(floats(rng, rows, network.outputs)) if uncertain else None,
        "labels": rng.integers(0, classes, rows) if network.tree else None,
        "order": rng.permutation(rows) if rng.random() < 0.5 else None,
        "batch_size": int(rng.choice([1, 1, 2, 3, 7, 64, 2**30])),
        "forget": float(rng.choice([0.0, 0.3, 1.0])),
        "progress": None if rng.random() < 0.5 else lambda _: None,
        "surprise": rng.uniform(1, 9, noises) if network.arguments["gate"] else None,
        "surprises": np.zeros(25) if network.arguments["gate"] else None,
        "memory": float(rng.choice([0.0, 1.5, 1e3])),
    }
