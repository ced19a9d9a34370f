"""Likelihoods that are made of others: their buffers, and their parts as JSON values and back."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, cast

from torch import Tensor, nn

from tractable.likelihoods.base import Likelihood


class Nested(Likelihood):
    """A likelihood of several others.

    Args:
        parts: the others, each of which is copied.
    """

    def __init__(self, parts: Sequence[Likelihood]) -> None:
        super().__init__()
        self.parts = nn.ModuleList([copy.deepcopy(part) for part in parts])

    @property
    def each(self) -> list[Likelihood]:
        """The parts."""
        return cast("list[Likelihood]", list(self.parts))

    def set_buffers(self, values: dict[str, Tensor]) -> None:
        """See ``Likelihood``; names lead to the parts."""
        for name, value in values.items():
            _, k, rest = name.split(".", 2)
            self.each[int(k)].set_buffers({rest: value})

    def check_buffers(self, values: dict[str, Tensor]) -> None:
        """See ``Likelihood``."""
        for k, part in enumerate(self.each):
            start = f"parts.{k}."
            own = {n.removeprefix(start): t for n, t in values.items() if n.startswith(start)}
            part.check_buffers(own)


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
