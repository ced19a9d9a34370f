"""Plant faults and see which test finds each: ``python -m tests.faults``.

Faults are planted one at a time in a scratch copy.  The tests named with the fault are run first,
then the rest of the tests of its subpackage, until one fails.  Where the fault is inside of a
function, the named tests are run with the fault planted in memory (``in_memory.py``).  A fault
that is in the results file is skipped unless ``--again`` is given, so that an interrupted run can
be resumed; those that reached their time limit are planted again, best with a larger ``--limit``.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.faults import in_memory
from tests.faults.catalog import FAULTS, SUITES, Fault
from tests.faults.trial import PACKAGE, ROOT, Scratch, commit

RESULTS = Path(__file__).parent / "results.json"
SECONDS_PER_FAULT = 900
Result = dict[str, Any]


def files_of(fault: Fault) -> tuple[list[str], list[str]]:
    """Return the test files that are run first, and the others of the subpackage."""
    first = [*dict.fromkeys(f"tests/{name.split('::')[0]}" for name in fault.tests.split())]
    rest: list[str] = []
    for folder in SUITES[fault.subpackage]:
        files = sorted((ROOT / "tests" / folder).glob("test_*.py"))
        rest += [str(file.relative_to(ROOT)) for file in files]
    doctests = [] if fault.subpackage == "native" else [str(PACKAGE / fault.subpackage)]
    return first, [*doctests, *(file for file in rest if file not in first)]


def find(scratch: Scratch, fault: Fault, limit: float) -> Result:
    """Plant one fault in its file and run tests until one fails, those named with it first."""
    text = scratch.text(fault.file)
    if text.count(fault.old) != 1:
        raise ValueError(f"{fault.name}: the text occurs {text.count(fault.old)} times, not once")
    found: Result = {"file": fault.file, "what": fault.what, "found_by": None, "seconds": 0.0}
    native = fault.subpackage == "native"
    with scratch.changed(fault.file, text.replace(fault.old, fault.new)):
        if native:
            scratch.compile_kernel()
        for tests in files_of(fault):
            run = scratch.pytest(tests, limit - found["seconds"])
            found["seconds"] = round(found["seconds"] + run.seconds, 1)
            if run.failed:
                found["found_by"] = run.failed[0]
                break
            if not run.complete:
                found["incomplete"] = True
                break
    if "::" not in (found["found_by"] or "::"):  # a file that cannot be imported, or a crash
        scratch.check_collection(tests)
    return found


def verify(scratch: Scratch, found: list[dict[str, Any]]) -> None:
    """Forget what tests found that fail without any fault, too."""
    tests = sorted({r["found_by"] for r in found if "::" in (r["found_by"] or "")})
    if tests:
        failing = set(scratch.pytest(tests, 1800, first_failure=False).failed)
        for result in found:
            if result["found_by"] in failing:
                result.update(found_by=None, fails_without_fault=True)


def main(arguments: list[str] | None = None) -> None:
    """Plant all faults that the results file lacks, then rewrite the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=SUITES, action="append", help="subpackage, repeatable")
    parser.add_argument("--again", action="store_true", help="plant faults with results again")
    parser.add_argument("--limit", type=float, default=SECONDS_PER_FAULT, help="seconds a fault")
    parser.add_argument("--log", type=Path, help="file to append results in memory to")
    parser.add_argument("--quick", action="store_true", help="only plant faults in memory")
    parser.add_argument("--table", action="store_true", help="only rewrite the table")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and stop the children
    results = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    names = {fault.name for fault in FAULTS}
    results = {name: result for name, result in results.items() if name in names}
    chosen = [
        fault
        for fault in FAULTS
        if fault.subpackage in (options.only or SUITES)
        and (options.again or results.get(fault.name, {"incomplete": True}).get("incomplete"))
    ]
    if chosen and not options.table:
        run(chosen, results, options.limit, options.log, options.quick)
    sys.stdout.write(write_table(results))


def run(
    faults: list[Fault], results: dict[str, Any], limit: float, log: Path | None, quick_only: bool
) -> None:
    """Plant faults in memory where possible and else in the files, and write each result."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Scratch(Path(folder) / "copy")
        at, fresh = commit(), []
        for subpackage in SUITES:
            mine = [fault for fault in faults if fault.subpackage == subpackage]
            quick = {} if subpackage == "native" else in_memory_results(scratch, mine, limit, log)
            for fault in mine:
                test, seconds = quick.get(fault.name, (None, 0.0))
                found = {"file": fault.file, "what": fault.what, "found_by": test}
                found |= {"seconds": seconds} | ({} if test else {"incomplete": True})
                if test is None and not quick_only:
                    found = find(scratch, fault, limit)
                    fresh.append(found)
                results[fault.name] = found | {"commit": at}
                sys.stderr.write(f"{fault.name}: {found['found_by']}, {found['seconds']} s\n")
                write(results)
        if any(fault.subpackage == "native" for fault in faults):
            scratch.compile_kernel()
        verify(scratch, fresh)
        for fault in faults:
            results[fault.name] |= next((f for f in fresh if named(f) == fault.name), {})
        write(results)


def named(found: dict[str, Any]) -> str:
    """Return the name of the fault that a result is of."""
    return f"{found['file']}: {found['what']}"


def in_memory_results(
    scratch: Scratch, faults: list[Fault], limit: float, log: Path | None
) -> dict[str, Any]:
    """Return the faults of a subpackage that were planted in memory, with what found them."""
    if not faults:
        return {}
    texts = {fault.file: scratch.text(fault.file) for fault in faults}
    session = in_memory.Planted(scratch.folder / PACKAGE, faults, texts, limit, log)
    found, _, code = scratch.call(in_memory.main, session)
    if found is None:
        raise RuntimeError(f"faults of {faults[0].subpackage} were not planted: exit code {code}")
    return dict(found)


def write(results: dict[str, Any]) -> None:
    """Write the results in the order of the faults."""
    ordered = {fault.name: results[fault.name] for fault in FAULTS if fault.name in results}
    RESULTS.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")


def write_table(results: dict[str, Any]) -> str:
    """Write the results as Markdown, and return the number of faults found by subpackage."""
    lines = [
        "# Planted faults",
        "",
        "Command: `python -m tests.faults`. Each fault is planted alone in a scratch copy; the",
        "commit of every result is in `results.json`.",
        "",
        "| subpackage | faults | found |",
        "|---|---|---|",
    ]
    order = [fault for fault in FAULTS if fault.name in results]
    for name in SUITES:
        mine = [results[fault.name] for fault in order if fault.subpackage == name]
        if mine:
            lines.append(f"| {name} | {len(mine)} | {sum(bool(r['found_by']) for r in mine)} |")
    number = sum(bool(results[fault.name]["found_by"]) for fault in order)
    lines.append(f"| all | {len(order)} | {number} |")
    summary = "\n".join(lines[5:]) + "\n"
    lines += ["", "| file | fault | found by | seconds |", "|---|---|---|---|"]
    for fault in order:
        result = results[fault.name]
        test = (result["found_by"] or "not found").removeprefix("tests/").replace("|", r"\|")
        where = f"`{test}`" if result["found_by"] else f"**{test}**"
        lines.append(f"| {fault.file} | {fault.what} | {where} | {result['seconds']} |")
    (RESULTS.parent / "README.md").write_text("\n".join(lines) + "\n")
    return summary


if __name__ == "__main__":
    main()
