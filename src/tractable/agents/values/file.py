"""Save and load a Q-agent."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from tractable.agents.control.environment import known_environment, open_environment, registered
from tractable.agents.renamed import current
from tractable.agents.values.critic import Critic
from tractable.agents.values.settings import QSettings
from tractable.agents.values.table import Exploration
from tractable.errors import InvalidModelFile
from tractable.learners import Learner, serialization
from tractable.persistence import model_file, validation
from tractable.persistence.model_file import Header, Tensors, under_prefix, with_prefix

if TYPE_CHECKING:
    from tractable.agents.values.q_agent import QAgent

_KIND = "QAgent"
_MAY_BE_NONE = ("n_step", "memory_rows", "target_update_interval")
MOST_STEPS = 100_000
"""Maximum of a horizon, of other counts in a file, and of an episode without a time limit."""


def save(agent: QAgent, path: str | Path) -> None:
    """Write an agent to one file, atomically."""
    model_file.write(path, *packed(agent))


def packed(agent: QAgent) -> tuple[Tensors, Header]:
    """Return an agent as named tensors and JSON values."""
    tensors: dict[str, Tensor] = {}
    learners: list[Header] = []
    targets: list[Header] = []
    for k, critic in enumerate(agent.critics):
        for name, learner in (("learner", critic.learner), ("target", critic.target)):
            if learner is not None:
                own, header = serialization.pack(learner)
                tensors |= with_prefix(own, f"{name}/{k}/")
                (learners if name == "learner" else targets).append(header)
    tensors |= with_prefix(_arrays(agent), "arrays/")
    spec = getattr(agent.env, "spec", None)
    teacher = agent.teacher
    return tensors, {
        "agent": _KIND,
        "options": agent.options(),
        "critics": learners,
        "targets": targets,
        "env": None if spec is None else spec.id,
        "steps": agent.steps,
        "horizons": teacher.horizons,
        "target_std": teacher.target_std,
        "pessimism": teacher.pessimism,
        "places": _places(agent),
        "held": list(agent.held),
        "episodes": agent.episodes,
        "training_log": agent.training_log,
        "episode_seed": agent.episode.seed,
        "rng": json.dumps(agent.rng.bit_generator.state),
    }


def _arrays(agent: QAgent) -> Tensors:
    """Return statistics, stored transitions and the current episode as tensors."""
    found: dict[str, Any] = dict(agent.normalizer.arrays())
    teacher = agent.teacher
    if teacher.latest is not None:
        found |= {f"latest_{k}": a for k, a in teacher.latest.rows.arrays().items()}
    if teacher.priority_buffer is not None:
        found |= {f"surprising_{k}": a for k, a in teacher.priority_buffer.rows.arrays().items()}
        found["surprise"] = teacher.priority_buffer.surprise
    found["episode_observation"] = agent.episode.observation
    tensors = {name: torch.from_numpy(np.array(a, order="C")) for name, a in found.items()}
    tensors["episode_actions"] = torch.tensor(agent.episode.actions, dtype=torch.int64)
    return tensors


def _places(agent: QAgent) -> list[int]:
    latest, priority = agent.teacher.latest, agent.teacher.priority_buffer
    return [
        0 if latest is None else latest.held,
        0 if latest is None else latest.next,
        0 if priority is None else priority.held,
    ]


def load(kind: type[QAgent], path: str | Path, env: Any, net: nn.Module | None) -> QAgent:
    """Return the agent stored in a file; see ``QAgent.load``."""
    tensors, header = model_file.read(path)
    with model_file.as_invalid_file(path):
        if header.get("agent") != _KIND:
            raise InvalidModelFile(f"{path} does not hold a {_KIND} agent")
        header = current(header)
        env = open_environment(known_environment(header["env"]) if env is None else env)
        arrays = {name: t.numpy() for name, t in under_prefix(tensors, "arrays/").items()}
        check_length(env, len(arrays["episode_actions"]))
        options = _options(header, arrays, model_file.count_numbers(tensors))
        critics = validation.require_type(header["critics"], list, "critics")
        if len(critics) != options.get("n_critics", 1):
            raise InvalidModelFile(
                f"{path} holds {len(critics)} networks, its options ask for "
                f"{options.get('heads', 1)}: the file is damaged"
            )
        learners = [
            _learner(path, tensors, f"learner/{k}/", one, net) for k, one in enumerate(critics)
        ]
        given = iter(learners)
        agent = kind(env, net=learners[0].net, learner=lambda *_, **__: next(given), **options)
        _restore(agent, arrays, header)
        if agent.settings.target_update_interval is not None:
            for k, one in enumerate(header["targets"]):
                target = _learner(path, tensors, f"target/{k}/", one, net)
                agent.critics[k] = Critic(learners[k], agent.actions, target)
        entries = {key: value for key, value in header.items() if key not in ("format", "env")}
        again = packed(agent)
        validation.check_roundtrip((_own(tensors), entries), (_own(again[0]), again[1]))
    return agent


def _learner(
    path: str | Path, tensors: Tensors, prefix: str, header: Header, net: nn.Module | None
) -> Learner:
    return serialization.unpack(path, under_prefix(tensors, prefix), header, net, None, device=None)


def _own(tensors: Tensors) -> Tensors:
    """Return the tensors of the agent itself; its learners check theirs separately."""
    return {name: tensor for name, tensor in tensors.items() if name.startswith("arrays/")}


def _options(header: Header, arrays: dict[str, Any], room: int) -> dict[str, Any]:
    """Return the constructor arguments; raise if one exceeds what the file has data for."""
    options = dict(validation.check_finite(header["options"], "options"))
    exploration = options.pop("exploration")
    seed = validation.require_type(options.pop("seed"), int, "seed")
    options["hidden_layer_sizes"] = tuple(
        validation.require_at_most(w, room, "hidden_layer_sizes")
        for w in options["hidden_layer_sizes"]
    )
    stated = {k: v for k, v in options.items() if v is not None or k not in _MAY_BE_NONE}
    validation.check_arguments(QSettings, stated, "the agent")
    for name in ("train_freq", "batch_size", "epochs", "n_critics", "gradient_steps"):
        validation.require_at_most(options[name], MOST_STEPS, name)
    for name, array in (
        ("buffer_size", "latest_rewards"),
        ("priority_buffer_size", "surprising_rewards"),
    ):
        validation.require_at_most(options[name], len(arrays.get(array, ())), name)
    if exploration is not None:
        options["exploration"] = Exploration(**exploration)
    return {"seed": seed, **options}


def _restore(agent: QAgent, arrays: dict[str, Any], header: Header) -> None:
    mine = _arrays(agent)
    mine["episode_actions"] = torch.from_numpy(arrays["episode_actions"])
    validation.check_same_tensors(
        mine, {k: torch.from_numpy(a) for k, a in arrays.items()}, "agent"
    )
    validation.check_numbers(
        {k: torch.from_numpy(a) for k, a in arrays.items()}, {"counts": "non-negative"}
    )
    agent.normalizer.restore(arrays)
    teacher = agent.teacher
    held, following, kept = header["places"]
    if teacher.latest is not None:
        _fill(teacher.latest.rows, arrays, "latest_", agent.actions)
        teacher.latest.held = validation.require_at_most(held, len(teacher.latest.rows), "held")
        teacher.latest.next = validation.require_at_most(
            following, len(teacher.latest.rows) - 1, "next"
        )
    if teacher.priority_buffer is not None:
        _fill(teacher.priority_buffer.rows, arrays, "surprising_", agent.actions)
        teacher.priority_buffer.surprise[:] = arrays["surprise"]
        teacher.priority_buffer.held = validation.require_at_most(
            kept, len(teacher.priority_buffer.rows), "kept"
        )
    agent.steps = validation.require_at_most(header["steps"], 1 << 60, "steps")
    teacher.horizons = validation.require_at_most(header["horizons"], 1 << 60, "horizons")
    teacher.target_std, teacher.pessimism = (
        float(
            validation.require_type(validation.check_finite(header[name], name), (int, float), name)
        )
        for name in ("target_std", "pessimism")
    )
    if not teacher.target_std > 0 or not teacher.pessimism >= 0:
        raise InvalidModelFile(
            f"target_std in the file is {teacher.target_std}, expected a positive number; "
            f"pessimism is {teacher.pessimism}, expected at least 0"
        )
    agent.episodes = [(int(s), float(r), int(n)) for s, r, n in header["episodes"]]
    agent.training_log = [
        {str(k): float(v) for k, v in record.items()} for record in header["training_log"]
    ]
    head, seed = header["held"]
    agent.held = (
        validation.require_at_most(head, len(agent.critics) - 1, "held"),
        validation.require_at_most(seed, 2**31, "held"),
    )
    _resume(agent, arrays, header)


def _resume(agent: QAgent, arrays: dict[str, Any], header: Header) -> None:
    """Replay the interrupted episode."""
    actions = arrays["episode_actions"].tolist()
    if any(not 0 <= action < agent.actions for action in actions):
        raise InvalidModelFile("the episode in the file has actions outside the action space")
    seed = validation.require_type(header["episode_seed"], int, "episode_seed")
    if not agent.episode.resume(seed, actions, arrays["episode_observation"]):
        raise InvalidModelFile(
            "the episode cannot be resumed: the environment is not reproducible from the same "
            "seed and actions (another version, or not seeded)"
        )
    agent.rng.bit_generator.state = json.loads(header["rng"])


def _fill(rows: Any, arrays: dict[str, Any], prefix: str, actions: int) -> None:
    """Copy stored transitions from the file."""
    for name, array in rows.arrays().items():
        array[...] = arrays[prefix + name]
    if ((rows.actions < 0) | (rows.actions >= actions)).any():
        raise InvalidModelFile("a stored transition has an action outside the action space")


def check_length(env: Any, steps: int) -> None:
    """Raise if an episode, which is replayed step by step, exceeds the limit of the environment."""
    spec = registered(env) if isinstance(env, str) else getattr(env, "spec", None)
    limit = getattr(spec, "max_episode_steps", None) or MOST_STEPS
    if steps > limit:
        raise InvalidModelFile(
            f"the episode in the file has {steps} steps, the environment allows at most {limit}"
        )


def rescue(agent: QAgent, path: str | Path | None) -> str:
    """Save an agent whose environment failed; return the path of the file."""
    if path is None:
        path = Path(tempfile.mkdtemp(prefix="tractable-")) / "agent.safetensors"
    save(agent, path)
    return str(path)
