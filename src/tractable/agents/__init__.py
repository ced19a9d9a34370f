"""Agents: learners that act in a world, on Gymnasium environments.

Importing this package registers the environment ``tractable/Mushroom-v0`` and needs gymnasium
(``pip install 'tractable[agents]'``); importing ``tractable`` does not.
"""

from tractable.agents.mushroom import Mushroom  # isort: skip  (says if gymnasium is missing)
from tractable.agents.bandit import Bandit
from tractable.agents.control import TAGIControl
from tractable.agents.control_settings import ControlSettings
from tractable.agents.evaluation import evaluate
from tractable.agents.history import History
from tractable.agents.policies import EpsilonGreedy, Greedy, Policy, Thompson
from tractable.agents.replay import Replay
from tractable.errors import EnvironmentFault

__all__ = [
    "Bandit",
    "ControlSettings",
    "EnvironmentFault",
    "EpsilonGreedy",
    "Greedy",
    "History",
    "Mushroom",
    "Policy",
    "Replay",
    "TAGIControl",
    "Thompson",
    "evaluate",
]
