"""Densities of tables."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "densities",
    "log density of the rows of seven tables: Gaussian, mixture, TAGI, splines beside zuko",
    OURS,
    "tractable_studies.densities.run",
)
