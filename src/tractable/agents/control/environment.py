"""Create and check Gymnasium environments for control: lookup by name, bounds of the action box."""

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
    """Return the environment itself, or create the one with the given name."""
    return gymnasium.make(env) if isinstance(env, str) else env


def registered(name: str) -> Any:
    """Return Gymnasium's specification of the environment with this name, or None."""
    return gymnasium.registry.get(name)


def known_environment(name: Any) -> str:
    """Return the environment name from a file; raise if it is not registered.

    Gymnasium imports the module before a colon in a name, so such names are refused.
    """
    if name is None:
        raise InvalidModelFile(
            "the file does not name its environment: pass it with load(path, env=...)"
        )
    if not isinstance(name, str) or ":" in name or registered(name) is None:
        raise InvalidModelFile(
            f"the environment {name!r} in the file is not registered: pass it with "
            "load(path, env=...)"
        )
    return name


def box_action_space(env: Any) -> tuple[Array, Array]:
    """Return the bounds of the actions; raise unless they form a bounded box."""
    space = env.action_space
    if not isinstance(space, spaces.Box):
        raise TypeError(
            f"TAGIControl needs continuous actions, a bounded Box; the environment has {space}. "
            "For discrete actions with immediate rewards, see tractable.agents.Bandit"
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
