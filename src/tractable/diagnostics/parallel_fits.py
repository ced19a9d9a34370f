"""Independent fits on all cores, and the predictions of each at given rows.

A *factory* is a function from a seed to an untrained learner:
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
from tractable.training.data import as_tensor
from tractable.training.parallel import n_cores
from tractable.training.progress import Progress

Factory = Callable[[int], Any]
Rows = tuple[Tensor, Tensor]
T = TypeVar("T")

_WEIGHT_SAMPLES = 50  # weight samples that estimate the epistemic variance of class probabilities


@dataclass(frozen=True)
class Prediction:
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


def check_factory(factory: Factory, seeds: tuple[int, int] = (0, 1)) -> bool:
    """Check a factory; return whether its learners can be trained in parallel threads.

    Raises:
        TypeError: it returns no learner.
        ValueError: it returns the same learner twice, a fitted one, or ignores its seed.
    """
    if not callable(factory):
        raise TypeError(
            "factory must be a function from a seed to a learner, such as "
            f"lambda seed: tr.TAGI(net, likelihood, seed=seed); got {type(factory).__name__}"
        )
    first, second = factory(seeds[0]), factory(seeds[1])
    for learner in (first, second):
        if not (hasattr(learner, "fit") and hasattr(learner, "predict")):
            raise TypeError(f"factory must return a learner, got {type(learner).__name__}")
        if getattr(learner, "fitted", False):
            raise ValueError("factory must return an untrained learner, got a fitted one")
    if first is second:
        raise ValueError(
            "factory returned the same learner twice: it must create a new one at each call"
        )
    if hasattr(first, "seed") and first.seed == getattr(second, "seed", None):
        raise ValueError(
            f"factory ignores its seed: factory({seeds[0]}) and factory({seeds[1]}) both have the "
            f"seed {first.seed}; write lambda seed: tr.{type(first).__name__}(..., seed=seed)"
        )
    return bool(getattr(first, "parallel", False))


def checked_rows(x: Any, y: Any, min_rows: int, name: str) -> Rows:
    """Return inputs and targets as tensors; check their lengths and that they are finite."""
    inputs, targets = as_tensor(x, "inputs"), as_tensor(y, "targets")
    if len(inputs) != len(targets):
        raise InvalidInput(
            f"got {len(inputs)} rows of inputs and {len(targets)} targets, expected as many"
        )
    if len(inputs) < min_rows:
        raise ValueError(f"{name} needs at least {min_rows} rows, got {len(inputs)}")
    for kind, part in (("inputs", inputs), ("targets", targets)):
        if part.is_floating_point() and not bool(torch.isfinite(part).all()):
            raise InvalidInput(f"the {kind} have NaN or infinite values")
    return inputs, targets


def fit_and_predict(
    learner: Any, train: Rows, at: Tensor, y: Tensor | None, fit_kwargs: dict[str, Any]
) -> Prediction:
    """Fit a learner and return its predictions."""
    started = time.thread_time()
    no_progress = {"progress": False} if hasattr(learner, "fitted") else {}
    learner.fit(*train, **no_progress, **fit_kwargs)
    return predict_at(learner, at, y, time.thread_time() - started)


def predict_at(learner: Any, at: Tensor, y: Tensor | None, seconds: float = 0.0) -> Prediction:
    """Return the predictions of a fitted learner, or of an estimator with ``predict``."""
    predicted = learner.predict(at)
    if not hasattr(predicted, "mean") or not hasattr(predicted, "log_prob"):  # point predictions
        mean = torch.as_tensor(predicted).detach()
        return Prediction(_columns(mean), None, None, None, seconds)
    mean = predicted.mean.detach()
    log_prob = None if y is None else predicted.log_prob(y.to(predicted.mean.device)).detach()
    if predicted.has_classes:
        epistemic = _class_probability_variance(learner, at)
        noise = (mean * (1 - mean) - epistemic).clamp_min(0)
    else:
        epistemic, noise = predicted.epistemic.detach(), predicted.aleatoric.detach()
    parts = (_columns(mean.double()), _columns(epistemic.double()), _columns(noise.double()))
    return Prediction(*parts, log_prob, seconds)


def _class_probability_variance(learner: Any, at: Tensor) -> Tensor:
    """Return the variance of class probabilities over weight samples."""
    generator = torch.Generator().manual_seed(0)
    members = getattr(learner, "members", None) or [learner]
    n_samples = max(1, _WEIGHT_SAMPLES // len(members))
    found = []
    for member in members:
        z = member.sample(at, n_samples, generator=generator)
        flat = z.flatten(0, 1)
        probs = member.likelihood.predictive(flat, torch.zeros_like(flat)).mean
        found.append(probs.reshape(len(z), len(at), -1))
    return torch.cat(found).var(0, correction=0)


def one_hot(y: Tensor, outputs: int) -> Tensor:
    """Return targets in the shape of ``Prediction.mean``: numbers in columns, classes one-hot."""
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
    n_jobs: int | None = None,
    progress: bool | None = None,
    label: str = "fits",
) -> list[T]:
    """Return ``[work(0), work(1), ...]``, computed in parallel.

    Args:
        work: function of a number; its results must be small and, for processes, consist of plain
            values and tensors.
        count: number of calls.
        threads: whether the work releases the GIL, so that threads are used instead of processes.
        n_jobs: number of parallel workers; default: the number of cores.
        progress: whether to show a progress bar; default: only in a terminal.
        label: label of the progress bar.
    """
    if n_jobs is not None and n_jobs < 1:
        raise ValueError(f"n_jobs must be at least 1, got {n_jobs}")
    n_workers = min(n_jobs or n_cores(), count)
    with Progress(count, label, progress) as bar:
        if n_workers > 1 and (threads or _can_fork()):
            try:
                return _run_in_pool(work, count, n_workers, threads, bar)
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


def _run_in_pool(
    work: Callable[[int], T], count: int, n_workers: int, threads: bool, bar: Progress
) -> list[T]:
    with _pool(work, n_workers, threads) as (pool, call):
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
    work: Callable[[int], Any], n_workers: int, threads: bool
) -> Iterator[tuple[Executor, Callable[[int], Any]]]:
    global _work
    if threads:
        with ThreadPoolExecutor(n_workers) as pool:
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
            with ProcessPoolExecutor(n_workers, mp_context=context) as processes:
                yield processes, _call
    finally:
        _work = None
        if threads_before != 1:
            torch.set_num_threads(threads_before)


def _can_fork() -> bool:
    daemon = multiprocessing.current_process().daemon
    is_supported = sys.platform.startswith("linux") and hasattr(os, "fork")
    return is_supported and not daemon and _work is None and not torch.cuda.is_initialized()


def draw_seeds(seed: int, count: int) -> list[int]:
    """Return ``count`` random seeds."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(0, 2**31 - 1, (count,), generator=generator)
    return [int(s) for s in drawn]


def kfold(n_rows: int, n_folds: int, seed: int) -> Sequence[Tensor]:
    """Return random folds of nearly equal size, as indices of rows.

    Raises:
        ValueError: there are fewer rows than folds.
    """
    if n_folds < 2:
        raise ValueError(f"n_folds must be at least 2, got {n_folds}")
    if n_rows < n_folds:
        raise ValueError(
            f"{n_rows} rows are fewer than {n_folds} folds: pass more rows or a smaller n_folds"
        )
    return torch.randperm(n_rows, generator=torch.Generator().manual_seed(seed)).tensor_split(
        n_folds
    )
