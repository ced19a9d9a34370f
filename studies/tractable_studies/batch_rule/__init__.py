"""Batch rules for different depths and batch sizes."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "batch_rule",
    "Batch rules for different depths and batch sizes",
    OURS,
    "tractable_studies.batch_rule.run",
)
