"""Missing values in training and test rows."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "missing",
    "Missing values in five UCI data sets: TAGIRegressor, mean and regression imputation",
    OURS,
    "tractable_studies.missing.run",
)
