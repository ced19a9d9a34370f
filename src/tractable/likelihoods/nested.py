"""Likelihoods that are made of others, as JSON values and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tractable.likelihoods.base import Likelihood


def described(part: Likelihood) -> dict[str, Any]:
    """A likelihood of the library as its name and its arguments."""
    return {"name": type(part).__name__, **part.config()}


def made(part: Likelihood | Mapping[str, Any]) -> Likelihood:
    """A likelihood, given itself or as ``described`` gave it."""
    from tractable import likelihoods

    if isinstance(part, Likelihood):
        return part
    if not isinstance(part, Mapping):
        raise TypeError(f"a part must be one of tractable.likelihoods, got {type(part).__name__}")
    arguments = dict(part)
    name = str(arguments.pop("name", None))
    kind = getattr(likelihoods, name, None)
    if not (isinstance(kind, type) and issubclass(kind, Likelihood)):
        raise ValueError(f"unknown likelihood {name!r}")
    found: Likelihood = kind(**arguments)
    return found
