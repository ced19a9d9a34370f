"""Run benchmarks and write what they found to ``results/bench.json``.

    python -m benchmarks            all of them
    python -m benchmarks steps      only some

Run on an otherwise idle machine: figures are ratios within one run, but not across load.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from tractable.experiments.record import Record
from tractable.report.results import Results

NAMES = ("steps", "memory", "native", "infer")


def main() -> None:
    """Run each benchmark, print its report and keep its figures."""
    parser = argparse.ArgumentParser(description="Step times and memory.")
    parser.add_argument("names", nargs="*", default=list(NAMES))
    parser.add_argument("--out", type=Path, default=Path("results"))
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in NAMES]
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}; there are {', '.join(NAMES)}")
    record = Record("bench", seeds=[0], settings={"benchmarks": args.names})
    earlier = args.out / "bench.json"
    if earlier.is_file():
        record.figures = Results.read(earlier).metrics
    for name in args.names:
        module = importlib.import_module(f"benchmarks.{name}")
        print(f"--- {name}", flush=True)
        figures = module.main()
        print(module.report(figures), flush=True)
        record.figures[name] = figures
        record.write(args.out)


if __name__ == "__main__":
    main()
