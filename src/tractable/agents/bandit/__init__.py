"""Contextual bandits: the reward of an action is observed immediately."""

from tractable.agents.bandit.agent import Bandit
from tractable.agents.bandit.history import BanditHistory
from tractable.agents.bandit.policies import BanditPolicy, Greedy, Thompson
from tractable.agents.bandit.replay import BanditReplay

__all__ = ["Bandit", "BanditHistory", "BanditPolicy", "BanditReplay", "Greedy", "Thompson"]
