"""Noise, bias and variance: closed forms, enumerations, and exact Bayesian linear regression."""

import itertools
import json

import numpy as np
import pytest
import torch
from torch import nn

import tractable as tr

X = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0], [1.0, 4.0], [1.0, 5.0], [1.0, -3.0]])
TRUE = np.array([0.7, -1.3])
SIGMA = 0.6
AT = np.array([[1.0, 0.5], [1.0, 3.0], [1.0, -6.0]])


class Ridge:
    """Penalized least squares, as an example of an external learner."""

    def __init__(self, seed: int, penalty: float) -> None:
        self.seed, self.penalty = seed, penalty

    def fit(self, x, y):
        x, y = np.asarray(x), np.asarray(y)
        gram = x.T @ x + self.penalty * np.eye(x.shape[1])
        self.weights = np.linalg.solve(gram, x.T @ y)

    def predict(self, x):
        return np.asarray(x) @ self.weights


def every_data_set():
    """Return all equally likely data sets of six rows whose noise is +-sigma."""
    for signs in itertools.product((-1, 1), repeat=len(X)):
        yield X, X @ TRUE + SIGMA * np.array(signs)


@pytest.mark.parametrize("penalty", [0.0, 2.5])
def test_a_linear_model_of_all_data_sets_is_exact(penalty):
    """Compare with the closed form of ridge regression: f = x' G^-1 X' y, G = X'X + penalty."""
    found = tr.diagnostics.bias_variance(
        lambda seed: Ridge(seed, penalty),
        sample_dataset=list(every_data_set()),
        X_test=AT,
        y_mean=AT @ TRUE,
        noise_variance=SIGMA**2,
        n_jobs=1,
    )
    weights = AT @ np.linalg.solve(X.T @ X + penalty * np.eye(2), X.T)
    variance = SIGMA**2 * (weights**2).sum(1).mean()
    bias_sq = ((weights @ X @ TRUE - AT @ TRUE) ** 2).mean()
    # The loss by enumeration: all models with all possible targets.
    losses = []
    for x, y in every_data_set():
        model = Ridge(0, penalty)
        model.fit(x, y)
        for sign in (-1, 1):
            losses.append((model.predict(AT) - AT @ TRUE - sign * SIGMA) ** 2)
    assert found.variance == pytest.approx(variance, abs=1e-10)
    assert found.bias_sq == pytest.approx(bias_sq, abs=1e-10)
    assert found.loss == pytest.approx(np.mean(losses), abs=1e-10)
    assert found.noise + found.bias_sq + found.variance == pytest.approx(found.loss, abs=1e-10)
    assert found.n_datasets == 64
    assert found.epistemic is None


def test_drawn_data_sets_are_unbiased_and_still_add_up():
    def sample_dataset(generator):
        noise = torch.randn(len(X), generator=generator, dtype=torch.float64).numpy()
        return X, X @ TRUE + SIGMA * noise

    found = [
        tr.diagnostics.bias_variance(
            lambda seed: Ridge(seed, 2.5), sample_dataset=sample_dataset, X_test=AT,
            y_mean=AT @ TRUE, noise_variance=SIGMA**2, n_datasets=4, seed=seed, n_jobs=1,
        )
        for seed in range(200)
    ]  # fmt: skip
    weights = AT @ np.linalg.solve(X.T @ X + 2.5 * np.eye(2), X.T)
    for name, right in {
        "variance": SIGMA**2 * (weights**2).sum(1).mean(),
        "bias_sq": ((weights @ X @ TRUE - AT @ TRUE) ** 2).mean(),
    }.items():
        values = np.array([getattr(part, name) for part in found])
        assert abs(values.mean() - right) < 4 * values.std() / np.sqrt(len(values)), name
    for part in found:
        total = part.noise + part.bias_sq + part.variance
        assert total == pytest.approx(part.loss, abs=1e-10)


def test_exact_bayesian_regression_is_calibrated():
    """With a wide prior the posterior variance is the sampling variance: the ratio is 1."""
    x = torch.linspace(-1, 1, 30, dtype=torch.float64)[:, None]
    design = torch.cat([torch.ones_like(x), x], 1)

    def sample_dataset(generator):
        noise = torch.randn(30, generator=generator, dtype=torch.float64)
        return x, 0.3 - 0.8 * x[:, 0] + 0.4 * noise

    def make(seed):
        return tr.Laplace(
            nn.Linear(1, 1), tr.likelihoods.Normal(0.4), structure="last_layer",
            prior_precision=1e-4, dtype=torch.float64, seed=seed,
        )  # fmt: skip

    at = torch.tensor([[-0.9], [0.1], [0.8]], dtype=torch.float64)
    found = tr.diagnostics.bias_variance(
        make, sample_dataset=sample_dataset, X_test=at, y_mean=0.3 - 0.8 * at[:, 0],
        noise_variance=0.16, n_datasets=100, n_jobs=1, epochs=1, batch_size=30,
        distance_aware=False,
    )  # fmt: skip
    rows = torch.cat([torch.ones_like(at), at], 1)
    by_theory = 0.16 * (rows @ torch.linalg.inv(design.T @ design) * rows).sum(1).mean()
    assert found.epistemic == pytest.approx(float(by_theory), rel=1e-3)
    assert abs(found.variance - float(by_theory)) < 3 * found.std_errors["variance"]
    assert 0.8 < found.epistemic_ratio < 1.25
    assert "right within" in found.recommendation()


def blobs(rows=60):
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(rows) % 3
    x = torch.randn(rows, 2, generator=generator) + torch.tensor([[0.0, 3], [3, 0], [-3, 0]])[y]
    return x, y


def test_terms_of_brier_scores_sum_to_the_loss():
    x, y = blobs()
    net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3))
    found = tr.diagnostics.bias_variance(
        lambda seed: tr.BayesByBackprop(net, tr.likelihoods.Softmax(3), seed=seed, lr=0.02),
        x, y, n_datasets=3, epochs=4, n_jobs=1,
    )  # fmt: skip
    total = found.noise + found.bias_sq + found.variance
    assert total == pytest.approx(found.loss, abs=1e-10)
    assert 0 < found.loss < 2
    assert 0 < found.epistemic < 1
    assert found.log_prob < 0


@pytest.fixture(scope="module")
def table():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(80, 2, generator=generator)
    return x, x[:, 0] * x[:, 1] + 0.3 * torch.randn(80, generator=generator)


def tagi(seed):
    net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
    return tr.TAGI(net, tr.likelihoods.Normal(), seed=seed)


def plain(seed):
    net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
    return tr.Backprop(net, tr.likelihoods.Normal(), seed=seed)


@pytest.mark.parametrize("make", [tagi, plain])
def test_results_do_not_depend_on_the_number_of_jobs(table, make):
    ours = [
        tr.diagnostics.bias_variance(make, *table, n_datasets=4, epochs=3, n_jobs=n) for n in (1, 2)
    ]
    assert ours[0] == ours[1]


def test_a_result_is_frozen_and_has_text_json_and_a_figure(table, tmp_path):
    found = tr.diagnostics.bias_variance(tagi, *table, n_datasets=3, epochs=2, n_jobs=1)
    assert found.noise_source == "model"
    assert found.n_rows == 30
    with pytest.raises(AttributeError):
        found.loss = 0.0
    assert found.table().splitlines()[0].split() == ["part", "value", "share", "standard", "error"]
    held = json.loads(found.to_json(tmp_path / "found.json"))
    assert held == json.loads((tmp_path / "found.json").read_text())
    assert held["diagnostic"] == "BiasVariance"
    assert held["recommendation"] == found.recommendation()
    assert len(found.plot().patches) == 4


def test_bad_input(table):
    decompose = tr.diagnostics.bias_variance
    x, y = table
    with pytest.raises(ValueError, match=r"ignores its seed: factory\(0\) and factory\(1\) both"):
        decompose(lambda seed: tagi(0), x, y)
    one = tagi(0)
    with pytest.raises(ValueError, match="the same learner twice"):
        decompose(lambda seed: one, x, y)
    with pytest.raises(ValueError, match="got a fitted one"):
        decompose(lambda seed: tagi(seed).fit(x, y, epochs=1), x, y)
    with pytest.raises(TypeError, match="function from a seed"):
        decompose(one, x, y)
    with pytest.raises(TypeError, match="must return a learner, got Linear"):
        decompose(lambda seed: nn.Linear(1, 1), x, y)
    with pytest.raises(ValueError, match="at least 10 rows, got 5"):
        decompose(tagi, x[:5], y[:5])
    with pytest.raises(ValueError, match="rows of inputs and 79 targets"):
        decompose(tagi, x, y[1:])
    with pytest.raises(ValueError, match="NaN or infinite"):
        decompose(tagi, x / 0, y)
    with pytest.raises(ValueError, match="at least 2 data sets, got 1"):
        decompose(tagi, x, y, n_datasets=1)
    with pytest.raises(ValueError, match="subset_fraction must lie"):
        decompose(tagi, x, y, subset_fraction=1.5)
    with pytest.raises(ValueError, match="not both"):
        decompose(tagi, x, y, sample_dataset=lambda g: (x, y), X_test=x, y_mean=y)
    with pytest.raises(ValueError, match="needs X_test"):
        decompose(tagi, sample_dataset=lambda g: (x, y))
    with pytest.raises(ValueError, match="pass noise_variance="):
        decompose(lambda s: Ridge(s, 1.0), x, y, n_jobs=1)
    with pytest.raises(ValueError, match="noise_variance must be finite"):
        decompose(lambda s: Ridge(s, 1.0), x, y, n_jobs=1, noise_variance=-1.0)
    with pytest.raises(ValueError, match="n_jobs must be at least 1"):
        decompose(tagi, x, y, n_jobs=0)
