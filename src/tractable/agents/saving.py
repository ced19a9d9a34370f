"""A control agent as a file, and back."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from tractable.learners import storage
from tractable.learners.storage import InvalidModelFile

if TYPE_CHECKING:
    from tractable.agents.control import TAGIControl

_KIND = "TAGIControl"


def save(agent: TAGIControl, path: str | Path) -> None:
    """Write an agent to one file, atomically."""
    tensors: dict[str, Tensor] = {}
    for name in ("policy", "value"):
        learner = getattr(agent, name)
        tensors |= {f"{name}/{key}": tensor for key, tensor in learner._tensors().items()}
    for key, array in agent.normalizer.arrays().items():
        tensors[f"scales/{key}"] = torch.from_numpy(np.ascontiguousarray(array))
    actions = agent.episode.actions
    tensors["episode/actions"] = torch.from_numpy(
        np.array(actions) if actions else np.zeros((0, *agent.low.shape))
    )
    tensors["episode/observation"] = torch.from_numpy(agent.episode.observation.copy())
    spec = getattr(agent.env, "spec", None)
    header = {
        "agent": _KIND,
        "options": agent.options(),
        "env": None if spec is None else spec.id,
        "steps": agent.steps,
        "sigma_v": agent.sigma_v,
        "episodes": agent.episodes,
        "log": agent.log,
        "episode_seed": agent.episode.seed,
        "rng": json.dumps(agent.rng.bit_generator.state),
    }
    storage.write(path, tensors, header)


def load(kind: type[TAGIControl], path: str | Path, env: Any) -> TAGIControl:
    """The agent that a file holds; see ``TAGIControl.load``."""
    tensors, header = storage.read(path)
    if header.get("agent") != _KIND:
        raise InvalidModelFile(f"{path} does not hold a {_KIND} agent")
    if env is None:
        env = header["env"]
        if env is None:
            raise ValueError(f"{path} does not name its environment: give load(path, env=...)")
    options: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in header["options"].items()
    }
    agent = kind(env, **options)

    def part(prefix: str) -> dict[str, Any]:
        prefix += "/"
        return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}

    for name in ("policy", "value"):
        learner = getattr(agent, name)
        mine = {key: tensor.shape for key, tensor in learner._tensors().items()}
        if mine != {key: tensor.shape for key, tensor in part(name).items()}:
            raise InvalidModelFile(f"the {name} network in {path} is for another environment")
        learner._restore(part(name))
        learner.fitted = header["steps"] > 0
    agent.normalizer.restore({key: tensor.numpy() for key, tensor in part("scales").items()})
    agent.steps = header["steps"]
    agent.set_sigma_v(header["sigma_v"])
    agent.episodes = [(int(s), float(r), int(n)) for s, r, n in header["episodes"]]
    agent.log = header["log"]
    agent.episode.resume(header["episode_seed"], tensors["episode/actions"].numpy())
    if not np.array_equal(agent.episode.observation, tensors["episode/observation"].numpy()):
        raise InvalidModelFile(
            f"the episode in {path} cannot be taken up: the environment does not repeat itself "
            "from the same seed and actions (another version, or not seeded)"
        )
    agent.rng.bit_generator.state = json.loads(header["rng"])
    return agent


def rescue(agent: TAGIControl, path: str | Path | None) -> str:
    """Save an agent whose environment failed; where to."""
    if path is None:
        path = Path(tempfile.mkdtemp(prefix="tractable-")) / "agent.safetensors"
    save(agent, path)
    return str(path)
