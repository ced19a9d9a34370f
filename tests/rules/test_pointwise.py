"""Every function that torch calls pointwise, and those it does not tag: value, slope, messages."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tractable import Gaussian
from tractable.rules.activation import activation_moments
from tractable.rules.linearized import UNTAGGED, is_pointwise
from tractable.testing.gaussians import generator, normal, uniform

OPTIONS: dict[str, tuple[Any, ...]] = {
    "clamp": (0.3, 0.6),
    "clip": (0.3, 0.6),
    "clamp_max": (0.5,),
    "clamp_min": (0.5,),
    "threshold": (0.4, 0.1),
    "mvlgamma": (2,),
    "special_multigammaln": (2,),
    "multigammaln": (2,),
    "masked_fill": (torch.tensor([True, False, True, False, False, True]), 0.5),
}
PLAIN = """add sub mul multiply square div divide true_divide rsub pow where max min equal clone
    masked_fill addcmul addcdiv""".split()
"""With rules and tests of their own."""
NO_DERIVATIVE = ("heaviside", "igamma", "igammac", "gammainc", "gammaincc", "zeta")
"""In torch, so no rule either."""


def found() -> list[tuple[str, Any, int]]:
    """Name, function and number of tensor arguments."""
    cases = {}
    point = uniform((6,), 0.2, 0.8, generator("pointwise"))
    for home in (torch, torch.special, F):
        for name in dir(home):
            function = getattr(home, name)
            prefix = "special_" if home is torch.special else ""
            if name.startswith("_") or name.endswith("_") or name in (*PLAIN, *NO_DERIVATIVE):
                continue
            if not callable(function) or isinstance(function, type):
                continue
            if not is_pointwise(prefix + name):
                continue
            for count in (1, 2, 3):
                try:
                    z = function(*[point] * count, *OPTIONS.get(name, ()))
                except (TypeError, RuntimeError, NotImplementedError):
                    continue
                if isinstance(z, torch.Tensor) and z.is_floating_point():
                    cases[prefix + name] = (prefix + name, function, count)
                break
    return list(cases.values())


FOUND = found()


def arguments(name: str, count: int) -> list[Gaussian]:
    source = generator(name)
    high = 1.9 if name in ("acosh", "arccosh") else 0.8
    low = 1.1 if name in ("acosh", "arccosh") else 0.2
    return [
        Gaussian(uniform((6,), low, high, source), uniform((6,), 0.01, 0.04, source))
        for _ in range(count)
    ]


def run(name: str, function: Any, inputs: list[Any]) -> Any:
    return function(*inputs, *OPTIONS.get(name.removeprefix("special_"), ()))


def test_there_are_many() -> None:
    names = {name for name, _, _ in FOUND}
    assert len(names) > 110, len(names)
    wanted = """hardswish hardtanh hardsigmoid hardshrink softshrink celu selu mish relu6 logsigmoid
        threshold erf rsqrt log1p expm1 atan2 maximum lerp"""
    assert set(wanted.split()) <= names, set(wanted.split()) - names


@pytest.mark.parametrize(("name", "function", "count"), FOUND, ids=[n for n, _, _ in FOUND])
def test_value_slope_and_messages(name: str, function: Any, count: int) -> None:
    """Moments by the full Jacobian of torch, which must be diagonal; messages J and J squared."""
    inputs = arguments(name, count)
    locs = [g.loc for g in inputs]
    jacobians = []
    for i in range(count):
        leaves = [loc.clone().requires_grad_(i == k) for k, loc in enumerate(locs)]
        value = run(name, function, leaves)
        rows = torch.zeros(6, 6, dtype=torch.float64)
        if value.requires_grad:
            for k in range(6):
                found = torch.autograd.grad(value[k], leaves[i], retain_graph=True)
                rows[k] = found[0]
        assert torch.equal(rows, torch.diag(rows.diagonal())), "not pointwise"
        jacobians.append(rows.diagonal())
    moments = [m.clone().requires_grad_() for g in inputs for m in (g.loc, g.variance)]
    pairs = zip(moments[::2], moments[1::2], strict=True)
    with activation_moments("linear"):
        z = run(name, function, [Gaussian.wrap(*pair) for pair in pairs])
    assert isinstance(z, Gaussian)
    torch.testing.assert_close(z.loc, run(name, function, locs), rtol=1e-12, atol=1e-12)
    spread = sum(j**2 * g.variance for j, g in zip(jacobians, inputs, strict=True))
    torch.testing.assert_close(z.variance, spread, rtol=1e-9, atol=1e-15)
    source = generator("message", name)
    d_mu, d_var = normal(z.loc, source), -normal(z.loc, source).abs()
    got = torch.autograd.grad([z.loc, z.variance], moments, [d_mu, d_var], allow_unused=True)
    for i, j in enumerate(jacobians):
        torch.testing.assert_close(got[2 * i], j * d_mu, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(got[2 * i + 1], j**2 * d_var, rtol=1e-9, atol=1e-12)


def test_untagged_names_are_all_tested() -> None:
    names = {name for name, _, _ in FOUND}
    aliases = {"log_sigmoid", "special_polygamma", "special_logit"}  # other names, or options
    assert set(UNTAGGED.split()) - names - aliases <= {"absolute", "negative", "multiply", "fix"}


def test_functions_with_boolean_or_constant_results() -> None:
    g: Any = Gaussian(torch.tensor([-1.5, 0.5]), 0.1)
    assert torch.equal(torch.signbit(g), torch.tensor([True, False]))
    assert torch.equal(g > 0, torch.tensor([False, True]))
    assert torch.equal(torch.isnan(g), torch.tensor([False, False]))
    rounded = torch.round(g)
    assert torch.equal(rounded.loc, torch.tensor([-2.0, 0.0]))
    assert not rounded.variance.any()


def test_an_infinite_slope_without_variance_has_none() -> None:
    z: Any = torch.rsqrt(Gaussian(torch.tensor([4.0]), 0.0))
    assert not z.variance.any()
    z = torch.hypot(Gaussian(torch.zeros(1), 0.0), torch.zeros(1))
    assert bool(torch.isfinite(z.variance).all())


def test_a_wider_partner_widens_the_result() -> None:
    z: Any = torch.maximum(Gaussian(torch.zeros(2), 0.5), torch.tensor([-1.0, 1.0]).double())
    assert (z.loc.dtype, z.variance.dtype) == (torch.float64,) * 2
    assert z.variance.tolist() == [0.5, 0.0]
