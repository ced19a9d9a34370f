"""A curve learnt on a short interval."""

from tractable_studies.framework.study import BBB, Study

STUDY = Study(
    "regression",
    "A curve from a short interval",
    f"{BBB}, tables 1 and 2",
    "tractable_studies.regression.run",
)
