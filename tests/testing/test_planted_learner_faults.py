"""The tests for learners fail for learners with a fault, which is planted in a subclass."""

from __future__ import annotations

from typing import Any

import pytest

import tractable as tr
from tractable.learners import InvalidModelFile
from tractable.learners.methods.laplace.laplace import LaplaceMethod
from tractable.learners.methods.tagi.method import TAGIMethod
from tractable.posterior import Posterior
from tractable.testing import LearnerConformance


class Suite(LearnerConformance):
    """The tests for one learner, without pytest."""

    __test__ = False

    def __init__(self, kind: type, **options: Any) -> None:
        self.kind, self.options = kind, options

    def make(self, net: Any, likelihood: Any, **options: Any) -> Any:
        return self.kind(net, likelihood, **self.options, **options)


class WideMethod(TAGIMethod):
    """The posterior that is shown has 16 times the variance."""

    def posterior(self, state):
        own = super().posterior(state)
        return Posterior(own.shapes, own.loc, 16 * own.variance, own.prior_variance)


class SwappedMethod(TAGIMethod):
    """The posterior that is shown has mean and variance exchanged."""

    def posterior(self, state):
        own = super().posterior(state)
        return Posterior(own.shapes, own.variance, own.loc.abs(), own.prior_variance)


class NegativeDraws(TAGIMethod):
    """Draws have the wrong sign."""

    def sample(self, state, x, n, generator):
        return -super().sample(state, x, n, generator)


class NarrowOutputs(TAGIMethod):
    """Outputs have half the standard deviation."""

    def outputs(self, state, x, **options):
        found = super().outputs(state, x, **options)
        return type(found)(found.mean, found.variance / 4, found.likelihood)


class UnprunedMean(LaplaceMethod):
    """Pruning reaches the variances only."""

    def prune(self, state, fraction, per_layer):
        before = self.mode.posterior(state).loc.clone()
        super().prune(state, fraction, per_layer)
        state.vectors[0].detach().copy_(before)


class UnsavedDeviations(LaplaceMethod):
    """A file that is loaded has the curvature of an untrained learner."""

    def restore(self, state, learned):
        curvature = state.curvature
        super().restore(state, learned)
        state.curvature = curvature


def learner(kind: type, method: type) -> type:
    return type(f"{method.__name__}Learner", (kind,), {"method_class": method})


POSTERIOR = "test_drawn_weights_are_those_of_the_posterior"
OUTPUTS = "test_drawn_functions_have_the_moments_of_the_outputs"
PRUNED = "test_a_pruned_learner_is_pruned_at_once"
FAULTS: list[tuple[type, type, str, tuple[object, ...]]] = [
    (tr.TAGI, WideMethod, POSTERIOR, (0, 1.0)),
    (tr.TAGI, SwappedMethod, POSTERIOR, (1, 0.3)),
    (tr.TAGI, NegativeDraws, POSTERIOR, (0, 1.0)),
    (tr.TAGI, NarrowOutputs, OUTPUTS, ()),
    (tr.Laplace, UnprunedMean, PRUNED, ()),
]


@pytest.mark.parametrize(
    ("kind", "method", "test", "values"), FAULTS, ids=[fault[1].__name__ for fault in FAULTS]
)
def test_a_planted_fault_is_noticed(kind, method, test, values):
    options = {"lr": 1e-2, "structure": "diagonal"} if kind is tr.Laplace else {}
    getattr(Suite(kind, **options), test)(*values)
    with pytest.raises(AssertionError):
        getattr(Suite(learner(kind, method), **options), test)(*values)


class FaultyLaplace(tr.Laplace):
    """A class of this module, so that its file can be loaded."""

    method_class = UnsavedDeviations


def test_deviations_that_are_not_saved_are_noticed(tmp_path):
    options = {"lr": 1e-2, "structure": "diagonal"}
    Suite(tr.Laplace, **options).test_copies_and_files_draw_the_same(tmp_path)
    with pytest.raises((AssertionError, InvalidModelFile)):
        Suite(FaultyLaplace, **options).test_copies_and_files_draw_the_same(tmp_path)
