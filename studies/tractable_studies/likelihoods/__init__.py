"""Likelihoods on suitable data, compared with other libraries."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "likelihoods",
    "Likelihoods for counts, ordinal, circular and multimodal targets",
    OURS,
    "tractable_studies.likelihoods.run",
)
