"""Run benchmarks and write the results to ``benchmarks/results/bench.json``.

    python -m benchmarks            all of them
    python -m benchmarks steps      only some

Run on an otherwise idle machine: times are ratios within one run, but not across load.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from tractable.report.results import Results
from tractable_studies.framework.record import RunRecord
from tractable_studies.framework.study import OURS, Study

STUDY = Study("bench", "Step times and memory", OURS, "benchmarks")
NAMES = (
    "steps",
    "memory",
    "predict",
    "native",
    "infer",
    "estimators",
    "guards",
    "graphs",
    "likelihoods",
    "forecast",
    "sequences",
    "vae",
    "flows",
)


def main() -> None:
    """Run each benchmark, print its report and store its metrics."""
    parser = argparse.ArgumentParser(description="Step times and memory.")
    parser.add_argument("names", nargs="*", default=list(NAMES))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in NAMES]
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}; there are {', '.join(NAMES)}")
    record = RunRecord(STUDY, seeds=[0], settings={"benchmarks": args.names})
    earlier = args.out / "bench.json"
    if earlier.is_file():
        record.metrics = Results.read(earlier).metrics
    for name in args.names:
        module = importlib.import_module(f"benchmarks.{name}")
        print(f"--- {name}", flush=True)
        metrics = module.main()
        print(module.report(metrics), flush=True)
        record.metrics[name] = metrics
        args.out.mkdir(parents=True, exist_ok=True)
        record.results().write(earlier)


if __name__ == "__main__":
    main()
