"""Streams that go on for long, drift, and change."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "streams",
    "long streams that jump, drift and change, with a memory and without",
    OURS,
    "tractable_studies.streams.run",
)
