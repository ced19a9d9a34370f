"""Control with continuous actions and delayed rewards."""

from tractable.agents.control.agent import TAGIControl
from tractable.agents.control.settings import ControlSettings

__all__ = ["ControlSettings", "TAGIControl"]
