"""A noise with heavier tails than the normal one: factors, their choice, predictions."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from tractable.predictive import (
    LogNormalPredictive,
    NormalMixturePredictive,
    NormalPredictive,
    mixture,
)
from tractable.predictive.log_normal import LogScale
from tractable.sklearn import TAGIRegressor
from tractable.sklearn.noise_model import (
    DEGREES_OF_FREEDOM,
    MIN_HELD_OUT_ROWS,
    NoiseModel,
    Residuals,
    select_noise_scales,
    student_t_scales,
)

ONE = torch.ones(1, dtype=torch.float64)


def residuals(errors, x=None, noise=1.0):
    n = len(errors)
    x = np.zeros((n, 1)) if x is None else x
    parts = (errors**2, np.full(n, 0.01), np.full(n, noise), np.zeros(n), x)
    return Residuals(*(torch.tensor(part) for part in parts))


@pytest.mark.parametrize("degrees", DEGREES_OF_FREEDOM)
def test_factors_make_students_t(degrees):
    one = torch.zeros(1, 1, dtype=torch.float64)
    made = NormalPredictive(one, one, one + 1).with_noise_mixture(student_t_scales(degrees))
    for at in (-4.0, -2.0, -1.0, -0.3, 0.0, 0.5, 1.5, 3.0):
        found = made.cdf(torch.tensor([[at]])).item()
        assert found == pytest.approx(stats.t.cdf(at, degrees), abs=0.01)


def test_heavy_tails_are_selected_for_heavy_tailed_errors():
    rng = np.random.default_rng(0)
    heavy = select_noise_scales([residuals(rng.standard_t(3, 400))], None)
    assert heavy is not None
    assert 5 < (heavy.max() / heavy.min()).item() < 40
    assert select_noise_scales([residuals(rng.normal(size=400))], None) is None
    assert select_noise_scales([residuals(rng.standard_t(2, MIN_HELD_OUT_ROWS - 1))], None) is None


def test_tails_are_selected_after_the_noise_model():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(600, 1))
    found = residuals(rng.normal(size=600) * np.exp(0.8 * x[:, 0]), x)
    model = NoiseModel(torch.tensor([[0.0, 0.0, 1.6]], dtype=torch.float64))
    assert select_noise_scales([found], None) is not None
    assert select_noise_scales([found], model) is None


def some(outputs=2):
    rng = torch.Generator().manual_seed(0)
    draws = torch.randn(3, 4, outputs, generator=rng, dtype=torch.float64)
    made = NormalMixturePredictive(draws, 0.1 * ONE.expand_as(draws), 0.5 * draws.square() + 0.1)
    return made, made.with_noise_mixture(student_t_scales(4))


def test_densities_distribution_functions_and_quantiles_agree():
    _, made = some(outputs=1)
    for row in range(2):
        alone = NormalMixturePredictive(
            *(
                part[:, row : row + 1]
                for part in (made.means, made.epistemic_variance, made.noise_variance)
            ),
            tails=made.tails,
        )

        def density(y, alone=alone):
            return alone.log_prob(torch.tensor([[y]])).exp().item()

        assert integrate.quad(density, -40, 40, limit=200)[0] == pytest.approx(1, abs=1e-6)
        low = alone.quantile(0.05).item()
        assert integrate.quad(density, -40, low, limit=200)[0] == pytest.approx(0.05, abs=1e-5)
        assert alone.cdf(alone.quantile(0.7)).item() == pytest.approx(0.7, abs=1e-9)
        moment = integrate.quad(lambda y: y * y * density(y), -60, 60, limit=400)[0]
        assert moment - alone.mean.item() ** 2 == pytest.approx(alone.variance.item(), rel=1e-4)


def test_draws_have_the_moments_and_rows_their_own_tails():
    plain, made = some()
    drawn = made.sample(40_000, torch.Generator().manual_seed(1))
    error = drawn.std(0) / 200
    assert ((drawn.mean(0) - made.mean).abs() < 5 * error).all()
    assert torch.allclose(drawn.var(0), made.variance, rtol=0.1)
    size = (drawn - drawn.mean(0)).abs() / made.std
    between = np.corrcoef(size[:, 0, 0], size[:, 1, 1])[0, 1]
    assert abs(between) < 0.3  # one factor for all rows would tie them
    assert torch.allclose(made.mean, plain.mean)
    assert torch.allclose(made.rescaled(1.0, 2.0).variance, 4 * made.variance)
    wide = made.components
    assert wide.tails is None
    y = torch.zeros(4, 1, dtype=torch.float64)
    alone = some(outputs=1)[1]
    assert torch.allclose(alone.components.log_prob(y), alone.log_prob(y))


def test_mixtures_keep_tails():
    plain, made = some(outputs=1)
    y = torch.zeros(4, 1, dtype=torch.float64)
    alike = mixture([made, made])
    assert alike.tails is not None
    assert torch.allclose(alike.log_prob(y), made.log_prob(y))
    other = mixture([plain, made])
    both = torch.stack([plain.log_prob(y), made.log_prob(y)])
    wanted = both.logsumexp(0) - math.log(2)
    assert torch.allclose(other.log_prob(y), wanted)


def test_logarithms_have_tails_too():
    _, made = some(outputs=1)
    scale = LogScale(0.0, 5.0)
    found = LogNormalPredictive(made, scale)
    assert torch.equal(found.quantile(0.9), scale.inverse(made.quantile(0.9)))
    drawn = found.sample(200_000, torch.Generator().manual_seed(2))
    error = drawn.std(0) / len(drawn) ** 0.5
    assert ((drawn.mean(0) - found.mean).abs() < 5 * error).all()
    assert torch.allclose(drawn.var(0), found.variance, rtol=0.2)


def test_an_estimator_finds_tails_and_keeps_them(tmp_path):
    rng = np.random.default_rng(0)
    X, new = rng.uniform(-1, 1, (500, 2)), rng.uniform(-1, 1, (4_000, 2))

    def truth(at):
        return 3 * at[:, 0] + at[:, 1] + 0.3 * rng.standard_t(4, len(at))

    y, at_new = truth(X), truth(new)
    model = TAGIRegressor(n_estimators=2, random_state=0).fit(X, y)
    assert model.noise_scale_mixture_ is not None
    low, high = model.predict_interval(new).T
    assert 0.86 < ((low < at_new) & (at_new < high)).mean() < 0.94
    with_tails = model.score_log_likelihood(new, at_new)
    model.save(tmp_path / "model")
    loaded = TAGIRegressor.load(tmp_path / "model")
    assert torch.equal(loaded.noise_scale_mixture_, model.noise_scale_mixture_)
    assert loaded.score_log_likelihood(new, at_new) == with_tails
    model.noise_scale_mixture_ = None
    assert with_tails > model.score_log_likelihood(new, at_new) + 0.02
