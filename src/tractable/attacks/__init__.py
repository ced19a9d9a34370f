"""Adversarial attacks: small changes of inputs that lead to wrong predictions.

``fgsm``, ``pgd`` and ``robustness`` use the gradient of the prediction of any learner;
``tagi_attack`` observes a wrong label at the output of a TAGI classifier and infers the image.
"""

from tractable.attacks.budget import Budget, Norm
from tractable.attacks.gradient import fgsm, loss_gradient, pgd, robustness
from tractable.attacks.inference import AttackResult, tagi_attack

__all__ = [
    "AttackResult",
    "Budget",
    "Norm",
    "fgsm",
    "loss_gradient",
    "pgd",
    "robustness",
    "tagi_attack",
]
