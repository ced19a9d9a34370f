"""The command line that all experiments share."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import torch


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and leave with exit code 2."""
        self.exit(2, f"error: {message} (see --help)\n")


class _Help(argparse.HelpFormatter):
    """Options with their defaults, where there is one."""

    def _get_help_string(self, action: argparse.Action) -> str:
        text = action.help or ""
        shown = action.default not in (None, False, argparse.SUPPRESS) and action.option_strings
        return f"{text} (default: %(default)s)".strip() if shown else text


def parser(
    name: str, doc: str | None, *, seed: int | Sequence[int] = 0, resume: bool = False
) -> Parser:
    """A parser with ``--quick``, ``--seed``, ``--out``, ``--threads`` and perhaps ``--resume``.

    Args:
        name: of the experiment.
        doc: its module's docstring; the first line is the description.
        seed: the default; several if the experiment is repeated over seeds.
        resume: whether it has checkpoints.
    """
    made = Parser(
        prog=f"tractable run {name}",
        description=(doc or "").partition("\n")[0],
        allow_abbrev=False,
        formatter_class=_Help,
    )
    made.add_argument("--quick", action="store_true", help="small sizes: within two minutes")
    if isinstance(seed, int):
        made.add_argument("--seed", type=int, default=seed, metavar="N", help="of all chance")
    else:
        made.add_argument(
            "--seed", type=int, nargs="+", default=list(seed), metavar="N", help="one or several"
        )
    made.add_argument(
        "--out", type=Path, metavar="DIR",
        help=f"folder for results, report and checkpoints; out/{name}, with --quick "
        f"out/{name}-quick",
    )  # fmt: skip
    made.add_argument("--threads", type=int, default=1, help="of torch")
    if resume:
        made.add_argument(
            "--resume", action=argparse.BooleanOptionalAction, default=True,
            help="go on from the checkpoints in the folder, or begin anew",
        )  # fmt: skip
    made.set_defaults(experiment=name)
    return made


def parse(
    parser: Parser,
    argv: Sequence[str] | None,
    quick: Mapping[str, Any],
    name: Callable[[argparse.Namespace], str] | None = None,
) -> argparse.Namespace:
    """Parse, check the folder and set torch's threads.

    Args:
        parser: from ``parser``.
        argv: the arguments; those of the shell if None.
        quick: new defaults under ``--quick``; what the user gives still counts.
        name: the experiment, where a module has several: it names the default folder.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if "--quick" in words:
        parser.set_defaults(**quick)
    args = parser.parse_args(words)
    if name is not None:
        args.experiment = name(args)
    if args.out is None:
        args.out = Path("out") / (args.experiment + ("-quick" if args.quick else ""))
    if args.threads < 1:
        parser.error(f"--threads must be at least 1, got {args.threads}")
    problem = unwritable(args.out)
    if problem:
        parser.error(problem)
    torch.set_num_threads(args.threads)
    return args


def settings(args: argparse.Namespace, *without: str) -> dict[str, Any]:
    """The choices of a run, without those that only say where and how to run it."""
    left_out = {"out", "threads", "seed", "resume", "experiment", *without}
    chosen = {key: value for key, value in vars(args).items() if key not in left_out}
    return {key: str(v) if isinstance(v, Path) else v for key, v in chosen.items()}


def unwritable(folder: Path) -> str | None:
    """Why a folder could not be made or written to, or None; nothing is made."""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        return f"cannot write to {folder}: {there} is not a folder"
    if not os.access(there, os.W_OK | os.X_OK):
        return f"cannot write to {folder}: no permission to write in {there}"
    return None
