"""Distances between samples: closed forms, other implementations, published cases."""

import math
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
import torch
from scipy.integrate import quad
from torch.distributions import Normal, kl_divergence

from tractable import metrics
from tractable.errors import MissingExtra


def normals(seed, *shape, shift=0.0, scale=1.0):
    return shift + scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# --- energy distance, MMD ----------------------------------------------------------------------


def test_energy_distance_is_scipys_in_one_dimension():
    a, b = normals(0, 50), normals(1, 70, shift=0.4, scale=1.5)
    theirs = scipy.stats.energy_distance(a.numpy(), b.numpy()) ** 2
    assert metrics.energy_distance(a, b) == pytest.approx(theirs, rel=1e-6)


def test_energy_distance_of_shifted_normals_has_a_closed_form():
    """In d dimensions by E|x| of normal differences; the unbiased one within its error."""
    shift = 1.0
    truth = 2 * quad(lambda t: abs(t) * scipy.stats.norm.pdf(t, shift, math.sqrt(2)), -20, 20)[0]
    truth -= 2 * 2 / math.sqrt(math.pi)
    found = [
        metrics.energy_distance(normals(s, 300), normals(100 + s, 300, shift=shift), unbiased=True)
        for s in range(12)
    ]
    error = np.std(found, ddof=1) / math.sqrt(12)
    assert abs(np.mean(found) - truth) < 4 * error
    assert error < 0.1 * truth


def test_mmd_of_normals_has_a_closed_form():
    """E k(x, y) of two normals is a normal density of their means' difference."""
    h, shift = 0.8, 1.0

    def kernel(gap, variance):
        return h / math.sqrt(h**2 + variance) * math.exp(-0.5 * gap**2 / (h**2 + variance))

    truth = 2 * kernel(0.0, 2.0) - 2 * kernel(shift, 2.0)
    found = [
        metrics.squared_mmd(normals(s, 300), normals(100 + s, 300, shift=shift), bandwidth=h)
        for s in range(12)
    ]
    error = np.std(found, ddof=1) / math.sqrt(12)
    assert abs(np.mean(found) - truth) < 4 * error
    assert error < 0.1 * truth


@pytest.mark.parametrize("distance", [metrics.energy_distance, metrics.squared_mmd])
def test_unbiased_distances_of_equal_distributions_are_zero_on_average(distance):
    found = [distance(normals(s, 60, 3), normals(500 + s, 40, 3), unbiased=True) for s in range(60)]
    assert abs(np.mean(found)) < 4 * np.std(found, ddof=1) / math.sqrt(60)
    assert min(found) < 0 < max(found)


def test_blocks_make_no_difference(monkeypatch):
    a, b = normals(0, 37, 2), normals(1, 23, 2)
    whole = metrics.energy_distance(a, b, unbiased=True), metrics.squared_mmd(a, b)
    monkeypatch.setattr("tractable.metrics.sample_distances._MAX_DISTANCES", 100)
    parts = metrics.energy_distance(a, b, unbiased=True), metrics.squared_mmd(a, b)
    assert parts == pytest.approx(whole, rel=1e-12)


# --- Wasserstein -------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_wasserstein_is_scipys(weighted):
    a, b = normals(0, 40), normals(1, 33, shift=0.3, scale=2.0)
    u = normals(2, 40).abs() if weighted else None
    v = normals(3, 33).abs() if weighted else None
    theirs = scipy.stats.wasserstein_distance(
        a.double().numpy(), b.double().numpy(), *(w.numpy() for w in (u, v) if w is not None)
    )
    assert metrics.wasserstein(a, b, a_weights=u, b_weights=v) == pytest.approx(theirs, rel=1e-6)


def test_squared_wasserstein_of_samples_of_unequal_sizes_is_the_linear_program():
    a, b = normals(0, 5).double(), normals(1, 7, shift=1.0).double()
    cost = (a[:, None] - b[None]) ** 2
    program, plan, _ = metrics.optimal_transport_plan(
        torch.full((5,), 1 / 5), torch.full((7,), 1 / 7), cost
    )
    assert metrics.wasserstein(a, b, p=2) ** 2 == pytest.approx(program, rel=1e-6)
    assert torch.allclose(plan.sum(0), torch.full((7,), 1 / 7).double(), atol=1e-6)


def dense_earth_mover(p, q, cost):
    """The cost of the linear program with its matrix written out."""
    found = scipy.optimize.linprog(
        cost.flatten().numpy(), A_eq=metrics.transport_constraints(*cost.shape).numpy(),
        b_eq=torch.cat([p, q]).numpy(), method="highs",
    )  # fmt: skip
    return found.fun


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 6), (5, 1), (4, 9), (20, 20), (30, 13)])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("seed", range(3))
def test_the_cheapest_plan_is_that_of_the_dense_program(rows, columns, scale, seed):
    generator = torch.Generator().manual_seed(seed)
    p, q = (torch.rand(n, generator=generator).double() for n in (rows, columns))
    p, q = p / p.sum(), q / q.sum()
    cost = scale * torch.rand(rows, columns, generator=generator).double()
    found, plan, dual = metrics.optimal_transport_plan(p, q, cost)
    theirs = dense_earth_mover(p, q, cost)
    assert found == pytest.approx(theirs, rel=1e-9, abs=1e-12 * scale)
    assert found == pytest.approx(float((plan * cost).sum()), rel=1e-9, abs=1e-12 * scale)
    assert torch.allclose(plan.sum(1), p, atol=1e-9)
    assert torch.allclose(plan.sum(0), q, atol=1e-9)
    # Strong duality: with f the dual of p, the best g is the least of cost - f along each column.
    other = (cost - dual[:, None]).amin(0)
    assert float(dual @ p + other @ q) == pytest.approx(found, rel=1e-6, abs=1e-9 * scale)


def test_the_cheapest_plan_needs_little_memory():
    """Of 300 by 300 outcomes the dense matrix alone would be 412 MiB."""
    code = """
        import resource, scipy.optimize, torch
        from tractable import metrics
        p = torch.full((300,), 1 / 300).double()
        places = torch.rand(2, 300, 2, generator=torch.Generator().manual_seed(0)).double()
        metrics.optimal_transport_plan([0.5, 0.5], [0.5, 0.5])  # which imports what it needs
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        metrics.optimal_transport_plan(p, p, torch.cdist(*places))
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    run = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 250 * 1024  # KiB


def test_without_scipy_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(MissingExtra, match=re.escape("pip install 'tractable[sklearn]'")):
        metrics.optimal_transport_plan([0.5, 0.5], [0.5, 0.5])


def test_sliced_wasserstein_of_a_shift():
    """A shift by s moves each direction by |s . direction|: |s| E|cos| = |s| 2 / pi in 2-D."""
    a = normals(0, 200, 2)
    shift = torch.tensor([3.0, 4.0])
    found = metrics.sliced_wasserstein(a, a + shift, n_projections=4_000)
    assert found == pytest.approx(5 * 2 / math.pi, rel=0.02)
    assert metrics.sliced_wasserstein(a, a) == 0
    with_power = metrics.sliced_wasserstein(a, a + shift, n_projections=4_000, p=2)
    assert with_power == pytest.approx(5 / math.sqrt(2), rel=0.02)


# --- the book's cases (UDL, chapters 14 and 15) ------------------------------------------------


def test_uns_01_inception_score():
    assert metrics.inception_score(torch.eye(4)) == pytest.approx(4, abs=1e-9)
    assert metrics.inception_score([[0.2, 0.8]] * 3) == pytest.approx(1, abs=1e-9)
    turned = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]
    assert metrics.inception_score(turned) == pytest.approx(1.583409493, abs=1e-6)
    assert metrics.inception_score([[0.7, 0.3], [0.2, 0.8]]) == pytest.approx(1.141685239, abs=1e-6)


def discriminator_loss(p, q):
    """E 15.8 at the optimum D = p / (p + q), both samples counting equally."""
    p, q = (torch.as_tensor(d, dtype=torch.float64) for d in (p, q))
    d = p / (p + q)
    return float(-(p * d.log()).sum() - (q * (1 - d).log()).sum())


def test_gan_01_and_02_js_is_log_2_minus_half_the_best_loss():
    p, q = [0.1, 0.4, 0.5], [0.3, 0.3, 0.4]
    assert metrics.js_divergence(p, q) == pytest.approx(0.032529606, abs=1e-9)
    assert discriminator_loss(p, q) == pytest.approx(1.32123515, abs=1e-8)
    js = math.log(2) - discriminator_loss(p, q) / 2
    assert metrics.js_divergence(p, q) == pytest.approx(js, abs=1e-12)
    assert discriminator_loss(p, p) == pytest.approx(1.386294361, abs=1e-9)
    assert metrics.js_divergence(p, p) == pytest.approx(0, abs=1e-15)


def test_gan_03_and_04_transport():
    constraints = metrics.transport_constraints(4, 4)
    assert constraints.shape == (8, 16)
    assert constraints.sum() == 32
    assert torch.linalg.matrix_rank(constraints) == 7
    p, q = torch.tensor([0.1, 0.2, 0.3, 0.4]), torch.tensor([0.4, 0.3, 0.2, 0.1])
    cost, plan, dual = metrics.optimal_transport_plan(p, q)
    assert cost == pytest.approx(1, abs=1e-6)
    assert torch.allclose(plan.sum(1).float(), p)
    places = torch.arange(4)
    assert metrics.wasserstein(places, places, a_weights=p, b_weights=q) == pytest.approx(1)
    other = [0.5, 0.0, 0.5, 0.0], [0.0, 0.25, 0.0, 0.75]
    assert metrics.optimal_transport_plan(*other)[0] == pytest.approx(1.5, abs=1e-9)
    # The dual: a critic of slope at most 1 reaches the cost, and so does that of the program.
    critic = torch.tensor([-2.0, -1.0, 0.0, 1.0])
    assert float((critic * (p - q)).sum()) == pytest.approx(1, abs=1e-6)
    assert float((dual.float() * (p - q)).sum()) == pytest.approx(1, abs=1e-5)
    assert float(dual.diff().abs().max()) <= 1 + 1e-9


def test_gan_05_shifted_uniforms():
    places = torch.linspace(0, 1, 2_001)
    assert metrics.wasserstein(places, places + 0.3) == pytest.approx(0.3, abs=1e-6)
    cells = torch.ones(10) / 10  # of width 0.1, shifted by three of them
    p, q = torch.cat([cells, torch.zeros(3)]), torch.cat([torch.zeros(3), cells])
    assert metrics.js_divergence(p, q) == pytest.approx(0.207944154, abs=1e-8)


def test_gan_06_normal_distributions():
    a, b = Normal(torch.tensor(1.0).double(), 2.0), Normal(torch.tensor(0.0).double(), 3.0)
    assert float(kl_divergence(a, b)) == pytest.approx(0.183242886, abs=1e-9)
    assert float(kl_divergence(b, a)) == pytest.approx(0.344534892, abs=1e-9)
    assert metrics.squared_wasserstein_normals(1, 4, 0, 9) == pytest.approx(2, abs=1e-9)
    as_deviations = metrics.squared_wasserstein_normals(1, 2, 0, 3)  # E 15.21 read the other way
    assert as_deviations == pytest.approx(1.101020514, abs=1e-8)


def test_wasserstein_of_normals_that_do_not_commute():
    """Against Gaussian transport written as the map A^-1/2 (A^1/2 B A^1/2)^1/2 A^-1/2."""
    root = normals(0, 3, 3).double()
    a, b = root @ root.T + torch.eye(3), torch.diag(torch.tensor([1.0, 4.0, 9.0])).double()
    value, vector = torch.linalg.eigh(a)
    half, back = ((vector * value**power) @ vector.T for power in (0.5, -0.5))
    inner_value, inner_vector = torch.linalg.eigh(half @ b @ half)
    move = back @ (inner_vector * inner_value.sqrt()) @ inner_vector.T @ back
    assert torch.allclose(move @ a @ move, b)
    moved = torch.eye(3).double() - move
    cost = torch.trace(moved @ a @ moved.T)
    found = metrics.squared_wasserstein_normals(torch.zeros(3), a, torch.zeros(3), b)
    assert found == pytest.approx(float(cost), rel=1e-9)


# --- bad input ---------------------------------------------------------------------------------


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="same columns: a has 2, b 3"):
        metrics.energy_distance(torch.zeros(4, 2), torch.zeros(4, 3))
    with pytest.raises(ValueError, match="a has no rows"):
        metrics.squared_mmd(torch.zeros(0, 2), torch.zeros(4, 2))
    with pytest.raises(ValueError, match="b has NaN or infinite values, the first in row 1"):
        metrics.sliced_wasserstein([0.0, 1.0], [0.0, math.nan])
    with pytest.raises(ValueError, match="are all rows equal"):
        metrics.squared_mmd(torch.zeros(3, 1), torch.zeros(3, 1))
    with pytest.raises(ValueError, match="sum to 1"):
        metrics.js_divergence([0.5, 0.6], [0.5, 0.5])
    with pytest.raises(ValueError, match="q must be probabilities"):
        metrics.js_divergence([0.5, 0.5], [math.nan, 0.5])
    with pytest.raises(ValueError, match="row 1 of probs must be probabilities"):
        metrics.inception_score([[0.5, 0.5], [math.nan, 0.5]])
    with pytest.raises(ValueError, match="one non-negative number per value"):
        metrics.wasserstein([1.0, 2.0], [1.0], a_weights=[1.0])
    with pytest.raises(ValueError, match=r"cost must be \[2, 2\]"):
        metrics.optimal_transport_plan([0.5, 0.5], [0.5, 0.5], [[1.0]])
