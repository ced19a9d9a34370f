"""Positions that share weights: the variance of their mean, and the messages that it sends back."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tractable as tr
from tractable.moments import shared_variance as at
from tractable.rules import activation_moments
from tractable.rules.shared_variance import SharedVariance
from tractable.testing.gaussians import generator

Posterior = dict[str, tr.Gaussian]


def weights(net: nn.Module, *, variance: float = 1.0) -> Posterior:
    """Means and variances of the size of 1 / fan-in, all different, in double precision."""
    source = generator("positions", *[tuple(p.shape) for p in net.parameters()])
    found = {}
    for name, p in net.named_parameters():
        fan = p[0].numel() if p.ndim > 1 else 4
        draw = torch.randn(p.shape, generator=source, dtype=torch.float64) / fan**0.5
        spread = torch.rand(p.shape, generator=source, dtype=torch.float64) + 0.5
        leaves = (draw.requires_grad_(), (variance * spread / fan).requires_grad_())
        found[name] = tr.Gaussian.wrap(*leaves)
    return found


def run(net: nn.Module, parameters: Posterior, x: torch.Tensor) -> tr.Gaussian:
    """The Gaussian of the network's output."""
    z = torch.func.functional_call(net, parameters, (x,))
    assert isinstance(z, tr.Gaussian)
    return z


def jacobian(net: nn.Module, parameters: Posterior, x: torch.Tensor) -> dict[str, torch.Tensor]:
    """Derivatives of all outputs by all parameters: outputs first."""
    means = {name: g.loc.detach() for name, g in parameters.items()}
    found = torch.func.jacrev(lambda p: torch.func.functional_call(net, p, (x,)))(means)
    return {name: j.reshape(-1, *means[name].shape) for name, j in found.items()}


class Pool(nn.Module):
    """A mean over the given dimensions, in one or in several steps."""

    def __init__(self, *steps: int | tuple[int, ...]) -> None:
        super().__init__()
        self.steps = steps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for dims in self.steps:
            x = x.mean(dims)
        return x


class Through(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def dealt(x):
    """Channels in another order by views alone, as ShuffleNet does."""
    return x.view(len(x), 2, 3, *x.shape[2:]).transpose(1, 2).contiguous().view(x.shape)


IMAGE, SERIES, TOKENS = (2, 4, 7, 6), (2, 4, 9), (2, 5, 4)
ONE_LAYER = {
    "convolution": (nn.Conv2d(4, 6, 3, padding=1), Pool((2, 3)), IMAGE),
    "strides, no padding": (nn.Conv2d(4, 6, 3, stride=2), Pool((2, 3)), IMAGE),
    "wide padding, dilation": (nn.Conv2d(4, 6, 3, padding=3, dilation=2), Pool((2, 3)), IMAGE),
    "groups": (nn.Conv2d(4, 6, (3, 2), padding=(1, 0), groups=2), Pool((2, 3)), IMAGE),
    "patches": (nn.Conv2d(4, 6, 2, stride=2, bias=False), Pool((2, 3)), IMAGE),
    "same": (nn.Conv2d(4, 6, 5, padding="same"), Pool((2, 3)), IMAGE),
    "adaptive pool": (nn.Conv2d(4, 6, 3), nn.AdaptiveAvgPool2d(1), IMAGE),
    "window of all": (nn.Conv2d(4, 6, (2, 1)), nn.AvgPool2d(6), IMAGE),
    "one after the other": (nn.Conv2d(4, 6, 3), Pool(3, 2), IMAGE),
    "sum": (nn.Conv2d(4, 6, 3), Through(lambda x: x.sum((2, 3))), IMAGE),
    "kept dimensions": (nn.Conv2d(4, 6, 3), Through(lambda x: x.mean((-1, -2), True)), IMAGE),
    "tiles first": (nn.Conv2d(4, 6, (2, 1)), nn.Sequential(nn.AvgPool2d(2), Pool((2, 3))), IMAGE),
    "as tokens": (
        nn.Conv2d(4, 6, 3),
        Through(lambda x: x.flatten(2).transpose(1, 2).mean(1)),
        IMAGE,
    ),
    "channels last": (
        nn.Conv2d(4, 6, 3),
        Through(lambda x: x.permute(0, 2, 3, 1).mean((1, 2))),
        IMAGE,
    ),
    "scaled": (nn.Conv2d(4, 6, 3), Through(lambda x: (1 - 3 * x / 2).mean((2, 3))), IMAGE),
    "in parts": (
        nn.Conv2d(4, 6, 3),
        Through(lambda x: torch.cat(x.chunk(3, 1)[::-1], 1)[:, 1:].mean((2, 3))),
        IMAGE,
    ),
    "channels dealt out": (
        nn.Conv2d(4, 6, 3),
        Through(lambda x: dealt(dealt(x)).mean((2, 3))),
        IMAGE,
    ),
    "one dimension": (nn.Conv1d(4, 6, 3, padding=2), Pool(-1), SERIES),
    "three dimensions": (nn.Conv3d(2, 3, 2, padding=1), Pool((2, 3, 4)), (2, 2, 3, 4, 3)),
    "linear": (nn.Linear(4, 6), Pool(1), TOKENS),
    "linear over a grid": (nn.Linear(4, 6), Pool((1, 2)), (2, 3, 5, 4)),
    "rows of positions": (nn.Conv2d(4, 6, 3), Through(lambda x: x.mean(2).mean(2)), IMAGE),
    "linear, summed": (nn.Linear(4, 6), Through(lambda x: x.sum(1) / 5), TOKENS),
}  # fmt: skip


@pytest.mark.parametrize(("layer", "pool", "shape"), ONE_LAYER.values(), ids=ONE_LAYER)
@pytest.mark.parametrize("graph", [True, False], ids=["learning", "predicting"])
def test_one_layer_is_exact(layer, pool, shape, graph):
    """Linear in the weights: ``sum J^2 var`` forward, ``J`` and ``J^2`` backward."""
    net = nn.Sequential(layer, pool).double()
    source = generator("image", shape)
    x = torch.randn(shape, generator=source, dtype=torch.float64) + 0.3
    posterior = weights(net)
    with torch.set_grad_enabled(graph):
        z = run(net, posterior, x)
    slopes = jacobian(net, posterior, x)
    want = sum((j**2 * posterior[n].variance).flatten(1).sum(1) for n, j in slopes.items())
    torch.testing.assert_close(z.variance.reshape(-1), want, rtol=1e-10, atol=1e-14)
    if not graph:
        return
    d_mu = torch.randn(z.shape, generator=source, dtype=torch.float64)
    d_var = -d_mu.abs()
    leaves = [m for g in posterior.values() for m in (g.loc, g.variance)]
    got = iter(torch.autograd.grad([z.loc, z.variance], leaves, [d_mu, d_var]))
    for name in posterior:
        for power, d in ((1, d_mu), (2, d_var)):
            message = torch.einsum("o,o...->...", d.reshape(-1), slopes[name] ** power)
            torch.testing.assert_close(next(got), message, rtol=1e-10, atol=1e-14)


def test_one_observation_of_a_pooled_layer_gives_the_exact_posterior():
    net = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    net.append(nn.Linear(3, 1))
    net[3].requires_grad_(False)
    model = tr.TAGI(net, tr.likelihoods.Normal(0.3), dtype=torch.float64, gain=1.0, robust=False)
    x = torch.randn(1, 2, 6, 6, generator=generator("x"), dtype=torch.float64) + 0.5
    prior = {name: (g.loc.clone(), g.variance.clone()) for name, g in model.posterior.items()}
    head = {"3.weight": net[3].weight.double(), "3.bias": net[3].bias.double()}

    def output(means):
        return torch.func.functional_call(net, {**means, **head}, (x,))[0, 0]

    means = {name: loc for name, (loc, _) in prior.items()}
    slopes = torch.func.grad(output)(means)
    total = sum((slopes[n] ** 2 * v).sum() for n, (_, v) in prior.items()) + 0.3**2
    model.update(x, [[3.0]])
    for name, (loc, v) in prior.items():
        gain = v * slopes[name] / total
        found = model.posterior[name]
        torch.testing.assert_close(found.loc, loc + gain * (3 - output(means)), rtol=1e-6, atol=0)
        torch.testing.assert_close(found.variance, v - gain * v * slopes[name], rtol=1e-6, atol=0)


# --- compared with samples of the weights -------------------------------------------------------


def ratio(net: nn.Module, x: torch.Tensor, *, draws: int = 300, **options: object) -> float:
    """Variance by the rules over variance by draws of the weights, over all outputs."""
    model = tr.TAGI(net, tr.likelihoods.Normal(0.5), engine="torch", **options)  # type: ignore[arg-type]
    posterior = model.posterior
    noise = torch.randn(draws, posterior.loc.numel(), generator=generator("draws"))
    drawn = posterior.loc + posterior.variance.sqrt() * noise

    def one(vector: torch.Tensor) -> torch.Tensor:
        named = dict(zip(posterior, posterior.split(vector), strict=True))
        return torch.func.functional_call(net, named, (x,))

    with torch.no_grad():
        outputs = torch.vmap(one, chunk_size=50)(drawn)
    return (model.propagate(x).variance.sum() / outputs.var(0).sum()).item()


def images(size: int, *, smooth: bool) -> torch.Tensor:
    source = generator("images")
    if smooth:
        coarse = torch.randn(5, 1, 4, 4, generator=source)
        return 1.3 * F.interpolate(coarse, size=(size, size), mode="bilinear")
    return torch.randn(5, 1, size, size, generator=source)


def walks(steps: int) -> torch.Tensor:
    return torch.randn(5, steps, 6, generator=generator("walk")).cumsum(1) / steps**0.5


def convolutions() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 3),
    )  # fmt: skip


@pytest.mark.parametrize("size", [4, 8, 16, 32])
@pytest.mark.parametrize("smooth", [True, False], ids=["smooth", "white"])
def test_global_pooling_keeps_the_variance(size, smooth):
    x = images(size, smooth=smooth)
    assert 0.7 < ratio(convolutions(), x) < 1.4
    assert 0.85 < ratio(convolutions(), x, moments="exact", gain=1.0) < 1.2
    headless = convolutions()[:-1]
    assert 0.7 < ratio(headless, x, moments="exact") < 1.4


class Block(nn.Module):
    """Features of an image with blocks added or concatenated; a mean; a head."""

    def __init__(self, join: str) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Linear(8 if join == "add" else 16, 2)
        self.join = join

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.first(x))
        g = torch.relu(self.second(h))
        h = h + g if self.join == "add" else torch.cat([h, g], 1)
        return self.head(h.mean((2, 3)))


class Excited(nn.Module):
    """Channels scaled by what is pooled of them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 8, 3, padding=1)
        self.gate = nn.Linear(8, 8)
        self.second = nn.Conv2d(8, 8, 3, padding=1, groups=2)
        self.head = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.first(x))
        h = h * torch.sigmoid(self.gate(h.mean((2, 3))))[:, :, None, None]
        return self.head(torch.relu(self.second(h)).mean((2, 3)))


class Steps(nn.Module):
    """The same layers at every step of a sequence, a mean over time."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.first = nn.Linear(6, 24)
        self.norm = nn.LayerNorm(24) if kind == "norm" else nn.Identity()
        self.second, self.gate = nn.Linear(24, 24), nn.Linear(24, 24)
        self.head = nn.Linear(24, 2)
        self.kind = kind

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.norm(self.first(x)))
        if self.kind == "gated":
            h = self.second(h) * torch.sigmoid(self.gate(h))
        else:
            h = h + torch.relu(self.second(h))
        if self.kind == "masked":
            mask = (torch.arange(x.shape[1]) < x.shape[1] // 2).to(x).reshape(1, -1, 1)
            return self.head((h * mask).sum(1) / mask.sum(1))
        return self.head(h.mean(1))


class Tied(nn.Module):
    """One matrix, twice and transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(6, 8), nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.tanh(F.linear(torch.tanh(self.first(x)), self.first.weight.t()))
        return self.head(torch.tanh(self.first(h)).mean(1))


DEFAULT = {
    "squeeze and excite": (Excited, images(16, smooth=True)),
    "dense convolutions": (lambda: Block("cat"), images(8, smooth=True)),
    "time": (lambda: Steps("plain"), walks(20)),
    "long time": (lambda: Steps("plain"), walks(100)),
    "masked time": (lambda: Steps("masked"), walks(20)),
    "layer norm": (lambda: Steps("norm"), walks(20)),
    "gated": (lambda: Steps("gated"), walks(20)),
    "tied weights": (Tied, walks(10)),
}


@pytest.mark.parametrize(("make", "x"), DEFAULT.values(), ids=DEFAULT)
def test_means_over_positions_at_default_settings(make, x):
    assert 0.7 < ratio(make(), x) < 1.4


@pytest.mark.parametrize("join", ["add", "cat"])
def test_residual_and_dense_blocks(join):
    x = images(8, smooth=True)
    assert 0.9 < ratio(Block(join), x, draws=600, moments="exact") < 1.1


# --- cost and limits --------------------------------------------------------


def test_no_shared_variance_is_computed_without_averaging(monkeypatch):
    asked = []
    monkeypatch.setattr(at, "pooled", lambda *args: asked.append(args))
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    net.append(nn.Linear(36, 2)).double()
    z = run(net, weights(net), images(8, smooth=True).double())
    assert z.shared is None
    assert not asked


def test_a_state_without_variance_stays_so():
    net = convolutions().double()
    constants = {n: tr.Gaussian(p.detach(), 0.0) for n, p in net.named_parameters()}
    for g in constants.values():
        g.loc.requires_grad_()
        g.variance.requires_grad_()
    z = run(net, constants, images(8, smooth=False).double())
    assert torch.equal(z.variance, torch.zeros_like(z.variance))
    leaves = [m for g in constants.values() for m in (g.loc, g.variance)]
    messages = torch.autograd.grad([z.loc, z.variance], leaves, [torch.ones_like(z.loc)] * 2)
    assert all(bool(torch.isfinite(m).all()) for m in messages)


def test_positions_that_are_independent_stay_so():
    x = tr.Gaussian(torch.randn(2, 3, 4, generator=generator("i")), torch.full((2, 3, 4), 0.5))
    assert x.shared is None
    torch.testing.assert_close(x.mean(1).variance, torch.full((2, 4), 0.5 / 3))


@pytest.mark.parametrize(
    ("function", "followed"),
    [
        (lambda x: x.flatten(2), True),
        (lambda x: x.reshape(2, 6, 5, 2, 2), True),
        (lambda x: x[:, 1:3, ::2], True),
        (lambda x: x.unsqueeze(1).squeeze(1).transpose(1, 3), True),
        (lambda x: F.pad(x, (1, 1)), True),
        (lambda x: x.clone().contiguous(), True),
        (lambda x: F.max_pool2d(x, 2), True),
        (lambda x: x.flatten(1), False),
        (lambda x: x.flip(1), False),
        (lambda x: x[torch.tensor([1, 0])], False),
        (lambda x: F.pad(x, (0, 0, 0, 0, 1, 1)), False),
    ],
    ids=range(11),
)
@pytest.mark.parametrize("graph", [True, False])
def test_what_is_followed(function, followed, graph):
    layer = nn.Conv2d(4, 6, (3, 3)).double()
    with torch.set_grad_enabled(graph):
        z = run(layer, weights(layer), torch.randn(2, 4, 7, 6, dtype=torch.float64))
        found = function(z)
        pooled = None if found.shared is None else found.shared.pooled()
    assert (pooled is not None) == followed
    if pooled is not None:
        ones = [d for d in range(found.ndim) if d in pooled.dims]
        shape = [1 if d in ones else n for d, n in enumerate(found.shape)]
        assert list(pooled.variance.shape) == shape


def test_a_promise_is_kept_once():
    calls = []
    shared = SharedVariance(lambda: calls.append(1))
    assert not calls
    assert shared.pooled() is shared.pooled() is None
    assert len(calls) == 1
    with torch.no_grad():
        SharedVariance(lambda: calls.append(1))
    assert len(calls) == 2


def test_sine_is_exact_unless_asked_otherwise():
    z = tr.Gaussian(torch.tensor([0.3]), 4.0)
    with activation_moments("exact"):
        exact, rectified = torch.sin(z), torch.relu(z)
    with activation_moments("linear"):
        tangent = torch.relu(z)
        assert not torch.equal(torch.sin(z).variance, exact.variance)
    assert torch.equal(torch.sin(z).variance, exact.variance)
    assert torch.equal(torch.relu(z).variance, tangent.variance)
    assert not torch.equal(tangent.variance, rectified.variance)


def test_waves_have_the_variance_of_draws_by_default():
    net = nn.Sequential(nn.Linear(2, 16), Through(lambda x: torch.sin(30 * x)), nn.Linear(16, 1))
    x = torch.rand(8, 2, generator=generator("waves")) * 2 - 1
    assert 0.8 < ratio(net, x, draws=600) < 1.25


@pytest.mark.parametrize("axis", [2, 3, -1])
@pytest.mark.parametrize("sizes", [(4, 4), (3, 7), (2, 3, 5)])
def test_parts_joined_along_positions_have_the_mean_of_their_own_means(axis, sizes):
    """Parts of different layers are independent: ``var mean = sum (n_k / n)^2 var mean_k``."""
    generator = torch.Generator().manual_seed(sum(sizes))
    parts = []
    for size in sizes:
        shape = [2, 3, 5, 5]
        shape[axis] = size
        w = torch.randn(4, 3, 1, 1, generator=generator, dtype=torch.float64)
        x = torch.randn(shape, generator=generator, dtype=torch.float64)
        parts.append(F.conv2d(x, tr.Gaussian(w, 0.1 + w.square())))
    shares = [size / sum(sizes) for size in sizes]
    alone = sum(s**2 * z.mean((2, 3)).variance for s, z in zip(shares, parts, strict=True))
    torch.testing.assert_close(torch.cat(parts, axis).mean((2, 3)).variance, alone)
