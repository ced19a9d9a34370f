"""Diffusion models of table rows."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "diffusion",
    "Diffusion models of tables and 8x8 digits: TAGI, Backprop, ForestDiffusion",
    OURS,
    "tractable_studies.diffusion.run",
)
