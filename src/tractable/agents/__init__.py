"""Agents: learners that act in a world, on Gymnasium environments.

Importing this package needs gymnasium (``pip install 'tractable[agents]'``); importing
``tractable`` does not.
"""

try:
    import gymnasium as gymnasium
except ImportError as error:  # pragma: no cover
    from tractable.errors import MissingExtra

    raise MissingExtra(
        "tractable.agents needs gymnasium: pip install 'tractable[agents]'"
    ) from error

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
    "Policy",
    "Replay",
    "TAGIControl",
    "Thompson",
    "evaluate",
]
