"""Estimators as files."""

import re
from dataclasses import fields, is_dataclass

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone

import tractable as tr
from tests.sklearn.conftest import classifiers, name, regressors
from tractable.learners import InvalidModelFile
from tractable.persistence import model_file
from tractable.sklearn import BackpropRegressor, BBBRegressor, TAGIClassifier, TAGIRegressor

each = pytest.mark.parametrize("estimator", [*regressors(), *classifiers()], ids=name)


@each
def test_a_loaded_estimator_continues_identically(estimator, data, tmp_path):
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
    model = TAGIRegressor(hidden_layer_sizes=(8,), epochs=2, random_state=0).fit(*data)
    model.save(tmp_path / "model")
    learner = tr.Ensemble.load(tmp_path / "model")
    assert learner.n_estimators == model.n_estimators == 5
    assert TAGIRegressor.load(tmp_path / "model").best_params_ == model.best_params_
    assert torch.equal(learner.posterior.loc, model.learner_.posterior.loc)


@pytest.mark.parametrize(
    "labels",
    [["cat", "dog"], [-3, 7], [1.0, 2.0], [False, True]],
    ids=lambda labels: type(labels[0]).__name__,
)
def test_labels_keep_their_type(labels, data, tmp_path):
    y = np.array(labels)[(data[1] > 50).astype(int)]
    model = TAGIClassifier(hidden_layer_sizes=(4,), epochs=1).fit(data[0], y)
    model.save(tmp_path / "model")
    loaded = TAGIClassifier.load(tmp_path / "model")
    assert loaded.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(loaded.classes_, model.classes_)


def test_priors_are_kept(data, tmp_path):
    model = BackpropRegressor(hidden_layer_sizes=(4,), epochs=1, prior=tr.priors.Laplace(0.2)).fit(
        *data
    )
    model.save(tmp_path / "model")
    assert repr(BackpropRegressor.load(tmp_path / "model").prior) == "Laplace(scale=0.2, mean=0.0)"


@pytest.mark.parametrize("kind", [TAGIRegressor, TAGIClassifier])
def test_calibration_by_cross_validation_is_in_a_file(kind, data, tmp_path):
    y = (data[1] > 50).astype(int) if kind is TAGIClassifier else data[1]
    model = kind((4,), epochs=1, n_estimators=1, calibrate="cv", random_state=0)
    model.fit(data[0][:30], y[:30]).save(tmp_path / "model")
    loaded = kind.load(tmp_path / "model")
    assert loaded.calibrate == "cv"
    np.testing.assert_array_equal(loaded.predict(data[0]), model.predict(data[0]))


def test_other_files_are_refused(data, tmp_path):
    model = TAGIRegressor(hidden_layer_sizes=(4,), epochs=1).fit(*data)
    model.save(tmp_path / "model")
    with pytest.raises(InvalidModelFile, match="contains a TAGIRegressor, expected a BBBRegressor"):
        BBBRegressor.load(tmp_path / "model")
    model.learner_.save(tmp_path / "learner")
    with pytest.raises(InvalidModelFile, match="contains a learner, but no estimator"):
        TAGIRegressor.load(tmp_path / "learner")
    (tmp_path / "half").write_bytes((tmp_path / "model").read_bytes()[:-50])
    with pytest.raises(InvalidModelFile, match="not a whole model file"):
        TAGIRegressor.load(tmp_path / "half")
    with pytest.raises(FileNotFoundError, match="no model file"):
        TAGIRegressor.load(tmp_path / "nothing")


def documented(kind):
    """Names of all attributes in the docstrings of a class and its bases."""
    found = []
    for base in kind.__mro__:
        text = base.__doc__ or ""
        if base.__module__.startswith("tractable.") and "    Attributes:" in text:
            text = text.split("    Attributes:")[1]
            found += re.findall(r"^ {8}(\w+_): ", text, flags=re.MULTILINE)
    return sorted(set(found))


def same(mine, other):
    """Whether two values of an attribute are equal, part by part."""
    if isinstance(mine, torch.Tensor):
        return mine.dtype == other.dtype and torch.equal(mine, other)
    if isinstance(mine, np.ndarray):
        return mine.dtype == other.dtype and np.array_equal(mine, other)
    if isinstance(mine, dict):
        return mine.keys() == other.keys() and all(same(mine[k], other[k]) for k in mine)
    if isinstance(mine, list | tuple):
        return len(mine) == len(other) and all(map(same, mine, other))
    if is_dataclass(mine):
        return all(same(getattr(mine, f.name), getattr(other, f.name)) for f in fields(mine))
    if isinstance(mine, tr.learners.Learner):
        return torch.equal(mine.posterior.loc, other.posterior.loc)
    return type(mine) is type(other) and mine == other


@each
@pytest.mark.parametrize("way", ["fit", "fit, partial_fit", "partial_fit"])
def test_every_documented_attribute_is_in_a_file(estimator, way, data, tmp_path):
    classes = hasattr(estimator, "predict_proba")
    X = pd.DataFrame(data[0][:60], columns=["a", "b"])
    X.loc[7, "a"] = 1e9  # is clipped
    y = (data[1][:60] > 50).astype(int) if classes else data[1][:60]
    model = clone(estimator).set_params(epochs=2, hidden_layer_sizes=(4,))
    if "n_estimators" in model.get_params():
        model.set_params(n_estimators=2, relevance=True)
    if way.startswith("fit"):
        model.fit(X, y)
        assert model.n_clipped_.tolist() == [1, 0]
    if way.endswith("partial_fit"):
        model.partial_fit(X, y, **({"classes": [0, 1]} if classes else {}))
    model.save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model")
    names = documented(type(model))
    assert {"learner_", "n_clipped_", "imputer_", "n_features_in_", "feature_names_in_"} <= {*names}
    assert len(names) >= (9 if classes else 13)
    for attribute in names:
        mine, other = getattr(model, attribute), getattr(loaded, attribute)
        assert same(mine, other), (attribute, mine, other)
    if way.startswith("fit") and "n_estimators" in model.get_params():
        assert len(loaded.cv_results_["params"]) == len(model.cv_results_["params"]) > 0
        if not classes:
            assert float(loaded.feature_relevance_.std()) > 0


def test_damaged_scores_and_numbers_of_clipped_values_are_refused(data, tmp_path):
    model = TAGIRegressor(hidden_layer_sizes=(4,), epochs=2, n_estimators=1, random_state=0)
    model.fit(data[0][:40], data[1][:40]).save(tmp_path / "model")
    tensors, header = model_file.read(tmp_path / "model")
    for place, harm in (
        ("estimator/n_clipped", torch.tensor([-1, 0])),
        ("estimator/n_clipped", torch.tensor([0])),
        ("estimator/cv_results/0", torch.zeros(2, 2, dtype=torch.float64)),
        ("estimator/cv_results/9", torch.zeros(4, dtype=torch.float64)),
    ):
        model_file.write(tmp_path / "harmed", {**tensors, place: harm}, header)
        with pytest.raises(InvalidModelFile):
            TAGIRegressor.load(tmp_path / "harmed")
