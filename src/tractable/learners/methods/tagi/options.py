"""Options of TAGI, with their defaults and the data on which the defaults were chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tractable.learners.methods.tagi.batch_rule import BATCH_RULES, BatchRule
from tractable.learners.methods.tagi.engines import EngineName
from tractable.learners.methods.tagi.initialization import INITS, Init
from tractable.rules.activation import MODES, Mode


@dataclass(frozen=True, kw_only=True)
class TAGIOptions:
    """Options of ``TAGI``; its docstring describes them."""

    init: Init = "lecun"
    """As published."""
    gain: float | None = None
    """Chosen by ``initialization.default_prior_scale``, on digits and the UCI data sets."""
    prior_variance_ratio: float | None = None
    """Chosen like ``gain``."""
    scale_by_layer_size: bool | None = None
    """Chosen like ``gain``."""
    residual_gain: float | None = None
    """Chosen like ``gain``."""
    reinit: Sequence[str] = ()
    prior: Any = None
    prior_scale: float = 1.0
    moments: Mode = "auto"
    """The tangent, except for functions whose tangent is unbounded (``docs/theory.md``)."""
    batch_rule: BatchRule = "damped"
    epoch_forgetting: float = 0.3
    """See the section on several epochs in ``docs/theory.md``."""
    compile: bool = False
    engine: EngineName = "auto"
    robust: bool = True

    def __post_init__(self) -> None:
        if self.moments not in MODES:
            raise ValueError(f"moments must be one of {', '.join(MODES)}; got {self.moments!r}")
        if self.batch_rule not in BATCH_RULES:
            raise ValueError(
                f"batch_rule must be one of {', '.join(BATCH_RULES)}; got {self.batch_rule!r}"
            )
        if not 0 <= self.epoch_forgetting <= 1:
            raise ValueError(
                f"epoch_forgetting must lie between 0 and 1, got {self.epoch_forgetting}"
            )
        if self.init not in INITS:
            raise ValueError(f"init must be one of {', '.join(INITS)}; got {self.init!r}")
        self._check_reinit()

    def _check_reinit(self) -> None:
        if isinstance(self.reinit, str):
            raise TypeError(f"reinit must be a list of names, such as [{self.reinit!r}]")
        if self.prior is not None and self.init == "net":
            raise ValueError("init='net' and prior= both give initial weights: pass only one")
        if self.reinit and self.init != "net" and self.prior is None:
            raise ValueError(
                f"reinit={list(self.reinit)} requires init='net' or prior=: with "
                f"init={self.init!r} all modules are already initialized at random"
            )
