"""Imputation of missing values in tables."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "impute",
    "Imputation of UCI tables by a mixture and by IterativeImputer",
    OURS,
    "tractable_studies.impute.run",
)
