"""The mushroom bandit.  Its environment is registered by ``environment``."""

from tractable_studies.framework.study import BBB, Study

STUDY = Study(
    "mushroom",
    "Contextual bandit on mushrooms",
    f"{BBB}, section 4.3",
    "tractable_studies.mushroom.run",
)
