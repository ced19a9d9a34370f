"""The estimators beside boosting, forests, linear models and Gaussian processes, on many tables."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "tables",
    "default estimators beside six rivals on 32 tables",
    OURS,
    "tractable_studies.tables.run",
)
