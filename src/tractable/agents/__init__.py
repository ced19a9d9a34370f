"""Agents: learners that act in a world, on Gymnasium environments.

Importing this package needs gymnasium (``pip install 'tractable[agents]'``); importing
``tractable`` does not.
"""

from tractable.agents.bandit import (
    Bandit,
    EpsilonGreedy,
    Greedy,
    History,
    Policy,
    Replay,
    Thompson,
)
from tractable.agents.control import ControlSettings, EnvironmentFault, TAGIControl, evaluate

__all__ = [
    "Bandit",
    "ControlSettings",
    "EnvironmentFault",
    "EpsilonGreedy",
    "Greedy",
    "History",
    "Policy",
    "Replay",
    "TAGIControl",
    "Thompson",
    "evaluate",
]
