"""Line charts of named curves: drawn points, ticks, and use in a page."""

import math
import re
import sys
from itertools import pairwise
from xml.etree import ElementTree as ET

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tractable import plots
from tractable.plots.style import COLORS, MatplotlibMissing
from tractable.plots.svg import PROPERTIES, inline_svg

ANY = st.one_of(st.none(), st.floats(), st.integers(-9, 9).map(float))


def marks(axis) -> tuple[list[float], list[str]]:
    """The marks inside the limits, and their texts."""
    low, high = sorted(axis.get_view_interval())
    slack = 1e-9 * (high - low)
    held = [v for v in axis.get_majorticklocs() if low - slack <= v <= high + slack]
    return held, axis.get_major_formatter().format_ticks(held)


def test_curves_keep_their_values_and_gaps():
    ax = plots.lines({"a": ([1, 2, None, 4], [3.0, None, 2.0, math.inf]), "b": ([1, 4], [0, 1])})
    first, second = ax.lines
    assert [line.get_label() for line in ax.lines] == ["a", "b"]
    assert np.isnan(first.get_ydata()).tolist() == [False, True, True, True]
    assert first.get_ydata()[0] == 3
    assert second.get_ydata().tolist() == [0, 1]
    assert second.get_xdata().tolist() == [1, 4]


def test_nonpositive_values_are_gaps_on_log_axes():
    ax = plots.lines({"a": ([1, 2, 3], [0.0, -1.0, 5.0])}, scale="log")
    assert np.isnan(ax.lines[0].get_ydata()).tolist() == [True, True, False]
    assert ax.get_yscale() == "log"
    with pytest.raises(ValueError, match="scale must be"):
        plots.lines({}, scale="logarithmic")
    with pytest.raises(ValueError, match="2 x values and 1 y values"):
        plots.lines({"a": ([1, 2], [1])})


def test_long_curves_are_thinned_with_both_ends():
    long = list(range(5000))
    line = plots.lines({"a": (long, long)}, max_points=300).lines[0]
    assert len(line.get_xdata()) == 300
    assert (line.get_xdata()[0], line.get_xdata()[-1]) == (0, 4999)
    assert (np.diff(line.get_xdata()) > 0).all()


def test_more_curves_than_colors_have_different_dashes():
    ax = plots.lines({str(i): ([1, 2], [i, i]) for i in range(2 * len(COLORS))})
    looks = {(line.get_color(), line.get_linestyle()) for line in ax.lines}
    assert len(looks) == len(ax.lines)


def test_agreement_has_its_diagonal_and_room_for_all():
    ax = plots.calibration_curve({"net": ([0.5, 0.9], [0.6, 1.2])}, xlabel="stated", ylabel="seen")
    diagonal, line = ax.lines
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata()) == [0, 1]
    assert line.get_ydata().tolist() == [0.6, 1.2]
    assert ax.get_ylim() == (0, 1.2)


@settings(deadline=None, max_examples=60)
@given(st.floats(-1e12, 1e12), st.floats(1e-6, 1e12))
def test_marks_are_few_inside_and_evenly_spaced(low, width):
    high = low + max(width, abs(low) * 1e-6)
    ax = plots.lines({"a": ([0, 1], [low, high])})
    places, texts = marks(ax.yaxis)
    assert 2 <= len(places) <= 7
    assert len(set(texts)) == len(texts)
    steps = [b - a for a, b in pairwise(places)]
    assert all(math.isclose(step, steps[0], rel_tol=1e-3) for step in steps)
    plt.close("all")


@settings(deadline=None, max_examples=60)
@given(st.floats(1e-8, 1e8), st.floats(1.5, 1e9))
def test_log_marks_are_few_and_have_texts_without_powers(low, ratio):
    ax = plots.lines({"a": ([0, 1], [low, low * ratio])}, scale="log")
    places, texts = marks(ax.yaxis)
    assert 1 <= len(places) <= 9
    assert len(set(texts)) == len(texts)
    assert not any("$" in text or "^" in text for text in texts)
    plt.close("all")


def test_epochs_are_whole_and_large_numbers_short():
    ax = plots.lines({"a": ([1, 2, 3], [0.0, 1e6, 2e6])})
    assert all(place == round(place) for place in marks(ax.xaxis)[0])
    assert marks(ax.yaxis)[1] == ["0", "500k", "1M", "1.5M", "2M"]
    ax = plots.lines({"a": ([0.5, 1.5], [1_000_000.0, 1_000_002.0])})
    assert "1000001" in marks(ax.yaxis)[1]


def drawn(curves, **options):
    return inline_svg(
        lambda ax: plots.lines(curves, show_legend=False, ax=ax, **options), label="l", salt="s"
    )


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(ANY, ANY), max_size=5), st.booleans())
def test_any_numbers_can_be_drawn(points, log):
    curves = {"a": ([x for x, _ in points], [y for _, y in points])}
    root = ET.fromstring(drawn(curves, scale="log" if log else "linear").svg)
    assert not re.search(r"\bnan\b|\binf\b", ET.tostring(root, encoding="unicode"))


def test_an_inline_figure_is_small_safe_and_in_the_colours_of_the_page():
    label = "cost in $ of <b> & $x_1 \x00 \U0001f980 \u4ef7"
    made = inline_svg(
        lambda ax: plots.lines(
            {"_a": ([1, 2], [1, 2]), "<i>": ([1, 2], [2, 1])}, xlabel=label, ylabel=label, ax=ax
        ),
        label='"quoted" <b>', salt="s",
    )  # fmt: skip
    root = ET.fromstring(made.svg)
    assert root.attrib == {
        "viewBox": "0 0 331.2 208.8", "role": "img", "aria-label": '"quoted" <b>',
    }  # fmt: skip
    texts = [text.text for text in root.iter("text")]
    assert label.replace("\0", "") in texts
    assert len(made.svg) < 12_000
    assert "font-family" not in made.svg
    assert "<style" not in made.svg
    assert "http" not in made.svg
    assert set(re.findall(r"#[0-9a-f]{6}", made.svg)) <= {color.lower() for color in PROPERTIES}
    assert not re.search(r"(?<!, )#[0-9a-f]{6}", made.svg)  # only as what a page may replace
    assert [name for name, _ in made.key] == ["_a", "<i>"]
    assert [re.search(r"--plot-(\d)", sample)[1] for _, sample in made.key] == ["0", "1"]


def test_inline_figures_do_not_hang_on_the_users_settings():
    curves = {"a": ([1, 2, 3], [1, 3, 2])}
    first = drawn(curves).svg
    with mpl.rc_context({"font.size": 30, "axes.grid": True, "svg.fonttype": "path"}):
        assert drawn(curves).svg == first
        assert mpl.rcParams["font.size"] == 30
    assert (
        inline_svg(
            lambda ax: plots.lines(curves, show_legend=False, ax=ax), label="l", salt="t"
        ).svg
        != first
    )
    assert not plt.get_fignums()


def test_long_labels_are_broken_into_lines():
    made = drawn({"a": ([1, 2], [1, 2])}, ylabel="word " * 20)
    texts = [text.text for text in ET.fromstring(made.svg).iter("text")]
    assert sum(text.strip().startswith("word") for text in texts) == 3


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MatplotlibMissing, match=r"tractable\[cli\]"):
        drawn({"a": ([1], [1])})


def test_what_is_cut_at_the_axes_stays_cut():
    root = ET.fromstring(inline_svg(lambda ax: ax.plot([1, 2], [1, 2]), label="l", salt="s").svg)
    cut = {element.get("clip-path") for element in root.iter()} - {None}
    assert cut == {f"url(#{path.get('id')})" for path in root.iter("clipPath")} != set()
