"""A person's first ten minutes, as commands: help, a spreadsheet, a report, new rows.

A table as a spreadsheet exports it in half of Europe: semicolons, decimal commas, dates,
categories, blanks, letters that are not UTF-8, a first column that counts the rows.  Nothing is
prepared.

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
    """Flats and what they were sold for."""
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
    """Run a command, show it and the first lines of what it says."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "tractable", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    print(f"$ tractable {' '.join(words)}   ({time.perf_counter() - started:.1f} s)")
    said = done.stdout + done.stderr
    print("\n".join(f"  {line}" for line in said.splitlines()[:14]))
    if done.returncode:
        raise SystemExit(f"a dead end: exit code {done.returncode}")
    return said


def computed() -> float:
    """Seconds of processor time of all commands that this process ran so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(rows: int = 300) -> float:
    """The ten minutes; the seconds of processor time that these commands took."""
    started, before = time.perf_counter(), computed()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "flats.csv").write_text(table(rows, seed=0), encoding="cp1252")
        new = table(20, seed=1, towns=("Brno", "Delft"), prices=False)
        (folder / "new.csv").write_text(new, encoding="cp1252")
        tractable(folder)
        tractable(folder, "fit", "--help")
        said = tractable(folder, "fit", "flats.csv", "--target", "Preis")
        assert "Numbers with a decimal comma: Größe." in said
        assert "of the week: verkauft am." in said
        page = (folder / "out/flats/report.html").read_text(encoding="utf-8")
        assert "How good is it?" in page
        assert "Which columns matter?" in page
        tractable(folder, "predict", "out/flats", "new.csv", "--keep", "all")
        said = tractable(folder, "predict", "out/flats", "new.csv", "-o", "predicted.csv")
        assert "'Delft' not seen in training, taken as missing" in said
    seconds = time.perf_counter() - started
    busy = computed() - before
    print(f"{seconds:.0f} s in all, {busy:.0f} s of them computing")
    return busy


if __name__ == "__main__":
    main()
