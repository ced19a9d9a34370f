"""Validation rows of ``fit``: given in the units of the data, scored in the units of the data."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import tractable as tr
from tractable.errors import InvalidInput
from tractable.generative import VAE, Autoregressive, ComposedFlow, Diffusion, Flow
from tractable.generative import transforms as T
from tractable.likelihoods import HeteroscedasticNormal, Normal
from tractable.training import EarlyStopping

SCALES = (1e-3, 1.0, 100.0, 1e4)
COMMON = {"dtype": torch.float64, "validation_fraction": 0.0}


class Shifted(nn.Module):
    """A normal distribution whose mean is linear in the context."""

    def __init__(self, context: int, columns: int):
        super().__init__()
        self.mean = nn.Linear(context, columns)
        self.log_std = nn.Parameter(torch.zeros(columns))

    def forward(self, context):
        normal = torch.distributions.Normal(self.mean(context), self.log_std.exp())
        return torch.distributions.Independent(normal, 1)


def vae(seed, inputs, context, **more):
    return VAE(
        nn.Linear(inputs + context, 2),
        nn.Linear(1 + context, inputs),
        Normal(outputs=inputs),
        latent_dim=1,
        seed=seed,
        learner_kwargs={"lr": 0.02},
        **more,
        **COMMON,
    )


def affine(seed, columns, context, **more):
    net = Shifted(context, columns) if context else ComposedFlow([T.Linear(columns)], columns)
    return Flow(net, seed=seed, **{"learner_kwargs": {"lr": 0.05}, **more}, **COMMON)


def chain(seed, columns, context, **more):
    likelihood = HeteroscedasticNormal()
    return Autoregressive((8,), likelihood, seed=seed, calibrate=False, **more, **COMMON)


MODELS = {
    "flow": affine,
    "flow, ensemble": lambda *sizes: affine(*sizes, n_estimators=2),
    "flow, Bayes by Backprop": lambda *sizes: affine(*sizes, learner=tr.BayesByBackprop),
    "vae": vae,
    "vae, ensemble": lambda *sizes: vae(*sizes, n_estimators=2),
    "autoregressive": chain,
    "autoregressive, gradient": lambda *sizes: chain(*sizes, learner=tr.Backprop),
    "autoregressive, other order": lambda s, n, c: chain(s, n, c, order=list(range(n))[::-1]),
    "diffusion": lambda s, n, c: Diffusion((8,), steps=5, seed=s, **COMMON),
}
FIT = {"epochs": 3, "batch_size": 32, "progress": False}


def fit_options(name, **options):
    return {**FIT, **({"noise_copies": 2} if name == "diffusion" else {}), **options}


def rows(seed, n=120):
    rng = np.random.default_rng(seed)
    context = rng.standard_normal((n, 1))
    x = rng.standard_normal((n, 3)) @ rng.standard_normal((3, 3)) + context
    return context * 7 - 2, x + np.array([30.0, 0.0, -1.0])


def scores(model):
    return np.array([record["validation_nll"] for record in model.history])


def fitted(name, seed, scale, given, **options):
    """A model of rows in units of 1/scale, validated on rows in the same units."""
    context, x = rows(seed)
    about, new = rows(seed + 100)
    model = MODELS[name](seed, 3, 1 if given else 0)
    if given:
        data, validation = (x * scale, context / scale), (new * scale, about / scale)
    else:
        data, validation = (x * scale,), (new * scale,)
    model.fit(*data, validation=validation, **fit_options(name, **options))
    return model, validation


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("given", [False, True], ids=["alone", "context"])
@pytest.mark.parametrize("name", MODELS)
def test_scores_differ_by_the_log_jacobian_only(name, given, seed):
    plain = scores(fitted(name, seed, 1.0, given)[0])
    assert np.isfinite(plain).all()
    assert len(set(plain)) > 1
    for scale in SCALES:
        # The score of a diffusion model is that of its regression on standardized rows.
        jacobian = 0.0 if name == "diffusion" else 3 * math.log(scale)
        found = scores(fitted(name, seed, scale, given)[0])
        np.testing.assert_allclose(found, plain + jacobian, rtol=0, atol=1e-5)


@pytest.mark.parametrize("given", [False, True], ids=["alone", "context"])
@pytest.mark.parametrize("scale", [1.0, 1e4])
@pytest.mark.parametrize("name", [n for n in MODELS if n.startswith(("flow", "autoregressive"))])
def test_the_score_is_the_negative_mean_log_density(name, scale, given):
    model, validation = fitted(name, 0, scale, given)
    options = {"n_weight_samples": 2} if "Bayes" in name else {}
    if options:  # few draws, another few: agrees up to their spread
        tolerance = 0.5
    else:
        tolerance = 1e-9
    found = model.predict(*validation[1:], **options).log_prob(validation[0]).mean()
    assert scores(model)[-1] == pytest.approx(-float(found), abs=tolerance)


@pytest.mark.parametrize("scale", [1e-3, 1e4])
@pytest.mark.parametrize("name", ["vae", "vae, ensemble"])
def test_the_score_of_a_vae_is_its_bound(name, scale):
    model, validation = fitted(name, 0, scale, False, epochs=10)
    bound = float(model.predict(n_importance_samples=1).log_prob(validation[0]).mean())
    assert scores(model)[-1] == pytest.approx(-bound, abs=0.3)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", ["flow", "vae", "autoregressive", "diffusion"])
def test_early_stopping_does_not_depend_on_units(name, seed):
    stops = set()
    for scale in SCALES:
        stopping = EarlyStopping(patience=1)
        model, _ = fitted(name, seed, scale, False, epochs=12, callbacks=[stopping])
        stops.add(len(model.history))
    assert len(stops) == 1


@pytest.mark.parametrize("name", MODELS)
def test_rows_may_be_given_without_a_tuple(name):
    _, x = rows(0)
    _, new = rows(1)
    found = [
        scores(MODELS[name](0, 3, 0).fit(x, validation=given, **fit_options(name)))
        for given in ((new,), new, torch.from_numpy(new), new.tolist())
    ]
    for other in found[1:]:
        assert np.array_equal(other, found[0])


@pytest.mark.parametrize("name", MODELS)
def test_validation_rows_are_checked(name):
    context, x = rows(0)
    broken = x.copy()
    broken[3, 1] = np.nan
    for wrong, words in [
        ((x[:, :2],), "have 2 columns, and the model has 3"),
        ((broken,), "row 3, column 1"),
        ((x, context), "context"),
        ((x, x, x), "X, or X and a context"),
    ]:
        with pytest.raises((InvalidInput, TypeError), match=words):
            MODELS[name](0, 3, 0).fit(x, validation=wrong, **fit_options(name))
    for wrong in ((x,), (x, context[:5])):
        with pytest.raises(InvalidInput, match="context"):
            MODELS[name](0, 3, 1).fit(x, context, validation=wrong, **fit_options(name))


def test_scores_of_a_saved_model_are_those_of_the_fit(tmp_path):
    model, _ = fitted("flow", 0, 100.0, False)
    model.save(tmp_path / "m.tr")
    again = Flow.load(tmp_path / "m.tr", net=ComposedFlow([T.Linear(3)], 3))
    assert again.history == model.history
