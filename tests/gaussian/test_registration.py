"""A user's own rules."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from tractable import Gaussian, NoMomentRule, moment_rule
from tractable import gaussian as module
from tractable.rules import activation_moments, activation_rule


@pytest.fixture(autouse=True)
def own_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers ends with it."""
    monkeypatch.setattr(module, "_RULES", dict(module._RULES))


@pytest.fixture
def g() -> Gaussian:
    return Gaussian(torch.tensor([0.3, -0.8], dtype=torch.float64), 0.2)


def test_a_rule(g: Gaussian) -> None:
    with pytest.raises(NoMomentRule):
        torch.logcumsumexp(g, 0)

    @moment_rule(torch.logcumsumexp, Tensor.logcumsumexp)
    def cumulate(input: Any, dim: int) -> Gaussian:
        return Gaussian.wrap(input.loc.logcumsumexp(dim), input.variance.cumsum(dim))

    wanted = torch.tensor([0.2, 0.4], dtype=torch.float64)
    torch.testing.assert_close(_variance(torch.logcumsumexp(g, 0)), wanted)
    torch.testing.assert_close(_variance(g.logcumsumexp(dim=0)), wanted)
    assert "logcumsumexp" in module.functions_with_rule()


def test_registering_again_replaces_the_rule(g: Gaussian) -> None:
    @moment_rule(torch.relu)
    def nothing(input: Gaussian) -> Gaussian:
        return input

    assert torch.relu(g) is g


def test_a_rule_needs_a_function() -> None:
    with pytest.raises(TypeError, match="needs at least one torch function"):
        moment_rule()


def test_an_activation(g: Gaussian) -> None:
    def erfc(mu: Tensor) -> tuple[Tensor, Tensor]:
        return mu.erfc(), -2 / math.sqrt(math.pi) * torch.exp(-mu * mu)

    activation_rule(torch.erfc, Tensor.erfc, linear=erfc)
    loc, variance = g.loc.requires_grad_(), g.variance.requires_grad_()
    z: Any = torch.erfc(Gaussian.wrap(loc, variance))
    slope = erfc(g.loc)[1].detach()
    torch.testing.assert_close(z.variance, slope**2 * g.variance)
    messages = torch.autograd.grad([z.loc, z.variance], [loc, variance], [slope, slope])
    torch.testing.assert_close(list(messages), [slope**2, slope**3])
    with activation_moments("exact"):  # no closed form was given: stays linearized
        assert torch.equal(_variance(torch.erfc(g)), z.variance)


def test_an_activation_with_options_and_exact_moments(g: Gaussian) -> None:
    def linear(mu: Tensor, n: int = 1) -> tuple[Tensor, Tensor]:
        return mu * n, torch.full_like(mu, n)

    def exact(mu: Tensor, var: Tensor, n: int = 1) -> tuple[Tensor, Tensor, Tensor]:
        return mu * n + 1, var * n * n + 1, torch.full_like(mu, n)

    activation_rule(torch.mvlgamma, linear=linear, exact=exact)
    z: Any = torch.mvlgamma(g, 3)
    torch.testing.assert_close((z.loc, z.variance), (3 * g.loc, 9 * g.variance))
    with activation_moments("exact"):
        z = torch.mvlgamma(g, 3)
    torch.testing.assert_close((z.loc, z.variance), (3 * g.loc + 1, 9 * g.variance + 1))


def test_the_mode_ends_with_its_block_even_after_an_error(g: Gaussian) -> None:
    def fail() -> None:
        with activation_moments("exact"):
            assert not torch.equal(_variance(torch.relu(g)), linear)
            raise RuntimeError("on purpose")

    linear = _variance(torch.relu(g))
    with pytest.raises(RuntimeError, match="on purpose"):
        fail()
    assert torch.equal(_variance(torch.relu(g)), linear)


def test_an_unknown_mode_raises() -> None:
    mode: Any = "quadratic"
    with pytest.raises(ValueError, match=r"linear, exact; got 'quadratic'"):
        activation_moments(mode).__enter__()


def _variance(z: Any) -> Tensor:
    assert isinstance(z, Gaussian)
    return z.variance
