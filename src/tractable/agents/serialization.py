"""Parts of agent files that all algorithms share: checks, and names of earlier versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tractable.agents.envs import max_episode_steps
from tractable.agents.normalizer import Normalizer
from tractable.errors import InvalidModelFile
from tractable.learners import Learner
from tractable.learners import serialization as learner_files
from tractable.persistence import model_file, validation
from tractable.persistence.model_file import Header, Tensors, under_prefix

MAX_COUNT = 100_000
"""Maximum of a count in the settings of a file, and of an episode without a time limit."""

_COUNTS = (
    "n_steps", "train_freq", "batch_size", "epochs", "n_critics", "gradient_steps",
    "episodes_per_update",
)  # fmt: skip


@dataclass(frozen=True)
class AgentFile:
    """Content of an agent file.

    Attributes:
        path: path of the file.
        tensors: tensors by name.
        header: JSON values by name.
        net: network that the user passed, for files that do not describe its architecture.
    """

    path: str | Path
    tensors: Tensors
    header: Header
    net: nn.Module | None

    def learner(self, prefix: str, header: Header) -> Learner:
        """Return the learner whose tensors have this prefix."""
        own = under_prefix(self.tensors, prefix)
        return learner_files.unpack(self.path, own, header, self.net, None, device=None)

    def options(self, settings: type) -> dict[str, Any]:
        """Return the constructor arguments; raise an error if one does not fit the saved data.

        Args:
            settings: dataclass of the agent's settings.
        """
        options = dict(validation.check_finite(self.header["options"], "options"))
        optional = {field.name for field in fields(settings) if "None" in str(field.type)}
        given = {k: v for k, v in options.items() if v is not None or k not in optional}
        validation.check_arguments(settings, given, "the agent")
        validation.require_type(options.get("seed"), int, "seed")
        for field in fields(settings):
            value = options.get(field.name)
            if field.type == "bool" and value is not None:
                validation.require_type(value, bool, field.name)
            if field.name.endswith("hidden_layer_sizes") and value is not None:
                options[field.name] = self._layer_sizes(value, field.name)
        for name in _COUNTS:
            validation.require_at_most(options.get(name, 0), MAX_COUNT, name)
        return options

    def _layer_sizes(self, sizes: Any, name: str) -> tuple[int, ...]:
        """Return hidden layer sizes; raise if the file cannot hold the weights between them."""
        limit = model_file.count_numbers(self.tensors)
        checked = tuple(validation.require_at_most(size, limit, name) for size in sizes)
        validation.check_network_size([1, *checked, 1], 1, self.tensors)
        return checked

    def check_episode_length(self, env: Any) -> None:
        """Raise if the episode, which is replayed step by step, exceeds the environment's limit."""
        steps, limit = len(self.tensors["episode/actions"]), max_episode_steps(env) or MAX_COUNT
        if steps > limit:
            raise InvalidModelFile(
                f"the episode in the file has {steps} steps, the environment allows at most {limit}"
            )


def normalizer_tensors(normalizer: Normalizer) -> Tensors:
    """Return the statistics of a normalizer, to be saved."""
    arrays = normalizer.arrays()
    return {name: torch.from_numpy(np.array(array, order="C")) for name, array in arrays.items()}


def restore_normalizer(normalizer: Normalizer, tensors: Mapping[str, Tensor]) -> None:
    """Restore the statistics of a normalizer from a file."""
    validation.check_same_tensors(normalizer_tensors(normalizer), tensors, "observation")
    validation.check_numbers(tensors, {"counts": "non-negative"})
    normalizer.restore({name: tensor.numpy() for name, tensor in tensors.items()})


def restore_std(value: Any, name: str) -> float:
    """Return a standard deviation from a file; raise unless it is a positive number."""
    std = float(validation.require_type(validation.check_finite(value, name), (int, float), name))
    if not std > 0:
        raise InvalidModelFile(f"{name} in the file is {std}, expected a positive number")
    return std


# --- names in files of earlier versions ----------------------------------------------------------

_CONTROL_OPTIONS = {
    "horizon": "n_steps",
    "lam": "td_lambda",
    "sigma_v": "target_std",
    "sigma_decay": "target_std_decay",
    "sigma_min": "min_target_std",
    "policy_hidden": "policy_hidden_layer_sizes",
    "value_hidden": "value_hidden_layer_sizes",
    "memory": "memory_rows",
    "pull": "saturation_penalty",
    "forgetting": "forget_rate",
    "max_step": "max_kl",
}
_Q_OPTIONS = {
    "explore": "exploration",
    "lam": "td_lambda",
    "hold": "thompson_interval",
    "temper": "thompson_scale",
    "horizon": "train_freq",
    "hidden": "hidden_layer_sizes",
    "sigma": "target_std",
    "sigma_decay": "target_std_decay",
    "sigma_min": "min_target_std",
    "memory": "memory_rows",
    "heads": "n_critics",
    "double": "double_q",
    "target_every": "target_update_interval",
    "replay": "buffer_size",
    "replays": "gradient_steps",
    "surprising": "priority_buffer_size",
}
_ACTOR_OPTIONS = {
    "horizon": "n_steps",
    "episodes": "episodes_per_update",
    "hidden": "hidden_layer_sizes",
    "lam": "gae_lambda",
    "clip": "clip_range",
    "entropy": "ent_coef",
    "trust": "weigh_by_confidence",
    "discounted": "weigh_by_discount",
    "sigma": "target_std",
}
_OPTIONS = {
    "TAGIControl": _CONTROL_OPTIONS,
    "QAgent": _Q_OPTIONS,
    "PolicyGradient": _ACTOR_OPTIONS,
    "ActorCritic": _ACTOR_OPTIONS,
}
_HEADER = {
    "heads": "critics",
    "targets": "target_critics",
    "horizons": "n_updates",
    "places": "buffer_positions",
    "held": "thompson_seed",
    "own_net": "has_own_net",
    "sigma": "target_std",
    "sigma_v": "target_std",
    "log": "training_log",
}
_METRICS = {
    "reward": "mean_reward",
    "sigma": "target_std",
    "sigma_v": "target_std",
    "step": "kl",
    "gradient": "gradient_norm",
}
_TENSORS = {
    "learner/": "critic/",
    "target/": "target_critic/",
    "scales/": "normalizer/",
    "arrays/episode_": "episode/",
    "arrays/latest_": "replay_buffer/",
    "arrays/surprising_": "priority_buffer/",
    "arrays/surprise": "priority_buffer/priorities",
    "arrays/": "normalizer/",
}
_COLUMNS = {"reached": "next_observations", "factors": "discounts"}
"""Names of earlier versions, and the current ones.  Of prefixes of tensors, the first applies."""


def with_current_names(tensors: Tensors, header: Header) -> tuple[Tensors, Header]:
    """Return the content of an agent file with current names of all entries."""
    found = _renamed(header, _HEADER)
    found["options"] = _renamed(header["options"], _OPTIONS.get(header["agent"], {}))
    exploration = found["options"].get("exploration")
    if exploration is not None and "name" not in exploration:
        epsilon, temperature = exploration["eps"], exploration["tau"]
        found["options"]["exploration"] = (
            {"name": "EpsilonGreedy", "epsilon": epsilon}
            if temperature is None
            else {"name": "Boltzmann", "temperature": temperature, "epsilon": epsilon}
        )
    found["training_log"] = [_renamed(record, _METRICS) for record in found["training_log"]]
    return {_tensor_name(name): tensor for name, tensor in tensors.items()}, found


def _tensor_name(name: str) -> str:
    for old, new in _TENSORS.items():
        if name.startswith(old):
            name = new + name.removeprefix(old)
            break
    folder, _, last = name.rpartition("/")
    if folder in ("replay_buffer", "priority_buffer"):
        return f"{folder}/{_COLUMNS.get(last, last)}"
    return name


def _renamed(entries: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in entries.items()}
