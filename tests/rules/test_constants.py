"""Constants among Gaussians, and Gaussians that are constants."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from tests.rules.cases import BILINEAR, ELEMENTWISE, LINEAR, Case, Curve, label
from tractable import Gaussian
from tractable.rules import activation_moments
from tractable.testing.gaussians import gaussian, generator

every_case = pytest.mark.parametrize("case", [*LINEAR, *BILINEAR], ids=label)
both_types = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


@both_types
@every_case
def test_zero_variance_is_the_torch_function(case: Case, dtype: torch.dtype) -> None:
    locs = [g.loc.to(dtype) for g in case.inputs("moderate")]
    z = case.function(*(Gaussian(loc, 0.0) for loc in locs))
    plain = case.function(*locs)
    assert isinstance(z, Gaussian)
    torch.testing.assert_close(z.loc, plain, rtol=4e-6 if dtype == torch.float32 else 1e-14, atol=0)
    assert torch.equal(z.variance, torch.zeros_like(plain))


@pytest.mark.parametrize("mode", ["linear", "exact"])
@both_types
@pytest.mark.parametrize("curve", ELEMENTWISE, ids=label)
def test_zero_variance_is_the_torch_curve(curve: Curve, dtype: torch.dtype, mode: str) -> None:
    loc = gaussian((40,), "moderate", generator(curve.name)).loc.to(dtype)
    loc = loc.abs() + 0.1 if curve.positive else loc
    with activation_moments(mode):  # type: ignore[arg-type]
        z = curve.function(Gaussian(loc, 0.0))
    assert isinstance(z, Gaussian)
    tolerance = 4e-6 if dtype == torch.float32 else 1e-14
    torch.testing.assert_close(z.loc, curve.function(loc), rtol=tolerance, atol=1e-18)
    assert torch.equal(z.variance, torch.zeros_like(loc))


@both_types
@every_case
def test_shape_type_and_device_are_torchs(case: Case, dtype: torch.dtype) -> None:
    inputs = [Gaussian(g.loc.to(dtype), g.variance.to(dtype)) for g in case.inputs("skewed")]
    z, plain = case.function(*inputs), case.function(*(g.loc for g in inputs))
    assert isinstance(z, Gaussian)
    for tensor in (z, z.loc, z.variance):
        assert (tensor.shape, tensor.dtype, tensor.device) == (
            plain.shape,
            plain.dtype,
            plain.device,
        )
    assert (z.stride(), z.is_contiguous()) == (z.loc.stride(), z.loc.is_contiguous())


def _mixtures() -> list[tuple[Case, tuple[bool, ...]]]:
    return [
        (case, kept)
        for case in [*LINEAR, *BILINEAR]
        for kept in itertools.product([True, False], repeat=len(case.shapes))
        if any(kept) and not all(kept)
    ]


@pytest.mark.parametrize(
    ("case", "kept"),
    _mixtures(),
    ids=lambda value: (
        label(value) if isinstance(value, Case) else "".join("GC"[not k] for k in value)
    ),
)
def test_a_constant_is_a_gaussian_without_variance(case: Case, kept: tuple[bool, ...]) -> None:
    """Any argument may be a plain tensor: moments and messages are the same."""
    inputs = case.inputs("moderate")
    leaves: list[Tensor] = []
    constants: list[Tensor] = []
    certain: list[Tensor] = []
    for g, keep in zip(inputs, kept, strict=True):
        variance = g.variance if keep else torch.zeros_like(g.loc)
        state = Gaussian.wrap(g.loc.requires_grad_(keep), variance.requires_grad_(keep))
        leaves += [state.loc, state.variance] if keep else []
        constants.append(state if keep else g.loc)
        certain.append(state)
    mixed, pure = case.function(*constants), case.function(*certain)
    assert isinstance(mixed, Gaussian)
    assert isinstance(pure, Gaussian)
    torch.testing.assert_close(mixed.loc, pure.loc, rtol=1e-14, atol=1e-14)
    torch.testing.assert_close(mixed.variance, pure.variance, rtol=1e-14, atol=1e-14)

    messages = [torch.full_like(mixed.loc, 0.7), torch.full_like(mixed.loc, -0.2)]
    ours, theirs = (
        torch.autograd.grad([z.loc, z.variance], leaves, messages) for z in (mixed, pure)
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-14, atol=1e-14)
