"""Comparison with boosting, forests, linear models and Gaussian processes on tables."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "tables",
    "Comparison with six baselines on 32 tables",
    OURS,
    "tractable_studies.tables.run",
)
