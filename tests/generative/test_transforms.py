"""Every transform: inverse, log determinant, mass, samples; and the cases of UDL, chapter 16."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import integrate
from torch import nn

from tractable.generative import ComposedFlow
from tractable.generative import transforms as T

DOUBLE = torch.float64


def rows(n, columns, seed=0, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(n, columns, generator=generator, dtype=DOUBLE)


def drawn(module, seed=0, scale=0.3):
    """Return the module in double precision, with perturbed parameters."""
    module = module.double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in module.parameters():
            p.add_(scale * torch.randn(p.shape, generator=generator, dtype=DOUBLE))
    return module.eval()


class Plain(nn.Module):
    """A module of a transform without parameters."""

    def __init__(self, transform):
        super().__init__()
        self.transform = transform

    def forward(self, context=None):
        return self.transform


def spline(d):
    """Zuko's neural spline flow as it is, behind one of ours."""
    zuko = pytest.importorskip("zuko")
    flow = zuko.flows.NSF(d, transforms=1, hidden_features=(8,))
    return zuko.flows.core.LazyComposedTransform(T.Linear(d), *flow.transform.transforms)


MODULES = {
    "linear": lambda d: T.Linear(d),
    "piecewise": lambda d: T.PiecewiseLinear(d, bins=6, bound=3.0),
    "planar": lambda d: T.Planar(d),
    "residual": lambda d: T.Residual(columns=d),
    "residual, series": lambda d: T.Residual(
        T.Contraction(d, (16,), bound=0.5), log_det="series", n_terms=40
    ),
    "leaky": lambda d: Plain(T.LeakyReLUTransform(0.3)),
    "spline": spline,
    "reversible": lambda d: T.Reversible(max(d, 2)),
    "multi-scale": lambda d: T.MultiScale(
        [T.Linear(max(d, 2)), T.Planar(max(d, 2) - 1)], [max(d, 2) - 1, max(d, 2) - 1]
    ),
    "squeezed": lambda d: T.MultiScale([T.Squeeze(1, 2, 2), T.Linear(4), T.Planar(2)], [4, 2, 1]),
}


def made(name, d):
    d = max(d, 2) if name in ("reversible", "multi-scale") else 4 if name == "squeezed" else d
    return drawn(MODULES[name](d)), d


@pytest.mark.parametrize("d", [1, 2, 4, 6])
@pytest.mark.parametrize("name", MODULES)
def test_inverse_and_log_determinant(name, d):
    module, d = made(name, d)
    transform = module(None)
    x = rows(7, d)
    within = 1e-9 if name != "spline" else 1e-6  # zuko's roots of a quadratic
    with torch.no_grad():
        y, log_det = transform.call_and_ladj(x)
        assert torch.allclose(transform.inv(y), x, rtol=0, atol=within)
        assert torch.equal(transform(x), y)
        assert torch.equal(transform.log_abs_det_jacobian(x, y), log_det)
    for k in range(len(x)):
        jacobian = torch.autograd.functional.jacobian(lambda row: transform(row[None])[0], x[k])
        exact = torch.linalg.slogdet(jacobian).logabsdet
        assert float(log_det[k]) == pytest.approx(float(exact), abs=1e-9)


@pytest.mark.parametrize("name", [name for name in MODULES if name != "squeezed"])
def test_density_integrates_to_one_and_samples_match(name):
    module, d = made(name, 2)
    assert d == 2
    distribution = ComposedFlow([module], 2).double()()
    number = 281
    side = torch.linspace(-9.97, 9.99, number, dtype=DOUBLE)  # not on the edges of bins
    grid = torch.cartesian_prod(side, side)
    with torch.no_grad():
        density = distribution.log_prob(grid).exp().reshape(number, number).numpy()
        torch.manual_seed(0)
        sample = distribution.rsample((20_000,)).numpy()
    step = float(side[1] - side[0])
    tolerance = 2e-2 if name in ("piecewise", "leaky") else 1e-4  # a density with jumps
    assert density.sum() * step**2 == pytest.approx(1, abs=tolerance)
    # The share of samples in boxes against the integral of the density.
    edges = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    counts = np.histogram2d(sample[:, 0], sample[:, 1], [edges, edges])[0] / len(sample)
    cell = np.digitize(side.numpy(), edges) - 1
    for i, j in itertools.product(range(4), range(4)):
        mass = density[np.ix_(cell == i, cell == j)].sum() * step**2
        se = math.sqrt(max(mass, 1e-4) / len(sample))
        assert abs(counts[i, j] - mass) < 5 * se + 0.012  # edges cut cells of the grid


def test_samples_of_a_squeezed_flow_have_its_density():
    """Of four columns no grid: importance weights average to one, and give the same means."""
    module, _ = made("squeezed", 4)
    distribution = ComposedFlow([module], 4).double()()
    torch.manual_seed(0)
    n = 200_000
    with torch.no_grad():
        sample = distribution.rsample((n,))
        wide = torch.distributions.MultivariateNormal(sample.mean(0), 1.5 * sample.T.cov())
        z = wide.sample((n,))
        weight = (distribution.log_prob(z) - wide.log_prob(z)).exp()
    assert float(weight.mean()) == pytest.approx(1, abs=4 * float(weight.std()) / math.sqrt(n))
    for k in range(4):
        ours, theirs = sample[:, k], weight * z[:, k]
        error = math.sqrt((float(ours.var()) + float(theirs.var())) / n)
        assert abs(float(ours.mean() - theirs.mean())) < 4 * error


@pytest.mark.parametrize("kind", [T.PiecewiseLinearTransform, T.SquareRootTransform])
def test_maps_of_the_unit_interval_make_a_density(kind):
    """Uniform between the ends after the map: inverse, slope, mass and samples before it."""
    transform = kind(PHI)
    ends = transform(torch.tensor([[0.0], [1.0]], dtype=DOUBLE)).flatten()
    edges = np.arange(6) / 5
    mass = [
        integrate.quad(
            lambda v: float(
                transform.log_abs_det_jacobian(torch.tensor([v], dtype=DOUBLE), None).exp()
            ),
            low, high,
        )[0] / float(ends[1] - ends[0])
        for low, high in itertools.pairwise(edges)
    ]  # fmt: skip
    assert sum(mass) == pytest.approx(1, abs=1e-6)
    u = torch.rand(20_000, 1, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    sample = transform.inv(ends[0] + (ends[1] - ends[0]) * u).numpy()
    found = np.histogram(sample, edges)[0] / len(sample)
    assert np.abs(found - mass).max() < 4 * 0.5 / math.sqrt(len(sample))
    x = torch.tensor([[0.03, 0.37, 0.71, 0.99]], dtype=DOUBLE)
    jacobian = torch.autograd.functional.jacobian(lambda row: transform(row[None])[0], x[0])
    exact = torch.linalg.slogdet(jacobian).logabsdet
    assert float(transform.log_abs_det_jacobian(x, None)) == pytest.approx(float(exact), abs=1e-9)
    assert torch.allclose(transform.inv(transform(x)), x, rtol=0, atol=1e-9)


def test_flw_01_and_02_change_of_variables():
    square = torch.distributions.TransformedDistribution(
        torch.distributions.Uniform(torch.tensor(0.0, dtype=DOUBLE), 1.0),
        torch.distributions.PowerTransform(torch.tensor(2.0, dtype=DOUBLE)),
    )
    assert float(square.log_prob(torch.tensor(0.25, dtype=DOUBLE)).exp()) == pytest.approx(1.0)
    sigmoid = torch.distributions.TransformedDistribution(
        torch.distributions.Normal(torch.tensor(0.0, dtype=DOUBLE), 1.0),
        torch.distributions.SigmoidTransform(),
    )
    at = torch.tensor([0.5, 0.25, 0.9], dtype=DOUBLE)
    wanted = [1.595769122, 1.163652098, 0.396574704]
    assert sigmoid.log_prob(at).exp().tolist() == pytest.approx(wanted, abs=1e-9)
    for distribution in (square, sigmoid):
        mass, _ = integrate.quad(
            lambda v, p=distribution: float(p.log_prob(torch.tensor(v, dtype=DOUBLE)).exp()), 0, 1
        )
        assert mass == pytest.approx(1, abs=1e-6)


def test_flw_03_linear():
    first = torch.diag(torch.tensor([2.0, -5.0, 1.0, 2.0], dtype=DOUBLE))
    second = torch.tensor([[1, 0, 0, 0], [2, 4, 0, 0], [1, -1, 2, 0], [4, -2, -2, 1]], dtype=DOUBLE)
    wanted = torch.tensor(
        [[1, 0, 0, 0], [-0.5, 0.25, 0, 0], [-0.75, 0.125, 0.5, 0], [-6.5, 0.75, 1, 1]], dtype=DOUBLE
    )
    zero = torch.zeros(4, dtype=DOUBLE)
    for matrix, det in ((first, 20.0), (second, 8.0)):
        transform = T.LinearTransform(matrix, zero)
        assert float(transform.log_abs_det_jacobian(zero, zero)) == pytest.approx(math.log(det))
    found = T.LinearTransform(second, zero).inv(torch.eye(4, dtype=DOUBLE))
    assert torch.allclose(found.T, wanted, rtol=0, atol=1e-12)


def test_flw_05_leaky_relu():
    transform = T.LeakyReLUTransform(0.1)
    x = torch.tensor([[-1.0, 2.0, -0.3]], dtype=DOUBLE)
    y, log_det = transform.call_and_ladj(x)
    assert torch.allclose(transform.inv(y), x)
    assert float((-log_det).exp()) == pytest.approx(10**2)
    with pytest.raises(ValueError, match="positive"):
        T.LeakyReLUTransform(0.0)


PHI = torch.tensor([0.1, 0.2, 0.5, 0.1, 0.1], dtype=DOUBLE)
AT = torch.tensor([0, 0.1, 0.3, 0.5, 0.75, 1.0], dtype=DOUBLE).unsqueeze(1)


def test_flw_06_piecewise_linear():
    transform = T.PiecewiseLinearTransform(PHI)
    y = transform(AT)
    assert y.squeeze(1).tolist() == pytest.approx([0, 0.05, 0.2, 0.55, 0.875, 1.0])
    assert torch.allclose(transform.inv(y), AT, atol=1e-12)
    x = torch.tensor([[0.1, 0.3, 0.5]], dtype=DOUBLE)
    log_det = transform.log_abs_det_jacobian(x, x)
    assert float(log_det.exp()) == pytest.approx(5**3 * 0.1 * 0.2 * 0.5)


def test_flw_07_square_roots():
    transform = T.SquareRootTransform(PHI)
    y = transform(AT).squeeze(1)
    wanted = [0, 0.223606798, 0.632455532, 1.263441362, 1.744409421, 2.103003675]
    assert y.tolist() == pytest.approx(wanted, abs=1e-9)
    fine = torch.linspace(0, 1, 1001, dtype=DOUBLE).unsqueeze(1)
    values = transform(fine).squeeze(1)
    assert (values.diff() > 0).all()
    assert values.diff().max() < 0.05  # continuous at the edges of bins
    assert torch.allclose(transform.inv(transform(fine)), fine, atol=1e-12)
    at = torch.tensor([[0.37]], dtype=DOUBLE, requires_grad=True)
    (slope,) = torch.autograd.grad(transform(at).sum(), at)
    assert float(transform.log_abs_det_jacobian(at, at).detach()) == pytest.approx(
        float(slope.log()), abs=1e-9
    )


J = torch.tensor([[0.3, 0.2], [-0.1, 0.4]], dtype=DOUBLE)


def test_flw_09_series_of_the_log_determinant():
    assert float(T.log_det_series(J, 5)) == pytest.approx(0.609422333, abs=1e-9)
    assert float(T.log_det_series(J, 10)) == pytest.approx(0.609767606, abs=1e-9)
    assert float(T.log_det_series(J, 200)) == pytest.approx(0.609765572, abs=1e-9)
    transform = T.ResidualTransform(lambda x: x @ J.T, "exact")
    assert float(transform.call_and_ladj(rows(1, 2))[1]) == pytest.approx(0.609765572, abs=1e-9)
    series = T.ResidualTransform(lambda x: x @ J.T, "series", n_terms=5)
    assert float(series.call_and_ladj(rows(1, 2))[1]) == pytest.approx(0.609422333, abs=1e-9)


def test_flw_10_fixed_point():
    transform = T.ResidualTransform(lambda x: 0.5 * torch.tanh(x))
    found = transform.inv(torch.tensor([[1.0]], dtype=DOUBLE))
    assert float(found) == pytest.approx(0.698342636, abs=1e-9)
    x, errors = torch.tensor(1.0, dtype=DOUBLE), []
    for _ in range(8):
        errors.append(abs(float(x) - 0.6983426364))
        x = 1.0 - 0.5 * torch.tanh(x)
    assert all(b <= 0.5 * a for a, b in itertools.pairwise(errors))
    with pytest.raises(ArithmeticError, match="not a contraction"):
        T.ResidualTransform(lambda x: 3 * x).inv(torch.tensor([[1.0]]))


def test_flw_11_hutchinson():
    A = torch.tensor([[1, 2, 0], [0.5, -1, 3], [1, 1, 2]], dtype=DOUBLE)
    signs = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=3)), dtype=DOUBLE)
    found = T.hutchinson_trace(lambda v: v @ A.T, signs)
    assert float(found.mean()) == pytest.approx(2.0)
    assert float(found.var(correction=0)) == pytest.approx(23.25)
    normal = T.hutchinson_trace(lambda v: v @ A.T, rows(400_000, 3))
    assert float(normal.mean()) == pytest.approx(2.0, abs=4 * math.sqrt(35.25 / 400_000))
    assert float(normal.var()) == pytest.approx(35.25, rel=0.03)


def test_estimated_log_determinant_is_unbiased_for_its_series():
    torch.manual_seed(0)
    f = drawn(T.Contraction(3, (8,), bound=0.5), scale=0.1)
    x = rows(1, 3).repeat(4000, 1)
    with torch.no_grad():
        found = T.ResidualTransform(f, "hutchinson", n_terms=12).call_and_ladj(x)[1]
        exact = T.ResidualTransform(f, "exact").call_and_ladj(x[:1])[1]
    se = float(found.std()) / math.sqrt(len(found))
    assert abs(float(found.mean()) - float(exact)) < 4 * se + 1e-4


def test_gradients_reach_the_weights_through_every_log_determinant():
    f = T.Contraction(2, (4,)).double()
    for kind in ("exact", "series", "hutchinson"):
        y, log_det = T.ResidualTransform(f, kind).call_and_ladj(rows(5, 2))
        gradients = torch.autograd.grad(log_det.sum() + y.sum(), list(f.parameters()))
        assert all(bool(g.isfinite().all()) for g in gradients)
        assert sum(float(g.abs().sum()) for g in gradients) > 0


def test_contractions_contract():
    for seed in range(5):
        f = drawn(T.Contraction(3, (16, 16), bound=0.9), seed, scale=1.0)
        a, b = rows(500, 3, 1, 3.0), rows(500, 3, 2, 3.0)
        with torch.no_grad():
            ratio = (f(a) - f(b)).norm(dim=1) / (a - b).norm(dim=1)
        assert float(ratio.max()) <= 0.9


def test_flw_15_coupling_of_zuko():
    zuko = pytest.importorskip("zuko")

    def conditioned(h):
        affine = zuko.transforms.AffineTransform(h**2, torch.exp(0.5 * torch.tanh(h)))
        return zuko.transforms.DependentTransform(affine, 1)

    transform = zuko.transforms.CouplingTransform(conditioned, torch.tensor([True, False]))
    x = torch.tensor([0.7, -1.2], dtype=DOUBLE)
    y, log_det = transform.call_and_ladj(x)
    assert y.tolist() == pytest.approx([0.7, -1.133371964], abs=1e-8)
    assert float(log_det) == pytest.approx(0.302183889, abs=1e-8)


def test_ours_and_zukos_in_one_flow():
    zuko = pytest.importorskip("zuko")
    theirs = zuko.flows.MAF(2, 0, transforms=1, hidden_features=(8,)).transform
    both = ComposedFlow([T.Planar(2), theirs], 2)()
    x = torch.randn(5, 2)
    first, log_det = both.transforms[0].call_and_ladj(x)
    second, more = both.transforms[1].call_and_ladj(first)
    exact = both.base.log_prob(second) + log_det + more
    assert torch.allclose(both.log_prob(x), exact)
    flow = zuko.flows.Flow([T.Planar(2), T.Planar(2)], zuko.flows.MAF(2).base)
    assert flow().log_prob(x).shape == (5,)


def test_squeeze():
    x = torch.arange(2 * 16.0).reshape(1, 32)
    transform = T.Squeeze(2, 4, 4)(None)
    y = transform(x)
    first = x.reshape(2, 4, 4)[0]
    assert torch.equal(y.reshape(8, 2, 2)[0], first[::2, ::2])
    assert torch.equal(y.reshape(8, 2, 2)[3], first[1::2, 1::2])
    assert torch.equal(transform.inv(y), x)
    with pytest.raises(ValueError, match="even"):
        T.SqueezeTransform(1, 3, 4)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: T.MultiScale([T.Linear(2)], [2, 1]),
        lambda: T.MultiScale([T.Linear(2), T.Linear(2)], [1, 2]),
        lambda: T.PiecewiseLinear(2, bins=1),
        lambda: T.Contraction(2, bound=1.0),
        lambda: T.Reversible(1),
        lambda: T.ResidualTransform(nn.Identity(), "roughly"),
    ],
)
def test_bad_arguments(bad):
    with pytest.raises(ValueError, match=r"must|fewer|at least|got"):
        bad()


def test_one_dimensional_flow_integrates_to_one():
    module = drawn(T.Planar(1), scale=1.0)
    distribution = ComposedFlow([module, drawn(T.Linear(1))], 1).double()()
    with torch.no_grad():
        mass, _ = integrate.quad(
            lambda v: float(distribution.log_prob(torch.tensor([[v]], dtype=DOUBLE)).exp()),
            -20, 20, limit=300, points=[0.0],
        )  # fmt: skip
    assert mass == pytest.approx(1, abs=1e-6)
