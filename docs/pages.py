"""The pages of this documentation as programs: their code, what it prints, the figures it makes.

The ``python`` blocks of a page run in order, in one namespace and in a folder of their own; a
``console`` block holds commands of ``tractable``.  A ``text`` block right after either is what it
prints.  A ``python`` block with a ``title`` is a file of that name in the folder: the blocks after
it can import it.  The tests run every page; this module also renews the figures::

    python -m docs.pages                # all pages
    python -m docs.pages online states  # these
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl

DOCS = Path(__file__).parent
FIGURES = DOCS / "figures"
DPI = 90
COLORS = 96
"""Of a figure's palette: enough for bands and smooth edges of letters, in a third of the bytes."""

_BLOCK = re.compile(
    r"^```(?P<kind>python|console)(?: title=\"(?P<file>\w+\.py)\")?\n(?P<code>.*?)^```\n"
    r"(?:\n```text\n(?P<output>.*?)^```\n)?",
    flags=re.DOTALL | re.MULTILINE,
)
_DECIMAL = re.compile(r"-?\d+\.\d+|\d+(?= ?%)")
_FIGURE = re.compile(r"!\[[^\]]*\]\((?:\.\./)*figures/([\w-]+\.png)\)")


@dataclass(frozen=True)
class Block:
    """Code on a page.

    Attributes:
        kind: ``"python"`` or ``"console"``.
        code: the text.
        line: of the page, where it begins.
        output: what it should print; None where the page does not say.
        file: name of the file that it is, which is written instead of run; None for no file.
    """

    kind: str
    code: str
    line: int
    output: str | None
    file: str | None = None


def pages() -> list[Path]:
    """All pages, in order."""
    return sorted(DOCS.rglob("*.md"))


def blocks(page: Path) -> list[Block]:
    """The code of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            found["kind"],
            found["code"],
            1 + text.count("\n", 0, found.start()),
            found["output"],
            found["file"],
        )
        for found in _BLOCK.finditer(text)
    ]


def figures(page: Path) -> list[str]:
    """The figures that a page shows, by file name."""
    return _FIGURE.findall(page.read_text(encoding="utf-8"))


def run(page: Path, folder: Path) -> Iterator[tuple[Block, str]]:
    """Run a page in a folder, block by block; gives each block with what it printed."""
    import matplotlib.pyplot as plt

    space: dict[str, Any] = {"__name__": page.stem}
    mpl.use("Agg")
    with (
        contextlib.chdir(folder),
        _importing(folder),
        warnings.catch_warnings(),
        mpl.rc_context({"savefig.dpi": DPI, "figure.max_open_warning": 0}),
    ):
        warnings.simplefilter("error")
        try:
            for block in blocks(page):
                yield block, _run(page, block, space)
        finally:
            plt.close("all")


def as_said(block: Block, printed: str) -> bool:
    """Whether a block printed what the page says; ``...`` stands for anything.

    Shares in percent and numbers with a decimal point may differ a little (``_close``), since sums
    are made in another order on another processor: so pages can show them.
    """
    if block.output is None:
        return True
    said, found = block.output.splitlines(), printed.splitlines()
    if len(said) != len(found):
        return _matches(block.output, printed)
    return all(map(_line_as_said, said, found)) or _matches(block.output, printed)


def _matches(said: str, printed: str) -> bool:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.OutputChecker().check_output(f"{said}\n", f"{printed}\n", flags)


def _line_as_said(said: str, printed: str) -> bool:
    if _matches(said, printed):
        return True
    if _DECIMAL.sub("#", said).split() != _DECIMAL.sub("#", printed).split():
        return False
    return all(map(_close, _DECIMAL.findall(said), _DECIMAL.findall(printed)))


def _close(said: str, printed: str) -> bool:
    """Whether two printed numbers differ by at most a tenth, or two units of their last digit.

    >>> _close("0.93", "0.95"), _close("0.93", "0.80"), _close("12.5", "13.4")
    (True, False, True)
    """
    unit = 10.0 ** -len(said.partition(".")[2])
    return abs(float(said) - float(printed)) <= max(2.01 * unit, abs(float(said)) / 10)


@contextlib.contextmanager
def _importing(folder: Path) -> Iterator[None]:
    """Modules of the folder can be imported inside the block, and are forgotten after it."""
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
                del sys.modules[name]


def _run(page: Path, block: Block, space: dict[str, Any]) -> str:
    if block.file is not None:
        Path(block.file).write_text(block.code, encoding="utf-8")
        return ""
    return _python(page, block, space) if block.kind == "python" else _console(block)


def _python(page: Path, block: Block, space: dict[str, Any]) -> str:
    printed = io.StringIO()
    lines = "\n" * block.line + block.code  # so that errors name the line
    code = compile(lines, str(page), "exec", dont_inherit=True)
    with contextlib.redirect_stdout(printed):
        exec(code, space)
    return printed.getvalue()


def _console(block: Block) -> str:
    from typer.testing import CliRunner

    from tractable.cli.app import app

    printed = ""
    for line in block.code.splitlines():
        program, *arguments = shlex.split(line.removeprefix("$ "))
        if program != "tractable":
            raise ValueError(
                f"line {block.line}: console blocks hold commands of tractable: {line}"
            )
        result = CliRunner().invoke(app, arguments, prog_name="tractable")
        if result.exit_code:
            raise RuntimeError(f"exit code {result.exit_code} of {line!r}: {result.output}")
        printed += result.output
    return printed


def renew(page: Path) -> list[Path]:
    """Run a page and keep its figures; returns where they are."""
    kept = []
    with tempfile.TemporaryDirectory() as folder:
        for block, printed in run(page, Path(folder)):
            if not as_said(block, printed):
                sys.stderr.write(f"{page.name}, line {block.line}, prints\n{printed}")
        for name in figures(page):
            if (Path(folder) / name).is_file():
                kept.append(_keep(Path(folder) / name))
    return kept


def _keep(made: Path) -> Path:
    from PIL import Image

    target = FIGURES / made.name
    with Image.open(made) as image:
        image.convert("RGB").quantize(COLORS).save(made, optimize=True)
    FIGURES.mkdir(exist_ok=True)
    shutil.copyfile(made, target)
    return target


def main(names: list[str]) -> None:
    """Renew the figures of the named pages, or of all."""
    known = {page.stem: page for page in pages() if figures(page) and blocks(page)}
    for name in names:
        if name not in known:
            raise SystemExit(f"no page {name!r} with figures; there are {', '.join(known)}")
    for name in names or known:
        for path in renew(known[name]):
            sys.stdout.write(
                f"{path.relative_to(DOCS.parent)}  {path.stat().st_size / 1000:.0f} kB\n"
            )


if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)
    main(sys.argv[1:])
