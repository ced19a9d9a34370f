"""Conformance tests of moment rules: inherit ``RuleConformance`` and set ``cases``.

    from tractable.testing import RuleCase, RuleConformance

    class TestMyRules(RuleConformance):
        cases = [RuleCase("softsign", F.softsign, ((8,),), kind="linearized")]

pytest then runs every case in every regime of ``tractable.testing.gaussians``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pytest
import torch
from torch import Tensor

from tractable.gaussian import Gaussian
from tractable.rules.activation import activation_moments
from tractable.testing.gaussians import (
    REGIMES,
    assert_moments_agree,
    gaussian,
    generator,
    leaves,
    normal,
    wrapped,
)

Kind = Literal["linear", "linearized", "exact", "tangent"]
KINDS: tuple[Kind, ...] = ("linear", "linearized", "exact", "tangent")
_STEP = 1e-5  # of a central difference: its error is of the order of 1e-10


@dataclass(frozen=True)
class RuleCase:
    """One torch function to run on tensors, and on Gaussians, of the given shapes."""

    name: str
    """Name of the test case."""
    function: Callable[..., Tensor]
    """Function of as many tensors as there are shapes."""
    shapes: tuple[tuple[int, ...], ...]
    """Shapes of the arguments, at most 48 entries together."""
    kind: Kind = "linear"
    """``"linear"``: linear in each argument, with exact moments.  ``"linearized"``: entry by
    entry, with the moments of its tangent at the mean.  ``"exact"``: entry by entry, with exact
    moments.  ``"tangent"``: any function, with the moments of its tangent at the means."""
    positive: bool = False
    """Whether the function is defined for positive numbers only."""
    scale: float = 1.0
    """Factor on the variances, where sampling cannot reach the fourth moment of wide ones."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}; got {self.kind!r}")

    def inputs(self, regime: str) -> list[Gaussian]:
        """Return random arguments of a regime, the same on every machine.

        Args:
            regime: one of ``tractable.testing.gaussians.REGIMES``.
        """
        source = generator(self.name, regime)
        drawn = [gaussian(shape, regime, source) for shape in self.shapes]
        return [
            Gaussian(g.loc.abs() + 0.5 if self.positive else g.loc, g.variance * self.scale)
            for g in drawn
        ]

    def on_gaussians(self, inputs: Sequence[Any]) -> Gaussian:
        """Return the function of Gaussians, by its rule.

        Args:
            inputs: one argument of the function for each shape, at least one of them a Gaussian.
        """
        with activation_moments("exact" if self.kind == "exact" else "linear"):
            z = self.function(*inputs)
        assert isinstance(z, Gaussian), f"{self.name} of Gaussians does not return a Gaussian"
        return z

    def on_rows(self, inputs: list[Gaussian]) -> Callable[..., Tensor]:
        """Return the function of flat rows whose samples have the moments of the rule.

        Args:
            inputs: Gaussians, one for each shape, at which tangents are taken.
        """
        if self.kind == "linearized":
            loc = inputs[0].loc
            slope = self.slope(loc)
            tangent = self.function(loc) + slope * -loc
            return lambda rows: tangent + slope * rows.reshape(-1, *self.shapes[0])

        if self.kind == "tangent":
            value = self.function(*(g.loc for g in inputs)).reshape(-1)
            parts = list(zip(self.jacobians(inputs), inputs, strict=True))
            return lambda *rows: (
                value
                + sum(
                    (row - g.loc.reshape(-1)) @ j.T for row, (j, g) in zip(rows, parts, strict=True)
                )
            )

        def function(*rows: Tensor) -> Tensor:
            arguments = [r.reshape(-1, *s) for r, s in zip(rows, self.shapes, strict=True)]
            return torch.vmap(self.function)(*arguments)

        return function

    def slope(self, loc: Tensor) -> Tensor:
        """Return the derivative of a function that acts entry by entry.

        Args:
            loc: point of the derivative, of the first shape.
        """
        found: Tensor = torch.func.grad(lambda mu: self.function(mu).sum())(loc)
        return found

    def jacobians(self, inputs: list[Gaussian]) -> list[Tensor]:
        """Return ``cov(output, input) / var(input)`` for each argument, flat: outputs by inputs.

        Args:
            inputs: Gaussians, one for each shape.
        """
        if self.kind in ("linear", "tangent"):
            locs = tuple(g.loc for g in inputs)
            found = torch.func.jacrev(self.function, argnums=tuple(range(len(locs))))(*locs)
            return [j.reshape(-1, loc.numel()) for j, loc in zip(found, locs, strict=True)]
        (g,) = inputs
        if self.kind == "linearized":
            return [torch.diag(self.slope(g.loc).reshape(-1))]
        # Stein: cov(f(z), z) / var(z) is the derivative of the mean of f(z) in the mean of z.
        above, below = (
            self.on_gaussians([Gaussian(g.loc + h, g.variance)]).loc for h in (_STEP, -_STEP)
        )
        return [torch.diag(((above - below) / (2 * _STEP)).reshape(-1))]


def case_id(case: RuleCase) -> str:
    """Return the name of the test case for pytest."""
    return case.name.replace(" ", "-").replace(",", "")


class RuleConformance:
    """Tests that every moment rule passes."""

    cases: ClassVar[Sequence[RuleCase]] = ()
    """Cases of a subclass."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Parametrize tests by case, and by regime if they have one."""
        if "case" in metafunc.fixturenames:
            metafunc.parametrize("case", self.cases, ids=case_id)
        if "regime" in metafunc.fixturenames:
            metafunc.parametrize("regime", REGIMES)

    def test_there_are_cases(self) -> None:
        assert self.cases, "set cases = (RuleCase(...), ...)"

    def test_moments_are_those_of_samples(self, case: RuleCase, regime: str) -> None:
        inputs = case.inputs(regime)
        assert_moments_agree(case.on_gaussians(inputs), case.on_rows(inputs), *inputs)

    def test_messages_are_the_derivative_and_its_square(self, case: RuleCase, regime: str) -> None:
        """``J^T d_mu`` to the mean and ``(J^2)^T d_var`` to the variance, as by stop-gradients."""
        inputs = case.inputs(regime)
        moments = leaves(inputs)
        z = case.on_gaussians(wrapped(moments))
        source = generator("message", case.name, regime)
        d_mu, d_var = normal(z.loc, source), -normal(z.loc, source).abs()
        got = torch.autograd.grad([z.loc, z.variance], moments, [d_mu, d_var])
        jacobians = case.jacobians(inputs)
        want = [j.T @ d_mu.reshape(-1) for j in jacobians]
        want += [(j**2).T @ d_var.reshape(-1) for j in jacobians]
        # A central difference has an error; a kink without variance has no slope.
        tolerance = 1e-12 if case.kind != "exact" else 1e-6
        torch.testing.assert_close(
            [m.reshape(-1) for m in got], want, rtol=tolerance, atol=tolerance
        )

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
    def test_without_variance_it_is_the_torch_function(
        self, case: RuleCase, dtype: torch.dtype
    ) -> None:
        locs = [g.loc.to(dtype) for g in case.inputs("moderate")]
        z = case.on_gaussians([Gaussian(loc, 0.0) for loc in locs])
        plain = case.function(*locs)
        assert (z.shape, z.dtype) == (plain.shape, plain.dtype)
        tolerance = 4e-6 if dtype == torch.float32 else 1e-14
        torch.testing.assert_close(z.loc, plain, rtol=tolerance, atol=1e-18)
        assert torch.equal(z.variance, torch.zeros_like(plain))
