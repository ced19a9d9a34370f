"""One-dimensional regression."""

from tractable_studies.framework.study import BBB, Study

STUDY = Study(
    "regression",
    "One-dimensional regression",
    f"{BBB}, tables 1 and 2",
    "tractable_studies.regression.run",
)
