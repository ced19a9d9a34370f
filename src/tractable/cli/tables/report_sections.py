"""What a person asks of a model of their table, answered on rows that it has not seen."""

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
_MOST_POINTS = 400
_MOST_BARS = 12
_FEW_TEST_ROWS = 5  # of a class
_NEARLY = 0.02  # by which a rival may be worse and still be said to be as good

MEASURES = {
    "rmse": ("typical error (RMSE)", "smaller"),
    "mae": ("mean absolute error", "smaller"),
    "log_density": ("log density of what came", "larger"),
    "coverage_90": ("90 % intervals hold", "90 %"),
    "width_90": ("their mean width", "smaller"),
    "accuracy": ("right answers", "larger"),
    "log_loss": ("log loss", "smaller"),
    "brier": ("Brier score", "smaller"),
    "auc": ("area under the ROC curve", "larger"),
}
_SHARES = {"coverage_90", "accuracy"}


def accuracy_section(
    metrics: dict[str, float], rivals: Sequence[Baseline], target: str, rows: int
) -> Section:
    """The model beside its rivals, and a warning where it is no better."""
    key = "rmse" if "rmse" in metrics else "log_loss"
    names = [name for name in MEASURES if name in metrics]
    beside = [metrics, *(rival.metrics for rival in rivals)]
    table = [
        [MEASURES[name][0], *(_cell(name, m.get(name)) for m in beside), MEASURES[name][1]]
        for name in names
    ]
    own, warnings = metrics[key], list[str]()
    simple = rivals[-1]
    if own >= simple.metrics[key]:
        what = "predicting the mean" if key == "rmse" else "guessing by the shares of the classes"
        warnings.append(f"It is no better than {what}: it found nothing in the columns.")
    elif own > (1 + _NEARLY) * rivals[0].metrics[key]:
        warnings.append(
            f"A {rivals[0].name} is better here: {format_number(rivals[0].metrics[key])} beside "
            f"{format_number(own)}."
        )
    if key == "rmse":
        share = 1 - (own / simple.metrics[key]) ** 2 if simple.metrics[key] else 0.0
        words = (
            f"On {rows} rows that it had not seen, predictions of {target} are off by "
            f"{format_number(own)} (root mean square); always predicting the mean is off by "
            f"{format_number(simple.metrics[key])}. It explains {100 * share:.0f} % of the "
            f"variation."
        )
    else:
        words = (
            f"Of {rows} rows that it had not seen, {100 * metrics['accuracy']:.1f} % are told "
            f"right; always the most frequent answer is right in "
            f"{100 * simple.metrics['accuracy']:.1f} %."
        )
    header = ["on these rows", "this model", *(r.name for r in rivals), "better is"]
    return Section("How good is it?", [words], header, table, warnings=warnings)


def _cell(name: str, value: float | None) -> str:
    if value is None or not np.isfinite(value):
        return "–"
    return f"{100 * value:.1f} %" if name in _SHARES else format_number(float(value))


def predicted_vs_observed(predictive: Predictive, y: Array, target: str) -> Section:
    """Predicted against observed, with 90 % intervals."""
    low, high = (end.numpy() for end in predictive.interval(0.9))
    inside = int(((low <= y) & (y <= high)).sum())
    words = (
        f"Each point is a row that it had not seen, with its 90 % interval; on the dotted line "
        f"prediction and truth agree. {inside} of {len(y)} intervals hold the truth."
    )
    some = slice(0, _MOST_POINTS)
    columns = [part[some].tolist() for part in (y, predictive.mean.numpy(), low, high)]
    points = ScatterData(f"observed {target}", f"predicted {target}", *columns)
    return Section("Predicted and observed", [words], scatter=points)


def confusion_section(probabilities: Array, y: Array, classes: Array, train: Array) -> Section:
    """Which class is taken for which, and the share of each that is found."""
    names = [str(label) for label in classes]
    guess = np.array(names)[probabilities.argmax(1)]
    table, warnings = [], []
    for name in names:
        own = y.astype(str) == name
        counts = [int((guess[own] == other).sum()) for other in names]
        found = f"{100 * np.mean(guess[own] == name):.0f} %" if own.any() else "–"
        taken = guess == name
        right = f"{100 * np.mean(own[taken]):.0f} %" if taken.any() else "–"
        table.append([name, *map(str, counts), found, right])
        learnt = int((train.astype(str) == name).sum())
        if own.sum() < _FEW_TEST_ROWS:
            warnings.append(
                f"Class {name!r} has {int(own.sum()) or 'no'} test rows and {learnt} to learn "
                f"from: what is said of it here means little."
            )
    header = ["true class", *(f"told {name}" for name in names), "found", "right when told"]
    words = "How many rows of each class were told which."
    return Section("Which classes does it mistake?", [words], header, table, warnings=warnings)


def importance_section(found: Sequence[FeatureImportance], target: str, *, labels: bool) -> Section:
    """Columns by what they are worth, with slopes where there are any."""
    unit = "the log loss" if labels else f"the mean absolute error of {target}"
    shown = list(found[:_MOST_BARS])
    slopes = any(m.slope is not None for m in shown)
    words = [
        f"How much worse {unit} gets when the values of a column are shuffled among the rows, so "
        f"that they say nothing; the line is one standard error on each side."
    ]
    rows, header = list[list[str]](), list[str]()
    if slopes:
        words.append(
            f"The table has the mean change of {target} for one more unit of a column, and how "
            f"unsure the model is of it at a row."
        )
        header = ["column", "change for one more unit", "unsure by"]
        rows = [
            [
                m.name,
                f"{'+' if m.slope > 0 else ''}{format_number(m.slope)}",
                f"± {format_number(m.doubt)}",
            ]
            for m in shown
            if m.slope is not None
        ]
    bars = BarData(
        f"added to {unit}", [m.name for m in shown], [m.cost for m in shown],
        [m.error for m in shown],
    )  # fmt: skip
    return Section("Which columns matter?", words, header, rows, bars=bars)


def regression_rows(predictive: Predictive, y: Array, numbers: Sequence[int]) -> list[Section]:
    """The rows that are missed most, and those it is least sure of."""
    mean, std = predictive.mean.numpy(), predictive.std.numpy()
    z = np.abs(y - mean) / np.maximum(std, 1e-300)
    header = ["row of the file", "observed", "predicted", "± std", "deviations off"]

    def lines(order: Array) -> list[list[str]]:
        return [
            [str(numbers[i]), *(format_number(float(v[i])) for v in (y, mean, std)), f"{z[i]:.1f}"]
            for i in order[:_SHOWN]
        ]  # fmt: skip

    worst = Section(
        "Where is it most wrong?",
        ["Rows that are farthest from their prediction, in standard deviations. Look at them: are "
         "their values right?"],
        header, lines(np.argsort(-z)),
    )  # fmt: skip
    unsure = Section(
        "Where is it least sure?", ["Rows with the widest error bars."], header,
        lines(np.argsort(-std)),
    )  # fmt: skip
    return [worst, unsure]


def classification_rows(
    probabilities: Array, y: Array, classes: Array, numbers: Sequence[int]
) -> list[Section]:
    """The labels that surprised it most, and the rows it is least sure of."""
    names = [str(label) for label in classes]
    seen = np.array([names.index(str(label)) for label in y])
    given = probabilities[np.arange(len(y)), seen]
    top = probabilities.max(1)
    header = ["row of the file", "true class", "told", "its probability", "of the true class"]

    def lines(order: Array) -> list[list[str]]:
        return [
            [str(numbers[i]), str(y[i]), names[int(probabilities[i].argmax())],
             f"{100 * top[i]:.0f} %", f"{100 * given[i]:.0f} %"]
            for i in order[:_SHOWN]
        ]  # fmt: skip

    return [
        Section("Where is it most wrong?", ["Labels that it held for least likely. Look at them: "
                "are they right?"], header, lines(np.argsort(given))),
        Section("Where is it least sure?", ["Rows whose most likely class is least likely."],
                header, lines(np.argsort(top))),
    ]  # fmt: skip


def unusual_rows(predictive: Predictive, prepared: PreparedTable, estimator: Any) -> Section | None:
    """Test rows unlike those it learnt from, and wild values among the latter."""
    words, rows = list[str](), list[list[str]]()
    novelty = predictive.novelty
    if novelty is not None:
        far = novelty.numpy()
        order = np.argsort(-far)
        count = int((far > 0).sum())
        numbers = [prepared.table.numbers[i] for i in prepared.test]
        words.append(
            f"{count} of {len(far)} test rows lie farther from the rows it learnt from than those "
            f"mostly lie from each other (about one in ten does by chance); their error bars are "
            f"wider."
        )
        rows = [
            [str(numbers[i]), format_number(float(far[i]))] for i in order[:_SHOWN] if far[i] > 0
        ]
    at = 0
    for column in prepared.columns:
        wild = int(estimator.n_clipped_[at : at + column.width].sum())
        at += column.width
        if wild:
            values = "1 value lies" if wild == 1 else f"{wild} values lie"
            words.append(f"Column {column.name!r}: {values} far from all others.")
    if not words:
        return None
    header = ["row of the file", "how far (standard deviations)"] if rows else []
    return Section("Which rows are unlike the others?", words, header, rows)


def model_selection_section(estimator: Any) -> Section | None:
    """The settings that held-out rows chose, and how the others did."""
    results = getattr(estimator, "cv_results_", None)
    if results is None or not results["params"]:
        return None
    rows = []
    for k in (-results["mean_test_score"]).argsort(kind="stable"):
        params, nets = results["params"][k], str(results["n_estimators"][k])
        layers = " and ".join(map(str, params["hidden_layer_sizes"])) or "none: a linear model"
        mark = " (chosen)" if params == estimator.best_params_ else ""
        weighed = "weighed" if params["relevance"] else "as they are"
        score = format_number(float(results["mean_test_score"][k]))
        rows.append([f"{params['epochs']} passes{mark}", layers, weighed, nets, score])
    words = (
        "Rows set apart from the training rows chose, each setting fitted without them; a simpler "
        "one stands unless another is clearly better. Larger log-likelihoods are better."
    )
    header = ["setting", "hidden units", "columns", "networks", "log-likelihood"]
    return Section("Which settings were chosen?", [words], header, rows)
