"""Batteries of tests for what others write: inherit, supply the one thing asked for, run pytest.

``LearnerConformance`` holds a learner to everything the library expects of one,
``LikelihoodConformance`` a likelihood, and ``RuleConformance`` moment rules.
``check_predictive`` raises unless all members of one prediction describe the same distribution.
"""

from importlib.util import find_spec

from tractable.errors import MissingExtra

if find_spec("pytest") is None:
    raise MissingExtra("tractable.testing needs pytest")

from tractable.testing.learners import LearnerConformance
from tractable.testing.likelihoods import LikelihoodConformance
from tractable.testing.predictive import check_predictive
from tractable.testing.rules import RuleCase, RuleConformance

__all__ = [
    "LearnerConformance",
    "LikelihoodConformance",
    "RuleCase",
    "RuleConformance",
    "check_predictive",
]
