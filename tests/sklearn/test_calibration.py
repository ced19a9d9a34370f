"""A factor on the variances that networks have themselves: its choice, predictions, files."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import tractable as tr
from tractable.errors import InvalidModelFile
from tractable.learners import reinitialized
from tractable.learners.outputs import EnsembleOutputs, GaussianOutputs, SampledOutputs
from tractable.likelihoods import Normal
from tractable.persistence import model_file
from tractable.sklearn import TAGIRegressor, calibration
from tractable.sklearn.cross_validation import HeldOutPrediction


def predicted(errors, within, between=0.0, extrapolation=0.0, sigma=0.01):
    n = len(errors)
    column = torch.ones(n, 1, dtype=torch.float64)
    return HeldOutPrediction(
        Normal(sigma),
        torch.tensor(errors).reshape(n, 1),
        0 * column,
        (within + between) * column,
        within * column,
        extrapolation * column,
        column,
    )


@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
def test_the_epistemic_scale_matches_the_errors(share):
    errors = np.random.default_rng(0).normal(size=800) * math.sqrt(share)
    assert calibration.epistemic_scale([predicted(errors, 1.0)]) == pytest.approx(share, rel=0.01)


def test_the_epistemic_scale_lies_between_a_quarter_and_one():
    rng = np.random.default_rng(1)
    assert calibration.epistemic_scale([predicted(0.1 * rng.normal(size=300), 1.0)]) == 0.25
    assert calibration.epistemic_scale([predicted(3 * rng.normal(size=300), 1.0)]) == 1.0


def test_the_noise_is_scaled_rather_than_the_epistemic_variance():
    errors = np.random.default_rng(2).normal(size=400)
    assert calibration.epistemic_scale([predicted(errors, 0.1, sigma=1.0)]) == 1.0


def test_the_epistemic_scale_is_one_with_few_held_out_rows():
    errors = 0.1 * np.random.default_rng(3).normal(size=calibration.MIN_HELD_OUT_ROWS)
    assert (
        calibration.epistemic_scale([predicted(errors[:30], 1.0), predicted(errors[30:], 1.0)]) < 1
    )
    assert calibration.epistemic_scale([predicted(errors[1:], 1.0)]) == 1.0


def test_only_the_variance_within_networks_is_scaled():
    part = predicted(np.zeros(3), 1.0, between=0.5, extrapolation=0.2)
    assert part.as_tuple()[3].flatten().tolist() == pytest.approx([1.7] * 3)
    assert part.as_tuple(0.25, 3.0)[3].flatten().tolist() == pytest.approx([0.25 + 0.5 + 0.6] * 3)


def test_the_variance_within_parts_of_outputs():
    mean, noise = torch.tensor([[1.0], [2.0]]), Normal(0.1)
    two = EnsembleOutputs([GaussianOutputs(mean, 0 * mean + v, noise) for v in (0.2, 0.6)])
    assert two.within().flatten().tolist() == pytest.approx([0.4, 0.4])
    drawn = SampledOutputs(torch.stack([mean, mean + 1]), noise)
    assert drawn.within().tolist() == [[0.0], [0.0]]
    assert drawn.with_extra_variance(0 * mean + 0.3).within().flatten().tolist() == pytest.approx(
        [0.3, 0.3]
    )


@pytest.mark.parametrize("n_estimators", [1, 3])
def test_a_learner_predicts_with_a_scaled_epistemic_variance(n_estimators):
    x = torch.linspace(-1, 1, 60)[:, None]
    net = nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 1))
    model = tr.Ensemble(net, Normal(), n_estimators=n_estimators, learner=tr.TAGI)
    model.fit(x, x.sin(), epochs=3)
    far = torch.tensor([[0.1], [4.0]])
    usual, less, none = (model.predict(far, variance_scale=a) for a in (1.0, 0.5, 1e-12))
    assert torch.equal(usual.mean, less.mean)
    assert torch.equal(usual.aleatoric, less.aleatoric)
    halved = (usual.epistemic + none.epistemic) / 2  # of what is within; the rest stays
    assert torch.allclose(less.epistemic, halved, rtol=1e-5)
    assert (less.epistemic < usual.epistemic).all()


def data(rows=300):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(rows, 4)).astype(np.float32)
    return x, (np.sin(3 * x[:, 0]) * x[:, 1] + x[:, 2]).astype(np.float64)


@pytest.fixture(scope="module")
def exact():
    """Fitted to a target without noise."""
    x, y = data()
    return TAGIRegressor(random_state=0).fit(x, y)


def test_targets_without_noise_have_an_epistemic_scale_below_one(exact):
    assert exact.epistemic_scale_ < 1
    x, y = data(1300)
    new, targets = x[300:], torch.from_numpy(y[300:])
    distribution = exact.predictive(new)
    low, high = distribution.interval(0.9)
    covered = ((low <= targets) & (targets <= high)).double().mean()
    exact.epistemic_scale_, held = 1.0, exact.epistemic_scale_
    before = exact.predictive(new)
    exact.epistemic_scale_ = held
    assert distribution.log_prob(targets).mean() > before.log_prob(targets).mean()
    low, high = before.interval(0.9)
    assert covered < ((low <= targets) & (targets <= high)).double().mean()


def test_a_file_contains_the_epistemic_scale(exact, tmp_path):
    x, _ = data(20)
    exact.save(tmp_path / "model")
    again = TAGIRegressor.load(tmp_path / "model")
    assert again.epistemic_scale_ == exact.epistemic_scale_
    assert np.array_equal(again.predict_interval(x), exact.predict_interval(x))


@pytest.mark.parametrize("wrong", [0.0, 1.5, "half", True])
def test_a_file_with_an_invalid_epistemic_scale_is_refused(exact, tmp_path, wrong):
    exact.save(tmp_path / "model")
    tensors, header = model_file.read(tmp_path / "model")
    header["estimator"]["doubt"] = wrong
    model_file.write(tmp_path / "model", tensors, header)
    with pytest.raises(InvalidModelFile):
        TAGIRegressor.load(tmp_path / "model")


def test_a_reinitialized_learner_equals_a_new_one():
    x = torch.linspace(-1, 1, 60)[:, None]
    net = nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 1))
    first = tr.Ensemble(net, Normal(), n_estimators=2, learner=tr.TAGI, seed=3)
    first.fit(x, x.sin(), epochs=2)
    made = tr.Ensemble(net, Normal(), n_estimators=2, learner=tr.TAGI, seed=7)
    twin = reinitialized(first, 7)
    assert not twin.fitted
    for model in (made, twin):
        model.fit(x, x.cos(), epochs=2)
    assert torch.equal(made.predict(x).variance, twin.predict(x).variance)
    assert first.seed == 3
    assert not torch.equal(first.predict(x).mean, twin.predict(x).mean)
