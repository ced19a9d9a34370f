"""Several seeds of one agent, side by side."""

from __future__ import annotations

import copy
import multiprocessing
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from tractable.training.parallel import cores


def learn_seeds(
    make: Callable[..., Any],
    seeds: Sequence[int],
    total_timesteps: int,
    folder: str | Path,
    *,
    processes: int | None = None,
) -> list[Any]:
    """Let agents that differ in their seed learn at once, each in a process of its own.

    Every agent keeps its checkpoint in the folder; one whose file is there goes on from it, so that
    a run that was stopped can be started again, and one that is done is only read.

    Args:
        make: makes an agent, given ``seed=``: a class or a ``functools.partial`` of one, such as
            ``partial(QAgent, "CartPole-v1")``; something that can be pickled.  Every agent has
            a copy of an environment or a network among its arguments.
        seeds: one for each agent.
        total_timesteps: steps that each agent is to have taken in the end.
        folder: for the files, ``agent-SEED.safetensors``.
        processes: how many at once; by default as many as there are cores.  What is learnt does
            not depend on it.

    Returns:
        The agents, in the order of the seeds.
    """
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(f"give different seeds, at least one; got {list(seeds)}")
    if total_timesteps < 1:
        raise ValueError(f"total_timesteps must be at least 1, got {total_timesteps}")
    kind = _kind(make)
    if not hasattr(kind, "load"):  # or what was learnt could not be read in the end
        raise TypeError(f"make must be a class of agents or a functools.partial of one, got {make}")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    given = _given_net(make)
    _check_files(kind, make, seeds[0], given)
    job = partial(_learn, make, total_timesteps, folder, given)
    many = min(processes or cores(), len(seeds))
    if many > 1:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(many, mp_context=context) as pool:
            list(pool.map(job, seeds))
    else:
        for seed in seeds:
            job(seed)
    return [kind.load(_path(folder, seed), _made(make, seed).env, **given) for seed in seeds]


def _learn(
    make: Callable[..., Any], steps: int, folder: Path, given: dict[str, Any], seed: int
) -> None:
    """Train one agent, from its checkpoint if there is one."""
    path, agent = _path(folder, seed), _made(make, seed)
    if path.is_file():
        agent = type(agent).load(path, agent.env, **given)
    if agent.steps < steps:
        agent.learn(steps - agent.steps, checkpoint=path)


def _made(make: Callable[..., Any], seed: int) -> Any:
    """Return a new agent that shares neither environment nor network with those before it.

    A process of its own has copies of them in any case, so results are the same in one process.
    """
    return copy.deepcopy(make)(seed=seed)


def _given_net(make: Callable[..., Any]) -> dict[str, Any]:
    """Return the network in the arguments of ``make`` as an argument of ``load``."""
    net = make.keywords.get("net") if isinstance(make, partial) else None
    return {} if net is None else {"net": net}


def _check_files(kind: Any, make: Callable[..., Any], seed: int, given: dict[str, Any]) -> None:
    """Raise now what loading the trained agents would raise after the training."""
    agent = _made(make, seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.safetensors"
        agent.save(path)
        kind.load(path, agent.env, **given)


def _path(folder: Path, seed: int) -> Path:
    return folder / f"agent-{seed}.safetensors"


def _kind(make: Callable[..., Any]) -> Any:
    return make.func if isinstance(make, partial) else make
