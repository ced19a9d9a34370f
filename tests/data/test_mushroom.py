"""UCI Mushroom."""

import pytest
import torch

from tractable import data

FILE = "mushroom/agaricus-lepiota.data"
#: Three mushrooms that differ in cap-shape (x, b, x) and stalk-root (e, ?, ?) alone.
ROWS = (
    "p,x,s,n,t,p,f,c,n,k,e,e,s,s,w,w,p,w,o,p,k,s,u\n"
    "e,b,s,n,t,p,f,c,n,k,e,?,s,s,w,w,p,w,o,p,k,s,u\n"
    "e,x,s,n,t,p,f,c,n,k,e,?,s,s,w,w,p,w,o,p,k,s,u\n"
)


@pytest.fixture
def tiny(make_folder) -> None:
    make_folder({FILE: ROWS.encode()})


def column(table: data.TableData, name: str) -> list[float]:
    return table.features[:, table.columns.index(name)].tolist()


def test_classes(tiny):
    table = data.mushroom()
    assert table.classes == ("edible", "poisonous")
    assert table.labels.tolist() == [1, 0, 0]
    assert table.labels.dtype == torch.int64


def test_one_hot_has_a_column_for_every_level(tiny):
    table = data.mushroom()
    assert table.features.shape == (3, 22 + 2)
    assert table.features.dtype == torch.float32
    assert table.features.sum(dim=1).tolist() == [22, 22, 22]
    assert column(table, "cap-shape=b") == [0, 1, 0]
    assert column(table, "cap-shape=x") == [1, 0, 1]
    assert column(table, "stalk-root=?") == [0, 1, 1]
    assert column(table, "habitat=u") == [1, 1, 1]


def test_drop_first_leaves_out_the_first_level(tiny):
    table = data.mushroom("drop-first")
    assert table.columns == ("cap-shape=x", "stalk-root=e")
    assert table.features.tolist() == [[1, 1], [0, 0], [1, 0]]


def test_codes_number_the_levels(tiny):
    table = data.mushroom("codes")
    assert table.features.shape == (3, 22)
    assert column(table, "cap-shape") == [1, 0, 1]
    assert column(table, "stalk-root") == [1, 0, 0]


def test_an_unknown_encoding_is_refused(tiny):
    with pytest.raises(ValueError, match=r"'one-hot', 'drop-first', 'codes'.*'binary'"):
        data.mushroom("binary")


def test_mushroom_is_the_published_one(real_data):
    table = data.mushroom()
    assert table.features.shape == (8124, 117)
    assert table.labels.bincount().tolist() == [4208, 3916]
    assert torch.equal(table.features.sum(dim=1), torch.full((8124,), 22.0))
    assert sum(column(table, "stalk-root=?")) == 2480
    assert [name for name in table.columns if "=?" in name] == ["stalk-root=?"]
    assert [name for name in table.columns if "veil-type" in name] == ["veil-type=p"]
    assert data.mushroom("drop-first").features.shape == (8124, 95)
    assert data.mushroom("codes").features.shape == (8124, 22)
