"""Tests of files, copies and resumed training."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import tractable as tr
from tractable.learners import Checkpoint, EarlyStopping, InvalidModelFile, Learner
from tractable.testing.learner_case import LearnerCase, regression


class SimulatedCrash(Exception):
    """Raised by a callback to simulate a killed process."""


class PersistenceTests(LearnerCase):
    """Tests that files, copies and checkpoints preserve a learner."""

    # --- saving --------------------------------------------------------------------------

    def test_a_saved_learner_comes_back_whole(self, fitted: Any, tmp_path: Path) -> None:
        fitted.save(tmp_path / "model.tr")
        again = Learner.load(tmp_path / "model.tr")
        assert type(again) is type(fitted)
        assert self.state(again) == self.state(fitted)
        assert again.history == fitted.history
        x, y = regression()
        assert torch.equal(again.predict(x).mean, fitted.predict(x).mean)
        one, other = again.predict(9 * x), fitted.predict(9 * x)
        assert torch.equal(one.variance, other.variance)
        assert one.novelty is not None
        assert other.novelty is not None
        assert torch.equal(one.novelty, other.novelty)
        # and goes on learning as the other does
        for model in (again, fitted):
            model.update(x[0], y[0]).fit(x, y, epochs=1, batch_size=16)
        assert self.state(again) == self.state(fitted)

    def test_a_file_of_another_network_is_refused(self, fitted: Any, tmp_path: Path) -> None:
        fitted.save(tmp_path / "model.tr")
        with pytest.raises(InvalidModelFile):
            Learner.load(tmp_path / "model.tr", net=self.net(4))

    def test_a_killed_run_goes_on_bit_for_bit(self, tmp_path: Path) -> None:
        def run(callbacks: list[Any], path: Path | None = None) -> Any:
            model = self.make(self.net(), tr.likelihoods.Normal(), seed=5)
            options = {"epochs": 4, "batch_size": 16}
            return model.fit(*regression(), **options, callbacks=callbacks, resume=path)

        path = tmp_path / "checkpoint.tr"

        def kill(learner: Learner, record: dict[str, float]) -> None:
            if record["epoch"] == 2:
                raise SimulatedCrash

        with pytest.raises(SimulatedCrash):
            run([Checkpoint(path), kill])
        resumed = run([], path)
        assert self.state(resumed) == self.state(run([]))
        assert len(resumed.history) == 4

    # --- copies ----------------------------------------------------------------------------

    def test_a_copy_is_independent(self, fitted: Any) -> None:
        x, y = regression(10, seed=3)
        before = self.state(fitted)
        for copied in (copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted)), fitted.clone()):
            assert self.state(copied) == before
            copied.fit(x, y, epochs=2, batch_size=5)
            assert self.state(fitted) == before
            assert self.state(copied) != before

    def test_a_copy_trains_identically(self, fitted: Any) -> None:
        x, y = regression(10, seed=3)
        copied = fitted.clone()
        for model in (copied, fitted):
            model.fit(x, y, epochs=2, batch_size=5)
        assert self.state(copied) == self.state(fitted)

    # --- shared layers ---------------------------------------------------------------------

    def test_a_layer_that_is_used_twice_is_saved_twice(self, tmp_path: Path) -> None:
        act = nn.Tanh()
        drop = [nn.Dropout(self.dropout)] if self.dropout else []
        net = nn.Sequential(nn.Linear(2, 6), act, nn.Linear(6, 6), act, *drop, nn.Linear(6, 1))
        model = self.make(net, tr.likelihoods.Normal(0.1), seed=0)
        x, y = regression()
        model.fit(x, y, epochs=2, batch_size=16).save(tmp_path / "model.tr")
        again = Learner.load(tmp_path / "model.tr")
        assert repr(again.net) == repr(net)
        assert torch.equal(again.predict(x).mean, model.predict(x).mean)

    def test_a_shared_linear_layer_is_saved_as_one(self, tmp_path: Path) -> None:
        same = nn.Linear(2, 2)
        drop = [nn.Dropout(self.dropout)] if self.dropout else []
        net = nn.Sequential(same, nn.Tanh(), same, *drop, nn.Linear(2, 1))
        model = self.make(net, tr.likelihoods.Normal(0.1), seed=0)
        x, y = regression()
        model.fit(x, y, epochs=2, batch_size=16).save(tmp_path / "model.tr")
        again = Learner.load(tmp_path / "model.tr")
        assert isinstance(again.net, nn.Sequential)
        assert again.net[0] is again.net[2]
        assert torch.equal(again.predict(x).mean, model.predict(x).mean)

    # --- resuming --------------------------------------------------------------------------

    def test_resumed_runs_end_where_early_stopping_ended(self, tmp_path: Path) -> None:
        def run(path: Path) -> Any:
            model = self.make(self.net(), tr.likelihoods.Normal(0.1), seed=5)
            far = (regression(20)[0], 100 + regression(20)[1])  # gets no better for long
            return model.fit(
                *regression(), epochs=30, batch_size=16, validation=far,
                callbacks=[Checkpoint(path), EarlyStopping(2)], resume=path,
            )  # fmt: skip

        first = run(tmp_path / "a.tr")
        for _ in range(2):
            again = run(tmp_path / "a.tr")
            assert self.state(again) == self.state(first)
            assert len(again.history) == len(first.history)

    def test_a_finished_fit_is_not_finished_again(self, tmp_path: Path) -> None:
        x, y = regression()
        path = tmp_path / "model.tr"
        model = self.make(self.net(), tr.likelihoods.Normal(0.1), seed=5)
        model.fit(x, y, epochs=2, batch_size=16, calibrate=True).save(path)
        again = self.make(self.net(), tr.likelihoods.Normal(0.1), seed=5)
        again.fit(x, y, epochs=2, batch_size=16, calibrate=True, resume=path)
        assert self.state(again) == self.state(model)

    def test_a_checkpoint_of_another_learner_is_refused_and_changes_nothing(
        self, tmp_path: Path
    ) -> None:
        path = tmp_path / "checkpoint.tr"
        x, y = regression()
        self.make(self.net(), tr.likelihoods.Normal(0.1), seed=5).fit(
            x, y, epochs=2, batch_size=16, callbacks=[Checkpoint(path)], resume=path
        )
        tanh = nn.Sequential(*[nn.Tanh() if isinstance(m, nn.ReLU) else m for m in self.net()])
        others = [
            self.make(self.net(), tr.likelihoods.Normal(0.1), seed=6),
            self.make(self.net(), tr.likelihoods.Normal(0.5), seed=5),
            self.make(tanh, tr.likelihoods.Normal(0.1), seed=5),
        ]
        for model in others:
            before = self.state(model)
            with pytest.raises(ValueError, match="resume"):
                model.fit(x, y, epochs=2, batch_size=16, resume=path)
            assert self.state(model) == before
        same = self.make(self.net(), tr.likelihoods.Normal(0.1), seed=5)
        with pytest.raises(ValueError, match="other data"):
            same.fit(x, y + 1, epochs=2, batch_size=16, resume=path)
