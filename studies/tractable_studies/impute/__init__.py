"""Filling the holes of tables."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "impute",
    "holes in UCI tables filled by a mixture, beside scikit-learn's IterativeImputer",
    OURS,
    "tractable_studies.impute.run",
)
