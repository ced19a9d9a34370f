"""Images mirrored and shifted at random."""

from __future__ import annotations

import pytest
import torch

from tractable.data import AugmentedImages


@pytest.fixture
def images() -> torch.Tensor:
    return torch.arange(5 * 2 * 6 * 7, dtype=torch.float32).reshape(5, 2, 6, 7)


def test_without_variation_the_images_are_themselves(images: torch.Tensor) -> None:
    data = AugmentedImages(images, torch.arange(5), flip=False, max_shift=0)
    got, labels = data[[3, 1]]
    assert torch.equal(got, images[[3, 1]])
    assert labels.tolist() == [3, 1]


def test_every_variation_is_a_mirror_and_a_shift(images: torch.Tensor) -> None:
    data = AugmentedImages(images, torch.arange(5), max_shift=1)
    bordered = torch.nn.functional.pad(images, (1, 1, 1, 1), mode="reflect")
    mirrored = torch.nn.functional.pad(images.flip(3), (1, 1, 1, 1), mode="reflect")
    possible = [
        whole[:, :, i : i + 6, j : j + 7]
        for whole in (bordered, mirrored)
        for i in range(3)
        for j in range(3)
    ]
    seen = set()
    for _ in range(60):
        got, _labels = data[list(range(5))]
        for row in range(5):
            matches = [k for k, one in enumerate(possible) if torch.equal(one[row], got[row])]
            assert len(matches) == 1
            seen.add(matches[0])
    assert seen == set(range(18))


def test_a_pass_has_every_row_once_in_a_new_order(images: torch.Tensor) -> None:
    loader = AugmentedImages(images, torch.arange(5)).batches(2)
    orders = [[int(label) for _, labels in loader for label in labels] for _ in range(4)]
    assert all(sorted(order) == list(range(5)) for order in orders)
    assert len({tuple(order) for order in orders}) > 1
    assert [len(labels) for _, labels in loader] == [2, 2, 1]


def test_the_seed_decides(images: torch.Tensor) -> None:
    first, second = (AugmentedImages(images, torch.arange(5), seed=3) for _ in range(2))
    for (a, la), (b, lb) in zip(first.batches(2), second.batches(2), strict=True):
        assert torch.equal(a, b)
        assert torch.equal(la, lb)


@pytest.mark.parametrize("bad", [{"max_shift": 6}, {"max_shift": -1}])
def test_bad_shifts(images: torch.Tensor, bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="max_shift"):
        AugmentedImages(images, torch.arange(5), **bad)


def test_bad_shapes(images: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="one label per row"):
        AugmentedImages(images, torch.arange(4))
