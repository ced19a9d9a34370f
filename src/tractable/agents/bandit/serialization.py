"""Save and load a bandit agent: learner, policy, replay buffer, generator and history."""

from __future__ import annotations

import json
from math import isqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from tractable.agents.bandit.history import BanditHistory
from tractable.agents.bandit.policies import BanditPolicy, make_policy
from tractable.agents.bandit.policies import with_current_names as policy_with_current_names
from tractable.agents.bandit.replay import BanditReplay
from tractable.errors import InvalidModelFile
from tractable.learners import Learner
from tractable.learners import serialization as learner_files
from tractable.likelihoods import Likelihood
from tractable.persistence import model_file, validation
from tractable.persistence.model_file import Header, Tensors, under_prefix, with_prefix

if TYPE_CHECKING:
    from tractable.agents.bandit.agent import Bandit

_KIND = "Bandit"


def save(agent: Bandit, path: str | Path) -> None:
    """Write an agent to a file; an existing file is replaced only when the new one is complete."""
    model_file.write(path, *packed(agent))


def packed(agent: Bandit) -> tuple[Tensors, Header]:
    """Return an agent as named tensors and JSON values."""
    own, learner = learner_files.pack(agent.learner)
    tensors = with_prefix(own, "learner/") | with_prefix(agent.history.state(), "history/")
    tensors["generator"] = agent.generator.get_state()
    positions: dict[str, int] = {}
    if agent.replay is not None:
        rows, positions = agent.replay.state()
        tensors |= with_prefix(rows, "replay/")
    header = {
        "learner": _KIND,
        "agent": described(agent),
        "of": learner,
        "replay": positions,
        "env_seed": agent.env_seed,
    }
    return tensors, header


def described(agent: Bandit) -> dict[str, Any]:
    """Return the constructor arguments, except the learner, as JSON values."""
    return {
        "policy": {"name": type(agent.policy).__name__, **agent.policy.config()},
        "n_features": agent.n_features,
        "n_actions": agent.n_actions,
        "replay": None if agent.replay is None else agent.replay.config(),
        "reward_scale": agent.reward_scale,
        "memory_rows": agent.memory_rows,
        "seed": agent.seed,
    }


def load(
    kind: type[Bandit],
    path: str | Path,
    net: nn.Module | None,
    likelihood: Likelihood | None,
    *,
    policy: BanditPolicy | None,
    device: torch.device | str | None,
    **options: Any,
) -> Bandit:
    """Return the agent stored in a file; see ``Bandit.load``."""
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
    policy: BanditPolicy | None,
    device: torch.device | str | None,
    **options: Any,
) -> Bandit:
    """Return the agent described by these tensors and this header."""
    with model_file.as_invalid_file(path):
        if header.get("learner") != _KIND:
            raise InvalidModelFile(f"{path} holds a {header.get('learner')!r}, not a bandit agent")
        header = _with_current_names(header)
        learner = learner_files.unpack(
            path, under_prefix(tensors, "learner/"), header["of"], net, likelihood,
            device=device, **options,
        )  # fmt: skip
        arguments = dict(validation.check_finite(header["agent"], "agent"))
        replay, found = arguments.pop("replay"), arguments.pop("policy")
        _check_sizes(learner, arguments, model_file.count_numbers(tensors))
        if "n_samples" in found:
            validation.require_at_most(found["n_samples"], MAX_SAMPLES, "n_samples")
        agent = kind(
            learner,
            make_policy(found if policy is None else policy),
            replay=None if replay is None else BanditReplay(**replay),
            **arguments,
        )
        agent.generator.set_state(tensors["generator"])
        agent.history = BanditHistory.restore(under_prefix(tensors, "history/"))
        seed = header["env_seed"]
        agent.env_seed = None if seed is None else validation.require_type(seed, int, "env_seed")
        if agent.replay is not None:
            rows = {k: t.to(learner.device) for k, t in under_prefix(tensors, "replay/").items()}
            _check_replay_rows(learner, rows, agent.n_features + agent.n_actions)
            agent.replay.restore(rows, header["replay"])
        validation.check_roundtrip(
            _of_agent(tensors, header, policy), _of_agent(*packed(agent), policy)
        )
    return agent


MAX_ACTIONS = 5_000
"""Maximum number of actions in a file.

A larger number is accepted if the file holds at least as many numbers as the agent's input rows.
"""

MAX_SAMPLES = 100_000
"""Maximum number of draws per action that a file may request."""


def resume(agent: Bandit, path: str | Path) -> None:
    """Load a run from a file into an agent that was constructed with the same arguments."""
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
    with model_file.as_invalid_file(path):
        policy = policy_with_current_names(header["agent"]["policy"])
    pairs = (
        ("agent", described(found) | {"policy": policy}, described(agent)),
        (
            "learner",
            learner_files.identity(found.learner)["options"],
            learner_files.identity(learner)["options"],
        ),
    )
    for part, stored, current in pairs:
        for key, value in current.items():
            if _plain(stored.get(key)) != _plain(value):
                raise ValueError(
                    f"cannot resume from {path}: the {part} in it has {key} = {stored.get(key)}, "
                    f"this one {value}"
                )
    agent.learner, agent.replay = found.learner, found.replay
    agent.generator, agent.history = found.generator, found.history
    agent.env_seed = found.env_seed


def _with_current_names(header: Header) -> Header:
    """Return the header of a file with current names of the arguments."""
    agent = _renamed(header["agent"], _ARGUMENTS)
    agent["policy"] = policy_with_current_names(agent["policy"])
    if agent["replay"] is not None:
        agent["replay"] = _renamed(agent["replay"], _REPLAY_ARGUMENTS)
    positions = _renamed(header["replay"], _REPLAY_POSITIONS)
    return {**header, "agent": agent, "replay": positions}


_ARGUMENTS = {"features": "n_features", "actions": "n_actions", "memory": "memory_rows"}
_REPLAY_ARGUMENTS = {
    "capacity": "buffer_size",
    "batches": "gradient_steps",
    "every": "train_freq",
}
_REPLAY_POSITIONS = {"next": "position", "seen": "n_trained"}
"""New names of arguments and positions in files of earlier versions."""


def _renamed(entries: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in entries.items()}


def _check_sizes(learner: Learner, arguments: dict[str, Any], limit: int) -> None:
    """Check the numbers of actions and features against the network before rows are allocated."""
    actions = validation.require_at_most(
        arguments["n_actions"], max(MAX_ACTIONS, isqrt(limit)), "n_actions"
    )
    width = actions + validation.require_at_most(arguments["n_features"], limit, "n_features")
    learner.checks.output_shape(torch.zeros(1, width, dtype=learner.dtype, device=learner.device))


def _check_replay_rows(learner: Learner, rows: Tensors, n_inputs: int) -> None:
    """Raise if the replay buffer holds rows that the learner cannot have been trained on."""
    validation.check_numbers(rows, {})
    if not rows:
        return
    x, y = rows["inputs"], rows["targets"]
    if (x.dtype, y.dtype, tuple(x.shape[1:])) != (learner.dtype, learner.dtype, (n_inputs,)):
        raise InvalidModelFile(
            f"the replay buffer in the file has inputs of shape {tuple(x.shape)} and type "
            f"{x.dtype}, expected {n_inputs} columns of type {learner.dtype}"
        )
    expected = learner.state.likelihood.check_targets(y, learner.checks.output_shape(x))
    if expected.shape != y.shape:
        raise InvalidModelFile(
            f"the replay buffer in the file has targets of shape {tuple(y.shape)}, expected "
            f"{tuple(expected.shape)}"
        )


def _of_agent(
    tensors: Tensors, header: Header, policy: BanditPolicy | None
) -> tuple[Tensors, Header]:
    """Return the entries of the agent itself, without a policy that the caller replaced."""
    own = {name: t for name, t in tensors.items() if not name.startswith("learner/")}
    stated = {key: v for key, v in header["agent"].items() if key != "policy" or policy is None}
    return own, {"agent": stated, "replay": header["replay"], "env_seed": header["env_seed"]}


def _plain(value: Any) -> Any:
    """Return a value as it reads after being written to JSON."""
    return json.loads(json.dumps(value))
