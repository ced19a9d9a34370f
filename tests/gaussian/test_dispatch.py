"""What happens to functions with a rule, without a rule, and in place."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tractable import Gaussian, NoMomentRule
from tractable.gaussian import functions_with_rule
from tractable.torch_functions import torch_functions

ROOT = Path(__file__).parents[2]


@pytest.fixture
def g() -> Gaussian:
    return Gaussian(torch.tensor([1.0, -2.0, 3.0]), torch.tensor([0.1, 0.2, 0.3]))


def cumsumm(x: Any) -> Any:
    """A fictitious function of torch, for which no rule will be added."""
    if torch.overrides.has_torch_function_unary(x):
        return torch.overrides.handle_torch_function(cumsumm, (x,), x)
    return x


def test_no_rule_names_the_function_similar_ones_and_the_documentation(g: Gaussian) -> None:
    with pytest.raises(NoMomentRule) as caught:
        cumsumm(g)
    message = str(caught.value)
    assert "no moment rule for 'cumsumm'" in message
    assert "Functions with a similar name" in message
    assert "cumsum" in message
    assert "moment_rule" in message
    pointer = re.search(r"see '(.+)' in (\S+)$", message)
    assert pointer is not None
    assert f"# {pointer[1]}\n" in (ROOT / pointer[2]).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda g: cumsumm(g), "cumsumm"),
        (lambda g: F.ctc_loss(g, g, g, g), "ctc_loss"),
        (lambda g: torch.fft.fft(g), "fft"),
        (lambda g: divmod(g, 2), "divmod|unsupported"),
        (lambda g: torch.unique(g), "unique"),
        (lambda g: g.numpy(), "numpy"),
        (lambda g: g.tolist(), "tolist"),
        (lambda g: g.item(), "item"),
        (lambda g: bool(g[0]), "__bool__"),
        (lambda g: g.imag, "imag"),
        (lambda g: g.requires_grad_(), "requires_grad_"),
        (lambda g: g.unsqueeze_(0), "changing the shape of a Gaussian in place"),
        (lambda g: g.expand(2, 3).add_(1), "changing an expanded Gaussian in place"),
        (lambda g: torch.ones(3, dtype=torch.int64).copy_(g), "writing a Gaussian into"),
        (lambda g: torch.ones(3, requires_grad=True).copy_(g), "requires gradients"),
    ],
)
def test_no_rule(g: Gaussian, function: Callable[[Gaussian], Any], name: str) -> None:
    with pytest.raises((NoMomentRule, TypeError), match=name):
        function(g)


def test_operators_without_a_rule_keep_their_name(g: Gaussian) -> None:
    """With a ``TypeError``, Python would try the reflected operator and lose the message."""
    assert not issubclass(NoMomentRule, TypeError)
    with pytest.raises(NoMomentRule, match="__floordiv__"):
        g // 2


def test_augmented_assignment_is_in_place(g: Gaussian) -> None:
    """As in torch, every reference to the Gaussian is affected."""
    other = Gaussian(torch.tensor([2.0, 5.0, -4.0]), 0.5)
    loc, variance = g.loc.clone(), g.variance.clone()
    x: Any = g
    x += other
    assert x is g
    assert torch.equal(g.variance, variance + 0.5)
    x -= 1.0
    assert torch.equal(g.loc, loc + other.loc - 1)
    x *= 2.0
    assert torch.equal(g.variance, 4 * (variance + 0.5))
    x /= 2.0
    assert torch.equal(g.loc, loc + other.loc - 1)


def test_augmented_assignment_to_a_plain_tensor(g: Gaussian) -> None:
    """In-place operations turn a plain tensor into a Gaussian for all references."""
    plain: Any = torch.ones(3)
    x = plain
    x += g
    assert isinstance(plain, Gaussian)
    assert x is plain
    assert torch.equal(x.loc, g.loc + 1)
    assert torch.equal(x.variance, g.variance)


def test_metadata_is_answered_without_a_rule(g: Gaussian) -> None:
    assert g.ndim == 1
    assert g.size(0) == 3
    assert g.layout == torch.strided
    assert not g.is_cuda
    assert not g.requires_grad
    assert g.grad_fn is None
    assert len({g, g}) == 1
    assert torch.is_floating_point(g)
    assert not torch.is_complex(g)
    assert torch.numel(g) == 3
    assert g.is_signed()
    assert not g.is_sparse_csr
    assert g.type() == "torch.FloatTensor"


def test_covered_functions_are_functions() -> None:
    covered = functions_with_rule()
    required = """linear conv1d conv2d conv_transpose2d avg_pool1d avg_pool2d max_pool1d max_pool2d
        adaptive_avg_pool1d adaptive_avg_pool2d relu leaky_relu tanh sigmoid softplus gelu silu
        add sub mul div matmul sum mean cat stack view reshape flatten permute transpose squeeze
        __getitem__ chunk split batch_norm layer_norm dropout embedding""".split()
    assert set(required) <= set(covered)
    assert not [name for name in covered if "." in name]  # torch.float32 is no function


def test_spellings() -> None:
    assert set(torch_functions("relu")) == {torch.relu, torch.Tensor.relu, F.relu}
    assert torch_functions("float") == (torch.Tensor.float,)
    with pytest.raises(AttributeError, match="no_such_function"):
        torch_functions("no_such_function")
