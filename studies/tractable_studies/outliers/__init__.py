"""Outliers in training targets."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "outliers",
    "Outliers in the training targets of five UCI data sets",
    OURS,
    "tractable_studies.outliers.run",
)
