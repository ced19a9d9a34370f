"""Model diagnostics on real data: double descent, calibration, regularization, transfer."""

from tractable_studies.framework.study import OURS, Study

DOUBLE_DESCENT = Study(
    "double-descent",
    "Double descent: test error by width on 1,000 MNIST images with wrong labels",
    OURS,
    "tractable_studies.knowing.double_descent",
)
HONESTY = Study(
    "honesty",
    "Epistemic variance of each learner relative to its true variance, on UCI data sets",
    OURS,
    "tractable_studies.knowing.honesty",
)
REMEDIES = Study(
    "remedies",
    "Regularization methods for a plain network, on UCI data sets",
    OURS,
    "tractable_studies.knowing.remedies",
)
TRANSFER = Study(
    "transfer",
    "Transfer learning: the posterior of five digits as the prior for the other five",
    OURS,
    "tractable_studies.knowing.transfer",
)
