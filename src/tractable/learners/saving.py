"""A learner as a file, and back: what is written, and what a file must fit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from tractable import likelihoods
from tractable.learners import architecture, storage
from tractable.learners.storage import InvalidModelFile
from tractable.likelihoods import Likelihood

if TYPE_CHECKING:
    from tractable.learners.base import Learner


def save(learner: Learner, path: str | Path) -> None:
    """Write a learner to one file, atomically."""
    storage.write(path, *pack(learner))


def pack(learner: Learner) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """A learner as named tensors and JSON values, which may be a part of a larger file."""
    tensors = {f"state/{name}": tensor for name, tensor in learner._tensors().items()}
    tensors |= {
        f"likelihood/{name}": tensor for name, tensor in learner.likelihood.state_dict().items()
    }
    tensors["generator"] = learner.generator.get_state()
    more, values = learner._training_state()
    tensors |= {f"training/{name}": tensor for name, tensor in more.items()}
    header = {
        "learner": type(learner).__name__,
        "options": learner._options(),
        "dtype": str(learner.dtype).removeprefix("torch."),
        "likelihood": {"name": type(learner.likelihood).__name__, **learner.likelihood.config()},
        "net": architecture.describe(learner.net),
        "history": learner.history,
        "fitted": learner.fitted,
        "flat_targets": learner._flat_targets,
        "epoch": learner._epoch,
        "scale": learner._scale,
        "plan": learner._plan,
        "training": values,
    }
    return tensors, header


def load(
    kinds: Mapping[str, type[Learner]],
    path: str | Path,
    net: nn.Module | None,
    likelihood: Likelihood | None,
    *,
    device: torch.device | str | None,
    **options: Any,
) -> Learner:
    """The learner that a file holds; see ``Learner.load``."""
    tensors, header = storage.read(path)
    return unpack(kinds, path, tensors, header, net, likelihood, device=device, **options)


def unpack(
    kinds: Mapping[str, type[Learner]],
    path: str | Path,
    tensors: dict[str, Tensor],
    header: dict[str, Any],
    net: nn.Module | None,
    likelihood: Likelihood | None,
    *,
    device: torch.device | str | None,
    **options: Any,
) -> Learner:
    """The learner that ``pack`` described; ``path`` is for error messages."""
    kind = kinds.get(str(header.get("learner")))
    if kind is None:
        raise InvalidModelFile(f"{path} holds a {header.get('learner')!r} learner: unknown here")
    try:
        if net is None:
            if header["net"] is None:
                raise ValueError(
                    "the architecture is not in the file (it is not made of plain torch.nn "
                    "layers in nn.Sequential): give load(path, net=...)"
                )
            net = architecture.build(header["net"])
        if likelihood is None:
            likelihood = _build_likelihood(dict(header["likelihood"]))
        dtype = getattr(torch, header["dtype"])
        arguments = {**header["options"], **options}
        learner = kind(net, likelihood, dtype=dtype, device=device, **arguments)
        _take(learner, tensors, header)
    except (KeyError, AttributeError, TypeError) as error:
        raise InvalidModelFile(f"{path} does not fit: {error}") from error
    return learner


def resume(learner: Learner, path: str | Path, plan: dict[str, int]) -> int:
    """Take over a checkpoint of the same plan; returns where its history began."""
    tensors, header = storage.read(path)
    written = header.get("plan") or {}
    for key, value in plan.items():
        if written.get(key) != value:
            raise ValueError(
                f"cannot resume from {path}: it was written by a fit with {key} = "
                f"{written.get(key)}, this one has {value}"
            )
    _take(learner, tensors, header)
    return int(written["first_record"])


def _take(learner: Learner, tensors: dict[str, Tensor], header: dict[str, Any]) -> None:
    """Take over what a file holds, if it is of the same network."""

    def part(prefix: str) -> dict[str, Tensor]:
        prefix += "/"
        return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}

    mine = {name: tuple(tensor.shape) for name, tensor in learner._tensors().items()}
    theirs = {name: tuple(tensor.shape) for name, tensor in part("state").items()}
    if mine != theirs:
        odd = sorted({n for n in mine.keys() | theirs.keys() if mine.get(n) != theirs.get(n)})
        raise InvalidModelFile(
            f"the file is of another network: {odd[0]} is {theirs.get(odd[0])} in the file "
            f"and {mine.get(odd[0])} here"
        )
    learner._restore({name: tensor.to(learner.device) for name, tensor in part("state").items()})
    learner.likelihood.load_state_dict(part("likelihood"))
    learner.generator.set_state(tensors["generator"])
    learner.history = header["history"]
    learner.fitted = header["fitted"]
    learner._flat_targets = header["flat_targets"]
    learner._epoch = header["epoch"]
    learner._scale = header["scale"]
    learner._plan = header["plan"]
    learner._restore_training(part("training"), header.get("training"))


def _build_likelihood(config: dict[str, Any]) -> Likelihood:
    name = config.pop("name")
    kind = getattr(likelihoods, str(name), None)
    if not (isinstance(kind, type) and issubclass(kind, Likelihood)):
        raise ValueError(f"unknown likelihood {name!r}: give load(path, likelihood=...)")
    return kind(**config)
