"""What happens to functions with a rule, without a rule, and in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tractable import Gaussian, NoMomentRule
from tractable.gaussian import covered_functions, spellings


@pytest.fixture
def g() -> Gaussian:
    return Gaussian(torch.tensor([1.0, -2.0, 3.0]), torch.tensor([0.1, 0.2, 0.3]))


def test_no_rule_names_the_function_the_nearest_and_the_way_out(g: Gaussian) -> None:
    with pytest.raises(NoMomentRule) as caught:
        torch.softmax(g, 0)
    message = str(caught.value)
    assert "no moment rule for 'softmax'" in message
    assert "nearest" in message
    assert "softplus" in message
    assert "moment_rule" in message
    assert "CONTRIBUTING" in message


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda g: torch.cumsum(g, 0), "cumsum"),
        (lambda g: g.cumsum(0), "cumsum"),
        (lambda g: F.hardswish(g), "hardswish"),
        (lambda g: torch.fft.fft(g), "fft"),
        (lambda g: g < 0, "__lt__|not supported"),
        (lambda g: g.numpy(), "numpy"),
        (lambda g: g.tolist(), "tolist"),
        (lambda g: g.item(), "item"),
        (lambda g: bool(g[0]), "__bool__"),
        (lambda g: g.real, "real"),
        (lambda g: g.__setitem__(0, 1.0), "__setitem__"),
    ],
)
def test_no_rule(g: Gaussian, function: Callable[[Gaussian], Any], name: str) -> None:
    with pytest.raises(TypeError, match=name):
        function(g)


@pytest.mark.parametrize(
    "function",
    [
        lambda g: g.add_(1),
        lambda g: g.mul_(g),
        lambda g: torch.relu_(g),
        lambda g: g.zero_(),
        lambda g: g.requires_grad_(),
    ],
)
def test_in_place_functions_are_refused(g: Gaussian, function: Callable[[Gaussian], Any]) -> None:
    before = g.loc.clone(), g.variance.clone()
    with pytest.raises(NoMomentRule, match="in-place functions cannot change a Gaussian"):
        function(g)
    torch.testing.assert_close((g.loc, g.variance), before, rtol=0, atol=0)


def test_augmented_assignment_binds_the_name_anew(g: Gaussian) -> None:
    other = Gaussian(torch.tensor([2.0, 5.0, -4.0]), 0.5)
    before = g.loc.clone(), g.variance.clone()
    x: Any = g
    x += other
    assert torch.equal(x.variance, g.variance + 0.5)
    x -= 1.0
    assert torch.equal(x.loc, g.loc + other.loc - 1)
    x *= 2.0
    assert torch.equal(x.variance, 4 * (g.variance + 0.5))
    x /= 2.0
    assert torch.equal(x.loc, g.loc + other.loc - 1)
    assert isinstance(x, Gaussian)
    torch.testing.assert_close((g.loc, g.variance), before, rtol=0, atol=0)


def test_augmented_assignment_to_a_plain_tensor(g: Gaussian) -> None:
    plain: Any = torch.ones(3)
    x = plain
    x += g
    assert isinstance(x, Gaussian)
    assert torch.equal(x.loc, g.loc + 1)
    assert torch.equal(plain, torch.ones(3))


def test_metadata_is_answered_without_a_rule(g: Gaussian) -> None:
    assert g.ndim == 1
    assert g.size(0) == 3
    assert g.layout == torch.strided
    assert not g.is_cuda
    assert not g.requires_grad
    assert g.grad_fn is None
    assert len({g, g}) == 1


def test_covered_functions_are_functions() -> None:
    covered = covered_functions()
    required = """linear conv1d conv2d conv_transpose2d avg_pool1d avg_pool2d max_pool1d max_pool2d
        adaptive_avg_pool1d adaptive_avg_pool2d relu leaky_relu tanh sigmoid softplus gelu silu
        add sub mul div matmul sum mean cat stack view reshape flatten permute transpose squeeze
        __getitem__ chunk split batch_norm layer_norm dropout embedding""".split()
    assert set(required) <= set(covered)
    assert not [name for name in covered if "." in name]  # torch.float32 is no function


def test_spellings() -> None:
    assert set(spellings("relu")) == {torch.relu, torch.Tensor.relu, F.relu}
    assert spellings("float") == (torch.Tensor.float,)
    with pytest.raises(AttributeError, match="no_such_function"):
        spellings("no_such_function")
