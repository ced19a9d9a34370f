"""Keywords of other libraries: the table in the documentation, and the errors."""

import inspect

import pytest
import torch
from torch import nn

import tractable as tr
from docs import keywords
from tractable import sklearn
from tractable.errors import UnknownArgument
from tractable.keywords import KEYWORDS, keyword_hint, unknown_keyword

LEARNERS = (tr.TAGI, tr.BayesByBackprop, tr.Backprop, tr.Laplace, tr.Ensemble)
ESTIMATORS = tuple(
    kind
    for kind in vars(sklearn).values()
    if inspect.isclass(kind) and kind.__name__.endswith(("Regressor", "Classifier"))
)
X = torch.linspace(-1, 1, 8).unsqueeze(1)


def made(kind):
    """A learner or an estimator with its default arguments."""
    return kind() if kind in ESTIMATORS else kind(nn.Linear(1, 1), tr.likelihoods.Normal())


def test_the_page_contains_the_table():
    """Run ``python -m docs.keywords`` after a change of ``KEYWORDS``."""
    assert keywords.table() in keywords.PAGE.read_text()


@pytest.mark.parametrize("entry", KEYWORDS, ids=lambda entry: entry.names.split()[0])
def test_every_hint_applies_somewhere(entry):
    classes = [kind.__name__ for kind in (*LEARNERS, *ESTIMATORS)]
    owners = [*classes, *(f"{c}.{m}" for c in classes for m in ("fit", "update", "predict"))]
    for name in entry.names.split():
        assert any(keyword_hint(owner, name) == entry.hint for owner in owners), name


@pytest.mark.parametrize("kind", [*LEARNERS, *ESTIMATORS], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("method", ["", "fit", "predict"])
def test_a_hint_never_names_an_argument_that_exists(kind, method):
    """Otherwise it would say that an argument is missing that the callable has."""
    owner = f"{kind.__name__}.{method}" if method else kind.__name__
    function = getattr(kind, method) if method else kind
    for entry in KEYWORDS:
        for name in set(entry.names.split()) & set(inspect.signature(function).parameters):
            applies = keyword_hint(owner, name) == entry.hint
            assert not (applies and f"use {name}=" == entry.hint), (owner, name)


@pytest.mark.parametrize("kind", [*LEARNERS, *ESTIMATORS], ids=lambda kind: kind.__name__)
def test_an_unknown_argument_of_the_constructor_names_the_right_one(kind):
    extra = () if kind in ESTIMATORS else (nn.Linear(1, 1), tr.likelihoods.Normal())
    with pytest.raises(UnknownArgument, match="unexpected keyword argument 'learning_rate': ") as e:
        kind(*extra, learning_rate=0.1)
    tagi = kind.__name__.startswith("TAGI")
    assert ("TAGI has no learning rate" if tagi else "use lr=") in str(e.value)
    with pytest.raises(UnknownArgument, match="the likelihood defines the loss"):
        kind(*extra, loss="mse")


@pytest.mark.parametrize("kind", [tr.TAGI, tr.Backprop], ids=lambda kind: kind.__name__)
def test_unknown_arguments_of_methods_name_the_right_one(kind):
    model = made(kind)
    with pytest.raises(UnknownArgument, match=r"fit\(\) .* use epochs="):
        model.fit(X, X, max_epochs=3)
    with pytest.raises(UnknownArgument, match=r"validation=\(X, y\)"):
        model.fit(X, X, eval_set=[(X, X)])
    with pytest.raises(UnknownArgument, match=r"Did you mean 'callbacks'\?"):
        model.fit(X, X, callbaks=[])
    with pytest.raises(UnknownArgument, match="returns a distribution"):
        model.predict(X, return_std=True)
    assert not model.fitted
    with pytest.raises(UnknownArgument, match="weight samples"):
        model.predict(X, num_samples=3)


def test_estimators_take_options_in_the_constructor():
    estimator = sklearn.TAGIRegressor()
    with pytest.raises(UnknownArgument, match="arguments of its constructor"):
        estimator.fit(X.numpy(), X[:, 0].numpy(), epochs=3)


def test_an_ensemble_names_the_learner_whose_argument_is_unknown():
    with pytest.raises(UnknownArgument, match=r"^TAGI\(\) got .*TAGI has no learning rate"):
        tr.Ensemble(nn.Linear(1, 1), tr.likelihoods.Normal(), learner=tr.TAGI, lr=0.1)


def test_signatures_are_kept():
    assert "gain" in inspect.signature(tr.TAGI).parameters
    assert "epochs" in inspect.signature(tr.TAGI.fit).parameters
    assert "gain" in inspect.signature(sklearn.TAGIRegressor).parameters


def test_other_type_errors_pass_unchanged():
    class Fails(nn.Linear):
        def forward(self, x):
            raise TypeError("got an unexpected keyword argument 'inside'")

    with pytest.raises(TypeError, match=r"^got an unexpected keyword argument 'inside'$"):
        tr.Backprop(Fails(1, 1), tr.likelihoods.Normal()).predict(X)


def test_a_keyword_without_a_hint_lists_the_arguments():
    message = unknown_keyword("TAGI", "colour", ["self", "gain", "init"])
    assert message == (
        "TAGI() got an unexpected keyword argument 'colour'. Its arguments are gain, init"
    )
