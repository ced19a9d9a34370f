"""Compare the step times of this checkout with those of another one, as ratios.

    git worktree add ../before COMMIT
    python -m benchmarks.against ../before/src

The other checkout needs its own compiled kernel (`pip install` there, or the file copied if the
kernel did not change).  Each round times both, one after the other, in processes of their own, with
one thread and by processor time; of all rounds the fastest counts.  Only public names that both
have are used.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
# Names of arguments in checkouts before version 0.2.
FORMER = {
    "distance_aware": "off_data",
    "n_estimators": "n",
    "n_features": "features",
    "n_actions": "actions",
    "n_steps": "horizon",
}
RESULTS = HERE / "results" / "against.json"


def fastest(step: Callable[[], Any], times: int, rounds: int = 15) -> float:
    """Microseconds of processor time of one step."""
    step()
    found = []
    for _ in range(rounds):
        started = time.process_time()
        for _ in range(times):
            step()
        found.append((time.process_time() - started) / times)
    return 1e6 * min(found)


def measure() -> dict[str, float]:
    """Return all timed steps of the installed library."""
    import torch
    from torch import nn

    import tractable as tr

    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(500, 8, generator=generator), torch.randn(500, 1, generator=generator)
    many = torch.randn(2_000, 8, generator=generator)
    images = torch.rand(128, 784, generator=generator)
    labels = torch.randint(10, (128,), generator=generator)
    normal, classes = tr.likelihoods.Normal, tr.likelihoods.Categorical
    is_former = "off_data" in inspect.signature(tr.Learner.fit).parameters

    def named(**options: Any) -> dict[str, Any]:
        return {FORMER[k]: v for k, v in options.items()} if is_former else options

    def dense(inputs: int = 8) -> nn.Sequential:
        return nn.Sequential(
            nn.Linear(inputs, 50), nn.ReLU(), nn.Linear(50, 50), nn.ReLU(), nn.Linear(50, 1)
        )

    mnist = nn.Sequential(
        nn.Linear(784, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 11)
    )
    cnn = nn.Sequential(
        nn.Conv2d(1, 16, 4, padding=1), nn.ReLU(), nn.AvgPool2d(3, 2),
        nn.Conv2d(16, 16, 5), nn.ReLU(), nn.AvgPool2d(3, 2),
        nn.Flatten(), nn.Linear(256, 100), nn.ReLU(), nn.Linear(100, 11),
    )  # fmt: skip
    native, torch_ = tr.TAGI(dense(), normal(0.5)), tr.TAGI(dense(), normal(0.5), engine="torch")
    wide, conv = (
        tr.TAGI(net, classes(10, tree="published"), engine="torch") for net in (mnist, cnn)
    )
    bbb, local = (
        tr.BayesByBackprop(dense(), normal(0.5), estimator=kind) for kind in ("weights", "local")
    )
    point = tr.Backprop(dense(), normal(0.5))
    five = tr.Ensemble(dense(), normal(0.5), **named(n_estimators=5))
    square = images.reshape(128, 1, 28, 28)
    # Distances are computed once a fit, not once a step.
    once = {"epochs": 1, "progress": False, **named(distance_aware=False)}
    found = {
        "native: update, 1 row": fastest(lambda: native.update(x[:1], y[:1]), 200),
        "native: predict, 1 row": fastest(lambda: native.predict(x[:1]), 200),
        "native: predict, 500 rows": fastest(lambda: native.predict(x), 20),
        "native: epoch of 2,000, batch 1": fastest(
            lambda: native.fit(many, many[:, :1], batch_size=1, **once), 2
        ),
        "torch: update, 16 rows": fastest(lambda: torch_.update(x[:16], y[:16]), 30),
        "torch: predict, 500 rows": fastest(lambda: torch_.predict(x), 20),
        "torch: epoch, batch 50": fastest(lambda: torch_.fit(x, y, batch_size=50, **once), 2),
        "torch: 784-400-400-11, 128": fastest(lambda: wide.update(images, labels), 2, 8),
        "torch: CNN, 128": fastest(lambda: conv.update(square, labels), 1, 8),
        "bbb: update, 16 rows": fastest(lambda: bbb.update(x[:16], y[:16]), 30),
        "bbb: epoch, batch 50": fastest(lambda: bbb.fit(x, y, batch_size=50, **once), 2),
        "local: epoch, batch 50": fastest(lambda: local.fit(x, y, batch_size=50, **once), 2),
        "backprop: update, 16 rows": fastest(lambda: point.update(x[:16], y[:16]), 50),
        "backprop: epoch, batch 50": fastest(lambda: point.fit(x, y, batch_size=50, **once), 3),
        "ensemble: epoch, batch 50": fastest(lambda: five.fit(x, y, batch_size=50, **once), 2),
    }
    sizes = named(n_features=8, n_actions=2)
    bandit = tr.agents.Bandit(tr.TAGI(dense(10), normal(0.5)), **sizes)
    learn, context = bandit.learn if is_former else bandit.update, x[0].numpy()
    found["bandit: act and learn"] = fastest(lambda: learn(context, bandit.act(context), 0.3), 100)
    control = tr.agents.TAGIControl("Pendulum-v1", seed=1, **named(n_steps=256))
    found["control: 256 steps"] = fastest(lambda: control.learn(256), 1, 4)
    return found


def run(source: Path) -> dict[str, float]:
    """Measure another checkout in a separate process."""
    environment = {**os.environ, "PYTHONPATH": str(source.resolve()), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", str(Path(__file__).resolve()), "--measure"]
    text = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(text.stdout)
    return found


def main() -> None:
    """Compare both checkouts, print a table and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", nargs="?", type=Path, help="folder src of the other checkout")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", action="store_true", help="measure the installed library")
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure()))
        return
    sources = {"before": options.before, "now": HERE.parent / "src"}
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in sources}
    for _ in range(options.rounds):
        for name, source in sources.items():
            rounds[name].append(run(source))
    table = {}
    for step in rounds["now"][0]:
        before, now = (min(r[step] for r in rounds[name]) for name in sources)
        table[step] = {
            "before": round(before, 1),
            "now": round(now, 1),
            "ratio": round(now / before, 3),
        }
        print(f"{step:32} {before:10.1f} {now:10.1f} µs  {now / before:.3f}")
    commits = {
        name: subprocess.run(
            ["git", "-C", str(source), "rev-parse", "--short=12", "HEAD"],
            check=True, capture_output=True, text=True,
        ).stdout.strip()
        for name, source in sources.items()
    }  # fmt: skip
    results = {"commits": commits, "rounds": options.rounds, "microseconds": table}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
