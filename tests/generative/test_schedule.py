"""The schedule of noise against the cases of UDL, chapter 18 (DIF), and integrals."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from tractable.generative import NoiseSchedule
from tractable.generative.diffusion.samplers import SamplerConfig, guided, step_weights

BETA3 = NoiseSchedule([0.1, 0.2, 0.3])


def one(value):
    return torch.tensor([[value]], dtype=torch.float64)


def test_dif_01_alpha_bar_is_the_cumulative_product():
    assert BETA3.alpha_bar(torch.arange(4)).tolist() == pytest.approx([1, 0.9, 0.72, 0.504])
    ratio = BETA3.alpha_bar(torch.tensor([1, 2, 3])) / BETA3.alpha_bar(torch.tensor([0, 1, 2]))
    assert ratio.tolist() == pytest.approx([0.9, 0.8, 0.7])


def test_dif_02_kernel_is_the_chain_of_steps():
    mean, variance = BETA3.kernel(one(1.0), 3)
    assert float(mean) == pytest.approx(0.709929574, abs=1e-9)
    assert float(variance) == pytest.approx(0.496, abs=1e-12)
    chained_mean, chained_variance = 1.0, 0.0
    for beta in (0.1, 0.2, 0.3):
        chained_mean *= math.sqrt(1 - beta)
        chained_variance = (1 - beta) * chained_variance + beta
    assert (float(mean), float(variance)) == pytest.approx((chained_mean, chained_variance))


@pytest.mark.parametrize(
    ("t", "mean", "variance"), [(3, 1.100449651, 0.169354839), (2, 1.240053189, 0.071428571)]
)
def test_dif_03_posterior(t, mean, variance):
    found = BETA3.posterior(one(1.5), one(0.7), t)
    assert [float(v) for v in found] == pytest.approx([mean, variance], abs=1e-9)


def test_posterior_of_a_jump_is_bayes_rule():
    # q(z_1 | z_3, x) by a product of normals on a grid.
    z1 = np.linspace(-6, 6, 40_001)
    prior = stats.norm(math.sqrt(0.9) * 1.5, math.sqrt(0.1)).pdf(z1)
    kept = 0.8 * 0.7
    density = prior * stats.norm(math.sqrt(kept) * z1, math.sqrt(1 - kept)).pdf(0.7)
    density /= integrate.trapezoid(density, z1)
    mean = integrate.trapezoid(z1 * density, z1)
    variance = integrate.trapezoid((z1 - mean) ** 2 * density, z1)
    found = BETA3.posterior(one(1.5), one(0.7), 3, before=1)
    assert [float(v) for v in found] == pytest.approx([mean, variance], abs=1e-8)
    last = BETA3.posterior(one(1.5), one(0.7), 3, before=0)
    assert [float(v) for v in last] == pytest.approx([1.5, 0.0], abs=1e-12)


def test_dif_04_mean_by_the_noise():
    noise = BETA3.noise_of(one(1.5), one(0.7), 3)
    assert float(noise) == pytest.approx(-0.518115176, abs=1e-9)
    assert float(BETA3.reverse_step_mean(noise, one(0.7), 3)) == pytest.approx(
        1.100449651, abs=1e-9
    )


def test_dif_05_divergence_by_two_routes():
    parts = BETA3.divergence(one(1.5), one(0.7), 3, one(0.9), one(0.25))
    assert [float(v) for v in parts] == pytest.approx([0.080360125, 0.033442061], abs=1e-9)
    mean, variance = (float(v) for v in BETA3.posterior(one(1.5), one(0.7), 3))
    kl = torch.distributions.kl_divergence(
        torch.distributions.Normal(mean, math.sqrt(variance)), torch.distributions.Normal(0.9, 0.5)
    )
    assert float(sum(parts)) == pytest.approx(float(kl), abs=1e-6)
    assert float(sum(parts)) == pytest.approx(0.113802186, abs=1e-9)


def test_dif_06_weights_of_the_noise():
    wanted = [0.555555556, 0.446428571, 0.43202765]
    assert BETA3.noise_weights().tolist() == pytest.approx(wanted, abs=1e-9)


def test_dif_07_unit_variance_is_kept():
    for schedule in (BETA3, NoiseSchedule.cosine(30), NoiseSchedule.linear(1000)):
        times = torch.arange(schedule.steps + 1)
        total = schedule.alpha_bar(times) + schedule.one_minus_alpha_bar(times)
        assert torch.allclose(total, torch.ones_like(total), rtol=0, atol=1e-14)


def test_dif_11_marginal_of_two_points():
    for z, wanted in ((0.0, 0.340815715), (0.7, 0.321382393)):
        found = 0.0
        for x in (-1.0, 1.0):
            mean, variance = BETA3.kernel(one(x), 3)
            found += 0.5 * stats.norm(float(mean), math.sqrt(float(variance))).pdf(z)
        assert found == pytest.approx(wanted, abs=1e-9)


def test_dif_12_guidance_moves_the_mean():
    z = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(torch.nn.functional.logsigmoid(2 * z), z)
    assert float(gradient) == pytest.approx(0.537882843, abs=1e-9)
    moved = guided(one(0.0), one(0.1), gradient)
    assert float(moved) == pytest.approx(0.053788284, abs=1e-9)


def test_dif_14_first_step():
    # The residual coefficient at t = 1, and the row that a prediction of the noise stands for.
    at_zero = BETA3.reverse_step_mean(one(1.0), one(0.0), 1)
    assert float(at_zero) == pytest.approx(-1 / 3, abs=1e-12)
    noise, z = one(0.4), one(0.7)
    assert torch.allclose(BETA3.x0_from("noise", noise, z, 1), BETA3.reverse_step_mean(noise, z, 1))


def test_dif_15_long_products_in_logarithms():
    schedule = NoiseSchedule.linear(1000)
    assert (float(schedule.betas[0]), float(schedule.betas[-1])) == pytest.approx((1e-4, 0.02))
    assert float(schedule.alpha_bar(1000)) == pytest.approx(4.035829765e-05, rel=1e-9)


@pytest.mark.parametrize("form", ["noise", "x", "v"])
def test_forms_agree(form):
    generator = torch.Generator().manual_seed(0)
    x, noise = (torch.randn(50, 3, generator=generator, dtype=torch.float64) for _ in range(2))
    t = torch.randint(1, 4, (50,), generator=generator)
    z = BETA3.q_sample(x, noise, t)
    target = BETA3.target(form, x, noise, t)
    assert torch.allclose(BETA3.x0_from(form, target, z, t), x, rtol=0, atol=1e-12)
    assert torch.allclose(BETA3.noise_of(x, z, t), noise, rtol=0, atol=1e-12)
    moved = BETA3.x0_from(form, target + 1.0, z, t) - x
    assert torch.allclose(moved[:, 0], BETA3.dx0(form, t), rtol=0, atol=1e-12)


def test_d_16_prior_term():
    # .6656 nats for BETA3 at x = 1.5: not small.
    mean, variance = 1.5 * math.sqrt(0.504), 0.496
    kl = integrate.quad(
        lambda z: (
            stats.norm(mean, math.sqrt(variance)).pdf(z)
            * (stats.norm(mean, math.sqrt(variance)).logpdf(z) - stats.norm.logpdf(z))
        ),
        -8,
        8,
    )[0]
    assert float(BETA3.prior_divergence(one(1.5))) == pytest.approx(kl, abs=1e-9)
    assert kl == pytest.approx(0.6656, abs=1e-4)


def test_d_27_steps_of_ddpm_and_ddim():
    error = torch.tensor([0.2], dtype=torch.float64)
    on_z, on_x, spread = step_weights(BETA3, SamplerConfig(variance="posterior"), 3, 2, error)
    assert [float(v) for v in BETA3.posterior_weights(3)] == pytest.approx(
        [float(on_z), float(on_x), float(spread)]
    )
    assert float(
        step_weights(BETA3, SamplerConfig(variance="beta"), 3, 2, error)[2]
    ) == pytest.approx(0.3)
    learnt = float(step_weights(BETA3, SamplerConfig(variance="learned"), 3, 2, error)[2])
    assert learnt == pytest.approx(float(spread) + float(on_x) ** 2 * 0.2)
    # DDIM with eta = 1 is DDPM with the posterior's variance; with eta = 0 it has no noise.
    same = step_weights(BETA3, SamplerConfig("ddim", eta=1.0), 3, 2, error)
    assert [float(v) for v in same] == pytest.approx([float(on_z), float(on_x), float(spread)])
    assert float(step_weights(BETA3, SamplerConfig("ddim"), 3, 2, error)[2]) == 0.0


def test_times_are_spread_evenly():
    schedule = NoiseSchedule.cosine(100)
    assert schedule.times(4) == [100, 75, 50, 25]
    assert schedule.times() == list(range(100, 0, -1))
    for number in (1, 7, 33, 99, 100):
        times = schedule.times(number)
        assert len(set(times)) == number
        assert (times[0], min(times) >= 1) == (100, True)
    with pytest.raises(ValueError, match="101 sampling steps are more than the 100 steps"):
        schedule.times(101)


@pytest.mark.parametrize("betas", [[0.1, 1.0], [0.0], [0.5, float("nan")], [-0.1], []])
def test_bad_schedules(betas):
    with pytest.raises(ValueError, match=r"between 0 and 1|at least one step"):
        NoiseSchedule(betas)


def test_bad_numbers_of_steps():
    for steps in (0, -1, 2.5, True):
        with pytest.raises(ValueError, match="whole number"):
            NoiseSchedule.cosine(steps)
    with pytest.raises(ValueError, match="from 1"):
        BETA3.times(0)
