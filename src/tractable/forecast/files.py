"""A forecaster as a file: its learner's model file, with everything else beside it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from tractable.errors import InvalidModelFile
from tractable.forecast.choosing import Tried
from tractable.forecast.model import Model, Setting
from tractable.forecast.panel import Columns
from tractable.forecast.recursion import Recursion
from tractable.forecast.spread import Spread
from tractable.forecast.state import State, Told
from tractable.forecast.times import Grid
from tractable.forecast.units import Covariates, Units, check_transform
from tractable.forecast.windows import LEVELS, History, Layout
from tractable.learners import TAGI, Ensemble
from tractable.learners import files as learner_files
from tractable.learners.files import kind_name
from tractable.likelihoods import IncompleteNormal, Likelihood, Normal
from tractable.persistence import checks, model_file
from tractable.persistence.model_file import Tensors, part, prefixed

if TYPE_CHECKING:
    from tractable.forecast.forecaster import Forecaster

_PREFIX = "forecaster/"
_PLAIN = (
    "horizon season lags level transform strategy spread members epochs batch_size validation "
    "refit stride memory forget sequence seed"
).split()
_MOST = 1 << 20


def save(forecaster: Forecaster, path: str | Path, columns: Columns) -> None:
    """Write a fitted forecaster to one file, atomically."""
    tensors, header = packed(forecaster, columns)
    model_file.write(path, tensors, header)


def packed(forecaster: Forecaster, columns: Columns) -> tuple[Tensors, dict[str, Any]]:
    """All that was learnt, as tensors and JSON values."""
    state = forecaster.state_
    tensors, header = learner_files.pack(state.model.learner)
    one = state.model.one if isinstance(state.model, Recursion) else state.model
    parts = {
        "units/mean": state.units.mean, "units/scale": state.units.scale,
        "known/mean": state.known.mean, "known/scale": state.known.scale,
        "past/mean": state.past.mean, "past/scale": state.past.scale,
        "spread/factors": state.spread.factors, "spread/correlation": state.spread.correlation,
        "recent": state.recent, "history/loc": np.nan_to_num(state.history.loc),
        "history/missing": np.isnan(state.history.loc).astype(np.uint8),
        "history/variance": state.history.variance,
        "history/known": np.nan_to_num(state.history.known),
        "history/past": np.nan_to_num(state.history.past),
    }  # fmt: skip
    for name in ("known", "past"):
        missing = np.isnan(getattr(state.history, name))
        if missing.any():
            parts[f"history/{name}_missing"] = missing.astype(np.uint8)
    told = state.told
    if told is not None:
        parts |= {
            "told/mean": np.nan_to_num(told.mean), "told/variance": np.nan_to_num(told.variance)
        }  # fmt: skip
    full = {name: np.ascontiguousarray(part) for name, part in parts.items() if part.size}
    own = {name: torch.from_numpy(part.copy()) for name, part in full.items()}
    net, kind, likelihood = forecaster.net, forecaster.learner, forecaster.likelihood
    run_on = state.model if isinstance(state.model, Recursion) else None
    entry = {
        "parameters": {name: _plain(getattr(forecaster, name)) for name in _PLAIN},
        "net": "module" if isinstance(net, nn.Module) else net,
        "learner": kind if isinstance(kind, str) else kind_name(kind),
        "options": _plain(forecaster.options),
        "likelihood": likelihood and {"name": type(likelihood).__name__, **likelihood.config()},
        "setting": asdict(state.setting),
        "tried": [[asdict(one.setting), one.score] for one in forecaster.tried_],
        "layout": asdict(one.layout),
        # What was fitted: the parameters may have been changed since, for the next fit.
        "transform": state.units.transform,
        "recursion": run_on and {"ahead": run_on.ahead, "way": run_on.way, "seed": run_on.seed},
        "memory": state.spread.memory,
        "grid": state.grid.to_json(),
        "now": state.now,
        "names": list(state.names),
        "alone": state.alone,
        "season": state.season,
        "updates": state.updates,
        "counts": one.units is not None,
        "columns": asdict(columns),
    }
    if told is not None:
        entry["told"] = told.count
    return tensors | prefixed(own, _PREFIX), {**header, "forecaster": entry}


def load(forecaster: Forecaster, path: str | Path, net: nn.Module | None) -> Columns:
    """Fill a forecaster with what a file holds.

    Raises:
        FileNotFoundError: there is no such file.
        InvalidModelFile: not a whole file of a forecaster.
    """
    tensors, header = model_file.read(path)
    with model_file.fitting(path):
        entry = header.get("forecaster")
        if not isinstance(entry, dict):
            raise InvalidModelFile(f"{path} holds no forecaster")
        checks.finite(entry, "the forecaster")
        own = part(tensors, _PREFIX)
        checks.numbers(own, {})
        given = checks.of_type(entry["parameters"], dict, "parameters")
        if set(given) != set(_PLAIN):
            raise InvalidModelFile("the parameters in the file are not those of a Forecaster")
        rest = {k: v for k, v in tensors.items() if not k.startswith(_PREFIX)}
        learner = learner_files.unpack(path, rest, header, net, None, device=None)
        entry = _completed(entry, learner.likelihood)
        shown, given_likelihood = entry["net"], entry["likelihood"]
        if given_likelihood is not None:
            given_likelihood = learner_files.likelihood_of(dict(given_likelihood), rest)
        forecaster.set_params(
            **given,
            net=learner.net if shown == "module" else _tuple(shown),
            likelihood=given_likelihood,
            learner=learner_files.kind_of(entry["learner"]),
            options=entry["options"],
        )  # fmt: skip
        state = _state(entry, own, learner)
        forecaster.state_ = state
        forecaster.tried_ = [Tried(_setting(one), float(score)) for one, score in entry["tried"]]
        forecaster.setting_ = state.setting
        columns = dict(entry["columns"])
        lists = {name: tuple(columns[name]) for name in ("known", "past")}
        if isinstance(columns["target"], list):
            lists["target"] = tuple(columns["target"])
        again = packed(forecaster, Columns(**{**columns, **lists}))
        checks.taken((own, entry), (part(again[0], _PREFIX), again[1]["forecaster"]))
    return Columns(**{**columns, **lists})


def _completed(entry: dict[str, Any], likelihood: Likelihood) -> dict[str, Any]:
    """A header with the entries that files did not have at first, and without one they had."""
    given = entry["parameters"]
    ahead = {"ahead": given["horizon"], "way": given["spread"], "seed": given["seed"]}
    own = None
    if type(likelihood) not in (Normal, IncompleteNormal):
        own = {"name": type(likelihood).__name__, **likelihood.config()}
    elif likelihood.sigma is not None:
        own = {"name": "Normal", "sigma": likelihood.sigma, "outputs": 1}
    first: dict[str, Any] = {
        "transform": check_transform(given["transform"]),
        "recursion": ahead if given["strategy"] == "recursive" else None,
        "likelihood": own,
        "tried": [],
    }
    return {**first, **{name: value for name, value in entry.items() if name != "until"}}


def _state(entry: dict[str, Any], own: dict[str, Tensor], learner: Any) -> State:
    names = tuple(checks.of_type(name, str, "a name") for name in entry["names"])
    layout = Layout(**_whole(entry["layout"]))
    _check_types(own)
    now, season = (checks.at_most(entry[word], 1 << 53, word) for word in ("now", "season"))
    held = _with_empty({name: tensor.numpy() for name, tensor in own.items()})
    units = Units(check_transform(entry["transform"]), held["units/mean"], held["units/scale"])
    scaled = (units.mean, units.scale) if entry["counts"] else None
    kind = learner.method.kind if isinstance(learner, Ensemble) else type(learner)
    model: Any = Model(learner, layout, issubclass(kind, TAGI), scaled)
    if entry["recursion"] is not None:
        model = _recursion(model, entry["recursion"])
    steps, series = model.layout.steps, len(names)
    checked = {
        "units/mean": (series,), "units/scale": (series,), "recent": (series, steps),
        "spread/factors": (series, steps), "spread/correlation": (steps, steps),
    }  # fmt: skip
    for name, count in (("known", layout.known), ("past", layout.past)):
        checked |= {f"{name}/mean": (count,), f"{name}/scale": (count,)}
        checked[f"history/{name}"] = (len(held["history/loc"]), series, count)
    for name, shape in checked.items():
        if held[name].shape != shape:
            raise InvalidModelFile(
                f"{name} in the file is of shape {held[name].shape}, not {shape}"
            )
    scales = [units.scale, held["known/scale"], held["past/scale"], held["spread/factors"]]
    squares = [held["history/variance"], held["recent"]]
    if any((part <= 0).any() for part in scales) or any((part < 0).any() for part in squares):
        raise InvalidModelFile("a scale or a variance in the file is not positive")
    _check_correlation(held["spread/correlation"])
    loc = np.where(held["history/missing"] > 0, np.nan, held["history/loc"]).astype(np.float32)
    beside = [
        np.where(held.get(f"history/{name}_missing", 0) > 0, np.nan, held[f"history/{name}"])
        for name in ("known", "past")
    ]
    history = History(loc, held["history/variance"], *(b.astype(np.float32) for b in beside))
    if loc.shape[1:] != (series,) or len({len(p) for p in (loc, history.known, history.past)}) != 1:
        raise InvalidModelFile("the parts of the history in the file do not fit each other")
    learner.output_shape(torch.zeros(1, *_row(layout), dtype=learner.dtype))
    return State(
        model, _setting(entry["setting"]), units,
        Covariates(held["known/mean"], held["known/scale"]),
        Covariates(held["past/mean"], held["past/scale"]),
        Spread(held["spread/factors"], held["spread/correlation"], entry["memory"]),
        held["recent"], history, _grid(entry["grid"], now), now, names,
        checks.of_type(entry["alone"], bool, "alone"), season,
        checks.at_most(entry["updates"], 1 << 60, "updates"),
        _told(entry, held, (steps, series, steps)),
    )  # fmt: skip


def _told(entry: dict[str, Any], held: dict[str, Any], shape: tuple[int, ...]) -> Told | None:
    """The latest forecasts of a stream; none in files of before, or where nothing came."""
    if "told" not in entry:
        return None
    count = checks.at_most(entry["told"], 1 << 60, "told")
    parts = [held[f"told/{name}"].copy() for name in ("mean", "variance")]
    if any(table.shape != shape for table in parts) or (parts[1] < 0).any():
        raise InvalidModelFile("the latest forecasts in the file do not fit the forecaster")
    untold = parts[1] == 0
    for table in parts:
        table[untold] = np.nan
    return Told(parts[0], parts[1], count)


def _recursion(model: Model, entry: dict[str, Any]) -> Recursion:
    if set(entry) != {"ahead", "way", "seed"} or entry["way"] not in ("covariance", "paths"):
        raise InvalidModelFile(f"the recursion in the file is {entry!r}: damaged")
    ahead = checks.at_most(entry["ahead"], _MOST, "the steps of the recursion")
    return Recursion(model, ahead, entry["way"], checks.of_type(entry["seed"], int, "its seed"))


def _check_types(own: dict[str, Tensor]) -> None:
    """Refuse tensors of other types than ``packed`` writes."""
    for name, tensor in own.items():
        wanted = torch.float64 if name.split("/")[0] in _DOUBLE else torch.float32
        wanted = torch.uint8 if name.endswith("missing") else wanted
        if tensor.dtype != wanted:
            raise InvalidModelFile(f"{name} in the file is of type {tensor.dtype}, not {wanted}")


_DOUBLE = ("units", "known", "past", "spread")


def _check_correlation(given: Any) -> None:
    """Refuse what no correlation can be, of which no paths can be drawn."""
    square = given.ndim == 2 and given.shape[0] == given.shape[1]
    if not (
        square
        and np.allclose(given, given.T, atol=1e-6)
        and np.allclose(given.diagonal(), 1, atol=1e-6)
        and np.linalg.eigvalsh(given)[0] > -1e-6
    ):
        raise InvalidModelFile("the correlation of steps in the file is none")


def _grid(entry: Any, now: int) -> Grid:
    """The times, if stamps of them can be computed."""
    grid = Grid.from_json(checks.of_type(entry, dict, "the times"))
    for value in (grid.start, grid.step):
        checks.of_type(value, (int, float), "a time")
    checks.at_most(abs(checks.of_type(grid.late, int, "late")), 1 << 42, "late")
    last = abs(grid.start) + grid.step * (now + _MOST)
    if grid.kind not in ("number", "month", "time") or grid.step <= 0 or last >= 1 << 62:
        raise InvalidModelFile(f"the times in the file are {entry!r:.80}: damaged")
    return grid


def _setting(entry: dict[str, Any]) -> Setting:
    return Setting(**{**entry, "hidden": tuple(entry["hidden"])})


def _plain(value: Any) -> Any:
    """A number of NumPy as one of Python, which JSON has."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def _whole(layout: dict[str, Any]) -> dict[str, Any]:
    for name in ("lags", "steps", "known", "past"):
        checks.at_most(layout[name], _MOST, name)
    if layout["level"] not in LEVELS:
        raise InvalidModelFile(f"the level {layout['level']!r} in the file is unknown")
    return layout


def _row(layout: Layout) -> tuple[int, ...]:
    return (layout.lags, 1 + layout.past) if layout.sequence else (layout.inputs,)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _with_empty(held: dict[str, Any]) -> dict[str, Any]:
    """What a file holds, and covariates of which there are none."""
    times, series = held["history/loc"].shape
    for name in ("known", "past"):
        held.setdefault(f"{name}/mean", np.zeros(0))
        held.setdefault(f"{name}/scale", np.ones(0))
        held.setdefault(f"history/{name}", np.zeros((times, series, 0), np.float32))
    return held
