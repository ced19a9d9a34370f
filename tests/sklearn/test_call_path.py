"""The modules that a fit passes through: few enough to read, and without private detours."""

import sys
from pathlib import Path

import numpy as np
import pytest

import tractable.sklearn
from tractable.sklearn import BackpropClassifier, TAGIClassifier, TAGIRegressor

HOME = Path(tractable.sklearn.__file__).parent
MAX_MODULES = 10


def modules_entered(action):
    entered = {}

    def profile(frame, event, argument):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.parent == HOME:
            entered.setdefault(path.stem)

    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(None)
    return list(entered)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("kind", [TAGIRegressor, TAGIClassifier, BackpropClassifier])
def test_a_fit_enters_at_most_ten_modules(kind, gaps):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    y = np.exp(X[:, 0] + 0.1 * rng.normal(size=100))
    if gaps:
        X[rng.random(X.shape) < 0.1] = np.nan
    model = kind(hidden_layer_sizes=(4,), epochs=2, random_state=0)
    targets = y > 1 if hasattr(kind, "predict_proba") else y
    entered = modules_entered(lambda: model.fit(X, targets))
    assert 5 < len(entered) <= MAX_MODULES, entered
