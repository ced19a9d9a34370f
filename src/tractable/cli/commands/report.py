"""``tractable report``."""

from __future__ import annotations

from pathlib import Path

from tractable.cli import output
from tractable.cli.errors import BadUse
from tractable.cli.folder import unwritable
from tractable.report import InvalidResults, find_results, write_index, write_report


def report(folder: Path, json: bool) -> None:
    """Write the pages of the runs below a folder again, and the index that joins them."""
    if not folder.is_dir():
        raise BadUse(
            f"{folder} is a file, wanted a folder" if folder.exists() else f"no folder {folder}"
        )
    problem = unwritable(folder)
    if problem:
        raise BadUse(problem)
    try:
        runs = find_results(folder)
    except InvalidResults as error:
        raise BadUse(str(error)) from error
    if not runs:
        raise BadUse(
            f"no results below {folder}: wanted results.json files, as `tractable run` and "
            f"`tractable fit` write them"
        )
    for run in runs:
        if run.path.name == "results.json":
            write_report(run.results, run.path.parent)
    page = write_index(folder, runs)
    if json:
        output.as_json({"index": str(page), "runs": [str(run.path) for run in runs]})
    else:
        output.say(f"{len(runs)} runs: {page}")
