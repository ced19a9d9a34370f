"""Save and load an agent with a policy network."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from tractable.agents.control.environment import known_environment, open_environment
from tractable.agents.renamed import current
from tractable.agents.values.file import MOST_STEPS, check_length
from tractable.errors import InvalidModelFile
from tractable.learners import serialization
from tractable.persistence import model_file, validation
from tractable.persistence.model_file import Header, Tensors, under_prefix, with_prefix

if TYPE_CHECKING:
    from tractable.agents.values.policy_agent import PolicyAgent


def save(agent: PolicyAgent, path: str | Path) -> None:
    """Write an agent to one file, atomically."""
    model_file.write(path, *packed(agent))


def packed(agent: PolicyAgent) -> tuple[Tensors, Header]:
    """Return an agent as named tensors and JSON values."""
    tensors = _own(agent)
    critic = None
    if agent.critic is not None:
        own, critic = serialization.pack(agent.critic.learner)
        tensors |= with_prefix(own, "critic/")
    spec = getattr(agent.env, "spec", None)
    return tensors, {
        "agent": type(agent).__name__,
        "options": agent.options(),
        "own_net": agent.own_net,
        "critic": critic,
        "env": None if spec is None else spec.id,
        "steps": agent.steps,
        "episodes": agent.episodes,
        "training_log": agent.training_log,
        "episode_seed": agent.episode.seed,
        "rng": json.dumps(agent.rng.bit_generator.state),
    }


def _own(agent: PolicyAgent) -> Tensors:
    tensors = with_prefix(
        {k: v.detach().clone() for k, v in agent.actor.parameters.items()}, "actor/"
    )
    for k, one in enumerate(agent.actor.net.parameters()):
        state = agent.actor.optimizer.state.get(one, {})
        for name in ("exp_avg", "exp_avg_sq", "step"):
            zero = torch.zeros(()) if name == "step" else torch.zeros_like(one)
            tensors[f"adam/{k}/{name}"] = state.get(name, zero).detach().clone()
    arrays = {
        **agent.normalizer.arrays(),
        "episode_observation": agent.episode.observation,
    }
    plain = {name: torch.from_numpy(np.array(a, order="C")) for name, a in arrays.items()}
    plain["episode_actions"] = torch.tensor(agent.episode.actions, dtype=torch.int64)
    return tensors | with_prefix(plain, "arrays/")


def load(kind: type[PolicyAgent], path: str | Path, env: Any, net: nn.Module | None) -> PolicyAgent:
    """Return the agent stored in a file; see ``PolicyAgent.load``."""
    tensors, header = model_file.read(path)
    with model_file.as_invalid_file(path):
        if header.get("agent") != kind.__name__:
            raise InvalidModelFile(f"{path} does not hold a {kind.__name__} agent")
        header = current(header)
        if header["own_net"] and net is None:
            raise InvalidModelFile(
                f"the agent was constructed with net=: pass the same network, load({path}, net=)"
            )
        env = open_environment(known_environment(header["env"]) if env is None else env)
        actions = tensors["arrays/episode_actions"].tolist()
        check_length(env, len(actions))
        options = _options(kind, header, tensors)
        made: Any = kind
        if header["critic"] is not None:
            learner = serialization.unpack(
                path, under_prefix(tensors, "critic/"), header["critic"], None, None, device=None
            )
            options["critic"] = lambda *_, **__: learner
        agent: PolicyAgent = made(env, net=net, **options)
        _restore(agent, tensors, header, actions)
        entries = {key: value for key, value in header.items() if key not in ("format", "env")}
        mine = {name: t for name, t in tensors.items() if not name.startswith("critic/")}
        validation.check_roundtrip((mine, entries), (_own(agent), packed(agent)[1]))
    return agent


def _options(kind: type[PolicyAgent], header: Header, tensors: Tensors) -> dict[str, Any]:
    """Return the constructor arguments; raise if one exceeds what the file has data for."""
    options = dict(validation.check_finite(header["options"], "options"))
    room = model_file.count_numbers(tensors)
    hidden_layer_sizes = [
        validation.require_at_most(width, room, "hidden_layer_sizes")
        for width in options["hidden_layer_sizes"]
    ]
    validation.check_network_size([1, *hidden_layer_sizes, 1], 1, tensors)
    validation.check_arguments(kind, options, "the agent")
    for name in ("n_steps", "batch_size", "epochs", "episodes_per_update"):
        validation.require_at_most(options.get(name, 1), MOST_STEPS, name)
    for name in ("weigh_by_confidence", "weigh_by_discount"):
        validation.require_type(options.get(name, False), bool, name)
    return {**options, "hidden_layer_sizes": tuple(hidden_layer_sizes)}


def _restore(agent: PolicyAgent, tensors: Tensors, header: Header, actions: list[int]) -> None:
    mine = {name: t for name, t in tensors.items() if not name.startswith("critic/")}
    wanted = _own(agent) | {"arrays/episode_actions": tensors["arrays/episode_actions"]}
    validation.check_same_tensors(wanted, mine, "agent")
    validation.check_numbers(mine, {})
    with torch.no_grad():
        for name, parameter in agent.actor.parameters.items():
            parameter.copy_(tensors[f"actor/{name}"])
    for k, one in enumerate(agent.actor.net.parameters()):
        state = {n: t.clone() for n, t in under_prefix(tensors, f"adam/{k}/").items()}
        if bool((state["exp_avg_sq"] < 0).any()) or not float(state["step"]) >= 0:
            raise InvalidModelFile(
                "the optimizer state in the file has negative second moments or steps"
            )
        if float(state["step"]):
            agent.actor.optimizer.state[one] = state
    arrays = {name: t.numpy() for name, t in under_prefix(tensors, "arrays/").items()}
    agent.normalizer.restore(arrays)
    agent.steps = validation.require_at_most(header["steps"], 1 << 60, "steps")
    agent.episodes = [(int(s), float(r), int(n)) for s, r, n in header["episodes"]]
    agent.training_log = [
        {str(k): float(v) for k, v in record.items()} for record in header["training_log"]
    ]
    if any(not 0 <= action < agent.actions for action in actions):
        raise InvalidModelFile("the episode in the file has actions outside the action space")
    seed = validation.require_type(header["episode_seed"], int, "episode_seed")
    if not agent.episode.resume(seed, actions, arrays["episode_observation"]):
        raise InvalidModelFile(
            "the episode cannot be resumed: the environment is not reproducible from the same "
            "seed and actions (another version, or not seeded)"
        )
    agent.rng.bit_generator.state = json.loads(header["rng"])


def rescue(agent: PolicyAgent, path: str | Path | None) -> str:
    """Save an agent whose environment failed; return the path of the file."""
    if path is None:
        path = Path(tempfile.mkdtemp(prefix="tractable-")) / "agent.safetensors"
    save(agent, path)
    return str(path)
