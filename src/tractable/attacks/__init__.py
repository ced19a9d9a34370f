"""Attacks: inputs changed a little, so as to be misjudged.

``fgsm``, ``pgd`` and ``robustness`` follow the gradient of what any learner predicts;
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
