"""The estimators beside those of scikit-learn."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "estimators",
    "scikit-learn estimators on seven UCI sets",
    OURS,
    "tractable_studies.estimators.run",
)
