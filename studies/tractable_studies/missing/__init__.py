"""Missing values: what they cost, and whether predictions know it."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "missing",
    "missing values in five UCI sets: inferred, filled with means, or by regressions",
    OURS,
    "tractable_studies.missing.run",
)
