"""Normalization: the tangent at the means, statistics included; variances scaled."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.rules.norms import NORMS, each_norm
from tractable import Gaussian
from tractable.moments.maps import Scale
from tractable.rules.bilinear import product
from tractable.rules.norm import robust_running_stats
from tractable.testing.gaussians import REGIMES, assert_moments_agree, gaussian, generator, normal

EPS = 1e-5
each_regime = pytest.mark.parametrize("regime", REGIMES)


@each_norm
def test_without_variance_mean_and_message_are_torchs(name: str) -> None:
    """Through the statistics: the whole Jacobian, not the diagonal."""
    case = NORMS[name]
    source = generator(name, "gradient")
    locs = [gaussian(s, "skewed", source).loc.requires_grad_() for s in case.shapes]
    plain = case.function(*locs)
    z = case.function(*(Gaussian.wrap(loc, torch.zeros_like(loc)) for loc in locs))
    torch.testing.assert_close(z.loc, plain, rtol=1e-13, atol=1e-13)
    assert torch.equal(z.variance, torch.zeros_like(plain))
    d = normal(plain, source)
    want = torch.autograd.grad(plain, locs, d)
    got = torch.autograd.grad([z.loc, z.variance], locs, [d, torch.zeros_like(d)])
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)


@each_norm
def test_variances_are_on_average_those_of_the_tangent(name: str) -> None:
    """For small and equal ones: the diagonal of ``J v J'``, in the mean over a set."""
    case = NORMS[name]
    loc = gaussian(case.shapes[0], "moderate", generator(name, "tangent")).loc
    jacobian = torch.func.jacrev(case.function)(loc).reshape(loc.numel(), -1)
    truth = 1e-8 * (jacobian**2).sum(1).reshape(loc.shape)
    z = case.function(Gaussian(loc, 1e-8))
    torch.testing.assert_close(
        case.sets(z.variance).mean(-1), case.sets(truth).mean(-1), rtol=2e-4, atol=0
    )


@each_regime
@each_norm
def test_weights_and_offsets_multiply_and_add(name: str, regime: str) -> None:
    """Given what is normalized, by Monte Carlo."""
    case = NORMS[name]
    source = generator(name, regime)
    x, *affine = (gaussian(s, regime, source) for s in case.shapes)
    unit = case.function(x)

    def given(zs: Tensor, *rows: Tensor) -> Tensor:
        z = zs.reshape(-1, *x.shape) * rows[0].reshape(-1, 1, *case.layout)
        return z + rows[1].reshape(-1, 1, *case.layout) if len(rows) > 1 else z

    assert_moments_agree(case.function(x, *affine), given, unit, *affine)


@each_norm
def test_variance_messages_are_scaled_likewise(name: str) -> None:
    case = NORMS[name]
    source = generator(name, "messages")
    g = gaussian(case.shapes[0], "moderate", source)
    loc, variance = g.loc.clone().requires_grad_(), g.variance.clone().requires_grad_()
    z = case.function(Gaussian.wrap(loc, variance))
    d_var = -normal(z.loc, source).abs()
    to_loc, to_variance = torch.autograd.grad(z.variance, [loc, variance], d_var, allow_unused=True)
    assert to_loc is None  # a variance has no derivative by the mean
    torch.testing.assert_close(to_variance, d_var * z.variance.detach() / g.variance)


@each_norm
def test_the_variance_is_at_most_the_mean_square_of_the_normalized_means(name: str) -> None:
    case = NORMS[name]
    loc = gaussian(case.shapes[0], "moderate", generator(name, "doubt")).loc
    for flat in (loc, torch.zeros_like(loc)):
        z = case.function(Gaussian(flat, 1e6))
        assert (case.sets(z.variance).mean(-1) <= 1 + 1e-6).all()


@each_norm
def test_a_variance_above_the_spread_damps_message_and_variance_alike(name: str) -> None:
    case = NORMS[name]
    source = generator(name, "damped")
    loc = gaussian(case.shapes[0], "moderate", source).loc.requires_grad_()
    d = normal(loc, source)
    messages, variances = [], []
    for variance in (1e-9, 1e4):
        z = case.function(Gaussian.wrap(loc, torch.full_like(loc, variance)))
        messages.append(torch.autograd.grad(z.loc, loc, d)[0])
        variances.append(z.variance.detach() / variance)
    damped, taken = messages[1] / messages[0], (variances[1] / variances[0]).sqrt()
    assert bool((damped < 0.1).all())
    torch.testing.assert_close(damped, taken, rtol=1e-6, atol=0)


def test_two_features_have_no_variance_left() -> None:
    """They become +1 and -1, whatever they are."""
    z = F.layer_norm(Gaussian(torch.tensor([[0.2, 1.7]], dtype=torch.float64), 0.1), (2,))
    torch.testing.assert_close(z.loc.abs(), torch.ones_like(z.loc), rtol=1e-4, atol=0)
    assert float(z.variance.max()) < 1e-5


@pytest.mark.parametrize("layer", [nn.LayerNorm(24), nn.RMSNorm(24), nn.GroupNorm(3, 24)])
def test_variance_after_a_linear_layer_is_that_of_draws_of_the_weights(layer: nn.Module) -> None:
    """Where it matters: the errors of units are independent, and so they reach the layer."""
    source = generator("linear and norm", type(layer).__name__)
    layer = layer.double()
    x = torch.randn(6, 10, generator=source, dtype=torch.float64)
    w = Gaussian(torch.randn(24, 10, generator=source, dtype=torch.float64), 0.004)
    z = layer(F.linear(x, w))
    noise = torch.randn(4000, 24, 10, generator=source, dtype=torch.float64)
    units = torch.einsum("noi,ri->nro", w.loc + w.stddev * noise, x)
    drawn = layer(units.flatten(0, 1)).reshape(4000, 6, 24)
    ratio = z.variance.mean() / drawn.var(0).mean()
    assert 0.9 < ratio.item() < 1.1
    assert (z.loc - drawn.mean(0)).abs().max().item() < 0.03


@pytest.mark.parametrize(
    "layer",
    [
        nn.BatchNorm1d(3),
        nn.BatchNorm1d(3, momentum=None),
        nn.InstanceNorm1d(3, track_running_stats=True),
    ],
)
def test_running_statistics_without_variance_are_torchs(layer: nn.Module) -> None:
    layer = layer.double()
    x = gaussian((5, 3, 2), "skewed", generator("running")).loc
    layer(Gaussian(x, 0.0))
    ours = {name: buffer.clone() for name, buffer in layer.named_buffers()}
    layer.reset_running_stats()  # type: ignore[operator]
    layer(x)
    torch.testing.assert_close(ours, dict(layer.named_buffers()))


def test_running_statistics_are_those_of_the_means() -> None:
    """Prediction divides by the scale of training; variances in it would halve the signal."""
    layer = nn.BatchNorm1d(3, momentum=1.0, affine=False).double()
    x = gaussian((4000, 3), "moderate", generator("running"))
    trained = layer(x)
    assert layer.running_mean is not None
    assert layer.running_var is not None
    torch.testing.assert_close(layer.running_mean, x.loc.mean(0))
    torch.testing.assert_close(layer.running_var, x.loc.var(0))
    assert layer.num_batches_tracked == 1

    layer.eval()
    before = layer.running_mean.clone()
    z = layer(x)
    torch.testing.assert_close(layer.running_mean, before, rtol=0, atol=0)
    torch.testing.assert_close(z.variance, x.variance / (layer.running_var + EPS))
    torch.testing.assert_close(z.loc, trained.loc, rtol=1e-3, atol=1e-3)


def test_running_statistics_are_near_those_of_draws_of_the_weights() -> None:
    """A network drawn from a narrow posterior has nearly the statistics of the means."""
    source = generator("draws of batch norm")
    x = torch.randn(200, 12, generator=source, dtype=torch.float64)
    loc = torch.randn(8, 12, generator=source, dtype=torch.float64) / 12**0.5
    w = Gaussian(loc, 0.05 / 12)  # a twentieth of the variance of the means
    layer = nn.BatchNorm1d(8, momentum=1.0, affine=False).double()
    layer(F.linear(x, w))
    assert layer.running_var is not None
    noise = torch.randn(2000, 8, 12, generator=source, dtype=torch.float64)
    drawn = torch.einsum("noi,ri->nro", loc + w.stddev * noise, x).var(1).mean(0)
    assert 1.0 < float(drawn.mean() / layer.running_var.mean()) < 1.1


@pytest.mark.parametrize("robust", [False, True])
def test_one_value_per_channel_is_normalized_by_running_statistics(robust: bool) -> None:
    """It has no spread; torch refuses it, a stream has one row at a time."""
    layer = nn.BatchNorm1d(2)
    with torch.no_grad():
        assert layer.running_var is not None
        layer.running_var.fill_(4.0)
    with robust_running_stats(robust):
        z = layer(Gaussian(torch.tensor([[2.0, -6.0]]), 1.0))
    torch.testing.assert_close(z.loc, torch.tensor([[1.0, -3.0]]), rtol=1e-5, atol=0)
    assert torch.equal(layer.running_var, torch.full((2,), 4.0))


def test_a_constant_channel_leaves_the_robust_statistics_finite() -> None:
    layer = nn.BatchNorm1d(2, momentum=1.0)
    with robust_running_stats(True):
        for _ in range(3):
            z = layer(Gaussian(torch.zeros(5, 2), 0.0))
    assert layer.running_var is not None
    assert bool(torch.isfinite(layer.running_var).all())
    assert bool(torch.isfinite(z.loc).all())


def test_evaluation_needs_running_statistics() -> None:
    x = gaussian((4, 3), "moderate", generator("running"))
    with pytest.raises(ValueError, match="running statistics"):
        F.batch_norm(x, None, None, training=False)


def test_constants_are_normalized_before_uncertain_weights() -> None:
    x = gaussian((4, 3), "moderate", generator("constant")).loc
    w: Any = Gaussian(torch.ones(3, dtype=torch.float64), 0.1)
    z = F.layer_norm(x, (3,), w)
    unit = F.layer_norm(x, (3,))
    torch.testing.assert_close(z.loc, unit)
    torch.testing.assert_close(z.variance, 0.1 * unit**2)


@pytest.mark.parametrize("shape", [(5, 3, 4, 4), (5, 3)])
def test_scale_and_offset_at_once_are_a_product_and_a_sum(shape):
    """One step, with what positions share, is the same as the rules of ``*`` and ``+``."""
    generator = torch.Generator().manual_seed(0)
    channels = (3, *(1,) * (len(shape) - 2))

    def drawn(*size):
        return torch.rand(*size, generator=generator, dtype=torch.float64) + 0.1

    leaves = [drawn(*shape), drawn(*shape), drawn(3), drawn(3), drawn(3), drawn(3)]
    kernel = drawn(3, 3, *(1,) * (len(shape) - 2))

    def run(at_once):
        x, vx, w, vw, b, vb = values = [leaf.clone().requires_grad_() for leaf in leaves]
        state = Gaussian.wrap(x, vx)
        if len(shape) > 2:  # something that positions share
            state = torch.nn.functional.conv2d(state, Gaussian.wrap(kernel, 0.3 * kernel))
        scale, offset = Gaussian.wrap(w, vw), Gaussian.wrap(b, vb)
        if at_once:
            z = product(Scale((1, *channels)), state, scale, offset)
        else:
            z = state * scale.reshape(channels) + offset.reshape(channels)
        if len(shape) > 2:
            z = z.relu().mean((2, 3))
        d = torch.linspace(-1, 1, z.numel(), dtype=torch.float64).reshape(z.shape)
        found = torch.autograd.grad([z.loc, z.variance], values, [d, -d.abs()])
        return [z.loc, z.variance, *found]

    for one, other in zip(run(True), run(False), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def test_batch_norm_in_one_step_is_normalizing_and_then_scaling() -> None:
    source = generator("batch_norm", "one step")
    given = [gaussian(shape, "moderate", source) for shape in ((6, 3, 4, 5), (3,), (3,))]
    found = []
    for apart in (False, True):
        leaves = [m.clone().requires_grad_() for g in given for m in (g.loc, g.variance)]
        x, w, b = (Gaussian.wrap(*leaves[i : i + 2]) for i in (0, 2, 4))
        if apart:
            z = F.batch_norm(x, None, None, training=True) * w.reshape(-1, 1, 1)
            z = z + b.reshape(-1, 1, 1)
        else:
            z = F.batch_norm(x, None, None, w, b, training=True)
        messages = [normal(z.loc, generator("batch_norm", "messages")) for _ in range(2)]
        grads = torch.autograd.grad([z.loc, z.variance], leaves, messages)
        found.append([z.loc, z.variance, *grads])
    for together, one_by_one in zip(*found, strict=True):
        torch.testing.assert_close(together, one_by_one)
