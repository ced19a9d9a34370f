"""Independent fits on all cores, and the predictions of each at given rows.

A *maker* is a function from a seed to an untrained learner:
``lambda seed: tr.TAGI(net, likelihood, seed=seed)``.  Learners of the compiled kernel run in
threads; others run in forked processes where the system supports it.  The results do not depend on
the number of parallel workers.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from tractable.errors import InvalidInput
from tractable.training.batches import as_tensor
from tractable.training.parallel import cores
from tractable.training.progress import Progress

Maker = Callable[[int], Any]
Rows = tuple[Tensor, Tensor]
T = TypeVar("T")

_DRAWS = 50  # posterior draws that estimate the epistemic variance of class probabilities


@dataclass(frozen=True)
class Said:
    """Predictions of a fitted model at given rows.

    Attributes:
        mean: expected target, ``[rows, outputs]`` (probabilities, for classes).
        epistemic: epistemic variance of that mean, same shape; None if the model predicts none.
        noise: predicted variance of the noise, same shape; None if the model predicts none.
        log_prob: log density of each target; None without targets.
        seconds: processor time of the fit.
    """

    mean: Tensor
    epistemic: Tensor | None
    noise: Tensor | None
    log_prob: Tensor | None
    seconds: float


def check_maker(make: Maker, seeds: tuple[int, int] = (0, 1)) -> bool:
    """Check a maker; return whether its learners can be trained in parallel threads.

    Raises:
        TypeError: it returns no learner.
        ValueError: it returns the same learner twice, a fitted one, or ignores its seed.
    """
    if not callable(make):
        raise TypeError(
            "make must be a function from a seed to a learner, such as "
            f"lambda seed: tr.TAGI(net, likelihood, seed=seed); got {type(make).__name__}"
        )
    first, second = make(seeds[0]), make(seeds[1])
    for made in (first, second):
        if not (hasattr(made, "fit") and hasattr(made, "predict")):
            raise TypeError(f"make must return a learner, got {type(made).__name__}")
        if getattr(made, "fitted", False):
            raise ValueError("make must return a learner that has seen no data, got a fitted one")
    if first is second:
        raise ValueError("make returned the same learner twice: it must make a new one each time")
    if hasattr(first, "seed") and first.seed == getattr(second, "seed", None):
        raise ValueError(
            f"make ignores its seed: make({seeds[0]}) and make({seeds[1]}) both have the seed "
            f"{first.seed}; write lambda seed: tr.{type(first).__name__}(..., seed=seed)"
        )
    return bool(getattr(first, "parallel", False))


def checked_rows(x: Any, y: Any, least: int, what: str) -> Rows:
    """Return inputs and targets as tensors; check their lengths and that they are finite."""
    inputs, targets = as_tensor(x, "inputs"), as_tensor(y, "targets")
    if len(inputs) != len(targets):
        raise InvalidInput(
            f"got {len(inputs)} rows of inputs and {len(targets)} targets, expected as many"
        )
    if len(inputs) < least:
        raise ValueError(f"{what} needs at least {least} rows, got {len(inputs)}")
    for name, part in (("inputs", inputs), ("targets", targets)):
        if part.is_floating_point() and not bool(torch.isfinite(part).all()):
            raise InvalidInput(f"the {name} have NaN or infinite values")
    return inputs, targets


def fit_one(
    learner: Any, train: Rows, at: Tensor, y: Tensor | None, options: dict[str, Any]
) -> Said:
    """Fit a learner and return its predictions."""
    started = time.thread_time()
    quiet = {"progress": False} if hasattr(learner, "fitted") else {}
    learner.fit(*train, **quiet, **options)
    return said(learner, at, y, time.thread_time() - started)


def said(learner: Any, at: Tensor, y: Tensor | None, seconds: float = 0.0) -> Said:
    """Return the predictions of a fitted learner, or of an estimator with ``predict``."""
    predicted = learner.predict(at)
    if not hasattr(predicted, "mean") or not hasattr(predicted, "log_prob"):  # point predictions
        mean = torch.as_tensor(predicted).detach()
        return Said(_columns(mean), None, None, None, seconds)
    mean = predicted.mean.detach()
    log_prob = None if y is None else predicted.log_prob(y.to(predicted.mean.device)).detach()
    if predicted.has_classes:
        epistemic = _spread_of_classes(learner, at)
        noise = (mean * (1 - mean) - epistemic).clamp_min(0)
    else:
        epistemic, noise = predicted.epistemic.detach(), predicted.aleatoric.detach()
    parts = (_columns(mean.double()), _columns(epistemic.double()), _columns(noise.double()))
    return Said(*parts, log_prob, seconds)


def _spread_of_classes(learner: Any, at: Tensor) -> Tensor:
    """Return the variance of class probabilities over posterior draws."""
    generator = torch.Generator().manual_seed(0)
    members = getattr(learner, "members", None) or [learner]
    draws = max(1, _DRAWS // len(members))
    found = []
    for member in members:
        z = member.sample(member.inputs(at), draws, generator)
        flat = z.flatten(0, 1)
        probs = member.likelihood.predictive(flat, torch.zeros_like(flat)).mean
        found.append(probs.reshape(len(z), len(at), -1))
    return torch.cat(found).var(0, correction=0)


def one_hot(y: Tensor, outputs: int) -> Tensor:
    """Return targets in the shape of ``Said.mean``: numbers in columns, classes one-hot."""
    if y.is_floating_point() or y.ndim > 1 or outputs == 1:
        return _columns(y.double())
    return torch.nn.functional.one_hot(y.long(), outputs).double()


def _columns(values: Tensor) -> Tensor:
    return values.unsqueeze(1) if values.ndim == 1 else values.flatten(1)


# --- parallel fits -----------------------------------------------------------------------------


def run_all(
    work: Callable[[int], T],
    count: int,
    *,
    threads: bool,
    workers: int | None = None,
    progress: bool | None = None,
    label: str = "fits",
) -> list[T]:
    """Return ``[work(0), work(1), ...]``, computed in parallel.

    Args:
        work: function of a number; its results must be small and, for processes, consist of plain
            values and tensors.
        count: number of calls.
        threads: whether the work releases the GIL, so that threads are used instead of processes.
        workers: number of parallel workers; default: the number of cores.
        progress: whether to show a progress bar; default: only in a terminal.
        label: label of the progress bar.
    """
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    many = min(workers or cores(), count)
    with Progress(count, label, progress) as bar:
        if many > 1 and (threads or _can_fork()):
            try:
                return _beside(work, count, many, threads, bar)
            except BrokenProcessPool:
                warnings.warn(
                    "the processes ended early (out of memory?): continuing with one at a time",
                    RuntimeWarning,
                    stacklevel=3,
                )
        found = []
        for number in range(count):
            found.append(work(number))
            bar.advance()
        return found


def _beside(
    work: Callable[[int], T], count: int, many: int, threads: bool, bar: Progress
) -> list[T]:
    with _pool(work, many, threads) as (pool, call):
        futures = [pool.submit(call, number) for number in range(count)]
        for future in futures:
            future.add_done_callback(lambda _: bar.advance())
        try:
            found = [future.result() for future in futures]
            return found if threads else [pickle.loads(part) for part in found]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


_work: Callable[[int], Any] | None = None
"""Function that forked processes call; it is inherited, so that it need not be pickled."""


def _call(number: int) -> Any:
    assert _work is not None
    # Pickled here, because tensors would be sent as files in shared memory.
    return pickle.dumps(_work(number))


@contextmanager
def _pool(
    work: Callable[[int], Any], many: int, threads: bool
) -> Iterator[tuple[Executor, Callable[[int], Any]]]:
    global _work
    if threads:
        with ThreadPoolExecutor(many) as pool:
            yield pool, work
        return
    _work = work
    context = multiprocessing.get_context("fork")
    threads_before = torch.get_num_threads()
    if threads_before != 1:  # before the fork: a forked process cannot change it
        torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # about forking a process with threads
            with ProcessPoolExecutor(many, mp_context=context) as processes:
                yield processes, _call
    finally:
        _work = None
        if threads_before != 1:
            torch.set_num_threads(threads_before)


def _can_fork() -> bool:
    daemon = multiprocessing.current_process().daemon
    known = sys.platform.startswith("linux") and hasattr(os, "fork")
    return known and not daemon and _work is None and not torch.cuda.is_initialized()


def seeds_of(seed: int, count: int) -> list[int]:
    """Return ``count`` random seeds."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(0, 2**31 - 1, (count,), generator=generator)
    return [int(s) for s in drawn]


def parts_of(rows: int, folds: int, seed: int) -> Sequence[Tensor]:
    """Return random folds of nearly equal size, as indices of rows.

    Raises:
        ValueError: there are fewer rows than folds.
    """
    if folds < 2:
        raise ValueError(f"folds must be at least 2, got {folds}")
    if rows < folds:
        raise ValueError(f"{rows} rows are fewer than {folds} folds: give more rows or fewer folds")
    return torch.randperm(rows, generator=torch.Generator().manual_seed(seed)).tensor_split(folds)
