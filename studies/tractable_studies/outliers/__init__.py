"""What gross outliers among the training targets cost."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "outliers",
    "gross outliers in the training targets of five UCI sets",
    OURS,
    "tractable_studies.outliers.run",
)
