"""Adversarial images by inference."""

from tractable_studies.framework.study import STATES, Study

_RUN, _SOURCE = "tractable_studies.attack.run", f"{STATES}, table 1"

MNIST = Study("attack-mnist", "Adversarial MNIST images", _SOURCE, _RUN, ("mnist",))
CIFAR10 = Study("attack-cifar10", "Adversarial CIFAR-10 images", _SOURCE, _RUN, ("cifar10",))

STUDIES = {"mnist": MNIST, "cifar10": CIFAR10}
"""Studies by the positional argument of ``run``."""
