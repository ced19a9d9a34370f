"""What ``tractable.study`` finds on real data: double descent, honesty, remedies, transfer."""

from tractable_studies.framework.study import OURS, Study

DOUBLE_DESCENT = Study(
    "double-descent",
    "test error by width on 1,000 MNIST images with false labels",
    OURS,
    "tractable_studies.knowing.double_descent",
)
HONESTY = Study(
    "honesty",
    "each learner's own doubt over its true variance, on UCI sets",
    OURS,
    "tractable_studies.knowing.honesty",
)
REMEDIES = Study(
    "remedies",
    "what helps a plain network, on UCI sets",
    OURS,
    "tractable_studies.knowing.remedies",
)
TRANSFER = Study(
    "transfer",
    "the posterior of five digits as the prior for the other five",
    OURS,
    "tractable_studies.knowing.transfer",
)
