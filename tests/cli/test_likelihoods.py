"""``tractable fit --likelihood``: given by the user, or suggested from the target."""

import csv
import json

import numpy as np
import pytest

from tests.cli.conftest import write
from tractable.cli.errors import UsageError
from tractable.cli.tables.likelihood_choice import choose_likelihood
from tractable.cli.tables.target import TargetColumn
from tractable.report import Results

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2))
F = X[:, 0] + 0.5 * X[:, 1]


def of_numbers(y, wanted="auto"):
    return choose_likelihood(TargetColumn("regression", y, ""), wanted, (), X, y)


def of_labels(labels, wanted="auto", order=()):
    labels = np.array(labels)
    return choose_likelihood(
        TargetColumn("classification", labels, ""), wanted, order, X[: len(labels)], labels
    )


@pytest.mark.parametrize(
    ("y", "name"),
    [
        (RNG.poisson(np.exp(1 + F)).astype(float), "negative_binomial"),
        (F + 0.1 * RNG.normal(size=200), "normal"),
        (np.round(40 + 5 * F), "normal"),  # ages: whole, but no small ones
        (np.round(1e6 * np.exp(F)), "normal"),  # prices
        (RNG.uniform(0, 2 * np.pi, 200), "von_mises"),
        (RNG.uniform(-np.pi, np.pi, 200), "von_mises"),
        (RNG.uniform(0, 4, 200), "normal"),
        (F + 0.1 * RNG.standard_t(1, size=200), "student_t"),
        (-RNG.poisson(3, 200).astype(float), "normal"),
    ],
)
def test_likelihood_suggested_for_numeric_targets(y, name):
    found = of_numbers(y)
    assert found.name == name
    assert found.reason
    assert of_numbers(y, None).name == "normal"
    assert of_numbers(y, "laplace").options() == {"likelihood": "laplace"}


def test_likelihood_suggested_for_classes():
    assert of_labels(["3", "10", "5"] * 5).order == ("3", "5", "10")
    assert of_labels(["yes", "no"] * 5).name == "categorical"
    assert of_labels(["0", "1"] * 5).name == "categorical"
    stated = of_labels(["mid", "low", "high"] * 5, order=("low", "mid", "high"))
    assert stated.options() == {"ordered": ["low", "mid", "high"]}
    with pytest.raises(UsageError, match="--order high,low,mid"):
        of_labels(["mid", "low", "high"] * 5, "ordinal")
    with pytest.raises(UsageError, match="--order has"):
        of_labels(["mid", "low", "high"] * 5, "ordinal", ("low", "high"))


@pytest.fixture
def visits(tmp_path):
    """Return counts of visits."""
    counts = np.random.default_rng(1).poisson(np.exp(1 + F[:120]))
    rows = [[*map(float, x), int(k)] for x, k in zip(X[:120].round(3), counts, strict=True)]
    return write(tmp_path / "visits.csv", ["a", "b", "visits"], rows)


@pytest.fixture
def grades(tmp_path):
    """Return ordinal grades as words."""
    names = np.array(["poor", "fair", "good"])[np.digitize(F[:120], [-0.5, 0.5])]
    rows = [[*map(float, x), str(k)] for x, k in zip(X[:120].round(3), names, strict=True)]
    return write(tmp_path / "grades.csv", ["a", "b", "grade"], rows)


SMALL = ("--epochs", 3, "--hidden", 8)


def test_fit_and_predict_counts(call, visits, tmp_path):
    words = ("fit", visits, "--target", "visits", *SMALL)
    done = call(*words, "--out", "m", "--likelihood", "poisson", "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["task"], found["likelihood"]) == ("regression", "poisson")
    results = Results.read(tmp_path / "m/results.json")
    assert results.settings["likelihood"] == "poisson"
    done = call("predict", "m", visits, "-o", "out.csv")
    assert done.exit_code == 0, done.stderr
    with (tmp_path / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert all(float(row["lower"]) == round(float(row["lower"])) >= 0 for row in rows)
    done = call(*words, "--out", "auto", "--likelihood", "auto", "--learner", "net")
    assert done.exit_code == 0, done.stderr
    assert "Likelihood negative_binomial: counts" in done.stdout


def test_fit_and_predict_grades(call, grades, tmp_path):
    words = ("fit", grades, "--target", "grade", *SMALL, "--likelihood", "ordinal")
    done = call(*words, "--order", "poor,fair,good", "--out", "m", "--learner", "net", "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["metrics"]["classes"] == ["poor", "fair", "good"]
    assert found["metrics"]["accuracy"] > 0.5
    rows = json.loads(call("predict", "m", grades, "--json").stdout)
    assert list(rows[0]) == ["label", "p_poor", "p_fair", "p_good", "distance"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--likelihood", "poison"), "poisson"),
        (("--likelihood", "poisson", "--task", "classification"), "regression"),
        (("--likelihood", "poisson", "--learner", "laplace"), "laplace"),
        (("--likelihood", "poisson", "--order", "1,2"), "--order requires"),
        (("--likelihood", "ordinal", "--order", "1,2"), "--order has"),
    ],
)
def test_incompatible_likelihoods_are_reported_in_one_line(call, visits, words, message):
    done = call("fit", visits, "--target", "visits", *SMALL, "--out", "m", *words)
    assert done.exit_code == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_errors_name_the_invalid_count(call, tmp_path):
    rows = [[float(x), y] for x, y in zip(X[:40, 0], [*range(39), -2.5], strict=True)]
    path = write(tmp_path / "bad.csv", ["a", "n"], rows)
    done = call("fit", path, "--target", "n", "--likelihood", "poisson", "--test", 0.1, *SMALL)
    assert done.exit_code == 2
    assert "whole numbers from 0, got -2.5" in done.stderr
