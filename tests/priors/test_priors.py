"""Priors against SciPy, quadrature and autograd."""

import math

import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats
import torch

from tractable import priors

MIXTURES = [(0.25, 1.0, math.exp(-6)), (0.5, math.exp(-1), math.exp(-8)), (0.75, 1.0, 0.5)]
ALL = [
    priors.Normal(0.7, 0.2),
    priors.Laplace(0.15, -0.1),
    priors.ScaleMixture(0.25, 1.0, 0.05),
    priors.as_prior(torch.distributions.StudentT(torch.tensor(3.0, dtype=torch.float64))),
]


@pytest.mark.parametrize(("pi", "sigma1", "sigma2"), MIXTURES)
def test_mixture_against_scipy_from_minus_50_to_50_sigma(pi, sigma1, sigma2):
    w = np.concatenate([s * np.linspace(-50, 50, 2001) for s in (sigma1, sigma2)])
    truth = scipy.special.logsumexp(
        [
            math.log(pi) + scipy.stats.norm(0, sigma1).logpdf(w),
            math.log(1 - pi) + scipy.stats.norm(0, sigma2).logpdf(w),
        ],
        axis=0,
    )
    prior = priors.ScaleMixture(pi, sigma1, sigma2)
    assert prior.log_prob(torch.from_numpy(w)).numpy() == pytest.approx(truth, rel=1e-12, abs=1e-12)
    single = prior.log_prob(torch.from_numpy(w).float())
    assert torch.isfinite(single).all()
    assert single.numpy() == pytest.approx(truth, rel=2e-6, abs=2e-6)
    assert torch.isfinite(prior.score(torch.from_numpy(w).float())).all()


@pytest.mark.parametrize("prior", ALL, ids=repr)
def test_score_is_the_derivative_of_the_log_density(prior):
    w = torch.linspace(-3, 3, 101, dtype=torch.float64) + 1e-3  # not at the kink
    leaf = w.clone().requires_grad_()
    (truth,) = torch.autograd.grad(prior.log_prob(leaf).sum(), leaf)
    assert torch.allclose(prior.score(w), truth, rtol=1e-10, atol=1e-10)
    out = torch.empty_like(w)
    assert prior.score(w, out=out) is out
    assert torch.allclose(out, truth, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("prior", [p for p in ALL if p.closed_form], ids=repr)
@pytest.mark.parametrize(("mu", "sigma"), [(0.0, 0.3), (1.5, 0.1), (-0.4, 2.0)])
def test_closed_divergence_against_quadrature(prior, mu, sigma):
    q = scipy.stats.norm(mu, sigma)

    def integrand(w):
        return q.pdf(w) * (
            q.logpdf(w) - prior.log_prob(torch.tensor(w, dtype=torch.float64)).item()
        )

    kink = getattr(prior, "mean", 0.0)
    ends = (mu - 12 * sigma, mu + 12 * sigma)
    inside = [kink] if ends[0] < kink < ends[1] else None
    truth, _ = scipy.integrate.quad(integrand, *ends, points=inside, epsabs=1e-10, limit=200)
    moments = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (mu, sigma)]
    value = prior.divergence(*moments)
    assert value.item() == pytest.approx(truth, abs=1e-8)
    by_autograd = torch.autograd.grad(value, moments)
    by_hand = prior.divergence_gradient(*(m.detach() for m in moments))
    assert torch.allclose(torch.stack(by_autograd), torch.stack(by_hand), atol=1e-12)
    sums = [torch.full((1,), 2.0, dtype=torch.float64) for _ in range(2)]
    prior.add_divergence_gradient(*(m.detach().view(1) for m in moments), 0.5, *sums)
    assert torch.allclose(torch.cat(sums), 2 + 0.5 * torch.stack(by_hand), atol=1e-12)


@pytest.mark.parametrize("prior", ALL, ids=repr)
def test_a_prior_survives_its_description(prior):
    again = priors.as_prior(prior.config())
    w = torch.linspace(-1, 1, 5, dtype=torch.float64)
    assert torch.allclose(again.log_prob(w), prior.log_prob(w))
    assert again.variance == pytest.approx(prior.variance)


def test_bad_priors_are_refused():
    for make in (priors.Normal, priors.Laplace):
        for bad in (0.0, -1.0, math.inf, math.nan):
            with pytest.raises(ValueError, match="positive"):
                make(bad)
    for pi in (0.0, 1.0, -0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match=r"\(0, 1\)"):
            priors.ScaleMixture(pi)
    with pytest.raises(ValueError, match="sigma2"):
        priors.ScaleMixture(0.5, 1.0, 0.0)
    with pytest.raises(TypeError, match="float"):
        priors.as_prior(0.1)
    with pytest.raises(ValueError, match="one weight at a time"):
        priors.as_prior(torch.distributions.Normal(torch.zeros(2), torch.ones(2)))
    with pytest.raises(ValueError, match="unknown prior"):
        priors.as_prior({"name": "of the user's own"})


@pytest.mark.parametrize("name", ["Normal", "Laplace"])
def test_parameters_are_checked_even_where_another_library_turned_checks_off(name):
    base = torch.distributions.Distribution
    before = base._validate_args
    base.set_default_validate_args(False)
    try:
        with pytest.raises(ValueError, match="scale"):
            priors.as_prior({"name": f"torch.distributions.{name}", "loc": 0.0, "scale": -1.0})
        with pytest.raises(ValueError, match="unknown prior"):
            priors.as_prior({"name": "torch.distributions.Distribution"})
    finally:
        base.set_default_validate_args(before)
