"""Closed-form learning that begins at a trained network."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "fine_tune",
    "five classes of CIFAR-10 by Adam, the other five by TAGI from there",
    OURS,
    "tractable_studies.fine_tune.run",
)
