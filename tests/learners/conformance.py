"""What every learner must do, whatever it does inside: inherit and supply ``make``.

A new learner inherits ``Conformance`` in ``test_conformance.py`` and is held to all of it.
"""

import copy
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import tractable as tr
from tractable.learners import Checkpoint, InvalidModelFile, Learner

Stop = type("Stop", (Exception,), {})


def regression(rows=60, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = 2 * torch.rand(rows, 2, generator=generator) - 1
    y = x[:, 0] - 0.5 * x[:, 1] + 0.1 * torch.randn(rows, generator=generator)
    return x, y


def classes(rows=60, seed=0):
    x, y = regression(rows, seed)
    return x, (y > 0).long() + (y > 0.5).long()


class Conformance(ABC):
    """Tests that hold for any learner."""

    dropout: ClassVar[float] = 0.0
    class_outputs: ClassVar[int] = 3

    @abstractmethod
    def make(self, net, likelihood, **options) -> Learner:
        """A new learner."""

    def classes_likelihood(self):
        return tr.likelihoods.Softmax(3)

    def net(self, outputs=1):
        drop = [nn.Dropout(self.dropout)] if self.dropout else []
        return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), *drop, nn.Linear(8, outputs))

    @pytest.fixture
    def model(self):
        return self.make(self.net(), tr.likelihoods.Normal(0.1), seed=1)

    @pytest.fixture
    def fitted(self, model):
        return model.fit(*regression(), epochs=3, batch_size=16)

    @staticmethod
    def state(model):
        """Everything that training changes, as bytes."""
        tensors = {**model._tensors(), **model._training_state()[0]}
        tensors["generator"] = model.generator.get_state()
        tensors |= {f"noise/{k}": v for k, v in model.likelihood.state_dict().items()}
        return {name: t.detach().cpu().numpy().tobytes() for name, t in tensors.items()}

    # --- learning ------------------------------------------------------------------------

    def test_fit_returns_the_learner_and_keeps_a_record(self, model):
        assert not model.fitted
        assert model.fit(*regression(), epochs=2, batch_size=16) is model
        assert model.fitted
        assert [record["epoch"] for record in model.history] == [1, 2]

    def test_learning_helps(self, model):
        x, y = regression()
        before = tr.metrics.rmse(model.predict(x), y)
        model.fit(x, y, epochs=30, batch_size=8)
        assert tr.metrics.rmse(model.predict(x), y) < 0.7 * before

    def test_validation_is_recorded(self, model):
        model.fit(*regression(), epochs=1, batch_size=16, validation=regression(20, seed=1))
        assert np.isfinite(model.history[0]["validation_nll"])

    def test_a_data_loader_serves_as_well(self, model):
        loader = DataLoader(TensorDataset(*regression()), batch_size=16)
        assert model.fit(loader, epochs=1).fitted

    def test_update_learns_one_observation_at_a_time(self, model):
        x, y = regression(5)
        before = self.state(model)
        for row, seen in zip(x, y, strict=True):
            assert model.update(row, seen) is model
        assert model.fitted
        assert self.state(model) != before

    def test_the_users_network_and_likelihood_are_left_alone(self):
        net, likelihood = self.net(), tr.likelihoods.Normal()
        parameters = copy.deepcopy(net.state_dict())
        self.make(net, likelihood, seed=0).fit(*regression(), epochs=1, batch_size=16)
        assert all(torch.equal(parameters[k], v) for k, v in net.state_dict().items())
        assert likelihood.noise_mean.tolist() == [1.0]

    def test_an_unknown_noise_is_inferred(self):
        model = self.make(self.net(), tr.likelihoods.Normal(), seed=0)
        model.fit(*regression(), epochs=4, batch_size=8)
        assert 0 < float(model.predict(regression()[0]).aleatoric.mean()) < 1

    # --- predicting ----------------------------------------------------------------------

    def test_predictions_of_numbers_have_all_members(self, fitted):
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

    def test_predictions_of_classes_have_all_members(self):
        model = self.make(self.net(self.class_outputs), self.classes_likelihood(), seed=0)
        x, y = classes()
        p = model.fit(x, y, epochs=2, batch_size=16).predict(x)
        assert p.probs.shape == (60, 3)
        assert torch.allclose(p.probs.sum(-1), torch.ones(60), atol=1e-5)
        assert p.labels.shape == p.log_prob(y).shape == (60,)
        assert p.sample(4).shape == (4, 60)
        with pytest.raises(TypeError, match="no quantiles"):
            p.interval()

    def test_the_size_of_batches_does_not_change_a_prediction(self, fitted):
        if self.dropout:
            pytest.skip("masks are drawn row by row")
        x, _ = regression(10)
        whole, parts = fitted.predict(x), fitted.predict(x, batch_size=3)
        assert torch.allclose(whole.mean, parts.mean, atol=1e-6)

    def test_predicting_changes_nothing(self, fitted):
        before = self.state(fitted)
        first = fitted.predict(regression()[0]).mean
        assert torch.equal(first, fitted.predict(regression()[0]).mean)
        assert self.state(fitted) == before

    def test_targets_in_a_column_give_predictions_in_a_column(self, model):
        x, y = regression()
        model.fit(x, y.unsqueeze(1), epochs=1, batch_size=16)
        assert model.predict(x).mean.shape == (60, 1)

    # --- seeds ---------------------------------------------------------------------------

    def test_the_same_seed_gives_the_same_result_bit_for_bit(self):
        def run(seed):
            torch.manual_seed(np.random.default_rng().integers(1000))  # must not matter
            net = nn.Sequential(*self.net())
            model = self.make(net, tr.likelihoods.Normal(0.1), seed=seed)
            return self.state(model.fit(*regression(), epochs=2, batch_size=16))

        assert run(3) == run(3)
        assert run(3) != run(4)

    def test_the_global_generator_is_not_touched(self, model):
        torch.manual_seed(0)
        expected = torch.rand(1)
        torch.manual_seed(0)
        model.fit(*regression(), epochs=1, batch_size=16).predict(regression()[0])
        assert torch.equal(torch.rand(1), expected)

    # --- saving --------------------------------------------------------------------------

    def test_a_saved_learner_comes_back_whole(self, fitted, tmp_path):
        fitted.save(tmp_path / "model.tr")
        again = Learner.load(tmp_path / "model.tr")
        assert type(again) is type(fitted)
        assert self.state(again) == self.state(fitted)
        assert again.history == fitted.history
        x, y = regression()
        assert torch.equal(again.predict(x).mean, fitted.predict(x).mean)
        # and goes on learning as the other does
        for model in (again, fitted):
            model.update(x[0], y[0]).fit(x, y, epochs=1, batch_size=16)
        assert self.state(again) == self.state(fitted)

    def test_a_file_of_another_network_is_refused(self, fitted, tmp_path):
        fitted.save(tmp_path / "model.tr")
        with pytest.raises(InvalidModelFile):
            Learner.load(tmp_path / "model.tr", net=self.net(4))

    def test_a_killed_run_goes_on_bit_for_bit(self, tmp_path):
        def run(callbacks, path=None):
            model = self.make(self.net(), tr.likelihoods.Normal(), seed=5)
            options = {"epochs": 4, "batch_size": 16}
            return model.fit(*regression(), **options, callbacks=callbacks, resume=path)

        path = tmp_path / "checkpoint.tr"

        def kill(learner, record):
            if record["epoch"] == 2:
                raise Stop

        with pytest.raises(Stop):
            run([Checkpoint(path), kill])
        resumed = run([], path)
        assert self.state(resumed) == self.state(run([]))
        assert len(resumed.history) == 4

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
    def test_bad_input_is_refused_and_changes_nothing(self, fitted, x, y):
        before = self.state(fitted)
        for attempt in (fitted.update, fitted.fit):
            with pytest.raises((ValueError, TypeError)):
                attempt(x, y)
        assert self.state(fitted) == before

    @pytest.mark.parametrize("labels", [[0, 3], [-1, 0], [0.5, 1.0]])
    def test_labels_out_of_range_are_refused_before_training(self, labels):
        model = self.make(self.net(self.class_outputs), self.classes_likelihood(), seed=0)
        before = self.state(model)
        with pytest.raises(ValueError, match="labels"):
            model.fit(torch.zeros(2, 2), torch.tensor(labels))
        assert self.state(model) == before

    def test_numbers_too_large_are_refused_and_change_nothing(self, fitted):
        before = self.state(fitted)
        with pytest.raises((ArithmeticError, ValueError)):
            fitted.update([1e30, 1e30], 1e30)
        assert self.state(fitted) == before

    # --- pruning -------------------------------------------------------------------------

    def test_pruned_weights_are_zero_and_stay_so(self, fitted):
        fitted.prune(0.5)
        fitted.fit(*regression(), epochs=1, batch_size=16)
        posteriors = fitted.posterior
        for posterior in posteriors if isinstance(posteriors, list) else [posteriors]:
            zero = (posterior.loc == 0) & (posterior.variance == 0)
            assert int(zero.sum()) >= round(0.5 * posterior.loc.numel())
            assert torch.isfinite(posterior.loc).all()
        assert torch.isfinite(fitted.predict(regression()[0]).mean).all()
