"""Files of forecasters with one wrong entry: refused with one exception, or harmless."""

from __future__ import annotations

import copy
import json
import random

import numpy as np
import pytest
import torch

import tractable as tr
from tests.forecast.conftest import wave
from tests.persistence.crafted import CHANGES, MISSING, WRONG, places, put
from tests.persistence.flips import flipped
from tests.persistence.measure import cost
from tractable.errors import InvalidModelFile
from tractable.forecast import Forecaster
from tractable.persistence import model_file

KNOWN = np.random.default_rng(0).standard_normal((130, 1))
MOST_SECONDS, MOST_MEGABYTES = 3.0, 200.0


def forecaster(**more):
    options = {"lags": 6, "level": "last", "epochs": 1, "batch_size": 16, "validation": 40}
    return Forecaster(**{"net": "linear", "horizon": 2, **options, **more})


def direct():
    model = forecaster(memory=20.0, likelihood=tr.likelihoods.Normal(0.3))
    days = np.datetime64("2024-01-01") + np.arange(120)
    model.fit(wave(120), known=KNOWN[:120], past=KNOWN[:120], time=days)
    return model.update([5.0, np.nan, 6.0], known=KNOWN[:3], past=KNOWN[:3])


def panel():
    y = np.stack([wave(120), wave(120, seed=1)], axis=1)
    return forecaster(transform="log1p", members=2, level=None, net=(4,)).fit(y)


def recursive():
    return forecaster(strategy="recursive", spread="paths").fit(wave(120))


def counts():
    return forecaster(likelihood=tr.likelihoods.Poisson()).fit(np.rint(wave(120)))


MADE = {"direct": direct, "panel": panel, "recursive": recursive, "counts": counts}


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forecasters")
    for name, make in MADE.items():
        make().save(folder / f"{name}.tr")
    return folder


def numbers(model):
    """What a forecaster says, with covariates if it takes any."""
    known = {"known": KNOWN[:2]} if len(model.state_.known.mean) else {}
    found = model.predict(**known)
    return np.stack([found.mean, found.std])


def outcome(path):
    """What loading does: refused, loaded and finite, or what must not be."""
    seconds, before = cost()
    try:
        model = Forecaster.load(path)
    except InvalidModelFile:
        found = "refused"
    except Exception as error:
        return f"{error!r:.200}"
    else:
        try:
            found = "loaded" if np.isfinite(numbers(model)).all() else "not finite"
        except Exception as error:
            return f"loaded, then {error!r:.200}"
    after, megabytes = cost()
    if after - seconds > MOST_SECONDS or megabytes - before > MOST_MEGABYTES:
        return f"{after - seconds} s, {megabytes - before} MB"
    return found


def changed(path, folder, edit):
    tensors, header = model_file.read(path)
    header.pop("format")
    edit(tensors, header)
    model_file.write(folder / "changed.tr", tensors, header)
    return folder / "changed.tr"


def cases(path, which):
    tensors, header = model_file.read(path)
    if which == "header":
        header = json.loads(json.dumps(header["forecaster"]))
        for place in places(header):
            for value in [*WRONG, MISSING]:
                yield f"{'/'.join(map(str, place))} is {value!r:.20}", (place, value)
        return
    for name, tensor in tensors.items():
        for said, change in CHANGES.items():
            if name.startswith("forecaster/") and change(tensor) is not None:
                yield f"{name} {said}", (name, said)


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("which", ["header", "tensors"])
def test_files_with_one_wrong_entry_are_refused_or_harmless(name, which, good, tmp_path):
    every = list(cases(good / f"{name}.tr", which))
    some = random.Random(0).sample(every, min(len(every), 150))
    wrong, refused = [], 0
    for said, (place, value) in some:

        def edit(tensors, header, place=place, value=value):
            if which == "header":
                new = value if value is MISSING else copy.deepcopy(value)
                put(header["forecaster"], place, new)
                return
            tensor = tensors.pop(place)
            if value != "missing":
                tensors[place] = CHANGES[value](tensor)

        found = outcome(changed(good / f"{name}.tr", tmp_path, edit))
        refused += found == "refused"
        if found not in ("refused", "loaded"):
            wrong.append((said, found))
    assert wrong == []
    assert refused > 0.5 * len(some)  # parameters are checked by the next fit


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("layout", "lags"), 10**9), (("layout", "steps"), 1 << 20), (("layout", "lags"), 5),
        (("layout", "steps"), 5), (("layout", "known"), 3), (("layout", "past"), 3),
        (("recursion",), {"ahead": 1 << 20, "way": "covariance", "seed": 0}),
        (("recursion",), {"ahead": 2, "way": "evil", "seed": 0}), (("recursion",), 7),
        (("grid", "step"), 0), (("grid", "step"), -1.0), (("grid", "kind"), "evil"),
        (("grid", "start"), 1e300), (("names",), ["a"] * 10**5), (("names",), []),
        (("likelihood",), {"name": "Evil"}), (("likelihood",), {"name": "Softmax", "classes": 0}),
        (("transform",), "cube"), (("memory",), -1.0), (("memory",), 0), (("memory",), "auto"),
        (("now",), -5), (("now",), 10**30), (("season",), 0), (("season",), 10**12),
        (("updates",), -1), (("setting", "lags"), 10**9), (("setting", "hidden"), [10**9]),
        (("columns", "known"), [1]), (("columns", "target"), {}), (("learner",), "Evil"),
        (("tried",), [5]), (("alone",), 1), (("counts",), 1),
    ],
    ids=str,
)  # fmt: skip
def test_listed_faults_are_refused_or_harmless(name, place, value, good, tmp_path):
    path = changed(
        good / f"{name}.tr", tmp_path, lambda _, header: put(header["forecaster"], place, value)
    )
    assert outcome(path) in ("refused", "loaded")


@pytest.mark.parametrize("name", MADE)
def test_a_flipped_bit_is_noticed(name, good, tmp_path):
    content = (good / f"{name}.tr").read_bytes()
    expected, draw = numbers(Forecaster.load(good / f"{name}.tr")), random.Random(0)
    for _ in range(60):
        (tmp_path / "flipped.tr").write_bytes(flipped(content, draw.randrange(8 * len(content))))
        try:
            found = numbers(Forecaster.load(tmp_path / "flipped.tr"))
        except InvalidModelFile:
            continue
        assert np.array_equal(found, expected)


def test_attributes_and_files_of_a_loaded_forecaster_are_the_same(good, tmp_path):
    for name, make in MADE.items():
        model, again = make(), Forecaster.load(good / f"{name}.tr")
        assert again.tried_ == model.tried_
        assert again.setting_ == model.setting_
        again.save(tmp_path / "again.tr")
        one, two = (model_file.read(p) for p in (good / f"{name}.tr", tmp_path / "again.tr"))
        assert one[1] == two[1]
        assert all(torch.equal(one[0][key], two[0][key]) for key in one[0])
    assert len(Forecaster.load(good / "panel.tr").tried_) > 1
