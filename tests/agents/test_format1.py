"""Files written before words were changed: ``of`` became ``sample``, ``passes`` ``epochs``."""

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

import tractable as tr
from tractable.agents import Bandit, TAGIControl, Thompson

FILES = Path(__file__).parent.parent / "golden" / "format1"


def header(path):
    with safe_open(path, "pt") as held:
        return json.loads(held.metadata()["tractable"])


@pytest.mark.parametrize("name", ["bandit_tagi", "bandit_bbb"])
def test_a_policy_is_known_by_its_former_words(name, tmp_path):
    path = FILES / f"{name}.tr"
    assert header(path)["agent"]["policy"]["of"] == "weights"
    agent = Bandit.load(path)
    assert isinstance(agent.policy, Thompson)
    assert agent.policy.sample == "weights"
    agent.save(tmp_path / "again.tr")
    assert header(tmp_path / "again.tr")["agent"]["policy"]["sample"] == "weights"


def test_a_dictionary_of_a_file_makes_the_policy():
    learner = tr.TAGI(torch.nn.Linear(2, 1), tr.likelihoods.Normal(0.3))
    given = {"name": "Thompson", "samples": 1, "of": "outputs"}
    agent = Bandit(learner, given, features=0, actions=2)
    assert agent.policy.config() == {"samples": 1, "sample": "outputs"}


def test_settings_of_control_are_known_by_their_former_words(tmp_path):
    path = FILES / "control.tr"
    assert header(path)["options"]["passes"] == 1
    agent = TAGIControl.load(path)
    assert agent.settings.epochs == 1
    assert "pull" not in header(path)["options"]  # and goes on as it began
    restraint = (agent.settings.pull, agent.settings.forgetting, agent.settings.max_step)
    assert restraint == (0.0, 0.0, None)
    agent.save(tmp_path / "again.tr")
    assert "passes" not in header(tmp_path / "again.tr")["options"]
    assert TAGIControl.load(tmp_path / "again.tr").settings == agent.settings
