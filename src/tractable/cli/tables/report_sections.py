"""Sections of the report of `tractable fit`, measured on the test rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tractable.cli.tables.evaluation import Baseline
from tractable.cli.tables.importance import FeatureImportance
from tractable.cli.tables.prepare import PreparedTable
from tractable.predictive import Predictive
from tractable.report import BarData, ScatterData, Section
from tractable.report.formatting import format_number

Array = npt.NDArray[Any]

_SHOWN = 5  # rows of a list
_MAX_POINTS = 400
_MAX_BARS = 12
_MIN_TEST_ROWS = 5  # of a class; metrics of fewer rows are unreliable
_TOLERANCE = 0.02  # relative advantage of a baseline from which a warning is shown

MEASURES = {
    "rmse": ("RMSE", "smaller"),
    "mae": ("mean absolute error", "smaller"),
    "log_density": ("mean test log-likelihood", "larger"),
    "coverage_90": ("coverage of 90 % intervals", "90 %"),
    "width_90": ("mean width of 90 % intervals", "smaller"),
    "accuracy": ("accuracy", "larger"),
    "log_loss": ("log loss", "smaller"),
    "brier": ("Brier score", "smaller"),
    "auc": ("area under the ROC curve", "larger"),
}
_PERCENTAGES = {"coverage_90", "accuracy"}


def accuracy_section(
    metrics: dict[str, float], baselines: Sequence[Baseline], target: str, rows: int
) -> Section:
    """Return the metrics of the model and the baselines, with a warning if a baseline is better."""
    key = "rmse" if "rmse" in metrics else "log_loss"
    names = [name for name in MEASURES if name in metrics]
    columns = [metrics, *(baseline.metrics for baseline in baselines)]
    table = [
        [MEASURES[name][0], *(_cell(name, m.get(name)) for m in columns), MEASURES[name][1]]
        for name in names
    ]
    own, warnings = metrics[key], list[str]()
    simple = baselines[-1]
    if own >= simple.metrics[key]:
        what = "predicting the mean" if key == "rmse" else "predicting the class frequencies"
        warnings.append(f"The model is no better than {what}.")
    elif own > (1 + _TOLERANCE) * baselines[0].metrics[key]:
        name, other = baselines[0].name, format_number(baselines[0].metrics[key])
        warnings.append(
            f"{name[0].upper()}{name[1:]} has the lower {MEASURES[key][0]}: {other}; this model "
            f"{format_number(own)}."
        )
    if key == "rmse":
        share = 1 - (own / simple.metrics[key]) ** 2 if simple.metrics[key] else 0.0
        words = (
            f"On {rows} test rows, the RMSE of the predictions of {target} is "
            f"{format_number(own)}; predicting the mean has an RMSE of "
            f"{format_number(simple.metrics[key])}. The model explains {100 * share:.0f} % of the "
            f"variance."
        )
    else:
        words = (
            f"{100 * metrics['accuracy']:.1f} % of {rows} test rows are classified correctly; the "
            f"most frequent class is correct for {100 * simple.metrics['accuracy']:.1f} %."
        )
    header = ["metric", "this model", *(b.name for b in baselines), "better"]
    return Section("Test metrics", [words], header, table, warnings=warnings)


def _cell(name: str, value: float | None) -> str:
    if value is None or not np.isfinite(value):
        return "–"
    return f"{100 * value:.1f} %" if name in _PERCENTAGES else format_number(float(value))


def predicted_vs_observed(predictive: Predictive, y: Array, target: str) -> Section:
    """Return predicted against observed values with 90 % intervals."""
    low, high = (end.numpy() for end in predictive.interval(0.9))
    inside = int(((low <= y) & (y <= high)).sum())
    words = (
        f"Each point is a test row with its 90 % interval. On the dotted line, prediction and "
        f"observation agree. {inside} of {len(y)} intervals contain the observed value."
    )
    some = slice(0, _MAX_POINTS)
    columns = [part[some].tolist() for part in (y, predictive.mean.numpy(), low, high)]
    points = ScatterData(f"observed {target}", f"predicted {target}", *columns)
    return Section("Predicted and observed values", [words], scatter=points)


def confusion_section(probabilities: Array, y: Array, classes: Array, train: Array) -> Section:
    """Return the confusion matrix with recall and precision of each class."""
    names = [str(label) for label in classes]
    predicted = np.array(names)[probabilities.argmax(1)]
    table, warnings = [], []
    for name in names:
        own = y.astype(str) == name
        counts = [int((predicted[own] == other).sum()) for other in names]
        recall = f"{100 * np.mean(predicted[own] == name):.0f} %" if own.any() else "–"
        is_predicted = predicted == name
        precision = f"{100 * np.mean(own[is_predicted]):.0f} %" if is_predicted.any() else "–"
        table.append([name, *map(str, counts), recall, precision])
        n_train = int((train.astype(str) == name).sum())
        if own.sum() < _MIN_TEST_ROWS:
            warnings.append(
                f"Class {name!r} has {int(own.sum()) or 'no'} test rows and {n_train} training "
                f"rows: its metrics are unreliable."
            )
    header = ["true class", *(f"predicted {name}" for name in names), "recall", "precision"]
    words = "Number of test rows by true and predicted class."
    return Section("Confusion matrix", [words], header, table, warnings=warnings)


def importance_section(
    importances: Sequence[FeatureImportance], target: str, *, labels: bool
) -> Section:
    """Return the permutation importance of the columns, with slopes if there are any."""
    unit = "the log loss" if labels else f"the mean absolute error of {target}"
    shown = list(importances[:_MAX_BARS])
    slopes = any(m.slope is not None for m in shown)
    words = [
        f"Increase of {unit} when the values of a column are shuffled among the test rows, with "
        f"one standard error."
    ]
    rows, header = list[list[str]](), list[str]()
    if slopes:
        words.append(
            f"The table has the mean change of {target} per unit of a column, and the standard "
            f"deviation of this change at a row due to the uncertainty of the weights."
        )
        header = ["column", "change per unit", "std"]
        rows = [
            [
                m.name,
                f"{'+' if m.slope > 0 else ''}{format_number(m.slope)}",
                f"± {format_number(m.slope_std)}",
            ]
            for m in shown
            if m.slope is not None
        ]
    bars = BarData(
        f"increase of {unit}", [m.name for m in shown], [m.increase for m in shown],
        [m.std_error for m in shown],
    )  # fmt: skip
    return Section("Importance of the columns", words, header, rows, bars=bars)


def regression_rows(predictive: Predictive, y: Array, numbers: Sequence[int]) -> list[Section]:
    """Return the rows with the largest errors and those with the largest uncertainty."""
    mean, std = predictive.mean.numpy(), predictive.std.numpy()
    z = np.abs(y - mean) / np.maximum(std, 1e-300)
    header = ["row of the file", "observed", "predicted", "± std", "standardized error"]

    def lines(order: Array) -> list[list[str]]:
        return [
            [str(numbers[i]), *(format_number(float(v[i])) for v in (y, mean, std)), f"{z[i]:.1f}"]
            for i in order[:_SHOWN]
        ]  # fmt: skip

    worst = Section(
        "Rows with the largest errors",
        ["Rows with the largest standardized errors. Check whether their values are correct."],
        header, lines(np.argsort(-z)),
    )  # fmt: skip
    unsure = Section(
        "Rows with the largest uncertainty", ["Rows with the largest predictive std."], header,
        lines(np.argsort(-std)),
    )  # fmt: skip
    return [worst, unsure]


def classification_rows(
    probabilities: Array, y: Array, classes: Array, numbers: Sequence[int]
) -> list[Section]:
    """Return the rows with the least probable labels and those with the largest uncertainty."""
    names = [str(label) for label in classes]
    labels = np.array([names.index(str(label)) for label in y])
    true_probs = probabilities[np.arange(len(y)), labels]
    top = probabilities.max(1)
    header = [
        "row of the file",
        "true class",
        "predicted class",
        "its probability",
        "probability of the true class",
    ]

    def lines(order: Array) -> list[list[str]]:
        return [
            [str(numbers[i]), str(y[i]), names[int(probabilities[i].argmax())],
             f"{100 * top[i]:.0f} %", f"{100 * true_probs[i]:.0f} %"]
            for i in order[:_SHOWN]
        ]  # fmt: skip

    return [
        Section("Rows with the largest errors", ["Rows whose true class has the lowest "
                "probability. Check whether their labels are correct."], header,
                lines(np.argsort(true_probs))),
        Section("Rows with the largest uncertainty", ["Rows with the lowest probability of the "
                "predicted class."],
                header, lines(np.argsort(top))),
    ]  # fmt: skip


def unusual_rows(predictive: Predictive, prepared: PreparedTable, estimator: Any) -> Section | None:
    """Return the test rows far from the training data, and the columns with outliers."""
    words, rows = list[str](), list[list[str]]()
    novelty = predictive.novelty
    if novelty is not None:
        far = novelty.numpy()
        order = np.argsort(-far)
        count = int((far > 0).sum())
        numbers = [prepared.table.numbers[i] for i in prepared.test]
        words.append(
            f"{count} of {len(far)} test rows are farther from the training rows than those "
            f"usually are from each other (about one in ten by chance); their intervals are wider."
        )
        rows = [
            [str(numbers[i]), format_number(float(far[i]))] for i in order[:_SHOWN] if far[i] > 0
        ]
    at = 0
    for column in prepared.columns:
        outliers = int(estimator.n_clipped_[at : at + column.width].sum())
        at += column.width
        if outliers:
            values = "1 outlying value" if outliers == 1 else f"{outliers} outlying values"
            words.append(f"Column {column.name!r}: {values} in the training rows.")
    if not words:
        return None
    header = ["row of the file", "distance (standard deviations)"] if rows else []
    return Section("Rows far from the training data", words, header, rows)


def model_selection_section(estimator: Any) -> Section | None:
    """Return the settings that were compared on held-out rows."""
    results = getattr(estimator, "cv_results_", None)
    if results is None or not results["params"]:
        return None
    rows = []
    for k in (-results["mean_test_score"]).argsort(kind="stable"):
        params, nets = results["params"][k], str(results["n_estimators"][k])
        layers = " and ".join(map(str, params["hidden_layer_sizes"])) or "none (linear model)"
        mark = " (selected)" if params == estimator.best_params_ else ""
        weights = "weighted" if params["relevance"] else "unweighted"
        score = format_number(float(results["mean_test_score"][k]))
        rows.append([f"{params['epochs']} epochs{mark}", layers, weights, nets, score])
    words = (
        "Each setting was fitted to a part of the training rows and scored on the others. A "
        "simpler setting is selected unless another one is significantly "
        "better. Larger values are better."
    )
    header = ["setting", "hidden layers", "columns", "networks", "log-likelihood"]
    return Section("Model selection", [words], header, rows)
