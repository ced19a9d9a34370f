"""Networks of several inputs learn the same as a network of the joined input."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import tractable as tr
from tractable.learners import Checkpoint

LEARNERS = {
    "tagi": tr.TAGI,
    "compiled": lambda *a, **k: tr.TAGI(*a, compile=True, **k),
    "bbb": tr.BayesByBackprop,
    "local": lambda *a, **k: tr.BayesByBackprop(*a, estimator="local", n_train_samples=2, **k),
    "backprop": tr.Backprop,
    "laplace": tr.Laplace,
    "ensemble": lambda *a, **k: tr.Ensemble(*a, n_estimators=2, **k),
    "tagis": lambda *a, **k: tr.Ensemble(*a, n_estimators=2, learner=tr.TAGI, **k),
}
BATCH = {"batch_size": 8, "shuffle": False}


class Joined(nn.Sequential):
    """Takes its columns from two tensors."""

    def forward(self, a, b):
        return super().forward(torch.cat([a, b], 1))


class Apart(nn.Sequential):
    """Takes one tensor; a custom class, so that the kernel for plain chains is not used."""

    def forward(self, x):
        return super().forward(torch.cat([x[:, :1], x[:, 1:]], 1))


def layers():
    return nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)


def rows(n=24):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, 3, generator=generator)
    return x, x[:, 0] - 0.5 * x[:, 2] + 0.1 * torch.randn(n, generator=generator)


def both(x):
    return x[:, :1], x[:, 1:]


@pytest.fixture(params=[name for name in LEARNERS if name != "compiled"])
def make(request):
    return lambda net: LEARNERS[request.param](net, tr.likelihoods.Normal(0.5), seed=1)


def same(one, other):
    mine, theirs = one.state_dict(), other.state_dict()
    mine = {n: t for n, t in mine.items() if not n.startswith("support/")}
    theirs = {n: t for n, t in theirs.items() if not n.startswith("support/")}
    assert mine.keys() == theirs.keys()
    for name in mine:
        a, b = mine[name].double(), theirs[name].double()
        assert torch.allclose(a, b, rtol=1e-5, atol=1e-6), name


@pytest.mark.parametrize("named", [False, True], ids=["tuple", "names"])
def test_several_inputs_equal_one_tensor(make, named):
    x, y = rows()
    a, b = both(x)
    given = {"b": b.numpy(), "a": a} if named else (a, b.numpy())
    one, several = make(Apart(*layers())), make(Joined(*layers()))
    for model, inputs in ((one, x), (several, given)):
        model.fit(inputs, y, epochs=2, batch_size=8, validation=(inputs, y)).update(inputs, y)
    same(several, one)
    assert several.history[0]["validation_nll"] == pytest.approx(one.history[0]["validation_nll"])
    found = several.predict(given, batch_size=5)
    assert torch.allclose(found.mean, one.predict(x).mean, atol=1e-5)
    assert found.novelty is None


def test_compiled_steps_support_several_inputs(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda graph, **options: graph)  # tracing as usual
    x, y = rows(8)
    models = [LEARNERS["compiled"](Joined(*layers()), tr.likelihoods.Normal(0.5)) for _ in "ab"]
    models[1].method.engine = models[1].method.eager
    for model in models:
        model.update(both(x), y).update(dict(zip("ab", both(x), strict=True)), y)
    same(*models)


class Pairs(Dataset):
    """Inputs as collated by torch: a list or a dict."""

    def __init__(self, x, y, named):
        self.x, self.y, self.named = x, y, named

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        a, b = self.x[i, :1], self.x[i, 1:]
        return ({"a": a, "b": b} if self.named else (a, b)), self.y[i]


@pytest.mark.parametrize("kind", ["pairs", "names", "one after the other"])
def test_data_loaders_support_several_inputs(kind):
    x, y = rows()
    flat = TensorDataset(*both(x), y)
    data = flat if kind.startswith("one") else Pairs(x, y, kind == "names")
    for name in ("tagi", "backprop"):
        by_rows, by_loader = (
            LEARNERS[name](Joined(*layers()), tr.likelihoods.Normal(0.5), seed=1) for _ in "ab"
        )
        by_rows.fit(both(x), y, epochs=2, **BATCH)
        by_loader.fit(DataLoader(data, batch_size=8), epochs=2)
        same(by_rows, by_loader)


def test_hold_out_copies_files_and_resumed_runs(make, tmp_path):
    x, y = rows()
    path = tmp_path / "checkpoint.tr"
    model = make(Joined(*layers()))
    options = {"epochs": 2, "calibrate": True, "resume": path, **BATCH}
    model.fit(both(x), y, callbacks=[Checkpoint(path)], **options)
    assert model.run.scale is not None
    model.save(tmp_path / "model.tr")
    again = tr.Learner.load(tmp_path / "model.tr", net=Joined(*layers()))
    resumed = make(Joined(*layers())).fit(both(x), y, **options)
    for other in (again, resumed, model.clone()):
        same(other, model)
        assert torch.equal(other.predict(both(x)).mean, model.predict(both(x)).mean)
    with pytest.raises(ValueError, match="other data"):
        make(Joined(*layers())).fit(both(x + 1), y, **options)


def test_one_observation_has_a_scalar_target(make):
    x, y = rows(3)
    one, other = make(Joined(*layers())), make(Joined(*layers()))
    for i in range(3):
        one.update((x[i, :1], x[i, 1:]), float(y[i]))
        other.update(both(x[i : i + 1]), y[i : i + 1])
    same(one, other)


def test_functions_are_drawn(make):
    x, y = rows()
    model = make(Joined(*layers())).update(both(x), y)
    drawn = model.sample(
        model.checks.inputs(both(x)), 3, generator=torch.Generator().manual_seed(0)
    )
    assert drawn.shape == (3, 24, 1)


class Looked(nn.Module):
    """One input is an index, the other a number."""

    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(5, 2), nn.Linear(3, 1)

    def forward(self, ids, value):
        return self.head(torch.cat([self.table(ids), value], 1))


def test_integer_and_numeric_inputs_can_be_combined(make):
    x, y = rows()
    given = {"ids": torch.arange(24) % 5, "value": x[:, :1].double()}
    model = make(Looked()).fit(given, y, epochs=1, **BATCH)
    taken = model.checks.inputs(given)
    assert taken.parts["ids"].dtype is torch.int64
    assert taken.parts["value"].dtype is torch.float32
    assert model.predict(given).mean.shape == (24,)


def test_gaussian_and_deterministic_inputs_can_be_combined():
    x, y = rows()
    a, b = both(x)
    model = tr.TAGI(Joined(*layers()), tr.likelihoods.Normal(0.5)).fit((a, b), y, epochs=2)
    wide = model.predict((tr.Gaussian(a, 0.5), b))
    assert (wide.variance > model.predict((a, b)).variance).all()
    with pytest.raises(TypeError, match="certain inputs"):
        tr.Backprop(Joined(*layers()), tr.likelihoods.Normal(0.5)).update((tr.Gaussian(a, 1), b), y)


def test_inconsistent_inputs_are_refused(make):
    x, y = rows()
    a, b = both(x)
    model = make(Joined(*layers()))
    before = model.state_dict()
    with pytest.raises(tr.errors.InvalidInput, match="same number of rows"):
        model.update((a, b[:5]), y)
    with pytest.raises(tr.errors.InvalidInput, match="inputs have 24 rows and targets have 5"):
        model.update((a, b), y[:5])
    with pytest.raises(tr.errors.InvalidInput, match=r"shape \(24, 1\), \(24, 1\)"):
        model.update((a, a), y)
    with pytest.raises(tr.errors.InvalidInput, match="NaN"):
        model.update((a, b * torch.nan), y)
    with pytest.raises(TypeError, match="unexpected keyword argument 'c'"):
        model.update({"a": a, "c": b}, y)
    after = model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_functions_for_one_input_reject_several():
    x, y = rows()
    model = tr.TAGI(Joined(*layers()), tr.likelihoods.Normal(0.5)).fit(both(x), y, epochs=1)
    checked = model.checks.data(both(x), y)
    with pytest.raises(TypeError, match="networks of one input; there are 2"):
        model.log_prob_gradient(*checked)
    with pytest.raises(TypeError, match="an attack is for networks of one input"):
        tr.attacks.fgsm(model, both(x), y, 0.1)
    with pytest.raises(TypeError, match="inferring an input is for networks of one input"):
        tr.infer.invert(model, y, both(x), input_std=1.0)
