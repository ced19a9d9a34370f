"""Races of several threads on one kernel; run separately, since a fault ends the process.

``python -m tests.native.races labels`` exits with 0 and a line of results, or
fails.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tractable import native

FAR = 10**13  # an index outside of all arrays
PATHS = np.array([[-1, -1], [-1, 1], [1, 0]], dtype=np.int8)


def kernel(tree: bool) -> Any:
    """Return a network of 3 inputs and 2 outputs, or one output for derivatives."""
    compiled = native.kernel()
    assert compiled is not None
    return compiled.Learner(
        before=[],
        layers=[(3, 20, True, [("relu", 0.0)]), (20, 2 if tree else 1, True, [])],
        likelihood="probit_tree" if tree else "inferred",
        tree_noise=1.0,
        paths=PATHS if tree else None,
        rule="damped",
    )


@dataclass
class Problem:
    """Parameters and data of a network."""

    rows: int
    tree: bool = True
    seed: int = 0
    loc: NDArray[np.float32] = field(init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        outputs = 2 if self.tree else 1
        size = 80 + 21 * outputs
        self.loc = rng.normal(0, 0.4, size).astype(np.float32)
        self.variance = np.full(size, 0.05, dtype=np.float32)
        noises = 0 if self.tree else outputs
        self.noise = np.full(noises, 0.3), np.full(noises, 0.1)
        self.x = rng.normal(size=(self.rows, 3)).astype(np.float32)
        self.y = None if self.tree else rng.normal(size=(self.rows, 1)).astype(np.float32)
        self.labels = rng.integers(0, 3, self.rows) if self.tree else None
        self.order = rng.permutation(self.rows)
        self.priors = [1.0] * 4
        self.normals = rng.normal(size=10_000).astype(np.float32)

    def learn(
        self,
        learner: Any,
        batch_size: int = 1,
        progress: Callable[[int], object] | None = None,
    ) -> int:
        """Run an epoch."""
        return int(
            learner.learn(
                self.loc,
                self.variance,
                self.priors,
                *self.noise,
                self.x,
                None,
                self.y,
                None,
                self.labels,
                self.order,
                batch_size,
                0.1,
                progress,
            )
        )

    def state(self) -> bytes:
        """Return everything that is learned."""
        return b"".join(part.tobytes() for part in (self.loc, self.variance, *self.noise))


def spoil(array: NDArray[np.int64], begun: threading.Event, written: threading.Event) -> None:
    """Write invalid values into the array shortly after the start."""
    begun.wait()
    time.sleep(0.01)
    array.fill(FAR)
    written.set()


def indices(name: str, rows: int = 150_000, attempts: int = 20) -> str:
    """Write invalid labels (or order) from another thread during an epoch."""
    learner, expected = kernel(tree=True), Problem(rows)
    expected.learn(learner)
    for attempt in range(attempts):
        problem = Problem(rows)
        array: NDArray[np.int64] = getattr(problem, name)
        begun, written = threading.Event(), threading.Event()
        writer = threading.Thread(target=spoil, args=(array, begun, written))
        writer.start()
        begun.set()
        try:
            learnt = problem.learn(learner)
        except ValueError:  # too early: it was detected and refused
            continue
        finally:
            during = written.is_set()
            writer.join()
        if during:
            assert learnt == rows
            assert problem.state() == expected.state()
            return f"written during epoch {attempt}"
    raise AssertionError("no write happened during an epoch")


def work(learner: Any, problem: Problem, rounds: int) -> list[bytes]:
    """Make calls of every kind and return their results."""
    compiled, found = native.kernel(), []
    assert compiled is not None
    for k in range(rounds):
        batch = 1 + k % 7
        problem.learn(learner, batch)
        state = problem.loc, problem.variance
        samples, rows = 1 + k % 3, 1 + k % 8
        normals = problem.normals[: samples * rows * learner.units]
        answers = [
            *learner.predict(*state, problem.x, None),
            learner.draw(*state, problem.x[:rows], samples, normals),
            *compiled.Snapshot(learner, *state).predict(problem.x[: 5 * batch]),
        ]
        if learner.gives_derivatives:
            answers += learner.derivatives(*state, problem.x, np.abs(problem.x))
        found.append(problem.state() + b"".join(answer.tobytes() for answer in answers))
    return found


def together(jobs: list[Callable[[], object]]) -> None:
    """Run each job in a thread; raise the first error."""
    failed: list[BaseException] = []

    def guarded(job: Callable[[], object]) -> None:
        try:
            job()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def calls(rounds: int = 1_000) -> str:
    """Threads with separate parameters share a kernel and get the same results as alone."""
    for tree in (True, False):
        alone = [work(kernel(tree), Problem(40, tree, seed), rounds) for seed in range(3)]
        found: dict[int, list[bytes]] = {}

        def job(seed: int, tree: bool, learner: Any, found: dict[int, list[bytes]] = found) -> None:
            found[seed] = work(learner, Problem(40, tree, seed), rounds)

        learner = kernel(tree)
        together([partial(job, seed, tree, learner) for seed in range(3)])
        assert [found[seed] for seed in range(3)] == alone
    return "as alone"


def ask(frozen: Any, x: NDArray[np.float32], wanted: list[bytes], rounds: int) -> None:
    """Repeated identical calls give identical results."""
    for k in range(rounds):
        rows = k % len(wanted)
        assert frozen.predict(x[:rows])[0].tobytes() == wanted[rows]


def snapshot(rounds: int = 3_000) -> str:
    """Several threads share one snapshot, and several change parameters at the same time."""
    for tree in (True, False):
        learner, problem = kernel(tree), Problem(40, tree)
        compiled = native.kernel()
        assert compiled is not None
        frozen = compiled.Snapshot(learner, problem.loc, problem.variance)
        wanted = [frozen.predict(problem.x[:rows])[0].tobytes() for rows in range(41)]
        asking = partial(ask, frozen, problem.x, wanted, rounds)
        learning = partial(work, learner, problem, rounds // 10)
        together([asking, asking, learning, learning])
    return "unmoved"


RACES: dict[str, Callable[[], str]] = {
    "labels": partial(indices, "labels"),
    "order": partial(indices, "order"),
    "calls": calls,
    "snapshot": snapshot,
}

if __name__ == "__main__":
    sys.stdout.write(RACES[sys.argv[1]]() + "\n")
