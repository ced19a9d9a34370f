"""Estimators as files."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone

import tractable as tr
from tests.sklearn.conftest import classifiers, name, regressors
from tractable.learners import InvalidModelFile
from tractable.sklearn import BBBRegressor, NetRegressor, TAGIClassifier, TAGIRegressor

each = pytest.mark.parametrize("estimator", [*regressors(), *classifiers()], ids=name)


@each
def test_a_file_gives_the_same_estimator_which_goes_on_alike(estimator, data, tmp_path):
    X = pd.DataFrame(data[0], columns=["a", "b"])
    classes = hasattr(estimator, "predict_proba")
    y = np.where(data[1] > 50, "high", "low") if classes else data[1]
    model = clone(estimator).set_params(epochs=2).fit(X[:60], y[:60])
    model.save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model")
    assert loaded.get_params() == model.get_params()
    assert loaded.feature_names_in_.tolist() == ["a", "b"]
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
    for both in (model, loaded):
        both.partial_fit(X[60:80], y[60:80])
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.log_prob(X, y), model.log_prob(X, y))


def test_the_file_is_one_of_the_learner_too(data, tmp_path):
    model = TAGIRegressor(hidden=(8,), epochs=2, random_state=0).fit(*data)
    model.save(tmp_path / "model")
    learner = tr.Ensemble.load(tmp_path / "model")
    assert learner.n == model.members == 5
    assert TAGIRegressor.load(tmp_path / "model").chosen_ == model.chosen_
    assert torch.equal(learner.posterior.loc, model.learner_.posterior.loc)


@pytest.mark.parametrize(
    "labels",
    [["cat", "dog"], [-3, 7], [1.0, 2.0], [False, True]],
    ids=lambda labels: type(labels[0]).__name__,
)
def test_labels_keep_their_type(labels, data, tmp_path):
    y = np.array(labels)[(data[1] > 50).astype(int)]
    model = TAGIClassifier(hidden=(4,), epochs=1).fit(data[0], y)
    model.save(tmp_path / "model")
    loaded = TAGIClassifier.load(tmp_path / "model")
    assert loaded.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(loaded.classes_, model.classes_)


def test_priors_are_kept(data, tmp_path):
    model = NetRegressor(hidden=(4,), epochs=1, prior=tr.priors.Laplace(0.2)).fit(*data)
    model.save(tmp_path / "model")
    assert repr(NetRegressor.load(tmp_path / "model").prior) == "Laplace(scale=0.2, mean=0.0)"


def test_other_files_are_refused(data, tmp_path):
    model = TAGIRegressor(hidden=(4,), epochs=1).fit(*data)
    model.save(tmp_path / "model")
    with pytest.raises(InvalidModelFile, match="holds a TAGIRegressor, not a BBBRegressor"):
        BBBRegressor.load(tmp_path / "model")
    model.learner_.save(tmp_path / "learner")
    with pytest.raises(InvalidModelFile, match="holds a learner, but no estimator"):
        TAGIRegressor.load(tmp_path / "learner")
    (tmp_path / "half").write_bytes((tmp_path / "model").read_bytes()[:-50])
    with pytest.raises(InvalidModelFile, match="not a whole model file"):
        TAGIRegressor.load(tmp_path / "half")
    with pytest.raises(FileNotFoundError, match="no model file"):
        TAGIRegressor.load(tmp_path / "nothing")
