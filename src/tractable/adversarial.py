"""Attacks by gradients under their former name: use ``tractable.attacks``.

Kept for one release.
"""

from tractable.attacks.gradient import fgsm, loss_gradient, pgd, robustness

__all__ = ["fgsm", "loss_gradient", "pgd", "robustness"]
