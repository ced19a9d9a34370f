"""Agents for reinforcement learning in Gymnasium environments.

Importing this package needs gymnasium (``pip install 'tractable[agents]'``); importing
``tractable`` does not.
"""

from tractable.agents.bandit import (
    Bandit,
    BanditHistory,
    BanditPolicy,
    BanditReplay,
    EpsilonGreedy,
    Greedy,
    Thompson,
)
from tractable.agents.control import ControlSettings, EnvironmentFault, TAGIControl, evaluate_policy
from tractable.agents.values import (
    MDP,
    ActorCritic,
    DeepSea,
    Exploration,
    PlanningResult,
    PolicyGradient,
    QAgent,
    QSettings,
    QTable,
    best_baseline,
    best_coefficient,
    boltzmann,
    discounted_returns,
    returns_to_go,
    train_seeds,
)

__all__ = [
    "MDP",
    "ActorCritic",
    "Bandit",
    "BanditHistory",
    "BanditPolicy",
    "BanditReplay",
    "ControlSettings",
    "DeepSea",
    "EnvironmentFault",
    "EpsilonGreedy",
    "Exploration",
    "Greedy",
    "PlanningResult",
    "PolicyGradient",
    "QAgent",
    "QSettings",
    "QTable",
    "TAGIControl",
    "Thompson",
    "best_baseline",
    "best_coefficient",
    "boltzmann",
    "discounted_returns",
    "evaluate_policy",
    "returns_to_go",
    "train_seeds",
]
