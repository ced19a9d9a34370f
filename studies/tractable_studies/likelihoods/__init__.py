"""Likelihoods on data of their kind, beside other libraries."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "likelihoods",
    "counts of bikes and an inverse problem by likelihoods of their kind, beside scikit-learn",
    OURS,
    "tractable_studies.likelihoods.run",
)
