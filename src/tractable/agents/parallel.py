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
    factory: Callable[..., Any],
    seeds: Sequence[int],
    total_timesteps: int,
    folder: str | Path,
    *,
    n_jobs: int | None = None,
) -> list[Any]:
    """Train agents that differ only in their seed, each in its own process.

    Every agent has its checkpoint in the folder.  An agent whose file exists continues from it: a
    run that was interrupted can be started again, and an agent that is already trained is only
    loaded.

    Args:
        factory: function that returns an agent, given ``seed=``: a class or a ``functools.partial``
            of one, such as ``partial(QAgent, "CartPole-v1")``.  It must be picklable.
            Environments and networks among its arguments are copied for every agent.
        seeds: one seed for each agent, all different.
        total_timesteps: total number of steps of each agent, including those in its checkpoint.
        folder: folder of the files ``agent-SEED.safetensors``.
        n_jobs: number of parallel processes; default: the number of cores.  It does not change
            the results.

    Returns:
        The agents, in the order of the seeds.
    """
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds must be one or more different seeds, got {list(seeds)}")
    if total_timesteps < 1:
        raise ValueError(f"total_timesteps must be at least 1, got {total_timesteps}")
    agent_class = _agent_class(factory)
    if not hasattr(agent_class, "load"):  # needed to load the trained agents
        raise TypeError(
            f"factory must be a class of agents or a functools.partial of one, got {factory}"
        )
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    net_argument = _net_argument(factory)
    _check_files(agent_class, factory, seeds[0], net_argument)
    job = partial(_train, factory, total_timesteps, folder, net_argument)
    n_workers = min(n_jobs or n_cores(), len(seeds))
    if n_workers > 1:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(n_workers, mp_context=context) as pool:
            list(pool.map(job, seeds))
    else:
        for seed in seeds:
            job(seed)
    return [
        agent_class.load(_path(folder, seed), _make(factory, seed).env, **net_argument)
        for seed in seeds
    ]


def _train(
    factory: Callable[..., Any], steps: int, folder: Path, net_argument: dict[str, Any], seed: int
) -> None:
    """Train one agent, starting from its checkpoint if there is one."""
    path, agent = _path(folder, seed), _make(factory, seed)
    if path.is_file():
        agent = type(agent).load(path, agent.env, **net_argument)
    if agent.steps < steps:
        agent.learn(steps - agent.steps, checkpoint=path)


def _make(factory: Callable[..., Any], seed: int) -> Any:
    """Return a new agent that shares neither environment nor network with earlier ones.

    Separate processes have their own copies in any case, so results in one process are the same.
    """
    return copy.deepcopy(factory)(seed=seed)


def _net_argument(factory: Callable[..., Any]) -> dict[str, Any]:
    """Return the network in the arguments of ``factory`` as an argument of ``load``."""
    net = factory.keywords.get("net") if isinstance(factory, partial) else None
    return {} if net is None else {"net": net}


def _check_files(
    agent_class: Any, factory: Callable[..., Any], seed: int, net_argument: dict[str, Any]
) -> None:
    """Save and load an untrained agent, so that errors are raised before the training."""
    agent = _make(factory, seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.safetensors"
        agent.save(path)
        agent_class.load(path, agent.env, **net_argument)


def _path(folder: Path, seed: int) -> Path:
    return folder / f"agent-{seed}.safetensors"


def _agent_class(factory: Callable[..., Any]) -> Any:
    return factory.func if isinstance(factory, partial) else factory
