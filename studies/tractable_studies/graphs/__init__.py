"""Citation networks and molecules with graph neural networks."""

from tractable_studies.framework.study import OURS, Study

_CITATIONS = "tractable_studies.graphs.citations"

CORA = Study(
    "cora", "Node classification on the Cora citation network", OURS, _CITATIONS, ("cora",)
)
CITESEER = Study(
    "citeseer",
    "Node classification on the Citeseer citation network",
    OURS,
    _CITATIONS,
    ("citeseer",),
)
MUTAG = Study(
    "mutag",
    "Graph classification of mutagenic molecules, ten folds",
    OURS,
    "tractable_studies.graphs.molecules",
)

STUDIES = {study.name: study for study in (CORA, CITESEER)}
"""Studies by the positional argument of ``citations``."""
