"""Docstrings of estimators: all parameters with their defaults, all fitted attributes."""

import inspect
import re

import numpy as np
import pytest

from tests.sklearn.conftest import classifiers, name, regressors

ALL = [*regressors(), *classifiers()]


def section(text, title):
    """Return the names that are documented in a section of a docstring."""
    found = re.search(rf"    {title}:\n((?: {{8}}.*\n|\n)*)", text or "")
    return re.findall(r"^ {8}(\w+): ", found[1], flags=re.MULTILINE) if found else []


@pytest.mark.parametrize("estimator", ALL, ids=name)
def test_every_parameter_is_documented_in_order_with_its_default(estimator):
    text = inspect.getdoc(type(estimator))
    text = re.sub(r"^", "    ", text, flags=re.MULTILINE)  # as in the source
    expected = list(inspect.signature(type(estimator)).parameters)
    assert section(text, "Args") == expected
    body = text.split("    Args:\n")[1]
    for parameter, entry in zip(
        expected, re.split(r"^ {8}\w+: ", body, flags=re.MULTILINE)[1:], strict=True
    ):
        assert "efault" in entry, f"{parameter} has no default in the docstring"


@pytest.mark.parametrize("estimator", ALL, ids=name)
def test_every_fitted_attribute_is_documented(estimator):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    y = X[:, 0] > 0 if hasattr(estimator, "predict_proba") else X[:, 0]
    model = type(estimator)(epochs=1, random_state=0, hidden_layer_sizes=(2,)).fit(X, y)
    documented = {"n_inputs_"}  # a property with a docstring of its own
    for base in type(model).__mro__:
        if base.__module__.startswith("tractable."):
            documented |= set(section(base.__doc__, "Attributes"))
    fitted = {key for key in vars(model) if key.endswith("_") and not key.startswith("_")}
    assert fitted <= documented, fitted - documented
    public = {key for key in vars(model) if not key.startswith("_")}
    assert public - fitted == set(model.get_params())
