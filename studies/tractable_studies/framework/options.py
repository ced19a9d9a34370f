"""The command line of a study: a frozen dataclass, of which Typer makes the options.

    @dataclass(frozen=True, kw_only=True)
    class Options(StudyOptions):
        seed: int = seed_option(0)
        epochs: int = option(40, "over the data", quick=10, least=1)

``epochs`` is then ``--epochs``, 40 by default and 10 under ``--quick``.  An option whose type is a
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

_AS_ALWAYS = object()


def option(
    default: Any,
    help: str = "",
    *,
    quick: Any = _AS_ALWAYS,
    choices: Iterable[str] | None = None,
    least: float | None = None,
    metavar: str | None = None,
    also: Sequence[str] = (),
) -> Any:
    """A field of a study's options.

    Args:
        default: its value if the user says nothing.
        help: for ``--help``.
        quick: the default under ``--quick``, where it differs.
        choices: the values it may have.
        least: the smallest value it may have.
        metavar: what ``--help`` calls the value.
        also: other names of the option.
    """
    known = None if choices is None else tuple(choices)
    metadata = {
        "help": f"{help}: {', '.join(known)}".removeprefix(": ") if known else help,
        "quick": quick, "choices": known, "least": least, "metavar": metavar, "also": tuple(also),
    }  # fmt: skip
    if isinstance(default, list):
        return dataclasses.field(default_factory=lambda: list(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def argument(help: str, choices: Iterable[str]) -> Any:
    """A field that the user gives by its place, without a name."""
    known = tuple(choices)
    metadata = {"help": f"{help}: {', '.join(known)}", "choices": known, "place": True}
    return dataclasses.field(metadata=metadata)


def seed_option(default: int | Sequence[int], *, quick: Any = _AS_ALWAYS) -> Any:
    """The option ``--seed``: one, or several for a study that is repeated over seeds."""
    if isinstance(default, int):
        return option(default, "of all chance", quick=quick, metavar="N")
    return option(list(default), "one or several", quick=quick, metavar="N")


def resume_option() -> Any:
    """The options ``--resume`` and ``--no-resume``."""
    return option(True, "go on from the checkpoints in the folder, or begin anew")


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """What all studies share.

    Attributes:
        study: what is run; not an option.
    """

    quick: bool = option(False, "small sizes: within two minutes")
    out: Path = option(
        None,
        "folder for results, report and checkpoints; out/NAME, with --quick out/NAME-quick",
        metavar="DIR",
    )
    threads: int = option(1, "of torch", least=1)
    study: Study

    def check(self) -> None:
        """Refuse with ``UsageError`` what no single option can tell; a study may override it."""


Options = TypeVar("Options", bound=StudyOptions)


def parse(
    kind: type[Options],
    study: Study | Mapping[str, Study],
    argv: Sequence[str] | None,
    doc: str | None = None,
) -> Options:
    """Read the command line, check the folder and set torch's threads.

    What is wrong is said in one line, and the process ends with exit code 2; so it does after
    ``--help``, with 0.

    Args:
        kind: the dataclass.
        study: what is run; if the study is chosen by the argument, all of them by its values.
        argv: the words; those of the shell if None.
        doc: the docstring of the study's module, whose first line ``--help`` shows.
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
    """The choices of a run, without those that only say where and how to run it."""
    left_out = {"out", "threads", "seed", "resume", "study", *without}
    fields = [field.name for field in dataclasses.fields(options) if field.name not in left_out]
    chosen = {name: getattr(options, name) for name in fields}
    return {key: str(v) if isinstance(v, Path) else v for key, v in chosen.items()}


def require(name: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse values of an option that are not known, and suggest the nearest."""
    names = list(known)
    for value in given:
        if value not in names:
            raise unknown_name(f"choice of {_flag(name)}", value, names)


def _command(
    kind: type[Options], study: Study | Mapping[str, Study], doc: str | None, *, quick: bool
) -> Any:
    """The Typer command that makes an instance of the dataclass."""
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
    """A parameter as Typer understands it."""
    told = field.metadata
    keyword = inspect.Parameter.KEYWORD_ONLY
    if "place" in told:
        hint = Annotated[hint, typer.Argument(help=told["help"])]
        return inspect.Parameter(field.name, keyword, annotation=hint)
    default = field.default
    if field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    if quick and told["quick"] is not _AS_ALWAYS:
        default = told["quick"]
    if get_origin(hint) is Literal:  # its values are the choices
        hint = str
    if default is None and type(None) not in getattr(hint, "__args__", ()):
        hint = hint | None
    flag = _flag(field.name)
    names = (f"{flag}/--no-{flag[2:]}",) if hint is bool and field.default is True else (flag,)
    made = typer.Option(*names, *told["also"], help=told["help"], metavar=told["metavar"])
    return inspect.Parameter(field.name, keyword, default=default, annotation=Annotated[hint, made])


def _repeated(kind: type[StudyOptions], words: Sequence[str]) -> list[str]:
    """Words in which a list is spelt as Typer wants it: the option before each of its values."""
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
    """Hold a value to the choices and the smallest value of its option."""
    choices, least = field.metadata["choices"], field.metadata.get("least")
    if value is None:
        return
    if choices is not None:
        require(field.name, [value] if isinstance(value, str) else value, choices)
    if least is not None:
        for number in value if isinstance(value, list) else [value]:
            if number < least:
                raise UsageError(f"{_flag(field.name)} must be at least {least}, got {number}")


def _check(options: StudyOptions) -> None:
    problem = write_problem(options.out)
    if problem:
        raise UsageError(problem)
    options.check()


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
