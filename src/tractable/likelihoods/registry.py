"""The likelihoods of the library, once: for estimators, the command line and the documentation.

A new likelihood of the library has one entry in ``REGISTRY``; ``register`` adds one at runtime.
From it follow the names that the regressors and
``tractable fit --likelihood`` accept, the help of the command line, and the lines that the
reference page must have (``tests/likelihoods/test_registry.py`` compares them).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tractable.likelihoods.base import Likelihood
from tractable.likelihoods.bernoulli import Bernoulli
from tractable.likelihoods.categorical import Categorical
from tractable.likelihoods.from_distribution import FromDistribution
from tractable.likelihoods.heteroscedastic import HeteroscedasticNormal
from tractable.likelihoods.joint import Joint
from tractable.likelihoods.laplace import Laplace
from tractable.likelihoods.log_density import LogDensity
from tractable.likelihoods.mixture import Mixture
from tractable.likelihoods.multivariate_normal import MultivariateNormal
from tractable.likelihoods.negative_binomial import NegativeBinomial
from tractable.likelihoods.normal import Normal
from tractable.likelihoods.ordinal import Ordinal
from tractable.likelihoods.per_step import PerStep
from tractable.likelihoods.poisson import Poisson
from tractable.likelihoods.softmax import Softmax
from tractable.likelihoods.student_t import StudentT
from tractable.likelihoods.von_mises import VonMises

Group = Literal[
    "Continuous targets",
    "Counts, ordinal classes and angles",
    "Classification",
    "Joint and custom likelihoods",
]

MIXTURE_COMPONENTS = 5
"""Components of the mixture that estimators offer by name."""


@dataclass(frozen=True)
class RegressionLikelihood:
    """How a regressor uses a likelihood by name.

    Attributes:
        name: name for the argument ``likelihood`` of estimators and ``tractable fit``.
        factory: returns the likelihood for a number of targets per row.
        n_outputs: returns the number of network outputs for a number of targets per row.
        is_standardized: whether targets are learned in units of their standard deviation.
    """

    name: str
    factory: Callable[[int], Likelihood]
    n_outputs: Callable[[int], int] = lambda n_targets: n_targets
    is_standardized: bool = True


@dataclass(frozen=True)
class Entry:
    """A likelihood of the library.

    Attributes:
        likelihood: its class.
        group: section of the reference page.
        targets: what the targets are, in a few words.
        regression: how regressors use it; None if they do not offer it by name.
        is_compiled: whether the compiled kernel of TAGI supports it; a step with any other
            likelihood takes about twenty times as long.
    """

    likelihood: type[Likelihood]
    group: Group
    targets: str
    regression: RegressionLikelihood | None = None
    is_compiled: bool = False


_NUMBERS: Group = "Continuous targets"
_OTHER: Group = "Counts, ordinal classes and angles"
_LABELS: Group = "Classification"
_CUSTOM: Group = "Joint and custom likelihoods"

REGISTRY: list[Entry] = [
    Entry(
        Normal, _NUMBERS, "numbers with the same noise everywhere",
        RegressionLikelihood("normal", lambda n: Normal(outputs=n)), is_compiled=True,
    ),
    Entry(
        HeteroscedasticNormal, _NUMBERS, "numbers with a noise that depends on the inputs",
        RegressionLikelihood("heteroscedastic", lambda n: HeteroscedasticNormal(), lambda n: 2 * n),
        is_compiled=True,
    ),
    Entry(
        Laplace, _NUMBERS, "numbers with outliers",
        RegressionLikelihood("laplace", lambda n: Laplace(outputs=n)),
    ),
    Entry(
        StudentT, _NUMBERS, "numbers with extreme outliers",
        RegressionLikelihood("student_t", lambda n: StudentT(outputs=n)),
    ),
    Entry(MultivariateNormal, _NUMBERS, "several numbers with correlated noise"),
    Entry(
        Mixture, _NUMBERS, "numbers with several peaks",
        RegressionLikelihood(
            "mixture", lambda n: Mixture(HeteroscedasticNormal(), MIXTURE_COMPONENTS),
            lambda n: MIXTURE_COMPONENTS * (1 + 2 * n),
        ),
    ),
    Entry(
        Poisson, _OTHER, "counts whose variance is their mean",
        RegressionLikelihood("poisson", lambda n: Poisson(), is_standardized=False),
        is_compiled=True,
    ),
    Entry(
        NegativeBinomial, _OTHER, "counts with more variance",
        RegressionLikelihood(
            "negative_binomial", lambda n: NegativeBinomial(outputs=n), is_standardized=False
        ),
        is_compiled=True,
    ),
    Entry(Ordinal, _OTHER, "classes with an order"),
    Entry(
        VonMises, _OTHER, "angles in radians",
        RegressionLikelihood("von_mises", lambda n: VonMises(outputs=n), is_standardized=False),
    ),
    Entry(Bernoulli, _LABELS, "two classes, or several binary labels"),
    Entry(Categorical, _LABELS, "several classes", is_compiled=True),
    Entry(Softmax, _LABELS, "several classes"),
    Entry(Joint, _CUSTOM, "targets of different kinds, some of which may be missing"),
    Entry(PerStep, _CUSTOM, "targets of every step of a sequence"),
    Entry(FromDistribution, _CUSTOM, "any distribution of torch.distributions"),
    Entry(LogDensity, _CUSTOM, "none: the network returns the log density of its inputs"),
]  # fmt: skip

REGRESSION_LIKELIHOODS: dict[str, RegressionLikelihood] = {
    entry.regression.name: entry.regression for entry in REGISTRY if entry.regression is not None
}
"""Likelihoods that regressors offer, by name."""

COMPILED: tuple[type[Likelihood], ...] = tuple(
    entry.likelihood for entry in REGISTRY if entry.is_compiled
)
"""Likelihoods that the compiled kernel of TAGI supports."""


def register(entry: Entry) -> None:
    """Add a likelihood from outside of the library, before ``tractable.sklearn`` is imported.

    Args:
        entry: the likelihood; estimators and the command line offer it if it has ``regression``.

    Raises:
        ValueError: there is a likelihood with that name.
    """
    target = entry.regression
    if target is not None and target.name in REGRESSION_LIKELIHOODS:
        raise ValueError(f"there is a likelihood {target.name!r} already: choose another name")
    REGISTRY.append(entry)
    if target is not None:
        REGRESSION_LIKELIHOODS[target.name] = target


def describe_regression_targets() -> str:
    """Return one line of text that lists the names for regressors and what their targets are."""
    lines = [
        f"{entry.regression.name} ({entry.targets})"
        for entry in REGISTRY
        if entry.regression is not None
    ]
    return ", ".join(lines)
