"""A scratch copy of the source tree, and the tests run in it with one file changed.

Every test run is a forked child of a process that has imported torch and pytest but not the
package, so that a run costs what its tests cost.  Where the package is imported already, as in a
test, the child is a new process.  The checkout is only read.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
COPIED = ("src", "tests", "studies", "docs", "examples", "benchmarks")
PACKAGE = Path("src") / "tractable"
SECONDS_PER_TEST = 120
"""A single test that takes longer is stopped and counts as failed: the change made it endless."""
PLAIN = (
    *("-q", "-n", "0", "-p", "no:cacheprovider", "--tb=no"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # of what is imported before
)
"""Arguments of every pytest run."""
PRELOADED = ("torch.testing", "scipy.stats", "sklearn.model_selection", "pandas")


@dataclass(frozen=True)
class Run:
    """Result of one pytest run.

    Attributes:
        failed: identifiers of the tests that failed, or of the files that could not be collected.
        seconds: duration.
        complete: whether the run ended before its time limit.
        durations: seconds by test, of the tests that ran.
    """

    failed: list[str]
    seconds: float
    complete: bool
    durations: dict[str, float] = field(default_factory=dict)


class Recorder:
    """A pytest plugin that records failures and durations, and stops tests that do not end."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.durations: dict[str, float] = {}

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(f"{report.nodeid} (collection)")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)
        spent = self.durations.get(report.nodeid, 0.0)
        self.durations[report.nodeid] = round(spent + report.duration, 3)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> Iterator[None]:
        signal.signal(signal.SIGALRM, _stop)
        signal.alarm(SECONDS_PER_TEST)
        yield
        signal.alarm(0)


def _stop(number: int, frame: Any) -> None:
    raise TimeoutError(f"the test took longer than {SECONDS_PER_TEST} seconds")


class Scratch:
    """A copy of the checkout in which files can be changed.

    Args:
        folder: empty folder for the copy.
        source: checkout to copy from.
    """

    def __init__(self, folder: Path, source: Path = ROOT) -> None:
        self.folder = folder
        ignored = shutil.ignore_patterns(".hypothesis", "*.egg-info", "build", "dist", "site")
        for name in COPIED:
            if (source / name).is_dir():
                shutil.copytree(source / name, folder / name, ignore=ignored)
        for path in source.iterdir():
            if path.is_file() and path.name != ".git":
                shutil.copy2(path, folder / path.name)

    def text(self, file: str) -> str:
        """Return the text of a file of the package, named relative to the package."""
        return (self.folder / PACKAGE / file).read_text()

    @contextlib.contextmanager
    def changed(self, file: str, text: str) -> Iterator[None]:
        """Replace a file of the package for the duration of a block."""
        path = self.folder / PACKAGE / file
        before = path.read_bytes()
        try:
            path.write_text(text)
            _forget_bytecode(path)
            yield
        finally:
            path.write_bytes(before)
            _forget_bytecode(path)

    def compile_kernel(self) -> None:
        """Compile the kernel of the copy in place.

        Raises:
            RuntimeError: the compiler failed, or pybind11 is missing.
        """
        command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode != 0 or "error:" in done.stderr:
            raise RuntimeError(f"the kernel cannot be compiled: {done.stderr[-2000:]}")

    def pytest(
        self,
        tests: Sequence[str],
        seconds: float,
        first_failure: bool = True,
        options: Sequence[str] = (),
    ) -> Run:
        """Run tests in the copy, until the first failure or for at most ``seconds``.

        Args:
            tests: files, folders or test identifiers, relative to the copy.
            seconds: limit of the whole run.
            first_failure: whether to stop at the first failure.
            options: further arguments of pytest.
        """
        words = [*PLAIN, *(["-x"] if first_failure else []), *options, *tests]
        started = time.monotonic()
        found, complete, code = self.call(_record, words, seconds=seconds)
        spent = round(time.monotonic() - started, 1)
        if found is not None:
            return Run(found["failed"], spent, complete, found["durations"])
        if complete and code >= 0:
            raise RuntimeError(f"the tests could not be run: {tests}")
        return Run([f"signal {-code}"] if complete else [], spent, complete)

    def call(
        self, function: Callable[..., Any], *arguments: Any, seconds: float | None = None
    ) -> tuple[Any, bool, int]:
        """Call a function in a child process that imports the package from the copy.

        Args:
            function: must be importable, and return what JSON can hold.
            arguments: of the function.
            seconds: time limit.

        Returns:
            The answer or None, whether the child ended in time, and its exit code.
        """
        imported = "tractable" in sys.modules
        for name in () if imported else PRELOADED:
            importlib.import_module(name)
        with tempfile.NamedTemporaryFile(suffix=".json") as report:
            child = multiprocessing.get_context("spawn" if imported else "fork").Process(
                target=_answer, args=(self.folder, Path(report.name), function, arguments)
            )
            child.start()
            try:
                child.join(seconds)
            finally:  # also where this process is interrupted
                complete = not child.is_alive()
                if not complete:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(child.pid or 0, signal.SIGKILL)
                    child.join()
            said = report.read()
        return (json.loads(said) if said else None), complete, child.exitcode or 0

    def check_collection(self, tests: Sequence[str]) -> None:
        """Raise ``RuntimeError`` if tests of the unchanged copy cannot be collected."""
        failed = self.pytest(tests, 600, options=["--collect-only"]).failed
        if failed:
            raise RuntimeError(f"the unchanged copy has {failed}")


def _answer(
    folder: Path, report: Path, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    """Call a function with the copy in place of the checkout, and write what it returns."""
    assert not any(name.split(".")[0] == "tractable" for name in sys.modules)
    os.setsid()  # so that what it starts can be stopped with it
    os.chdir(folder)
    paths = [str(folder / "src"), str(folder / "studies")]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    own = str(ROOT)
    kept = [p for p in sys.path if p and (not p.startswith(own) or "site-packages" in p)]
    sys.path[:] = [*paths, *kept]
    for name in [name for name in sys.modules if name.split(".")[0] == "tests"]:
        if name != __name__:
            del sys.modules[name]
    sys.dont_write_bytecode = True
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        answer = function(*arguments)
    if "tractable" in sys.modules:
        file = str(sys.modules["tractable"].__file__)
        assert str(folder) in file, f"tested {file}, not {folder}"
    report.write_text(json.dumps(answer))


def _record(words: list[str]) -> dict[str, Any]:
    """Run pytest and return the tests that failed and the duration of all."""
    recorder = Recorder()
    code = int(pytest.main(words, plugins=[recorder]))
    if code > 1 and not recorder.failed:  # pytest itself failed, as where a conftest cannot import
        recorder.failed.append(f"exit code {code}")
    return {"failed": recorder.failed, "durations": recorder.durations}


def _forget_bytecode(path: Path) -> None:
    """Remove the compiled form, which is recognized by size and whole seconds only."""
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        compiled.unlink()


def commit() -> str:
    """Return the checked-out commit, marked if source or tests differ from it."""
    git = ["git", "-C", str(ROOT)]
    found = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    written = [":(exclude)tests/*/results.json", ":(exclude)tests/*/README.md"]
    changed = subprocess.run(
        [*git, "status", "--porcelain", "--untracked-files=no", "--", "src", "tests", *written],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return found.stdout.strip() + ("-modified" if changed.stdout.strip() else "")
