"""The coverage report of a network agrees with the behavior of TAGI."""

import pytest
import torch
from torch import nn

import tractable as tr


class Odd(nn.Module):
    """A function without a rule, an explicit softmax, and a layer that is used twice."""

    def __init__(self):
        super().__init__()
        self.first, self.again = nn.Linear(3, 4), nn.Linear(4, 4)

    def forward(self, x):
        e = torch.exp(self.again(torch.sin(self.again(self.first(x)))))
        return torch.fft.rfft(e / e.sum(-1, keepdim=True)).real


class Flip(nn.Module):
    """A function after which the shared variance of positions is not tracked."""

    def forward(self, x):
        return x.flip(-1)


def kinds(found):
    return {function.name: function.kind for function in found.functions}


def test_functions_are_counted_by_kind_of_rule():
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 1),
    )  # fmt: skip
    own = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    x = torch.randn(5, 1, 8, 8)
    found = tr.coverage(net, x)
    assert found
    assert {f.name: f.calls for f in found.functions}["conv2d"] == 2
    assert kinds(found)["conv2d"] == kinds(found)["flatten"] == "exact"
    assert kinds(found)["relu"] == kinds(found)["batch_norm"] == "linearized"
    assert kinds(tr.coverage(net, x, moments="exact"))["relu"] == "exact"
    assert not any("share weights" in warning for warning in found.warnings)
    lost = nn.Sequential(nn.Conv2d(1, 4, 3), Flip(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    assert any("share weights" in warning for warning in tr.coverage(lost, x).warnings)
    assert all(torch.equal(own[name], tensor) for name, tensor in net.state_dict().items())
    tr.TAGI(net, tr.likelihoods.Normal(0.5)).update(x, torch.zeros(5, 1))


def test_all_missing_rules_are_found_at_once():
    x = torch.randn(5, 3)
    found = tr.coverage(Odd(), x)
    assert not found
    assert not found.complete
    assert "fft_rfft" in found.missing
    assert kinds(found)["linear"] == "exact"
    assert found.unreached == ()
    text = " ".join(found.warnings)
    for word in ("softmax by hand", "has no bound", "again.weight"):
        assert word in text
    assert "first.weight" not in text
    with pytest.raises(tr.NoMomentRule, match=found.missing[0]):
        tr.TAGI(Odd(), tr.likelihoods.Normal(0.5)).update(x, torch.zeros(5, 3))


def test_parameters_without_messages_are_named():
    class Cut(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(3, 4), nn.Linear(4, 1)

        def forward(self, x):
            return self.last(self.first(x).detach())

    found = tr.coverage(Cut(), torch.randn(5, 3))
    assert found.unreached == ("first.weight", "first.bias")
    assert not found
    assert "no message reaches first.weight, first.bias" in repr(found)


def test_inputs_are_those_of_fit():
    class Looked(nn.Linear):
        def forward(self, ids, value):
            return super().forward(nn.functional.one_hot(ids, 3) * value)

    found = tr.coverage(Looked(3, 1), {"ids": torch.arange(3), "value": torch.ones(3, 1)})
    assert found.complete
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        tr.coverage(nn.Linear(3, 1), torch.ones(2, 2))


def test_custom_rules_are_marked():

    @tr.moment_rule(torch.Tensor.erfinv)
    def rule(x):
        return tr.Gaussian.wrap(x.loc, x.variance)

    class Own(nn.Linear):
        def forward(self, x):
            return super().forward(x).erfinv()

    assert kinds(tr.coverage(Own(3, 1), torch.ones(2, 3)))["erfinv"] == "own"


def test_the_table_is_text():
    lines = tr.coverage(nn.Linear(3, 1), torch.ones(2, 3)).table().splitlines()
    assert lines == ["function  calls  moments", "linear        1  exact"]
