"""Control with continuous actions: TAGI compared with PPO.

Table 3 and figure 5 of Nguyen & Goulet, "Analytically tractable hidden-states inference in
Bayesian neural networks".  TAGI is algorithm 2 with the departures that
``tractable.agents.control`` states; PPO is Stable-Baselines3's with the hyper-parameters of
table 9 and the same networks.  The policy of ``tagi`` is restrained (a pull to zero, forgetting and
a limited step: ``SETTINGS``), that of ``tagi-plain`` is not.  All see the same environments
(Gymnasium v5, MuJoCo), with observations and rewards scaled by running statistics; rewards are
reported unscaled.  Every (method, environment, seed) is a process of its own that check-points and
goes on after a kill; its steps per second are of processor time.

    python -m tractable_studies.control.run --env HalfCheetah-v5 --steps 2000000
    python -m tractable_studies.control.run --methods ppo --seed 0 1 2
    python -m tractable_studies.control.run --env Hopper-v5 Walker2d-v5 Swimmer-v5 --seed 300
    python -m tractable_studies.control.run --quick
"""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tractable.cli.output import print_line, print_table
from tractable.persistence.atomic import atomic_file
from tractable.report.results import Chart, Comparison
from tractable_studies.control import STUDY
from tractable_studies.framework.options import (
    StudyOptions,
    option,
    parse,
    resume_option,
    seed_option,
    settings,
)
from tractable_studies.framework.progress import PartsProgress
from tractable_studies.framework.record import RunRecord

#: Mean and standard deviation of the last 100 episodes' returns in table 3.
PUBLISHED = {
    "HalfCheetah-v5": {"tagi": (1934, 131), "ppo": (1649, 48)},
    "InvertedPendulum-v5": {"tagi": (983, 30), "ppo": (887, 42)},
}
STEPS = {
    "HalfCheetah-v5": 2_000_000,
    "InvertedPendulum-v5": 500_000,
    "Hopper-v5": 500_000,
    "Walker2d-v5": 500_000,
    "Swimmer-v5": 500_000,
}
#: TAGI with its policy restrained and, as it was first published here, without.
SETTINGS: dict[str, dict[str, Any]] = {
    "tagi": {"saturation_penalty": 0.2, "forget_rate": 0.06, "max_kl": 0.1},
    "tagi-plain": {"saturation_penalty": 0.0, "forget_rate": 0.0, "max_kl": None},
}
METHODS = (*SETTINGS, "ppo")
NAMES = {"tagi": "TAGI", "tagi-plain": "TAGI, policy not restrained", "ppo": "PPO"}
LAST = 100
EVALUATED = 10
EVALUATION_SEED = 10_000
HEADER = ["environment", "method", "paper", "ours", "mean policy", "steps/s", "seeds", "steps"]
ALTERED = (
    "PPO is Stable-Baselines3's with its Gaussian policy compiled, its running statistics updated "
    "row by row, Adam fused and argument checks left out, so that it is not slow for our sake; "
    "tests/studies/test_control_ppo.py holds policy, gradients and statistics equal to "
    "Stable-Baselines3's own."
)


def run(method: str, env: str, seed: int, steps: int, folder: Path) -> dict[str, Any]:
    """Train one agent, from its checkpoint if there is one; write and return its metrics."""
    torch.set_num_threads(1)
    path = folder / f"{method}-{env}-{seed}-{steps}.json"
    if path.is_file():
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    checkpoint = path.with_suffix(".safetensors")
    if method == "ppo":
        episodes, sure, seconds = _ppo(env, seed, steps, checkpoint)
    else:
        episodes, sure, seconds = _tagi(method, env, seed, steps, checkpoint)
    ends, returns = [e[0] for e in episodes], [e[1] for e in episodes]
    found = {
        "method": method,
        "env": env,
        "seed": seed,
        "steps": steps,
        "episodes": len(returns),
        "last_100": float(np.mean(returns[-LAST:])),
        "deterministic": sure,
        "seconds": seconds,
        "steps_per_second": steps / seconds,
        "curve": _curve(ends, returns, steps),
    }
    with atomic_file(path) as scratch:
        scratch.write_text(json.dumps(found))
    return found


def _tagi(
    method: str, env: str, seed: int, steps: int, checkpoint: Path
) -> tuple[list[Any], float, float]:
    from tractable.agents import TAGIControl, evaluate_policy

    before = 0.0
    timing = checkpoint.with_suffix(".seconds")
    if checkpoint.is_file():
        agent = TAGIControl.load(checkpoint, env)
        before = float(timing.read_text()) if timing.is_file() else 0.0
    else:
        agent = TAGIControl(env, seed=seed, **SETTINGS[method])
    started = time.process_time()

    def note(agent: TAGIControl, _: dict[str, float]) -> None:
        n_updates = agent.steps // agent.settings.n_steps
        if n_updates % 50 == 0:
            timing.write_text(str(before + time.process_time() - started))
            print_line(
                f"{method} {env} seed {seed}: step {agent.steps}, reward {agent.mean_reward():.0f}"
            )

    if agent.steps < steps:
        agent.learn(steps - agent.steps, callback=note, checkpoint=checkpoint, checkpoint_every=50)
    seconds = before + time.process_time() - started
    sure, _ = evaluate_policy(agent, env, EVALUATED, seed=EVALUATION_SEED)
    return agent.episodes, sure, seconds


def _ppo(env: str, seed: int, steps: int, checkpoint: Path) -> tuple[list[Any], float, float]:
    from tractable.agents import evaluate_policy
    from tractable_studies.control.ppo import Baseline

    baseline = Baseline(env, seed, steps)
    baseline.learn(checkpoint.with_suffix(".pt"))
    sure, _ = evaluate_policy(baseline, env, EVALUATED, seed=EVALUATION_SEED)
    return baseline.episodes, sure, baseline.seconds


def _curve(ends: list[int], returns: list[float], steps: int, points: int = 100) -> dict[str, Any]:
    """Return the mean return of the last 100 episodes at evenly spaced steps."""
    at = np.linspace(0, steps, points + 1)[1:]
    done = np.searchsorted(np.array(ends), at, side="right")
    sums = np.concatenate([[0.0], np.cumsum(returns)])
    first = np.maximum(done - LAST, 0)
    kept = done > 0
    mean = (sums[done] - sums[first])[kept] / (done - first)[kept]
    return {"steps": at[kept].round().astype(int).tolist(), "reward": mean.round(2).tolist()}


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Aggregate metrics over seeds, by environment and method."""
    metrics: dict[str, Any] = {}
    for run_ in sorted(found, key=lambda r: (r["env"], r["method"], r["seed"])):
        entry = metrics.setdefault(run_["env"], {}).setdefault(run_["method"], {"runs": []})
        entry["runs"].append({k: v for k, v in run_.items() if k not in ("env", "method")})
    for methods in metrics.values():
        for entry in methods.values():
            for key in ("last_100", "deterministic", "steps_per_second"):
                values = [r[key] for r in entry["runs"]]
                entry[key] = float(np.mean(values))
                entry[f"{key}_sd"] = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return metrics


def report(record: RunRecord, folder: Path) -> list[list[str]]:
    """Fill the table and charts of the record; return the rows of the printed table."""
    rows = []
    record.comparison, record.charts = [], []
    for env, methods in record.metrics.items():
        curves = {}
        for method, entry in methods.items():
            paper = PUBLISHED.get(env, {}).get(method.partition("-")[0])
            spread = f"{entry['last_100']:.0f} ± {entry['last_100_sd']:.0f}"
            name = f"{env}, {method}, last 100 episodes"
            record.comparison.append(
                Comparison(name, paper[0] if paper else None, entry["last_100"], better="larger")
            )
            rows.append(
                [
                    env,
                    method,
                    f"{paper[0]} ± {paper[1]}" if paper else "-",
                    spread,
                    f"{entry['deterministic']:.0f}",
                    f"{entry['steps_per_second']:.0f}",
                    str(len(entry["runs"])),
                    str(entry["runs"][0]["steps"]),
                ]
            )
            for one in entry["runs"]:
                curves[f"{method}, seed {one['seed']}"] = (
                    one["curve"]["steps"],
                    one["curve"]["reward"],
                )
        record.charts.append(
            Chart(title=env, curves=curves, x_label="steps", y_label="mean return of 100 episodes")
        )
        record.picture(folder, _picture(env, methods), env.partition("-")[0].lower())
    return rows


def _picture(env: str, methods: dict[str, Any]) -> Any:
    """Plot figure 5: the mean over seeds, and each seed in a lighter color."""
    from matplotlib.figure import Figure

    sheet = Figure(figsize=(6, 4), layout="constrained")
    ax = sheet.subplots()
    for k, (method, entry) in enumerate(methods.items()):
        for one in entry["runs"]:
            ax.plot(one["curve"]["steps"], one["curve"]["reward"], color=f"C{k}", alpha=0.25)
        grid = np.linspace(0, entry["runs"][0]["steps"], 100)
        lines = [np.interp(grid, r["curve"]["steps"], r["curve"]["reward"]) for r in entry["runs"]]
        label = f"{NAMES[method]}, mean of {len(lines)}"
        ax.plot(grid, np.mean(lines, 0), color=f"C{k}", label=label)
    ax.set(title=env, xlabel="steps", ylabel="mean return of 100 episodes")
    ax.legend()
    return sheet


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Options: methods, environments and number of steps."""

    seed: list[int] = seed_option((0, 1, 2, 3, 4), quick=[0])
    resume: bool = resume_option()
    env: list[str] = option(list(STEPS)[:2], "environments", quick=["InvertedPendulum-v5"])
    methods: list[str] = option(["tagi", "ppo"], choices=METHODS)
    steps: int | None = option(
        None,
        "by default 2,000,000 on half-cheetah and 500,000 elsewhere",
        quick=20_480,
        min_value=1,
    )
    processes: int = option(2, "agents at once", min_value=1)


def main(argv: Sequence[str] | None = None) -> Path:
    """Run all agents in parallel and compare them."""
    options = parse(Options, STUDY, argv, __doc__)
    runs = options.out / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    if not options.resume:
        for old in runs.iterdir():
            old.unlink()
    jobs = _jobs(options, runs)
    record = RunRecord(STUDY, seeds=options.seed, settings=settings(options), argv=argv)
    record.notes.append(ALTERED)
    with PartsProgress(len(jobs), "agents") as parts:
        for found in _all(jobs, options.processes):
            who = f"{found['method']} {found['env']} seed {found['seed']}"
            parts.step(f"{who}: {found['last_100']:.0f}")
    # Includes all results in the folder, those of earlier commands too.
    record.metrics = summary([json.loads(p.read_text()) for p in sorted(runs.glob("*.json"))])
    rows = report(record, options.out)
    path = record.write(options.out)
    print_table(HEADER, rows)
    print_line(f"written to {path}")
    return path


def _jobs(options: Options, folder: Path) -> list[tuple[Any, ...]]:
    return [
        (method, env, seed, options.steps or STEPS.get(env, 1_000_000), folder)
        for env in options.env
        for method in options.methods
        for seed in options.seed
    ]


def _all(jobs: list[tuple[Any, ...]], processes: int) -> Any:
    if processes == 1 or len(jobs) == 1:
        yield from (run(*job) for job in jobs)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        work: list[Any] = [pool.submit(run, *job) for job in jobs]
        for done in as_completed(work):
            yield done.result()


if __name__ == "__main__":
    main()
