"""The mushroom study at small size: shared mushrooms, resuming, metrics."""

import json
import os

import matplotlib as mpl
import numpy as np
import pytest
import torch

from tractable.agents import BanditHistory
from tractable.data import TableData
from tractable.data.download import FOLDER
from tractable_studies.mushroom import agents as mushroom_agents
from tractable_studies.mushroom import run as mushroom
from tractable_studies.mushroom.environment import Mushroom
from tractable_studies.mushroom.jobs import Job, run_all

mpl.use("Agg")


@pytest.fixture
def table(monkeypatch) -> None:
    """Return 300 mushrooms of 95 features, the first of which marks the edible ones."""
    generator = torch.Generator().manual_seed(0)
    features = (torch.rand(300, 95, generator=generator) < 0.2).float()
    features[:, 0] = (torch.rand(300, generator=generator) < 0.5).float()
    data = TableData("mushroom", ("edible", "poisonous"), (), features, 1 - features[:, 0].long())
    monkeypatch.setattr("tractable_studies.mushroom.environment.mushroom", lambda encoding: data)


def result(folder) -> dict:
    return json.loads((folder / "results.json").read_text())


def test_the_study_in_miniature(table, tmp_path, capsys):
    names = ["bbb", "tagi", "greedy", "eps-5"]
    arguments = ["--quick", "--steps", "60", "--out", str(tmp_path)]
    mushroom.main([*arguments, "--agents", *names])
    out = capsys.readouterr().out
    assert "paper (text)" in out
    assert "converges faster than greedy" in out
    metrics = result(tmp_path)["metrics"]
    for name in names:
        found = metrics[name]
        cost = 15 * found["false_positives"] + 5 * found["false_negatives"]
        assert found["regret"] == cost
        assert found["seeds"] == 1
        assert found["cpu_milliseconds_per_step"] > 0
    # The same mushrooms for all agents of a seed.
    assert len({metrics[name]["edible_rate"] for name in names}) == 1
    for part in ("regret", "eating-rate", "mistakes", "single-runs"):
        assert (tmp_path / f"mushroom-{part}.png").stat().st_size > 1000
    rows = result(tmp_path)["comparison"]
    assert [row["learner"] for row in rows] == ["Bayes by Backprop", "TAGI", "greedy", "ε = 5 %"]
    assert "chance alone costs" in rows[3]["note"]
    mushroom.main([*arguments, "--agents", *names])  # finished runs are read, not made again
    assert result(tmp_path)["metrics"]["bbb"] == metrics["bbb"]


@pytest.mark.parametrize("name", ["bbb", "tagi", "eps-1"])
def test_a_killed_job_gives_the_same_curve(table, tmp_path, name, monkeypatch):
    whole = Job(name, 0, 50, tmp_path / "whole")
    run_all([whole], 1, 1)

    class Killed(Exception):
        pass

    job = Job(name, 0, 50, tmp_path / "killed")
    job.folder.mkdir()
    step = Mushroom.step
    calls = 0

    def failing(self, action):
        nonlocal calls
        calls += 1
        if calls == mushroom_agents.MEMORY + 30:
            raise Killed
        return step(self, action)

    learn = mushroom_agents.Bandit.learn
    monkeypatch.setattr(  # a checkpoint every 20 steps
        mushroom_agents.Bandit, "learn", lambda *a, **k: learn(*a, **{**k, "checkpoint_every": 20})
    )
    monkeypatch.setattr(Mushroom, "step", failing)
    with pytest.raises(Killed):
        job.run(lambda steps: None)
    monkeypatch.setattr(Mushroom, "step", step)
    assert len(job.history()) == 20
    job.run(lambda steps: None)
    assert job.history().actions == whole.history().actions
    assert job.history().regrets == whole.history().regrets


def test_processes_change_nothing(tmp_path):
    if not os.environ.get(FOLDER):
        pytest.skip(f"{FOLDER} does not name a folder with the real data sets")
    for jobs in (1, 2):
        mushroom.main(
            ["--seed", "0", "1", "--steps", "40", "--agents", "tagi", "--jobs", str(jobs),
             "--out", str(tmp_path / str(jobs))]
        )  # fmt: skip
    alone, together = (result(tmp_path / n)["metrics"]["tagi"] for n in "12")
    assert alone["regret_of_each_seed"] == together["regret_of_each_seed"]


def test_preliminary_knowledge_is_the_same_for_all_agents(table):
    one = mushroom_agents.make("bbb", 3, Mushroom())
    other = mushroom_agents.make("greedy", 3, Mushroom())
    assert len(one.replay) == 4096
    assert torch.equal(one.replay.inputs, other.replay.inputs)
    assert torch.equal(one.replay.targets, other.replay.targets)
    actions = one.replay.inputs[:, -2:]
    assert actions.sum(1).eq(1).all()
    assert actions[:, 1].mean() == pytest.approx(0.5, abs=4 * 0.5 / 64)
    assert set(one.replay.targets[actions[:, 0] == 1].flatten().tolist()) == {0.0}
    assert set(one.replay.targets[actions[:, 1] == 1].flatten().tolist()) == {5.0, -35.0}


def test_the_source_s_settings(table):
    agent = mushroom_agents.make("bbb", 0, Mushroom())
    assert agent.learner.method.prior.config() == {
        "name": "ScaleMixture", "pi": 0.5, "sigma1": 1.0, "sigma2": pytest.approx(np.exp(-6))
    }  # fmt: skip
    assert [tuple(g.shape) for _, g in agent.learner.posterior.items()][::2] == [
        (100, 97),
        (100, 100),
        (1, 100),
    ]
    assert agent.policy.n_samples == 2
    tagi = mushroom_agents.make("tagi-unprimed", 0, Mushroom())
    assert tagi.replay is None
    assert not tagi.learner.fitted


def test_metrics_of_a_history_by_hand():
    history = BanditHistory()
    for action, edible, reward in ((1, 1, 5), (0, 1, 0), (1, 0, 5), (1, 0, -35), (0, 0, 0)):
        regret = 5 * edible * (1 - action) + 15 * (1 - edible) * action
        history.add(action, reward, {"regret": regret, "oracle": edible})
    found = mushroom.summary([history, history], 5)
    assert found["regret"] == 35
    assert found["regret_received"] == 10 - (-25)
    assert found["false_positives"] == 2
    assert found["false_negatives"] == 1
    assert found["eating_rate"] == 0.6
    assert found["regret_standard_error"] == 0
    assert mushroom.summary([history], 3)["regret"] == 20
    assert mushroom.summary([history], 3)["regret_standard_error"] is None


def test_progress_counts_only_the_steps_that_are_left(table, tmp_path):
    first = Job("tagi", 0, 250, tmp_path)
    told: list[int] = []
    first.run(told.append)
    assert (first.left, told) == (0, [250])
    longer = Job("tagi", 0, 750, tmp_path)
    assert longer.left == 500
    longer.run(told.append)
    assert told == [250, 250, 250]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--steps", "0"], "--steps must be at least 1"),
        (["--agents", "ucb"], "no choice of --agents 'ucb'"),
    ],
)
def test_bad_arguments(arguments, words, capsys, tmp_path):
    with pytest.raises(SystemExit):
        mushroom.main([*arguments, "--out", str(tmp_path)])
    assert words in capsys.readouterr().err
