"""Out-of-distribution detection for images."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "novelty",
    "Out-of-distribution detection by autoencoders: unseen digits and photographs",
    OURS,
    "tractable_studies.novelty.run",
)
