"""Images that do not belong."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "novelty",
    "digits 8 and 9, and grey photographs, told from the digits an autoencoder has learnt",
    OURS,
    "tractable_studies.novelty.run",
)
