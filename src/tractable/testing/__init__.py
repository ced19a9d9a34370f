"""Conformance tests for extensions: inherit from a class, implement one method, run pytest.

``LearnerConformance`` tests a learner, ``LikelihoodConformance`` a likelihood, and
``RuleConformance`` moment rules.  ``check_predictive`` raises unless all members of a prediction
describe the same distribution.
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
