"""Comparison of black-box optimizers."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "blackbox",
    "Regret of black-box optimizers after 100 evaluations",
    OURS,
    "tractable_studies.blackbox.run",
)
