"""Plots as SVG elements of an HTML page: small, reproducible, in the colors of the page."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from tractable.errors import MatplotlibMissing
from tractable.plots.style import AXIS, COLORS, GRID, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

Element = ET.Element

PROPERTIES = {INK: "--plot-ink", AXIS: "--plot-axis", GRID: "--plot-grid"} | {
    color: f"--plot-{rank}" for rank, color in enumerate(COLORS)
}
"""Names of the CSS properties by which a page sets the colors of a plot."""
_HEX = re.compile("|".join(PROPERTIES), re.IGNORECASE)
_BY_HEX = {color.lower(): f"var({name}, {color.lower()})" for color, name in PROPERTIES.items()}
_DECIMALS = re.compile(r"-?\d+\.\d+")
_UNNAMED = re.compile(r"_child\d+")  # the label that matplotlib gives to a line without one
_MAX_LABEL = {"x": 56, "y": 36}  # characters of a label that fit beside the axis


@dataclass(frozen=True)
class InlineSVG:
    """A plot as an SVG element.

    Attributes:
        svg: the element.
        key: legend entries: the name of each curve, and a sample of its line as an SVG element.
    """

    svg: str
    key: list[tuple[str, str]]


def inline_svg(
    draw: Callable[[Axes], object],
    *,
    label: str,
    salt: str,
    size: tuple[float, float] = (4.6, 2.9),
) -> InlineSVG:
    """Return a plot as an SVG element.

    Text stays text, in the font of the page. Colors are CSS properties that the page may set
    (``PROPERTIES``), for example in a dark theme.

    Args:
        draw: function that draws on the given axes.
        label: description of the plot for screen readers.
        salt: text that makes the ids inside this plot unique in the page.
        size: width and height in inches.
    """
    with _look(salt):
        from matplotlib.figure import Figure

        figure = Figure(size, layout="constrained")
        ax = figure.subplots()
        draw(ax)
        ax.set_xlabel(_wrapped(ax.get_xlabel(), "x"))
        ax.set_ylabel(_wrapped(ax.get_ylabel(), "y"))
        ax.tick_params(which="both", length=0, pad=5)
        ax.grid(clip_on=False)
        for patch in (figure.patch, ax.patch):  # the background of the page is visible
            patch.set_visible(False)
        out = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(out, format="svg", metadata=nothing)
        named = [line for line in ax.lines if not _UNNAMED.fullmatch(str(line.get_label()))]
        return InlineSVG(
            _element(out.getvalue(), label),
            [(str(line.get_label()), _sample(line)) for line in named],
        )


@contextmanager
def _look(salt: str) -> Iterator[None]:
    """Set matplotlib's default settings, independent of those of the user."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise MatplotlibMissing("plots need matplotlib: pip install 'tractable[cli]'") from error
    with mpl.rc_context(), warnings.catch_warnings():
        # The font used for the layout may lack characters of the font of the page.
        warnings.filterwarnings("ignore", r"(?s).*Glyph \d+")
        mpl.rcdefaults()
        mpl.rcParams |= {
            "font.size": 9.5,
            "svg.fonttype": "none",
            "svg.hashsalt": salt,
            "text.parse_math": False,  # column names may contain dollar signs
        }
        yield


def _wrapped(label: str, side: str) -> str:
    return fill("".join(letter for letter in label if letter.isprintable()), _MAX_LABEL[side])


def _element(text: str, label: str) -> str:
    """Return the SVG element without metadata and unused ids."""
    root = ET.fromstring(text)
    for element in root.iter():
        element.tag = _local(element.tag)
        element.attrib = {_local(name): value for name, value in element.attrib.items()}
        element.tail = None
        if element.tag not in ("text", "style"):
            element.text = None
    used = {element.get("href", "")[1:] for element in root.iter("use")}
    used |= {element.get("clip-path", "")[len("url(#") : -1] for element in root.iter()}
    for element in root.iter():
        _clean(element, used)
    _flatten(root)
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-label": label}
    return ET.tostring(root, encoding="unicode")


def _clean(element: Element, used: set[str]) -> None:
    if element.get("id") not in used:
        element.attrib.pop("id", None)
    if "style" in element.attrib:
        element.attrib["style"] = _style(element.attrib["style"])
    if element.get("transform", "").startswith("rotate(-0"):
        del element.attrib["transform"]
    for name in {"d", "x", "y", "transform"} & element.attrib.keys():
        element.attrib[name] = " ".join(_DECIMALS.sub(_two, element.attrib[name]).split())


def _flatten(element: Element) -> None:
    """Replace groups without attributes by their children, and remove empty elements."""
    kept: list[Element] = []
    for child in element:
        _flatten(child)
        if child.tag == "g" and not child.attrib:
            kept.extend(child)
        elif child.tag == "style" or (child.tag == "defs" and not len(child)):
            continue  # a style element would apply to the whole page
        else:
            kept.append(child)
    element[:] = kept


def _style(text: str) -> str:
    parts = [part.strip() for part in text.split(";")]
    return "; ".join(
        _HEX.sub(lambda found: _BY_HEX[found[0].lower()], part)
        for part in parts
        if part and not part.startswith(("font-family", "stroke-dashoffset"))
    )


def _sample(line: Line2D) -> str:
    """Return a sample of a line for a legend, as an SVG element."""
    dashes = {"--": "6 3", ":": "2 3", "-.": "8 3 2 3"}.get(str(line.get_linestyle()), "none")
    style = f"stroke: {line.get_color()}; stroke-width: 2; stroke-dasharray: {dashes}"
    drawn = f'<path d="M 0 5 H 26" style="{_style(style)}"/>'
    return f'<svg viewBox="0 0 26 10" aria-hidden="true">{drawn}</svg>'


def _two(found: re.Match[str]) -> str:
    """Return a number with at most two decimals."""
    return f"{float(found[0]):.2f}".rstrip("0").rstrip(".")


def _local(name: str) -> str:
    return name.rpartition("}")[2]
