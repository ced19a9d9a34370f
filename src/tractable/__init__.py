"""Bayesian neural networks on ordinary PyTorch modules.

Names are imported when they are first used, so that ``tractable --help`` does not import torch.
"""

import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tractable import (
        attacks,
        diagnostics,
        errors,
        forecast,
        generative,
        graphs,
        infer,
        likelihoods,
        metrics,
        plots,
        priors,
        rules,
    )
    from tractable.errors import NoMomentRule
    from tractable.gaussian import Gaussian, moment_rule
    from tractable.learners import (
        TAGI,
        Backprop,
        BayesByBackprop,
        Callback,
        Checkpoint,
        EarlyStopping,
        Ensemble,
        Laplace,
        Learner,
        Output,
        coverage,
    )
    from tractable.posterior import Posterior
    from tractable.predictive import NormalPredictive, Predictive
    from tractable.rules.activation import activation_moments, activation_rule

__all__ = [
    "TAGI",
    "Backprop",
    "BayesByBackprop",
    "Callback",
    "Checkpoint",
    "EarlyStopping",
    "Ensemble",
    "Gaussian",
    "Laplace",
    "Learner",
    "NoMomentRule",
    "NormalPredictive",
    "Output",
    "Posterior",
    "Predictive",
    "activation_moments",
    "activation_rule",
    "attacks",
    "coverage",
    "diagnostics",
    "errors",
    "forecast",
    "generative",
    "graphs",
    "infer",
    "likelihoods",
    "metrics",
    "moment_rule",
    "plots",
    "priors",
    "rules",
]

_HOMES = {
    "errors": ("NoMomentRule",),
    "gaussian": ("Gaussian", "moment_rule"),
    "learners": (
        "TAGI", "Backprop", "BayesByBackprop", "Callback", "Checkpoint", "EarlyStopping",
        "Ensemble", "Laplace", "Learner", "Output", "coverage",
    ),
    "posterior": ("Posterior",),
    "predictive": ("NormalPredictive", "Predictive"),
    "rules": ("activation_moments", "activation_rule"),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import and return a public name or a module of the package; some modules need an extra."""
    if name == "__version__":
        from importlib.metadata import version

        return version("tractable")
    if name in _HOME_OF:
        found = getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
        globals()[name] = found
        return found
    if name.startswith("_") or find_spec(f"{__name__}.{name}") is None:
        from tractable.errors import did_you_mean

        hint = "" if name.startswith("_") else did_you_mean(name, __all__)
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(f"{message}.{hint}" if hint else message)
    return importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
