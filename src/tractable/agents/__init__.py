"""Agents for reinforcement learning in Gymnasium environments.

Importing this package needs gymnasium (``pip install 'tractable[agents]'``); importing
``tractable`` does not.
"""

from tractable.agents.bandit import (
    Bandit,
    BanditHistory,
    BanditPolicy,
    BanditReplay,
    Greedy,
    Thompson,
)
from tractable.agents.base import Agent
from tractable.agents.control import ControlSettings, TAGIControl
from tractable.agents.deep_sea import DeepSea
from tractable.agents.evaluation import evaluate_policy
from tractable.agents.exploration import Boltzmann, EpsilonGreedy, Exploration
from tractable.agents.mdp import MDP, PlanningResult
from tractable.agents.parallel import train_seeds
from tractable.agents.policy_gradient import (
    ActorCritic,
    ActorCriticSettings,
    PolicyGradient,
    PolicyGradientSettings,
)
from tractable.agents.q_learning import QAgent, QSettings
from tractable.agents.q_table import QTable
from tractable.errors import EnvironmentFault

__all__ = [
    "MDP",
    "ActorCritic",
    "ActorCriticSettings",
    "Agent",
    "Bandit",
    "BanditHistory",
    "BanditPolicy",
    "BanditReplay",
    "Boltzmann",
    "ControlSettings",
    "DeepSea",
    "EnvironmentFault",
    "EpsilonGreedy",
    "Exploration",
    "Greedy",
    "PlanningResult",
    "PolicyGradient",
    "PolicyGradientSettings",
    "QAgent",
    "QSettings",
    "QTable",
    "TAGIControl",
    "Thompson",
    "evaluate_policy",
    "train_seeds",
]
