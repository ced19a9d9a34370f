"""Properties that hold for every network, batch and history."""

from __future__ import annotations

from contextlib import suppress

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tractable as tr
from tests.native import draw

problems = st.builds(
    draw.problem,
    st.integers(0, 10_000),
    activation=st.sampled_from(sorted(draw.ACTIVATIONS)),
    likelihood_name=st.sampled_from(draw.LIKELIHOODS),
    rule=st.sampled_from(["damped", "published"]),
    updates=st.just(3),
    largest=st.just(40),
    widest_batch=st.just(40),
)


@pytest.mark.filterwarnings("ignore:the inputs have values of about")  # at scale 30
@settings(max_examples=40, deadline=None)
@given(problem=problems, scale=st.sampled_from([1e-3, 1.0, 30.0]))
def test_variances_stay_positive_and_means_finite(problem: draw.Problem, scale: float) -> None:
    model = problem.learner("native")
    with suppress(ArithmeticError):  # refused: the state must still be valid
        model.fit(scale * problem.x, problem.y, epochs=2, batch_size=problem.batch, progress=False)
    assert bool(torch.isfinite(model.posterior.loc).all())
    assert bool(torch.isfinite(model.posterior.variance).all())
    assert bool((model.posterior.variance >= 0).all())
    prior = model.posterior.flat_prior_variance
    assert bool((model.posterior.variance <= prior * (1 + 1e-5)).all())


@settings(max_examples=30, deadline=None)
@given(problem=problems, seed=st.integers(0, 1000))
def test_the_order_within_a_batch_does_not_matter(problem: draw.Problem, seed: int) -> None:
    shuffled = torch.randperm(len(problem.x), generator=torch.Generator().manual_seed(seed))
    one, other = problem.learner("native"), problem.learner("native")
    one.update(problem.x, problem.y)
    other.update(problem.x[shuffled], problem.y[shuffled])
    assert draw.distance(one, other) < 1e-4


@settings(max_examples=20, deadline=None)
@given(problem=problems)
def test_rows_are_predicted_independently(problem: draw.Problem) -> None:
    model: tr.TAGI = problem.learner("native")
    together = model.outputs(problem.x).moments()
    alone = [model.outputs(row).moments() for row in problem.x[:5].split(1)]
    for k, (mean, variance) in enumerate(alone):
        assert torch.equal(mean[0], together[0][k])
        assert torch.equal(variance[0], together[1][k])
