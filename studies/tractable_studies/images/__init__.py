"""MNIST and CIFAR-10 by TAGI."""

from tractable_studies.framework.study import OURS, STATES, TAGI, Study

_RUN = "tractable_studies.images.run"

MNIST_FNN = Study("mnist-fnn", "MNIST with two hidden layers", TAGI, _RUN, ("mnist-fnn",))
MNIST_CNN = Study("mnist-cnn", "MNIST with a CNN", f"{STATES}, table 4", _RUN, ("mnist-cnn",))
CIFAR_CNN = Study("cifar-cnn", "CIFAR-10 with a CNN", f"{STATES}, table 5", _RUN, ("cifar-cnn",))
CIFAR_RESNET = Study(
    "cifar-resnet", "CIFAR-10 with a batch-normalized ResNet", OURS, _RUN, ("cifar-resnet",)
)

STUDIES = {study.name: study for study in (MNIST_FNN, MNIST_CNN, CIFAR_CNN, CIFAR_RESNET)}
"""Studies by the argument of ``run``."""
