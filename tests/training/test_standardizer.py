"""Standardising columns and coming back."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from safetensors.torch import load, save

from tractable.data import Standardizer


def columns(*values: float) -> torch.Tensor:
    """Rows of random numbers about these means, with deviations 1, 2, 3, ..."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(1000, len(values), generator=generator, dtype=torch.float64)
    return noise * torch.arange(1, len(values) + 1) + torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_training_rows_get_zero_mean_and_unit_variance(dtype):
    z = Standardizer.fit(columns(0, -5, 1000).to(dtype)).transform(columns(0, -5, 1000).to(dtype))
    assert z.dtype == dtype
    tolerance = 1e-12 if dtype == torch.float64 else 1e-4
    assert z.double().mean(dim=0).abs().max() < tolerance
    assert (z.double().var(dim=0, correction=0) - 1).abs().max() < tolerance


def test_statistics_agree_with_numpy():
    x = columns(3, -7)
    standardizer = Standardizer.fit(x)
    np.testing.assert_allclose(standardizer.mean, x.numpy().mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(standardizer.scale, x.numpy().std(axis=0), rtol=1e-13)


def test_statistics_of_float32_are_taken_in_float64():
    x = (1e4 + columns(0)[:, 0]).float()
    standardizer = Standardizer.fit(x)
    assert standardizer.scale.dtype == torch.float64
    assert standardizer.scale.item() == pytest.approx(x.double().std(correction=0).item(), 1e-12)
    wide = (x.double() - standardizer.mean) / standardizer.scale
    assert torch.equal(standardizer.transform(x), wide.float())


def test_new_rows_are_scaled_with_the_statistics_of_the_training_rows():
    standardizer = Standardizer.fit(torch.tensor([[0.0], [4.0]]))
    assert standardizer.transform(torch.tensor([[8.0]])).item() == 3
    assert standardizer.inverse(torch.tensor([[3.0]])).item() == 8
    assert standardizer.inverse_variance(torch.tensor([[3.0]])).item() == 12


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("value", [0.0, 0.998, -1e-9, 3e15, 0.1])
def test_a_constant_column_becomes_zero(value, dtype):
    x = torch.full((10_741, 1), value, dtype=dtype)
    standardizer = Standardizer.fit(x)
    assert standardizer.constant.all()
    assert torch.equal(standardizer.transform(x), torch.zeros_like(x))
    assert torch.equal(standardizer.inverse(torch.zeros_like(x)), x)
    assert standardizer.inverse_variance(torch.ones(1)).item() == 1


def test_a_residue_of_rounding_is_not_variation():
    x = torch.full((10_741, 1), 0.998, dtype=torch.float64)
    x[::2] = np.nextafter(0.998, 1)
    assert x.std() > 0
    assert Standardizer.fit(x).constant.all()


@pytest.mark.parametrize("scale", [1e-250, 1e-30, 1.0, 1e30, 1e250])
def test_constancy_is_relative_to_the_scale(scale):
    x = scale * columns(0, 10)
    standardizer = Standardizer.fit(x)
    assert not standardizer.constant.any()
    torch.testing.assert_close(
        standardizer.transform(x), Standardizer.fit(columns(0, 10)).transform(columns(0, 10))
    )


def test_a_small_variation_on_a_large_value_is_kept():
    x = (1e6 + columns(0)).float()  # a millionth of the value, sixteen steps of float32
    assert not Standardizer.fit(x).constant.any()


def test_a_vector_is_one_column():
    standardizer = Standardizer.fit(torch.tensor([1.0, 3.0]))
    assert standardizer.transform(torch.tensor([5.0, 2.0])).tolist() == [3, 0]


def test_samples_may_come_before_the_rows():
    standardizer = Standardizer.fit(columns(1, 2))
    z = torch.randn(7, 5, 2, generator=torch.Generator().manual_seed(1))
    assert torch.equal(standardizer.inverse(z)[3], standardizer.inverse(z[3]))


def test_images_are_standardised_pixel_by_pixel():
    images = columns(*range(12)).reshape(1000, 3, 2, 2)
    standardizer = Standardizer.fit(images)
    assert standardizer.mean.shape == (3, 2, 2)
    flat = Standardizer.fit(images.flatten(1)).transform(images.flatten(1))
    assert torch.equal(standardizer.transform(images).flatten(1), flat)


finite = st.floats(-1e6, 1e6, width=32)
tables = arrays.arrays(
    np.float64, st.tuples(st.integers(1, 20), st.integers(1, 4)), elements=finite
)


@given(tables)
def test_the_inverse_comes_back(table):
    x = torch.from_numpy(table)
    standardizer = Standardizer.fit(x)
    back = standardizer.inverse(standardizer.transform(x))
    torch.testing.assert_close(back, x, rtol=1e-9, atol=1e-9 * (1 + x.abs().max().item()))
    assert (standardizer.scale > 0).all()


def test_saving_changes_nothing():
    standardizer = Standardizer.fit(torch.cat([columns(3, 4), torch.ones(1000, 1)], dim=1))
    again = Standardizer.from_dict(load(save(standardizer.to_dict())))
    assert torch.equal(again.constant, torch.tensor([False, False, True]))
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(2))
    assert torch.equal(again.transform(x), standardizer.transform(x))


def test_foreign_tensors_are_refused():
    with pytest.raises(ValueError, match=r"got tensors \['mean', 'std'\]"):
        Standardizer.from_dict({"mean": torch.zeros(1), "std": torch.ones(1)})


@pytest.mark.parametrize(
    ("x", "error", "says"),
    [
        (torch.zeros(3, 2, dtype=torch.int64), TypeError, "int64, expected floating point"),
        (torch.zeros(0, 2), ValueError, r"shape \(0, 2\)"),
        (torch.tensor(1.0), ValueError, r"shape \(\)"),
        (torch.tensor([[1.0, 2.0], [3.0, torch.nan]]), ValueError, r"columns \[1\]"),
        (torch.tensor([[torch.inf, 2.0], [3.0, 1.0]]), ValueError, r"columns \[0\]"),
    ],
)
def test_bad_training_rows_are_refused(x, error, says):
    with pytest.raises(error, match=says):
        Standardizer.fit(x)


@pytest.mark.parametrize("method", ["transform", "inverse", "inverse_variance"])
def test_other_columns_are_refused(method):
    apply = getattr(Standardizer.fit(columns(1, 2)), method)
    with pytest.raises(ValueError, match=r"got shape \(4, 3\).*\(2,\)"):
        apply(torch.zeros(4, 3))
    with pytest.raises(TypeError, match="int64"):
        apply(torch.zeros(4, 2, dtype=torch.int64))
