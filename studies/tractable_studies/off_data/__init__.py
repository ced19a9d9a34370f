"""Prediction intervals away from the training data."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "off_data",
    "Prediction intervals in gaps of the data and outside their range",
    OURS,
    "tractable_studies.off_data.run",
)
