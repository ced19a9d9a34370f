"""Sampled mutants of the source: ``python -m tests.mutants --seconds 1800 --seed 1``.

A mutant is a small random change of a formula, for example a sign, a factor or a comparison.  The
tests that execute the changed line are run until one of them fails.  Mutants that no test notices
are listed, with the reason if it is known (``reviewed.py``).
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path

from tests.faults.trial import commit
from tests.mutants import report
from tests.mutants.sampling import SUITES, run

RESULTS = Path(__file__).parent / "results.json"


def main(arguments: list[str] | None = None) -> None:
    """Sample mutants until the time is over, and write the results and their table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1800.0, help="time limit")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    parser.add_argument("--only", choices=SUITES, action="append", help="subpackage, repeatable")
    parser.add_argument("--number", type=int, default=60, help="mutants per subpackage at most")
    parser.add_argument("--log", type=Path, help="file to append every result to")
    parser.add_argument("--table", action="store_true", help="only rewrite the table")
    parser.add_argument("--output", type=Path, default=RESULTS, help="results as JSON")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and stop the children
    kept = json.loads(options.output.read_text()) if options.output.is_file() else {}
    if not options.table:
        for name in options.only or [*SUITES]:
            share = options.seconds / len(options.only or SUITES)
            at = commit()
            done = run(name, share, options.seed, options.number, options.log)
            command = f"python -m tests.mutants --only {name} --seed {options.seed}"
            kept[name] = {
                "command": f"{command} --seconds {share:g} --number {options.number}",
                "seed": options.seed,
                "commit": at,
                "seconds": round(sum(r["seconds"] for r in done), 1),
                "mutants": done,
            }
            options.output.write_text(json.dumps(kept, indent=1) + "\n")
    if options.output == RESULTS:
        report.write(kept)
    sys.stdout.write(report.scores(kept))


if __name__ == "__main__":
    main()
