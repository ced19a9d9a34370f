"""Laplace against exact posteriors, dense Hessians by autograd, finite differences and draws."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal
from torch import nn

import tractable as tr
from tractable.agents import Bandit, Thompson
from tractable.learners import InvalidModelFile, Learner
from tractable.learners.methods.laplace.curvature import CurvatureMatrix
from tractable.learners.network.functional import last_layer
from tractable.likelihoods import Bernoulli, Categorical, HeteroscedasticNormal, Normal, Softmax
from tractable.persistence import model_file
from tractable.training.data import ArrayData

F64 = {"dtype": torch.float64}
STILL = {"init": "net", "optimizer": "SGD", "lr": 1e-300}  # keep the network's own weights
STRUCTURES = ("last_layer", "diagonal")
SIGMA, DELTA = 0.3, 0.7


def line(rows=40, inputs=3, seed=0):
    """Return noisy rows of a plane."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, inputs))
    return x, x @ rng.normal(size=inputs) + 0.5 + SIGMA * rng.normal(size=rows)


def design(x):
    return np.column_stack([x, np.ones(len(x))])


def exact(x, y, delta, centre=0.0):
    """Return mean and covariance of the weights and the bias."""
    d = design(x)
    precision = d.T @ d / SIGMA**2 + delta * np.eye(d.shape[1])
    right = d.T @ y / SIGMA**2 + delta * centre
    return np.linalg.solve(precision, right), np.linalg.inv(precision)


def log_evidence(x, y, delta):
    d = design(x)
    return multivariate_normal(cov=d @ d.T / delta + SIGMA**2 * np.eye(len(x))).logpdf(y)


def exactly(**options):
    """Return a linear model, all of which is the last layer."""
    return tr.Laplace(nn.Linear(3, 1), Normal(SIGMA), structure="last_layer", **F64, **options)


def small(outputs=1, seed=0, act=nn.Tanh):
    """Return a network in double precision with weights that are not small."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(2, 5), act(), nn.Linear(5, outputs)).double()
    for parameter in net.parameters():
        nn.init.normal_(parameter, std=0.8)
    return net


CASES = {
    "normal": (Normal(0.4), 2),
    "softmax": (Softmax(3), 3),
    "bernoulli": (Bernoulli(), 1),
    "tree": (Categorical(4, link="probit"), 3),
}


def rows_for(likelihood, outputs, rows=30):
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(rows, 2, generator=generator, dtype=torch.float64)
    if isinstance(likelihood, Normal | HeteroscedasticNormal):
        width = outputs // 2 if isinstance(likelihood, HeteroscedasticNormal) else outputs
        return x, torch.randn(rows, width, generator=generator, dtype=torch.float64)
    classes = {"Bernoulli": 2}.get(type(likelihood).__name__, getattr(likelihood, "classes", 2))
    return x, torch.randint(classes, (rows,), generator=generator)


def fitted(case, structure, **options):
    likelihood, outputs = CASES[case]
    net = small(outputs)
    model = tr.Laplace(net, likelihood, structure=structure, **STILL, **F64, **options)
    x, y = rows_for(likelihood, outputs)
    return model.fit(x, y, epochs=1, batch_size=7), net, x, y


# --- linear models with exact answers ----------------------------------------------------------


def test_a_linear_model_is_learnt_exactly():
    x, y = line()
    model = exactly(prior_precision=DELTA)
    model.fit(x, y, epochs=2, distance_aware=False)
    mean, covariance = exact(x, y, DELTA)
    np.testing.assert_allclose(model.posterior.loc, mean, rtol=0, atol=1e-10)
    root = model.state.curvature.root(model.state.delta)
    np.testing.assert_allclose(root @ root.T, covariance, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(model.posterior.variance, np.diag(covariance), rtol=1e-8)
    new = np.random.default_rng(1).normal(size=(9, 3))
    predicted = model.predict(new)
    spread = np.einsum("np,pq,nq->n", design(new), covariance, design(new))
    np.testing.assert_allclose(predicted.mean, design(new) @ mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(predicted.epistemic, spread, rtol=1e-8)
    assert model.history[-1]["log_evidence"] == pytest.approx(log_evidence(x, y, DELTA), abs=1e-8)
    assert "log_evidence" not in model.history[0]


def test_the_tuned_precision_maximizes_the_exact_evidence():
    x, y = line(rows=12)
    model = exactly().fit(x, y, epochs=1)
    best = minimize_scalar(lambda t: -log_evidence(x, y, math.exp(t)), bracket=(-1, 1), tol=1e-12)
    assert model.state.delta == pytest.approx(math.exp(best.x), rel=1e-6)
    assert model.history[-1]["log_evidence"] == pytest.approx(-best.fun, abs=1e-8)
    np.testing.assert_allclose(model.posterior.loc, exact(x, y, model.state.delta)[0], atol=1e-8)


def test_a_diagonal_has_the_diagonal_of_the_precision():
    x, y = line()
    model = tr.Laplace(
        nn.Linear(3, 1), Normal(SIGMA), structure="diagonal", prior_precision=DELTA, **F64
    ).fit(x, y, epochs=1)
    precision = np.square(design(x)).sum(0) / SIGMA**2 + DELTA
    np.testing.assert_allclose(model.posterior.variance, 1 / precision, rtol=1e-10)


def test_rows_one_by_one_give_the_posterior_of_all_rows():
    x, y = line()
    model = exactly(prior_precision=DELTA)
    first = model.posterior.loc.numpy()
    assert model.posterior.variance.tolist() == pytest.approx([1 / DELTA] * 4)
    for row, seen in zip(x, y, strict=True):
        model.update(row, seen)
    mean, covariance = exact(x, y, DELTA, centre=first)
    np.testing.assert_allclose(model.posterior.loc, mean, rtol=0, atol=1e-10)
    np.testing.assert_allclose(model.posterior.variance, np.diag(covariance), rtol=1e-8)


def test_rows_after_a_fit_give_the_posterior_of_all_rows():
    x, y = line()
    model = exactly(prior_precision=DELTA)
    model.fit(x[:25], y[:25], epochs=1).update(x[25:], y[25:])
    mean, covariance = exact(x, y, DELTA)
    np.testing.assert_allclose(model.posterior.loc, mean, rtol=0, atol=1e-10)
    np.testing.assert_allclose(model.posterior.variance, np.diag(covariance), rtol=1e-8)
    # and a new fit is of its own rows alone
    model.fit(x[:9], y[:9], epochs=1)
    np.testing.assert_allclose(model.posterior.loc, exact(x[:9], y[:9], DELTA)[0], atol=1e-10)


def test_targets_with_error_bars_count_by_their_own_noise():
    x, y = line()
    extra = np.linspace(0, 1, len(y)) ** 2
    target = tr.Gaussian(torch.tensor(y), torch.tensor(extra))
    model = exactly(prior_precision=DELTA)
    model.fit(x, target, epochs=1)
    weight = 1 / (SIGMA**2 + extra)
    precision = (design(x).T * weight) @ design(x) + DELTA * np.eye(4)
    mean = np.linalg.solve(precision, design(x).T @ (weight * y))
    np.testing.assert_allclose(model.posterior.loc, mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(model.posterior.variance, np.diag(np.linalg.inv(precision)))


# --- the curvature --------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_the_last_layers_curvature_is_the_hessian_by_autograd(case):
    """A network is linear in its last layer, so there Gauss-Newton drops nothing."""
    model, net, x, y = fitted(case, "last_layer", refine=0)
    features = net[:2](x)
    x, y = model.checks.data(x, y)

    def loss(weight, bias):
        return -model.likelihood.log_prob(y, features @ weight.T + bias).sum()

    parts = tuple(p.detach() for p in net[2].parameters())
    blocks = torch.autograd.functional.hessian(loss, parts)
    n = parts[0].numel(), parts[1].numel()
    dense = torch.cat(
        [
            torch.cat([b.reshape(n[i], n[j]) for j, b in enumerate(r)], 1)
            for i, r in enumerate(blocks)
        ]
    )
    found = model.state.curvature.matrix
    assert float((found - dense).norm() / dense.norm()) < 1e-10
    assert len(found) == last_layer({k: p.shape for k, p in net.named_parameters()})


@pytest.mark.parametrize("case", CASES)
def test_the_diagonal_is_that_of_dense_jacobians_and_hessians(case):
    model, net, x, y = fitted(case, "diagonal")
    x, y = model.checks.data(x, y)
    names = [name for name, _ in net.named_parameters()]

    def outputs(*parts):
        return torch.func.functional_call(net, dict(zip(names, parts, strict=True)), (x,))

    parts = tuple(p.detach() for p in net.parameters())
    z = outputs(*parts)
    jacobians = torch.autograd.functional.jacobian(outputs, parts)
    jacobian = torch.cat([j.reshape(z.numel(), -1) for j in jacobians], 1)
    hessian = torch.autograd.functional.hessian(
        lambda z: -model.likelihood.log_prob(y, z).sum(), z.detach()
    ).reshape(z.numel(), z.numel())
    dense = (jacobian.T @ hessian @ jacobian).diagonal()
    assert torch.allclose(model.state.curvature.matrix, dense, rtol=1e-10, atol=1e-14)


def test_a_likelihood_that_is_not_log_concave_keeps_the_diagonal():
    likelihood = HeteroscedasticNormal()
    _, y = rows_for(likelihood, 2)
    z = torch.randn(30, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    first, second = likelihood.curvature(y, z)
    pull, d_var = likelihood.messages(y, z, torch.zeros_like(z))
    assert torch.allclose(first, pull, rtol=1e-9)
    assert torch.allclose(second, torch.diag_embed(-d_var), rtol=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_a_log_concave_likelihood_is_not_diagonalized(case):
    likelihood, outputs = CASES[case]
    _, y = rows_for(likelihood, outputs)
    z = 3 * torch.randn(30, outputs, generator=torch.Generator().manual_seed(0), **F64)
    y = likelihood.check_targets(y, z.shape)
    pull, d_var = likelihood.messages(y, z, torch.zeros_like(z))
    first, second = likelihood.curvature(y, z)
    assert torch.allclose(first, pull, rtol=1e-9)
    assert torch.allclose(second.diagonal(dim1=1, dim2=2), -d_var, rtol=1e-9, atol=1e-14)
    if case == "softmax":
        p = z.softmax(-1)
        dense = torch.diag_embed(p) - p.unsqueeze(1) * p.unsqueeze(2)
        assert torch.allclose(second, dense, atol=1e-14)


def test_curvature_of_a_confident_softmax_is_accurate_in_float32():
    """Adding a number to all outputs changes nothing, so no curvature may appear that way."""
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(2000, 10, generator=generator) * torch.logspace(-1, 2, 2000).unsqueeze(1)
    _, second = Softmax(10).curvature(torch.randint(10, (2000,), generator=generator), z)
    p = z.double().softmax(-1)
    dense = torch.diag_embed(p) - p.unsqueeze(1) * p.unsqueeze(2)
    assert torch.allclose(second.double(), dense, rtol=1e-5, atol=1e-11)
    assert float(second.sum((1, 2)).abs().max()) < 1e-6


def test_the_size_of_batches_and_a_loader_do_not_change_the_curvature():
    likelihood, outputs = CASES["softmax"]
    x, y = rows_for(likelihood, outputs)
    make = partial(tr.Laplace, small(outputs), likelihood, structure="diagonal", **STILL, **F64)
    whole = make().fit(x, y, epochs=1, batch_size=30)
    pairs = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=4)
    for model in (make().fit(x, y, epochs=1, batch_size=7), make().fit(pairs, epochs=1)):
        assert torch.allclose(model.state.curvature.matrix, whole.state.curvature.matrix)
        assert model.state.delta == pytest.approx(whole.state.delta)


# --- the prior's precision ------------------------------------------------------------------------


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("case", ["normal", "softmax"])
def test_the_tuned_precision_has_the_greatest_evidence(case, structure):
    model, *_ = fitted(case, structure, refine=0)
    best = model.history[-1]["log_evidence"]
    assert model.history[-1]["prior_precision"] == model.state.delta
    for factor in (0.9, 1.1):
        other, *_ = fitted(case, structure, refine=0, prior_precision=factor * model.state.delta)
        assert torch.equal(other.state.curvature.matrix, model.state.curvature.matrix)
        assert best - 1 < other.history[-1]["log_evidence"] < best


def test_the_evidence_of_a_diagonal_is_the_laplace_formula():
    model, net, x, y = fitted("softmax", "diagonal", prior_precision=DELTA)
    w = torch.cat([p.detach().flatten() for p in net.parameters()])
    prior = tr.priors.Normal(DELTA**-0.5).log_prob(w).sum()
    likely = Softmax(3).log_prob(y, net(x)).sum()
    precision = model.state.curvature.matrix + DELTA
    volume = 0.5 * len(w) * math.log(2 * math.pi) - 0.5 * precision.log().sum()
    expected = float((prior + likely + volume).detach())
    assert model.history[-1]["log_evidence"] == pytest.approx(expected, abs=1e-9)


def test_newton_finds_the_mode_of_a_softmax():
    likelihood, outputs = CASES["softmax"]
    x, y = rows_for(likelihood, outputs)

    def slope(refine):
        options = {"structure": "last_layer", "prior_precision": DELTA, "lr": 1e-2, **F64}
        model = tr.Laplace(small(outputs), likelihood, refine=refine, **options)
        model.fit(x, y, epochs=60, batch_size=30)
        found = model.method.survey(model.state, ArrayData(x, y, 30))
        return float((found.slope + DELTA * model.method.weights(model.state)).norm())

    slopes = [slope(refine) for refine in (0, 1, 2, 5)]
    assert slopes[0] > 1e-4
    assert slopes == sorted(slopes, reverse=True)
    assert slopes[-1] < 1e-12


def test_a_worsening_newton_step_is_reverted():
    """A confident wrong start has no curvature, so the first step is too long."""
    x, y = torch.ones(20, 1), torch.arange(20) % 2
    net = nn.Linear(1, 2, bias=False)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[8.0], [-8.0]]))
    still, stepped = (
        tr.Laplace(
            net, Softmax(2), structure="last_layer", prior_precision=0.01, refine=k, **STILL, **F64
        ).fit(x, y, epochs=1)
        for k in (0, 3)
    )
    assert torch.equal(still.posterior.loc, stepped.posterior.loc)
    assert torch.equal(still.posterior.variance, stepped.posterior.variance)
    assert still.history[-1]["log_evidence"] == stepped.history[-1]["log_evidence"]


def test_no_data_and_no_weights_keep_the_precision_in_bounds():
    assert CurvatureMatrix(torch.zeros(3)).best_delta(torch.ones(3)) == pytest.approx(1e-6)
    assert CurvatureMatrix(torch.ones(3)).best_delta(torch.zeros(3)) == pytest.approx(1e8)


# --- predictions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("case", ["normal", "softmax"])
def test_draws_have_the_moments_of_the_outputs(case, structure):
    model, *_ = fitted(case, structure)
    x = torch.randn(6, 2, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    n = 20_000
    drawn = model.sample(x, n, generator=torch.Generator().manual_seed(0))
    mean, variance = model.outputs(x).moments()
    assert drawn.shape == (n, *mean.shape)
    assert ((drawn.mean(0) - mean).abs() < 5 * (variance / n).sqrt()).all()
    assert ((drawn.var(0) / variance - 1).abs() < 5 * math.sqrt(2 / n)).all()


@pytest.mark.parametrize("structure", STRUCTURES)
def test_draws_at_several_rows_have_the_joint_covariance(structure):
    model, *_ = fitted("normal", structure)
    x = torch.randn(2, 2, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    _, jacobian = model.method.linearized(model.state, x)
    flat = jacobian.flatten(0, 1)
    precision = model.state.curvature.matrix
    precision = precision if structure == "last_layer" else precision.diag()
    dense = (
        flat @ torch.linalg.inv(precision + model.state.delta * torch.eye(len(precision))) @ flat.T
    )
    drawn = model.sample(x, 40_000, generator=torch.Generator().manual_seed(0)).flatten(1)
    scale = dense.diagonal().sqrt()
    error = (drawn.T.cov() - dense) / (scale.unsqueeze(0) * scale.unsqueeze(1))
    assert float(error.abs().max()) < 5 * math.sqrt(2 / 40_000)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("case", CASES)
def test_the_input_gradient_is_that_of_finite_differences(case, structure):
    model, *_ = fitted(case, structure)
    likelihood, outputs = CASES[case]
    x, y = (rows[:5] for rows in rows_for(likelihood, outputs))
    x, y = model.checks.data(x, y)
    gradient = model.log_prob_gradient(x, y)
    for k in range(2):
        step = torch.zeros_like(x)
        step[:, k] = 1e-6
        up, down = (model.outputs(x + s).predictive().log_prob(y) for s in (step, -step))
        slope = ((up - down) / 2e-6).reshape(len(x), -1).sum(1)
        assert torch.allclose(gradient[:, k], slope, rtol=1e-5, atol=1e-7)


def test_variance_grows_outside_the_training_data():
    x = torch.linspace(-1, 1, 60).unsqueeze(1)
    y = torch.sin(3 * x[:, 0]) + 0.1 * torch.randn(60, generator=torch.Generator().manual_seed(0))
    for structure in STRUCTURES:
        net = nn.Sequential(nn.Linear(1, 30), nn.Tanh(), nn.Linear(30, 1))
        model = tr.Laplace(net, Normal(), structure=structure, lr=1e-2)
        model.fit(x, y, epochs=200, batch_size=20)
        near, far = model.predict(torch.tensor([[0.0], [4.0]])).epistemic
        assert far > 4 * near


def test_validation_scores_the_mode_only():
    likelihood, outputs = CASES["normal"]
    x, y = rows_for(likelihood, outputs)
    net = small(outputs)
    model = tr.Laplace(net, likelihood, refine=0, **STILL, **F64)
    model.fit(x, y, epochs=1, validation=(x, y))
    plain = -float(likelihood.log_prob(y, net(x)).mean().detach())
    assert model.history[0]["validation_nll"] == pytest.approx(plain, rel=1e-12)


def test_predictions_use_running_statistics():
    net = nn.Sequential(nn.Linear(2, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 1))
    x, y = rows_for(Normal(0.4), 1)
    for structure in STRUCTURES:
        model = tr.Laplace(net, Normal(0.4), structure=structure, lr=1e-2, **F64)
        model.fit(x, y, epochs=3, batch_size=10)
        whole = model.predict(x)
        assert torch.allclose(whole.mean[:1], model.predict(x[:1]).mean)
        assert torch.allclose(whole.variance[:1], model.predict(x[:1]).variance)


# --- files and pruning ----------------------------------------------------------------------------


def test_pruned_weights_are_known_to_be_zero():
    """The other weights have the posterior of a model without the pruned ones."""
    x, y = line()
    model = exactly(prior_precision=DELTA)
    model.fit(x, y, epochs=1).prune(0.5).fit(x, y, epochs=1)
    kept = model.posterior.variance > 0
    d = design(x)[:, kept.numpy()]
    precision = d.T @ d / SIGMA**2 + DELTA * np.eye(2)
    mean = np.linalg.solve(precision, d.T @ y / SIGMA**2)
    np.testing.assert_allclose(model.posterior.loc[kept], mean, atol=1e-10)
    np.testing.assert_allclose(
        model.posterior.variance[kept], np.diag(np.linalg.inv(precision)), rtol=1e-8
    )
    evidence = multivariate_normal(cov=d @ d.T / DELTA + SIGMA**2 * np.eye(len(x))).logpdf(y)
    assert model.history[-1]["log_evidence"] == pytest.approx(evidence, abs=1e-8)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_a_file_with_an_impossible_gaussian_is_refused(structure, tmp_path):
    path = tmp_path / "model.tr"
    fitted("normal", structure)[0].save(path)
    tensors, header = model_file.read(path)
    name = "state/full" if structure == "last_layer" else "state/diagonal"
    strange = [
        {"state/delta": torch.zeros_like(tensors["state/delta"])},
        {"state/delta": -tensors["state/delta"]},
        {name: tensors[name] * math.nan},
        {name: tensors[name][:-1].clone()},
    ]
    if structure == "diagonal":
        strange.append({name: -tensors[name]})
    for other in strange:
        model_file.write(path, {**tensors, **other}, header)
        with pytest.raises(InvalidModelFile):
            Learner.load(path)


def test_a_small_file_cannot_ask_for_a_large_covariance(tmp_path):
    path = tmp_path / "model.tr"
    net = nn.Sequential(nn.Linear(2, 300), nn.ReLU(), nn.Linear(300, 300))
    tr.Laplace(net, Normal(0.1), structure="diagonal").save(path)
    tensors, header = model_file.read(path)
    header["options"]["structure"] = "last_layer"  # 65 GB
    model_file.write(path, tensors, header)
    with pytest.raises(InvalidModelFile, match="expected at most"):
        Learner.load(path)


@pytest.mark.parametrize(
    ("options", "word"),
    [({"structure": "kronecker"}, "structure"), ({"prior_precision": 0.0}, "positive")],
)
def test_invalid_options_are_refused(options, word):
    with pytest.raises(ValueError, match=word):
        tr.Laplace(nn.Linear(2, 1), Normal(0.1), **options)


# --- use by other parts of the library -----------------------------------------------------------


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("replay", ["auto", None])
def test_a_bandit_finds_the_better_arm(structure, replay):
    net = nn.Sequential(nn.Linear(2, 10), nn.Tanh(), nn.Linear(10, 1))
    learner = tr.Laplace(net, Normal(0.5), structure=structure, lr=1e-2)
    agent = Bandit(learner, Thompson(1), n_features=0, n_actions=2, replay=replay)
    generator = torch.Generator().manual_seed(0)
    first = float(learner.outputs(torch.eye(2)).moments()[1].sum())
    chosen = []
    for _ in range(150):
        action = agent.act([])
        chosen.append(action)
        reward = action + 0.5 * float(torch.randn((), generator=generator))
        agent.update([], action, reward)
    assert sum(chosen[-50:]) > 40
    assert 0 in chosen
    assert float(learner.outputs(torch.eye(2)).moments()[1].sum()) < 0.5 * first


@pytest.mark.parametrize("structure", STRUCTURES)
def test_an_attack_lowers_the_accuracy(structure):
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(200, 2, generator=generator)
    y = (x[:, 0] > x[:, 1]).long()
    net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
    model = tr.Laplace(net, Softmax(2), structure=structure, lr=1e-2).fit(x, y, epochs=30)
    before, after = tr.attacks.robustness(model, x, y, [0.0, 0.2], bounds=(0.0, 1.0))
    assert before > 0.9
    assert after < before - 0.1
    moved = tr.attacks.fgsm(model, x, y, 0.1, bounds=(0.0, 1.0))
    assert model.predict(moved).log_prob(y).mean() < model.predict(x).log_prob(y).mean()


def test_members_of_an_ensemble_each_have_a_gaussian():
    x, y = line()
    options = {"structure": "last_layer", "prior_precision": DELTA, **F64}
    group = tr.Ensemble(
        nn.Linear(3, 1), Normal(SIGMA), n_estimators=2, learner=tr.Laplace, **options
    )
    group.fit(x, y, epochs=1)
    mean, covariance = exact(x, y, DELTA)
    for posterior in group.posteriors:
        np.testing.assert_allclose(posterior.loc, mean, atol=1e-10)
        np.testing.assert_allclose(posterior.variance, np.diag(covariance), rtol=1e-8)
    evidence = log_evidence(x, y, DELTA)
    assert group.history[-1]["log_evidence"] == pytest.approx(evidence, abs=1e-8)
