"""Modules in user code, under every learner."""

import copy
import threading
import warnings
from collections import namedtuple
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

import tractable as tr

LEARNERS = {
    "tagi": tr.TAGI,
    "bbb": tr.BayesByBackprop,
    "local": lambda *a, **k: tr.BayesByBackprop(*a, estimator="local", **k),
    "backprop": tr.Backprop,
    "laplace": tr.Laplace,
    "last layer": lambda *a, **k: tr.Laplace(*a, structure="last_layer", **k),
    "ensemble": lambda *a, **k: tr.Ensemble(*a, n_estimators=2, **k),
}
GRADIENT = [name for name in LEARNERS if name != "tagi"]


@pytest.fixture(params=LEARNERS)
def learner(request):
    return LEARNERS[request.param]


def rows(n=24):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, 2, generator=generator)
    return x, (x[:, :1] - 0.5 * x[:, 1:]) + 0.1 * torch.randn(n, 1, generator=generator)


def learnt(make, net, x, y, batch_size=8, shuffle=True, **options):
    """Return the complete state after two epochs and an update."""
    model = make(net, tr.likelihoods.Normal(0.5), seed=1, **options)
    fit = {"epochs": 2, "batch_size": batch_size, "shuffle": shuffle, "distance_aware": False}
    model.fit(x, y, **fit).update(x, y)
    return model, {n: t.clone() for n, t in model.state_dict().items()}


def same(one, other, tolerance=0.0):
    assert one.keys() == other.keys()
    for name in one:
        a, b = one[name].double(), other[name].double()
        assert torch.allclose(a, b, rtol=tolerance, atol=tolerance), name


# --- outputs -----------------------------------------------------------------------------------


class Squeezed(nn.Sequential):
    def forward(self, x):
        return super().forward(x).squeeze()


@pytest.mark.parametrize("flat", [lambda m: nn.Sequential(*m, nn.Flatten(0)), Squeezed])
def test_outputs_without_a_column_axis_become_one_column(learner, flat):
    x, y = rows()
    layers = [nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1)]
    column, wanted = learnt(learner, nn.Sequential(*layers), x, y[:, 0])
    made = flat(layers) if flat is not Squeezed else Squeezed(*layers)
    vector, found = learnt(learner, made, x, y[:, 0])
    same(wanted, found, 1e-6)  # a chain of layers may go to the compiled kernel
    p = vector.predict(x)
    assert p.mean.shape == p.log_prob(y[:, 0]).shape == (24,)
    assert torch.allclose(p.mean, column.predict(x).mean, atol=1e-6)
    assert vector.predict(x[:1]).mean.shape == (1,)


def test_an_output_without_rows_is_refused(learner):
    class Total(nn.Linear):
        def forward(self, x):
            return super().forward(x).sum(0, keepdim=True)

    model = learner(Total(2, 1), tr.likelihoods.Normal(0.5))
    with pytest.raises(tr.errors.InvalidInput, match="a row of outputs for each row"):
        model.update(*rows())


class Heads(nn.Module):
    """Returns a selection of three tensors."""

    def __init__(self, give):
        super().__init__()
        self.a, self.b, self.give = nn.Linear(2, 1), nn.Linear(2, 1), give

    def forward(self, x):
        return self.give(self.a(x), self.b(x), x)


@dataclass
class Answer:
    loss: torch.Tensor | None
    mean: torch.Tensor


Pair = namedtuple("Pair", "mean hidden")
SINGLE = [lambda a, b, x: (a,), lambda a, b, x: {"mean": a, "kind": "first"},
          lambda a, b, x: [a, None], lambda a, b, x: Answer(None, a)]  # fmt: skip


@pytest.mark.parametrize("give", SINGLE)
def test_the_only_tensor_that_is_returned_is_the_output(learner, give):
    x, y = rows()
    _, wanted = learnt(learner, Heads(lambda a, b, x: a), x, y)
    _, found = learnt(learner, Heads(give), x, y)
    same(wanted, found)


SEVERAL = {
    0: lambda a, b, x: (a, b),
    "mean": lambda a, b, x: {"hidden": x, "mean": a},
    "b": lambda a, b, x: {"other": b, "b": a},
    1: lambda a, b, x: Answer(b, a),
}


@pytest.mark.parametrize("key", SEVERAL)
def test_the_user_selects_one_of_several_output_tensors(learner, key):
    x, y = rows()
    with pytest.raises(TypeError, match=r"tr\.Output\(net, "):
        learner(Heads(SEVERAL[key]), tr.likelihoods.Normal(0.5)).update(x, y)
    plain, _ = learnt(learner, tr.Output(Heads(lambda a, b, x: (a,)), 0), x, y)
    taken, _ = learnt(learner, tr.Output(Heads(SEVERAL[key]), key), x, y)
    assert torch.equal(plain.predict(x).mean, taken.predict(x).mean)


def test_outputs_are_joined_in_the_requested_order(learner):
    x, y = rows()
    both = torch.cat([y, -y], 1)
    wanted, _ = learnt(learner, Heads(lambda a, b, x: torch.cat([b, a], 1)), x, both)
    net = tr.Output(Heads(lambda a, b, x: Pair(a, b[:, 0])), ["hidden", "mean"])
    found, _ = learnt(learner, net, x, both)
    torch.testing.assert_close(wanted.predict(x).mean, found.predict(x).mean)


class Auxiliary(nn.Module):
    """Returns two heads in training mode and the first alone otherwise, like GoogLeNet."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(2, 1), nn.Linear(2, 1)

    def forward(self, x):
        return Pair(self.a(x), self.b(x)) if self.training else self.a(x)


def test_an_output_may_be_the_only_tensor_in_evaluation_mode(learner):
    x, y = rows()
    wanted, _ = learnt(learner, tr.Output(Auxiliary(), 0), x, y)
    found, _ = learnt(learner, tr.Output(Auxiliary(), "mean"), x, y)
    assert torch.equal(wanted.predict(x).mean, found.predict(x).mean)
    with pytest.raises(TypeError, match="no output 1"):
        learner(tr.Output(Auxiliary(), 1), tr.likelihoods.Normal(0.5)).update(x, y)


def test_a_missing_output_is_named():
    x, y = rows()
    net = tr.Output(Heads(lambda a, b, x: {"mean": a, "kind": "k"}), "men")
    with pytest.raises(TypeError, match="no output 'men'; its outputs are 'mean'"):
        tr.Backprop(net, tr.likelihoods.Normal(0.5)).update(x, y)
    with pytest.raises(TypeError, match="must return a tensor, got str"):
        tr.Backprop(Heads(lambda a, b, x: "no"), tr.likelihoods.Normal(0.5)).update(x, y)
    with pytest.raises(ValueError, match="key is an empty list"):
        tr.Output(nn.Linear(2, 1), [])


# --- complex numbers -----------------------------------------------------------------------------


class Turned(nn.Linear):
    def __init__(self):
        super().__init__(2, 1)
        self.register_buffer("c", torch.tensor([1 + 2j]))

    def forward(self, x):
        return super().forward((x * self.c).abs())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_complex_buffers_stay_complex(learner, dtype, tmp_path):
    x, y = rows()
    model, _ = learnt(learner, Turned(), x, y, dtype=dtype)
    assert model.net.c.dtype is dtype.to_complex()
    assert model.net.c.imag.item() == 2
    model.save(tmp_path / "model.tr")
    again = tr.Learner.load(tmp_path / "model.tr", net=Turned())
    assert torch.equal(again.predict(x).mean, model.predict(x).mean)


def test_a_complex_buffer_counts_as_in_torch():
    net = Turned()
    x, _ = rows()
    model = tr.Backprop(net, tr.likelihoods.Normal(0.5), init="net")
    assert torch.allclose(model.predict(x).mean, net(x)[:, 0], atol=1e-6)


def test_a_complex_parameter_is_refused():
    net = nn.Linear(2, 1)
    net.c = nn.Parameter(torch.tensor([1 + 2j]))
    with pytest.raises(TypeError, match="complex64"):
        tr.Backprop(net, tr.likelihoods.Normal(0.5))
    net.c.requires_grad_(False)
    assert tr.Backprop(net, tr.likelihoods.Normal(0.5), dtype=torch.float64).net.c.imag == 2


# --- integers ------------------------------------------------------------------------------------


class OneHot(nn.Linear):
    def forward(self, x):
        return super().forward(F.one_hot(x[:, 0], 3).to(self.weight.dtype))


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Parameter(torch.randn(3, 2)), nn.Linear(2, 1)

    def forward(self, x):
        return self.head(self.table[x[:, 0]])


def test_integer_indices_stay_integers(learner):
    x = torch.arange(24).reshape(-1, 1) % 3
    y = x.float() - 1
    model, found = learnt(learner, OneHot(3, 1), x, y)
    _, wanted = learnt(learner, nn.Linear(3, 1), F.one_hot(x[:, 0], 3).float(), y)
    same(wanted, found, 1e-5)
    assert model.predict(x.numpy()).mean.shape == (24, 1)
    with pytest.raises(tr.errors.InvalidInput, match="index tensor"):
        model.predict(x.float())


def test_rows_of_a_parameter_are_looked_up(learner):
    x = torch.arange(24).reshape(-1, 1) % 3
    _, found = learnt(learner, Table(), x, x.float() - 1)
    start = learner(Table(), tr.likelihoods.Normal(0.5), seed=1).state_dict()
    assert any(not torch.equal(found[n], t) for n, t in start.items() if n.endswith("table"))


# --- outputs that depend on other rows -----------------------------------------------------------


class Rolled(nn.Linear):
    """Every row receives the features of the previous one, as in a graph."""

    def forward(self, x):
        return super().forward(x[torch.arange(24).roll(1)])


@pytest.mark.parametrize("name", [n for n in LEARNERS if n not in ("laplace", "last layer")])
def test_outputs_may_depend_on_other_rows(name):
    x, y = rows()
    model, found = learnt(LEARNERS[name], Rolled(2, 1), x, y, batch_size=None)
    _, wanted = learnt(LEARNERS[name], nn.Linear(2, 1), x.roll(1, 0), y, 24, shuffle=False)
    same(wanted, found, 1e-5)
    assert model.fit(x, y, epochs=1).predict(x).novelty is None
    with pytest.raises(tr.errors.InvalidInput, match="holds out rows"):
        model.fit(x, y, epochs=1, calibrate=True)
    with pytest.raises(tr.errors.InvalidInput, match="out of bounds"):
        model.fit(x[:7], y[:7])


def test_row_by_row_methods_reject_networks_that_mix_rows():
    with pytest.raises(tr.errors.InvalidInput, match="runs the network on single rows"):
        tr.Laplace(Rolled(2, 1), tr.likelihoods.Normal(0.5)).update(*rows())


# --- networks that cannot be copied --------------------------------------------------


def test_errors_for_networks_without_replaceable_weights_suggest_a_remedy(learner):
    normal = tr.likelihoods.Normal(0.5)
    with pytest.raises(TypeError, match="run the network once"):
        learner(nn.Sequential(nn.LazyLinear(3), nn.Linear(3, 1)), normal)
    net = nn.Linear(2, 1)
    net.lock = threading.Lock()
    with pytest.raises(TypeError, match="cannot copy this Linear"):
        learner(net, normal)


def scripted(net, x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is deprecated
        return torch.jit.script(net), torch.jit.trace(copy.deepcopy(net), x)


@pytest.mark.parametrize("name", [name for name in GRADIENT if name != "local"])
@pytest.mark.parametrize("norm", [nn.BatchNorm1d, nn.LayerNorm])
def test_torchscript_learns_what_its_module_learns(name, norm):
    x, y = rows()
    net = nn.Sequential(nn.Linear(2, 4), norm(4), nn.Tanh(), nn.Linear(4, 1))
    model, wanted = learnt(LEARNERS[name], net, x, y)
    compiled = scripted(copy.deepcopy(net), x)
    for same_net in compiled[: 1 if norm is nn.BatchNorm1d else 2]:  # tracing fills statistics
        before = [p.clone() for p in same_net.parameters()]
        again, found = learnt(LEARNERS[name], same_net, x, y)
        same(wanted, found, 1e-5)
        p, q = model.predict(x), again.predict(x)
        torch.testing.assert_close(p.std, q.std, rtol=1e-3, atol=1e-4)
        for parameter, old in zip(same_net.parameters(), before, strict=True):
            assert torch.equal(parameter, old)


class ByProduct(nn.Linear):
    """A layer without support by the local estimator, which then samples its weights once."""

    def forward(self, x):
        return x @ self.weight.T + self.bias


@pytest.mark.parametrize("options", [{}, {"n_train_samples": 3}, {"kl": "sampled"}], ids=str)
def test_the_local_estimator_draws_the_weights_of_torchscript(options):
    x, y = rows()
    _, wanted = learnt(LEARNERS["local"], nn.Sequential(ByProduct(2, 1)), x, y, **options)
    for head in scripted(nn.Linear(2, 1), x):
        _, found = learnt(LEARNERS["local"], nn.Sequential(head), x, y, **options)
        same(wanted, found, 1e-5)


def test_the_local_estimator_draws_the_outputs_of_layers_beside_torchscript():
    x, y = rows()
    layers = nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1)
    _, wanted = learnt(LEARNERS["local"], nn.Sequential(*layers), x, y)
    for middle in scripted(layers[1], torch.zeros(3, 4)):
        _, found = learnt(LEARNERS["local"], nn.Sequential(layers[0], middle, layers[2]), x, y)
        same(wanted, found, 1e-5)


def test_torchscript_is_refused_by_learners_that_need_moment_rules():
    for net in scripted(nn.Linear(2, 1), torch.zeros(3, 2)):
        with pytest.raises(TypeError, match="layer '0' is a compiled TorchScript"):
            tr.TAGI(nn.Sequential(net), tr.likelihoods.Normal(0.5))
    with pytest.raises(TypeError, match="the network is a compiled TorchScript"):
        tr.coverage(net, torch.zeros(3, 2))


def test_an_initialized_lazy_network_is_supported(learner):
    net = nn.LazyLinear(1)
    x, y = rows()
    net(x[:2])
    assert learner(net, tr.likelihoods.Normal(0.5)).update(x, y).fitted


class Keeps(nn.Module):
    """Stores tensors with a graph, as many modules do for later inspection."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(2, 3), nn.Linear(3, 1)

    def forward(self, x):
        self.seen = [torch.tanh(self.body(x))]
        return self.head(self.seen[0])


def test_tensors_stored_by_a_forward_pass_do_not_prevent_copies(learner):
    x, y = rows()
    net = Keeps()
    net(x)
    model, _ = learnt(learner, net, x, y)
    twin = model.clone()
    assert torch.equal(twin.predict(x).mean, model.predict(x).mean)
    assert model.fit(x, y, epochs=1, calibrate=True).run.scale is not None


# --- parametrised weights ------------------------------------------------------------------------


def old(function):
    """The same parametrization by a hook, as in older versions of torch."""

    def make(layer):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(layer)

    return make


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # of torch.func.vmap
@pytest.mark.parametrize("name", GRADIENT)
@pytest.mark.parametrize(
    "norm",
    [
        parametrizations.weight_norm,
        parametrizations.spectral_norm,
        parametrizations.orthogonal,
        old(nn.utils.weight_norm),
        old(nn.utils.spectral_norm),
    ],
    ids=["weight", "spectral", "orthogonal", "old weight", "old spectral"],
)
def test_parametrised_layers_are_learnt(name, norm):
    x, y = rows()
    net = nn.Sequential(norm(nn.Linear(2, 4)), nn.Tanh(), nn.Linear(4, 1))
    model, found = learnt(LEARNERS[name], net, x, y)
    start = LEARNERS[name](net, tr.likelihoods.Normal(0.5), seed=1).state_dict()
    own = [n for n in start if "/0." in n and "loc/" in n and "bias" not in n]
    assert own
    assert all(not torch.equal(start[n], found[n]) for n in own)
    assert torch.equal(model.clone().predict(x).mean, model.predict(x).mean)


@pytest.mark.parametrize("norm", ["weight_norm", "spectral_norm", "orthogonal"])
def test_parametrized_layers_are_initialized_from_the_seed(norm):
    net = getattr(parametrizations, norm)(nn.Linear(3, 4)).eval()
    own = net.weight.clone()
    normal = tr.likelihoods.Normal(0.5)
    a, b, c = (tr.Backprop(net, normal, seed=seed).net.eval().weight for seed in (1, 1, 2))
    assert torch.equal(a, b)
    assert not torch.isclose(a, c).any()
    assert torch.equal(net.weight, own)


# --- checkpointing, reused layers and vmap -----------------------------------------


class Checkpointed(nn.Module):
    def __init__(self, again=True):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 4))
        self.head, self.again = nn.Linear(4, 1), again

    def forward(self, x):
        h = checkpoint(self.body, x, use_reentrant=False) if self.again else self.body(x)
        return self.head(torch.relu(h))


@pytest.mark.parametrize("options", [{}, {"moments": "exact"}], ids=["linear", "exact"])
def test_a_checkpoint_changes_nothing(learner, options):
    if options and learner is not tr.TAGI:
        return
    x, y = rows()
    options = {**options, "dtype": torch.float64}
    _, wanted = learnt(learner, Checkpointed(False), x, y, **options)
    _, found = learnt(learner, Checkpointed(), x, y, **options)
    same(wanted, found, 1e-10)


def test_local_noise_is_not_repeated_for_a_layer_that_is_used_twice():
    class Twice(Checkpointed):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(2, 2)
            self.head = nn.Linear(2, 1)

        def forward(self, x):
            return self.head(checkpoint(lambda h: self.body(self.body(h)), x, use_reentrant=False))

    model = tr.BayesByBackprop(Twice(), tr.likelihoods.Normal(0.5), estimator="local")
    with pytest.raises(TypeError, match="used twice"):
        model.update(*rows())


class RowByRow(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(2, 3), nn.Linear(3, 1)

    def forward(self, x):
        return self.head(torch.tanh(torch.func.vmap(self.body)(x)))


class AtOnce(RowByRow):
    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))


@pytest.mark.parametrize("name", [n for n in GRADIENT if n != "local"])
def test_vmap_inside_changes_nothing(name):
    x, y = rows()
    _, wanted = learnt(LEARNERS[name], AtOnce(), x, y)
    _, found = learnt(LEARNERS[name], RowByRow(), x, y)
    same(wanted, found, 1e-5)


class ByProductInRows(RowByRow):
    """The weights of the body are sampled once, as vmap requires."""

    def forward(self, x):
        return self.head(torch.tanh(ByProduct.forward(self.body, x)))


class SlopeInRows(RowByRow):
    """Computes the derivative by its input, as in physics-informed networks."""

    def forward(self, x):
        def value(row):
            return torch.tanh(self.body(row)).sum()

        return torch.func.vmap(torch.func.grad(value))(x) @ self.head.weight[0, :2, None]


class SlopeByHand(RowByRow):
    def forward(self, x):
        w = self.body.weight
        slope = 1 - torch.tanh(x @ w.T + self.body.bias) ** 2
        return slope @ w @ self.head.weight[0, :2, None]


@pytest.mark.parametrize(
    ("by_row", "by_hand"), [(RowByRow, ByProductInRows), (SlopeInRows, SlopeByHand)]
)
def test_the_local_estimator_draws_weights_once_inside_vmap(by_row, by_hand):
    x, y = rows()
    _, wanted = learnt(LEARNERS["local"], by_hand(), x, y)
    _, found = learnt(LEARNERS["local"], by_row(), x, y)
    same(wanted, found, 1e-5)


class Experts(nn.Module):
    """Passes a parameter as an argument of vmap."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(3, 1, 2)), nn.Parameter(torch.zeros(3, 1))

    def forward(self, x):
        return torch.func.vmap(F.linear, (None, 0, 0))(x, self.weight, self.bias).mean(0)


class Shifted(nn.Linear):
    """A sum, whose rule needs no autograd function."""

    def forward(self, x):
        return super().forward(x) + torch.func.vmap(lambda row: row[:1] + self.bias)(x)


def test_parameters_passed_to_vmap_are_not_sampled_at_outputs():
    normal = tr.likelihoods.Normal(0.5)
    assert tr.BayesByBackprop(Experts(), normal).update(*rows()).fitted
    with pytest.raises(NotImplementedError, match=r"local.*vmap.*estimator='weights'"):
        tr.BayesByBackprop(Experts(), normal, estimator="local").update(*rows())


@pytest.mark.parametrize("make", [Experts, lambda: Shifted(2, 1)])
def test_vmap_below_the_rules_is_refused_by_name(make):
    with pytest.raises(tr.NoMomentRule, match=r"by torch\.func\.vmap"):
        tr.TAGI(make(), tr.likelihoods.Normal(0.5)).update(*rows())


def test_unsupported_vmap_is_refused_by_name():
    normal = tr.likelihoods.Normal(0.5)
    with pytest.raises(tr.NoMomentRule, match="vmap"):
        tr.TAGI(RowByRow(), normal).update(*rows())


# --- weights by keyword --------------------------------------------------------------------------


class ByKeyword(nn.Linear):
    def forward(self, x):
        return F.linear(x, bias=self.bias, weight=self.weight)


def test_weights_may_be_given_by_keyword(learner):
    x, y = rows()
    _, wanted = learnt(learner, nn.Linear(2, 1), x, y)
    _, found = learnt(learner, ByKeyword(2, 1), x, y)
    same(wanted, found, 1e-5)
