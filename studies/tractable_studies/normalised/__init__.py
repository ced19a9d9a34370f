"""Normalised image networks by TAGI's defaults."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "normalised",
    "A ResNet and a mixer on CIFAR-10 by TAGI's defaults, beside Adam",
    OURS,
    "tractable_studies.normalised.run",
)
