"""Saving and loading of learners, with checks of the contents of a file.

A file names its learner, network and likelihood.  Only registered classes are constructed, and
only after their size was compared with the size of the file.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from tractable import likelihoods
from tractable.errors import InvalidModelFile
from tractable.learners.fit_loop import FitRun
from tractable.learners.off_data.support import TrainingSupport
from tractable.likelihoods import Likelihood
from tractable.likelihoods.composite import current_config
from tractable.persistence import model_file, module_json, validation
from tractable.persistence.model_file import Header, Tensors, under_prefix, with_prefix

if TYPE_CHECKING:
    from tractable.learners.learner import Learner

_OWN = "tractable."
_KINDS: dict[str, type[Learner]] = {}
_ENTRIES = "dtype likelihood net history fitted flat_targets epoch scale plan training".split()
_SMALL = 1 << 10  # an integer up to this is accepted without comparison with the file: it is cheap
# Names of options and tensors in files that were written before version 0.2.
_FORMER_OPTIONS = {
    "relative_variance": "prior_variance_ratio",
    "even_steps": "scale_by_layer_size",
    "branches": "residual_gain",
    "fresh": "reinit",
    "widen": "prior_scale",
    "forget": "epoch_forgetting",
    "draws": "n_weight_samples",
    "samples": "n_train_samples",
    "n": "n_estimators",
}
_FORMER_TENSORS = {
    "support/near": "support/slope_radius",
    "support/reach": "support/radius",
    "support/steep": "support/column_slopes",
}


def register(kind: type[Learner]) -> None:
    """Register a learner class for ``load``."""
    _KINDS[learner_name(kind)] = kind


def learner_name(kind: type[Learner]) -> str:
    """Return the name of a learner in files; classes of users include their module."""
    own = kind.__module__.startswith(_OWN)
    return kind.__name__ if own else f"{kind.__module__}.{kind.__qualname__}"


def learner_class(name: Any) -> type[Learner]:
    """Return the registered learner of this name; nothing is imported."""
    kind = _KINDS.get(str(name))
    if kind is not None:
        return kind
    kinds = [kind for known, kind in _KINDS.items() if known.split(".")[-1] == name]
    if len(kinds) != 1:
        raise InvalidModelFile(
            f"unknown learner {name!r}: import the module that defines it before loading"
        )
    return kinds[0]


# --- writing -----------------------------------------------------------------------------------


def write(path: str | Path, packed: tuple[Tensors, Header]) -> None:
    """Write the result of ``pack`` to a file, atomically."""
    model_file.write(path, *packed)


def pack(learner: Learner) -> tuple[Tensors, Header]:
    """Return a learner as named tensors (copies) and JSON values, for a file.

    The tensors are copies, because another thread may continue training while they are written.
    """
    with learner.lock:
        tensors, header = parts(learner)
        copies = {name: tensor.detach().clone() for name, tensor in tensors.items()}
        return copies, copy.deepcopy(header)


def parts(learner: Learner) -> tuple[Tensors, Header]:
    """Return the result of ``pack`` without copying the tensors."""
    tensors, values = packed_state(learner)
    support = learner.off_data.support
    if support is not None:
        tensors |= with_prefix(support.tensors(), "support/")
    header = {
        "learner": learner_name(type(learner)),
        **identity(learner),
        "history": learner.history,
        "fitted": learner.fitted,
        "flat_targets": learner.checks.flat_targets,
        **learner.run.to_header(),
        "training": values,
    }
    return tensors, header


def identity(learner: Learner) -> dict[str, Any]:
    """Return the options, dtype, likelihood and network of a learner as JSON values."""
    likelihood = learner.state.likelihood
    return {
        "options": {**learner.method.config(), "seed": learner.seed},
        "dtype": str(learner.dtype).removeprefix("torch."),
        "likelihood": {"name": type(likelihood).__name__, **likelihood.config()},
        "net": module_json.describe(learner.net),
    }


def packed_state(learner: Learner) -> tuple[Tensors, Any]:
    """Return everything that training changes: tensors (not copied) and JSON values."""
    method, state = learner.method, learner.state
    more, values = method.training(state)
    return {
        **with_prefix(method.learnt(state), "state/"),
        **with_prefix(state.likelihood.state_dict(), "likelihood/"),
        "generator": state.generator.get_state(),
        **with_prefix(more, "training/"),
    }, values


def restore_state(learner: Learner, tensors: Tensors, values: Any) -> None:
    """Copy the result of ``packed_state`` into a new state of the same method."""
    method, state = learner.method, learner.state
    learnt = {
        name: tensor.to(learner.device) for name, tensor in under_prefix(tensors, "state/").items()
    }
    validation.check_same_tensors(method.learnt(state), learnt, "network")
    validation.check_numbers(learnt, method.domains)
    training = under_prefix(tensors, "training/")
    validation.check_numbers(training, {word.partition("/")[0]: "not NaN" for word in training})
    noise = under_prefix(tensors, "likelihood/")
    validation.check_same_tensors(state.likelihood.state_dict(), noise, "likelihood")
    state.likelihood.check_buffers(noise)
    method.restore(state, learnt)
    state.likelihood.load_state_dict(noise)
    state.generator.set_state(tensors["generator"])
    method.restore_training(state, training, values)


# --- reading -----------------------------------------------------------------------------------


def with_current_names(tensors: Tensors, header: Header) -> tuple[Tensors, Header]:
    """Return the contents of a file with the names of this version for options and tensors."""
    options = validation.require_type(header["options"], dict, "options")
    options = {_FORMER_OPTIONS.get(name, name): value for name, value in options.items()}
    likelihood = validation.check_finite(header["likelihood"], "likelihood")
    tensors = {_FORMER_TENSORS.get(name, name): tensor for name, tensor in tensors.items()}
    return tensors, {**header, "options": options, "likelihood": current_config(likelihood)}


def load(
    path: str | Path,
    net: nn.Module | None,
    likelihood: Likelihood | None,
    *,
    device: torch.device | str | None,
    **options: Any,
) -> Learner:
    """Return the learner in a file; see ``Learner.load``."""
    return unpack(path, *model_file.read(path), net, likelihood, device=device, **options)


def unpack(
    path: str | Path,
    tensors: Tensors,
    header: Header,
    net: nn.Module | None,
    likelihood: Likelihood | None,
    *,
    device: torch.device | str | None,
    **options: Any,
) -> Learner:
    """Return the learner that ``pack`` described; ``path`` is used in error messages."""
    with model_file.as_invalid_file(path):
        kind = learner_class(header.get("learner"))
        tensors, header = with_current_names(tensors, header)
        written = dict(validation.check_finite(header["options"], "options"))
        given = {"net": net, "likelihood": likelihood}
        replaced = {*options, *(name for name, part in given.items() if part is not None)}
        if net is None:
            if header["net"] is None:
                raise InvalidModelFile(
                    f"{path} does not contain the architecture, because the network does not "
                    f"consist of plain torch.nn layers in nn.Sequential: pass load(path, net=...)"
                )
            net = module_json.build(header["net"], model_file.count_numbers(tensors))
        if likelihood is None:
            likelihood = likelihood_of(dict(header["likelihood"]), tensors)
        validation.check_arguments(kind, written, "the learner")
        kind.method_class.check_file(written, net, tensors)
        learner = kind(
            net, likelihood, dtype=_dtype(header["dtype"]), device=device, **{**written, **options}
        )
        restore_state(learner, tensors, header["training"])
        restore_header(learner, header)
        learner.off_data.support = _support(learner, under_prefix(tensors, "support/"))
        stored, entries = _learner_parts(tensors, header, replaced)
        packed, values = parts(learner)
        if options:  # an option that replaces one of the file may add or remove tensors
            names = stored.keys() & packed.keys()
            stored, packed = ({n: source[n] for n in names} for source in (stored, packed))
        validation.check_roundtrip((stored, entries), (packed, values))
    return learner


def _support(learner: Learner, tensors: Tensors) -> TrainingSupport | None:
    """Return the kept training rows; None if the file has none."""
    if not tensors:
        return None

    def mean(x: Tensor) -> Tensor:
        return learner.off_data.widened_function(x.to(learner.device)).cpu()

    return TrainingSupport.from_tensors(tensors, learner.dtype, mean).to(learner.device)


def resume(learner: Learner, path: str | Path, planned: FitRun) -> FitRun:
    """Load a checkpoint of the same learner and plan, or raise an error and change nothing."""
    tensors, header = model_file.read(path)
    with model_file.as_invalid_file(path):
        tensors, header = with_current_names(tensors, header)
        written = FitRun.from_header(header)
    problem = _difference(learner, header) or planned.differs(written)
    if problem is not None:
        raise ValueError(f"cannot resume from {path}: {problem}")
    with model_file.as_invalid_file(path):
        restored = copy.deepcopy(learner)
        restored.state = _initial_state(learner)
        restore_state(restored, tensors, header["training"])
        restore_header(restored, header)
        restored.off_data.support = _support(restored, under_prefix(tensors, "support/"))
        validation.check_roundtrip(_learner_parts(tensors, header, set()), parts(restored))
    learner.state, learner.history = restored.state, restored.history
    learner.off_data.support = restored.off_data.support
    learner.fitted, learner.checks.flat_targets = restored.fitted, restored.checks.flat_targets
    written.fingerprint = planned.fingerprint
    return written


def load_state_dict(learner: Learner, state_dict: Tensors) -> None:
    """Load what ``Learner.state_dict`` returned, or raise ``InvalidModelFile``; see there."""
    with model_file.as_invalid_file("state_dict"):
        tensors = dict(state_dict)
        values = json.loads(bytes(tensors.pop("_extra_state").tolist()))
        restored = copy.deepcopy(learner)
        restored.state = _initial_state(learner)
        restore_state(restored, tensors, values)
        restored.off_data.support = _support(restored, under_prefix(tensors, "support/"))
    with learner.lock:
        learner.state, learner.fitted = restored.state, True
        learner.off_data.support = restored.off_data.support


def _initial_state(learner: Learner) -> Any:
    """Return a new state of the learner's method, to restore a file into."""
    return learner.method.init(copy.deepcopy(learner.state.likelihood), learner.seed)


def _learner_parts(tensors: Tensors, header: Header, without: set[str]) -> tuple[Tensors, Header]:
    """Return the parts of a file that its learner must reproduce.

    The file of an estimator has further parts.
    """
    roots = ("state/", "likelihood/", "training/", "support/")
    own = {k: t for k, t in tensors.items() if k == "generator" or k.startswith(roots)}
    entries = {key: header[key] for key in _ENTRIES if key not in without}
    options = header["options"].items()
    entries["options"] = {key: value for key, value in options if key not in without}
    return own, entries


def _difference(learner: Learner, header: Header) -> str | None:
    """Return how a checkpoint differs from this learner, as text; None if it does not."""
    name = learner_name(type(learner))
    if header.get("learner") != name:
        return f"it contains a {header.get('learner')!r} learner, expected {name}"
    mine: dict[str, Any] = json.loads(json.dumps(identity(learner)))
    for what in ("dtype", "net", "options", "likelihood"):
        theirs = header.get(what)
        if what == "net" and None in (theirs, mine[what]):
            continue  # JSON cannot represent the network: its shapes are compared later
        if theirs == mine[what]:
            continue
        if isinstance(theirs, dict) and what != "net":
            for key, value in mine[what].items():
                if theirs.get(key) != value:
                    return f"its {what} has {key} = {theirs.get(key)!r}, expected {value!r}"
        return f"its {what} differs from that of this learner"
    return None


def restore_header(learner: Learner, header: Header) -> None:
    """Copy history, progress and the form of the targets from a header, checked."""
    history = validation.require_type(header["history"], list, "history")
    for record in history:
        for value in validation.require_type(record, dict, "a record of the history").values():
            validation.require_type(value, (int, float), "a value of the history")
    learner.history = history
    learner.fitted = validation.require_type(header["fitted"], bool, "fitted")
    if header["flat_targets"] is not None:
        learner.checks.flat_targets = validation.require_type(
            header["flat_targets"], bool, "flat_targets"
        )
    learner.run = FitRun.from_header(header)


def likelihood_of(config: dict[str, Any], tensors: dict[str, Tensor]) -> Likelihood:
    """Return the likelihood described in a file, if it is known and fits the tensors."""
    name = str(config.pop("name"))
    kind = getattr(likelihoods, name, None)
    if not (isinstance(kind, type) and issubclass(kind, Likelihood)):
        raise InvalidModelFile(
            f"unknown likelihood {name!r} in the file: pass load(path, likelihood=...)"
        )
    buffers = under_prefix(tensors, "likelihood/").values()
    limit = max([_SMALL, *(size for tensor in buffers for size in tensor.shape)])
    for key, value in _integers(config):
        validation.require_at_most(value, limit, key)
    built: Likelihood = kind(**config)
    return built


def _integers(values: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the integer arguments of a likelihood and of its parts."""
    for key, value in values.items():
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, dict):
                yield from _integers(inner)
            elif isinstance(inner, int) and not isinstance(inner, bool):
                yield key, inner


def _dtype(name: Any) -> torch.dtype:
    known = {"float32": torch.float32, "float64": torch.float64}
    if name not in known:
        raise InvalidModelFile(f"dtype in the file is {name!r}, expected float32 or float64")
    return known[name]
