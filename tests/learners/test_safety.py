"""Random update histories, refused input, and the state after a failure."""

import itertools

import pytest
import torch
from torch import nn

import tractable as tr
from tractable.errors import InvalidInput, NonFiniteUpdate

LIKELIHOODS = [
    lambda: (tr.likelihoods.Normal(0.01), 1),
    lambda: (tr.likelihoods.Normal(), 1),
    lambda: (tr.likelihoods.Bernoulli(), 1),
    lambda: (tr.likelihoods.Categorical(4, link="probit"), 3),
    lambda: (tr.likelihoods.Categorical(4, link="normal", sigma=0.01), 3),
    lambda: (tr.likelihoods.HeteroscedasticNormal(), 2),
    lambda: (tr.likelihoods.Normal(1e-3, outputs=3), 3),
]


def random_model(generator: torch.Generator, kind: int) -> tuple[tr.TAGI, int, int]:
    def draw(high: int) -> int:
        return int(torch.randint(1, high + 1, (), generator=generator))

    likelihood, outputs = LIKELIHOODS[kind % len(LIKELIHOODS)]()
    sizes = [draw(4), *[draw(6) for _ in range(draw(3))], outputs]
    activation = [nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.LeakyReLU][kind % 5]
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(sizes):
        layers += [nn.Linear(before, after), activation()]
    model = tr.TAGI(
        nn.Sequential(*layers[:-1]),
        likelihood,
        gain=[0.1, 1.0, 10.0][kind % 3],
        moments=["linear", "exact"][kind % 2],
        batch_rule="published" if kind % 4 == 3 else "damped",
        seed=kind,
    )
    return model, sizes[0], kind


def random_batch(model: tr.TAGI, features: int, generator: torch.Generator):
    rows = int(torch.randint(1, 9, (), generator=generator))
    scale = 10.0 ** torch.randint(-6, 7, (), generator=generator)
    x = scale * torch.randn(rows, features, generator=generator)
    if isinstance(model.likelihood, tr.likelihoods.Categorical):
        return x, torch.randint(0, 4, (rows,), generator=generator)
    if isinstance(model.likelihood, tr.likelihoods.Bernoulli):
        return x, torch.randint(0, 2, (rows,), generator=generator)
    y = torch.randn(rows, model.checks.output_shape(x)[-1], generator=generator)
    if isinstance(model.likelihood, tr.likelihoods.HeteroscedasticNormal):
        y = y[:, :1]
    outlier = 1e6 if torch.rand((), generator=generator) < 0.1 else 1.0
    return x, outlier * y


def test_ten_thousand_random_updates_keep_every_variance_finite_and_not_negative():
    generator = torch.Generator().manual_seed(0)
    updates = refused = 0
    kind = 0
    while updates < 10_000:
        model, features, kind = random_model(generator, kind)
        kind += 1
        for _ in range(50):
            x, y = random_batch(model, features, generator)
            before = model.posterior.variance.clone()
            try:
                model.update(x, y)
            except NonFiniteUpdate:
                refused += 1
                assert torch.equal(model.posterior.variance, before)
            updates += 1
            variance = model.posterior.variance
            assert torch.isfinite(variance).all()
            assert (variance >= 0).all()
            assert (variance <= before * (1 + 1e-6)).all()
            assert torch.isfinite(model.posterior.loc).all()
            for buffer in model.likelihood.buffers():
                assert torch.isfinite(buffer.double()).all()
    assert refused < 0.03 * updates  # inputs of 1e6 with weights of 1e5 overflow float32


def small_model(**options) -> tr.TAGI:
    return tr.TAGI(
        nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1)),
        tr.likelihoods.Normal(),
        **options,
    )


@pytest.mark.parametrize(
    ("x", "y", "error"),
    [
        (
            torch.tensor([[1.0, torch.nan]]),
            torch.ones(1),
            "1 NaN or infinite values, the first in row 0",
        ),
        (torch.ones(2, 2), torch.tensor([1.0, torch.inf]), "targets have 1 NaN"),
        (torch.ones(2, 3), torch.ones(2), r"cannot process inputs of shape \(2, 3\)"),
        (torch.ones(2, 2), torch.ones(3), "inputs have 2 rows and targets have 3"),
        (torch.ones(0, 2), torch.ones(0), "at least one row"),
        (torch.ones(2, 2, dtype=torch.complex64), torch.ones(2), "real numbers"),
        (torch.full((2, 2), 1e30), torch.ones(2), "not finite"),
    ],
    ids=["nan-input", "inf-target", "features", "rows", "empty", "complex", "overflow"],
)
@pytest.mark.parametrize("call", ["update", "fit"])
def test_bad_input_is_refused_and_changes_nothing(x, y, error, call):
    model = small_model()
    model.update(torch.ones(2), 1.0)
    before = {name: t.clone() for name, t in model.state_dict().items()}
    noise = model.likelihood.noise_mean.clone()
    with pytest.raises((ValueError, ArithmeticError), match=error):
        model.update(x, y) if call == "update" else model.fit(x, y, epochs=1)
    after = model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert torch.equal(noise, model.likelihood.noise_mean)


def test_batch_norm_statistics_survive_a_failed_update():
    net = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))
    model = tr.TAGI(net, tr.likelihoods.Normal(0.1))
    model.update(torch.randn(8, 2, generator=torch.Generator().manual_seed(0)), torch.zeros(8))
    before = model.state.buffers["1.running_mean"].clone()
    with pytest.raises(NonFiniteUpdate):
        model.update(torch.full((8, 2), 1e30), torch.zeros(8))
    assert torch.equal(model.state.buffers["1.running_mean"], before)
    assert not torch.equal(before, torch.zeros(4))


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: tr.TAGI("net", tr.likelihoods.Normal()), "must be a torch.nn.Module"),
        (lambda: tr.TAGI(nn.Linear(1, 1), "normal"), "must be one of tractable.likelihoods"),
        (lambda: small_model(dtype=torch.float16), "float32 or torch.float64"),
        (lambda: small_model(gain=0.0), "gain must be a positive"),
        (lambda: small_model(init="zero"), "init must be one of"),
        (lambda: small_model(moments="cubic"), "moments must be one of"),
        (lambda: small_model(batch_rule="mean"), "batch_rule must be one of"),
        (lambda: small_model(epoch_forgetting=2.0), "epoch_forgetting must lie between"),
        (lambda: tr.TAGI(nn.ReLU(), tr.likelihoods.Normal()), "no trainable parameters"),
        (lambda: small_model().fit(torch.ones(3, 2)), "y is None, expected targets"),
        (lambda: small_model().fit(torch.ones(3, 2), torch.ones(3), epochs=0), "epochs must be"),
        (lambda: small_model().fit([["a", "b"]], [1.0]), "array of numbers"),
        (lambda: small_model().predict(torch.ones(3, 5)), "cannot process inputs"),
    ],
)
def test_bad_arguments_are_refused(make, error):
    with pytest.raises((TypeError, ValueError), match=error):
        make()


def test_a_function_without_a_moment_rule_is_named():
    def sawtooth(x):  # a fictitious function, for which no rule will be added
        if torch.overrides.has_torch_function_unary(x):
            return torch.overrides.handle_torch_function(sawtooth, (x,), x)
        return x

    class Sawtooth(nn.Linear):
        def forward(self, x):
            return sawtooth(super().forward(x))

    model = tr.TAGI(Sawtooth(2, 3), tr.likelihoods.Normal())
    with pytest.raises(tr.NoMomentRule, match="sawtooth"):
        model.predict(torch.ones(1, 2))


def test_invalid_input_is_a_value_error():
    assert issubclass(InvalidInput, ValueError)
