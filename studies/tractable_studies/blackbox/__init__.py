"""Black-box optimisation beside other methods."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "blackbox",
    "Regret of black-box optimisers after 100 calls",
    OURS,
    "tractable_studies.blackbox.run",
)
