"""Networks of 1 to 20 layers with the defaults of TAGI."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "depth",
    "Networks of 1 to 20 layers: TAGI with its defaults and Adam",
    OURS,
    "tractable_studies.depth.run",
)
