"""Files with the words of the first file format are read, and written with the current words."""

import numpy as np
import pytest
import torch

from tests.forecast.conftest import wave
from tractable.forecast import Forecaster, serialization
from tractable.persistence import model_file

OPTIONS = {"lags": 6, "normalize_by": "last", "epochs": 1, "batch_size": 16, "n_validation": 40}
X = np.random.default_rng(0).standard_normal((130, 1))


def direct():
    model = Forecaster("linear", 2, error_window=20.0, **OPTIONS)
    days = np.datetime64("2024-01-01") + np.arange(120)
    model.fit(wave(120), future_covariates=X[:120], past_covariates=X[:120], times=days)
    return model.update([5.0, np.nan], future_covariates=X[:2], past_covariates=X[:2])


def recursive():
    more = {"strategy": "recursive", "uncertainty": "paths"}
    return Forecaster("linear", 2, **more, **{**OPTIONS, "lags": None}).fit(wave(120))


def with_old_words(tensors, header):
    """A header and tensors as the first file format had them."""
    entry = header["forecaster"]

    def renamed(section, value):
        old = {new: before for before, new in serialization._OLD_WORDS[section].items()}
        return {old.get(key, key): inner for key, inner in value.items()}

    for section in serialization._OLD_WORDS:
        if section and isinstance(entry[section], dict):
            entry[section] = renamed(section, entry[section])
    scores = [[renamed("best_params", params), score] for params, score in entry["cv_results"]]
    header["forecaster"] = renamed("", {**entry, "cv_results": scores})
    found = {}
    for name, tensor in tensors.items():
        own = name.removeprefix("forecaster/")
        pairs = serialization._OLD_TENSORS.items()
        before = next(
            (old + own.removeprefix(new) for old, new in pairs if own.startswith(new)), own
        )
        found[name.replace(own, before)] = tensor
    return found, header


@pytest.mark.parametrize("make", [direct, recursive])
def test_a_file_with_old_words_gives_the_same_forecaster(make, tmp_path):
    model = make()
    model.save(tmp_path / "new.tr")
    tensors, header = model_file.read(tmp_path / "new.tr")
    header.pop("format")
    model_file.write(tmp_path / "old.tr", *with_old_words(tensors, header))
    again = Forecaster.load(tmp_path / "old.tr")
    assert again.get_params()["error_window"] == model.error_window
    again.save(tmp_path / "again.tr")
    one, two = (model_file.read(tmp_path / f"{file}.tr") for file in ("new", "again"))
    assert one[1] == two[1]
    assert all(torch.equal(one[0][key], two[0][key]) for key in one[0])
