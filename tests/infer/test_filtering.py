"""Online state estimation in recurrent networks, compared with Kalman filter and smoother."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tractable as tr
from tractable.infer import Filter, smooth
from tractable.likelihoods import Normal, PerStep

D = torch.float64
A, U, BIAS, Q, R = 0.8, 0.5, 5.0, 0.3, 0.4
"""``h' = A h + U x + BIAS`` with var x = Q, and ``y = h`` with standard deviation R."""


class Line(nn.Module):
    """Return one unit with a rectifier far from zero, so that it is linear."""

    def __init__(self, per_step: bool) -> None:
        super().__init__()
        self.layer = nn.RNN(1, 1, nonlinearity="relu", batch_first=True)
        self.head = nn.Linear(1, 1)
        self.per_step = per_step

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.head(self.layer(x)[0])
        return z if self.per_step else z[:, -1]


def known(per_step: bool) -> tr.TAGI:
    """Return a model whose weights are known."""
    likelihood: Any = PerStep(Normal(R)) if per_step else Normal(R)
    model = tr.TAGI(Line(per_step), likelihood, dtype=D, robust=False)
    values = {
        "layer.weight_ih_l0": U, "layer.weight_hh_l0": A, "layer.bias_ih_l0": BIAS,
        "layer.bias_hh_l0": 0.0, "head.weight": 1.0, "head.bias": 0.0,
    }  # fmt: skip
    for name, weight in model.posterior.gaussians().items():
        weight.loc.fill_(values[name])
        weight.variance.zero_()
    model.fitted = True
    return model


def kalman(y: list[float]) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Return filtered and smoothed means and variances, from a state of zero."""
    m, v, filtered, predicted = 0.0, 0.0, [], []
    for seen in y:
        pm, pv = A * m + BIAS, A * A * v + U * U * Q
        gain = 0.0 if seen != seen else pv / (pv + R * R)
        m, v = (pm, pv) if seen != seen else (pm + gain * (seen - pm), pv * (1 - gain))
        predicted.append((pm, pv))
        filtered.append((m, v))
    smoothed = [filtered[-1]]
    for t in range(len(y) - 2, -1, -1):
        (fm, fv), (pm, pv), (sm, sv) = filtered[t], predicted[t + 1], smoothed[0]
        g = fv * A / pv
        smoothed.insert(0, (fm + g * (sm - pm), fv + g * g * (sv - pv)))
    return filtered, smoothed


Y = [5.5, 9.0, 12.1, 13.9, 16.4]


def test_filtering_equals_the_kalman_filter() -> None:
    stream = Filter(known(per_step=False))
    x = tr.Gaussian(torch.zeros(1, 1, 1, dtype=D), Q)
    for seen, (mean, variance) in zip(Y, kalman(Y)[0], strict=True):
        stream.update(x, torch.tensor([[seen]], dtype=D))
        assert stream.state is not None
        h = stream.state["layer"][0]
        assert float(h.loc) == pytest.approx(mean, rel=1e-9)
        assert float(h.variance) == pytest.approx(variance, rel=1e-9)
    p = stream.predict(x)
    mean, variance = kalman(Y)[0][-1]
    assert float(p.mean) == pytest.approx(A * mean + BIAS)
    assert float(p.variance) == pytest.approx(A * A * variance + U * U * Q + R * R)


@pytest.mark.parametrize("gone", [None, 1, 3], ids=["all seen", "second missing", "fourth missing"])
def test_smoothing_equals_the_kalman_smoother(gone: int | None) -> None:
    seen = [float("nan") if i == gone else value for i, value in enumerate(Y)]
    x = tr.Gaussian(torch.zeros(1, len(Y), 1, dtype=D), Q)
    found = smooth(known(per_step=True), x, torch.tensor([seen], dtype=D))["layer"][0]
    assert found.shape == (len(Y), 1, 1, 1)
    for t, (mean, variance) in enumerate(kalman(seen)[1]):
        assert float(found.loc[t]) == pytest.approx(mean, rel=1e-9)
        assert float(found.variance[t]) == pytest.approx(variance, rel=1e-9)


def test_states_of_every_step_are_smoothed() -> None:
    """By ``infer.states``, with a target at every step, and with one at the last step."""
    x = tr.Gaussian(torch.zeros(1, len(Y), 1, dtype=D), Q)
    found = tr.infer.states(known(per_step=True), x, torch.tensor([Y], dtype=D), at=["layer"])
    assert found["layer"].shape == (1, len(Y), 1)
    for t, (mean, variance) in enumerate(kalman(Y)[1]):
        assert float(found["layer"].loc[0, t]) == pytest.approx(mean, rel=1e-9)
        assert float(found["layer"].variance[0, t]) == pytest.approx(variance, rel=1e-9)
    last = [float("nan")] * 4 + Y[-1:]
    given = torch.tensor([Y[-1:]], dtype=D)
    found = tr.infer.states(known(per_step=False), x, given, at=["layer", "input"])
    for t, (mean, variance) in enumerate(kalman(last)[1]):
        assert float(found["layer"].loc[0, t]) == pytest.approx(mean, rel=1e-9)
        assert float(found["layer"].variance[0, t]) == pytest.approx(variance, rel=1e-9)
    assert found["input"].shape == (1, len(Y), 1)


class Net(nn.Module):
    """A recurrent layer whose last step is the output."""

    def __init__(self, kind: Any, layers: int = 1) -> None:
        super().__init__()
        self.layer, self.head = kind(1, 4, layers, batch_first=True), nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.head(self.layer(x)[0][:, -1])
        return z


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_stepwise_states_equal_those_of_the_whole_sequence(kind: Any) -> None:
    """With uninformative targets, carried states equal those of the whole sequence."""
    torch.manual_seed(0)
    model = tr.TAGI(Net(kind, 2), Normal(0.1), dtype=D)
    x = torch.randn(3, 5, 1, dtype=D)
    whole = model.outputs(model.checks.inputs(x)).moments()
    stream = Filter(model)
    for t in range(4):  # uninformative targets: very large noise
        stream.model.state.likelihood = Normal(1e6).double()
        stream.update(x[:, t : t + 1], torch.zeros(3, 1, dtype=D))
    found = stream.predict(x[:, 4:])
    torch.testing.assert_close(found.mean, whole[0], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found.variance - 1e12, whole[1], rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM])
def test_observations_update_every_part_of_the_state(kind: Any) -> None:
    """Messages are nonzero: the state is conditioned on the observation."""
    torch.manual_seed(0)
    moved = []
    for target in (-1.0, 1.0):
        stream = Filter(tr.TAGI(Net(kind, 2), Normal(0.1), dtype=D, seed=0))
        stream.update(torch.ones(1, 3, 1, dtype=D), torch.tensor([[target]], dtype=D))
        assert stream.state is not None
        moved.append(stream.state["layer"])
    for low, high in zip(*moved, strict=True):
        assert bool(((high.loc - low.loc).abs() > 1e-9).all())
        assert bool((low.variance > 0).all())


def test_forecasts_of_a_noisy_sine_beat_the_last_value() -> None:
    """On a noisy sine, one-step forecasts are better than repeating the last value."""
    generator = torch.Generator().manual_seed(0)
    t = torch.arange(300, dtype=torch.float32)
    y = torch.sin(0.3 * t) + 0.1 * torch.randn(300, generator=generator)
    stream = Filter(tr.TAGI(Net(nn.LSTM), Normal(0.15), seed=0))
    errors, naive = [], []
    for i in range(299):
        x = y[i].reshape(1, 1, 1)
        if i >= 200:
            errors.append(float((stream.predict(x).mean - y[i + 1]).square()))
            naive.append(float((y[i] - y[i + 1]).square()))
        stream.update(x, y[i + 1].reshape(1, 1))
    assert sum(errors) < 0.85 * sum(naive)


def test_a_failed_update_changes_nothing_and_bad_input_is_refused() -> None:
    stream = Filter(tr.TAGI(Net(nn.GRU), Normal(0.1)))
    stream.update(torch.zeros(2, 1, 1), torch.zeros(2, 1))
    before = stream.state
    with pytest.raises(ValueError, match="inputs have 3 rows, expected 2, one per stream"):
        stream.update(torch.zeros(3, 1, 1), torch.zeros(3, 1))
    with pytest.raises(ValueError, match="NaN"):
        stream.update(torch.zeros(2, 1, 1), torch.full((2, 1), float("nan")))
    assert stream.state is before
    assert stream.reset().state is None
    stream.update(torch.zeros(3, 1, 1), torch.zeros(3, 1))
    with pytest.raises(TypeError, match="Sequential has no recurrent layer"):
        Filter(tr.TAGI(nn.Sequential(nn.Linear(1, 1)), Normal(0.1)))
    with pytest.raises(TypeError, match="is bidirectional"):
        Filter(tr.TAGI(_Both(), Normal(0.1)))
    with pytest.raises(TypeError, match="model must be a TAGI learner, got Backprop"):
        Filter(tr.Backprop(Net(nn.GRU), Normal(0.1)))  # type: ignore[arg-type]
    model = tr.TAGI(Net(nn.GRU), Normal(0.1)).update(torch.zeros(1, 1, 1), torch.zeros(1, 1))
    with pytest.raises(ValueError, match="one entry for each row and step"):
        smooth(model, torch.zeros(1, 3, 1), torch.zeros(1, 2))


class _Both(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.GRU(1, 2, bidirectional=True), nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.head(self.layer(x)[0][-1])
        return z


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
@pytest.mark.parametrize("robust", [True, False])
def test_a_compiled_model_is_refused_before_anything_changes(kind: Any, robust: bool) -> None:
    """A compiled step has no hooks, so the state would not be updated."""
    model = tr.TAGI(Net(kind), tr.likelihoods.Normal(0.1), compile=True, robust=robust)
    before = {name: part.clone() for name, part in model.state_dict().items()}
    with pytest.raises(TypeError, match="compile=False"):
        tr.infer.Filter(model)
    assert all(torch.equal(part, before[name]) for name, part in model.state_dict().items())
    assert not model.fitted
