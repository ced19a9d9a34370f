"""Conventions of names, text and public arguments, as tables, and functions that list violations.

Each function returns lines ``path:line: message``; ``python -m tests.docs.conventions`` prints all.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import io
import pkgutil
import re
import sys
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "src" / "tractable"

NAME_WORDS = frozenset(
    "room rooms house doubt doubts doubted doubtful anew hear heard hears say said says tell told "
    "tells see seen sees way ways wanted tried judge judged judges lent stretch stretches twin "
    "twins surprise surprises surprising surprised what whose".split()
)
"""Words that are in no name: everyday words that do not say what is meant."""
ALLOWED_NAMES: dict[str, str] = {
    "tell": "the usual name of ask-and-tell optimizers",
    "what": "the subject of a message, an argument of checks",
}
"""Whole names that contain such a word, with the reason."""

TEXT_WORDS: dict[str, str] = {
    r"rooms?": "subpackage",
    r"houses?": "package",
    r"doubt(s|ed|ful)?": "uncertainty, epistemic variance",
    r"anew": "again, from the start",
    r"hears?|heard": "receive, observe",
    r"sa(id|ys)": "state, return",
    r"told|tells": "pass, distinguish, state",
    r"at hand": "available",
    r"surpris(e|es|ed|ing)": "outlier, unlikely",
    r"twins?": "copy",
    r"wanted": "expected, requested",
    r"judge(s|d)?": "evaluate",
    r"lent": "pass",
    r"stretch(es)?": "block, range",
    r"as (it|they) comes?": "unchanged, in the order given",
}
"""Words that are in no docstring, comment, message or page, with what to write."""
ALLOWED_PHRASES = (r"house prices?", r"houses sold", r"surprisals?", r"rooms? per (house|dwelling)")
"""Phrases of data sets and of the field that contain such words."""

FILE_WORDS = frozenset(
    "adversarial anatomy angle answers begun carrier chance choosing "
    "covered doubt drawn few fits fitted fresh game given guard heads holder inherited "
    "judged kept learnt lent more observed paired place places remedies rivals said "
    "seen settled spread start stretches suited taken tails together told tried unrolled "
    "wanted words".split()
)
"""Stems of files that do not name their content."""
FILE_ENDINGS = re.compile(r"(?<!spe)(?<!s)ed$")  # participles
ALLOWED_FILES = frozenset({"linearized", "compiled", "vectorized"})

BANNED_ARGUMENTS: dict[str, str] = {
    "hidden": "hidden_layer_sizes",
    "policy_hidden": "policy_hidden_layer_sizes",
    "members": "n_estimators",
    "draws": "n_weight_samples or n_samples",
    "memory": "memory_rows",
    "forget": "epoch_forgetting or memory_rows",
    "off_data": "distance_aware",
    "fresh": "reinit",
    "widen": "prior_scale",
    "relative_variance": "prior_variance_ratio",
    "even_steps": "scale_by_layer_size",
    "branches": "residual_gain",
    "sigma_v": "noise_std",
    "kappa": "concentration",
    "dispersion": "total_count",
    "progress_bar": "progress",
    "held_out": "validation, validation_fraction or n_validation",
    "make": "factory",
    "maker": "factory",
    "options": "learner_kwargs",
    "many": "n_...",
    "few": "n_...",
    "most": "max_...",
    "least": "min_...",
    "number": "n_...",
    "count": "n_...",
}
"""Arguments that no public function takes, with the name to use."""

EVERYWHERE = ("",)
TABLE: dict[str, tuple[str, tuple[str, ...]]] = {
    "state": ("what a method has learned, as tensors", EVERYWHERE),
    "tensors": ("named tensors of a file", EVERYWHERE),
    "header": ("entries of a file", EVERYWHERE),
    "prefix": ("beginning of the names of tensors", EVERYWHERE),
    "values": ("entries of a file, or numbers", EVERYWHERE),
    "net": ("network", EVERYWHERE),
    "learner": ("learner", EVERYWHERE),
    "model": ("learner or estimator", EVERYWHERE),
    "likelihood": ("observation model", EVERYWHERE),
    "predictive": ("predictive distribution", EVERYWHERE),
    "posterior": ("distribution of the weights", EVERYWHERE),
    "context": ("conditions of each row", EVERYWHERE),
    "ax": ("matplotlib axes", EVERYWHERE),
    "device": ("device of torch", EVERYWHERE),
    "dtype": ("type of the numbers", EVERYWHERE),
    "batch_size": ("rows computed at once", EVERYWHERE),
    "scale": ("factor", EVERYWHERE),
    "statistics": ("sufficient statistics of a noise", EVERYWHERE),
    "t": ("times, or numbers to be transformed", EVERYWHERE),
    "action": ("action of an agent", ("agents",)),
    "reward": ("reward of an action", ("agents",)),
    "observation": ("observation of an environment", ("agents",)),
    "X": ("rows of inputs", EVERYWHERE),
    "x": ("rows of inputs", EVERYWHERE),
    "y": ("targets", EVERYWHERE),
    "z": ("outputs of a network before noise", EVERYWHERE),
    "mean": ("means", EVERYWHERE),
    "variance": ("variances", EVERYWHERE),
    "q": ("probability of a quantile", EVERYWHERE),
    "level": ("coverage of an interval", EVERYWHERE),
    "path": ("file", EVERYWHERE),
    "generator": ("source of random numbers of one call", EVERYWHERE),
    "seed": ("seed of a constructor or of a whole run", EVERYWHERE),
    "random_state": ("seed, in the interface of scikit-learn", ("sklearn",)),
    "progress": ("whether to show progress", EVERYWHERE),
    "verbose": ("verbosity, in the interface of scikit-learn", ("sklearn",)),
    "sample_weight": ("weights of the rows, in the interface of scikit-learn", ("sklearn",)),
    "memory_rows": ("rows that an online update effectively remembers", EVERYWHERE),
    "epoch_forgetting": ("share of the information forgotten per epoch", EVERYWHERE),
    "n_estimators": ("number of networks of an ensemble", EVERYWHERE),
    "hidden_layer_sizes": ("widths of the hidden layers", EVERYWHERE),
    "n_weight_samples": ("samples of the weights when predicting", EVERYWHERE),
    "n_train_samples": ("samples of the weights per training step", ("learners", "sklearn")),
    "n_samples": ("number of samples to return", EVERYWHERE),
    "distance_aware": ("whether to keep distances to the training rows", EVERYWHERE),
    "reinit": ("modules that are initialized although weights are given", ("learners",)),
    "prior_scale": ("factor on the variance of a transferred prior", ("learners",)),
    "prior_variance_ratio": ("prior variance over initial mean variance", ("learners",)),
    "scale_by_layer_size": ("whether steps shrink with the width of a layer", ("learners",)),
    "residual_gain": ("factor on the weights that end a residual branch", ("learners",)),
    "input_std": ("standard deviation of the inputs", ("infer", "attacks")),
    "noise_std": ("standard deviation of the observation noise", EVERYWHERE),
    "validation_fraction": ("share of the rows held out", EVERYWHERE),
    "n_validation": ("number of windows or times held out", ("forecast",)),
    "learner_kwargs": ("arguments of the learner", EVERYWHERE),
    "n_eval_episodes": ("episodes of an evaluation", ("agents",)),
    "concentration": ("concentration of a distribution", ("likelihoods", "priors", "predictive")),
    "case": ("case of a conformance test, a fixture of pytest", ("testing",)),
    "regime": ("regime of a conformance test, a fixture of pytest", ("testing",)),
    "metafunc": ("hook of pytest", ("testing",)),
    "tmp_path": ("fixture of pytest", ("testing",)),
    "total_count": ("number of failures of a negative binomial", ("likelihoods", "predictive")),
}
"""Arguments of one meaning: the meaning, and the subpackages that take them.

A docstring need not repeat the meaning of one of them.
"""
ALLOWED_ARGUMENTS: dict[str, str] = {
    "tractable.agents.DeepSea.reset options": "the interface of Gymnasium",
    "tractable.learners.Method options": "the options of the method itself",
    "tractable.learners.Method.check_file options": "the options of the method itself",
    "tractable.generative.DensityPredictive held_out": "densities of held-out rows",
}
"""Arguments that are banned elsewhere, with the reason."""


ALLOWED_ON_PAGES = dict.fromkeys(
    (
        "README.md",
        "docs/guide/command_line.md",
        "docs/guide/diagnostics.md",
        "docs/guide/missing.md",
    ),
    r"houses?|rooms?",
)
"""Words of the data of a page."""


def sources() -> Iterator[Path]:
    """Yield the Python files of the package."""
    yield from sorted(PACKAGE.rglob("*.py"))


def shown(path: Path) -> str:
    """Return a path as it is shown in messages."""
    return str(path.relative_to(ROOT))


def words(name: str) -> list[str]:
    """Return the words of an identifier in lower case."""
    return [w.lower() for w in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def _names(tree: ast.AST) -> Iterator[tuple[str, int, str]]:
    """Yield what a module defines: classes, functions, arguments, attributes and constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name, node.lineno, "class"
            for part in node.body:
                if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                    yield part.target.id, part.lineno, "field"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno, "function"
            given = node.args
            every = (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg)
            for argument in filter(None, every):
                yield argument.arg, argument.lineno, "argument"
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno, "attribute"
    for node in getattr(tree, "body", []):
        for target in getattr(node, "targets", []) if isinstance(node, ast.Assign) else []:
            if isinstance(target, ast.Name):
                yield target.id, node.lineno, "constant"


def forbidden_names() -> list[str]:
    """Return names that contain a word of ``NAME_WORDS``."""
    found = []
    for path in sources():
        for name, line, kind in _names(ast.parse(path.read_text())):
            if name not in ALLOWED_NAMES and NAME_WORDS & set(words(name)):
                found.append(f"{shown(path)}:{line}: {kind} {name}")
    return found


def unclear_files() -> list[str]:
    """Return files whose names do not say what they contain."""
    return [
        f"{shown(path)}:1: the name of the file does not say its content"
        for path in sources()
        if path.stem in FILE_WORDS
        or NAME_WORDS & set(words(path.stem))
        or (FILE_ENDINGS.search(path.stem) and path.stem not in ALLOWED_FILES)
    ]


def repeated_classes() -> list[str]:
    """Return classes whose name another class of the package has."""
    places: dict[str, list[str]] = {}
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(f"{shown(path)}:{node.lineno}")
    return [
        f"{place}: class {name}, also at {', '.join(p for p in found if p != place)}"
        for name, found in sorted(places.items())
        if len(found) > 1 and name not in HOMONYMS
        for place in found
    ]


HOMONYMS: dict[str, str] = {
    "Normal": "a likelihood and a prior, named after the distribution",
    "Laplace": "a learner, a likelihood and a prior, named after Laplace",
}
"""Classes with one name in several modules, with the reason."""


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield comments and strings of a Python file with their lines, or the lines of a page."""
    if path.suffix != ".py":
        fenced = False
        for number, line in enumerate(path.read_text().splitlines(), 1):
            fenced ^= line.startswith("```")
            yield number, re.sub(r"`[^`]*`|\]\([^)]*\)", " ", line)
        return
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.COMMENT or (
            token.type == tokenize.STRING and " " in token.string
        ):
            for offset, line in enumerate(token.string.splitlines()):
                yield token.start[0] + offset, re.sub(r"``?[^`]*``?", " ", line)


def forbidden_text() -> list[str]:
    """Return lines of docstrings, comments, messages and pages with a word of ``TEXT_WORDS``."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
    pages += sorted((ROOT / "docs").rglob("*.md"))
    pattern = re.compile("|".join(rf"\b(?:{p})\b" for p in TEXT_WORDS), re.IGNORECASE)
    allowed = re.compile("|".join(rf"\b(?:{p})\b" for p in ALLOWED_PHRASES), re.IGNORECASE)
    found = []
    for path in [*sources(), *pages]:
        own = re.compile(ALLOWED_ON_PAGES.get(shown(path), r"(?!)"))
        for number, line in _texts(path):
            for match in pattern.finditer(own.sub("", allowed.sub("", line))):
                plain = next(v for k, v in TEXT_WORDS.items() if re.fullmatch(k, match[0], re.I))
                found.append(f"{shown(path)}:{number}: {match[0]!r} (write: {plain})")
    return found


# --- public arguments ----------------------------------------------------------------------------


def public() -> Iterator[tuple[str, Any]]:
    """Yield public classes and functions with the name under which they are imported."""
    package = importlib.import_module("tractable")
    modules = ["tractable"]
    modules += [f"tractable.{m.name}" for m in pkgutil.iter_modules(package.__path__)]
    seen: set[int] = set()
    for name in modules:
        if name.endswith(("__main__", ".cli")):
            continue
        module = importlib.import_module(name)
        for each in getattr(module, "__all__", []):
            found = getattr(module, each)
            if inspect.ismodule(found) or not callable(found) or id(found) in seen:
                continue
            if str(getattr(found, "__module__", "")).startswith("tractable"):
                seen.add(id(found))
                yield f"{name}.{each}", found


def callables(name: str, each: Any) -> Iterator[tuple[str, Callable[..., Any], str]]:
    """Yield a function, or the constructor and public methods of a class, with their docstrings."""
    if not inspect.isclass(each):
        yield name, each, inspect.getdoc(each) or ""
        return
    docs = [k.__doc__ or "" for k in each.__mro__ if k.__module__.startswith("tractable")]
    init = next((k.__init__ for k in each.__mro__ if "__init__" in vars(k)), None)
    if str(getattr(init, "__module__", "")).startswith("tractable"):
        yield name, init, "\n".join([*docs, getattr(init, "__doc__", None) or ""])
    for method, value in vars(each).items():
        function = getattr(value, "__func__", value)
        if method.startswith("_") or not inspect.isfunction(function):
            continue
        inherited = [
            vars(k)[method].__doc__ or ""
            for k in each.__mro__
            if method in vars(k) and k.__module__.startswith("tractable")
        ]
        yield f"{name}.{method}", function, "\n".join(inherited)


def _signatures() -> Iterator[tuple[str, str, str, inspect.Parameter]]:
    for name, each in public():
        for where, function, text in callables(name, each):
            try:
                parameters = inspect.signature(function).parameters.values()
            except (TypeError, ValueError):
                continue
            code = inspect.unwrap(function).__code__
            if not code.co_filename.startswith(str(PACKAGE)):
                continue
            at = f"{shown(Path(code.co_filename))}:{code.co_firstlineno}: {where}"
            for parameter in parameters:
                if parameter.name not in ("self", "cls") and not parameter.name.startswith("_"):
                    yield at, where, text, parameter


def undocumented_arguments() -> list[str]:
    """Return public arguments that no docstring describes under ``Args`` or ``Attributes``."""
    return sorted(
        {
            f"{at}: argument {parameter.name} is not described"
            for at, _, text, parameter in _signatures()
            if parameter.name not in TABLE
            and not re.search(rf"^\s*\*{{0,2}}{parameter.name}\b[^:\n]*:", text, re.MULTILINE)
            and not re.search(rf"``[^`]*\b{parameter.name}\b[^`]*``", text)
        }
    )


def unusual_arguments() -> list[str]:
    """Return public arguments that are banned, or outside of the places of ``TABLE``."""
    found = set()
    for at, where, _, parameter in _signatures():
        name = parameter.name
        named = parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        named = named and name != where.split(".")[-1].removesuffix("_scale")  # held_out_scale
        if name in BANNED_ARGUMENTS and named and f"{where} {name}" not in ALLOWED_ARGUMENTS:
            found.add(f"{at}: argument {name} (use {BANNED_ARGUMENTS[name]})")
        home = where.removeprefix("tractable.").split(".")[0]
        file = at.removeprefix("src/tractable/").split("/")[0]
        places = TABLE.get(name, ("", EVERYWHERE))[1]
        if "" not in places and home not in places and file not in places:
            found.add(f"{at}: argument {name} belongs to {', '.join(places)}")
    return sorted(found)


CHECKS = (
    forbidden_names, unclear_files, repeated_classes, forbidden_text, undocumented_arguments,
    unusual_arguments,
)  # fmt: skip


if __name__ == "__main__":
    for check in CHECKS:
        for line in check():
            sys.stdout.write(f"{check.__name__}: {line}\n")
