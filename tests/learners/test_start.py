"""Initialization of TAGI: by depth and kind of network, or from given weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tractable as tr
from tractable.learners.methods.tagi.initialization import NARROW, PUBLISHED, default_prior_scale
from tractable.learners.network.structure import NetworkStructure, residual_branch_ends
from tractable.likelihoods import Bernoulli, Categorical, Normal
from tractable.nn import CausalTransformer


class Residual(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(x)


class Branches(nn.Module):
    """Two branches of different lengths, joined; and a product with a bare parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.long = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
        self.short = nn.Linear(4, 4)
        self.matrix = nn.Parameter(torch.randn(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.long(x), self.short(x)], 1)[:, :4] @ self.matrix


class Fickle(nn.Module):
    """A network with data-dependent control flow, which cannot be traced."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.a(x) if len(x) > 3 else self.b(x)


def chain(hidden: int, *extra: Any) -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(hidden):
        layers += [nn.Linear(4, 4), *(make(4) for make in extra), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(4, 1))


def test_anatomy() -> None:
    assert NetworkStructure.of(chain(3)) == NetworkStructure(4)
    assert NetworkStructure.of(chain(2, nn.BatchNorm1d)) == NetworkStructure(
        3, norms=True, batch_norms=True
    )
    assert NetworkStructure.of(chain(2, nn.LayerNorm)) == NetworkStructure(3, norms=True)
    blocks = [Residual(nn.Sequential(nn.Linear(4, 4), nn.ReLU())) for _ in range(5)]
    assert NetworkStructure.of(nn.Sequential(nn.Linear(4, 4), *blocks)) == NetworkStructure(6, 5)
    assert NetworkStructure.of(Branches()).depth == 3
    assert NetworkStructure.of(Fickle()) == NetworkStructure(2)
    assert NetworkStructure.of(nn.Conv2d(1, 1, 3)) == NetworkStructure(1, convolutions=True)
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    encoder = NetworkStructure.of(nn.TransformerEncoder(layer, 3))
    assert encoder == NetworkStructure(12, norms=True, attention=True)
    # Attention called as a function counts too.
    read = NetworkStructure.of(
        CausalTransformer(5, d_model=8, n_heads=2, n_layers=1, context_length=4)
    )
    assert read == NetworkStructure(7, norms=True, attention=True)
    words = nn.Sequential(nn.Embedding(5, 4), nn.LSTM(4, 4, 2))
    assert NetworkStructure.of(words) == NetworkStructure(3, recurrent=True)


def test_tracing_does_not_change_the_network() -> None:
    net = Residual(nn.Linear(4, 4))
    net.seen = 0  # type: ignore[assignment]
    net.register_forward_pre_hook(lambda module, _: setattr(module, "seen", 1))
    NetworkStructure.of(nn.Sequential(net, nn.Linear(4, 4)))
    assert net.seen == 0


@pytest.mark.parametrize("likelihood", [Normal(0.1), Bernoulli()])
@pytest.mark.parametrize("hidden", [0, 1, 2])
def test_networks_of_up_to_two_hidden_layers_have_the_published_prior(
    hidden: int, likelihood: tr.likelihoods.Likelihood
) -> None:
    usual = tr.TAGI(chain(hidden), likelihood, seed=3)
    stated = tr.TAGI(chain(hidden), likelihood, seed=3, gain=0.25, prior_variance_ratio=1.0)
    assert torch.equal(usual.state.posterior.loc, stated.state.posterior.loc)
    assert torch.equal(usual.state.posterior.variance, stated.state.posterior.variance)
    assert usual.method.scale == PUBLISHED


def test_initial_means_and_variances_have_the_stated_sizes() -> None:
    model = tr.TAGI(nn.Linear(50, 2000), Normal(0.1), gain=2.0, prior_variance_ratio=0.03)
    weight = model.posterior["weight"]
    torch.testing.assert_close(weight.loc.var().item(), 2 / 50, rtol=0.03, atol=0)
    torch.testing.assert_close(weight.variance, torch.full((2000, 50), 0.03 * 2 / 50))
    # Forgetting returns to this prior.
    assert model.posterior.prior_variance["weight"] == pytest.approx(0.03 * 2 / 50)


def test_gain_alone_implies_a_variance_ratio_of_one() -> None:
    model = tr.TAGI(chain(9), Normal(0.1), gain=0.5)
    assert model.method.config()["prior_variance_ratio"] == 1.0


def test_a_prior_variance_ratio_alone_keeps_the_usual_gain() -> None:
    usual = tr.TAGI(chain(9), Normal(0.1)).method.scale
    model = tr.TAGI(chain(9), Normal(0.1), prior_variance_ratio=0.2)
    assert (model.method.scale.gain, model.method.scale.prior_variance_ratio) == (usual.gain, 0.2)


def normalised(width: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(20, 20), nn.BatchNorm1d(20), nn.ReLU(),
        nn.Linear(20, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 1),
    )  # fmt: skip


def test_large_matrices_have_more_variance_if_scaled_by_size() -> None:
    model = tr.TAGI(
        normalised(1000), Normal(0.1), gain=2.0, prior_variance_ratio=0.1, scale_by_layer_size=True
    )
    prior = model.posterior.prior_variance
    assert prior["3.weight"] == pytest.approx(0.1 * 2 / 20 * 2)  # 20,000 weights
    assert prior["6.weight"] == pytest.approx(0.1 * 2 / 1000 / 5**0.5)  # 1,000
    assert prior["3.bias"] == pytest.approx(0.1 * 2 / 20)
    assert prior["4.weight"] == pytest.approx(0.1 * 2 / 100)


def relative_steps(net: nn.Module, even: bool) -> list[float]:
    """Return the change of the matrices by one batch, relative to their size."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(64, 20, generator=generator), torch.randn(64, 1, generator=generator)
    model = tr.TAGI(
        net,
        Normal(1.0),
        gain=2.0,
        prior_variance_ratio=0.01,
        scale_by_layer_size=even,
        engine="torch",
    )
    before = {name: part.loc.clone() for name, part in model.posterior.items()}
    model.update(x, y)
    matrices = {n: part.loc for n, part in model.posterior.items() if part.loc.ndim > 1}
    return [float((m - before[n]).norm() / before[n].norm()) for n, m in matrices.items()]


def test_scaled_by_layer_size_a_large_layer_moves_like_a_small_one() -> None:
    uneven, even = (relative_steps(normalised(2000), even) for even in (False, True))
    assert uneven[1] < 0.25 * uneven[0]  # 40,000 weights compared with 400
    assert even[1] == pytest.approx(even[0], rel=0.5)


def test_scaling_by_layer_size_is_usual_for_classes_with_normalisation_and_stay_in_a_file(
    tmp_path: Path,
) -> None:
    net = normalised(30)
    usual = tr.TAGI(net, Bernoulli())
    assert usual.method.scale.scale_by_layer_size
    assert not tr.TAGI(chain(9), Bernoulli()).method.scale.scale_by_layer_size
    assert not tr.TAGI(net, Bernoulli(), gain=1.0).method.scale.scale_by_layer_size
    assert not tr.TAGI(net, Normal(0.1)).method.scale.scale_by_layer_size
    usual.save(tmp_path / "model.tr")
    again = tr.Learner.load(tmp_path / "model.tr")
    assert again.method.scale == usual.method.scale
    assert again.posterior.prior_variance == usual.posterior.prior_variance


def test_deeper_networks_start_with_larger_means_and_less_variance() -> None:
    starts = [default_prior_scale(NetworkStructure(depth), numbers=False)
              for depth in (3, 5, 8, 12, 21)]  # fmt: skip
    gains = [start.gain for start in starts]
    doubts = [start.prior_variance_ratio for start in starts]
    assert gains == sorted(gains)
    assert doubts == sorted(doubts, reverse=True)
    residual = default_prior_scale(NetworkStructure(21, 19), numbers=False)
    assert residual.gain < starts[-1].gain


class Shortcut(nn.Module):
    """A branch of two matrices and a normalization, with a shortcut of one matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.long = nn.Sequential(
            nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.LayerNorm(4), nn.PReLU()
        )
        self.short = nn.Linear(4, 4)
        self.matrix = nn.Parameter(torch.randn(4, 4))
        self.attention = nn.MultiheadAttention(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.add(self.short(x), 0.5 * self.long(x))
        h = h + torch.relu(h.mT).mT @ self.matrix
        h = h + self.attention(h, h, h)[0]
        return h + self.short(h) + self.long(h).sum()  # two paths of the same length, one longer


def test_last_layers_of_residual_branches_are_found() -> None:
    blocks = [Residual(nn.Sequential(nn.Linear(4, 4), nn.ReLU())) for _ in range(3)]
    net = nn.Sequential(nn.Linear(4, 4), *blocks, nn.Linear(4, 1))
    assert residual_branch_ends(net) == ("1.inner.0.weight", "2.inner.0.weight", "3.inner.0.weight")
    found = set(residual_branch_ends(nn.Sequential(nn.Linear(4, 4), Shortcut())))
    assert {"1.long.3.weight", "1.matrix", "1.attention.out_proj.weight"} <= found
    assert not any(name.startswith(("0.", "1.long.0", "1.long.2")) for name in found)
    assert residual_branch_ends(chain(5)) == ()
    assert residual_branch_ends(Fickle()) == ()


class Scaled(nn.Module):
    """A branch with a scale per channel, as in ConvNeXt."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Conv2d(3, 3, 3, padding=1)
        self.scale = nn.Parameter(torch.full((3, 1, 1), 1e-3))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.scale * self.inner(x)


def test_a_scale_for_each_channel_keeps_its_value_whatever_its_shape() -> None:
    net = nn.Sequential(nn.Conv2d(1, 3, 3), Scaled(), nn.Flatten(), nn.Linear(12, 2))
    model = tr.TAGI(net, Categorical(3), gain=1.0)
    assert torch.equal(model.posterior["1.scale"].loc, torch.full((3, 1, 1), 1e-3))
    torch.testing.assert_close(model.posterior["1.scale"].variance, torch.full((3, 1, 1), 0.01))
    kernel = nn.Conv1d(1, 1, 3, bias=False)  # has the same shape, but is not such a scale
    first = tr.TAGI(nn.Sequential(kernel, nn.Flatten()), Normal(0.1), gain=1.0).posterior
    torch.testing.assert_close(first["0.weight"].variance, torch.full((1, 1, 3), 1 / 3))
    assert residual_branch_ends(net) == ("1.scale",)


def test_many_residual_branches_start_small_with_usual_variances() -> None:
    def residual(count: int) -> nn.Sequential:
        blocks = [Residual(nn.Sequential(nn.Linear(16, 16), nn.ReLU())) for _ in range(count)]
        return nn.Sequential(nn.Linear(4, 16), *blocks, nn.Linear(16, 1))

    many, full = (
        tr.TAGI(residual(16), Bernoulli(), seed=3, residual_gain=residual_gain)
        for residual_gain in (None, 1.0)
    )
    assert many.method.scale.residual_gain == pytest.approx(1 / 16)
    assert tr.TAGI(residual(4), Bernoulli()).method.scale.residual_gain == 1
    assert tr.TAGI(residual(16), Bernoulli(), gain=1.0).method.scale.residual_gain == 1
    for name in full.posterior:
        factor = 0.25 if name.endswith("inner.0.weight") else 1.0
        torch.testing.assert_close(
            many.posterior[name].loc, full.posterior[name].loc * factor, msg=name
        )
        assert torch.equal(many.posterior[name].variance, full.posterior[name].variance)


def test_the_factor_on_the_ends_of_branches_is_kept_in_files(
    tmp_path: Path,
) -> None:
    blocks = [Residual(nn.Sequential(nn.Linear(4, 4), nn.ReLU())) for _ in range(2)]
    net = nn.Sequential(nn.Linear(4, 4), *blocks, nn.Linear(4, 1))
    model = tr.TAGI(net, Bernoulli(), residual_gain=0.1)
    model.save(tmp_path / "model.tr")
    assert tr.TAGI.load(tmp_path / "model.tr", net=net).method.scale.residual_gain == 0.1
    with pytest.raises(ValueError, match="residual_gain must be a positive number"):
        tr.TAGI(net, Bernoulli(), residual_gain=0.0)


@pytest.mark.parametrize("engine", ["torch", "native"])
def test_a_deep_chain_learns_by_default(engine: Any) -> None:
    """With the published prior, the output of ten layers does not depend on the input."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(300, 4, generator=generator)
    y = (x[:, 0] * x[:, 1] > 0).long()
    errors = {}
    for name, options in {"usual": {}, "published": {"gain": 0.25}}.items():
        layers = [layer for _ in range(8) for layer in (nn.Linear(32, 32), nn.ReLU())]
        net = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), *layers, nn.Linear(32, 1))
        model = tr.TAGI(net, Bernoulli(), engine=engine, **options)  # type: ignore[arg-type]
        model.fit(x, y, epochs=15, batch_size=10, distance_aware=False)
        errors[name] = float((model.predict(x).mean.round() != y).float().mean())
    assert errors["usual"] < 0.12
    assert errors["published"] > 0.25


@pytest.mark.parametrize("sums", [0, 2])
def test_prior_variance_decreases_with_the_number_of_normalized_convolutions(sums: int) -> None:
    kinds = [
        NetworkStructure(d, min(sums, d - 1), norms=True, batch_norms=True, convolutions=True)
        for d in (4, 8, 21)
    ]
    starts = [default_prior_scale(kind, numbers=False) for kind in kinds]
    few, more, many = (start.prior_variance_ratio for start in starts)
    assert few == pytest.approx(0.5)
    assert few > more > many == pytest.approx(0.1)


def test_a_deep_normalised_chain_learns_classes_by_default() -> None:
    """With He's variances, the variance of sixteen layers exceeds the signal of the head."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, 4, generator=generator)
    y = (x[:, 0] + x[:, 1] > 0).long()
    errors = {}
    for name, options in {
        "usual": {},
        "He's": {"gain": 2.0, "prior_variance_ratio": 0.014},
    }.items():
        layers: list[nn.Module] = []
        for inputs in (4, *[48] * 15):
            layers += [nn.Linear(inputs, 48), nn.BatchNorm1d(48), nn.ReLU()]
        net = nn.Sequential(*layers, nn.Linear(48, 1))
        model = tr.TAGI(net, Categorical(2), seed=1, **options)  # type: ignore[arg-type]
        model.fit(x, y, epochs=6, batch_size=20, distance_aware=False)
        errors[name] = tr.metrics.error_rate(model.predict(x), y)
    assert errors["usual"] < 0.2
    assert errors["He's"] > 0.25


# --- from the network's own weights -----------------------------------------------------------


def test_weights_are_kept_as_means_and_the_head_is_reinitialized() -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))
    model = tr.TAGI(net, Categorical(5), init="net", reinit=["3"])
    assert torch.equal(model.posterior["0.weight"].loc, net[0].weight.detach())
    assert torch.equal(model.posterior["1.weight"].loc, net[1].weight.detach())
    assert not torch.equal(model.posterior["3.weight"].loc, net[3].weight.detach())
    torch.testing.assert_close(model.posterior["0.weight"].variance, torch.full((8, 4), NARROW / 4))
    torch.testing.assert_close(
        model.posterior["3.weight"].variance, torch.full((4, 8), PUBLISHED.gain / 8)
    )
    wider = tr.TAGI(net, Categorical(5), init="net", prior_variance_ratio=0.1)
    torch.testing.assert_close(wider.posterior["0.weight"].variance, torch.full((8, 4), 0.1 / 4))
    assert torch.equal(wider.posterior["3.weight"].loc, net[3].weight.detach())


def test_initial_predictions_equal_those_of_the_network() -> None:
    net = chain(3, nn.BatchNorm1d)
    net(torch.randn(50, 4, generator=torch.Generator().manual_seed(1)))  # running statistics
    x = torch.randn(7, 4, generator=torch.Generator().manual_seed(2))
    model = tr.TAGI(net, Normal(0.1), init="net", prior_variance_ratio=1e-12)
    with torch.no_grad():
        want = net.eval()(x)
    torch.testing.assert_close(model.outputs(x).predictive().mean, want, rtol=1e-4, atol=1e-5)


def test_files_keep_the_initialization(tmp_path: Path) -> None:
    x = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
    model = tr.TAGI(chain(2), Normal(0.1), init="net", reinit=["4"], prior_variance_ratio=0.05)
    model.fit(x, x[:, 0], epochs=2, distance_aware=False)
    model.save(tmp_path / "model.tr")
    again = tr.TAGI.load(tmp_path / "model.tr")
    assert again.method.config() == model.method.config()
    assert again.posterior.prior_variance == model.posterior.prior_variance
    assert torch.equal(again.predict(x).mean, model.predict(x).mean)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"reinit": ["4"]}, ValueError, "requires init='net'"),
        ({"init": "net", "reinit": "4"}, TypeError, "list of names"),
        ({"init": "net", "reinit": ["head"]}, ValueError, "no such module"),
        ({"init": "own"}, ValueError, "init must be one of"),
        ({"init": "net", "prior_variance_ratio": 0.0}, ValueError, "prior_variance_ratio"),
        ({"prior_variance_ratio": -1.0}, ValueError, "prior_variance_ratio"),
    ],
)
def test_misuse_is_refused(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        tr.TAGI(chain(2), Normal(0.1), **options)


def test_non_finite_weights_are_refused() -> None:
    net = chain(1)
    with torch.no_grad():
        net[0].weight[0, 0] = torch.nan
    with pytest.raises(ValueError, match=r"0\.weight has NaN"):
        tr.TAGI(net, Normal(0.1), init="net")


@pytest.mark.parametrize("net", [nn.BatchNorm1d(3), nn.LayerNorm(3), nn.GroupNorm(1, 3)], ids=str)
def test_networks_without_matrices_are_initialized(net):
    x = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
    model = tr.TAGI(net, tr.likelihoods.Normal(0.5)).update(x, torch.zeros(8, 3))
    assert bool(torch.isfinite(model.predict(x).std).all())


@pytest.mark.parametrize("sums", [0, 6])
def test_layer_normalization_gives_a_larger_head(sums: int) -> None:
    alone, batch = (
        default_prior_scale(
            NetworkStructure(8, sums, norms=True, batch_norms=over, convolutions=True),
            numbers=False,
        )
        for over in (False, True)
    )
    assert alone.gain > 2 * batch.gain
    assert alone.prior_variance_ratio == batch.prior_variance_ratio
