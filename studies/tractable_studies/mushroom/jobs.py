"""Runs of the mushroom study: one job with a checkpoint for each agent and seed.

A job that was killed goes on from its checkpoint and gives the same curve.
"""

from __future__ import annotations

import multiprocessing
import queue
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tractable.agents import Bandit, BanditHistory
from tractable.cli.output import print_line
from tractable.training.progress import Progress
from tractable_studies.mushroom.agents import NAMES, make
from tractable_studies.mushroom.environment import Mushroom

_REPORT_EVERY = 250  # steps


@dataclass(frozen=True)
class Job:
    """One agent with one seed."""

    agent: str
    seed: int
    steps: int
    folder: Path

    @property
    def path(self) -> Path:
        """Return the path of the checkpoint, which is independent of the number of steps."""
        return self.folder / f"{self.agent}-{self.seed}.tr"

    @property
    def left(self) -> int:
        """Return the number of remaining steps."""
        done = len(self.history()) if self.path.is_file() else 0
        return max(self.steps - done, 0)

    def __str__(self) -> str:
        """Return the name of the agent, the seed and the number of steps."""
        return f"{NAMES[self.agent]}, seed {self.seed}, {self.steps:,} steps"

    def run(self, report: Callable[[int], object]) -> None:
        """Run the remaining steps; ``report`` receives their number from time to time."""
        env = Mushroom()
        agent = make(self.agent, self.seed, env)

        def callback(_: Bandit, record: dict[str, float]) -> None:
            if record["steps"] % _REPORT_EVERY == 0:
                report(_REPORT_EVERY)

        agent.learn(
            env, self.steps, seed=self.seed, callback=callback, progress=False,
            checkpoint=self.path, checkpoint_every=2_500,
        )  # fmt: skip

    def history(self) -> BanditHistory:
        """Return the history in the checkpoint."""
        return Bandit.load(self.path).history


def run_all(jobs: list[Job], processes: int, threads: int) -> None:
    """Run the jobs in parallel; finished ones are not run again."""
    for job in jobs:
        job.folder.mkdir(parents=True, exist_ok=True)
    with Progress(sum(job.left for job in jobs), "mushrooms", None) as progress:
        if processes == 1:
            for job in jobs:
                job.run(progress.advance)
                print_line(f"{job} is done")
        else:
            _in_processes(jobs, processes, threads, progress)


def _in_processes(jobs: list[Job], processes: int, threads: int, progress: Progress) -> None:
    context = multiprocessing.get_context("spawn")
    reports: Any = context.Queue()
    with ProcessPoolExecutor(
        min(processes, len(jobs)), context, initializer=_start, initargs=(reports, threads)
    ) as pool:
        futures = {pool.submit(_work, job): job for job in jobs}
        waiting = set(futures)
        try:
            while waiting:
                finished, waiting = wait(waiting, timeout=0.5, return_when=FIRST_EXCEPTION)
                for steps in _waiting(reports):
                    progress.advance(steps)
                for future in finished:
                    future.result()
                    print_line(f"{futures[future]} is done")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _waiting(reports: Any) -> Iterator[int]:
    while True:
        try:
            yield reports.get_nowait()
        except queue.Empty:
            return


_reports: Any = None  # queue of a worker process


def _start(reports: Any, threads: int) -> None:
    global _reports
    _reports = reports
    torch.set_num_threads(threads)


def _work(job: Job) -> None:
    job.run(_reports.put)
