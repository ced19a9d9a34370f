"""Error bars where there are no data."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "off_data",
    "error bars in gaps of the data and beyond them, before and after they widen",
    OURS,
    "tractable_studies.off_data.run",
)
