"""Batteries of tests for what others write: inherit, supply the one thing asked for, run pytest.

``LearnerConformance`` holds a learner to everything the library expects of one,
``LikelihoodConformance`` a likelihood, and ``RuleConformance`` moment rules.
"""

from importlib.util import find_spec

from tractable.errors import MissingExtra

if find_spec("pytest") is None:
    raise MissingExtra("tractable.testing needs pytest")

from tractable.testing.learners import LearnerConformance
from tractable.testing.likelihoods import LikelihoodConformance
from tractable.testing.rules import RuleCase, RuleConformance

__all__ = ["LearnerConformance", "LikelihoodConformance", "RuleCase", "RuleConformance"]
