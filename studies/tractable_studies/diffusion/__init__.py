"""Rows made by diffusion."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "diffusion",
    "rows of three tables and 8x8 digits by diffusion: TAGI, Backprop, ForestDiffusion",
    OURS,
    "tractable_studies.diffusion.run",
)
