"""Copies share no memory with the original; saved tensors are restored exactly."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest
import torch
from torch import nn

from tractable import Gaussian


@pytest.fixture
def original() -> Gaussian:
    source = torch.Generator().manual_seed(3)
    loc = torch.randn(2, 3, generator=source, requires_grad=True)
    return Gaussian(loc, torch.rand(2, 3, generator=source).requires_grad_())


def assert_same(a: Gaussian, b: Gaussian) -> None:
    assert type(b) is Gaussian
    assert torch.equal(a.loc, b.loc)
    assert torch.equal(a.variance, b.variance)
    assert a.dtype == b.dtype


def assert_shares_nothing(a: Gaussian, b: Gaussian) -> None:
    assert a.loc.data_ptr() != b.loc.data_ptr()
    assert a.variance.data_ptr() != b.variance.data_ptr()
    assert not b.loc.requires_grad
    assert not b.variance.requires_grad


def test_deepcopy(original: Gaussian) -> None:
    duplicate = copy.deepcopy(original)
    assert_same(original, duplicate)
    assert_shares_nothing(original, duplicate)


def test_deepcopy_keeps_shared_parameters_shared(original: Gaussian) -> None:
    pair = copy.deepcopy([original, original])
    assert pair[0] is pair[1]


def test_deepcopy_of_a_module_that_holds_one(original: Gaussian) -> None:
    module = nn.Identity()
    module.state = original
    duplicate = copy.deepcopy(module).state
    assert isinstance(duplicate, Gaussian)
    assert_same(original, duplicate)
    assert_shares_nothing(original, duplicate)


def test_pickle(original: Gaussian) -> None:
    duplicate = pickle.loads(pickle.dumps(original))
    assert_same(original, duplicate)
    assert_shares_nothing(original, duplicate)


def test_torch_save(original: Gaussian) -> None:
    file = io.BytesIO()
    torch.save({"state": original}, file)
    file.seek(0)
    assert_same(original, torch.load(file, weights_only=False)["state"])


def test_detach_and_clone(original: Gaussian) -> None:
    clone: Any = original.clone()
    assert clone.loc.grad_fn is not None
    detached: Any = original.detach()
    assert_same(original, detached)
    assert not detached.loc.requires_grad


def test_conversion(original: Gaussian) -> None:
    wide: Any = original.to(torch.float64)
    assert (wide.dtype, wide.loc.dtype, wide.variance.dtype) == (torch.float64,) * 3
    assert_same(original, wide.float())
