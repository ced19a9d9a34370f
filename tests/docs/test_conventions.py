"""Names, text and public arguments follow the conventions (``conventions.py``)."""

import pytest

from tests.docs import conventions


@pytest.mark.parametrize("check", conventions.CHECKS, ids=lambda check: check.__name__)
def test_there_are_no_violations(check):
    found = check()
    assert not found, "\n".join(found)


def test_words_are_those_of_an_identifier():
    assert conventions.words("_HeardByTwo_ways") == ["heard", "by", "two", "ways"]
    assert conventions.words("TAGIControl2") == ["tagi", "control"]


def test_tables_do_not_contradict_each_other():
    assert not set(conventions.TABLE) & set(conventions.BANNED_ARGUMENTS)
