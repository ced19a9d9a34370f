"""Agents for reinforcement learning in Gymnasium environments.

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
    ActorCritic,
    DeepSea,
    Exploration,
    Plan,
    PolicyGradient,
    QAgent,
    QSettings,
    Table,
    best_baseline,
    best_coefficient,
    boltzmann,
    discounted_returns,
    learn_seeds,
    returns_to_go,
)

__all__ = [
    "MDP",
    "ActorCritic",
    "Bandit",
    "ControlSettings",
    "DeepSea",
    "EnvironmentFault",
    "EpsilonGreedy",
    "Exploration",
    "Greedy",
    "History",
    "Plan",
    "Policy",
    "PolicyGradient",
    "QAgent",
    "QSettings",
    "Replay",
    "TAGIControl",
    "Table",
    "Thompson",
    "best_baseline",
    "best_coefficient",
    "boltzmann",
    "discounted_returns",
    "evaluate",
    "learn_seeds",
    "returns_to_go",
]
