"""Characters of Shakespeare by a small transformer."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "characters",
    "Characters of Shakespeare by one small transformer under three learners",
    OURS,
    "tractable_studies.characters.run",
)
