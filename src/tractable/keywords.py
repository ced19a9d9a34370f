"""Keyword arguments of other libraries, and errors that name the argument to use here.

One table serves the errors of learners and estimators and the page ``docs/keywords.md``.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import NamedTuple, ParamSpec, TypeVar

from tractable.errors import UnknownArgument, did_you_mean


class KeywordHint(NamedTuple):
    """What to use in place of a keyword argument of another library.

    Attributes:
        names: the keywords, separated by spaces.
        owners: patterns of the callables to which the hint applies, separated by spaces: the name
            of a class for its constructor, ``*.fit`` for a method.
        source: libraries that use these keywords.
        hint: what to use instead.
    """

    names: str
    owners: str
    source: str
    hint: str


_LEARNERS = "TAGI BayesByBackprop Backprop Laplace Ensemble"
_ESTIMATORS = "*Regressor *Classifier"
_METHODS = "*.fit *.update *.predict *.sample"

KEYWORDS: tuple[KeywordHint, ...] = (
    KeywordHint(
        "epochs batch_size n_epochs max_epochs num_epochs max_iter progress verbose callbacks "
        "patience validation validation_data calibrate",
        "*Regressor.fit *Classifier.fit",
        "Keras",
        "options of an estimator are arguments of its constructor, as in scikit-learn",
    ),
    KeywordHint(
        "n_weight_samples n_samples num_samples mc_samples samples draws",
        "TAGI TAGI.predict TAGIRegressor TAGIClassifier",
        "laplace-torch, Pyro",
        "predictions of TAGI are in closed form, without weight samples",
    ),
    KeywordHint(
        "lr learning_rate learning_rate_init optimizer optim momentum betas scheduler lr_scheduler "
        "schedule",
        "TAGI TAGIRegressor TAGIClassifier TAGI.*",
        "PyTorch, Keras, scikit-learn",
        "TAGI has no learning rate and no optimizer, because the variances determine each step; "
        "gain= scales the prior variances",
    ),
    KeywordHint(
        "weight_decay alpha l2 reg_lambda",
        "TAGI TAGIRegressor TAGIClassifier",
        "PyTorch, scikit-learn",
        "TAGI has a prior in place of weight decay: gain= scales its variances",
    ),
    KeywordHint(
        "weight_decay alpha l2 reg_lambda",
        "Laplace LaplaceRegressor LaplaceClassifier",
        "PyTorch, scikit-learn",
        "use prior_precision=, the precision of the prior",
    ),
    KeywordHint(
        "weight_decay alpha l2 reg_lambda",
        "*",
        "PyTorch, scikit-learn",
        "use prior=: a normal prior of the weights is equivalent to weight decay",
    ),
    KeywordHint(
        "lr learning_rate learning_rate_init optimizer schedule",
        "*.fit *.update",
        "Keras",
        "pass lr=, optimizer= and schedule= to the constructor",
    ),
    KeywordHint("learning_rate learning_rate_init", "*", "Keras, scikit-learn", "use lr="),
    KeywordHint("scheduler lr_scheduler", "*", "PyTorch, Lightning", "use schedule="),
    KeywordHint(
        "n_epochs max_epochs num_epochs nb_epoch max_iter n_iter",
        f"{_ESTIMATORS} *.fit",
        "scikit-learn, skorch, Lightning",
        "use epochs=",
    ),
    KeywordHint(
        "progress progress_bar",
        _ESTIMATORS,
        "Lightning",
        "use verbose=1 to show a progress bar, as in scikit-learn",
    ),
    KeywordHint(
        "verbose progress_bar enable_progress_bar",
        "*",
        "scikit-learn, Keras, Lightning",
        "use progress=True or progress=False in fit()",
    ),
    KeywordHint(
        "patience early_stopping n_iter_no_change tol min_delta",
        _ESTIMATORS,
        "Keras, scikit-learn",
        "the estimators do not stop early: set epochs=, or use a learner with tr.EarlyStopping",
    ),
    KeywordHint(
        "patience early_stopping n_iter_no_change tol min_delta",
        "*",
        "Keras, scikit-learn",
        "use fit(..., validation=(X, y), callbacks=[tr.EarlyStopping(patience=10)])",
    ),
    KeywordHint(
        "validation_data eval_set val_data valid_data val_dataloaders X_val y_val",
        "*",
        "Keras, XGBoost, LightGBM, Lightning",
        "use fit(..., validation=(X, y))",
    ),
    KeywordHint(
        "validation_split validation_fraction val_fraction",
        "*",
        "Keras, scikit-learn",
        "split the rows and use fit(..., validation=(X, y)); calibrate=True holds out rows itself",
    ),
    KeywordHint(
        "epochs n_epochs max_epochs num_epochs max_iter batch_size callbacks progress validation "
        "shuffle calibrate resume",
        _LEARNERS,
        "scikit-learn",
        "pass epochs=, batch_size=, callbacks=, validation=, ... to fit()",
    ),
    KeywordHint(
        "callback", "*.fit", "XGBoost, Stable-Baselines3", "use callbacks=, a list of functions"
    ),
    KeywordHint(
        "seed random_seed", _ESTIMATORS, "PyTorch", "use random_state=, as in scikit-learn"
    ),
    KeywordHint(
        "seed random_state random_seed",
        _METHODS,
        "scikit-learn",
        "pass seed= (of an estimator: random_state=) to the constructor",
    ),
    KeywordHint("random_state random_seed", "*", "scikit-learn", "use seed="),
    KeywordHint(
        "device accelerator devices gpus",
        _METHODS,
        "Keras, Lightning",
        "pass device= to the constructor, for example device='cuda'",
    ),
    KeywordHint("accelerator devices gpus", "*", "Lightning", "use device=, for example 'cuda'"),
    KeywordHint(
        "loss loss_fn criterion objective",
        "*",
        "PyTorch, Keras, XGBoost",
        "the likelihood defines the loss: pass one of tractable.likelihoods, or likelihood= to an "
        "estimator",
    ),
    KeywordHint(
        "metrics scoring eval_metric",
        "*",
        "Keras, XGBoost",
        "compute metrics of predict() with tractable.metrics, or in a callback",
    ),
    KeywordHint("model module network", _LEARNERS, "laplace-torch, skorch", "use net="),
    KeywordHint(
        "hessian_structure subset_of_weights",
        "Laplace*",
        "laplace-torch",
        "use structure='diagonal' or structure='last_layer'",
    ),
    KeywordHint(
        "sigma_noise noise_std",
        "*",
        "laplace-torch",
        "the noise belongs to the likelihood: tractable.likelihoods.Normal(sigma)",
    ),
    KeywordHint(
        "n_samples num_samples mc_samples samples draws",
        "*.predict",
        "laplace-torch, Pyro",
        "use n_weight_samples= for the number of weight samples",
    ),
    KeywordHint(
        "return_std return_cov pred_type link_approx",
        "*.predict",
        "scikit-learn, laplace-torch",
        "predict() of a learner returns a distribution with mean, std, interval() and sample()",
    ),
    KeywordHint(
        "sample_weight class_weight",
        "*.fit *.update",
        "scikit-learn, Keras",
        "learners have no row weights; the estimators of tractable.sklearn have sample_weight=",
    ),
    KeywordHint(
        "hidden hidden_dim hidden_dims hidden_size hidden_units layers units",
        _ESTIMATORS,
        "Keras, skorch",
        "use hidden_layer_sizes=, for example (64, 64)",
    ),
    KeywordHint(
        "n_members num_models ensemble_size n_models members",
        f"Ensemble {_ESTIMATORS}",
        "other ensembles",
        "use n_estimators=",
    ),
    KeywordHint(
        "train_loader dataloader train_dataloaders dataset",
        "*.fit",
        "Lightning",
        "pass a DataLoader of pairs as the first argument",
    ),
    KeywordHint(
        "ckpt_path initial_epoch warm_start",
        "*",
        "Lightning, Keras, scikit-learn",
        "use fit(..., resume=path) with tr.Checkpoint; a second fit() continues from the first",
    ),
    KeywordHint("dropout", _LEARNERS, "skorch", "put nn.Dropout into the network"),
)
"""Keywords of other libraries, in order of preference: the first that applies is used."""


def keyword_hint(owner: str, name: str) -> str:
    """Return what to use in place of a keyword of another library, or nothing.

    Args:
        owner: name of a class, or of a class and a method, such as ``"TAGI.fit"``.
        name: the keyword.

    >>> keyword_hint("Backprop", "learning_rate")
    'use lr='
    """
    for entry in KEYWORDS:
        applies = any(fnmatchcase(owner, pattern) for pattern in entry.owners.split())
        if name in entry.names.split() and applies:
            return entry.hint
    return ""


def unknown_keyword(owner: str, name: str, known: Iterable[str] = ()) -> str:
    """Return the message for an unknown keyword argument, with what to use instead.

    Args:
        owner: name of a class, or of a class and a method, such as ``"TAGI.fit"``.
        name: the keyword.
        known: the keywords that exist, for a suggestion by similarity.

    >>> unknown_keyword("Backprop", "learning_rate")
    "Backprop() got an unexpected keyword argument 'learning_rate': use lr="
    """
    message = f"{owner}() got an unexpected keyword argument {name!r}"
    hint = keyword_hint(owner, name)
    if hint:
        return f"{message}: {hint}"
    names = [argument for argument in known if argument != "self"]
    listed = f" Its arguments are {', '.join(names)}" if names else ""
    return f"{message}.{did_you_mean(name, names)}{listed}"


_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")
_UNEXPECTED = re.compile(r"got an unexpected keyword argument '(\w+)'")


def explain_keywords(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Return a method or constructor whose errors about unknown keywords say what to use.

    Raises:
        UnknownArgument: in place of the ``TypeError`` of Python.
    """
    known = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def explained(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            found = _UNEXPECTED.search(str(error))
            if isinstance(error, UnknownArgument) or found is None or found[1] not in kwargs:
                raise
            owner = type(args[0]).__name__
            if function.__name__ != "__init__":
                owner = f"{owner}.{function.__name__}"
            raise UnknownArgument(unknown_keyword(owner, found[1], known)) from None

    return explained
