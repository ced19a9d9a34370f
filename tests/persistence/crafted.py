"""Files that nobody's ``save`` wrote: every field of a wrong kind, every number impossible.

All but the raw ones have a valid checksum, as a file has that was made on purpose.
"""

from __future__ import annotations

import copy
import io
import json
import math
import os
import pickle
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.persistence.kinds import contents, write_good
from tractable.persistence import model_file
from tractable.persistence.model_file import Header, Tensors

Edit = Callable[[Tensors, Header], None]
Place = tuple[str | int, ...]


@dataclass(frozen=True)
class Case:
    """A file that differs from a valid one in one place.

    Attributes:
        kind: kind of the valid file.
        name: description of the defect.
        edit: applies the defect in place.
    """

    kind: str
    name: str
    edit: Edit

    def write(self, path: Path) -> None:
        tensors, header = contents(self.kind)
        self.edit(tensors, header)
        model_file.write(path, tensors, header)


def written(cases: Iterable[Case], folder: Path) -> list[tuple[str, str]]:
    """Kinds and paths of these cases as files."""
    found = []
    for number, case in enumerate(cases):
        path = folder / f"{number}.tr"
        case.write(path)
        found.append((case.kind, str(path)))
    return found


# --- every field of the header -----------------------------------------------------------------

WRONG: list[Any] = [
    None, True, "zzz", "", -1, 0, 0.5, 7, math.nan, math.inf, -math.inf, 1e308, 10**30, -(10**30),
    [], {}, [[1]], {"a": 1}, ["a"], "é" * 100,
]  # fmt: skip
MISSING = object()


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    """Return the paths of the leaves and branches of JSON values."""
    children: Any = ()
    if isinstance(value, dict):
        children = value.items()
    elif isinstance(value, list):
        children = list(enumerate(value))[:1]
    for key, inner in children:
        yield (*place, key)
        yield from places(inner, (*place, key))


def at(header: Any, place: Place) -> Any:
    for key in place:
        header = header[key]
    return header


def put(header: Any, place: Place, value: Any) -> None:
    home = at(header, place[:-1])
    if value is not MISSING:
        home[place[-1]] = value
    elif isinstance(home, dict):
        home.pop(place[-1])
    else:
        home.pop()


def header_cases(kind: str) -> Iterator[Case]:
    """Every value of the header missing, or another one."""
    header = json.loads(json.dumps(contents(kind)[1]))
    for place in places(header):
        for value in [*WRONG, MISSING]:
            said = "missing" if value is MISSING else f"{value!r:.20}"

            def edit(_: Tensors, held: Header, place: Place = place, value: Any = value) -> None:
                put(held, place, value if value is MISSING else copy.deepcopy(value))

            yield Case(kind, f"{'/'.join(map(str, place))} is {said}", edit)


# --- every tensor -----------------------------------------------------------------------------


def first(value: float) -> Callable[[Tensor], Tensor | None]:
    def change(tensor: Tensor) -> Tensor | None:
        if not tensor.is_floating_point() or not tensor.numel():
            return None
        changed = tensor.clone()
        changed.view(-1)[0] = value
        return changed

    return change


def as_type(dtype: torch.dtype) -> Callable[[Tensor], Tensor | None]:
    return lambda tensor: None if tensor.dtype == dtype else tensor.to(dtype)


CHANGES: dict[str, Callable[[Tensor], Tensor | None]] = {
    "NaN": first(math.nan),
    "infinite": first(math.inf),
    **{str(dtype).removeprefix("torch."): as_type(dtype) for dtype in (
        torch.float16, torch.float64, torch.int64, torch.complex64, torch.bool)},
    "longer": lambda t: torch.cat([t.reshape(-1), t.reshape(-1), t.new_zeros(1)]),
    "empty": lambda t: t.new_zeros(0) if t.numel() else None,
    "one axis more": lambda t: t.unsqueeze(0).clone(),
    "missing": lambda t: t.new_zeros(0),
}  # fmt: skip


def tensor_cases(kind: str) -> Iterator[Case]:
    """Every tensor missing, of another type or shape, or with a number that cannot be."""
    for name, tensor in contents(kind)[0].items():
        for said, change in CHANGES.items():
            changed = change(tensor)
            if changed is None or may_be(name, said):
                continue

            def edit(
                tensors: Tensors, _: Header, name: str = name, said: str = said, new: Any = changed
            ) -> None:
                del tensors[name]
                if said != "missing":
                    tensors[name] = new

            yield Case(kind, f"{name} {said}", edit)


def may_be(name: str, said: str) -> bool:
    """What has a meaning: no statistics, and squares of large gradients."""
    return (said == "missing" and name.startswith("statistics/")) or (
        said == "infinite" and name.endswith("exp_avg_sq")
    )


# --- one by one --------------------------------------------------------------------------------


def entry(kind: str, place: Place, value: Any, name: str = "") -> Case:
    """One entry of the header is another."""
    said = name or f"{'/'.join(map(str, place))} = {value!r:.40}"
    return Case(kind, said, lambda _, header: put(header, place, value))


def tensor(kind: str, name: str, change: Callable[[Tensor], Tensor], said: str) -> Case:
    """One tensor is another."""

    def edit(tensors: Tensors, _: Header) -> None:
        tensors[name] = change(tensors[name])

    return Case(kind, f"{name} {said}", edit)


def filled(kind: str, name: str, value: float) -> Case:
    return tensor(kind, name, lambda t: torch.full_like(t, value), f"all {value}")


def linear(into: Any, out: Any, **more: Any) -> dict[str, Any]:
    arguments = {"in_features": into, "out_features": out, "bias": True, **more}
    return {"layer": "Linear", "arguments": arguments}


def sequential(*layers: Any) -> dict[str, Any]:
    return {"layer": "Sequential", "children": {str(i): layer for i, layer in enumerate(layers)}}


def nested(depth: int) -> Any:
    spec: Any = linear(2, 1)
    for _ in range(depth):
        spec = sequential(spec)
    return spec


RELU = {"layer": "ReLU", "arguments": {"inplace": False}}
CONV = {"in_channels": 1, "out_channels": 1, "stride": 1}
NETS: dict[str, Any] = {
    "wide": sequential(linear(10_000, 10_000)),
    "very wide": sequential(linear(30_000, 30_000)),
    "wider than memory": sequential(linear(10**9, 10**9)),
    "wider than an integer": sequential(linear(10**30, 1)),
    "of no width": sequential(linear(0, 0)),
    "of negative width": sequential(linear(-5, 3)),
    "of NaN width": sequential(linear(math.nan, 3)),
    "of text width": sequential(linear("2", 8)),
    "of a list for a width": sequential(linear([2, 3], 8)),
    "of 2,000 layers": sequential(*[RELU] * 1_999),
    "of 100,000 layers": sequential(*[RELU] * 100_000),
    "a hundred layers deep": nested(100),
    "an unknown layer": sequential({"layer": "Evil", "arguments": {}}),
    "a layer that torch has": sequential({"layer": "LSTM", "arguments": {"input_size": 2}}),
    "a module of another kind": sequential({"layer": "os.system", "arguments": {"c": "true"}}),
    "a layer without a name": sequential({"arguments": {}}),
    "a layer without arguments": sequential({"layer": "Linear"}),
    "arguments as a list": sequential({"layer": "Linear", "arguments": [2, 8]}),
    "children as a list": {"layer": "Sequential", "children": [linear(2, 8)]},
    "a child that is no layer": sequential(3),
    "a child with a dot in its name": {"layer": "Sequential", "children": {"a.b": linear(2, 8)}},
    "a child without a name": {"layer": "Sequential", "children": {"": linear(2, 8)}},
    "a child named like a method": {"layer": "Sequential", "children": {"forward": linear(2, 8)}},
    "on the device meta": sequential(linear(2, 8, device="meta"), RELU, linear(8, 1)),
    "on the device cuda": sequential(linear(2, 8, device="cuda:99"), RELU, linear(8, 1)),
    "of a type of its own": sequential(linear(2, 8, dtype="float64"), RELU, linear(8, 1)),
    "a kernel of 0": sequential({"layer": "Conv2d", "arguments": {**CONV, "kernel_size": 0}}),
    "a stride of 0": sequential({"layer": "Conv2d", "arguments": {**CONV, "stride": 0}}),
    "groups of 0": sequential({"layer": "GroupNorm", "arguments": {"num_groups": 0}}),
    "a huge embedding": sequential(
        {"layer": "Embedding", "arguments": {"num_embeddings": 10**8, "embedding_dim": 100}}
    ),
    "an embedding of given weights": sequential(
        {"layer": "Embedding", "arguments": {"num_embeddings": 2, "embedding_dim": 1,
                                             "_weight": [[1.0], [2.0]]}}
    ),
    "a layer the same as nothing": sequential(linear(2, 8), {"layer": "same", "as": "7"}),
    "a layer the same as itself": sequential({"layer": "same", "as": "0"}),
    "a layer the same as its parent": sequential(linear(2, 8), {"layer": "same", "as": ""}),
    "a layer the same as a list": sequential(linear(2, 8), {"layer": "same", "as": [1]}),
    "only the same": {"layer": "same", "as": ""},
    "no layers": sequential(),
    "a text": "Linear",
    "a list": [],
    "a number": 5,
    "nothing": None,
}  # fmt: skip
LIKELIHOODS: dict[str, Any] = {
    "100,000 classes": {"name": "Categorical", "classes": 100_000},
    "20,000 nodes": {"name": "HeteroscedasticNormal", "nodes": 20_000},
    "a billion outputs": {"name": "Normal", "sigma": None, "outputs": 10**9},
    "a billion softmax classes": {"name": "Softmax", "classes": 10**9},
    "no classes": {"name": "Categorical", "classes": 0},
    "half a class": {"name": "Categorical", "classes": 2.5},
    "a negative noise": {"name": "Normal", "sigma": -1.0, "outputs": 1},
    "a NaN noise": {"name": "Normal", "sigma": math.nan, "outputs": 1},
    "an unknown name": {"name": "Evil"},
    "the base class": {"name": "Likelihood"},
    "a module": {"name": "base"},
    "a dunder": {"name": "__builtins__"},
    "no name": {},
    "an unknown argument": {"name": "Normal", "sigma": None, "outputs": 1, "evil": 1},
    "a list": [],
    "a text": "Normal",
}
PRIORS: dict[str, Any] = {
    "negative": {"name": "Normal", "sigma": -1.0, "mean": 0.0},
    "zero": {"name": "Normal", "sigma": 0.0, "mean": 0.0},
    "NaN": {"name": "Normal", "sigma": 1.0, "mean": math.nan},
    "huge": {"name": "Normal", "sigma": 1e308, "mean": 0.0},
    "of text": {"name": "Normal", "sigma": "wide", "mean": 0.0},
    "a mixture of -3": {"name": "ScaleMixture", "pi": -3, "sigma1": 1.0, "sigma2": 0.1},
    "unknown": {"name": "Evil"},
    "torch's own, unknown": {"name": "torch.distributions.Evil"},
    "torch's base class": {"name": "torch.distributions.Distribution"},
    "no distribution": {"name": "torch.distributions.kl_divergence"},
    "torch's own with a shape": {"name": "torch.distributions.Normal", "loc": [0.0, 1.0],
                                 "scale": [1.0, 1.0]},
    "torch's own, negative": {"name": "torch.distributions.Normal", "loc": 0.0, "scale": -1.0},
    "of many dimensions": {"name": "torch.distributions.LKJCholesky", "dim": 10_000},
    "a list": [1],
}  # fmt: skip
FACTORIES: dict[str, Any] = {
    "unknown": {"name": "Evil", "keywords": {}},
    "the base class": {"name": "Optimizer", "keywords": {}},
    "a module": {"name": "lr_scheduler", "keywords": {}},
    "a scheduler": {"name": "lr_scheduler.StepLR", "keywords": {}},
    "no class": {"name": "swa_utils", "keywords": {}},
    "a dunder": {"name": "__loader__", "keywords": {}},
    "with an unknown keyword": {"name": "Adam", "keywords": {"evil": 1}},
    "with vectors of its own": {"name": "Adam", "keywords": {"params": [1]}},
    "with a negative keyword": {"name": "Adam", "keywords": {"eps": -1}},
    "with a dictionary": {"name": "Adam", "keywords": {"betas": {"a": 1}}},
    "with nested lists": {"name": "Adam", "keywords": {"betas": [[0.9], [0.9]]}},
    "with a list of keywords": {"name": "Adam", "keywords": [1]},
    "without keywords": {"name": "Adam"},
    "of an unknown function": {"name": "a function of the user's own", "keywords": {}},
    "a number": 5,
}
SCHEDULES: dict[str, Any] = {
    "unknown": {"name": "Evil", "keywords": {}},
    "the base class": {"name": "LRScheduler", "keywords": {}},
    "an optimizer": {"name": "Optimizer", "keywords": {}},
    "a function": {"name": "partial", "keywords": {}},
    "a class of another kind": {"name": "Counter", "keywords": {}},
    "a function for a lambda": {"name": "LambdaLR", "keywords": {"lr_lambda": "os.system"}},
    "of schedulers": {"name": "SequentialLR", "keywords": {"schedulers": ["a"], "milestones": []}},
    "without its argument": {"name": "StepLR", "keywords": {}},
    "a word": "sometimes",
}
POLICIES: dict[str, Any] = {
    "unknown": {"name": "Evil"},
    "the base class": {"name": "Policy"},
    "eps of 2": {"name": "EpsilonGreedy", "eps": 2.0},
    "eps of NaN": {"name": "EpsilonGreedy", "eps": math.nan},
    "no samples": {"name": "Thompson", "samples": 0},
    "a billion samples": {"name": "Thompson", "samples": 10**9},
    "of unknown": {"name": "Thompson", "of": "evil"},
    "a list": [],
}
LABELS: dict[str, Any] = {
    "of huge texts": {"dtype": "<U500000000", "values": ["a", "bb", "ccc"]},
    "of void": {"dtype": "|V500000000", "values": ["a", "bb", "ccc"]},
    "of structures": {"dtype": "[('a', 'O')]", "values": ["a", "bb", "ccc"]},
    "of dates": {"dtype": "<M8[ns]", "values": ["a", "bb", "ccc"]},
    "of numbers that are texts": {"dtype": "<f8", "values": ["a", "bb", "ccc"]},
    "too few": {"dtype": "<U3", "values": ["a", "bb"]},
    "too many": {"dtype": "<U3", "values": ["a", "bb", "ccc", "d"]},
    "twice": {"dtype": "<U3", "values": ["a", "a", "bb"]},
    "unsorted": {"dtype": "<U3", "values": ["ccc", "a", "bb"]},
    "nested": {"dtype": "|O", "values": [["a"], ["b"], ["c"]]},
    "no list": {"dtype": "<U3", "values": "abc"},
}
ENVIRONMENTS: list[Any] = [
    "evilmod:X-v0", "evilmod:Pendulum-v1", "this:X", "Evil-v0", "", "Pendulum", "CartPole-v1",
    None, 5, ["Pendulum-v1"], {"id": "Pendulum-v1", "entry_point": "evilmod:X"},
    "Pendulum-v1:evilmod", "../evilmod:X-v0",
]  # fmt: skip


def listed() -> Iterator[Case]:
    """Return all known kinds of defects."""
    for name, net in NETS.items():
        yield entry("tagi", ("net",), net, f"a network: {name}")
    for name in ("wide", "of 100,000 layers", "a layer the same as itself"):
        yield entry("bandit_bbb", ("of", "net"), NETS[name], f"a network: {name}")
        yield entry("regressor", ("net",), NETS[name], f"a network: {name}")
    for name, likelihood in LIKELIHOODS.items():
        for kind in ("tagi", "bbb"):
            yield entry(kind, ("likelihood",), likelihood, f"a likelihood: {name}")
    for name, prior in PRIORS.items():
        yield entry("bbb", ("options", "prior"), prior, f"a prior: {name}")
    for name, factory in FACTORIES.items():
        yield entry("backprop", ("options", "optimizer"), factory, f"an optimizer: {name}")
    for name, schedule in SCHEDULES.items():
        yield entry("bbb", ("options", "schedule"), schedule, f"a schedule: {name}")
    for name, policy in POLICIES.items():
        yield entry("bandit_tagi", ("agent", "policy"), policy, f"a policy: {name}")
    for name, labels in LABELS.items():
        yield entry("classifier", ("estimator", "classes"), labels, f"labels: {name}")
    for env in ENVIRONMENTS:
        yield entry("control", ("env",), env)
    yield from numbers()
    yield from headers()


def numbers() -> Iterator[Case]:
    """Tensors that cannot be."""
    for name in ("state/variance/0.weight", "likelihood/noise_mean", "likelihood/noise_variance"):
        yield filled("tagi", name, -1.0)
    yield filled("tagi_norm", "state/buffer/1.running_var", -1.0)
    yield filled("ensemble_tagi", "state/1/state/variance/0.weight", -1.0)
    yield filled("ensemble_tagi", "state/1/likelihood/noise_mean", -1.0)
    yield filled("bbb", "training/0/exp_avg_sq", -1.0)
    yield filled("bbb", "state/rho/0.weight", math.inf)
    yield filled("regressor", "estimator/inputs/scale", 0.0)
    yield filled("regressor", "estimator/inputs/scale", -1.0)
    yield filled("table", "estimator/targets/scale", -1.0)
    yield filled("control", "policy/variance/0.weight", -1.0)
    yield filled("control", "value/variance/0.weight", -1.0)
    yield filled("control", "normalizer/observation_variance", -1.0)
    yield filled("control", "normalizer/counts", -1.0)
    yield filled("control", "normalizer/counts", 0.5)
    yield filled("control", "episode/actions", math.nan)
    yield filled("control", "episode/actions", 1e300)
    yield filled("control", "episode/observation", 0.0)
    yield filled("bandit_bbb", "replay/inputs", math.nan)
    yield filled("bandit_bbb", "replay/targets", math.inf)
    yield filled("bandit_statistics", "learner/training/statistics", math.nan)
    yield tensor("tagi_classes", "likelihood/paths", lambda t: 5 * t, "of other signs")
    yield tensor("control", "episode/actions", lambda _: torch.zeros(10**6, 1), "a million steps")
    yield tensor(
        "control", "episode/actions", lambda t: torch.cat([t, t, t, t]).double(), "beyond the end"
    )
    for kind, name in (
        ("tagi", "generator"), ("bandit_tagi", "generator"), ("bandit_tagi", "learner/generator"),
        ("ensemble", "training/0/generator"),
    ):  # fmt: skip
        yield tensor(kind, name, lambda t: t[:100].clone(), "too short")
        yield tensor(kind, name, lambda t: torch.cat([t, t]), "too long")
        yield tensor(kind, name, lambda t: torch.full_like(t, 255), "all 255")


def headers() -> Iterator[Case]:
    """Entries of headers that cannot be."""
    for value in (True, 1.0, "2", 0, 3, -1, None, [2], 10**30):
        yield entry("tagi", ("format",), value)
    for name in ("", "Evil", "os.system", "Learner", "tractable.TAGI", 5, None, ["TAGI"], "Bandit"):
        yield entry("tagi", ("learner",), name)
    for dtype in ("float16", "int64", "complex64", "evil", None, 5, ["float32"], "float64"):
        yield entry("tagi", ("dtype",), dtype)
    for place, value in (
        (("history",), {}), (("history", 0), 5), (("history", 0, "epoch"), "one"),
        (("fitted",), "yes"),
        (("flat_targets",), 1), (("epoch",), -3), (("epoch",), 99), (("scale",), -1.0),
        (("scale",), "1"), (("plan",), []), (("plan", "epochs"), 0.5), (("plan", "rows"), -60),
        (("plan", "stopped"), 1), (("plan", "fingerprint"), 5), (("training",), {}),
        (("training",), [1]), (("options",), []), (("options", "evil"), 1),
        (("options", "engine"), "native"),
        (("options", "gain"), -1.0), (("options", "gain"), math.nan),
        (("options", "epoch_forgetting"), 2.0),
        (("options", "seed"), "a"), (("options", "seed"), 10**40), (("options", "device"), "meta"),
        (("options", "init"), "evil"), (("options", "net"), None),
    ):  # fmt: skip
        yield entry("tagi", place, value)
    for value in (10**7, -1, 0, 1.5, "2", None, True, 10**40, 3, 1):
        yield entry("ensemble", ("options", "n"), value)
    for value in ("Ensemble", "Evil", None, 5, "TAGI"):
        yield entry("ensemble", ("options", "learner"), value)
    for value in (10**12, 0, -1, "5", 1.5, None, 10**40):
        yield entry("bbb", ("options", "n_weight_samples"), value)
        yield entry("bbb", ("options", "n_train_samples"), value)
    for key, value in (
        ("lr", -1.0), ("betas", [2.0, 2.0]), ("betas", 5), ("betas", []), ("params", [5]),
        ("params", []), ("fused", "yes"), ("eps", math.nan), ("weight_decay", [1]),
    ):  # fmt: skip
        yield entry("bbb", ("training", "optimizer", "groups", 0, key), value)
    yield entry("bbb", ("training", "optimizer", "groups"), [])
    yield entry("bbb", ("training", "optimizer", "numbers"), {"7": {"evil": 1}})
    yield entry("bbb", ("training", "schedule"), {"step": 1, "optimizer": 2})
    yield entry("bbb", ("training", "rows"), math.inf)
    yield Case("bbb", "a schedule of hostile state", hostile_schedule)
    for place, value in (
        (("features",), 10**9), (("features",), -1), (("features",), 1.5), (("kind",), "Evil"),
        (("feature_names",), ["a"]), (("feature_names",), 5), (("parameters",), []),
        (("parameters", "hidden_layer_sizes"), "zzz"),
        (("parameters", "hidden_layer_sizes"), [-1]),
        (("parameters", "epochs"), -5), (("parameters", "evil"), 1), (("single_target",), "x"),
        (("parameters", "batch_size"), 0), (("parameters", "activation"), "evil"),
    ):  # fmt: skip
        yield entry("regressor", ("estimator", *place), value)
    for place, value in (
        (("learner",), "oracle"), (("learner",), None), (("task",), "evil"), (("format",), True),
        (("format",), 2), (("columns",), []), (("columns",), 5), (("columns", 0, "kind"), "evil"),
        (("columns", 0, "name"), 5), (("columns", 1, "levels"), []),
        (("columns", 0, "fill"), [math.nan]),
        (("columns", 0, "fill"), [1.0, 2.0]), (("columns", 0, "levels"), ["a"] * 5),
        (("ids",), 5), (("ids",), [1]), (("missing",), "evil"), (("target",), None),
    ):  # fmt: skip
        yield entry("table", ("table", *place), value)
    for place, value in (
        (("agent", "features"), 10**9), (("agent", "features"), -1), (("agent", "actions"), 10**9),
        (("agent", "actions"), 50_000), (("agent", "actions"), 1), (("agent", "reward_scale"), 0.0),
        (("agent", "reward_scale"), math.nan), (("agent", "seed"), "a"), (("env_seed",), "a"),
        (("agent", "replay", "capacity"), 0), (("agent", "replay", "capacity"), 5),
        (("agent", "replay", "batch_size"), "a"), (("agent", "replay"), None), (("replay",), {}),
        (("replay", "next"), 10**9), (("replay", "seen"), -1), (("replay", "steps"), 5),
        (("of",), {}), (("of",), None), (("of", "learner"), "Bandit"), (("agent",), {}),
    ):  # fmt: skip
        yield entry("bandit_bbb", place, value)
    for place, value in (
        (("agent",), "Evil"), (("sigma_v",), math.nan), (("sigma_v",), -1.0), (("steps",), "a"),
        (("steps",), -5), (("episodes",), [[1]]), (("episodes",), 5), (("log",), [5]),
        (("log",), [{"a": "b"}]), (("episode_seed",), -1), (("episode_seed",), 1),
        (("episode_seed",), 10**40), (("rng",), "{}"), (("rng",), "[" * 100_000), (("rng",), 5),
        (("rng",), '{"bit_generator": "Evil"}'), (("options", "n_steps"), 10**12),
        (("options", "n_steps"), 0), (("options", "policy_hidden_layer_sizes"), [10**9]),
        (("options", "policy_hidden_layer_sizes"), [8] * 10**5),
        (("options", "value_hidden_layer_sizes"), [8]),
        (("options", "policy_hidden_layer_sizes"), "zzz"), (("options", "evil"), 1),
        (("options", "batch_size"), 1.5), (("options", "gamma"), 3.0), (("options",), []),
    ):  # fmt: skip
        yield entry("control", place, value)


def hostile_schedule(_: Tensors, header: Header) -> None:
    header["options"]["schedule"] = {"name": "StepLR", "keywords": {"step_size": 1}}
    header["training"]["schedule"] = {"step": "evil", "base_lrs": "evil", "optimizer": 5}


# --- files that are not model files -----------------------------------------------------------


def raw(folder: Path) -> dict[str, Path]:
    """Files with damage that no checksum covers."""
    whole = write_good("tagi", folder / "whole").read_bytes()
    length = int.from_bytes(whole[:8], "little")
    tensors, header = contents("tagi")
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("model", whole)
    saved = io.BytesIO()
    torch.save(tensors, saved)

    def with_header(text: str) -> bytes:
        from safetensors.torch import save

        return bytes(save(tensors, {"tractable": text}))

    contained = {
        "empty": b"",
        "one byte": b"\0",
        "pickle": pickle.dumps({"state": header}),
        "torch.save": saved.getvalue(),
        "zip": archive.getvalue(),
        "text": b"not a model",
        "no tensors": whole[: 8 + length],
        "half": whole[: len(whole) // 2],
        "without its last byte": whole[:-1],
        "with bytes at its end": whole + b"\0" * 100,
        "a header of 2^63 bytes": (1 << 63).to_bytes(8, "little") + whole[8:],
        "a header of 2^40 bytes": (1 << 40).to_bytes(8, "little") + whole[8:],
        "zeros": b"\0" * 10_000,
        "deep JSON": with_header("[" * 500_000),
        "deep JSON in an object": with_header('{"format":2,"a":' + '{"a":' * 100_000),
        "a number of 5,000 digits": with_header('{"format": 2, "epoch": ' + "9" * 5_000 + "}"),
        "no JSON": with_header("{"),
        "a header of 20 million characters": with_header('{"format": 2, "a": "' + "a" * 20_000_000),
        "a list for a header": with_header("[2]"),
        "a text for a header": with_header('"2"'),
        "no checksum": with_header(json.dumps({"format": 2, **header})),
        "a checksum of another type": with_header(
            json.dumps({"format": 2, **header, "checksum": [1]})
        ),
        "the checksum of another file": with_header(
            json.dumps({"format": 2, **header, "checksum": "0" * 64})
        ),
        "a safetensors file of somebody else": bytes_of_somebody_else(tensors),
    }
    paths = {}
    for name, content in contained.items():
        paths[name] = folder / f"raw {name}"
        paths[name].write_bytes(content)
    return paths


def bytes_of_somebody_else(tensors: Tensors) -> bytes:
    from safetensors.torch import save

    return bytes(save(tensors))


def absent(folder: Path) -> dict[str, Path]:
    """What is there but is no file, or is not there."""
    os.mkfifo(folder / "fifo")
    (folder / "folder").mkdir()
    (folder / "dangling").symlink_to(folder / "nothing")
    return {name: folder / name for name in ("fifo", "folder", "dangling", "nothing")} | {
        "device": Path("/dev/zero")
    }
