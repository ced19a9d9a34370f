"""Evidence and messages against numerical integration of torch's own densities."""

import math

import mpmath
import pytest
import torch
import torch.distributions as dist

from tractable.likelihoods import (
    Bernoulli,
    FromDistribution,
    Joint,
    Laplace,
    Mixture,
    MultivariateNormal,
    NegativeBinomial,
    Normal,
    Ordinal,
    Poisson,
    StudentT,
    VonMises,
)

D = torch.float64
VARIANCES = [1e-6, 1e-3, 0.1, 1.0, 10.0]
POINTS = 40_001


def one(value, dtype=D):
    return torch.tensor([[value]], dtype=dtype)


def integral(log_density, mean, variance, peaks=()):
    """Log evidence, posterior mean and variance by a dense sum of even points.

    First over all that may count, then over what does.
    """
    std = math.sqrt(variance)
    low, high = (way([mean, *peaks]) for way in (min, max))
    low, high = (low - mean) / std - 12, (high - mean) / std + 12
    for _ in range(3):
        e = torch.linspace(low, high, POINTS, dtype=D)
        log_terms = log_density(mean + std * e) - 0.5 * e * e
        counts = e[log_terms > log_terms.max() - 60]
        step = (high - low) / (POINTS - 1)
        last = log_terms, e, step
        low, high = float(counts[0]) - 3 * step, float(counts[-1]) + 3 * step
    log_terms, e, step = last
    log_sum = log_terms.logsumexp(0)
    weight = (log_terms - log_sum).exp()
    shift = (weight * e).sum()
    left = (weight * (e - shift) ** 2).sum()
    evidence = float(log_sum) + math.log(step) - 0.5 * math.log(2 * math.pi)
    return evidence, std * float(shift), variance * float(left)


def check(likelihood, y, mean, variance, log_density, *, peaks=(), tolerance=1e-9):
    """Return the evidence, and posterior mean and variance from the messages."""
    evidence, shift, left = integral(log_density, mean, variance, peaks)
    m, v = one(mean), one(variance)
    got = float(likelihood.log_evidence(y, m, v))
    assert got == pytest.approx(evidence, rel=tolerance, abs=tolerance)
    d_mu, d_var = (float(d) for d in likelihood.messages(y, m, v))
    std = math.sqrt(variance)
    assert variance * d_mu == pytest.approx(shift, rel=1e-7, abs=1e-7 * std)
    posterior = variance + variance**2 * d_var
    assert posterior == pytest.approx(min(left, variance), rel=1e-6, abs=1e-7 * variance)
    assert 0 <= posterior <= variance * (1 + 1e-12)


@pytest.mark.parametrize("variance", VARIANCES)
@pytest.mark.parametrize("y", [0.0, 1.0, 40.0, 400.0, 1e4])
def test_counts(y, variance):
    def poisson(z):
        return dist.Poisson(z.exp(), validate_args=False).log_prob(torch.tensor(y, dtype=D))

    def negative_binomial(z):
        logits = z - math.log(2.5)
        r = torch.tensor(2.5, dtype=D)
        return dist.NegativeBinomial(r, logits=logits, validate_args=False).log_prob(
            torch.tensor(y, dtype=D)
        )

    peaks = (math.log(y + 0.5),)
    for mean in (-2.0, 3.0, 8.0):
        check(Poisson(), one(y), mean, variance, poisson, peaks=peaks)
        check(NegativeBinomial(2.5), one(y), mean, variance, negative_binomial, peaks=peaks)


@pytest.mark.parametrize("variance", VARIANCES)
def test_counts_in_proportion_to_the_output(variance):
    for y, mean in ((0.0, -2.0), (3.0, 0.5), (200.0, 150.0), (50.0, -3.0)):

        def density(z, y=y):
            return dist.Poisson(torch.nn.functional.softplus(z), validate_args=False).log_prob(
                torch.tensor(y, dtype=D)
            )

        check(Poisson("softplus"), one(y), mean, variance, density, peaks=(y,))


@pytest.mark.parametrize("variance", VARIANCES)
def test_logits(variance):
    for y in (0, 1):

        def density(z, y=y):
            return dist.Bernoulli(logits=z).log_prob(torch.tensor(float(y), dtype=D))

        for mean in (-20.0, -1.0, 0.3, 5.0):
            check(Bernoulli("logit"), one(y, torch.int64), mean, variance, density)


@pytest.mark.parametrize("variance", VARIANCES)
def test_heavy_tails(variance):
    for df, scale in ((1.0, 0.5), (4.0, 0.3), (30.0, 1.0)):
        for y, mean in ((0.0, 0.1), (1.0, -1.0), (7.0, 0.0), (-30.0, 1.0)):

            def density(z, df=df, scale=scale, y=y):
                return dist.StudentT(df, z, scale).log_prob(torch.tensor(y, dtype=D))

            # the spacing of the points is that of the narrower of the two
            likelihood = StudentT(df, scale)
            check(likelihood, one(y), mean, variance, density, peaks=(y,), tolerance=1e-7)


@pytest.mark.parametrize("variance", VARIANCES)
def test_grades(variance):
    likelihood = Ordinal(4, [-1.0, 0.2, 2.0])
    edges = torch.tensor([-math.inf, -1.0, 0.2, 2.0, math.inf], dtype=D)
    for y, mean in ((0, 0.3), (1, -4.0), (2, 1.0), (3, -2.0)):

        def density(z, y=y):
            low, high = edges[y] - z, edges[y + 1] - z
            turned = low > 0  # the smaller tails, so that their difference is exact
            a, b = torch.where(turned, -high, low), torch.where(turned, -low, high)
            return (torch.special.ndtr(b) - torch.special.ndtr(a)).log()

        check(likelihood, one(y, torch.int64), mean, variance, density, tolerance=1e-12)


@pytest.mark.parametrize("kappa", [0.3, 6.0, 80.0, 1000.0])
@pytest.mark.parametrize("variance", VARIANCES)
def test_directions(variance, kappa):
    k = torch.tensor(kappa, dtype=D)
    constant = (2 * math.pi * torch.special.i0e(k)).log()
    for y, mean in ((0.0, 0.1), (1.5, 0.5), (3.0, -3.0), (-2.0, 1.0)):

        def density(z, y=y):
            return k * (torch.cos(y - z) - 1) - constant

        evidence, shift, left = integral(density, mean, variance, (mean - 5.0, mean + 5.0))
        m, v = one(mean), one(variance)
        likelihood = VonMises(kappa)
        assert float(likelihood.log_evidence(one(y), m, v)) == pytest.approx(
            evidence, rel=1e-11, abs=1e-11
        )
        d_mu, d_var = (float(d) for d in likelihood.messages(one(y), m, v))
        assert variance * d_mu == pytest.approx(shift, rel=1e-7, abs=1e-7 * math.sqrt(variance))
        posterior = variance + variance**2 * d_var
        assert posterior == pytest.approx(min(left, variance), rel=1e-6, abs=1e-7 * variance)


def test_least_absolute_deviations():
    """In closed form: twelve digits, by the arithmetic of mpmath."""
    mpmath.mp.dps = 30
    for b, y, mean, variance in (
        (0.3, 0.0, 0.1, 1e-6), (0.3, 1.0, -1.0, 0.1), (5.0, 7.0, 0.0, 10.0), (0.05, -3.0, 2.0, 1.0),
    ):  # fmt: skip
        std = math.sqrt(variance)

        def term(z, k=0, b=b, y=y, mean=mean, variance=variance):
            log = -abs(y - z) / b - (z - mean) ** 2 / (2 * variance)
            return (z - mean) ** k * mpmath.exp(log)

        mode = max(min(y, mean + variance / b), mean - variance / b)
        points = sorted({mode + k * std for k in (-12, -4, -1, 0, 1, 4, 12)} | {y})
        points = [p for p in points if mode - 12 * std <= p <= mode + 12 * std]
        total, first, second = (mpmath.quad(lambda z, k=k: term(z, k), points) for k in (0, 1, 2))
        scale = 2 * b * math.sqrt(2 * math.pi * variance)
        likelihood = Laplace(b)
        got = float(likelihood.log_evidence(one(y), one(mean), one(variance)))
        assert got == pytest.approx(float(mpmath.log(total / scale)), rel=1e-12, abs=1e-12)
        d_mu, d_var = (float(d) for d in likelihood.messages(one(y), one(mean), one(variance)))
        shift = first / total
        assert variance * d_mu == pytest.approx(float(shift), rel=1e-9)
        left = float(second / total - shift**2)
        assert variance + variance**2 * d_var == pytest.approx(left, rel=1e-7)


def test_correlated_noise():
    covariance = [[0.5, 0.3], [0.3, 0.4]]
    y, mean = torch.randn(2, 5, 2, dtype=D, generator=torch.Generator().manual_seed(0))
    for variance in VARIANCES:
        v = torch.full((5, 2), variance, dtype=D)
        total = torch.tensor(covariance, dtype=D) + torch.diag_embed(v)
        truth = dist.MultivariateNormal(mean, total).log_prob(y)
        got = MultivariateNormal(2, covariance).log_evidence(y, mean, v)
        torch.testing.assert_close(got, truth, rtol=1e-12, atol=1e-12)


def test_mixtures_of_known_weights_are_torchs():
    z = torch.randn(6, 9, dtype=D, generator=torch.Generator().manual_seed(1))
    y = torch.linspace(-2, 2, 6, dtype=D).unsqueeze(1)
    weights = dist.Categorical(logits=z[:, :3])
    mixed = dist.MixtureSameFamily(weights, dist.Normal(z[:, 3:6], 0.4))
    got = Mixture(Normal(0.4), 3).log_prob(y, z[:, :6])
    torch.testing.assert_close(got, mixed.log_prob(y.squeeze(1)), rtol=1e-12, atol=1e-12)
    v = torch.rand(6, 6, dtype=D, generator=torch.Generator().manual_seed(2))
    v[:, :3] = 0
    wide = dist.MixtureSameFamily(weights, dist.Normal(z[:, 3:6], (0.16 + v[:, 3:]).sqrt()))
    got = Mixture(Normal(0.4), 3).log_evidence(y, z[:, :6], v)
    torch.testing.assert_close(got, wide.log_prob(y.squeeze(1)), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("variance", VARIANCES)
def test_any_distribution_with_one_output(variance):
    def gamma(z):
        return dist.Gamma(torch.full_like(z, 2.0), 2 * torch.exp(-z), validate_args=False)

    for y, mean in ((0.01, 1.0), (3.0, 0.5), (200.0, -1.0)):

        def density(z, y=y):
            return gamma(z).log_prob(torch.tensor(y, dtype=D))

        check(
            FromDistribution(gamma),
            one(y),
            mean,
            variance,
            density,
            peaks=(math.log(y),),
            tolerance=1e-8,
        )


def test_any_distribution_with_two_outputs():
    """Against a normal with a log-normal noise, integrated on a dense grid."""

    def normal(z):
        return dist.Normal(z[..., 0], torch.exp(z[..., 1] / 2))

    y, mean = one(1.3), torch.tensor([[0.2, -0.5]], dtype=D)
    for variance, tolerance in ((1e-6, 1e-9), (0.1, 1e-7), (2.0, 2e-5)):
        v = torch.full_like(mean, variance)
        e = torch.linspace(-9, 9, 601, dtype=D)
        grid = mean + math.sqrt(variance) * torch.cartesian_prod(e, e)
        log_terms = normal(grid).log_prob(y).flatten() - 0.5 * torch.cartesian_prod(
            e, e
        ).square().sum(1)
        truth = log_terms.logsumexp(0) + 2 * math.log(18 / 600) - math.log(2 * math.pi)
        got = FromDistribution(normal, outputs=2).log_evidence(y, mean, v)
        assert float(got) == pytest.approx(float(truth), abs=tolerance)


def test_log_evidence_is_summed_over_parts_and_observed_targets():
    joint = Joint(Poisson(), Laplace(0.5), Normal(0.2))
    mean = torch.randn(3, 3, dtype=D, generator=torch.Generator().manual_seed(3))
    variance = torch.full_like(mean, 0.3)
    nan = math.nan
    y = torch.tensor([[2.0, 0.1, 1.0], [nan, 0.1, nan], [1.0, nan, 0.0]], dtype=D)
    first = sum(
        part.log_evidence(y[:1, k : k + 1], mean[:1, k : k + 1], variance[:1, k : k + 1])
        for k, part in enumerate(joint.part_list)
    )
    got = joint.log_evidence(y, mean, variance)
    torch.testing.assert_close(got[:1], first)
    d_mu, d_var = joint.messages(y, mean, variance)
    assert torch.equal((d_mu != 0) & (d_var != 0), ~y.isnan())
    own = Laplace(0.5).messages(y[1:2, 1:2], mean[1:2, 1:2], variance[1:2, 1:2])
    torch.testing.assert_close(torch.stack([d_mu[1, 1], d_var[1, 1]]), torch.stack(own).flatten())
