"""A bandit agent as one file, and back: learner, policy, memory, generator and history."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from tractable.agents.history import History
from tractable.agents.policies import Policy
from tractable.agents.policies import policy as policy_of
from tractable.agents.replay import Replay, gradient_learners
from tractable.learners import InvalidModelFile, Learner, saving, storage
from tractable.likelihoods import Likelihood

if TYPE_CHECKING:
    from tractable.agents.bandit import Bandit

_KIND = "Bandit"


def save(agent: Bandit, path: str | Path) -> None:
    """Write an agent, replacing an older file only when the new one is complete."""
    packed, learner = saving.pack(agent.learner)
    tensors = {f"learner/{name}": tensor for name, tensor in packed.items()}
    tensors |= {f"history/{name}": tensor for name, tensor in agent.history.state().items()}
    tensors["generator"] = agent.generator.get_state()
    place: dict[str, int] = {}
    if agent.replay is not None:
        held, place = agent.replay.state()
        tensors |= {f"replay/{name}": tensor for name, tensor in held.items()}
        for i, member in enumerate(gradient_learners(agent.learner)):
            if "statistics" in member._totals:  # of a noise that is learnt, not renewed yet
                tensors[f"statistics/{i}"] = member._totals["statistics"]
    header = {
        "learner": _KIND,
        "agent": described(agent),
        "of": learner,
        "replay": place,
        "env_seed": agent.env_seed,
    }
    storage.write(path, tensors, header)


def described(agent: Bandit) -> dict[str, Any]:
    """The constructor's arguments, but for the learner, as JSON values."""
    return {
        "policy": {"name": type(agent.policy).__name__, **agent.policy.config()},
        "features": agent.features,
        "actions": agent.actions,
        "replay": None if agent.replay is None else agent.replay.config(),
        "reward_scale": agent.reward_scale,
        "seed": agent.seed,
    }


def load(
    kind: type[Bandit],
    path: str | Path,
    net: nn.Module | None,
    likelihood: Likelihood | None,
    *,
    policy: Policy | None,
    device: torch.device | str | None,
    **options: Any,
) -> Bandit:
    """The agent that a file holds; see ``Bandit.load``."""
    tensors, header = storage.read(path)
    if header.get("learner") != _KIND:
        raise InvalidModelFile(f"{path} holds a {header.get('learner')!r}, not a bandit agent")
    try:
        learner = saving.unpack(
            Learner._kinds, path, _part(tensors, "learner/"), header["of"], net, likelihood,
            device=device, **options,
        )  # fmt: skip
        arguments = dict(header["agent"])
        replay = arguments.pop("replay")
        found = arguments.pop("policy")
        agent = kind(
            learner,
            policy_of(found if policy is None else policy),
            replay=None if replay is None else Replay(**replay),
            **arguments,
        )
        agent.generator.set_state(tensors["generator"])
        agent.history = History.restore(_part(tensors, "history/"))
        agent.env_seed = header["env_seed"]
        if agent.replay is not None:
            agent.replay.restore(
                {name: t.to(learner.device) for name, t in _part(tensors, "replay/").items()},
                header["replay"],
            )
            for i, member in enumerate(gradient_learners(learner)):
                if f"statistics/{i}" in tensors:
                    member._totals["statistics"] = tensors[f"statistics/{i}"].to(learner.device)
    except (KeyError, TypeError) as error:
        raise InvalidModelFile(f"{path} does not fit: {error}") from error
    return agent


def resume(agent: Bandit, path: str | Path) -> None:
    """Take over the run that a file holds, if it is of an agent made in the same way."""
    learner = agent.learner
    found = load(
        type(agent), path, learner.net, learner.likelihood,
        policy=agent.policy, device=learner.device,
    )  # fmt: skip
    pairs = (
        ("agent", described(found), described(agent)),
        ("learner", found.learner._options(), learner._options()),
    )
    for what, theirs, mine in pairs:
        for key, value in mine.items():
            if _plain(theirs.get(key)) != _plain(value):
                raise ValueError(
                    f"cannot resume from {path}: the {what} in it has {key} = {theirs.get(key)}, "
                    f"this one {value}"
                )
    if type(found.learner) is not type(learner):
        raise ValueError(
            f"cannot resume from {path}: it holds a {type(found.learner).__name__}, not a "
            f"{type(learner).__name__}"
        )
    agent.learner, agent.replay = found.learner, found.replay
    agent.generator, agent.history = found.generator, found.history
    agent.env_seed = found.env_seed


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def _plain(value: Any) -> Any:
    """A tuple reads back from a file as a list."""
    return list(value) if isinstance(value, tuple) else value
