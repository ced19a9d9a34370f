"""One pytest session that collects tests once and judges every mutant in a forked child."""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
import torch
from _pytest.runner import runtestprotocol

from tests.faults.trial import PLAIN
from tests.mutants import patching
from tests.mutants.executed import Executed, Tracer
from tests.mutants.operators import Mutant

SECONDS_PER_TEST = 120
SECONDS_PER_MUTANT = 300


@dataclass(frozen=True)
class Answer:
    """What a forked child returned.

    Attributes:
        value: answer, or None.
        complete: whether the child ended in time.
        signal: number of the signal that ended it, or 0.
    """

    value: Any
    complete: bool = True
    signal: int = 0


def in_child(work: Callable[[], Any], seconds: float) -> Answer:
    """Run a function in a forked child for at most so many seconds.

    Raises:
        RuntimeError: the function raised.
    """
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        child = os.fork()
        if child == 0:
            gc.disable()
            try:
                said = {"value": work()}
            except BaseException:
                said = {"error": traceback.format_exc()}
            Path(file.name).write_text(json.dumps(said))
            os._exit(0)
        end = time.monotonic() + seconds
        while (found := os.waitpid(child, os.WNOHANG)) == (0, 0):
            if time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return Answer(None, complete=False)
            time.sleep(0.02)
        text = file.read()
    if os.WIFSIGNALED(found[1]):
        return Answer(None, signal=os.WTERMSIG(found[1]))
    answer = json.loads(text)
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return Answer(answer["value"])


def fails(item: Any) -> bool:
    """Run one test with all its fixtures; return whether it failed."""
    signal.alarm(SECONDS_PER_TEST)
    try:
        reports = runtestprotocol(item, nextitem=None, log=False)
    finally:
        signal.alarm(0)
    return any(report.failed for report in reports)


def stop(number: int, frame: Any) -> None:
    """Handle the alarm of a test that takes too long."""
    raise TimeoutError(f"the test took longer than {SECONDS_PER_TEST} seconds")


def prepared(items: list[Any], package: Path) -> dict[str, list[FunctionType]]:
    """Return the functions of the package by file, ready for children that replace their code.

    One test is run here, because torch imports much of itself when it is first used, which every
    child would repeat.
    """
    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, stop)
    fails(items[0])
    folder = f"{package}/"
    patching.clear_caches(folder)
    found = patching.functions_in(folder)
    gc.collect()
    gc.freeze()  # so that children share memory with this process
    return found


@dataclass
class Session:
    """A pytest plugin that judges mutants in place of running the tests.

    Attributes:
        package: folder of the package.
        subpackage: its part that is mutated.
        mutants: in the order in which they are judged.
        texts: sources by file.
        end: time at which to stop.
        number: largest number of mutants.
        seed: seed of the order in which tests are traced.
        log: file to which every result is appended at once, as a line of JSON.
        results: of the mutants that were judged.
    """

    package: Path
    subpackage: str
    mutants: list[Mutant]
    texts: dict[str, str]
    end: float
    number: int
    seed: int
    log: Path | None = None
    results: list[dict[str, Any]] = field(default_factory=list)
    items: list[Any] = field(default_factory=list)
    known: Counter[int] = field(default_factory=Counter)
    functions: dict[str, list[FunctionType]] = field(default_factory=dict)

    def pytest_runtestloop(self, session: Any) -> bool:
        """Trace the tests, then judge mutants."""
        if session.testsfailed:
            raise session.Failed("tests could not be collected")
        self.items = session.items
        self.functions = prepared(self.items, self.package)
        executed = self.trace()
        for mutant in self.mutants:
            if time.monotonic() > self.end or len(self.results) >= self.number:
                break
            self.judge(mutant, executed)
        self.trust()
        return True

    def trace(self) -> Executed:
        """Run every test once, for at most half of the time, and return what it executes."""
        order = list(range(len(self.items)))
        random.Random(self.seed).shuffle(order)
        order.sort(key=lambda k: str(self.items[k].path) in self.slow_files())
        start, limit = time.monotonic(), (self.end - time.monotonic()) / 2

        def work() -> list[Any]:
            tracer, found = Tracer(self.package, self.subpackage), []
            for test in order:
                begun = time.monotonic()
                if begun - start > limit:
                    break
                with tracer as lines:
                    failed = fails(self.items[test])
                found.append((test, sorted(lines), time.monotonic() - begun, failed))
            return found

        executed = Executed()
        for test, lines, seconds, failed in (
            in_child(work, limit + 2 * SECONDS_PER_TEST).value or []
        ):
            executed.add(test, {(file, line) for file, line in lines}, seconds, failed)
        executed.complete = len(executed.seconds) == len(self.items)
        self.note({
            "traced": len(executed.seconds), "of": len(self.items),
            "seconds": round(time.monotonic() - start, 1),
            "failed": [self.items[test].nodeid for test in executed.failed],
        })  # fmt: skip
        return executed

    def slow_files(self) -> set[str]:
        """Return files whose tests are marked as slow; they are traced last."""
        return {str(item.path) for item in self.items if item.get_closest_marker("slow")}

    def judge(self, mutant: Mutant, executed: Executed) -> None:
        """Run the tests that execute a mutant, those that noticed others first."""
        text = self.texts[mutant.file]
        path = str(self.package / mutant.file)
        changed = patching.replacements(path, text, mutant.apply(text))
        tests = executed.of(mutant.file, mutant.line, mutant.last)
        if changed is None or (not tests and not executed.complete):
            return  # executed by the import, or by tests that were not traced
        before, after = mutant.shown(text)
        result: dict[str, Any] = {
            "file": mutant.file, "line": mutant.line, "kind": mutant.kind, "before": before,
            "after": after, "noticed_by": None, "tests": len(tests), "seconds": 0.0,
        }  # fmt: skip
        tests.sort(key=lambda test: -self.known[test])

        def work() -> int | None:
            patching.apply(self.functions.get(path, []), changed)
            return next((test for test in tests if fails(self.items[test])), None)

        start = time.monotonic()
        answer = in_child(work, SECONDS_PER_MUTANT)
        if answer.signal:
            result["noticed_by"] = f"signal {answer.signal}"
        elif answer.value is not None:
            self.known[answer.value] += 1
            result["noticed_by"] = self.items[answer.value].nodeid
        elif not answer.complete:
            result["incomplete"] = True
        result["seconds"] = round(time.monotonic() - start, 1)
        self.results.append(result)
        self.note(result)

    def note(self, what: dict[str, Any]) -> None:
        """Write a line of the log."""
        if self.log is not None:
            with self.log.open("a") as file:
                file.write(json.dumps(what) + "\n")

    def trust(self) -> None:
        """Forget what tests noticed that fail now without a mutant."""
        tests = sorted(self.known)

        def work() -> list[str]:
            return [self.items[t].nodeid for t in tests if fails(self.items[t])]

        failing = in_child(work, 600).value or []
        for result in self.results:
            if result["noticed_by"] in failing:
                result.update(noticed_by=None, fails_without_mutant=True)


def main(session: Session, tests: list[str]) -> list[dict[str, Any]]:
    """Collect tests, judge the mutants of a session and return the results."""
    code = pytest.main([*PLAIN, *tests], plugins=[session])
    if not session.items:
        raise RuntimeError(f"the tests could not be collected: pytest returned {int(code)}")
    return session.results
