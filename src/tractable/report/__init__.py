"""Results of runs as self-contained HTML pages: answers, *paper | ours*, curves, pictures."""

from tractable.errors import InvalidResults
from tractable.report.page import write_report
from tractable.report.results import (
    RESULTS,
    Calibration,
    Chart,
    Comparison,
    Picture,
    Results,
)
from tractable.report.sections import Bars, Points, Section
from tractable.report.together import find_results, write_index

__all__ = [
    "RESULTS",
    "Bars",
    "Calibration",
    "Chart",
    "Comparison",
    "InvalidResults",
    "Picture",
    "Points",
    "Results",
    "Section",
    "find_results",
    "write_index",
    "write_report",
]
