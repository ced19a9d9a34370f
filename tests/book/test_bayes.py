"""BAY cases with exact Bayesian answers, computed by several learners."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import tractable as tr
from tests.book.test_linear import X, Y

DOUBLE = torch.float64


def scalar():
    net = nn.Linear(1, 1, bias=False).double()
    with torch.no_grad():
        net.weight.zero_()
    return net


ROWS = torch.tensor([[1.0], [2.0]], dtype=DOUBLE), torch.tensor([1.0, 2.0], dtype=DOUBLE)


def test_bay_01_closed_form_posterior_is_exact():
    model = tr.TAGI(
        scalar(), tr.likelihoods.Normal(1.0), init="net", gain=1.0, prior_variance_ratio=1.0,
        epoch_forgetting=0.0, dtype=DOUBLE,
    )  # fmt: skip
    assert float(model.posterior["weight"].variance) == pytest.approx(1)
    for x, y in zip(*ROWS, strict=True):
        model.update(x, y)
    weight = model.posterior["weight"]
    assert (float(weight.loc), float(weight.variance)) == pytest.approx((5 / 6, 1 / 6))
    p = model.predict(torch.tensor([[3.0]], dtype=DOUBLE))
    assert (float(p.mean), float(p.variance)) == pytest.approx((2.5, 2.5))


def test_bay_01_laplace_posterior_is_exact():
    model = tr.Laplace(
        scalar(), tr.likelihoods.Normal(1.0), structure="last_layer", prior_precision=1.0,
        init="net", dtype=DOUBLE,
    ).fit(*ROWS, epochs=1, distance_aware=False)  # fmt: skip
    weight = model.posterior["weight"]
    assert (float(weight.loc), float(weight.variance)) == pytest.approx((5 / 6, 1 / 6))
    point = tr.Backprop(
        scalar(), tr.likelihoods.Normal(1.0), prior=tr.priors.Normal(1.0), init="net", lr=0.05,
        dtype=DOUBLE,
    ).fit(*ROWS, epochs=300, batch_size=2, distance_aware=False)  # fmt: skip
    assert float(point.posterior["weight"].loc) == pytest.approx(5 / 6, abs=1e-3)


def test_bay_01_variational_posterior_is_close():
    model = tr.BayesByBackprop(
        scalar(), tr.likelihoods.Normal(1.0), prior=tr.priors.Normal(1.0), lr=0.05,
        n_train_samples=1000, estimator="local", rho=(-1.0, -1.0), dtype=DOUBLE, seed=1,
    ).fit(*ROWS, epochs=300, batch_size=2, distance_aware=False)  # fmt: skip
    weight = model.posterior["weight"]
    assert float(weight.loc) == pytest.approx(5 / 6, abs=1e-3)
    assert float(weight.variance) == pytest.approx(1 / 6, abs=1e-3)


@pytest.fixture(scope="module")
def line():
    return tr.Laplace(
        nn.Linear(1, 1), tr.likelihoods.Normal(0.5), structure="last_layer",
        prior_precision=0.25, dtype=DOUBLE,
    ).fit(X[:, None], Y, epochs=1, distance_aware=False)  # fmt: skip


def test_bay_02_slope_and_offset(line):
    means = line.posterior.means()
    found = (float(means["bias"]), float(means["weight"]))
    assert found == pytest.approx((1.073765946, 1.106304308), abs=1e-6)
    p = line.predict(torch.tensor([[4.0]], dtype=DOUBLE))
    assert float(p.mean) == pytest.approx(5.498983176, abs=1e-6)
    assert float(p.epistemic) == pytest.approx(0.367535589, abs=1e-6)
    assert float(p.variance) == pytest.approx(0.617535589, abs=1e-6)
    variances = [float(line.posterior[name].variance) for name in ("bias", "weight")]
    assert variances == pytest.approx([0.166389351, 0.048068035], abs=1e-6)
    assert line.history[-1]["log_evidence"] == pytest.approx(-10.900834826, abs=1e-5)


def test_bay_04_the_mode_is_ridge_regression(line):
    design = np.column_stack([np.ones(4), X])
    ridge = np.linalg.solve(design.T @ design + 0.0625 * np.eye(2), design.T @ Y.numpy())
    means = line.posterior.means()
    assert (float(means["bias"]), float(means["weight"])) == pytest.approx(tuple(ridge), abs=1e-6)


@pytest.mark.parametrize(
    ("mean", "variance", "wanted"),
    [(0.5, 4.0, (1.072689396, 1.78050746)), (0.0, 1.0, (0.39894228, 0.340845057))],
)
def test_bay_06_relu_of_a_gaussian(mean, variance, wanted):
    with tr.activation_moments("exact"):
        h = nn.functional.relu(tr.Gaussian(torch.tensor(mean, dtype=DOUBLE), variance))
    assert (float(h.loc), float(h.variance)) == pytest.approx(wanted, abs=1e-7)


def test_bay_07_an_affine_map_of_a_gaussian():
    """Gaussians are diagonal here: an affine map gives exact means and marginal variances."""
    a = torch.tensor([[1, 2], [0, -1], [3, 1]], dtype=DOUBLE)
    b = torch.tensor([0, 1, 2], dtype=DOUBLE)
    mu, full = torch.tensor([1, -1], dtype=DOUBLE), torch.tensor([[2, 0.5], [0.5, 1]], dtype=DOUBLE)
    assert (a @ mu + b).tolist() == [-1, 2, 4]
    wanted = [[8, -2.5, 11.5], [-2.5, 1, -2.5], [11.5, -2.5, 22]]
    assert (a @ full @ a.T).tolist() == wanted
    root = torch.linalg.cholesky(full)  # the full one as a map of independent ones
    white = tr.Gaussian(torch.zeros(1, 2, dtype=DOUBLE), torch.ones(1, 2, dtype=DOUBLE))
    z = nn.functional.linear(white, a @ root, a @ mu + b)
    assert z.loc[0].tolist() == pytest.approx([-1, 2, 4])
    assert z.variance[0].tolist() == pytest.approx([8, 1, 22])


def test_bay_08_a_learner_conditions_like_the_formula():
    """Condition a linear network on rows with different noise: v = A w + noise(B)."""
    a = torch.tensor([[1, 2], [0, 1], [1, -1]], dtype=DOUBLE)
    noise = torch.tensor([1, 2, 0.5], dtype=DOUBLE)
    v = torch.tensor([1, 0, 2], dtype=DOUBLE)
    scaled = a / noise.sqrt()[:, None], v / noise.sqrt()
    model = tr.Laplace(
        nn.Linear(2, 1, bias=False), tr.likelihoods.Normal(1.0), structure="last_layer",
        prior_precision=1e-9, dtype=DOUBLE,
    ).fit(*scaled, epochs=1, distance_aware=False)  # fmt: skip
    weight = model.posterior["weight"]
    assert weight.loc[0].tolist() == pytest.approx([1.666666667, -0.307692308], abs=1e-6)
    assert weight.variance[0].tolist() == pytest.approx([1 / 3, 0.153846154], abs=1e-6)


def test_bay_08_a_product_of_gaussians():
    """A posterior used as the prior of another fit gives the elementwise product."""
    mean, variance = (1.0, 0.0), (2.0, 3.0)
    other, its = (0.0, 2.0), (1.0, 0.5)
    product = [1 / (1 / v + 1 / w) for v, w in zip(variance, its, strict=True)]
    middle = [
        p * (m / v + n / w)
        for p, m, v, n, w in zip(product, mean, variance, other, its, strict=True)
    ]
    for i in (0, 1):
        net = nn.Linear(1, 1, bias=False).double()
        with torch.no_grad():
            net.weight.fill_(mean[i])
        model = tr.TAGI(
            net, tr.likelihoods.Normal(math.sqrt(its[i])), init="net", gain=1.0,
            prior_variance_ratio=variance[i], epoch_forgetting=0.0, dtype=DOUBLE,
        )  # fmt: skip
        again = tr.TAGI(
            net,
            tr.likelihoods.Normal(math.sqrt(its[i])),
            prior=model,
            epoch_forgetting=0.0,
            dtype=DOUBLE,
        ).update(torch.ones(1, 1, dtype=DOUBLE), torch.tensor([[other[i]]], dtype=DOUBLE))
        weight = again.posterior["weight"]
        assert float(weight.loc) == pytest.approx(middle[i])
        assert float(weight.variance) == pytest.approx(product[i])
