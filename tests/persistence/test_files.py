"""Writing: the old file or the new one, whole; links, permissions and scratch files."""

import os
import stat
import time
from pathlib import Path

import pytest
import torch
from torch import nn

import tractable as tr
from tests.persistence.kinds import KINDS, write_good
from tests.persistence.made import data, net
from tractable import agents
from tractable.learners import Learner
from tractable.persistence import atomic, model_file

OLD, NEW = b"the old file", b"the new file"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "model.tr"
    path.write_bytes(OLD)
    return path


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_a_file_is_replaced(path):
    atomic.write_bytes(path, NEW)
    assert path.read_bytes() == NEW
    assert names(path.parent) == ["model.tr"]
    atomic.write_text(path, "größer")
    assert path.read_text("utf-8") == "größer"


def test_a_link_keeps_pointing_where_it_did(path):
    link = path.with_name("link.tr")
    link.symlink_to("model.tr")
    atomic.write_bytes(link, NEW)
    assert link.is_symlink()
    assert os.readlink(link) == "model.tr"
    assert path.read_bytes() == NEW


def test_a_link_to_nothing_makes_the_file(tmp_path):
    link = tmp_path / "link.tr"
    link.symlink_to("model.tr")
    atomic.write_bytes(link, NEW)
    assert link.is_symlink()
    assert (tmp_path / "model.tr").read_bytes() == NEW


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_permissions_are_kept(path, mode):
    path.chmod(mode)
    atomic.write_bytes(path, NEW)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert path.read_bytes() == NEW


def test_a_new_file_has_the_usual_permissions(tmp_path):
    before = os.umask(0o027)
    try:
        atomic.write_bytes(tmp_path / "model.tr", NEW)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "model.tr").stat().st_mode) == 0o640


def test_a_private_file_is_private_from_its_first_byte(path, monkeypatch):
    path.chmod(0o600)
    seen = []

    def replace(scratch, target):
        seen.append(stat.S_IMODE(Path(scratch).stat().st_mode))
        os.rename(scratch, target)

    monkeypatch.setattr(os, "replace", replace)
    atomic.write_bytes(path, NEW)
    assert seen == [0o600]


@pytest.mark.parametrize("step", ["open", "fsync", "replace"])
@pytest.mark.parametrize("error", [OSError("no space left"), KeyboardInterrupt()])
def test_a_failed_write_keeps_the_existing_file_only(path, monkeypatch, step, error):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(type(error)):
        atomic.write_bytes(path, NEW)
    monkeypatch.undo()
    assert path.read_bytes() == OLD
    assert names(path.parent) == ["model.tr"]


def test_stale_scratch_files_of_the_same_name_are_swept(path):
    hour = 3_600
    aged = {
        ".model.tr.0123abcd": 2 * hour,  # left by a killed process
        ".model.tr.deadbeef": hour / 2,  # perhaps somebody writes to it
        ".other.tr.0123abcd": 2 * hour,
        ".model.tr.0123abcd.bak": 2 * hour,
        ".model.tr.0123ABCD": 2 * hour,
        "model.tr.0123abcd": 2 * hour,
        "xmodelxtr.0123abcd": 2 * hour,
    }
    for name, age in aged.items():
        scratch = path.with_name(name)
        scratch.write_bytes(b"half")
        os.utime(scratch, (time.time() - age,) * 2)
    atomic.write_bytes(path, NEW)
    assert set(names(path.parent)) == {"model.tr", *aged} - {".model.tr.0123abcd"}


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no folder .*nowhere"):
        atomic.write_bytes(tmp_path / "nowhere/model.tr", NEW)
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        atomic.write_bytes(tmp_path / "folder", NEW)
    assert names(tmp_path) == ["folder"]


# --- models ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KINDS)
def test_a_model_is_written_once(name, tmp_path, monkeypatch):
    held = KINDS[name].load(write_good(name, tmp_path / "first.tr"))
    writes = []

    def count(path, payload):
        writes.append(path)
        atomic.write_bytes(path, payload)

    monkeypatch.setattr(model_file, "write_bytes", count)
    held.save(tmp_path / "again.tr")
    assert writes == [tmp_path / "again.tr"]


@pytest.mark.parametrize("name", KINDS)
def test_what_is_saved_again_is_the_same_file(name, tmp_path):
    held = KINDS[name].load(write_good(name, tmp_path / "first.tr"))
    held.save(tmp_path / "second.tr")
    KINDS[name].load(tmp_path / "second.tr").save(tmp_path / "third.tr")
    assert (tmp_path / "third.tr").read_bytes() == (tmp_path / "second.tr").read_bytes()


def test_a_failed_save_keeps_the_existing_model(tmp_path, monkeypatch):
    x, y, _ = data()
    model = tr.TAGI(net(), tr.likelihoods.Normal(0.1)).fit(x, y, epochs=1)
    model.save(tmp_path / "model.tr")
    before = (tmp_path / "model.tr").read_bytes()
    model.update(x[:1], y[:1])
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        model.save(tmp_path / "model.tr")
    assert (tmp_path / "model.tr").read_bytes() == before


def test_a_header_too_long_to_be_read_is_not_written(path):
    with pytest.raises(ValueError, match="holds at most"):
        model_file.write(path, {"a": torch.zeros(1)}, {"history": "x" * 20_000_000})
    assert path.read_bytes() == OLD


def test_a_learner_of_the_same_name_takes_nobodys_place(tmp_path):
    x, y, _ = data()
    tr.Backprop(net(), tr.likelihoods.Normal(0.1)).fit(x, y, epochs=1).save(tmp_path / "ours.tr")

    class Backprop(tr.TAGI):
        """A user's own, named like one of the library's."""

    ours = Learner.load(tmp_path / "ours.tr")
    assert type(ours) is tr.Backprop
    mine = Backprop(net(), tr.likelihoods.Normal(0.1)).fit(x, y, epochs=1)
    mine.save(tmp_path / "mine.tr")
    again = Learner.load(tmp_path / "mine.tr")
    assert type(again) is Backprop
    assert torch.equal(again.predict(x).mean, mine.predict(x).mean)
    many = tr.Ensemble(net(), tr.likelihoods.Normal(0.1), n_estimators=2, learner=Backprop)
    many.fit(x, y, epochs=1).save(tmp_path / "many.tr")
    loaded = Learner.load(tmp_path / "many.tr")
    assert {type(member) for member in loaded.members} == {Backprop}


def test_a_learner_that_is_not_defined_here_is_not_imported(tmp_path):
    tensors, header = model_file.read(write_good("tagi", tmp_path / "model.tr"))
    model_file.write(tmp_path / "model.tr", tensors, {**header, "learner": "evilmod.Mine"})
    with pytest.raises(tr.errors.InvalidModelFile, match=r"unknown learner 'evilmod.Mine'"):
        Learner.load(tmp_path / "model.tr")


def test_replay_memory_of_an_agent_is_stored_without_empty_space(tmp_path):
    learner = tr.Backprop(nn.Linear(2, 1), tr.likelihoods.Normal(0.1))
    agent = agents.Bandit(learner, n_features=0, n_actions=2, replay=agents.BanditReplay(10**9))
    agent.update([], 1, 1.0)
    agent.save(tmp_path / "agent.tr")
    again = agents.Bandit.load(tmp_path / "agent.tr")
    for both in (agent, again):
        for _ in range(200):
            both.update([], both.act([]), 1.0)
        assert len(both.replay) == 201
        assert len(both.replay.inputs) < 1_000
    assert torch.equal(agent.learner.posterior.loc, again.learner.posterior.loc)
