"""``tractable synth``: new rows from a model of rows."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from tractable.cli import output
from tractable.cli.errors import BadUse
from tractable.cli.table import csv_file, rows, write_file

_MOST = 10_000_000


def run(model: Path, number: int, out: Path | None, *, seed: int, json: bool) -> None:
    """Draw rows, and write or print them."""
    if not 1 <= number <= _MOST:
        raise BadUse(f"-n must be from 1 to {_MOST}, got {number}")
    if out is not None:
        write_file.place(out)
    held, table = rows.load(model)
    generator = torch.Generator().manual_seed(seed)
    drawn = held.predict().sample(number, generator).double().numpy()
    lines = table.decode(drawn)
    if out is not None:
        ways = {c.name: c.notation for c in table.columns if not c.levels}
        write_file.write(out, table.names, write_file.numbered(table.names, lines, ways, out))
        if json:
            output.as_json({"rows": number, "columns": table.names, "out": str(out)})
        else:
            output.say(f"{number} new rows to {out}")
    elif json:
        output.as_json([dict(zip(table.names, line, strict=True)) for line in lines])
    else:
        csv_file.write_rows(sys.stdout, table.names, lines)
