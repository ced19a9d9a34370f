"""Runs of bandits: interrupted, resumed, extended, saved and loaded."""

import numpy as np
import pytest

import tractable as tr
from tests.agents.toss import KINDS, POLICIES, Toss, agent, learners, same, state
from tractable.agents import Bandit, BanditHistory
from tractable.learners import InvalidModelFile


@pytest.mark.parametrize("length", [0, 7])
@pytest.mark.parametrize(
    ("kind", "policy"),
    [(kind, "thompson") for kind in KINDS] + [("bbb", "eps"), ("tagi", "outputs")],
)
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path, kind, policy, length):
    path = tmp_path / "agent.tr"
    whole = agent(kind, POLICIES[policy])
    whole.learn(Toss(length), 60, seed=3, progress=False)

    first = agent(kind, POLICIES[policy])
    first.learn(
        Toss(length), 60, seed=3, progress=False, checkpoint=path, checkpoint_every=10,
        callback=lambda _, record: record["steps"] == 33,
    )  # fmt: skip
    assert len(first.history) == 33
    second = agent(kind, POLICIES[policy])
    second.learn(Toss(length), 60, seed=3, progress=False, checkpoint=path)
    assert second.history.actions == whole.history.actions
    assert second.history.rewards == whole.history.rewards
    assert second.history.regrets == whole.history.regrets
    assert same(state(second), state(whole))


def test_a_killed_run_resumes_from_its_last_checkpoint(tmp_path):
    path = tmp_path / "agent.tr"

    class Killed(Exception):
        pass

    def kill(_, record):
        if record["steps"] == 37:
            raise Killed

    with pytest.raises(Killed):
        agent("bbb").learn(
            Toss(), 60, seed=3, progress=False, checkpoint=path, checkpoint_every=10, callback=kill
        )
    assert len(Bandit.load(path).history) == 30
    resumed = agent("bbb").learn(Toss(), 60, seed=3, progress=False, checkpoint=path).history
    whole = agent("bbb").learn(Toss(), 60, seed=3, progress=False).history
    assert resumed.cumulative_regret.tolist() == whole.cumulative_regret.tolist()


@pytest.mark.parametrize("answer", [None, False])
def test_a_callback_stops_only_by_returning_true(answer):
    history = agent().learn(Toss(), 5, progress=False, callback=lambda *_: answer).history
    assert len(history) == 5


def test_learn_again_extends_the_run():
    bandit, whole = agent(), agent()
    bandit.learn(Toss(), 20, seed=3, progress=False)
    bandit.learn(Toss(), 20, seed=3, progress=False)
    assert len(bandit.history) == 20
    bandit.learn(Toss(), 50, progress=False)
    whole.learn(Toss(), 50, seed=3, progress=False)
    assert bandit.history.actions == whole.history.actions
    with pytest.raises(ValueError, match="seed 3, not 4"):
        bandit.learn(Toss(), 60, seed=4, progress=False)
    bandit.history = BanditHistory()
    bandit.learn(Toss(), 5, seed=4, progress=False)
    assert len(bandit.history) == 5


def test_another_environment_is_detected_when_resuming():
    class Richer(Toss):
        def step(self, action):
            context, reward, *rest = super().step(action)
            return context, reward + 1, *rest

    bandit = agent()
    bandit.learn(Toss(), 10, seed=3, progress=False)
    with pytest.raises(ValueError, match="does not repeat the run: step 0"):
        bandit.learn(Richer(), 20, progress=False)


def test_a_checkpoint_of_another_agent_is_refused(tmp_path):
    path = tmp_path / "agent.tr"
    agent("bbb").learn(Toss(), 5, seed=0, progress=False, checkpoint=path)
    with pytest.raises(ValueError, match=r"cannot resume .* reward_scale = 1.0, this one 2.0"):
        agent("bbb", reward_scale=2.0).learn(Toss(), 9, seed=0, progress=False, checkpoint=path)
    with pytest.raises(ValueError, match=r"cannot resume .* policy = .*Thompson.*EpsilonGreedy"):
        agent("bbb", POLICIES["eps"]).learn(Toss(), 9, seed=0, progress=False, checkpoint=path)


def test_a_file_holds_the_whole_agent(tmp_path):
    bandit = agent("bbb")
    bandit.learn(Toss(), 30, seed=0, progress=False)
    bandit.save(tmp_path / "agent.tr")
    loaded = Bandit.load(tmp_path / "agent.tr")
    assert repr(loaded.policy) == "Thompson(n_samples=2, space='weights')"
    for i in range(30):
        context = [i / 10, -1.0, 0.3]
        assert loaded.act(context) == bandit.act(context)
        loaded.update(context, i % 2, 1.0)
        bandit.update(context, i % 2, 1.0)
    assert same(state(loaded), state(bandit))
    assert [p.name for p in tmp_path.iterdir()] == ["agent.tr"]


def test_other_files_are_refused(tmp_path):
    learner = learners()["tagi"]
    learner.save(tmp_path / "learner.tr")
    with pytest.raises(InvalidModelFile, match="holds a 'TAGI', not a bandit agent"):
        Bandit.load(tmp_path / "learner.tr")
    agent().save(tmp_path / "agent.tr")
    with pytest.raises(InvalidModelFile, match="'Bandit'"):
        tr.TAGI.load(tmp_path / "agent.tr")
    content = (tmp_path / "agent.tr").read_bytes()
    (tmp_path / "agent.tr").write_bytes(content[: len(content) // 2])
    with pytest.raises(InvalidModelFile, match="not a whole model file"):
        Bandit.load(tmp_path / "agent.tr")


def test_regret_is_optional():
    class Silent(Toss):
        def step(self, action):
            return *super().step(action)[:4], {}

    history = agent().learn(Silent(), 5, progress=False).history
    assert np.isnan(history.cumulative_regret).all()
    assert not history.mistakes(1).any()


class Reusing(Toss):
    """Returns the same array at every step, as a simulator with a buffer does."""

    def reset(self, *, seed=None, options=None):
        context, info = super().reset(seed=seed)
        self.buffer = context.copy()
        return self.buffer, info

    def step(self, action):
        context, *rest = super().step(action)
        self.buffer[:] = context
        return self.buffer, *rest


@pytest.mark.parametrize("kind", ["tagi", "backprop"])
def test_environments_may_reuse_their_arrays(kind):
    plain, reusing = agent(kind, seed=1), agent(kind, seed=1)
    assert plain.learn(Toss(), 60).history.actions == reusing.learn(Reusing(), 60).history.actions
    assert same(state(plain), state(reusing))
