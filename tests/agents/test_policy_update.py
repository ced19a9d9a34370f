"""Saturation penalty, forgetting and limited steps of a control policy, against their formulas."""

import math

import pytest
import torch
from torch import nn

import tractable as tr
from tractable.agents import TAGIControl
from tractable.agents.control.policy_update import (
    PolicySnapshot,
    decay_precision,
    message,
    policy_target,
)
from tractable.infer import derivatives

SMALL = {"policy_hidden_layer_sizes": (16,), "value_hidden_layer_sizes": (16, 16), "n_steps": 150}
ALL = {"saturation_penalty": 0.2, "forget_rate": 0.06, "max_kl": 0.1}


@pytest.fixture
def value():
    """A value network of two states and two actions after a short training."""
    draw = torch.Generator().manual_seed(0)
    x = 2 * torch.rand(400, 4, generator=draw) - 1
    y = x[:, :1] * x[:, 2:3] - x[:, 3:] ** 2
    net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
    return tr.TAGI(net, tr.likelihoods.Normal(0.1), gain=1.0, seed=0).fit(
        x, y, epochs=2, progress=False
    )


@pytest.fixture
def policy():
    net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
    return tr.TAGI(net, tr.likelihoods.Normal(0.1, outputs=2), gain=1.0, seed=1)


def test_the_saturation_penalty_observes_zero_with_certainty_as_precision(value):
    draw = torch.Generator().manual_seed(1)
    states, mean = torch.randn(2, 30, 2, generator=draw)
    mean *= 3  # some of it far out, where tanh saturates
    variance = 0.05 + 0.1 * torch.rand(30, 2, generator=draw)
    action = torch.tanh(mean)
    jacobian = 1 - action**2
    w = jacobian**2 * variance
    joint = tr.Gaussian(torch.cat([states, action], 1), torch.cat([0 * states, w], 1))
    slopes = derivatives(value, joint)
    g, spread, h = (part[:, 0, 2:] for part in (slopes.mean, slopes.variance, slopes.curvature))
    u = (2 * torch.distributions.Normal(0.0, 1.0).cdf(g.abs() / spread.sqrt()) - 1).mean()
    d_mu, d_var = message(g, spread, h, w)
    c = 0.2 * u
    wanted_mu, wanted_var = jacobian * d_mu - c * mean, jacobian**2 * d_var - c

    advice = policy_target(value, states, mean, variance, saturation_penalty=0.2)
    likelihood = tr.likelihoods.Normal(1e-6, outputs=2)
    sent = likelihood.messages(likelihood.check_targets(advice.target, mean.shape), mean, variance)
    assert 0.05 < float(u) < 0.95
    assert float(advice.certainty) == pytest.approx(float(u), rel=1e-4)
    held = -wanted_var < 0.99 / variance  # nothing takes more than all of a variance
    assert held.float().mean() > 0.9
    assert torch.allclose(sent[0][held], wanted_mu[held], rtol=2e-3, atol=1e-4)
    assert torch.allclose(sent[1][held], wanted_var[held], rtol=2e-3, atol=1e-4)
    far = held & (mean.abs() > 4)
    assert far.any()
    assert bool((sent[0][far] * mean[far] < 0).all())  # corners are left


def test_no_saturation_penalty_without_a_known_direction(value):
    mean, variance = torch.tensor([[2.0, -1.0]]), torch.full((1, 2), 0.1)
    with torch.no_grad():
        value.posterior.loc.zero_()  # every derivative is zero on average
    plain, pulled = (
        policy_target(
            value, torch.zeros(1, 2), mean, variance, saturation_penalty=saturation_penalty
        )
        for saturation_penalty in (0.0, 5.0)
    )
    assert float(pulled.certainty) == 0
    assert torch.equal(plain.target.loc, pulled.target.loc)
    assert torch.equal(plain.target.variance, pulled.target.variance)


def test_decay_precision_interpolates_to_the_prior(policy):
    policy.update(torch.randn(50, 2, generator=torch.Generator().manual_seed(2)), torch.ones(50, 2))
    posterior = policy.posterior
    v, loc = posterior.variance.double().clone(), posterior.loc.clone()
    v0 = posterior.flat_prior_variance.double()
    decay_precision(policy, 0.3)
    wanted = 1 / (0.7 / v + 0.3 / v0)
    assert torch.allclose(posterior.variance.double(), wanted, rtol=1e-5)
    assert torch.equal(posterior.loc, loc)
    held = posterior.variance.clone()
    decay_precision(policy, 0.0)
    assert torch.equal(posterior.variance, held)


def test_kl_of_policies_of_the_same_variance(policy):
    states = torch.randn(40, 2, generator=torch.Generator().manual_seed(3))
    before = PolicySnapshot.from_policy(policy, states)
    policy.update(states, torch.ones(40, 2))
    moved, _ = policy.outputs(states).moments()
    was = torch.distributions.Normal(before.mean, before.variance.sqrt())
    now = torch.distributions.Normal(moved, before.variance.sqrt())
    wanted = torch.distributions.kl_divergence(now, was).sum(1).mean()
    assert before.kl(policy) == pytest.approx(float(wanted), rel=1e-4)


def test_limit_kl_shortens_the_step_in_the_same_direction(policy):
    states = torch.randn(40, 2, generator=torch.Generator().manual_seed(3))
    before = PolicySnapshot.from_policy(policy, states)
    policy.update(states, torch.ones(40, 2))
    posterior = policy.posterior
    new, variance = posterior.loc.clone(), posterior.variance.clone()
    step = before.kl(policy)
    assert before.limit_kl(policy, 2 * step) == step
    assert torch.equal(posterior.loc, new)  # short enough: left alone
    most = step / 100
    assert before.limit_kl(policy, most) == step
    wanted = before.weights + math.sqrt(most / step) * (new - before.weights)
    assert torch.allclose(posterior.loc, wanted, atol=1e-7)
    assert torch.equal(posterior.variance, variance)
    assert before.kl(policy) == pytest.approx(most, rel=0.3)  # to first order the limit


def test_max_kl_limits_an_update_and_the_log_has_the_unlimited_kl():
    free, limited = (
        TAGIControl("Pendulum-v1", seed=0, max_kl=most, **SMALL) for most in (None, 1e-3)
    )
    start = free.policy_learner.posterior.loc.clone()
    for agent in (free, limited):
        agent.learn(150)
    step = limited.training_log[0]["kl"]
    assert step > 2e-3
    assert "kl" not in free.training_log[0]
    shortened = math.sqrt(1e-3 / step) * (free.policy_learner.posterior.loc - start)
    assert torch.allclose(limited.policy_learner.posterior.loc, start + shortened, atol=1e-6)
    assert torch.equal(
        limited.policy_learner.posterior.variance, free.policy_learner.posterior.variance
    )
    assert 0 < free.training_log[0]["certainty"] == limited.training_log[0]["certainty"] < 1


def test_forget_rate_keeps_the_policy_uncertain():
    kept, mindful = (
        TAGIControl("Pendulum-v1", seed=0, forget_rate=f, **SMALL).learn(300) for f in (0.0, 0.9)
    )
    assert (
        mindful.policy_learner.posterior.variance.sum()
        > kept.policy_learner.posterior.variance.sum()
    )
    assert len(mindful.training_log) == 2


def test_a_regularized_agent_resumes_exactly(tmp_path):
    path = tmp_path / "agent.tr"
    whole = TAGIControl("Pendulum-v1", seed=3, **ALL, **SMALL).learn(600)
    TAGIControl("Pendulum-v1", seed=3, **ALL, **SMALL).learn(300, checkpoint=path)
    resumed = TAGIControl.load(path)
    assert resumed.settings == whole.settings
    assert resumed.settings.max_kl == 0.1
    resumed.learn(300)
    assert resumed.training_log[1:] == whole.training_log[1:]
    assert (resumed.policy_learner.posterior.loc == whole.policy_learner.posterior.loc).all()
    assert (
        resumed.policy_learner.posterior.variance == whole.policy_learner.posterior.variance
    ).all()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("saturation_penalty", -0.1),
        ("forget_rate", 1.0),
        ("max_kl", 0.0),
        ("saturation_penalty", float("nan")),
    ],
)
def test_invalid_regularization_settings_are_refused(setting, value):
    with pytest.raises(ValueError, match=setting):
        TAGIControl("Pendulum-v1", **{setting: value})
