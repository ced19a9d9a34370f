"""The baseline of the control experiment goes on after a kill."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("stable_baselines3")
pytest.importorskip("mujoco")

from tractable.experiments import control_ppo
from tractable.experiments.control_ppo import Baseline

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


def test_the_compiled_policy_is_the_same_policy(tmp_path):
    baseline = Baseline(ENV, seed=0, steps=4096)
    baseline.learn(tmp_path / "ppo.pt")
    assert baseline._model.num_timesteps == 4096
    policy = baseline._model.policy
    seen = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        actions, values, chances = policy.forward(seen[:1])
        again = type(policy).evaluate_actions(policy, seen[:1], actions)
        assert torch.allclose(values, again[0], atol=1e-6)
        assert torch.allclose(chances, again[1], atol=1e-5)
    done = torch.zeros(32, 1)
    found = policy.evaluate_actions(seen, done)
    wanted = type(policy).evaluate_actions(policy, seen, done)
    for one, other in zip(found, wanted, strict=True):
        assert torch.allclose(one, other, atol=1e-5)
