"""Every exception that the package defines is a ``TractableError``."""

import importlib
import inspect
import pkgutil

import tractable
from tractable.errors import TractableError

#: Simulates a killed process in the conformance tests, so it must not be caught.
EXEMPT = {"tractable.testing.learner_persistence.SimulatedCrash"}


def exceptions() -> dict[str, type[BaseException]]:
    """The exceptions that modules of the package define, warnings aside."""
    found = {}
    for module in pkgutil.walk_packages(tractable.__path__, "tractable."):
        if module.name.endswith("__main__"):
            continue
        for value in vars(importlib.import_module(module.name)).values():
            own = inspect.isclass(value) and value.__module__.startswith("tractable")
            if own and issubclass(value, BaseException) and not issubclass(value, Warning):
                found[f"{value.__module__}.{value.__qualname__}"] = value
    return found


def test_every_exception_is_a_tractable_error():
    found = exceptions()
    others = {name for name, kind in found.items() if not issubclass(kind, TractableError)}
    assert others == EXEMPT


def test_every_exception_has_a_name_of_its_own():
    names = [kind.__name__ for kind in exceptions().values()]
    assert len(names) == len(set(names))
