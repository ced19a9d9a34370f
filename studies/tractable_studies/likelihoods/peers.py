"""Models of other libraries on the same rows, where these are installed.

``pip install 'tractable-studies[likelihoods]'`` brings statsmodels and coral-pytorch.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import torch
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import PoissonRegressor
from torch import Tensor, nn

from tractable.likelihoods import NegativeBinomial, Poisson, VonMises
from tractable.predictive import CategoricalPredictive, Predictive
from tractable_studies.likelihoods.models import Model, network
from tractable_studies.likelihoods.rows import Task

DISPERSION_STEPS = 60
CORAL_RATES = (1e-3, 1e-2)


def there(package: str) -> bool:
    """Return whether a package is installed."""
    return importlib.util.find_spec(package) is not None


# --- counts ------------------------------------------------------------------------------------


def linear(_: int) -> Any:
    """Return a generalized linear model."""
    return PoissonRegressor(alpha=1e-3, max_iter=500)


def boosted(seed: int) -> Any:
    """Return boosted trees with their defaults."""
    return HistGradientBoostingRegressor(loss="poisson", random_state=seed)


def by_scikit(make: Callable[[int], Any], *, dispersed: bool) -> Model:
    """Fit a mean by scikit-learn; score it as Poisson or with a fitted dispersion."""

    def fit(task: Task, seed: int) -> Predictive:
        model = make(seed).fit(task.x.numpy(), task.y.numpy().ravel())

        def log_mean(x: Tensor) -> Tensor:
            return torch.tensor(model.predict(x.numpy())).double().log().unsqueeze(1)

        z = log_mean(task.x_test)
        if not dispersed:
            return Poisson().predictive(z, torch.zeros_like(z))
        likelihood, known = NegativeBinomial(), log_mean(task.x)
        for _ in range(DISPERSION_STEPS):
            seen = likelihood.sufficient_statistics(task.y.double(), known)
            assert seen is not None
            likelihood.m_step(seen)
        return likelihood.predictive(z, torch.zeros_like(z))

    return fit


def by_statsmodels(task: Task, _: int) -> Predictive:
    """Fit a negative binomial regression (NB2), including the dispersion.

    The columns of a name sum to a constant, so one of each is left out.
    """
    from statsmodels.discrete.discrete_model import NegativeBinomial as Regression

    x, test = (torch.cat([torch.ones(len(t), 1), t], 1).double() for t in (task.x, task.x_test))
    basis = independent(x)
    model = Regression(task.y.double().numpy().ravel(), x[:, basis].numpy())
    found = model.fit(method="bfgs", maxiter=2000, disp=0)
    coefficients = torch.tensor(found.params)
    likelihood = NegativeBinomial(total_count=1 / float(coefficients[-1]))
    z = (test[:, basis] @ coefficients[:-1]).unsqueeze(1)
    return likelihood.predictive(z, torch.zeros_like(z))


def independent(x: Tensor) -> list[int]:
    """Return the columns that are linearly independent of those before them."""
    kept: list[int] = []
    basis = x.new_zeros(len(x), 0)
    for k in range(x.shape[1]):
        left = x[:, k] - basis @ (basis.T @ x[:, k])
        if float(left.norm()) > 1e-6 * float(x[:, k].norm()):
            basis = torch.cat([basis, (left / left.norm()).unsqueeze(1)], 1)
            kept.append(k)
    return kept


# --- grades ------------------------------------------------------------------------------------


def by_coral(levels: int, epochs: int, rate: float) -> Model:
    """Fit a network with shared weights of the thresholds (Cao, Mirjalili & Raschka 2020)."""

    def fit(task: Task, seed: int) -> Predictive:
        from coral_pytorch.dataset import levels_from_labelbatch
        from coral_pytorch.layers import CoralLayer
        from coral_pytorch.losses import coral_loss

        with torch.random.fork_rng():
            torch.manual_seed(seed)
            body = list(network(task, 1, (50,)).children())[:-1]
            net = nn.Sequential(*body, CoralLayer(50, levels))
            optimizer = torch.optim.Adam(net.parameters(), lr=rate)
            for _ in range(epochs):
                for rows in torch.randperm(len(task.x)).split(16):
                    loss = coral_loss(
                        net(task.x[rows]), levels_from_labelbatch(task.y[rows], levels)
                    )
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
        with torch.no_grad():
            above = torch.sigmoid(net(task.x_test))
        ends = torch.ones(len(above), 1), torch.zeros(len(above), 1)
        probs = -torch.cat([ends[0], above, ends[1]], 1).diff(dim=1)
        probs = probs.clamp_min(1e-12)
        return CategoricalPredictive(probs / probs.sum(1, keepdim=True), ordered=True)

    return fit


# --- directions --------------------------------------------------------------------------------


def one_direction(task: Task, _: int) -> Predictive:
    """Fit one von Mises distribution to all rows by maximum likelihood."""
    y = task.y.double()
    along = torch.exp(1j * y).mean()
    likelihood = VonMises()
    kappa = likelihood.parameter_from_statistic(along.abs().reshape(1))
    z = torch.full_like(task.y_test, float(along.angle())).double()
    return VonMises(concentration=float(kappa)).predictive(z, torch.zeros_like(z))
