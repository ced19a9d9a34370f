"""The mushroom bandit. Importing ``environment`` registers its environment."""

from tractable_studies.framework.study import BBB, Study

STUDY = Study(
    "mushroom",
    "Contextual bandit on the mushroom data",
    f"{BBB}, section 4.3",
    "tractable_studies.mushroom.run",
)
