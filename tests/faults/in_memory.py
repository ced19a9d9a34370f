"""Plant faults in functions that are already imported, within one pytest session.

The tests named with the faults are collected once, and each fault is planted in a forked child.
Faults that change what a module executes when it is imported cannot be planted so.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from tests.faults.catalog import Fault
from tests.faults.trial import PLAIN
from tests.mutants import patching
from tests.mutants.session import fails, in_child, prepared


@dataclass
class Planted:
    """A pytest plugin that plants faults in place of running the tests.

    Attributes:
        package: folder of the package, in the copy.
        faults: the faults.
        texts: sources by file.
        limit: seconds for each fault.
        log: file to which every result is appended at once.
        found: by the name of the fault, the test that found it and the seconds; None in place of
            the test if none did.
    """

    package: Path
    faults: list[Fault]
    texts: dict[str, str]
    limit: float
    log: Path | None = None
    found: dict[str, tuple[str | None, float]] = field(default_factory=dict)
    items: list[Any] = field(default_factory=list)
    functions: dict[str, list[FunctionType]] = field(default_factory=dict)

    def pytest_runtestloop(self, session: Any) -> bool:
        """Plant every fault that can be planted in memory."""
        if session.testsfailed:
            raise session.Failed("tests could not be collected")
        self.items = session.items
        self.functions = prepared(self.items, self.package)
        for fault in self.faults:
            self.plant(fault)
        self.trust()
        return True

    def plant(self, fault: Fault) -> None:
        """Plant one fault and run the tests named with it until one fails."""
        path, text = str(self.package / fault.file), self.texts[fault.file]
        changed = patching.replacements(path, text, text.replace(fault.old, fault.new))
        if not changed:
            return
        files = [f"tests/{name}" for name in fault.tests.split()]
        items = [item for file in files for item in self.items if item.nodeid.startswith(file)]

        def work() -> str | None:
            assert patching.apply(self.functions[path], changed), (
                f"{fault.name}: no function was changed"
            )
            return next((item.nodeid for item in items if fails(item)), None)

        start = time.monotonic()
        answer = in_child(work, self.limit)
        test = f"signal {answer.signal}" if answer.signal else answer.value
        self.found[fault.name] = test, round(time.monotonic() - start, 1)
        if self.log is not None:
            with self.log.open("a") as file:
                file.write(json.dumps([fault.name, *self.found[fault.name]]) + "\n")

    def trust(self) -> None:
        """Forget faults that were found by tests that fail without them."""
        named = {test for test, _ in self.found.values()}
        items = [item for item in self.items if item.nodeid in named]
        answer = in_child(lambda: [item.nodeid for item in items if fails(item)], 600)
        for name, (test, seconds) in self.found.items():
            if test in (answer.value or []):
                self.found[name] = None, seconds


def main(session: Planted) -> dict[str, Any]:
    """Collect the tests named with the faults, plant the faults and return what was found."""
    named = (name for fault in session.faults for name in fault.tests.split())
    tests = sorted({f"tests/{name.split('::')[0]}" for name in named})
    code = pytest.main([*PLAIN, *tests], plugins=[session])
    if not session.items:
        raise RuntimeError(f"the tests could not be collected: pytest returned {int(code)}")
    return session.found
