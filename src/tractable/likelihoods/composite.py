"""Likelihoods that consist of others: their buffers, and their parts as JSON values and back."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, cast

from torch import Tensor, nn

from tractable.likelihoods.base import Likelihood


class Composite(Likelihood):
    """A likelihood that consists of several others.

    Args:
        parts: the others; they are copied.
    """

    def __init__(self, parts: Sequence[Likelihood]) -> None:
        super().__init__()
        self.parts = nn.ModuleList([copy.deepcopy(part) for part in parts])

    @property
    def part_list(self) -> list[Likelihood]:
        """The parts as a list."""
        return cast("list[Likelihood]", list(self.parts))

    @property
    def noise(self) -> dict[str, Tensor]:
        """Noise parameters of each part, such as ``{"0.sigma": ...}`` for the first."""
        return {
            f"{k}.{name}": value
            for k, part in enumerate(self.part_list)
            for name, value in part.noise.items()
        }

    def set_buffers(self, values: dict[str, Tensor]) -> None:
        """Set buffers of the parts; names begin with ``parts.0.`` and so on."""
        for name, value in values.items():
            _, k, rest = name.split(".", 2)
            self.part_list[int(k)].set_buffers({rest: value})

    def check_buffers(self, values: dict[str, Tensor]) -> None:
        """Check the buffers of each part."""
        for k, part in enumerate(self.part_list):
            start = f"parts.{k}."
            own = {n.removeprefix(start): t for n, t in values.items() if n.startswith(start)}
            part.check_buffers(own)


_STORED_WORDS: dict[str, tuple[str, dict[str, str]]] = {
    "Family": ("FromDistribution", {}),
    "IncompleteNormal": ("Normal", {}),
    "Returned": ("LogDensity", {}),
    "VonMises": ("VonMises", {"kappa": "concentration"}),
    "NegativeBinomial": ("NegativeBinomial", {"dispersion": "total_count"}),
}
"""Class names in files written before the renaming: class and arguments today."""


def current_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored configuration with the names of today, of its parts as well."""

    def current(value: Any) -> Any:
        if isinstance(value, list):
            return [current(part) for part in value]
        return current_config(value) if isinstance(value, Mapping) else value

    name = config.get("name")
    new, arguments = _STORED_WORDS.get(str(name), (name, {}))
    found = {arguments.get(word, word): current(value) for word, value in config.items()}
    if name == "IncompleteNormal":
        found["missing"] = True
    return {**found, "name": new} if "name" in found else found


def to_config(part: Likelihood) -> dict[str, Any]:
    """Return a likelihood of the library as its name and its arguments."""
    return {"name": type(part).__name__, **part.config()}


def from_config(part: Likelihood | Mapping[str, Any]) -> Likelihood:
    """Return a likelihood, given itself or as ``to_config`` describes it."""
    from tractable import likelihoods

    if isinstance(part, Likelihood):
        return part
    if not isinstance(part, Mapping):
        raise TypeError(f"a part must be one of tractable.likelihoods, got {type(part).__name__}")
    arguments = current_config(part)
    name = str(arguments.pop("name", None))
    kind = getattr(likelihoods, name, None)
    if not (isinstance(kind, type) and issubclass(kind, Likelihood)):
        raise ValueError(f"unknown likelihood {name!r}")
    found: Likelihood = kind(**arguments)
    return found
