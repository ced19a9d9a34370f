"""From a dotted name on a page to the object it names."""

import importlib
from typing import Any


def resolve(identifier: str) -> Any:
    """The object of a dotted name, importing as much of it as is a module."""
    parts = identifier.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            thing = getattr(thing, part)
        return thing
    raise ModuleNotFoundError(identifier)
