"""Contextual bandits: the reward of an action is observed immediately."""

from tractable.agents.bandit.agent import Bandit
from tractable.agents.bandit.history import History
from tractable.agents.bandit.policies import EpsilonGreedy, Greedy, Policy, Thompson
from tractable.agents.bandit.replay import Replay

__all__ = ["Bandit", "EpsilonGreedy", "Greedy", "History", "Policy", "Replay", "Thompson"]
