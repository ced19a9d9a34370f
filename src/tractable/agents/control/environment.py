"""Gymnasium environments as control needs them: found by name, with a bounded box of actions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tractable.errors import InvalidModelFile, MissingExtra

try:
    import gymnasium
    from gymnasium import spaces
except ImportError as error:
    raise MissingExtra(
        "tractable.agents needs gymnasium: pip install 'tractable[agents]'"
    ) from error

Array = NDArray[np.float64]


def open_environment(env: Any) -> Any:
    """The environment itself, or the one of that name."""
    return gymnasium.make(env) if isinstance(env, str) else env


def registered(name: str) -> Any:
    """What Gymnasium knows of the environment of that name, or None."""
    return gymnasium.registry.get(name)


def known_environment(name: Any) -> str:
    """A name from a file, if it is one of an environment that is registered here.

    Gymnasium imports whatever module stands before a colon, so a file may not name one.
    """
    if name is None:
        raise InvalidModelFile("the file does not name its environment: give load(path, env=...)")
    if not isinstance(name, str) or ":" in name or registered(name) is None:
        raise InvalidModelFile(
            f"the environment {name!r} of the file is not registered here: give load(path, env=...)"
        )
    return name


def box_action_space(env: Any) -> tuple[Array, Array]:
    """Bounds of the actions of an environment, if it has a bounded box of them."""
    space = env.action_space
    if not isinstance(space, spaces.Box):
        raise TypeError(
            f"TAGIControl needs continuous actions, a bounded Box; the environment has {space}. "
            "For discrete actions with rewards at once, see tractable.agents.Bandit"
        )
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise ValueError(
            f"the actions must be bounded, the environment has {space}: wrap it, for example in "
            "gymnasium.wrappers.RescaleAction"
        )
    if not isinstance(env.observation_space, spaces.Box):
        raise TypeError(f"observations must be a Box of numbers, got {env.observation_space}")
    return low, high
