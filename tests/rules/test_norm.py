"""Normalisation: affine given its statistics, which are those of the mixture of its entries."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tractable import Gaussian
from tractable.moments.norm import statistics
from tractable.testing.monte_carlo import SAMPLES, assert_moments_agree, samples
from tractable.testing.regimes import REGIMES, gaussian, generator, normal

EPS = 1e-5


def _batch(x: Any, w: Any = None, b: Any = None) -> Any:
    return F.batch_norm(x, None, None, w, b, training=True)


def _layer(x: Any, w: Any = None, b: Any = None) -> Any:
    return F.layer_norm(x, (2, 3), w, b)


def _group(x: Any, w: Any = None, b: Any = None) -> Any:
    return F.group_norm(x, 2, w, b)


# function, shape of the input and of the weight, view of the weight, and the view of the input in
# which the statistics are taken over the last dimension
NORMS: dict[str, tuple[Any, tuple[int, ...], tuple[int, ...], tuple[int, ...], Any]] = {
    "batch_norm": (_batch, (3, 2, 3), (2,), (2, 1), lambda x: x.movedim(1, 0).flatten(1)),
    "batch_norm, rows": (_batch, (6, 3), (3,), (3,), lambda x: x.T),
    "layer_norm": (_layer, (3, 2, 3), (2, 3), (2, 3), lambda x: x.flatten(1)),
    "group_norm": (_group, (2, 4, 2), (4,), (4, 1), lambda x: x.reshape(2, 2, 4)),
}
each_norm = pytest.mark.parametrize("name", NORMS)
each_regime = pytest.mark.parametrize("regime", REGIMES)


def _statistics(name: str, x: Gaussian) -> tuple[Tensor, Tensor]:
    """Centre and scale of every entry, by the law of total variance, spelt out."""
    _, shape, _, _, view = NORMS[name]
    mu, var = view(x.loc), view(x.variance)
    centre = mu.mean(-1, keepdim=True)
    spread = ((mu - centre) ** 2 + var).mean(-1, keepdim=True)
    # Back to the layout of x: send the position of every entry through the same view.
    place = view(torch.arange(x.numel()).reshape(shape)).reshape(-1)
    full = torch.empty(2, x.numel(), dtype=mu.dtype)
    full[0, place] = centre.expand_as(mu).reshape(-1)
    full[1, place] = torch.rsqrt(spread + EPS).expand_as(mu).reshape(-1)
    return full[0].reshape(shape), full[1].reshape(shape)


@each_regime
@each_norm
def test_moments_given_the_statistics(name: str, regime: str) -> None:
    function, shape, weights, layout, _ = NORMS[name]
    source = generator(name, regime)
    x, w, b = (gaussian(s, regime, source) for s in (shape, weights, weights))
    centre, scale = _statistics(name, x)

    def given(xs: Tensor, ws: Tensor, bs: Tensor) -> Tensor:
        rows = (xs.reshape(-1, *shape) - centre) * scale
        return rows * ws.reshape(-1, 1, *layout) + bs.reshape(-1, 1, *layout)

    assert_moments_agree(function(x, w, b), given, x, w, b)
    assert_moments_agree(function(x), lambda xs: (xs.reshape(-1, *shape) - centre) * scale, x)


@each_norm
def test_messages_treat_the_statistics_as_constants(name: str) -> None:
    function, shape, weights, layout, _ = NORMS[name]
    source = generator(name, "messages")
    g = [gaussian(s, "moderate", source) for s in (shape, weights, weights)]
    inputs = [t.clone().requires_grad_() for t in (*(x.loc for x in g), *(x.variance for x in g))]
    centre, scale = _statistics(name, g[0])
    z = function(*(Gaussian.wrap(m, v) for m, v in zip(inputs[:3], inputs[3:], strict=True)))
    d_mu, d_var = normal(z.loc, source), normal(z.loc, source)
    got = torch.autograd.grad([z.loc, z.variance], inputs, [d_mu, d_var])

    unit, mu_w = (g[0].loc - centre) * scale, g[1].loc.reshape(layout)

    def to_weight(d: Tensor) -> Tensor:
        return d.sum_to_size(1, *layout).reshape(weights)

    want = [
        d_mu * scale * mu_w,
        to_weight(d_mu * unit),
        to_weight(d_mu),
        d_var * (scale * mu_w) ** 2,
        to_weight(d_var * unit**2),
        to_weight(d_var),
    ]
    torch.testing.assert_close(list(got), want, rtol=1e-12, atol=1e-12)


def test_statistics_are_those_of_the_mixture() -> None:
    x = gaussian((4, 5), "skewed", generator("mixture"))
    pooled = torch.cat([s.reshape(-1, 4, 5) for (s,) in samples(x)])
    centre, spread = statistics(x.loc, x.variance, [1])
    for row in range(4):
        values = pooled[:, row].reshape(-1)
        assert abs(values.mean() - centre[row]) < 5 * (values.var() / SAMPLES).sqrt()
        fourth = ((values - values.mean()) ** 4).mean()
        assert abs(values.var() - spread[row]) < 5 * ((fourth - values.var() ** 2) / SAMPLES).sqrt()


@pytest.mark.parametrize("layer", [nn.BatchNorm1d(3), nn.BatchNorm1d(3, momentum=None)])
def test_running_statistics_without_variance_are_torchs(layer: nn.BatchNorm1d) -> None:
    layer = layer.double()
    x = gaussian((5, 3, 2), "skewed", generator("running")).loc
    layer(Gaussian(x, 0.0))
    ours = {name: buffer.clone() for name, buffer in layer.named_buffers()}
    layer.reset_running_stats()
    layer(x)
    torch.testing.assert_close(ours, dict(layer.named_buffers()))


def test_running_statistics_include_the_variance() -> None:
    layer = nn.BatchNorm1d(3, momentum=1.0, affine=False).double()
    x = gaussian((4000, 3), "moderate", generator("running"))
    layer(x)
    assert layer.running_mean is not None
    assert layer.running_var is not None
    torch.testing.assert_close(layer.running_mean, x.loc.mean(0))
    torch.testing.assert_close(
        layer.running_var, x.loc.var(0) + x.variance.mean(0), rtol=1e-3, atol=0
    )
    assert layer.num_batches_tracked == 1

    layer.eval()
    before = layer.running_mean.clone()
    z = layer(x)
    torch.testing.assert_close(layer.running_mean, before, rtol=0, atol=0)
    torch.testing.assert_close(z.variance, x.variance / (layer.running_var + EPS))


def test_evaluation_needs_running_statistics() -> None:
    x = gaussian((4, 3), "moderate", generator("running"))
    with pytest.raises(ValueError, match="running statistics"):
        F.batch_norm(x, None, None, training=False)
