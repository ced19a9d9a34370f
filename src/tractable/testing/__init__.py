"""Batteries of tests for what others write: inherit, supply the one thing asked for, run pytest.

``LearnerConformance`` holds a learner to everything the library expects of one.
"""

from importlib.util import find_spec

from tractable.errors import MissingExtra

if find_spec("pytest") is None:
    raise MissingExtra("tractable.testing needs pytest")

from tractable.testing.learners import LearnerConformance

__all__ = ["LearnerConformance"]
