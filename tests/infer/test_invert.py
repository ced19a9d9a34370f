import pytest
import torch
from torch import nn

import tractable as tr
from tests.infer.models import F64, regressor, set_posterior
from tractable.infer import NotConverged, invert


def line() -> tr.TAGI:
    model = regressor(nn.Linear(1, 1), sigma=0.1)
    return set_posterior(model, {"0.weight": (2.0, 0.0), "0.bias": (1.0, 0.0)})


def test_one_iteration_on_a_line_is_the_conditional_gaussian():
    with pytest.warns(NotConverged):
        found = invert(line(), [[2.0]], torch.zeros(1, 1), steps=1, input_std=1.0)
    gain = 2.0 / (4.0 + 0.01)
    assert found.input.loc.item() == pytest.approx(gain * 1.0, abs=1e-12)
    assert found.input.variance.item() == pytest.approx(1 - gain * 2.0, abs=1e-12)
    assert not found.converged.any()


def test_inverts_a_learned_function_and_reports_convergence():
    x = torch.linspace(-2, 2, 200).unsqueeze(1)
    net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
    model = tr.TAGI(net, tr.likelihoods.Normal(0.05)).fit(x, torch.tanh(2 * x), progress=False)
    wanted = torch.tensor([[-0.5], [0.1], [0.6]])
    found = invert(model, torch.tanh(2 * wanted), torch.zeros(3, 1), input_std=0.5)
    assert found.converged.all()
    assert (found.input.loc - wanted).abs().max() < 0.1
    assert (found.output.mean.flatten() - torch.tanh(2 * wanted).flatten()).abs().max() < 0.1


def test_rows_stop_independently():
    easy_and_far = torch.tensor([[1.0], [40.0]], dtype=F64)
    found = invert(line(), easy_and_far, torch.zeros(2, 1), steps=400, input_std=0.1)
    assert found.steps[0] < found.steps[1]


def test_bad_input():
    with pytest.raises(ValueError, match="prior is a tensor without a variance"):
        invert(line(), [1.0], torch.zeros(1, 1))
    with pytest.raises(ValueError, match="steps must be at least 1"):
        invert(line(), [1.0], torch.zeros(1, 1), steps=0, input_std=1.0)
    with pytest.raises(ValueError, match="tolerance must be a positive number"):
        invert(line(), [1.0], torch.zeros(1, 1), input_std=1.0, tolerance=0.0)
    with pytest.raises(ValueError, match="do not fit"):
        invert(line(), [1.0, 2.0], torch.zeros(1, 1), input_std=1.0)
