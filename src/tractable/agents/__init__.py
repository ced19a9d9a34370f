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
from tractable.agents.values import (
    MDP,
    Exploration,
    Plan,
    Table,
    boltzmann,
    discounted_returns,
)

__all__ = [
    "MDP",
    "Bandit",
    "ControlSettings",
    "EnvironmentFault",
    "EpsilonGreedy",
    "Exploration",
    "Greedy",
    "History",
    "Plan",
    "Policy",
    "Replay",
    "TAGIControl",
    "Table",
    "Thompson",
    "boltzmann",
    "discounted_returns",
    "evaluate",
]
