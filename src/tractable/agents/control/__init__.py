"""Control with continuous actions and delayed rewards."""

from tractable.agents.control.agent import TAGIControl
from tractable.agents.control.evaluation import evaluate_policy
from tractable.agents.control.settings import ControlSettings
from tractable.errors import EnvironmentFault

__all__ = ["ControlSettings", "EnvironmentFault", "TAGIControl", "evaluate_policy"]
