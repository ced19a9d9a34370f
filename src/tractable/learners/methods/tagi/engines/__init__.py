"""Engines of TAGI: torch, a compiled graph, or the native kernel."""

from tractable.learners.methods.tagi.engines.auto import choose_engine
from tractable.learners.methods.tagi.engines.base import (
    ENGINES,
    Engine,
    EngineName,
    Floats,
    Slopes,
    Snapshot,
    TAGIState,
)
from tractable.learners.methods.tagi.engines.eager import TorchEngine

__all__ = [
    "ENGINES",
    "Engine",
    "EngineName",
    "Floats",
    "Slopes",
    "Snapshot",
    "TAGIState",
    "TorchEngine",
    "choose_engine",
]
