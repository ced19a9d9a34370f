"""Returns, normalization and the policy's message, against independent computations."""

import numpy as np
import pytest
import torch
from torch import nn

import tractable as tr
from tractable.agents.control.policy_update import equivalent_observation, message, policy_target
from tractable.agents.normalizer import Normalizer, RunningMoments
from tractable.agents.returns import lambda_returns


def test_lambda_returns_with_lambda_one_by_hand():
    """r = 1, 2, 3 with gamma 1/2; the state after the last is worth 8 +- 2."""
    none = np.zeros(3, bool)
    later = np.array([100.0, 100.0, 8.0]), np.array([9.0, 9.0, 4.0])
    mean, variance = lambda_returns(
        np.array([1.0, 2.0, 3.0]), *later, none, none, gamma=0.5, td_lambda=1.0
    )
    assert mean.tolist() == [1 + 0.5 * (2 + 0.5 * 7), 2 + 0.5 * 7, 3 + 0.5 * 8]
    assert variance.tolist() == [4 / 64, 4 / 16, 4 / 4]


def test_lambda_returns_with_a_terminal_state_and_a_time_limit_by_hand():
    rewards = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    next_mean = np.array([10.0, 20.0, 30.0, 40.0, 50.0])
    next_variance = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    terminal = np.array([False, True, False, False, False])
    ends = np.array([False, False, False, True, False])
    mean, variance = lambda_returns(
        rewards, next_mean, next_variance, terminal, ends, gamma=0.9, td_lambda=0.25
    )
    g4 = 5 + 0.9 * 50  # the horizon ends
    g3 = 4 + 0.9 * 40  # time limit: what it led to
    g2 = 3 + 0.9 * (0.75 * 30 + 0.25 * g3)
    g1 = 2  # terminal: nothing follows
    g0 = 1 + 0.9 * (0.75 * 10 + 0.25 * g1)
    np.testing.assert_allclose(mean, [g0, g1, g2, g3, g4], rtol=1e-14)
    v3, v4 = 0.81 * 4, 0.81 * 5
    v2 = 0.81 * (0.5625 * 3 + 0.0625 * v3)
    np.testing.assert_allclose(variance, [0.81 * 0.5625, 0, v2, v3, v4], rtol=1e-14)


def test_running_moments_are_those_of_all_rows():
    rng = np.random.default_rng(0)
    rows = rng.normal(3, 2, (1000, 4)) * [1, 10, 0.1, 0]
    seen = RunningMoments(4)
    for part in np.split(rows, [1, 2, 500, 500, 777]):
        seen.update(part)
    np.testing.assert_allclose(seen.mean, rows.mean(0), rtol=1e-12)
    np.testing.assert_allclose(seen.variance, rows.var(0), rtol=1e-12)
    assert seen.count == 1000
    assert seen.std[3] == 1  # a constant is not blown up


def test_rewards_are_divided_by_the_deviation_of_the_discounted_return():
    rng = np.random.default_rng(1)
    rewards, done = rng.normal(1, 5, 300), rng.random(300) < 0.05
    scales = Normalizer(1, gamma=0.9)
    for part in (slice(0, 100), slice(100, 300)):
        scales.update(np.zeros((1, 1)), rewards[part], done[part])
    discounted, value = [], 0.0
    for reward, end in zip(rewards, done, strict=True):
        value = reward + 0.9 * value
        discounted.append(value)
        value = 0.0 if end else value
    np.testing.assert_allclose(scales.reward(rewards), rewards / np.std(discounted), rtol=1e-12)
    assert scales.reward(np.array([1e6])) == 10


def test_message_is_the_conditional_of_equation_4():
    """Observing dq/da = 0 with the sign of eq. (4): the action's posterior, then the message.

    The slope is known to point down.
    """
    g, spread, h, w = (torch.tensor(v, dtype=torch.float64) for v in (-7.0, 0.2, 0.9, 0.1))
    d_mu, d_var = message(g, spread, h, w)
    covariance = h * w
    posterior_mean = 0.2 + g.sign() * (covariance * g / spread).abs()
    posterior_variance = w - covariance**2 / spread
    assert torch.allclose(0.2 + w * d_mu, posterior_mean, rtol=1e-14)
    assert torch.allclose(w + w**2 * d_var, posterior_variance, rtol=1e-14)


def test_the_sign_of_an_uncertain_slope_is_taken_in_expectation():
    draw = torch.Generator().manual_seed(3)
    for g, spread in ((-0.7, 2.0), (0.02, 1.0), (1.5, 1.0)):
        slopes = g + spread**0.5 * torch.randn(400_000, generator=draw, dtype=torch.float64)
        arguments = (torch.tensor(v, dtype=torch.float64) for v in (g, spread, 0.9, 0.3))
        d_mu, _ = message(*arguments)
        sampled = slopes.sign() * abs(0.9 * g) / spread
        error = sampled.std() / len(sampled) ** 0.5
        assert abs(d_mu - sampled.mean()) < 4 * error


def test_no_message_removes_more_than_the_whole_variance():
    draw = torch.Generator().manual_seed(0)
    g, h = torch.randn(2, 1000, generator=draw, dtype=torch.float64) * 10
    spread, w = torch.rand(2, 1000, generator=draw, dtype=torch.float64) ** 8
    d_mu, d_var = message(g, spread, h, w)
    assert bool((w + w**2 * d_var >= -1e-12 * w).all())
    assert bool(torch.isfinite(d_mu).all())
    saturated = message(g, spread, h, torch.zeros_like(w))
    assert all(bool(torch.isfinite(part).all()) for part in saturated)


def test_the_equivalent_observation_sends_the_message():
    draw = torch.Generator().manual_seed(1)
    mean, d_mu = torch.randn(2, 50, 3, generator=draw, dtype=torch.float64)
    variance = torch.rand(50, 3, generator=draw, dtype=torch.float64)
    d_var = -torch.rand(50, 3, generator=draw, dtype=torch.float64) / variance
    d_var[0], d_mu[0] = 0, 0  # nothing to say
    seen = equivalent_observation(mean, variance, d_mu, d_var)
    likelihood = tr.likelihoods.Normal(1e-9, outputs=3)
    sent = likelihood.messages(likelihood.check_targets(seen, mean.shape), mean, variance)
    assert torch.allclose(sent[0], d_mu, rtol=1e-8, atol=1e-11)
    assert torch.allclose(sent[1], d_var, rtol=1e-8, atol=1e-11)


def test_policy_targets_point_uphill():
    """With a learned q = -(a - 0.3)^2, actions below the optimum grow and those above shrink."""
    draw = torch.Generator().manual_seed(2)
    x = 2 * torch.rand(2000, 2, generator=draw) - 1
    y = -((x[:, 1:] - 0.3) ** 2)
    net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    value = tr.TAGI(net, tr.likelihoods.Normal(), gain=1.0).fit(x, y, epochs=20, progress=False)
    states = torch.zeros(2, 1)
    mean = torch.atanh(torch.tensor([[-0.4], [0.9]]))
    advice = policy_target(value, states, mean, torch.full((2, 1), 0.05))
    moved = advice.target.loc - mean
    assert moved[0] > 0 > moved[1]
    assert bool((advice.target.variance >= 0).all())


@pytest.mark.parametrize("engine", ["torch", "native"])
def test_a_snapshot_predicts_as_the_model_did(engine):
    net = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
    model = tr.TAGI(net, tr.likelihoods.Normal(0.1, outputs=2), engine=engine)
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    frozen = model.snapshot()
    before = model.outputs(x).moments()
    model.update(x, torch.ones(40, 2))
    for found, held in zip(frozen(x.numpy()), before, strict=True):
        np.testing.assert_allclose(found, held.numpy(), rtol=1e-5, atol=1e-6)
    assert not np.allclose(frozen(x.numpy())[0], model.outputs(x).moments()[0].numpy(), atol=1e-3)
