"""First steps with the command line: help, fitting a table, the report, and predictions.

The table has the format of a spreadsheet export in many European countries: semicolons, decimal
commas, dates, categories, empty cells, an encoding other than UTF-8 and an index column. It is
used without preparation.

    python examples/first_ten_minutes.py
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

TOWNS = ("Köln", "Brno", "Cork", "Gent")


def table(rows: int, *, seed: int, towns: tuple[str, ...] = TOWNS, prices: bool = True) -> str:
    """Return a table of apartments and their prices as CSV text."""
    rng = np.random.default_rng(seed)
    lines = [";Größe;Zimmer;Ort;verkauft am" + (";Preis" if prices else "")]
    for row in range(rows):
        size, rooms = rng.normal(100, 20), int(rng.integers(1, 7))
        town, day = towns[int(rng.integers(len(towns)))], int(rng.integers(0, 500))
        price = 2 * size + 10 * rooms + 30 * (town == "Brno") + 0.1 * day + rng.normal(0, 10)
        date = np.datetime64("2023-01-01") + day
        cells = [str(row), f"{size:.1f}", str(rooms), town, f"{date.astype(object):%d.%m.%Y}"]
        for cell in (1, 3):
            cells[cell] = "" if rng.random() < 0.1 else cells[cell]
        cells += [f"{price:.2f}"] if prices else []
        lines.append(
            ";".join(c.replace(".", ",") if k in (1, 5) else c for k, c in enumerate(cells))
        )
    return "\n".join(lines) + "\n"


def tractable(folder: Path, *words: str) -> str:
    """Run a command, print it with the first lines of its output, and return the output."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "tractable", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    print(f"$ tractable {' '.join(words)}   ({time.perf_counter() - started:.1f} s)")
    output = done.stdout + done.stderr
    print("\n".join(f"  {line}" for line in output.splitlines()[:14]))
    if done.returncode:
        raise SystemExit(f"the command failed with exit code {done.returncode}")
    return output


def computed() -> float:
    """Return the processor time in seconds of all commands run so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(rows: int = 300) -> float:
    """Run all commands and return their processor time in seconds."""
    started, before = time.perf_counter(), computed()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "flats.csv").write_text(table(rows, seed=0), encoding="cp1252")
        new = table(20, seed=1, towns=("Brno", "Delft"), prices=False)
        (folder / "new.csv").write_text(new, encoding="cp1252")
        tractable(folder)
        tractable(folder, "fit", "--help")
        output = tractable(folder, "fit", "flats.csv", "--target", "Preis")
        assert "Numbers with a decimal comma: Größe." in output
        assert "of the week: verkauft am." in output
        page = (folder / "out/flats/report.html").read_text(encoding="utf-8")
        assert "Test metrics" in page
        assert "Importance of the columns" in page
        tractable(folder, "predict", "out/flats", "new.csv", "--keep", "all")
        output = tractable(folder, "predict", "out/flats", "new.csv", "-o", "predicted.csv")
        assert "'Delft' not in the training data, treated as missing" in output
    seconds = time.perf_counter() - started
    busy = computed() - before
    print(f"{seconds:.0f} s in total, {busy:.0f} s of processor time")
    return busy


if __name__ == "__main__":
    main()
