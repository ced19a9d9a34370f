"""Citation graphs and molecules by networks of graphs."""

from tractable_studies.framework.study import OURS, Study

_CITATIONS = "tractable_studies.graphs.citations"

CORA = Study("cora", "subjects of papers from who cites whom", OURS, _CITATIONS, ("cora",))
CITESEER = Study("citeseer", "the same on another graph", OURS, _CITATIONS, ("citeseer",))
MUTAG = Study("mutag", "mutagenic molecules, ten folds", OURS, "tractable_studies.graphs.molecules")

STUDIES = {study.name: study for study in (CORA, CITESEER)}
"""By the argument of ``citations``."""
