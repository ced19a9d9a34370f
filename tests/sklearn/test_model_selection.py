"""Settings chosen on held-out rows: epochs, weights of columns, linear or not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import tractable as tr
from tractable.nn import mlp
from tractable.sklearn import TAGIClassifier, TAGIRegressor
from tractable.sklearn.cross_validation import CrossValidator, choose_folds
from tractable.sklearn.imputation import ImputedRows
from tractable.sklearn.model_selection import RELEVANCE_ROUNDS, TrialConfig, select_config
from tractable.training import holdout
from tractable.training.selection import TrialResult


def make(hidden_layer_sizes, n_estimators, seed):
    assert n_estimators == 1
    net = mlp(3, hidden_layer_sizes, 1, "relu")
    return tr.TAGI(net, tr.likelihoods.Normal(), gain=0.25, epoch_forgetting=0.3, seed=seed)


def rows(noise, n=200, columns=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, columns))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + noise * rng.normal(size=n)
    return X, y


def trials(noise=0.3, n=200, parts=2):
    X, y = (torch.tensor(part, dtype=torch.float32) for part in rows(noise, n))
    return CrossValidator(
        make, ImputedRows(X), y[:, None] / y.std(), choose_folds(n, 0)[:parts], seed=7, batch_size=8
    )


def test_a_trial_is_a_fit_without_the_rows_it_is_scored_on():
    """By hand, for one tenth held out: fit, scale the noise, score."""
    found = trials(parts=1)
    (out,) = found.folds
    (tried,) = found.evaluate([TrialConfig((8,), 3)])
    keep = torch.tensor(sorted(set(range(200)) - set(out.tolist())))
    by_hand = make((8,), 1, 7 + 1_000).fit(
        found.x[keep], found.y[keep], epochs=3, batch_size=8, progress=False
    )
    moments = by_hand.outputs(found.x[out]).moments()
    seen = [(by_hand.likelihood, found.y[out], *moments)]
    factor = by_hand.likelihood.held_out_scale(seen, outliers=True)
    by_hand.rescale_noise(factor)
    expected = by_hand.likelihood.predictive(*moments).log_prob(found.y[out])
    assert tried.noise_scale == pytest.approx(factor)
    assert torch.allclose(tried.scores, expected.double())


def test_folds_are_disjoint_tenths():
    for n, many in ((100, 5), (600, 3), (2_000, 1)):
        parts = choose_folds(n, 3)
        assert [len(part) for part in parts] == [n // 10] * many
        assert len(set(torch.cat(parts).tolist())) == n // 10 * many


def scripted(scores):
    """CrossValidator whose scores are given, by setting; the rows scatter by 0.1."""

    class Script(CrossValidator):
        def __init__(self):
            self.x = torch.zeros(1, 3)
            self.asked = []

        def evaluate(self, settings):
            return [self.scored(setting) for setting in settings]

        def evaluate_ensemble(self, setting, n_estimators):
            return self.scored(setting)

        def scored(self, setting):
            self.asked.append(setting)
            draw = torch.Generator().manual_seed(len(self.asked))
            scatter = 0.1 * torch.randn(200, generator=draw, dtype=torch.float64)
            return TrialResult(setting, scores(setting) + scatter - scatter.mean())

    return Script()


def every(script, first, **without):
    return select_config(
        script,
        first,
        **({"choose_epochs": True, "try_linear": True, "try_relevance": True} | without),
    )[0]


def test_the_first_configuration_is_kept_in_near_ties():
    first = TrialConfig((64, 64), 40)
    near = scripted(
        lambda s: (
            0.005 * (s.epochs == 10) + 0.001 * s.relevance_rounds - 1.0 * (not s.hidden_layer_sizes)
        )
    )
    assert every(near, first).config == first


def test_epochs_are_selected_before_relevance():
    first = TrialConfig((64, 64), 40)
    few = scripted(
        lambda s: -0.1 * abs(s.epochs - 5) + s.relevance_rounds - 9.0 * (not s.hidden_layer_sizes)
    )
    assert every(few, first).config == TrialConfig((64, 64), 5, RELEVANCE_ROUNDS)
    assert {s.epochs for s in few.asked} == {40, 20, 10, 5, 2}
    assert every(few, first, try_relevance=False).config == TrialConfig((64, 64), 5)
    assert every(few, first, choose_epochs=False).config == TrialConfig(
        (64, 64), 40, RELEVANCE_ROUNDS
    )


def test_a_linear_model_is_selected_unless_the_network_is_better():
    first = TrialConfig((64, 64), 40)
    alike = scripted(lambda s: -0.01 * abs(s.epochs - (40 if s.hidden_layer_sizes else 20)))
    assert every(alike, first).config == TrialConfig((), 20)
    better = scripted(lambda s: 1.0 * bool(s.hidden_layer_sizes))
    assert every(better, first).config == first
    assert every(alike, first, try_linear=False).config == first
    given = scripted(lambda s: 0.0)
    assert every(given, TrialConfig((), 7), choose_epochs=False).config == TrialConfig((), 7)
    assert {s.epochs for s in given.asked} == {7}


def test_a_linear_model_is_compared_with_the_ensemble():
    first = TrialConfig((64, 64), 40)
    script = scripted(lambda s: 0.0)
    alone = script.scored
    script.evaluate_ensemble = lambda s, n_estimators: replace(
        alone(s), scores=alone(s).scores + (0.1 if n_estimators == 3 else 0.0)
    )
    assert every(script, first).config.hidden_layer_sizes == ()
    assert every(script, first, n_estimators=3).config == first


def test_noisy_targets_get_fewer_epochs():
    first = TrialConfig((16,), 40)
    exact, noisy = (
        select_config(
            trials(noise), first, choose_epochs=True, try_linear=False, try_relevance=False
        )[0].config
        for noise in (0.0, 3.0)
    )
    assert noisy.epochs <= 10 < 20 <= exact.epochs


def test_linear_data_get_a_linear_model():
    X, y = rows(0.1, 150)
    straight = X @ [1.0, -2.0, 0.5] + 0.3 * np.random.default_rng(1).normal(size=150)
    model = TAGIRegressor(random_state=0, n_estimators=2).fit(X, straight)
    assert model.best_params_["hidden_layer_sizes"] == ()
    assert model.score(*[X, straight]) > 0.95
    assert TAGIRegressor(random_state=0, n_estimators=2).fit(X, y).best_params_[
        "hidden_layer_sizes"
    ] == (64, 64)


def test_irrelevant_columns_get_small_factors():
    X, _ = rows(0.25, 1_300, columns=43)
    y = np.sin(2 * X[:, 0]) + X[:, 1] + np.abs(X[:, 2]) + 0.25 * X[:, 40]
    (X, y), new = (X[:300], y[:300]), (X[300:], y[300:])
    plain = TAGIRegressor((32, 32), epochs=40, n_estimators=1, relevance=False, random_state=0).fit(
        X, y
    )
    model = TAGIRegressor((32, 32), epochs=40, n_estimators=1, random_state=0).fit(X, y)
    assert model.best_params_["relevance"]
    assert not plain.best_params_["relevance"]
    weights = model.feature_relevance_
    assert float(weights[:3].min()) > 3 * float(weights[3:40].square().mean().sqrt())
    assert float(weights.square().mean()) == pytest.approx(1, rel=1e-5)
    assert 1 - model.score(*new) < 0.5 * (1 - plain.score(*new))


def test_random_labels_are_not_learned():
    rng = np.random.default_rng(1)
    X, new = rng.normal(size=(2, 300, 5))
    model = TAGIClassifier(random_state=0).fit(X, rng.integers(0, 2, 300))
    assert -model.score_log_likelihood(new, rng.integers(0, 2, 300)) < 0.72
    assert model.predict_proba(new).max() < 0.8


def test_the_noise_of_decisions_is_calibrated():
    """Labels with one of five turned round: probabilities must not be near 0 or 1."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(1_500, 2))
    y = (X[:, 0] > 0) ^ (rng.random(1_500) < 0.2)
    sure = TAGIClassifier((32,), epochs=30, n_estimators=1, calibrate=False, random_state=0)
    model = TAGIClassifier((32,), epochs=30, n_estimators=1, relevance=False, random_state=0)
    sure, model = (m.fit(X[:500], y[:500]) for m in (sure, model))
    scores = [m.score_log_likelihood(X[500:], y[500:]) for m in (sure, model)]
    assert scores[1] > scores[0]
    assert float(model.learner_.likelihood.noise_scale) != 1
    assert float(sure.learner_.likelihood.noise_scale) == 1


def test_below_twenty_rows_nothing_is_held_out():
    X, y = rows(0.1, 19)
    model = TAGIRegressor((4,), random_state=0).fit(X, y)
    assert model.cv_results_["params"] == []
    expected = TrialConfig((4,), holdout.default_epochs(19))
    assert model.best_params_ == expected.params()


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"n_estimators": 0}, "n_estimators must be a positive integer, got 0"),
        ({"n_estimators": True}, "n_estimators must be a positive integer, got True"),
        ({"relevance": "yes"}, "relevance must be True, False or None, got 'yes'"),
        ({"calibrate": "no"}, "calibrate must be True, False or 'cv', got 'no'"),
    ],
)
def test_invalid_parameters_are_refused(setting, said):
    X, y = rows(0.1, 30)
    with pytest.raises(ValueError, match=said):
        TAGIRegressor(**setting).fit(X, y)
    with pytest.raises(ValueError, match=said):
        TAGIRegressor(**setting).partial_fit(X, y)
