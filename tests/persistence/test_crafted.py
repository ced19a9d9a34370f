"""Malicious files raise one exception quickly, with little memory and without imports."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path

import pytest
import torch

from tests.persistence import crafted
from tests.persistence.kinds import KINDS, Kind
from tests.persistence.measure import attempt, measured
from tractable.errors import InvalidModelFile

MOST_SECONDS, MOST_MEGABYTES = 2.0, 200.0
TENSORS, HEADERS = 3, 5
"""Of the systematic cases of each kind, so many here; all of them in ``tests/soak``."""
EVIL = "import pathlib; pathlib.Path(__file__).with_name('imported').write_text('')"


def too_dear(result: dict) -> bool:
    return (
        result["seconds"] > MOST_SECONDS
        or result["megabytes"] > MOST_MEGABYTES
        or bool(result["modules"])
    )


def refused(result: dict) -> bool:
    return result["outcome"] == "InvalidModelFile" and not too_dear(result)


def harmless(result: dict) -> bool:
    return result["outcome"] == "loaded" and result["finite"] and not too_dear(result)


def evil_module(folder: Path) -> Path:
    """A folder with a module that records its import."""
    folder.mkdir()
    (folder / "evilmod.py").write_text(EVIL)
    return folder


WIDTHS = ("hidden_layer_sizes", "net", "policy_hidden_layer_sizes", "value_hidden_layer_sizes")
TOO_WIDE = [[4_000, 4_000], [700] * 40]
"""Each layer fits into the file below, but all together do not."""


def widths_in(value: object, place: crafted.Place = ()) -> Iterator[crafted.Place]:
    """Where a header has the widths of hidden layers."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in WIDTHS and isinstance(inner, list):
                yield (*place, key)
            yield from widths_in(inner, (*place, key))


def too_wide() -> Iterator[crafted.Case]:
    for kind in KINDS:
        for place in widths_in(crafted.contents(kind)[1]):
            for widths in TOO_WIDE:

                def edit(tensors, header, place=place, widths=widths):
                    crafted.put(header, place, list(widths))
                    first = min(tensors).rpartition("/")[0]
                    tensors[f"{first}/padding"] = torch.zeros(10_000)

                yield crafted.Case(kind, f"{'/'.join(place)} = {widths[:2]}", edit)


def some(draw: random.Random, cases: Iterable[crafted.Case], n: int) -> list[crafted.Case]:
    every = list(cases)
    return draw.sample(every, min(n, len(every)))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Load every file in one process; return file, outcome and position."""
    draw = random.Random(0)
    cases = {
        "listed": list(crafted.listed()),
        "wide": list(too_wide()),
        "tensors": [c for k in KINDS for c in some(draw, crafted.tensor_cases(k), TENSORS)],
        "headers": [c for k in KINDS for c in some(draw, crafted.header_cases(k), HEADERS)],
    }
    folder = tmp_path_factory.mktemp("crafted")
    modules = evil_module(folder / "modules")
    paths = crafted.written([case for group in cases.values() for case in group], folder)
    found = iter(measured(paths, str(modules)))
    assert not (modules / "imported").exists()
    return {
        which: [(f"{case.kind}: {case.name}", next(found)) for case in group]
        for which, group in cases.items()
    }


@pytest.mark.parametrize("which", ["listed", "tensors"])
def test_every_file_is_refused_at_once_and_imports_nothing(which, results):
    assert len(results[which]) >= 100
    assert [(name, found) for name, found in results[which] if not refused(found)] == []


def test_networks_are_bounded_by_the_product_of_their_widths(results):
    kinds = {name.split(":")[0] for name, _ in results["wide"]}
    assert kinds >= {"control", "policy_gradient", "actor_critic", "flow", "autoregressive"}
    wrong = [
        (name, found)
        for name, found in results["wide"]
        if not refused(found) or found["megabytes"] > 30
    ]
    assert wrong == []


def test_wrong_headers_are_refused_or_harmless(results):
    found = results["headers"]
    assert [(n, r) for n, r in found if not refused(r) and not harmless(r)] == []
    assert sum(refused(result) for _, result in found) > 0.8 * len(found)


def test_the_measuring_notices_imports_memory_and_time(tmp_path, monkeypatch):
    """So that the tests above can fail."""
    evil = evil_module(tmp_path / "modules")

    def load(path: Path) -> bool:
        import_module("evilmod")
        _ = torch.ones(100 << 20, dtype=torch.uint8)
        started = time.process_time()
        while time.process_time() < started + 0.1:
            pass
        return True

    monkeypatch.syspath_prepend(evil)
    found = attempt(Kind(load, lambda held: [1.0]), Path("any"))
    monkeypatch.delitem(sys.modules, "evilmod")
    assert found["modules"] == ["evilmod"]
    assert (evil / "imported").exists()
    assert found["megabytes"] > 90
    assert found["seconds"] > 0.1


@pytest.mark.parametrize("kind", ["tagi", "regressor", "table", "bandit_tagi", "control"])
def test_what_is_no_model_file_is_refused(kind, tmp_path):
    paths = crafted.raw(tmp_path)
    for path in paths.values():
        with pytest.raises(InvalidModelFile):
            KINDS[kind].load(path)


@pytest.mark.parametrize("kind", ["tagi", "regressor", "table", "bandit_tagi", "control"])
def test_what_is_no_file_is_not_there(kind, tmp_path):
    for path in crafted.absent(tmp_path).values():
        with pytest.raises(FileNotFoundError):
            KINDS[kind].load(path)


NAMES = ("learner", "kind", "agent")
SAVED = ("learners", "generative", "sklearn", "agents", "forecast")


def test_every_kind_of_saved_object_has_a_file():
    """Public classes with ``save``, but for those that are only inherited from."""
    have = set()
    for name in KINDS:
        header = crafted.contents(name)[1]
        entries = [header, header.get("estimator"), header.get("generative"), header.get("agent")]
        for entry in entries:
            if isinstance(entry, dict):
                have |= {entry[key] for key in NAMES if isinstance(entry.get(key), str)}
        have |= {"Forecaster"} if "forecaster" in header else set()
    missing = []
    for package in SAVED:
        module = import_module(f"tractable.{package}")
        for name in module.__all__:
            public = getattr(module, name)
            if isinstance(public, type) and hasattr(public, "save") and name not in have:
                missing.append(f"{package}.{name}")
    abstract = ["agents.Agent", "generative.GenerativeModel", "learners.Learner"]
    assert sorted(missing) == abstract
