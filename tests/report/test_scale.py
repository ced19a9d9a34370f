"""Axes: where values stand, and round marks."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tractable.report.scale import Axis


@given(st.floats(-1e12, 1e12), st.floats(1e-9, 1e12))
def test_marks_are_few_inside_and_evenly_spaced(low, width):
    axis = Axis(low, low + max(width, abs(low) * 1e-6), 0, 100)
    marks = axis.marks()
    assert len(marks) <= 7
    slack = 1e-6 * (axis.high - axis.low)
    assert all(axis.low - slack <= mark <= axis.high + slack for mark in marks)
    steps = [b - a for a, b in pairwise(marks)]
    assert all(math.isclose(step, steps[0], rel_tol=1e-3) for step in steps)


def test_places_are_linear_or_logarithmic():
    assert Axis(0, 10, 0, 100).place(2.5) == 25
    assert Axis(1, 100, 200, 0, log=True).place(10) == pytest.approx(100)
    assert Axis(1, 100, 0, 1, log=True).place(0) is None
    assert Axis(0, 1, 0, 1).place(math.nan) is None


def test_a_range_of_nothing_is_still_a_range():
    assert Axis.over([], 0, 1).marks()
    single = Axis.over([3.0, None, math.inf], 0, 1)
    assert single.low < 3 < single.high
    assert Axis.over([-1.0, 0.0], 0, 1, log=True).low == 1.0
    wide = Axis.over([0.0, 10.0], 0, 1, margin=0.1)
    assert (wide.low, wide.high) == (-1.0, 11.0)


@given(st.floats(1e-8, 1e8), st.floats(1.5, 1e9))
def test_log_marks_are_few_and_inside(low, ratio):
    axis = Axis(low, low * ratio, 0, 1, log=True)
    marks = axis.marks()
    assert len(marks) <= 7
    assert all(axis.low * 0.999 <= mark <= axis.high * 1.001 for mark in marks)
