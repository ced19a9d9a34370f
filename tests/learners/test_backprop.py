"""Point estimates and ensembles against closed forms."""

import pytest
import torch
from torch import nn

import tractable as tr
from tractable.learners import reinitialized
from tractable.learners.methods.ensemble import EnsembleMethod

DOUBLE = torch.float64


@pytest.fixture(scope="module")
def data():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(40, 3, generator=generator, dtype=DOUBLE)
    y = x @ torch.tensor([1.0, -2.0, 0.0], dtype=DOUBLE)
    return x, y + 0.5 * torch.randn(40, generator=generator, dtype=DOUBLE)


def fit(data, prior, **options):
    net = nn.Linear(3, 1, bias=False)
    model = tr.Backprop(net, tr.likelihoods.Normal(0.5), prior=prior, lr=0.05, dtype=DOUBLE)
    model.fit(*data, epochs=400, batch_size=40, **options)
    return model.posterior.loc


def test_maximum_likelihood_is_least_squares(data):
    x, y = data
    assert torch.allclose(fit(data, None), torch.linalg.lstsq(x, y).solution, atol=1e-4)


def test_a_normal_prior_is_ridge_regression(data):
    x, y = data
    penalty = 0.5**2 / 0.3**2 * torch.eye(3, dtype=DOUBLE)
    ridge = torch.linalg.solve(x.T @ x + penalty, x.T @ y)
    assert torch.allclose(fit(data, tr.priors.Normal(0.3)), ridge, atol=1e-4)


def test_a_laplace_prior_is_lasso_regression(data):
    linear_model = pytest.importorskip("sklearn.linear_model")
    x, y = data
    scale = 0.02
    lasso = linear_model.Lasso(alpha=0.5**2 / scale / 40, fit_intercept=False, tol=1e-10)
    truth = torch.from_numpy(lasso.fit(x.numpy(), y.numpy()).coef_)
    assert torch.allclose(fit(data, tr.priors.Laplace(scale)), truth, atol=5e-3)


def test_dropout_is_active_when_learning_and_only_on_request_when_predicting():
    net = nn.Sequential(nn.Linear(3, 30), nn.ReLU(), nn.Dropout(0.5), nn.Linear(30, 1))
    x = torch.randn(5, 3)
    plain = tr.Backprop(net, tr.likelihoods.Normal(0.1))
    active = tr.Backprop(net, tr.likelihoods.Normal(0.1), mc_dropout=True, n_weight_samples=200)
    assert torch.equal(plain.posterior.loc, active.posterior.loc)  # the same initial weights
    assert plain.predict(x).epistemic.max() == 0
    assert active.predict(x).epistemic.min() > 0
    spread = active.predict(x, n_weight_samples=4000)
    error = (spread.epistemic / 4000).sqrt()
    assert ((spread.mean - plain.predict(x).mean).abs() < 5 * error).all()  # unbiased masks
    with pytest.raises(ValueError, match="dropout"):
        tr.Backprop(nn.Linear(3, 1), tr.likelihoods.Normal(0.1), mc_dropout=True)


def test_the_networks_own_weights_may_be_kept():
    net = nn.Linear(3, 1)
    model = tr.Backprop(net, tr.likelihoods.Normal(0.1), init="net")
    assert torch.equal(model.posterior["weight"].loc, net.weight.detach())


def test_batch_norm_statistics_are_learnt():
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    model = tr.Backprop(net, tr.likelihoods.Normal(0.1))
    model.fit(torch.randn(32, 3) + 5, torch.zeros(32), epochs=2, batch_size=16)
    assert int(model.state.buffers["1.num_batches_tracked"]) == 4
    assert int(model.net[1].num_batches_tracked) == 0


def test_ensemble_variance_grows_outside_the_data():
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(64, 1, generator=generator)
    net = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 1))
    model = tr.Ensemble(net, tr.likelihoods.Normal(0.1), n_estimators=5, lr=1e-2)
    model.fit(x, x.squeeze(1) ** 2, epochs=60, batch_size=16)
    assert len(model.posteriors) == 5
    inside, outside = model.predict([[0.5]]).epistemic, model.predict([[4.0]]).epistemic
    assert outside.item() > 10 * inside.item()
    with pytest.raises(ValueError, match="at least 1"):
        tr.Ensemble(net, tr.likelihoods.Normal(0.1), n_estimators=0)
    with pytest.raises(ValueError, match="unknown"):
        tr.Ensemble(net, tr.likelihoods.Normal(0.1), learner="Nobody")


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_vectorized_training_equals_separate_training(kind, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(50, 2, generator=generator, dtype=DOUBLE)
    y = x.sum(1) if kind == "numbers" else (x.sum(1) > 0).long()
    outputs = 1 if kind == "numbers" else 2
    likelihood = tr.likelihoods.Normal(0.1) if kind == "numbers" else tr.likelihoods.Softmax(2)
    net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, outputs))

    def run(vectorized):
        monkeypatch.setattr(EnsembleMethod, "vectorized", vectorized)
        prior = tr.priors.Normal(1.0)
        model = tr.Ensemble(net, likelihood, n_estimators=3, lr=1e-2, prior=prior, dtype=DOUBLE)
        return model.fit(x, y, epochs=5, batch_size=16)

    assert tr.Ensemble(net, likelihood).method.vectorized
    together, apart = run(True), run(False)
    for a, b in zip(together.posteriors, apart.posteriors, strict=True):
        assert torch.allclose(a.loc, b.loc, atol=1e-10)
    assert together.history[-1]["log_likelihood"] == pytest.approx(
        apart.history[-1]["log_likelihood"]
    )


# --- what is not changed --------------------------------------------------------


@pytest.mark.parametrize("learner", [tr.Backprop, tr.Laplace])
@pytest.mark.parametrize("seed", [0, 3])
def test_parameters_without_a_gradient_keep_their_values(learner, seed):
    """A frozen part, such as a trained body, is not reinitialized."""
    net = nn.Sequential(nn.Linear(3, 8).requires_grad_(False), nn.ReLU(), nn.Linear(8, 1))
    model = learner(net, tr.likelihoods.Normal(0.5), seed=seed)
    ensemble = tr.Ensemble(
        net, tr.likelihoods.Normal(0.5), n_estimators=2, learner=learner, seed=seed
    )
    for made in (model, reinitialized(model, seed + 1), *ensemble.members):
        assert torch.equal(made.net[0].weight, net[0].weight)
        assert torch.equal(made.net[0].bias, net[0].bias)
        assert list(made.posterior) == ["2.weight", "2.bias"]
        assert not torch.equal(made.posterior["2.weight"].loc, net[2].weight)


def test_every_copy_begins_with_the_statistics_of_the_given_network():
    net = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 1))
    net[0].running_mean.fill_(4.0)
    model = tr.Backprop(net, tr.likelihoods.Normal(0.5))
    for made in (model, reinitialized(model, 1), reinitialized(model, 2)):
        assert torch.equal(made.state.buffers["0.running_mean"], torch.full((3,), 4.0))
