import pytest
import torch
from torch import nn

import tractable as tr
from tests.infer.models import F64, classifier, mlp, regressor, set_posterior
from tractable.infer import states


def chain() -> tr.TAGI:
    """Return x -> z1 -> z2 -> z3, one unit each; known weights, biases as process noise."""
    model = regressor(nn.Linear(1, 1), nn.Linear(1, 1), nn.Linear(1, 1), sigma=0.3)
    slopes, noise = (0.7, -1.3, 2.0), (0.1, 0.4, 0.05)
    return set_posterior(
        model,
        {f"{i}.weight": (w, 0) for i, w in enumerate(slopes)}
        | {f"{i}.bias": (0.2 * i, v) for i, v in enumerate(noise)},
    )


def test_a_linear_gaussian_chain_equals_the_exact_smoother():
    model = chain()
    x = tr.Gaussian(torch.tensor([[0.5], [-1.0]], dtype=F64), torch.tensor([[0.6], [2.0]]))
    y = torch.tensor([[1.5], [0.3]], dtype=F64)
    found = states(model, x, y, at=["input", "0", "1", "2"])
    for row in range(2):
        # The joint Gaussian of (x, z1, z2, z3, y), conditioned on y.
        mean, covariance = [x.loc[row, 0]], torch.zeros(5, 5, dtype=F64)
        covariance[0, 0] = x.variance[row, 0]
        steps = [(0.7, 0.0, 0.1), (-1.3, 0.2, 0.4), (2.0, 0.4, 0.05), (1.0, 0.0, 0.09)]
        for i, (w, b, v) in enumerate(steps):
            mean.append(w * mean[i] + b)
            covariance[i + 1, : i + 1] = covariance[: i + 1, i + 1] = w * covariance[i, : i + 1]
            covariance[i + 1, i + 1] = w * w * covariance[i, i] + v
        gain = covariance[:4, 4] / covariance[4, 4]
        post_mean = torch.stack(mean[:4]) + gain * (y[row, 0] - mean[4])
        post_var = covariance.diagonal()[:4] - gain * covariance[:4, 4]
        for i, name in enumerate(["input", "0", "1", "2"]):
            assert found[name].loc[row, 0].item() == pytest.approx(post_mean[i].item(), abs=1e-12)
            assert found[name].variance[row, 0].item() == pytest.approx(
                post_var[i].item(), abs=1e-12
            )


def test_correlated_hidden_units_do_not_make_the_step_too_long():
    """Positive weights correlate the units, and the variance of their sum is too small."""
    model = regressor(nn.Linear(3, 6), nn.Linear(6, 1), sigma=0.2)
    model.posterior.variance.zero_()
    model.posterior.loc.abs_()
    slope = (model.posterior["1.weight"].loc @ model.posterior["0.weight"].loc)[0]
    x = torch.tensor([[0.5, -1.0, 0.2]], dtype=F64)
    v = torch.tensor([0.5, 1.0, 2.0], dtype=F64)
    z = model.propagate(tr.Gaussian(x, 0.0)).loc
    found = states(model, tr.Gaussian(x, v), [[2.0]])["input"]
    gain = v * slope / (v @ slope**2 + 0.04)
    assert (found.loc - (x + gain * (2.0 - z))).abs().max() < 1e-12
    assert ((found.variance > 0) & (found.variance < v)).all()


def test_uncertain_weights_widen_the_output_and_weaken_the_message():
    model = chain()
    x = torch.tensor([[0.5]], dtype=F64)
    sure = states(model, x, [[3.0]], input_std=1.0)["input"]
    set_posterior(model, {"1.weight": (-1.3, 0.5)})
    doubtful = states(model, x, [[3.0]], input_std=1.0)["input"]
    assert (doubtful.loc - x).abs() < (sure.loc - x).abs()
    assert doubtful.variance > sure.variance


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.inner, self.last = nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x).relu()
        return self.last(h + self.inner(h).relu())


def test_residual_and_convolutional_networks_keep_their_parameters():
    residual = tr.TAGI(Residual(), tr.likelihoods.Normal(0.2)).update([[0.1, 0.2, 0.3]], [[1, 2]])
    before = residual.posterior.loc.clone(), residual.posterior.variance.clone()
    rng = torch.Generator().manual_seed(0)
    x, y = torch.rand(5, 3, generator=rng), torch.rand(5, 2, generator=rng)
    found = states(residual, x, y, ["inner", "input"], input_std=0.1)
    assert found["inner"].shape == (5, 4)
    assert (found["input"].variance <= 0.01).all()
    assert (found["input"].variance > 0).all()
    assert torch.equal(before[0], residual.posterior.loc)
    assert torch.equal(before[1], residual.posterior.variance)

    likelihood = tr.likelihoods.Categorical(3)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(36, likelihood.outputs),
    )  # fmt: skip
    images = torch.rand(6, 1, 8, 8, generator=rng)
    cnn = tr.TAGI(net, likelihood).update(images[:4], [0, 1, 2, 1])
    buffers = {name: b.clone() for name, b in cnn.state.buffers.items()}
    found = states(cnn, images[4:], [0, 2], ["input", "3"], input_std=0.1)
    assert found["3"].shape == (2, 4, 3, 3)
    assert all(torch.equal(b, cnn.state.buffers[name]) for name, b in buffers.items())


def test_observing_a_label_makes_it_more_probable():
    model = classifier()
    x = torch.zeros(3, 2)
    found = states(model, x, [0, 1, 2], input_std=0.3)["input"]
    rows = torch.arange(3)
    before, after = model.predict(x).probs[rows, rows], model.predict(found.loc).probs[rows, rows]
    assert (after > before).all()


def test_known_inputs_are_unchanged_and_hidden_states_need_no_sigma():
    model = mlp(nn.ReLU)
    x = torch.tensor([[0.3, 0.4]], dtype=F64)
    found = states(model, x, [1.0], at=["input", "0"])
    assert torch.equal(found["input"].loc, x)
    assert not found["input"].variance.any()
    assert (found["0"].variance > 0).all()


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(self.layer(x).relu())


def test_bad_input():
    model = mlp(nn.ReLU)
    x = torch.zeros(1, 2)
    with pytest.raises(ValueError, match=r"no state '7'.*There are: input, 0, 1, 2"):
        states(model, x, [1.0], at=["7"])
    with pytest.raises(ValueError, match="names no state"):
        states(model, x, [1.0], at=[])
    for sigma in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="input_std must be a positive number"):
            states(model, x, [1.0], input_std=sigma)
    with pytest.raises(ValueError, match="a Gaussian input has its own variance"):
        states(model, tr.Gaussian(x, 1.0), [1.0], input_std=1.0)
    with pytest.raises(ValueError, match="do not fit outputs"):
        states(model, x, [1.0, 2.0])
    with pytest.raises(tr.learners.NotFitted, match="was not trained"):
        states(tr.TAGI(nn.Linear(2, 1), tr.likelihoods.Normal(0.1)), x, [1.0])
    shared = tr.TAGI(Shared(), tr.likelihoods.Normal(0.1)).update([[0.0, 0.0]], [[0.0, 0.0]])
    with pytest.raises(ValueError, match="calls 'layer' 2 times"):
        states(shared, x, [[1.0, 1.0]], at=["layer"])
    with pytest.raises(ValueError, match="needs a normal likelihood or link"):
        states(classifier(), x, [1], input_std=0.1, noise_std=0.1)


@pytest.mark.parametrize("spread", [1e-8, 1.0, 1e6])
@pytest.mark.parametrize("noise", [1e-6, 1.0, 1e3])
@pytest.mark.parametrize("slope", [1e-4, 1.0, -1e4])
def test_one_linear_unit_is_conditioned_exactly_at_every_scale(slope, noise, spread):
    """Compare with the information form of the posterior, to rounding of the prior."""
    model = regressor(nn.Linear(1, 1), sigma=noise)
    set_posterior(model, {"0.weight": (slope, 0.0), "0.bias": (0.5, 0.0)})
    found = states(model, torch.tensor([[2.0]], dtype=F64), [[3.0]], input_std=spread)["input"]
    precision = 1 / spread**2 + slope**2 / noise**2
    mean = (2.0 / spread**2 + slope * (3.0 - 0.5) / noise**2) / precision
    rounding = 8 * torch.finfo(F64).eps * spread**2
    assert found.variance.item() > 0
    assert found.variance.item() == pytest.approx(1 / precision, rel=1e-9, abs=rounding)
    assert found.loc.item() == pytest.approx(mean, rel=1e-12, abs=1e-6 * precision**-0.5)
