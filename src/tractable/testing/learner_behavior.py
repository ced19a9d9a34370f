"""Tests that a learner learns, predicts, samples, prunes and raises errors."""

from __future__ import annotations

import copy
import threading
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import tractable as tr
from tractable.learners import Learner, Method
from tractable.testing.learner_case import LearnerCase, classes, regression


class BehaviorTests(LearnerCase):
    """Tests of what a learner does with data."""

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
        for model, distance_aware in zip(models, (True, False), strict=True):
            model.fit(x, y, epochs=2, batch_size=16, distance_aware=distance_aware)
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

    def test_entropy_of_classes_grows_off_the_data(self) -> None:
        x, y = classes()
        entropies = []
        for distance_aware in (True, False):
            model = self.make(self.net(self.class_outputs), self.classes_likelihood(), seed=0)
            model.fit(x, y, epochs=1, batch_size=16, distance_aware=distance_aware)
            p = model.predict(100 * x)
            entropies.append(p.entropy.mean())
            assert (p.novelty is not None) == distance_aware
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
        expected = fitted.predict(x.float()).mean
        assert torch.equal(fitted.predict(x).mean, expected)
        assert torch.equal(fitted.predict(x.numpy().astype(np.int16)).mean, expected)

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

    # --- callbacks, hold-out ----------------------------------------------------------------

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

    def test_labels_are_calibrated_or_rejected_before_training(self) -> None:
        model = self.make(self.net(self.class_outputs), self.classes_likelihood(), seed=0)
        before = self.state(model)
        if model.likelihood.traits.supports_calibration:
            plain = model.clone().fit(*classes(), epochs=1)
            model.fit(*classes(), epochs=1, calibrate=True)
            found, other = (m.predict(classes()[0]) for m in (model, plain))
            assert not torch.equal(found.probs, other.probs)
            assert torch.allclose(found.probs.sum(1), torch.ones(len(found.probs)))
            return
        with pytest.raises(TypeError, match="noise"):
            model.fit(*classes(), epochs=1, calibrate=True)
        assert self.state(model) == before

    # --- what agents, attacks and threads use ----------------------------------------------

    def test_functions_are_drawn(self, fitted: Any) -> None:
        x, _ = regression(6)
        drawn = fitted.sample(x, 40, generator=torch.Generator().manual_seed(0))
        assert drawn.shape == (40, 6, 1)
        mean, variance = fitted.outputs(x).moments()
        assert mean.shape == variance.shape == (6, 1)
        assert (variance >= 0).all()
        again = fitted.sample(x, 40, generator=torch.Generator().manual_seed(0))
        assert torch.equal(drawn, again)

    def test_a_draw_is_one_function_of_all_rows(self, fitted: Any) -> None:
        if self.dropout:
            pytest.skip("masks are drawn row by row")
        x, _ = regression(3)
        drawn = fitted.sample(torch.cat([x, x]), 5, generator=torch.Generator().manual_seed(0))
        assert torch.allclose(drawn[:, :3], drawn[:, 3:], atol=1e-5)

    def test_the_gradient_in_the_input_is_that_of_the_prediction(self) -> None:
        model = self.make(self.net(), tr.likelihoods.Normal(0.5), seed=1, dtype=torch.float64)
        model.fit(*regression(), epochs=3, batch_size=16)
        x, y = model.checks.data(*regression(4, seed=4))
        gradient = model.log_prob_gradient(x, y)
        assert gradient.shape == x.shape
        moved = x + 1e-4 * gradient
        gained = model.predict(moved).log_prob(y) - model.predict(x).log_prob(y)
        assert (gained > -1e-9).all()

    def test_updates_from_several_threads_are_all_learned(self) -> None:
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
            with pytest.raises(TypeError, match="does not support prune"):
                fitted.prune(0.5)
            return
        fitted.prune(0.5)
        fitted.fit(*regression(), epochs=1, batch_size=16)
        for posterior in getattr(fitted, "posteriors", [fitted.posterior]):
            zero = (posterior.loc == 0) & (posterior.variance == 0)
            assert int(zero.sum()) >= round(0.5 * posterior.loc.numel())
            assert torch.isfinite(posterior.loc).all()
        assert torch.isfinite(fitted.predict(regression()[0]).mean).all()
