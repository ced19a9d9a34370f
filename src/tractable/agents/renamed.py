"""Names in agent files of earlier versions, and their current names."""

from __future__ import annotations

from typing import Any

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
    "sigma": "target_std",
    "sigma_v": "target_std",
    "log": "training_log",
}
_RECORD = {
    "reward": "mean_reward",
    "sigma": "target_std",
    "sigma_v": "target_std",
    "step": "kl",
    "gradient": "gradient_norm",
}


def current(header: dict[str, Any]) -> dict[str, Any]:
    """Return the header of an agent file with current names of entries, options and metrics."""
    found = _renamed(header, _HEADER)
    found["options"] = _renamed(header["options"], _OPTIONS.get(str(header["agent"]), {}))
    found["training_log"] = [_renamed(record, _RECORD) for record in found["training_log"]]
    return found


def _renamed(entries: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in entries.items()}
