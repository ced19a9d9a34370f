"""Comparison with estimators of scikit-learn."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "estimators",
    "Comparison with scikit-learn estimators on seven UCI data sets",
    OURS,
    "tractable_studies.estimators.run",
)
