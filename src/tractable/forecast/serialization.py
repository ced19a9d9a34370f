"""Files of forecasters: the model file of the learner, with everything else beside it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from tractable.errors import InvalidModelFile
from tractable.forecast.calibration import ErrorCalibration
from tractable.forecast.config import HyperParameters
from tractable.forecast.data_frames import ColumnRoles
from tractable.forecast.direct import DirectModel
from tractable.forecast.model_selection import cv_results
from tractable.forecast.recursive import RecursiveModel
from tractable.forecast.scaling import CovariateScaler, SeriesScaler, check_transform
from tractable.forecast.state import ForecasterState, PendingForecasts
from tractable.forecast.time_index import TimeGrid
from tractable.forecast.windows import NORMALIZATIONS, History, WindowLayout
from tractable.learners import TAGI, Ensemble
from tractable.learners import serialization as learner_files
from tractable.learners.serialization import learner_name
from tractable.persistence import model_file, validation
from tractable.persistence.model_file import Tensors, under_prefix, with_prefix
from tractable.training.selection import TrialResult

if TYPE_CHECKING:
    from tractable.forecast.forecaster import Forecaster

_PREFIX = "forecaster/"
_JSON_PARAMETERS = (
    "horizon season_length lags normalize_by transform strategy uncertainty n_estimators epochs "
    "batch_size n_validation refit window_stride error_window memory_rows sequence seed"
).split()
_MAX_COUNT = 1 << 20  # steps, lags or covariates, so that a crafted file cannot exhaust memory
_DOUBLE = ("scaler", "future_covariates", "past_covariates", "calibration")
_COVARIATES = ("future_covariates", "past_covariates")

# Words of the first file format, by section of the header ("" is the top level).
_OLD_WORDS = {
    "": {
        "options": "learner_kwargs", "setting": "best_params", "tried": "cv_results",
        "memory": "error_window", "names": "series_names", "alone": "squeezed",
        "season": "season_length", "updates": "n_updates", "counts": "keeps_target_units",
        "told": "n_pending",
    },
    "parameters": {
        "season": "season_length", "level": "normalize_by", "spread": "uncertainty",
        "members": "n_estimators", "validation": "n_validation", "stride": "window_stride",
        "memory": "error_window", "forget": "memory_rows",
    },
    "best_params": {"hidden": "hidden_layer_sizes", "level": "normalize_by"},
    "layout": {
        "level": "normalize_by", "known": "n_future_covariates", "past": "n_past_covariates"
    },
    "recursion": {"ahead": "n_steps", "way": "uncertainty"},
    "grid": {"late": "month_offset"},
    "columns": {
        "time": "time_col", "target": "target_cols", "id": "id_col",
        "known": "future_covariates", "past": "past_covariates",
    },
}  # fmt: skip
_OLD_TENSORS = {
    "units/": "scaler/", "known/": "future_covariates/", "past/": "past_covariates/",
    "spread/factors": "calibration/noise_factors", "spread/": "calibration/",
    "recent": "error_ewma", "history/known": "history/future_covariates",
    "history/past": "history/past_covariates", "told/": "pending/",
}  # fmt: skip


def save(forecaster: Forecaster, path: str | Path, columns: ColumnRoles) -> None:
    """Write a fitted forecaster to one file, atomically."""
    tensors, header = pack(forecaster, columns)
    model_file.write(path, tensors, header)


def load(forecaster: Forecaster, path: str | Path, net: nn.Module | None) -> ColumnRoles:
    """Restore a forecaster from a file, and return the roles of the columns.

    Raises:
        FileNotFoundError: there is no such file.
        InvalidModelFile: the file is damaged or holds no forecaster.
    """
    tensors, header = model_file.read(path)
    with model_file.as_invalid_file(path):
        entry = header.get("forecaster")
        if not isinstance(entry, dict):
            raise InvalidModelFile(f"{path} holds no forecaster")
        validation.check_finite(entry, "the forecaster")
        entry, own = _with_current_words(entry, under_prefix(tensors, _PREFIX))
        validation.check_numbers(own, {})
        given = validation.require_type(entry["parameters"], dict, "parameters")
        if set(given) != set(_JSON_PARAMETERS):
            raise InvalidModelFile("the parameters in the file are not those of a Forecaster")
        rest = {k: v for k, v in tensors.items() if not k.startswith(_PREFIX)}
        learner = learner_files.unpack(path, rest, header, net, None, device=None)
        likelihood = entry["likelihood"]
        if likelihood is not None:
            likelihood = learner_files.likelihood_of(dict(likelihood), rest)
        forecaster.set_params(
            **given,
            net=learner.net if entry["net"] == "module" else _to_tuple(entry["net"]),
            likelihood=likelihood,
            learner=learner_files.learner_class(entry["learner"]),
            learner_kwargs=entry["learner_kwargs"],
        )
        state = _state(entry, own, learner)
        forecaster.state_ = state
        forecaster.best_params_ = asdict(state.params)
        forecaster.cv_results_ = cv_results(
            [
                TrialResult(_params(params), torch.tensor([float(score)], dtype=torch.float64))
                for params, score in entry["cv_results"]
            ]
        )
        columns = _columns(entry["columns"])
        again = pack(forecaster, columns)
        validation.check_roundtrip(
            (own, entry), (under_prefix(again[0], _PREFIX), again[1]["forecaster"])
        )
    return columns


def pack(forecaster: Forecaster, columns: ColumnRoles) -> tuple[Tensors, dict[str, Any]]:
    """Return everything that was learned as tensors and JSON values."""
    state = forecaster.state_
    tensors, header = learner_files.pack(state.model.learner)
    recursive = state.model if isinstance(state.model, RecursiveModel) else None
    one_step = state.model.one_step if isinstance(state.model, RecursiveModel) else state.model
    net, kind, likelihood = forecaster.net, forecaster.learner, forecaster.likelihood
    scores = [forecaster.cv_results_[name] for name in ("params", "mean_test_score")]
    recursion = recursive and {
        "n_steps": recursive.n_steps, "uncertainty": recursive.uncertainty, "seed": recursive.seed
    }  # fmt: skip
    entry = {
        "parameters": {n: _to_python(getattr(forecaster, n)) for n in _JSON_PARAMETERS},
        "net": "module" if isinstance(net, nn.Module) else net,
        "learner": kind if isinstance(kind, str) else learner_name(kind),
        "learner_kwargs": _to_python(forecaster.learner_kwargs),
        "likelihood": likelihood and {"name": type(likelihood).__name__, **likelihood.config()},
        "best_params": asdict(state.params),
        "cv_results": [[params, float(score)] for params, score in zip(*scores, strict=True)],
        "layout": asdict(one_step.layout),
        # Of the fit: the parameters above may have been changed for the next fit.
        "transform": state.scaler.transform,
        "recursion": recursion,
        "error_window": state.calibration.error_window,
        "grid": state.grid.to_json(),
        "now": state.now,
        "series_names": list(state.series_names),
        "squeezed": state.squeezed,
        "season_length": state.season_length,
        "n_updates": state.n_updates,
        "keeps_target_units": one_step.target_units is not None,
        "columns": asdict(columns),
    }
    if state.pending is not None:
        entry["n_pending"] = state.pending.count
    return tensors | with_prefix(_tensors(state), _PREFIX), {**header, "forecaster": entry}


def _tensors(state: ForecasterState) -> Tensors:
    """Return the arrays of a state as tensors; empty ones are left out."""
    history, pending = state.history, state.pending
    arrays = {
        "scaler/mean": state.scaler.mean, "scaler/scale": state.scaler.scale,
        "future_covariates/mean": state.future_scaler.mean,
        "future_covariates/scale": state.future_scaler.scale,
        "past_covariates/mean": state.past_scaler.mean,
        "past_covariates/scale": state.past_scaler.scale,
        "calibration/noise_factors": state.calibration.noise_factors,
        "calibration/correlation": state.calibration.correlation,
        "error_ewma": state.error_ewma,
        "history/loc": np.nan_to_num(history.loc),
        "history/missing": np.isnan(history.loc).astype(np.uint8),
        "history/variance": history.variance,
    }  # fmt: skip
    for name in _COVARIATES:
        values = getattr(history, name)
        arrays[f"history/{name}"] = np.nan_to_num(values)
        if np.isnan(values).any():
            arrays[f"history/{name}_missing"] = np.isnan(values).astype(np.uint8)
    if pending is not None:
        arrays["pending/mean"] = np.nan_to_num(pending.mean)
        arrays["pending/variance"] = np.nan_to_num(pending.variance)
    full = {name: np.ascontiguousarray(array) for name, array in arrays.items() if array.size}
    return {name: torch.from_numpy(array.copy()) for name, array in full.items()}


def _with_current_words(entry: dict[str, Any], own: Tensors) -> tuple[dict[str, Any], Tensors]:
    """Return header and tensors with the words of the first file format replaced."""
    if "setting" not in entry:
        return entry, own

    def renamed(section: str, value: Any) -> Any:
        words = _OLD_WORDS.get(section, {})
        if not isinstance(value, dict):
            return value
        return {words.get(key, key): inner for key, inner in value.items()}

    entry = {name: renamed(name, value) for name, value in renamed("", entry).items()}
    entry["cv_results"] = [
        [renamed("best_params", params), score] for params, score in entry["cv_results"]
    ]
    tensors = {}
    for name, tensor in own.items():
        old = next((old for old in _OLD_TENSORS if name.startswith(old)), None)
        new = name if old is None else _OLD_TENSORS[old] + name.removeprefix(old)
        tensors[new] = tensor
    return entry, tensors


def _state(entry: dict[str, Any], own: dict[str, Tensor], learner: Any) -> ForecasterState:
    """Return the state that a file describes, after checking its sizes and numbers."""
    names = tuple(validation.require_type(name, str, "a name") for name in entry["series_names"])
    layout = WindowLayout(**_checked_layout(entry["layout"]))
    _check_types(own)
    now, season_length, n_updates = (
        validation.require_at_most(entry[name], limit, name)
        for name, limit in (("now", 1 << 53), ("season_length", 1 << 53), ("n_updates", 1 << 60))
    )
    arrays = _with_empty({name: tensor.numpy() for name, tensor in own.items()})
    transform = check_transform(entry["transform"])
    scaler = SeriesScaler(transform, arrays["scaler/mean"], arrays["scaler/scale"])
    units = (scaler.mean, scaler.scale) if entry["keeps_target_units"] else None
    kind = learner.method.kind if isinstance(learner, Ensemble) else type(learner)
    model: Any = DirectModel(learner, layout, issubclass(kind, TAGI), units)
    if entry["recursion"] is not None:
        model = _recursive_model(model, entry["recursion"])
    steps, series = model.layout.steps, len(names)
    _check_arrays(arrays, layout, steps, series)
    loc = np.where(arrays["history/missing"] > 0, np.nan, arrays["history/loc"])
    loc = loc.astype(np.float32)
    covariates = [
        np.where(arrays.get(f"history/{n}_missing", 0) > 0, np.nan, arrays[f"history/{n}"])
        for n in _COVARIATES
    ]
    future, past = (part.astype(np.float32) for part in covariates)
    history = History(loc, arrays["history/variance"], future, past)
    if loc.shape[1:] != (series,) or len({len(p) for p in (loc, future, past)}) != 1:
        raise InvalidModelFile("the parts of the history in the file have different sizes")
    row = (layout.lags, 1 + layout.n_past_covariates) if layout.sequence else (layout.n_inputs,)
    learner.checks.output_shape(torch.zeros(1, *row, dtype=learner.dtype))
    future_scaler, past_scaler = (
        CovariateScaler(arrays[f"{name}/mean"], arrays[f"{name}/scale"]) for name in _COVARIATES
    )
    calibration = ErrorCalibration(
        arrays["calibration/noise_factors"], arrays["calibration/correlation"],
        entry["error_window"],
    )  # fmt: skip
    return ForecasterState(
        model, _params(entry["best_params"]), scaler, future_scaler, past_scaler, calibration,
        arrays["error_ewma"], history, _grid(entry["grid"], now), now, names,
        validation.require_type(entry["squeezed"], bool, "squeezed"), season_length, n_updates,
        _pending(entry, arrays, (steps, series, steps)),
    )  # fmt: skip


def _check_arrays(arrays: dict[str, Any], layout: WindowLayout, steps: int, series: int) -> None:
    """Raise if an array has a wrong shape, or a scale or variance is not positive."""
    times = len(arrays["history/loc"])
    shapes: dict[str, tuple[int, ...]] = {
        "scaler/mean": (series,), "scaler/scale": (series,), "error_ewma": (series, steps),
        "calibration/noise_factors": (series, steps), "calibration/correlation": (steps, steps),
        **dict.fromkeys(("history/loc", "history/missing", "history/variance"), (times, series)),
    }  # fmt: skip
    counts = (layout.n_future_covariates, layout.n_past_covariates)
    for name, count in zip(_COVARIATES, counts, strict=True):
        shapes |= {f"{name}/mean": (count,), f"{name}/scale": (count,)}
        shapes[f"history/{name}"] = (times, series, count)
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise InvalidModelFile(
                f"{name} has shape {arrays[name].shape} in the file, expected {shape}"
            )
    positive = [f"{name}/scale" for name in ("scaler", *_COVARIATES)]
    positive.append("calibration/noise_factors")
    squares = ("history/variance", "error_ewma")
    if any((arrays[n] <= 0).any() for n in positive) or any((arrays[n] < 0).any() for n in squares):
        raise InvalidModelFile("a scale or a variance in the file is not positive")
    correlation = arrays["calibration/correlation"]
    if not (
        np.allclose(correlation, correlation.T, atol=1e-6)
        and np.allclose(correlation.diagonal(), 1, atol=1e-6)
        and np.linalg.eigvalsh(correlation)[0] > -1e-6
    ):
        raise InvalidModelFile("the correlation of steps in the file is not a correlation matrix")


def _pending(
    entry: dict[str, Any], arrays: dict[str, Any], shape: tuple[int, ...]
) -> PendingForecasts | None:
    """Return the latest forecasts of a stream; None where there were no updates."""
    if "n_pending" not in entry:
        return None
    count = validation.require_at_most(entry["n_pending"], 1 << 60, "n_pending")
    mean, variance = (arrays[f"pending/{name}"].copy() for name in ("mean", "variance"))
    if mean.shape != shape or variance.shape != shape or (variance < 0).any():
        raise InvalidModelFile("the pending forecasts in the file do not match the forecaster")
    unknown = variance == 0
    mean[unknown] = variance[unknown] = np.nan
    return PendingForecasts(mean, variance, count)


def _recursive_model(model: DirectModel, entry: dict[str, Any]) -> RecursiveModel:
    names = {"n_steps", "uncertainty", "seed"}
    if set(entry) != names or entry["uncertainty"] not in ("covariance", "paths"):
        raise InvalidModelFile(f"the recursion in the file is invalid: {entry!r}")
    n_steps = validation.require_at_most(entry["n_steps"], _MAX_COUNT, "n_steps")
    seed = validation.require_type(entry["seed"], int, "the seed of the recursion")
    return RecursiveModel(model, n_steps, entry["uncertainty"], seed)


def _check_types(own: dict[str, Tensor]) -> None:
    """Raise for tensors of other types than ``pack`` writes."""
    for name, tensor in own.items():
        expected = torch.float64 if name.split("/")[0] in _DOUBLE else torch.float32
        expected = torch.uint8 if name.endswith("missing") else expected
        if tensor.dtype != expected:
            raise InvalidModelFile(f"{name} has type {tensor.dtype} in the file, not {expected}")


def _grid(entry: Any, now: int) -> TimeGrid:
    """Return the time grid, if the stamps of all steps can be computed."""
    grid = TimeGrid.from_json(validation.require_type(entry, dict, "the time grid"))
    for value in (grid.start, grid.step):
        validation.require_type(value, (int, float), "a time")
    offset = validation.require_type(grid.month_offset, int, "month_offset")
    validation.require_at_most(abs(offset), 1 << 42, "month_offset")
    last = abs(grid.start) + grid.step * (now + _MAX_COUNT)
    if grid.kind not in ("number", "month", "time") or grid.step <= 0 or last >= 1 << 62:
        raise InvalidModelFile(f"the time grid in the file is invalid: {entry!r:.80}")
    return grid


def _params(entry: dict[str, Any]) -> HyperParameters:
    return HyperParameters(**{**entry, "hidden_layer_sizes": tuple(entry["hidden_layer_sizes"])})


def _columns(entry: Any) -> ColumnRoles:
    columns = dict(entry)
    for name in _COVARIATES:
        columns[name] = tuple(columns[name])
    columns["target_cols"] = _to_tuple(columns["target_cols"])
    return ColumnRoles(**columns)


def _checked_layout(entry: dict[str, Any]) -> dict[str, Any]:
    for name in ("lags", "steps", "n_future_covariates", "n_past_covariates"):
        validation.require_at_most(entry[name], _MAX_COUNT, name)
    if entry["normalize_by"] not in NORMALIZATIONS:
        raise InvalidModelFile(f"unknown normalize_by {entry['normalize_by']!r} in the file")
    return entry


def _to_python(value: Any) -> Any:
    """Return NumPy numbers as Python numbers, for JSON."""
    if isinstance(value, dict):
        return {name: _to_python(inner) for name, inner in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def _to_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _with_empty(arrays: dict[str, Any]) -> dict[str, Any]:
    """Add the empty arrays of absent covariates."""
    times, series = arrays["history/loc"].shape
    for name in _COVARIATES:
        arrays.setdefault(f"{name}/mean", np.zeros(0))
        arrays.setdefault(f"{name}/scale", np.ones(0))
        arrays.setdefault(f"history/{name}", np.zeros((times, series, 0), np.float32))
    return arrays
