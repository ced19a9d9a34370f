"""Parallel training of several independent learners on all cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextvars import ContextVar, copy_context
from threading import Event
from typing import TYPE_CHECKING, Any

from tractable.errors import Cancelled
from tractable.training.progress import Progress

if TYPE_CHECKING:
    from tractable.learners.learner import Learner

Job = tuple["Learner", Any, Any]

cancelled: ContextVar[Event | None] = ContextVar("cancelled", default=None)
"""Event that is set to stop the work of this thread."""


def stop_if_cancelled() -> None:
    """Raise ``Cancelled`` if the work of this thread was cancelled."""
    event = cancelled.get()
    if event is not None and event.is_set():
        raise Cancelled("stopped, because another of the trainings run together ended early")


def fit_many(
    jobs: Iterable[Job],
    *,
    threads: int | None = None,
    progress: bool | None = None,
    **options: Any,
) -> list[Learner]:
    """Fit independent learners in parallel: folds, seeds, members of an ensemble, arms of a bandit.

    Learners that use the compiled kernel run in parallel threads, because it releases the
    interpreter lock; the others run one after the other.  The results do not depend on ``threads``.

    Args:
        jobs: triples of a learner, its inputs and its targets; each learner once.
        threads: maximum number of threads. Default: number of cores.
        progress: show one progress bar for all fits. Default: on a terminal only.
        options: arguments of ``Learner.fit``, for every learner.

    Returns:
        The learners, in the given order.

    Raises:
        Exception: the first error of any fit; the others stop after a whole epoch. The same holds
            for an interruption from the keyboard.
    """
    jobs = list(jobs)
    learners = [learner for learner, _, _ in jobs]
    if len({id(learner) for learner in learners}) < len(learners):
        raise ValueError("a learner can be fitted only once at a time: give each its own")
    if threads is not None and threads < 1:
        raise ValueError(f"threads must be at least 1, got {threads}")
    together = [job for job in jobs if job[0].method.parallel]
    threads = min(threads or n_cores(), max(len(together), 1))
    with Progress(len(jobs), "fits", progress) as bar:

        def fit(learner: Learner, x: Any, y: Any) -> None:
            learner.fit(x, y, progress=False, **options)

        if threads > 1:
            _in_threads([(fit, job) for job in together], threads, bar.advance)
        for job in jobs:
            if threads == 1 or not job[0].method.parallel:
                fit(*job)
                bar.advance()
    return learners


def run_each(calls: Sequence[Callable[[], None]], *, threads: bool) -> None:
    """Make several independent calls, in threads if these help and none are running."""
    many = min(n_cores(), len(calls)) if threads and cancelled.get() is None else 1
    if many > 1:
        _in_threads([(call, ()) for call in calls], many, lambda: None)
        return
    for call in calls:
        call()


def n_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _in_threads(
    calls: list[tuple[Callable[..., None], tuple[Any, ...]]],
    threads: int,
    done: Callable[[], None],
) -> None:
    stop = Event()
    context = copy_context()
    context.run(cancelled.set, stop)
    with ThreadPoolExecutor(threads) as pool:
        futures: set[Future[None]] = {
            pool.submit(context.copy().run, function, *job) for function, job in calls
        }
        try:
            while futures:
                # A time limit, so that the main thread receives Ctrl-C.
                finished, futures = wait(futures, timeout=0.1, return_when=FIRST_EXCEPTION)
                for future in finished:
                    future.result()
                    done()
        except BaseException:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
