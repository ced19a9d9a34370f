"""Save and load a control agent."""

from __future__ import annotations

import json
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from tractable.agents.control.environment import known_environment, registered
from tractable.agents.control.settings import ControlSettings
from tractable.agents.renamed import current
from tractable.errors import InvalidModelFile
from tractable.learners import TAGI
from tractable.persistence import model_file, validation
from tractable.persistence.model_file import Header, Tensors, under_prefix, with_prefix

if TYPE_CHECKING:
    from tractable.agents.control.agent import TAGIControl

_KIND = "TAGIControl"


def save(agent: TAGIControl, path: str | Path) -> None:
    """Write an agent to one file, atomically."""
    model_file.write(path, *packed(agent))


def packed(agent: TAGIControl) -> tuple[Tensors, Header]:
    """Return an agent as named tensors and JSON values."""
    tensors: dict[str, Tensor] = {}
    for name in ("policy", "value"):
        learner = getattr(agent, f"{name}_learner")
        tensors |= with_prefix(learner.method.learnt(learner.state), f"{name}/")
    tensors |= with_prefix(_scales(agent), "scales/")
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
        "target_std": agent.target_std,
        "episodes": agent.episodes,
        "training_log": agent.training_log,
        "episode_seed": agent.episode.seed,
        "rng": json.dumps(agent.rng.bit_generator.state),
    }
    return tensors, header


def load(kind: type[TAGIControl], path: str | Path, env: Any) -> TAGIControl:
    """Return the agent stored in a file; see ``TAGIControl.load``."""
    tensors, header = model_file.read(path)
    with model_file.as_invalid_file(path):
        if header.get("agent") != _KIND:
            raise InvalidModelFile(f"{path} does not hold a {_KIND} agent")
        header = current(header)
        header["options"] = _UNRESTRAINED | header["options"]
        if env is None:
            env = known_environment(header["env"])
        actions = tensors["episode/actions"].numpy()
        _check_length(env, len(actions))
        options: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in validation.check_finite(header["options"], "options").items()
        }
        stated = {key: value for key, value in options.items() if (key, value) != _UNLIMITED}
        validation.check_arguments(ControlSettings, stated, "the agent")
        _check_sizes(options, model_file.count_numbers(tensors))
        agent = kind(env, **options)
        for name in ("policy", "value"):
            _restore_network(
                getattr(agent, f"{name}_learner"),
                under_prefix(tensors, f"{name}/"),
                f"{name} network",
            )
        scales = under_prefix(tensors, "scales/")
        validation.check_same_tensors(_scales(agent), scales, "observation")
        validation.check_numbers(scales, {"counts": "non-negative"})
        agent.normalizer.restore({key: tensor.numpy() for key, tensor in scales.items()})
        agent.steps = validation.require_at_most(header["steps"], 1 << 60, "steps")
        for learner in (agent.policy_learner, agent.value_learner):
            learner.fitted = agent.steps > 0
        sigma = float(validation.require_type(header["target_std"], (int, float), "target_std"))
        if not 0 < sigma < float("inf"):
            raise InvalidModelFile(f"target_std in {path} is {sigma}, expected a positive number")
        agent.set_target_std(sigma)
        agent.episodes = [(int(s), float(r), int(n)) for s, r, n in header["episodes"]]
        agent.training_log = [
            {str(key): float(value) for key, value in record.items()}
            for record in header["training_log"]
        ]
        seed = validation.require_type(header["episode_seed"], int, "episode_seed")
        if not agent.episode.resume(seed, actions, tensors["episode/observation"].numpy()):
            raise InvalidModelFile(
                f"the episode in {path} cannot be resumed: the environment is not reproducible "
                "from the same seed and actions (another version, or not seeded)"
            )
        agent.rng.bit_generator.state = json.loads(header["rng"])
        entries = {key: value for key, value in header.items() if key not in ("format", "env")}
        validation.check_roundtrip((tensors, entries), packed(agent))
    return agent


def _scales(agent: TAGIControl) -> Tensors:
    arrays = agent.normalizer.arrays()
    return {name: torch.from_numpy(np.ascontiguousarray(a)) for name, a in arrays.items()}


def _restore_network(learner: TAGI, tensors: Tensors, what: str) -> None:
    validation.check_same_tensors(learner.method.learnt(learner.state), tensors, what)
    validation.check_numbers(tensors, learner.method.domains)
    learner.method.restore(learner.state, tensors)


def _check_length(env: Any, steps: int) -> None:
    """Raise if an episode, which is replayed step by step, exceeds the limit of the environment."""
    spec = registered(env) if isinstance(env, str) else getattr(env, "spec", None)
    limit = getattr(spec, "max_episode_steps", None) or MOST_STEPS
    if steps > limit:
        raise InvalidModelFile(
            f"the episode in the file has {steps} steps, the environment allows at most {limit}"
        )


def _check_sizes(options: dict[str, Any], room: int) -> None:
    for name in ("policy_hidden_layer_sizes", "value_hidden_layer_sizes"):
        widths = [validation.require_at_most(width, room, name) for width in options.get(name, ())]
        weights = sum(into * out for into, out in pairwise([1, *widths, 1]))
        validation.require_at_most(weights, room, f"the size of {name}")
    for name in ("n_steps", "batch_size", "epochs"):
        validation.require_at_most(options.get(name, 0), MOST_STEPS, name)


_UNRESTRAINED = {"saturation_penalty": 0.0, "forget_rate": 0.0, "max_kl": None}
"""Values of these settings for files written before the settings existed."""

_UNLIMITED = ("max_kl", None)

MOST_STEPS = 100_000
"""Maximum of a horizon, a batch size, a number of epochs, and an episode without a time limit."""


def rescue(agent: TAGIControl, path: str | Path | None) -> str:
    """Save an agent whose environment failed; return the path of the file."""
    if path is None:
        path = Path(tempfile.mkdtemp(prefix="tractable-")) / "agent.safetensors"
    save(agent, path)
    return str(path)
