"""Results of runs as JSON files and as self-contained HTML pages."""

from tractable.errors import InvalidResults
from tractable.report.index import find_results, write_index
from tractable.report.page import write_report
from tractable.report.results import (
    RESULTS,
    BarData,
    Calibration,
    Chart,
    Comparison,
    ImageFile,
    Results,
    ScatterData,
    Section,
)

__all__ = [
    "RESULTS",
    "BarData",
    "Calibration",
    "Chart",
    "Comparison",
    "InvalidResults",
    "ImageFile",
    "ScatterData",
    "Results",
    "Section",
    "find_results",
    "write_index",
    "write_report",
]
