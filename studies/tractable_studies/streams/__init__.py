"""Long data streams with jumps, drift and changes."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "streams",
    "Long data streams with jumps, drift and changes",
    OURS,
    "tractable_studies.streams.run",
)
