"""Acting by values: worlds that are known, and tables that learn."""

from tractable.agents.values.mdp import MDP, Plan
from tractable.agents.values.table import Exploration, Table, boltzmann, discounted_returns

__all__ = ["MDP", "Exploration", "Plan", "Table", "boltzmann", "discounted_returns"]
