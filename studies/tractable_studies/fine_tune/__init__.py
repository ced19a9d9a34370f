"""Closed-form learning from a pretrained network."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "fine_tune",
    "Fine-tuning on CIFAR-10: five classes by Adam, the other five by TAGI",
    OURS,
    "tractable_studies.fine_tune.run",
)
