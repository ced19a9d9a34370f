"""Rows of several inputs, by themselves."""

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree

import tractable as tr
from tractable.training.data import TensorFormat, as_inputs
from tractable.training.inputs import (
    MultiInput,
    distance_input,
    input_signature,
    is_uncertain,
    map_inputs,
    single_input,
)

A, B = torch.arange(8.0).reshape(4, 2), torch.arange(4)


@pytest.mark.parametrize("given", [(A, B), {"a": A, "b": B}], ids=["tuple", "names"])
def test_all_parts_are_indexed_alike(given):
    x = as_inputs(given)
    assert len(x) == 4
    for rows in (slice(1, 3), torch.tensor([3, 0]), B > 1):
        a, b = x[rows].tensors
        assert torch.equal(a, A[rows])
        assert torch.equal(b, B[rows])
    assert [len(part) for part in x.split(3)] == [3, 1]
    assert x.into(lambda a, b: a.sum(1) + b).tolist() == [1, 6, 11, 16]
    leaves, structure = pytree.tree_flatten(x)
    again = pytree.tree_unflatten([2 * leaf for leaf in leaves], structure)
    assert torch.equal(again.into(lambda a, b: a), 2 * A)
    assert input_signature(again) == input_signature(x)


def test_what_is_one_input_and_what_is_several():
    assert isinstance(as_inputs(((1.0, 2.0), (3.0, 4.0))), torch.Tensor)
    assert isinstance(as_inputs([A[0], A[1]]), torch.Tensor)
    assert isinstance(as_inputs((A.numpy(), B)), MultiInput)
    assert [part.shape for part in as_inputs(as_inputs((A, B))).tensors] == [A.shape, B.shape]
    forms = {input_signature(as_inputs(x)) for x in (A, (A,), (A, B), (A, A), {"a": A, "b": B})}
    assert len(forms) == 5


def test_every_part_is_brought_to_the_format():
    format = TensorFormat(torch.float64, torch.device("cpu"), integers=True)
    x = format.inputs({"a": A.numpy(), "b": B, "c": tr.Gaussian(A, 1.0)})
    assert [part.dtype for part in x.tensors] == [torch.float64, torch.int64, torch.float64]
    assert is_uncertain(x)
    assert not is_uncertain(format.inputs((A, B)))
    with pytest.raises(tr.errors.InvalidInput, match="same number of rows"):
        format.inputs((A, B[:3]))
    with pytest.raises(tr.errors.InvalidInput, match="at least one row"):
        format.inputs((A, np.zeros(())))
    with pytest.raises(tr.errors.InvalidInput, match="inputs 'b' must be a tensor"):
        format.inputs({"a": A, "b": ["x"] * 4})


def test_what_only_one_input_has():
    several = as_inputs((A, B))
    assert distance_input(several) is None
    assert distance_input(B) is None
    assert distance_input(tr.Gaussian(A, 1.0)) is A
    assert single_input(A, "this") is A
    with pytest.raises(TypeError, match="this is for networks of one input; there are 2"):
        single_input(several, "this")
    assert map_inputs(lambda part: part + 1, several).tensors[1].tolist() == [1, 2, 3, 4]
    assert repr(several) == "MultiInput(0: (4, 2), 1: (4,))"
