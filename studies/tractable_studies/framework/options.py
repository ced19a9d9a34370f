"""The command line of a study: options defined by the fields of a frozen dataclass.

    @dataclass(frozen=True, kw_only=True)
    class Options(StudyOptions):
        seed: int = seed_option(0)
        epochs: int = option(40, "number of passes over the data", quick=10, min_value=1)

This defines ``--epochs`` with the default 40, and 10 with ``--quick``.  An option whose type is a
list takes several values: ``--seed 0 1 2``.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_origin, get_type_hints

import torch
import typer

from tractable.cli.errors import UsageError, report_error, unknown_name
from tractable.cli.folder import write_problem
from tractable_studies.framework.study import Study

_SAME = object()


def option(
    default: Any,
    help: str = "",
    *,
    quick: Any = _SAME,
    choices: Iterable[str] | None = None,
    min_value: float | None = None,
    metavar: str | None = None,
    also: Sequence[str] = (),
) -> Any:
    """Return a dataclass field that defines an option.

    Args:
        default: default value.
        help: description in ``--help``.
        quick: default with ``--quick``, if different.
        choices: allowed values.
        min_value: minimum value.
        metavar: name of the value in ``--help``.
        also: other names of the option.
    """
    known = None if choices is None else tuple(choices)
    metadata = {
        "help": f"{help}: {', '.join(known)}".removeprefix(": ") if known else help,
        "quick": quick, "choices": known, "min_value": min_value, "metavar": metavar,
        "also": tuple(also),
    }  # fmt: skip
    if isinstance(default, list):
        return dataclasses.field(default_factory=lambda: list(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def argument(help: str, choices: Iterable[str]) -> Any:
    """Return a dataclass field that defines a positional argument."""
    known = tuple(choices)
    metadata = {"help": f"{help}: {', '.join(known)}", "choices": known, "place": True}
    return dataclasses.field(metadata=metadata)


def seed_option(default: int | Sequence[int], *, quick: Any = _SAME) -> Any:
    """Return the option ``--seed``, with several values for a study that is repeated over seeds."""
    if isinstance(default, int):
        return option(default, "random seed", quick=quick, metavar="N")
    return option(list(default), "random seeds", quick=quick, metavar="N")


def resume_option() -> Any:
    """Return the options ``--resume`` and ``--no-resume``."""
    return option(True, "resume from the checkpoints in the folder, or start again")


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """Options of all studies.

    Attributes:
        study: description of the study; not an option.
    """

    quick: bool = option(False, "use small sizes; takes at most two minutes")
    out: Path = option(
        None,
        "folder for results, report and checkpoints. Default: out/NAME or out/NAME-quick",
        metavar="DIR",
    )
    threads: int = option(1, "number of torch threads", min_value=1)
    study: Study

    def check(self) -> None:
        """Raise ``UsageError`` for invalid combinations of options; a study may override it."""


Options = TypeVar("Options", bound=StudyOptions)


def parse(
    kind: type[Options],
    study: Study | Mapping[str, Study],
    argv: Sequence[str] | None,
    doc: str | None = None,
) -> Options:
    """Parse the command line, check the folder and set the number of torch threads.

    Invalid options exit with code 2 and a message in one line, ``--help`` with code 0.

    Args:
        kind: dataclass of the options.
        study: description of the study; a mapping if the positional argument selects the study.
        argv: arguments; default: those of the shell.
        doc: docstring of the module, whose first line is shown by ``--help``.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    program = f"tractable run {study.name}" if isinstance(study, Study) else kind.__module__
    try:
        app = _command(kind, study, doc, quick="--quick" in words)
        found = app.main(_repeated(kind, words), prog_name=program, standalone_mode=False)
        if isinstance(found, kind):
            _check(found)
            torch.set_num_threads(found.threads)
            return found
    except Exception as error:
        sys.exit(report_error(error))
    sys.exit(found)


def settings(options: StudyOptions, *without: str) -> dict[str, Any]:
    """Return the options that affect the results."""
    excluded = {"out", "threads", "seed", "resume", "study", *without}
    fields = [field.name for field in dataclasses.fields(options) if field.name not in excluded]
    chosen = {name: getattr(options, name) for name in fields}
    return {key: str(v) if isinstance(v, Path) else v for key, v in chosen.items()}


def require(name: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise an error for unknown values of an option, with similar ones."""
    names = list(known)
    for value in given:
        if value not in names:
            raise unknown_name(f"choice of {_flag(name)}", value, names)


def _command(
    kind: type[Options], study: Study | Mapping[str, Study], doc: str | None, *, quick: bool
) -> Any:
    """Return the Typer command that creates an instance of the dataclass."""
    hints = get_type_hints(kind)

    def make(**values: Any) -> Options:
        for field in _fields(kind):
            _check_value(field, values[field.name])
        place = next((f.name for f in _fields(kind) if "place" in f.metadata), None)
        chosen = study if isinstance(study, Study) else study[values[str(place)]]
        folder = Path("out") / (chosen.name + ("-quick" if values["quick"] else ""))
        return kind(**{**values, "out": values["out"] or folder, "study": chosen})

    parameters = [_parameter(field, hints[field.name], quick) for field in _fields(kind)]
    make.__doc__ = (doc or "").partition("\n")[0]
    make.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    make.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.command()(make)
    return typer.main.get_command(app)


def _fields(kind: type[StudyOptions]) -> list[dataclasses.Field[Any]]:
    fields = [field for field in dataclasses.fields(kind) if "help" in field.metadata]
    return sorted(fields, key=lambda field: "place" not in field.metadata)


def _parameter(field: dataclasses.Field[Any], hint: Any, quick: bool) -> inspect.Parameter:
    """Return the parameter of a field for Typer."""
    metadata = field.metadata
    keyword = inspect.Parameter.KEYWORD_ONLY
    if "place" in metadata:
        hint = Annotated[hint, typer.Argument(help=metadata["help"])]
        return inspect.Parameter(field.name, keyword, annotation=hint)
    default = field.default
    if field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    if quick and metadata["quick"] is not _SAME:
        default = metadata["quick"]
    if get_origin(hint) is Literal:  # its values are the choices
        hint = str
    if default is None and type(None) not in getattr(hint, "__args__", ()):
        hint = hint | None
    flag = _flag(field.name)
    names = (f"{flag}/--no-{flag[2:]}",) if hint is bool and field.default is True else (flag,)
    made = typer.Option(
        *names, *metadata["also"], help=metadata["help"], metavar=metadata["metavar"]
    )
    return inspect.Parameter(field.name, keyword, default=default, annotation=Annotated[hint, made])


def _repeated(kind: type[StudyOptions], words: Sequence[str]) -> list[str]:
    """Return arguments with the option repeated before each value of a list, for Typer."""
    hints = get_type_hints(kind)
    lists = {_flag(f.name) for f in _fields(kind) if _is_list(hints[f.name])}
    made: list[str] = []
    under: str | None = None
    for word in words:
        if word.startswith("--"):
            under = word if word in lists else None
            made += [] if under else [word]
        else:
            made += [under, word] if under else [word]
    return made


def _is_list(hint: Any) -> bool:
    return any(get_origin(part) is list for part in (hint, *getattr(hint, "__args__", ())))


def _check_value(field: dataclasses.Field[Any], value: Any) -> None:
    """Check the choices and the minimum of an option."""
    choices, min_value = field.metadata["choices"], field.metadata.get("min_value")
    if value is None:
        return
    if choices is not None:
        require(field.name, [value] if isinstance(value, str) else value, choices)
    if min_value is not None:
        for number in value if isinstance(value, list) else [value]:
            if number < min_value:
                raise UsageError(f"{_flag(field.name)} must be at least {min_value}, got {number}")


def _check(options: StudyOptions) -> None:
    problem = write_problem(options.out)
    if problem:
        raise UsageError(problem)
    options.check()


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
