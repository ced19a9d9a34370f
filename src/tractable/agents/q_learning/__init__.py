"""Q-learning with Bayesian networks."""

from tractable.agents.q_learning.agent import QAgent
from tractable.agents.q_learning.settings import QSettings

__all__ = ["QAgent", "QSettings"]
