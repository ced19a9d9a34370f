"""The baseline of the control study resumes after a kill."""

from __future__ import annotations

import numpy as np
import pytest
import torch

pytest.importorskip("stable_baselines3")
pytest.importorskip("mujoco")

from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.running_mean_std import RunningMeanStd

from tractable_studies.control import ppo as control_ppo
from tractable_studies.control.ppo import Baseline
from tractable_studies.control.ppo_policy import OneByOne

ENV = "InvertedPendulum-v5"


def test_a_killed_run_goes_on_from_its_checkpoint(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(control_ppo, "EVERY", 1)
    path = tmp_path / "ppo.pt"
    first = Baseline(ENV, seed=0, steps=4096, compile=False)
    first.learn(path)
    state = torch.load(path, weights_only=True)  # no code in it
    assert state["step"] == 2048
    assert 0 < state["seconds"] < first.seconds
    known = [tuple(episode) for episode in state["episodes"]]
    assert known == first.episodes[: len(known)]

    again = Baseline(ENV, seed=0, steps=4096, compile=False)
    again._load(path)
    for name, scale in again._scales().items():
        assert scale.count == state["scales"][name]["count"]
        assert torch.equal(torch.as_tensor(scale.mean), state["scales"][name]["mean"])
    again.learn(path)
    assert again._model.num_timesteps == 4096
    assert again.episodes[: len(known)] == known
    assert len(again.episodes) > len(known)
    ends = [end for end, _ in again.episodes]
    assert ends == sorted(ends)
    assert ends[-1] <= 4096
    assert again.seconds > state["seconds"]
    action, _ = again.predict([0.0, 0.0, 0.0, 0.0])
    assert action.shape == (1,)
    assert "ppo InvertedPendulum-v5 seed 0: step 2048" in capsys.readouterr().out


def test_the_compiled_policy_is_the_policy_it_stands_in_for(tmp_path):
    baseline = Baseline(ENV, seed=0, steps=4096)
    baseline.learn(tmp_path / "ppo.pt")
    assert baseline._model.num_timesteps == 4096
    policy = baseline._model.policy
    seen = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        actions, values, log_prob = policy(seen[:1])
        again = ActorCriticPolicy.evaluate_actions(policy, seen[:1], actions)
    assert torch.allclose(values, again[0], atol=1e-5)
    assert torch.allclose(log_prob, again[1], atol=1e-5)
    done = torch.linspace(-2, 2, 32).unsqueeze(1)
    gradients = []
    for judge in (type(policy).evaluate_actions, ActorCriticPolicy.evaluate_actions):
        policy.zero_grad()
        values, log_prob, entropy = judge(policy, seen, done)
        (values.mean() + (log_prob**2).mean() + 3 * entropy.mean()).backward()
        found = [p.grad.clone() for p in policy.parameters()]
        gradients.append([values, log_prob, entropy, *found])
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-5)


def test_statistics_of_single_rows_are_those_of_batches_of_one():
    one, other = OneByOne(shape=(3,)), RunningMeanStd(shape=(3,))
    rows = np.random.default_rng(0).normal(5, 2, (500, 1, 3))
    for row in rows:
        one.update(row)
        other.update(row)
    one.update(rows[:7, 0])
    other.update(rows[:7, 0])
    for name in ("mean", "var", "count"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-12)
