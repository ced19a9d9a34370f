"""Character language model with a small transformer."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "characters",
    "Character language model: a small transformer with three learners",
    OURS,
    "tractable_studies.characters.run",
)
