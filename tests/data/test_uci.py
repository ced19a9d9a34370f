"""The UCI regression tables and their splits."""

import numpy as np
import pytest
import torch

from tractable import data
from tractable.data import download

#: Rows, features, splits, training rows, test rows, mean and deviation of the target.
FACTS = {
    "boston": (506, 13, 20, 455, 51, 22.5328, 9.1880),
    "concrete": (1030, 8, 20, 927, 103, 35.8180, 16.6976),
    "energy": (768, 8, 20, 691, 77, 22.3072, 10.0836),
    "kin8nm": (8192, 8, 20, 7373, 819, 0.7143, 0.2636),
    "naval": (11_934, 16, 20, 10_741, 1193, 0.9750, 0.0147),
    "protein": (45_730, 9, 5, 41_157, 4573, 7.7485, 6.1182),
    "wine": (1599, 11, 20, 1439, 160, 5.6360, 0.8073),
}


@pytest.fixture
def tiny(make_folder, monkeypatch) -> None:
    """Five rows, two features, a column that is neither, and two splits."""
    monkeypatch.setattr(download, "SHA256", {})
    folder = "uci/bostonHousing"
    make_folder(
        {
            f"{folder}/data.txt": b" 0 10 20 30\n1\t11 21 31\n2 12 22 32\n3 13 23 33\n4 14 24 34\n",
            f"{folder}/index_features.txt": b"0\n2\n",
            f"{folder}/index_target.txt": b"3\n",
            f"{folder}/index_train_0.txt": b"4\n0\n2\n1\n",
            f"{folder}/index_test_0.txt": b"3\n",
            f"{folder}/index_train_1.txt": b"0\n1\n2\n",
            f"{folder}/index_test_1.txt": b"4\n3\n",
        }
    )


def test_features_and_targets_are_the_indexed_columns(tiny):
    table = data.uci("boston")
    assert table.features.tolist() == [[0, 20], [1, 21], [2, 22], [3, 23], [4, 24]]
    assert table.targets.tolist() == [[30], [31], [32], [33], [34]]
    assert table.features.dtype == table.targets.dtype == torch.float32


def test_a_split_has_the_indexed_rows_in_their_order(tiny):
    table = data.uci("boston")
    assert table.n_splits == 2
    x_train, y_train, x_test, y_test = table.split(0)
    assert x_train.tolist() == [[4, 24], [0, 20], [2, 22], [1, 21]]
    assert y_train.tolist() == [[34], [30], [32], [31]]
    assert x_test.tolist() == [[3, 23]]
    assert y_test.tolist() == [[33]]
    assert [split.y_test.flatten().tolist() for split in table.splits()] == [[33], [34, 33]]


@pytest.mark.parametrize("k", [-1, 2])
def test_a_split_that_is_not_there_is_refused(tiny, k):
    with pytest.raises(IndexError, match=f"boston has no split {k}, expected 0 to 1"):
        data.uci("boston").split(k)


def test_the_folder_name_serves_as_well(tiny):
    table = data.uci("bostonHousing", dtype=torch.float64)
    assert table.name == "boston"
    assert table.features.dtype == table.targets.dtype == torch.float64


@pytest.mark.parametrize(
    ("given", "meant"),
    [("Boston", "boston"), ("wines", "wine"), ("naval-propulsion", "naval-propulsion-plant")],
)
def test_an_unknown_name_gets_the_nearest_and_the_list(given, meant):
    with pytest.raises(ValueError, match=f"'{given}'. Did you mean '{meant}'?") as error:
        data.uci(given)
    assert all(name in str(error.value) for name in data.UCI_NAMES)


def test_a_name_like_none_of_them_gets_no_suggestion():
    with pytest.raises(ValueError, match=r"'xyzzy'\. Known: boston \(bostonHousing\), concrete"):
        data.uci("xyzzy")


def test_a_missing_split_file_is_named(tiny, tmp_path):
    (tmp_path / "data/uci/bostonHousing/index_test_1.txt").unlink()
    with pytest.raises(data.DataNotFound, match=r"uci/bostonHousing/index_test_1\.txt"):
        data.uci("boston")


@pytest.mark.parametrize("name", data.UCI_NAMES)
def test_the_tables_are_the_published_ones(real_data, name):
    rows, columns, splits, train, test, mean, deviation = FACTS[name]
    table = data.uci(name, dtype=torch.float64)
    assert table.features.shape == (rows, columns)
    assert table.targets.shape == (rows, 1)
    assert table.n_splits == splits
    assert {len(indices) for indices in table.train_rows} == {train}
    assert {len(indices) for indices in table.test_rows} == {test}
    assert table.targets.mean().item() == pytest.approx(mean, abs=5.01e-5)
    assert table.targets.std(correction=0).item() == pytest.approx(deviation, abs=5.01e-5)


@pytest.mark.parametrize("name", data.UCI_NAMES)
def test_the_splits_are_the_published_permutations(real_data, name):
    table = data.uci(name)
    rng = np.random.RandomState(1)  # the generator the splits were drawn with
    for train, test in zip(table.train_rows, table.test_rows, strict=True):
        drawn = rng.choice(len(table.features), len(table.features), replace=False)
        assert torch.cat([train, test]).tolist() == drawn.tolist()


@pytest.mark.parametrize(
    ("name", "duplicates"), [("concrete", 25), ("wine", 240), ("protein", 1711), ("boston", 0)]
)
def test_duplicate_rows(real_data, name, duplicates):
    table = data.uci(name, dtype=torch.float64)
    whole = torch.cat([table.features, table.targets], dim=1)
    assert len(whole) - len(whole.unique(dim=0)) == duplicates


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_naval_has_two_constant_columns_and_the_others_none(real_data, dtype):
    constant = {
        name: data.Standardizer.fit(data.uci(name, dtype=dtype).split(0).x_train).constant
        for name in data.UCI_NAMES
    }
    assert constant.pop("naval").nonzero().flatten().tolist() == [8, 11]
    assert not any(columns.any() for columns in constant.values())
