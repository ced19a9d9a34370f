"""Train one agent with several seeds in parallel."""

from __future__ import annotations

import copy
import multiprocessing
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from tractable.training.parallel import n_cores


def train_seeds(
    make: Callable[..., Any],
    seeds: Sequence[int],
    total_timesteps: int,
    folder: str | Path,
    *,
    processes: int | None = None,
) -> list[Any]:
    """Train agents that differ only in their seed, each in its own process.

    Every agent has its checkpoint in the folder.  An agent whose file exists continues from it: a
    run that was interrupted can be started again, and an agent that is already trained is only
    loaded.

    Args:
        make: function that returns an agent, given ``seed=``: a class or a ``functools.partial``
            of one, such as ``partial(QAgent, "CartPole-v1")``.  It must be picklable.
            Environments and networks among its arguments are copied for every agent.
        seeds: one seed for each agent, all different.
        total_timesteps: total number of steps of each agent, including those in its checkpoint.
        folder: folder of the files ``agent-SEED.safetensors``.
        processes: number of parallel processes; default: the number of cores.  It does not change
            the results.

    Returns:
        The agents, in the order of the seeds.
    """
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds must be one or more different seeds, got {list(seeds)}")
    if total_timesteps < 1:
        raise ValueError(f"total_timesteps must be at least 1, got {total_timesteps}")
    kind = _kind(make)
    if not hasattr(kind, "load"):  # needed to load the trained agents
        raise TypeError(f"make must be a class of agents or a functools.partial of one, got {make}")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    given = _given_net(make)
    _check_files(kind, make, seeds[0], given)
    job = partial(_learn, make, total_timesteps, folder, given)
    many = min(processes or n_cores(), len(seeds))
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
    """Train one agent, starting from its checkpoint if there is one."""
    path, agent = _path(folder, seed), _made(make, seed)
    if path.is_file():
        agent = type(agent).load(path, agent.env, **given)
    if agent.steps < steps:
        agent.learn(steps - agent.steps, checkpoint=path)


def _made(make: Callable[..., Any], seed: int) -> Any:
    """Return a new agent that shares neither environment nor network with earlier ones.

    Separate processes have their own copies in any case, so results in one process are the same.
    """
    return copy.deepcopy(make)(seed=seed)


def _given_net(make: Callable[..., Any]) -> dict[str, Any]:
    """Return the network in the arguments of ``make`` as an argument of ``load``."""
    net = make.keywords.get("net") if isinstance(make, partial) else None
    return {} if net is None else {"net": net}


def _check_files(kind: Any, make: Callable[..., Any], seed: int, given: dict[str, Any]) -> None:
    """Save and load an untrained agent, so that errors are raised before the training."""
    agent = _made(make, seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.safetensors"
        agent.save(path)
        kind.load(path, agent.env, **given)


def _path(folder: Path, seed: int) -> Path:
    return folder / f"agent-{seed}.safetensors"


def _kind(make: Callable[..., Any]) -> Any:
    return make.func if isinstance(make, partial) else make
