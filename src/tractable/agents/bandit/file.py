"""A bandit agent as one file, and back: learner, policy, memory, generator and history."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from tractable.agents.bandit.history import History
from tractable.agents.bandit.policies import Policy, current
from tractable.agents.bandit.policies import policy as policy_of
from tractable.agents.bandit.replay import Replay
from tractable.errors import InvalidModelFile
from tractable.learners import Ensemble, files
from tractable.likelihoods import Likelihood
from tractable.persistence import checks, model_file
from tractable.persistence.model_file import Header, Tensors, part, prefixed

if TYPE_CHECKING:
    from tractable.agents.bandit.agent import Bandit

_KIND = "Bandit"


def save(agent: Bandit, path: str | Path) -> None:
    """Write an agent, replacing an older file only when the new one is complete."""
    packed, learner = files.pack(agent.learner)
    tensors = prefixed(packed, "learner/") | prefixed(agent.history.state(), "history/")
    tensors["generator"] = agent.generator.get_state()
    place: dict[str, int] = {}
    if agent.replay is not None:
        held, place = agent.replay.state()
        tensors |= prefixed(held, "replay/")
    header = {
        "learner": _KIND,
        "agent": described(agent),
        "of": learner,
        "replay": place,
        "env_seed": agent.env_seed,
    }
    model_file.write(path, tensors, header)


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
    tensors, header = model_file.read(path)
    return _agent(
        kind, path, tensors, header, net, likelihood, policy=policy, device=device, **options
    )


def _agent(
    kind: type[Bandit],
    path: str | Path,
    tensors: Tensors,
    header: Header,
    net: nn.Module | None,
    likelihood: Likelihood | None,
    *,
    policy: Policy | None,
    device: torch.device | str | None,
    **options: Any,
) -> Bandit:
    """The agent that these tensors and this header describe."""
    with model_file.fitting(path):
        if header.get("learner") != _KIND:
            raise InvalidModelFile(f"{path} holds a {header.get('learner')!r}, not a bandit agent")
        room = model_file.numbers_in(tensors)
        learner = files.unpack(
            path, _learner_part(tensors, header), header["of"], net, likelihood,
            device=device, **options,
        )  # fmt: skip
        arguments = dict(header["agent"])
        replay, found = arguments.pop("replay"), arguments.pop("policy")
        for name in ("features", "actions"):
            checks.at_most(arguments[name], room, name)
        if "samples" in found:
            checks.at_most(found["samples"], MOST_SAMPLES, "samples")
        agent = kind(
            learner,
            policy_of(found if policy is None else policy),
            replay=None if replay is None else Replay(**replay),
            **arguments,
        )
        agent.generator.set_state(tensors["generator"])
        agent.history = History.restore(part(tensors, "history/"))
        seed = header["env_seed"]
        agent.env_seed = None if seed is None else checks.of_type(seed, int, "env_seed")
        if agent.replay is not None:
            held = {k: t.to(learner.device) for k, t in part(tensors, "replay/").items()}
            checks.numbers(held, {})
            agent.replay.restore(held, header["replay"])
    return agent


MOST_SAMPLES = 100_000
"""Draws per action that a file may ask for."""


def resume(agent: Bandit, path: str | Path) -> None:
    """Take over the run that a file holds, if it is of an agent made in the same way."""
    learner = agent.learner
    tensors, header = model_file.read(path)
    found = _agent(
        type(agent), path, tensors, header, learner.net, learner.likelihood,
        policy=agent.policy, device=learner.device,
    )  # fmt: skip
    if type(found.learner) is not type(learner):
        raise ValueError(
            f"cannot resume from {path}: it holds a {type(found.learner).__name__}, not a "
            f"{type(learner).__name__}"
        )
    with model_file.fitting(path):
        policy = current(header["agent"]["policy"])
    pairs = (
        ("agent", described(found) | {"policy": policy}, described(agent)),
        ("learner", files.identity(found.learner)["options"], files.identity(learner)["options"]),
    )
    for what, theirs, mine in pairs:
        for key, value in mine.items():
            if _plain(theirs.get(key)) != _plain(value):
                raise ValueError(
                    f"cannot resume from {path}: the {what} in it has {key} = {theirs.get(key)}, "
                    f"this one {value}"
                )
    agent.learner, agent.replay = found.learner, found.replay
    agent.generator, agent.history = found.generator, found.history
    agent.env_seed = found.env_seed


def _learner_part(tensors: Tensors, header: Header) -> Tensors:
    """The tensors of the learner; format 1 kept the unused statistics of its noise apart."""
    own = part(tensors, "learner/")
    many = header["of"].get("learner") == Ensemble.__name__
    for i, statistics in part(tensors, "statistics/").items():
        own[f"training/{i}/statistics" if many else "training/statistics"] = statistics
    return own


def _plain(value: Any) -> Any:
    """A value as it reads back from a file."""
    return json.loads(json.dumps(value))
