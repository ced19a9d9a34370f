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
    options = {"lags": 6, "normalize_by": "last", "epochs": 1, "batch_size": 16, "n_validation": 40}
    return Forecaster(**{"net": "linear", "horizon": 2, **options, **more})


def direct():
    model = forecaster(error_window=20.0, likelihood=tr.likelihoods.Normal(0.3))
    days = np.datetime64("2024-01-01") + np.arange(120)
    model.fit(wave(120), future_covariates=KNOWN[:120], past_covariates=KNOWN[:120], times=days)
    return model.update([5.0, np.nan, 6.0], future_covariates=KNOWN[:3], past_covariates=KNOWN[:3])


def panel():
    y = np.stack([wave(120), wave(120, seed=1)], axis=1)
    return forecaster(transform="log1p", n_estimators=2, normalize_by=None, net=(4,)).fit(y)


def recursive():
    return forecaster(strategy="recursive", uncertainty="paths").fit(wave(120))


def counts():
    return forecaster(likelihood=tr.likelihoods.Poisson()).fit(np.rint(wave(120)))


MADE = {"direct": direct, "panel": panel, "recursive": recursive, "keeps_target_units": counts}


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forecasters")
    for name, make in MADE.items():
        make().save(folder / f"{name}.tr")
    return folder


def numbers(model):
    """What a forecaster says, with covariates if it takes any."""
    known = {"future_covariates": KNOWN[:2]} if len(model.state_.future_scaler.mean) else {}
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
        (("layout", "lags"), 10**9),
        (("layout", "steps"), 1 << 20),
        (("layout", "lags"), 5),
        (("layout", "steps"), 5),
        (("layout", "n_future_covariates"), 3),
        (("layout", "n_past_covariates"), 3),
        (("recursion",), {"n_steps": 1 << 20, "uncertainty": "covariance", "seed": 0}),
        (("recursion",), {"n_steps": 2, "uncertainty": "evil", "seed": 0}),
        (("recursion",), 7),
        (("grid", "step"), 0),
        (("grid", "step"), -1.0),
        (("grid", "kind"), "evil"),
        (("grid", "start"), 1e300),
        (("series_names",), ["a"] * 10**5),
        (("series_names",), []),
        (("likelihood",), {"name": "Evil"}),
        (("likelihood",), {"name": "Softmax", "classes": 0}),
        (("transform",), "cube"),
        (("error_window",), -1.0),
        (("error_window",), 0),
        (("error_window",), "auto"),
        (("now",), -5),
        (("now",), 10**30),
        (("season_length",), 0),
        (("season_length",), 10**12),
        (("n_updates",), -1),
        (("best_params", "lags"), 10**9),
        (("best_params", "hidden_layer_sizes"), [10**9]),
        (("columns", "future_covariates"), [1]),
        (("columns", "target_cols"), {}),
        (("learner",), "Evil"),
        (("cv_results",), [5]),
        (("squeezed",), 1),
        (("keeps_target_units",), 1),
    ],
    ids=str,
)
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
        assert again.cv_results_["params"] == model.cv_results_["params"]
        for key in ("mean_test_score", "rank_test_score"):
            assert np.array_equal(again.cv_results_[key], model.cv_results_[key])
        assert again.best_params_ == model.best_params_
        again.save(tmp_path / "again.tr")
        one, two = (model_file.read(p) for p in (good / f"{name}.tr", tmp_path / "again.tr"))
        assert one[1] == two[1]
        assert all(torch.equal(one[0][key], two[0][key]) for key in one[0])
    assert len(Forecaster.load(good / "panel.tr").cv_results_["params"]) > 1


@pytest.mark.parametrize("name", ["history/variance", "history/missing"])
def test_parts_of_the_history_of_another_shape_are_refused(name, good, tmp_path):
    def edit(tensors, header):
        tensors[f"forecaster/{name}"] = tensors[f"forecaster/{name}"].unsqueeze(-1)

    with pytest.raises(InvalidModelFile, match=f"{name} has shape"):
        Forecaster.load(changed(good / "direct.tr", tmp_path, edit))
