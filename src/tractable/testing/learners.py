"""What every learner must do, whatever it does inside: inherit and supply ``make``.

    from tractable.testing import LearnerConformance

    class TestMine(LearnerConformance):
        def make(self, net, likelihood, **options):
            return Mine(net, likelihood, **options)

pytest then runs all of it.  ``options`` are ``seed``, ``dtype`` and ``device``.
"""

from __future__ import annotations

from tractable.testing.computing import Computing
from tractable.testing.keeping import Keeping, Killed
from tractable.testing.learner_case import classes, regression
from tractable.testing.weights import Weights

__all__ = ["Killed", "LearnerConformance", "classes", "regression"]


class LearnerConformance(Computing, Weights, Keeping):
    """Tests that hold for any learner; ``LearnerCase`` says what to supply."""
