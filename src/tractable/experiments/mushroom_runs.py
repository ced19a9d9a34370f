"""Runs of the mushroom experiment: each agent and seed a job with a checkpoint of its own.

A job that was killed goes on from its checkpoint and gives the same curve.
"""

from __future__ import annotations

import multiprocessing
import queue
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tractable.agents import Bandit, History, Mushroom
from tractable.experiments import mushroom_agents
from tractable.experiments.progress import duration, say
from tractable.training.progress import Progress

_REPORT_EVERY = 250  # steps


@dataclass(frozen=True)
class Job:
    """One agent on the mushrooms of one seed."""

    agent: str
    seed: int
    steps: int
    folder: Path

    @property
    def path(self) -> Path:
        """The checkpoint; it does not depend on the number of steps, so a run can be prolonged."""
        return self.folder / f"{self.agent}-{self.seed}.tr"

    def run(self, report: Callable[[int], object]) -> None:
        """Make the steps that are still to make; ``report`` hears how many are done in all."""
        env = Mushroom()
        agent = mushroom_agents.make(self.agent, self.seed, env)

        def callback(_: Bandit, step: int) -> None:
            if step % _REPORT_EVERY == 0:
                report(step)

        agent.run(
            env, self.steps, seed=self.seed, callback=callback, progress=False,
            checkpoint=self.path, every=2_500,
        )  # fmt: skip
        report(self.steps)

    def history(self) -> History:
        """What the checkpoint holds."""
        return Bandit.load(self.path).history


class Pace:
    """Steps done by all jobs, and the time left, on a bar or as a line now and then."""

    def __init__(self, jobs: list[Job], every: float = 20.0) -> None:
        self.jobs, self.every = jobs, every
        self.total = sum(job.steps for job in jobs)
        self.done: dict[Job, int] = {}
        self._first: dict[Job, int] = {}  # what was done before: no measure of the pace
        self._bar = Progress(self.total, "mushrooms", None)
        self._started = self._spoken = time.monotonic()

    def __enter__(self) -> Pace:
        """Start the bar, on a terminal."""
        self._bar.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        """End it."""
        self._bar.__exit__(*error)

    def hear(self, job: Job, steps: int) -> None:
        """A job has made so many steps in all."""
        before = self.done.get(job)
        if before is None:
            self._first[job] = before = max(steps - _REPORT_EVERY, 0)
            self._bar.advance(before)
        self.done[job] = steps
        self._bar.advance(steps - before)
        now = time.monotonic()
        if not self._bar.show and now - self._spoken > self.every:
            self._spoken = now
            say(str(self))

    def __str__(self) -> str:
        """Steps done and time left."""
        done = sum(self.done.values())
        own = done - sum(self._first.values())
        left = (time.monotonic() - self._started) / max(own, 1) * (self.total - done)
        return f"{done:,} of {self.total:,} steps, {duration(left)} left"


def run_all(jobs: list[Job], processes: int, threads: int) -> None:
    """Run the jobs, several side by side; what is finished is not run again."""
    for job in jobs:
        job.folder.mkdir(parents=True, exist_ok=True)
    with Pace(jobs) as pace:
        if processes == 1:
            for job in jobs:
                job.run(lambda steps, job=job: pace.hear(job, steps))  # type: ignore[misc]
        else:
            _in_processes(jobs, processes, threads, pace)


def _in_processes(jobs: list[Job], processes: int, threads: int, pace: Pace) -> None:
    context = multiprocessing.get_context("spawn")
    reports: Any = context.Queue()
    with ProcessPoolExecutor(
        min(processes, len(jobs)), context, initializer=_start, initargs=(reports, threads)
    ) as pool:
        futures = {pool.submit(_work, job) for job in jobs}
        try:
            while futures:
                finished, futures = wait(futures, timeout=0.5, return_when=FIRST_EXCEPTION)
                for job, steps in _waiting(reports):
                    pace.hear(job, steps)
                for future in finished:
                    future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _waiting(reports: Any) -> Iterator[tuple[Job, int]]:
    while True:
        try:
            yield reports.get_nowait()
        except queue.Empty:
            return


_reports: Any = None  # of a worker process


def _start(reports: Any, threads: int) -> None:
    global _reports
    _reports = reports
    torch.set_num_threads(threads)


def _work(job: Job) -> None:
    job.run(lambda steps: _reports.put((job, steps)))
