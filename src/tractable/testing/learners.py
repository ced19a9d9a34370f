"""Conformance tests of learners: inherit and implement ``make``.

    from tractable.testing import LearnerConformance

    class TestMine(LearnerConformance):
        def make(self, net, likelihood, **options):
            return Mine(net, likelihood, **options)

pytest then runs all tests.  ``options`` are ``seed``, ``dtype`` and ``device``.
"""

from __future__ import annotations

from tractable.testing.learner_behavior import BehaviorTests
from tractable.testing.learner_case import classes, regression
from tractable.testing.learner_persistence import PersistenceTests, SimulatedCrash
from tractable.testing.learner_posterior import PosteriorTests

__all__ = ["LearnerConformance", "SimulatedCrash", "classes", "regression"]


class LearnerConformance(BehaviorTests, PosteriorTests, PersistenceTests):
    """Tests that every learner passes; ``LearnerCase`` states what to implement."""
