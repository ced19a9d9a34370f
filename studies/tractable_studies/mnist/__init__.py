"""MNIST by Bayes by Backprop, point estimates and TAGI."""

from tractable_studies.framework.study import BBB, Study

STUDY = Study(
    "mnist",
    "MNIST: error, calibration, pruning, robustness",
    f"{BBB}, table 3",
    "tractable_studies.mnist.run",
)
