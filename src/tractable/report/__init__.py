"""Results of runs as self-contained HTML pages: *paper | ours*, curves, calibration, pictures."""

from tractable.report.page import write_report
from tractable.report.results import (
    RESULTS,
    Calibration,
    Chart,
    Comparison,
    InvalidResults,
    Picture,
    Results,
)
from tractable.report.together import find_results, write_index

__all__ = [
    "RESULTS",
    "Calibration",
    "Chart",
    "Comparison",
    "InvalidResults",
    "Picture",
    "Results",
    "find_results",
    "write_index",
    "write_report",
]
