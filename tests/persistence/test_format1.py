"""Files that version 0.1.0 wrote (format 1) load, predict the same and go on as they would.

The same but for rounding: sums are made in another order on another processor.
"""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import tractable as tr
from tests.golden.make_format1 import HERE, data, net
from tractable import agents
from tractable import sklearn as estimators
from tractable.learners import Learner
from tractable.persistence import model_file

EXPECTED = json.loads((HERE / "expected.json").read_text())
LEARNERS = [name for name, found in EXPECTED.items() if "updated" in found]


def as_it_was(tensor: torch.Tensor, expected: dict[str, object]) -> bool:
    """The same but for the last digits."""
    held = np.frombuffer(bytes.fromhex(expected["bytes"]), dtype=tensor.numpy().dtype)
    rtol, atol = (1e-5, 1e-7) if tensor.dtype == torch.float32 else (1e-12, 1e-14)
    held = held.reshape(expected["shape"])
    return held.shape == tensor.shape and np.allclose(tensor.numpy(), held, rtol=rtol, atol=atol)


def test_every_file_is_tested_and_of_format_1():
    written = {path.stem for path in HERE.glob("*.tr")}
    assert written == set(EXPECTED)
    for name in written:
        assert model_file.read(HERE / f"{name}.tr")[1]["format"] == 1


@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_predicts_and_learns_as_it_did(name, tmp_path):
    x, y, labels = data()
    model = Learner.load(HERE / f"{name}.tr")
    found, expected = model.predict(x[:5]), EXPECTED[name]
    assert as_it_was(found.mean, expected["mean"])
    assert as_it_was(found.variance, expected["variance"])
    model.save(tmp_path / "format2.tr")
    again = Learner.load(tmp_path / "format2.tr")
    assert model_file.read(tmp_path / "format2.tr")[1]["format"] == 2
    targets = labels if isinstance(model.likelihood, CLASSES) else y
    for learner in (model, again):
        learner.update(x[:2], targets[:2])
        if name not in LEARNS_ANEW:
            assert as_it_was(learner.predict(x[:5]).mean, expected["updated"])
    assert torch.equal(model.predict(x[:5]).mean, again.predict(x[:5]).mean)
    assert not as_it_was(model.predict(x[:5]).mean, expected["mean"])


LEARNS_ANEW = ("tagi_norm",)
"""Messages pass through the statistics of normalisation layers since."""
CLASSES = (tr.likelihoods.Categorical, tr.likelihoods.Softmax)


def test_a_checkpoint_is_resumed_as_it_would_have_gone_on(tmp_path):
    x, y, _ = data()
    path = shutil.copy(HERE / "checkpoint.tr", tmp_path / "checkpoint.tr")
    model = tr.TAGI(net(), tr.likelihoods.Normal(), seed=5).fit(x, y, epochs=4, resume=path)
    assert as_it_was(model.predict(x[:5]).mean, EXPECTED["checkpoint"]["mean"])
    assert len(model.history) == 4


def test_estimators_predict_as_they_did():
    x = data()[0][:5].numpy()
    regressor = estimators.TAGIRegressor.load(HERE / "regressor.tr")
    assert as_it_was(torch.from_numpy(regressor.predict(x)), EXPECTED["regressor"]["mean"])
    classifier = estimators.BBBClassifier.load(HERE / "classifier.tr")
    assert classifier.classes_.tolist() == ["a", "bb", "ccc"]
    assert as_it_was(torch.from_numpy(classifier.predict_proba(x)), EXPECTED["classifier"]["mean"])


def test_a_table_is_predicted_as_it_was(tmp_path, monkeypatch):
    runner = pytest.importorskip("typer.testing").CliRunner()
    from tractable.cli.app import app

    expected = EXPECTED["table"]
    monkeypatch.chdir(tmp_path)
    Path("houses.csv").write_text("\n".join(expected["csv"]) + "\n")
    done = runner.invoke(app, ["predict", str(HERE / "table.tr"), "houses.csv", "-o", "out.csv"])
    assert done.exit_code == 0, done.stderr
    rows = list(csv.DictReader(Path("out.csv").read_text().splitlines()))
    for column in ("mean", "std"):
        written = [float(row[column]) for row in rows]  # with as many digits as mean anything
        assert written == pytest.approx(expected[column], rel=1e-5)


@pytest.mark.parametrize("name", ["bandit_tagi", "bandit_bbb"])
def test_a_bandit_acts_as_it_did(name):
    agent = agents.Bandit.load(HERE / f"{name}.tr")
    assert [agent.act(row) for row in data()[0][:10].tolist()] == EXPECTED[name]["actions"]


@pytest.mark.parametrize("name", ["bandit_statistics", "bandit_ensemble"])
def test_a_bandit_with_half_seen_noise_goes_on_as_it_did(name, tmp_path):
    x, y, _ = data()
    tensors, _ = model_file.read(HERE / f"{name}.tr")
    assert any(key.startswith("statistics/") for key in tensors)
    first = agents.Bandit.load(HERE / f"{name}.tr")
    first.save(tmp_path / "format2.tr")
    rows = torch.cat([x[:5], torch.eye(2)[torch.ones(5, dtype=torch.long)]], dim=1)
    for agent in (first, agents.Bandit.load(tmp_path / "format2.tr")):
        for context, reward in zip(x[21:41].tolist(), y[21:41].tolist(), strict=True):
            agent.learn(context, agent.act(context), reward)
        assert [agent.act(row) for row in x[:10].tolist()] == EXPECTED[name]["actions"]
        found = agent.learner.predict(rows)
        assert as_it_was(found.mean, EXPECTED[name]["mean"])
        assert as_it_was(found.variance, EXPECTED[name]["variance"])


def test_a_control_agent_goes_on_as_it_did():
    pytest.importorskip("gymnasium")
    agent = agents.TAGIControl.load(HERE / "control.tr").learn(32)
    action, _ = agent.predict(np.array([1.0, 0.0, 0.0]), deterministic=True)
    assert agent.steps == EXPECTED["control"]["steps"]
    assert action.tolist() == pytest.approx(EXPECTED["control"]["action"], rel=1e-4)


def test_a_file_of_format_1_still_needs_a_network_that_fits(tmp_path):
    with pytest.raises(tr.errors.InvalidModelFile, match="another network"):
        Learner.load(
            HERE / "tagi.tr", net=nn.Sequential(nn.Linear(2, 7), nn.ReLU(), nn.Linear(7, 1))
        )
