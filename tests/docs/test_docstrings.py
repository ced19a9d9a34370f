"""How docstrings are brought to the pages of the reference (where Griffe is installed)."""

import pytest

pytest.importorskip("griffe", reason="comes with the extra 'docs'")

from docs.docstrings import readable


def test_a_doctest_becomes_a_code_block_up_to_the_blank_line():
    text = "Adds.\n\n>>> x = 1\n>>> x + 1\n2\n\nMore."
    assert readable(text) == "Adds.\n\n```pycon\n>>> x = 1\n>>> x + 1\n2\n```\n\nMore."


def test_what_is_exact_and_what_is_dropped_are_paragraphs():
    text = "A rule.\n\nExact: means.\nApproximate: the rest,\nand more."
    assert readable(text) == "A rule.\n\n*Exact:* means.\n\n*Approximate:* the rest,\nand more."


def test_roles_become_plain_code():
    assert readable("Made by :meth:`fit`.") == "Made by `fit`."


def test_other_text_stays():
    text = "Values.\n\n    a = b >>> 2\n\nArgs:\n    x: exact: not a label here."
    assert readable(text) == text
