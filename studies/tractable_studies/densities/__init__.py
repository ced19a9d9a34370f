"""Density estimation on tables."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "densities",
    "Density estimation on seven tables: Gaussian, mixture, TAGI, spline flows",
    OURS,
    "tractable_studies.densities.run",
)
