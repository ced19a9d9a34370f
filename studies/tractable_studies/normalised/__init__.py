"""Normalized networks for images with the defaults of TAGI."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "normalised",
    "ResNet and MLP-mixer on CIFAR-10: TAGI with its defaults and Adam",
    OURS,
    "tractable_studies.normalised.run",
)
