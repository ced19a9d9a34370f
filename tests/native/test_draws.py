"""Output samples drawn by the kernel, compared with samples of the weights."""

import numpy as np
import pytest
import torch
from torch import nn

import tractable as tr
from tractable import native
from tractable.agents.bandit.policies import weight_samples

NETS = {
    "linear": nn.Sequential(nn.Linear(3, 1)),
    "tanh-relu": nn.Sequential(
        nn.Linear(3, 7), nn.Tanh(), nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, 1)
    ),
    "no bias, activations around": nn.Sequential(
        nn.ReLU(), nn.Linear(3, 12, bias=False), nn.Sigmoid(), nn.Linear(12, 1), nn.LeakyReLU(0.2)
    ),
}


def _model(net, engine="native"):
    return tr.TAGI(net, tr.likelihoods.Normal(0.1), gain=1.0, engine=engine, seed=3)


def _generator(seed):
    return torch.Generator().manual_seed(seed)


def _draw(model, x, samples, normals, instructions=""):
    arguments = {**model.method.engine.kernel.chain.arguments, "instructions": instructions}
    learner = native.kernel().Learner(**arguments)
    posterior = model.posterior
    return learner.draw(
        posterior.loc.numpy(), posterior.variance.numpy(), x.numpy(), samples, normals.numpy()
    )


@pytest.mark.parametrize("name", NETS)
def test_samples_have_the_joint_moments_of_weight_samples(name):
    samples = 20_000
    x = torch.randn(3, 3, generator=_generator(0))
    found = weight_samples(_model(NETS[name]), x, samples, _generator(1)).double()
    wanted = weight_samples(_model(NETS[name], "torch"), x, samples, _generator(2)).double()
    # Means and all products of two rows, within five standard errors of the difference.
    first, second = (torch.cat([z, (z[:, :, None] * z[:, None]).flatten(1)], 1)
                     for z in (found, wanted))  # fmt: skip
    error = ((first.var(0) + second.var(0)) / samples).sqrt()
    assert ((first.mean(0) - second.mean(0)).abs() < 5 * error).all()


def test_samples_of_one_layer_are_normal():
    model = _model(nn.Linear(6, 1))
    x = torch.randn(4, 6, generator=_generator(0))
    normals = torch.randn(1, 4, generator=_generator(1))
    mu, v = (part.double() for part in (model.posterior.loc, model.posterior.variance))
    rows = torch.cat([x, torch.ones(4, 1)], dim=1).double()
    lower = torch.linalg.cholesky((rows * v) @ rows.T)
    wanted = rows @ mu + lower @ normals[0].double()
    found = torch.from_numpy(_draw(model, x, 1, normals)).double().flatten()
    assert torch.allclose(found, wanted, atol=1e-5)


def test_equal_rows_have_equal_samples():
    x = torch.randn(1, 3, generator=_generator(0)).repeat(3, 1)
    z = weight_samples(_model(NETS["tanh-relu"]), x, 100, _generator(1))
    assert z.std(0).min() > 0.1
    assert torch.allclose(z[:, :1].expand_as(z), z, atol=1e-5)


def test_known_weights_give_constant_samples():
    model = _model(NETS["tanh-relu"])
    model.posterior.variance.zero_()
    x = torch.randn(5, 3, generator=_generator(0))
    z = weight_samples(model, x, 2, _generator(1))
    assert torch.allclose(z, model.predict(x).mean.expand(2, -1), atol=1e-6)


@pytest.mark.parametrize("width", [1, 4, 8, 11, 33])
def test_instruction_sets_agree(width):
    net = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 2))
    model = tr.TAGI(net, tr.likelihoods.Normal(0.1), gain=1.0, engine="native", seed=0)
    x = torch.randn(3, width, generator=_generator(0))
    normals = torch.randn(5 * 3 * (width + 2), generator=_generator(1))
    drawn = [
        _draw(model, x, 5, normals, instructions)
        for instructions in native.kernel().instruction_sets()
    ]
    for other in drawn:
        assert other.shape == (5, 3, 2)
        np.testing.assert_allclose(other, drawn[0], rtol=1e-4, atol=1e-4)


def test_samples_of_many_rows_use_weight_samples():
    model = _model(NETS["tanh-relu"])
    assert model.method.engine.limits.drawn_together == 8
    assert weight_samples(model, torch.zeros(9, 3), 4, _generator(0)).shape == (4, 9)


@pytest.mark.parametrize(
    ("samples", "normals", "said"),
    [(0, 0, "at least one draw"), (2, 17 * 6 - 1, "a normal per unit, row and draw")],
)
def test_bad_requests_are_refused(samples, normals, said):
    model = _model(NETS["tanh-relu"])
    with pytest.raises(ValueError, match=said):
        _draw(model, torch.zeros(3, 3), samples, torch.zeros(normals))
