"""What every learner must do, whatever it does inside: inherit and supply ``make``.

    from tractable.testing import LearnerConformance

    class TestMine(LearnerConformance):
        def make(self, net, likelihood, **options):
            return Mine(net, likelihood, **options)

pytest then runs all of it.  ``options`` are ``seed``, ``dtype`` and ``device``.
"""

from __future__ import annotations

import copy
import pickle
import threading
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import tractable as tr
from tractable.learners import Checkpoint, EarlyStopping, InvalidModelFile, Learner, Method


class Killed(Exception):
    """Raised by a callback in place of a killed process."""


def regression(rows: int = 60, seed: int = 0) -> tuple[Tensor, Tensor]:
    """A noisy plane."""
    generator = torch.Generator().manual_seed(seed)
    x = 2 * torch.rand(rows, 2, generator=generator) - 1
    y = x[:, 0] - 0.5 * x[:, 1] + 0.1 * torch.randn(rows, generator=generator)
    return x, y


def classes(rows: int = 60, seed: int = 0) -> tuple[Tensor, Tensor]:
    """The same, cut into three classes."""
    x, y = regression(rows, seed)
    return x, (y > 0).long() + (y > 0.5).long()


class LearnerConformance(ABC):
    """Tests that hold for any learner."""

    dropout: ClassVar[float] = 0.0
    class_outputs: ClassVar[int] = 3

    @abstractmethod
    def make(self, net: nn.Module, likelihood: tr.likelihoods.Likelihood, **options: Any) -> Any:
        """A new learner."""

    def classes_likelihood(self) -> tr.likelihoods.Likelihood:
        """Of three classes."""
        return tr.likelihoods.Softmax(3)

    def net(self, outputs: int = 1) -> nn.Sequential:
        """A small network."""
        drop = [nn.Dropout(self.dropout)] if self.dropout else []
        return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), *drop, nn.Linear(8, outputs))

    @pytest.fixture
    def model(self) -> Any:
        """A learner before any data."""
        return self.make(self.net(), tr.likelihoods.Normal(0.1), seed=1)

    @pytest.fixture
    def fitted(self, model: Any) -> Any:
        """A learner after some."""
        return model.fit(*regression(), epochs=3, batch_size=16)

    @staticmethod
    def state(model: Any) -> dict[str, bytes]:
        """Everything that training changes, as bytes."""
        return {n: t.detach().cpu().numpy().tobytes() for n, t in model.state_dict().items()}

    # --- learning ------------------------------------------------------------------------

    def test_fit_returns_the_learner_and_keeps_a_record(self, model: Any) -> None:
        assert not model.fitted
        assert model.fit(*regression(), epochs=2, batch_size=16) is model
        assert model.fitted
        assert [record["epoch"] for record in model.history] == [1, 2]

    def test_learning_helps(self, model: Any) -> None:
        x, y = regression()
        before = tr.metrics.rmse(model.predict(x), y)
        model.fit(x, y, epochs=30, batch_size=8)
        assert tr.metrics.rmse(model.predict(x), y) < 0.7 * before

    def test_validation_is_recorded(self, model: Any) -> None:
        model.fit(*regression(), epochs=1, batch_size=16, validation=regression(20, seed=1))
        assert np.isfinite(model.history[0]["validation_nll"])

    def test_a_data_loader_serves_as_well(self, model: Any) -> None:
        loader = DataLoader(TensorDataset(*regression()), batch_size=16)
        assert model.fit(loader, epochs=1).fitted

    def test_update_learns_one_observation_at_a_time(self, model: Any) -> None:
        x, y = regression(5)
        before = self.state(model)
        for row, seen in zip(x, y, strict=True):
            assert model.update(row, seen) is model
        assert model.fitted
        assert self.state(model) != before

    def test_the_users_network_and_likelihood_are_left_alone(self) -> None:
        net, likelihood = self.net(), tr.likelihoods.Normal()
        parameters = copy.deepcopy(net.state_dict())
        self.make(net, likelihood, seed=0).fit(*regression(), epochs=1, batch_size=16)
        assert all(torch.equal(parameters[k], v) for k, v in net.state_dict().items())
        assert likelihood.noise_mean.tolist() == [1.0]

    def test_an_unknown_noise_is_inferred(self) -> None:
        model = self.make(self.net(), tr.likelihoods.Normal(), seed=0)
        model.fit(*regression(), epochs=4, batch_size=8)
        assert 0 < float(model.predict(regression()[0]).aleatoric.mean()) < 1

    # --- predicting ----------------------------------------------------------------------

    def test_predictions_of_numbers_have_all_members(self, fitted: Any) -> None:
        x, y = regression(7, seed=2)
        p = fitted.predict(x)
        assert p.mean.shape == p.variance.shape == p.std.shape == p.log_prob(y).shape == (7,)
        low, high = p.interval(0.9)
        assert (low < high).all()
        assert torch.allclose(p.variance, p.epistemic + p.aleatoric)
        draws = p.sample(20_000, torch.Generator().manual_seed(0))
        assert draws.shape == (20_000, 7)
        assert torch.allclose(draws.mean(0), p.mean, atol=0.05 * float(p.std.max()) + 1e-3)
        assert not p.mean.requires_grad
        with pytest.raises(TypeError, match="classes"):
            _ = p.probs

    def test_predictions_of_classes_have_all_members(self) -> None:
        model = self.make(self.net(self.class_outputs), self.classes_likelihood(), seed=0)
        x, y = classes()
        p = model.fit(x, y, epochs=2, batch_size=16).predict(x)
        assert p.probs.shape == (60, 3)
        assert torch.allclose(p.probs.sum(-1), torch.ones(60), atol=1e-5)
        assert p.labels.shape == p.log_prob(y).shape == (60,)
        assert p.sample(4).shape == (4, 60)
        assert p.epistemic.shape == p.aleatoric.shape == (60,)
        assert (p.epistemic >= 0).all()
        assert (p.aleatoric >= 0).all()
        with pytest.raises(TypeError, match="no quantiles"):
            p.interval()

    def test_error_bars_grow_away_from_the_data(self, fitted: Any) -> None:
        x, _ = regression()
        inside, far, farther = (fitted.predict(x * k) for k in (1, 10, 1000))
        assert inside.novelty.shape == (60,)
        assert (inside.novelty == 0).double().mean() > 0.8  # the rows of the fit
        assert (far.novelty > 0).double().mean() > 0.8  # those near the origin stay inside
        assert (farther.novelty >= far.novelty).all()
        assert far.variance.mean() > inside.variance.mean()
        assert farther.variance.mean() > 10 * far.variance.mean()

    def test_only_the_epistemic_part_grows(self) -> None:
        x, y = regression()
        models = [self.make(self.net(), tr.likelihoods.Normal(0.1), seed=1) for _ in "ab"]
        for model, off_data in zip(models, (True, False), strict=True):
            model.fit(x, y, epochs=2, batch_size=16, off_data=off_data)
        wide, plain = (model.predict(10 * x) for model in models)
        assert plain.novelty is None
        assert torch.equal(wide.mean, plain.mean)
        assert torch.equal(wide.aleatoric, plain.aleatoric)
        grown = wide.epistemic > plain.epistemic
        assert torch.equal(grown, wide.novelty > 0)
        same = ~grown
        assert torch.equal(wide.epistemic[same], plain.epistemic[same])

    def test_online_updates_alone_know_no_novelty(self, model: Any) -> None:
        x, y = regression(5)
        assert model.update(x, y).predict(x).novelty is None

    def test_classes_are_doubted_off_the_data(self) -> None:
        x, y = classes()
        entropies = []
        for off_data in (True, False):
            model = self.make(self.net(self.class_outputs), self.classes_likelihood(), seed=0)
            model.fit(x, y, epochs=1, batch_size=16, off_data=off_data)
            p = model.predict(100 * x)
            entropies.append(p.entropy.mean())
            assert (p.novelty is not None) == off_data
        assert bool(entropies[0] > entropies[1])

    def test_the_size_of_batches_does_not_change_a_prediction(self, fitted: Any) -> None:
        if self.dropout:
            pytest.skip("masks are drawn row by row")
        x, _ = regression(10)
        whole, parts = fitted.predict(x), fitted.predict(x, batch_size=3)
        assert torch.allclose(whole.mean, parts.mean, atol=1e-6)

    def test_predicting_changes_nothing(self, fitted: Any) -> None:
        before = self.state(fitted)
        first = fitted.predict(regression()[0]).mean
        assert torch.equal(first, fitted.predict(regression()[0]).mean)
        assert self.state(fitted) == before

    def test_whole_numbers_are_numbers(self, fitted: Any) -> None:
        x = torch.arange(8).reshape(4, 2)
        wanted = fitted.predict(x.float()).mean
        assert torch.equal(fitted.predict(x).mean, wanted)
        assert torch.equal(fitted.predict(x.numpy().astype(np.int16)).mean, wanted)

    def test_targets_in_a_column_give_predictions_in_a_column(self, model: Any) -> None:
        x, y = regression()
        model.fit(x, y.unsqueeze(1), epochs=1, batch_size=16)
        assert model.predict(x).mean.shape == (60, 1)

    # --- seeds ---------------------------------------------------------------------------

    def test_the_same_seed_gives_the_same_result_bit_for_bit(self) -> None:
        def run(seed: int) -> dict[str, bytes]:
            torch.manual_seed(np.random.default_rng().integers(1000))  # must not matter
            net = nn.Sequential(*self.net())
            model = self.make(net, tr.likelihoods.Normal(0.1), seed=seed)
            return self.state(model.fit(*regression(), epochs=2, batch_size=16))

        assert run(3) == run(3)
        assert run(3) != run(4)

    def test_the_global_generator_is_not_touched(self, model: Any) -> None:
        torch.manual_seed(0)
        expected = torch.rand(1)
        torch.manual_seed(0)
        model.fit(*regression(), epochs=1, batch_size=16).predict(regression()[0])
        assert torch.equal(torch.rand(1), expected)

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
                raise Killed

        with pytest.raises(Killed):
            run([Checkpoint(path), kill])
        resumed = run([], path)
        assert self.state(resumed) == self.state(run([]))
        assert len(resumed.history) == 4

    # --- copies, callbacks, hold-out ------------------------------------------------------

    def test_a_copy_is_independent(self, fitted: Any) -> None:
        x, y = regression(10, seed=3)
        before = self.state(fitted)
        for twin in (copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted)), fitted.clone()):
            assert self.state(twin) == before
            twin.fit(x, y, epochs=2, batch_size=5)
            assert self.state(fitted) == before
            assert self.state(twin) != before

    def test_a_copy_goes_on_in_the_same_way(self, fitted: Any) -> None:
        x, y = regression(10, seed=3)
        twin = fitted.clone()
        for model in (twin, fitted):
            model.fit(x, y, epochs=2, batch_size=5)
        assert self.state(twin) == self.state(fitted)

    def test_every_callback_is_called_when_one_stops(self, model: Any) -> None:
        seen: list[float] = []
        stop = iter([None, True])

        def stopping(learner: Learner, record: dict[str, float]) -> bool | None:
            return next(stop)

        def seeing(learner: Learner, record: dict[str, float]) -> None:
            seen.append(record["epoch"])

        callbacks = (callback for callback in [stopping, seeing])
        model.fit(*regression(), epochs=5, batch_size=16, callbacks=callbacks)
        assert seen == [1, 2]
        assert len(model.history) == 2

    def test_calibration_changes_the_noise(self) -> None:
        x, y = regression()
        plain, scaled = (self.make(self.net(), tr.likelihoods.Normal(0.1), seed=2) for _ in "ab")
        plain.fit(x, y, epochs=3, batch_size=16)
        scaled.fit(x, y, epochs=3, batch_size=16, calibrate=True)
        noise, before = (float(m.predict(x).aleatoric.mean()) for m in (scaled, plain))
        assert noise == pytest.approx(before * scaled.run.scale, rel=1e-4)
        assert abs(scaled.run.scale - 1) > 0.01

    def test_copies_leave_no_trace_in_the_first_record(self) -> None:
        x, y = regression()
        records = []
        for calibrate in (False, True):
            model = self.make(self.net(), tr.likelihoods.Normal(), seed=2)
            model.fit(x, y, epochs=1, batch_size=60, shuffle=False, calibrate=calibrate)
            records.append({k: v for k, v in model.history[0].items() if k != "seconds"})
        assert records[0] == pytest.approx(records[1], rel=0.5)

    def test_labels_are_calibrated_or_it_says_so_before_it_learns(self) -> None:
        model = self.make(self.net(self.class_outputs), self.classes_likelihood(), seed=0)
        before = self.state(model)
        if model.likelihood.can_calibrate:
            plain = model.clone().fit(*classes(), epochs=1)
            model.fit(*classes(), epochs=1, calibrate=True)
            found, other = (m.predict(classes()[0]) for m in (model, plain))
            assert not torch.equal(found.probs, other.probs)
            assert torch.allclose(found.probs.sum(1), torch.ones(len(found.probs)))
            return
        with pytest.raises(TypeError, match="noise"):
            model.fit(*classes(), epochs=1, calibrate=True)
        assert self.state(model) == before

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

    # --- what agents, attacks and threads use ----------------------------------------------

    def test_functions_are_drawn(self, fitted: Any) -> None:
        x, _ = regression(6)
        drawn = fitted.sample(x, 40, torch.Generator().manual_seed(0))
        assert drawn.shape == (40, 6, 1)
        mean, variance = fitted.outputs(x).moments()
        assert mean.shape == variance.shape == (6, 1)
        assert (variance >= 0).all()
        again = fitted.sample(x, 40, torch.Generator().manual_seed(0))
        assert torch.equal(drawn, again)

    def test_a_draw_is_one_function_of_all_rows(self, fitted: Any) -> None:
        if self.dropout:
            pytest.skip("masks are drawn row by row")
        x, _ = regression(3)
        drawn = fitted.sample(torch.cat([x, x]), 5, torch.Generator().manual_seed(0))
        assert torch.allclose(drawn[:, :3], drawn[:, 3:], atol=1e-5)

    def test_the_gradient_in_the_input_is_that_of_the_prediction(self) -> None:
        model = self.make(self.net(), tr.likelihoods.Normal(0.5), seed=1, dtype=torch.float64)
        model.fit(*regression(), epochs=3, batch_size=16)
        x, y = model.checked(*regression(4, seed=4))
        gradient = model.input_gradient(x, y)
        assert gradient.shape == x.shape
        moved = x + 1e-4 * gradient
        gained = model.predict(moved).log_prob(y) - model.predict(x).log_prob(y)
        assert (gained > -1e-9).all()

    def test_updates_from_several_threads_are_all_learnt(self) -> None:
        x, y = regression(40)
        model = self.make(self.net(), tr.likelihoods.Normal(0.5), seed=1)
        counted: list[int] = []

        def work(k: int) -> None:
            for row, seen in zip(x[k::4], y[k::4], strict=True):
                model.update(row, seen)
                model.predict(x[:2])
                counted.append(1)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(counted) == 40
        assert torch.isfinite(model.predict(x).mean).all()

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

    # --- refusing ------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("x", "y"),
        [
            ([[1.0, np.nan]], [1.0]),
            ([[1.0, 2.0]], [np.inf]),
            ([[1.0, 2.0, 3.0]], [1.0]),
            ([[1.0, 2.0]], [1.0, 2.0]),
            (np.zeros((0, 2)), np.zeros(0)),
            ([["a", "b"]], [1.0]),
        ],
        ids=["nan", "infinite", "width", "rows", "empty", "text"],
    )
    def test_bad_input_is_refused_and_changes_nothing(self, fitted: Any, x: Any, y: Any) -> None:
        before = self.state(fitted)
        for attempt in (fitted.update, fitted.fit):
            with pytest.raises((ValueError, TypeError)):
                attempt(x, y)
        assert self.state(fitted) == before

    @pytest.mark.parametrize("labels", [[0, 3], [-1, 0], [0.5, 1.0]])
    def test_labels_out_of_range_are_refused_before_training(self, labels: Any) -> None:
        model = self.make(self.net(self.class_outputs), self.classes_likelihood(), seed=0)
        before = self.state(model)
        with pytest.raises(ValueError, match="labels"):
            model.fit(torch.zeros(2, 2), torch.tensor(labels))
        assert self.state(model) == before

    def test_numbers_too_large_are_refused_and_change_nothing(self, fitted: Any) -> None:
        before = self.state(fitted)
        with pytest.raises((ArithmeticError, ValueError)):
            fitted.update([1e30, 1e30], 1e30)
        assert self.state(fitted) == before

    # --- pruning -------------------------------------------------------------------------

    def test_pruned_weights_are_zero_and_stay_so(self, fitted: Any) -> None:
        if type(fitted.method).prune is Method.prune:
            with pytest.raises(TypeError, match="cannot be pruned"):
                fitted.prune(0.5)
            return
        fitted.prune(0.5)
        fitted.fit(*regression(), epochs=1, batch_size=16)
        for posterior in getattr(fitted, "posteriors", [fitted.posterior]):
            zero = (posterior.loc == 0) & (posterior.variance == 0)
            assert int(zero.sum()) >= round(0.5 * posterior.loc.numel())
            assert torch.isfinite(posterior.loc).all()
        assert torch.isfinite(fitted.predict(regression()[0]).mean).all()
