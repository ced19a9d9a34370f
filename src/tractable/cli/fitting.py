"""``tractable fit`` and ``tractable predict``."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

from tractable.cli import csv_file, output
from tractable.cli.errors import BadUse
from tractable.experiments.options import unwritable


def widths(text: str) -> tuple[int, ...]:
    """Widths of hidden layers; nothing means a linear model.

    >>> widths("64,32"), widths("")
    ((64, 32), ())
    """
    try:
        return tuple(int(word) for word in text.replace(",", " ").split())
    except ValueError:
        raise BadUse(f"--hidden wants widths such as 64,64, got {text!r}") from None


def run(json: bool, **chosen: Any) -> None:
    """Fit, and print a summary."""
    from tractable.cli.model_file import MODEL
    from tractable.cli.training import Choices, fit

    choices = Choices(**chosen, progress=sys.stderr.isatty() and not json)
    results = fit(choices)
    folder = choices.out
    if json:
        output.as_json(
            {
                "model": str(folder / MODEL),
                "report": str(folder / "report.html"),
                "task": results.settings["task"],
                "learner": choices.learner,
                "notes": results.notes,
                "figures": results.figures,
            }
        )
        return
    output.show_results(results)
    if results.calibration is not None and results.calibration.kind == "coverage":
        stated, observed = next(iter(results.calibration.curves.values()))
        pairs = zip(stated, observed, strict=True)
        parts = [f"{100 * s:.0f} %: {100 * (o or 0):.0f} %" for s, o in pairs]
        output.say(f"intervals cover (stated: observed)  {', '.join(parts)}")
    output.say(f"model: {folder / MODEL}")
    output.say(f"report: {folder / 'report.html'}")


def predict(
    model: Path, data: Path, out: Path | None, *, level: float, missing: str | None, json: bool
) -> None:
    """Predict, and write or print the rows."""
    if out is not None:
        problem = f"{out} is a folder, wanted a file" if out.is_dir() else unwritable(out.parent)
        if problem is None and not out.parent.is_dir():
            problem = f"no folder {out.parent} for {out.name}"
        if problem:
            raise BadUse(problem)
    from tractable.cli import model_file, predicting

    held = model_file.load(model)
    header, rows = predicting.predict(held, data, level=level, missing=missing)
    if out is not None:
        csv_file.write(out, header, rows)
        if json:
            output.as_json({"rows": len(rows), "columns": header, "out": str(out)})
        else:
            output.say(f"{len(rows)} rows of {held.target} to {out}")
    elif json:
        output.as_json([dict(zip(header, row, strict=True)) for row in rows])
    else:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerows([header, *rows])
