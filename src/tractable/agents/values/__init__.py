"""Agents that learn values: known MDPs, tabular learning, Q-networks and policy gradients."""

from tractable.agents.values.actor_critic import ActorCritic
from tractable.agents.values.deep_sea import DeepSea
from tractable.agents.values.mdp import MDP, PlanningResult
from tractable.agents.values.policy_gradient import PolicyGradient
from tractable.agents.values.q_agent import QAgent
from tractable.agents.values.scores import best_baseline, best_coefficient, returns_to_go
from tractable.agents.values.seeds import train_seeds
from tractable.agents.values.settings import QSettings
from tractable.agents.values.table import Exploration, QTable, boltzmann, discounted_returns

__all__ = [
    "MDP",
    "ActorCritic",
    "DeepSea",
    "Exploration",
    "PlanningResult",
    "PolicyGradient",
    "QAgent",
    "QSettings",
    "QTable",
    "best_baseline",
    "best_coefficient",
    "boltzmann",
    "discounted_returns",
    "returns_to_go",
    "train_seeds",
]
