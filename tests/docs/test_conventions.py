"""Names, text and public arguments follow the conventions (``conventions.py``)."""

import pytest

from tests.docs import conventions

LEFT = {
    "forbidden_names": 0,
    "unclear_files": 0,
    "repeated_classes": 0,
    "forbidden_text": 27,
    "undocumented_arguments": 9,
    "unusual_arguments": 0,
}
"""Violations that are left; the numbers may only become smaller."""


@pytest.mark.parametrize("check", conventions.CHECKS, ids=lambda check: check.__name__)
def test_violations_become_fewer(check):
    found = check()
    assert len(found) <= LEFT[check.__name__], "\n".join(found)


def test_words_are_those_of_an_identifier():
    assert conventions.words("_HeardByTwo_ways") == ["heard", "by", "two", "ways"]
    assert conventions.words("TAGIControl2") == ["tagi", "control"]


def test_tables_do_not_contradict_each_other():
    assert not set(conventions.TABLE) & set(conventions.BANNED_ARGUMENTS)
