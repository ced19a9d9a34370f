"""Deep networks by TAGI's defaults."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "depth",
    "1 to 20 layers of all kinds by TAGI's defaults, beside Adam",
    OURS,
    "tractable_studies.depth.run",
)
