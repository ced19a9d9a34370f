"""The batch rules over depth and batch size."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "batch_rule", "Batch rules over depth and batch size", OURS, "tractable_studies.batch_rule.run"
)
