"""The novelty of ``tractable density`` is uniform on [0, 1] for rows of the same distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tests.cli.conftest import write
from tractable.cli.commands import density
from tractable.cli.tables.row_table import RowColumn, RowTable


def scored(values, seed=0, components=1):
    """Return the output of ``tractable density`` for a numeric table."""
    made = RowTable(tuple(RowColumn(f"c{k}", decimals=6) for k in range(values.shape[1])))
    model = density.mixture(made, components, seed).fit(values)
    return density.score_rows(model, made, values, seed)


def table(rows, columns, seed, kind="normal", gaps=0.0):
    generator = np.random.default_rng(seed)
    values = generator.normal(size=(rows, columns)) @ generator.normal(size=(columns, columns))
    if kind == "skewed":
        values = np.exp(values / np.abs(values).max())
    elif kind == "tails":
        values = values / np.sqrt(generator.chisquare(3, (rows, 1)) / 3)
    values[generator.random((rows, columns)) < gaps] = np.nan
    return 1000.0 ** generator.integers(-1, 2, columns) * values  # columns of many scales


@pytest.mark.parametrize("kind", ["normal", "skewed", "tails"])
@pytest.mark.parametrize("gaps", [0.0, 0.05])
def test_novelty_of_in_distribution_rows_is_uniform(kind, gaps):
    """Small tables with many columns, where training rows are far likelier than new rows."""
    novelty = [
        scored(table(rows, 8, seed, kind, gaps), seed).novelty
        for seed, rows in enumerate([60, 90, 120, 150] * 2)
    ]
    every = np.concatenate(novelty)
    for level in (0.5, 0.9, 0.95, 0.99):
        error = math.sqrt(level * (1 - level) / len(every))
        assert np.mean(every > level) == pytest.approx(1 - level, abs=3 * error)
    assert stats.kstest(every, "uniform").pvalue > 0.01
    for some in novelty:  # and in every table, within sampling error
        assert np.mean(some > 0.95) == pytest.approx(0.05, abs=2 / len(some) + (gaps > 0) * 0.03)


@pytest.mark.parametrize("seed", range(3))
def test_large_tables_are_compared_as_a_whole(seed):
    """With a part of the rows as reference, sampling error would shift the shares."""
    novelty = scored(table(3000, 3, seed), seed).novelty
    for level in (0.95, 0.99):
        assert np.mean(novelty > level) == pytest.approx(1 - level, abs=1e-9)


def test_novelty_does_not_depend_on_missing_values():
    groups = [], []
    for seed in range(8):
        values = table(120, 5, seed, gaps=0.08)
        novelty, holes = scored(values, seed).novelty, np.isnan(values).any(1)
        for group, some in zip(groups, (novelty[holes], novelty[~holes]), strict=True):
            group.append(some)
    for group in groups:
        every = np.concatenate(group)
        assert stats.kstest(every, "uniform").pvalue > 0.01
        error = math.sqrt(0.05 * 0.95 / len(every))
        assert np.mean(every > 0.95) == pytest.approx(0.05, abs=3 * error)


def test_log_densities_are_of_the_observed_values():
    """Doubling the unit of one column lowers them by log 2 where the row has a value in it."""
    values = table(80, 3, 0)
    values[::7, 1] = np.nan
    wide = values * [1.0, 2.0, 1.0]
    one, two = scored(values), scored(wide)
    there = ~np.isnan(values[:, 1])
    expected = one.log_density - math.log(2) * there
    np.testing.assert_allclose(two.log_density, expected, atol=1e-6)
    np.testing.assert_allclose(two.novelty, one.novelty)


def test_a_row_of_one_value_has_the_density_of_that_value():
    generator = np.random.default_rng(1)
    values = generator.normal(size=(400, 2)) * [1.0, 50.0]
    values[7, 0] = np.nan
    found = scored(values)
    density_of = stats.norm(0, 50).logpdf(values[7, 1])
    assert found.log_density[7] == pytest.approx(density_of, abs=0.1)


@pytest.mark.parametrize("seed", range(3))
def test_missing_values_of_constant_columns_do_not_change_novelty(seed):
    values = np.column_stack([table(60, 3, seed), np.full(60, 7.0)])
    values[[3, 20, 44], 3] = np.nan
    values[10, 3] = 8.0
    novelty = scored(values, seed).novelty
    assert novelty[10] == 1.0
    whole = scored(values[:, :3], seed).novelty
    others = np.setdiff1d(np.arange(60), [10])
    assert (novelty[others] < 1).all()
    # Most models leave the column out, so novelty hardly depends on it.
    assert np.abs(novelty[[3, 20, 44]] - whole[[3, 20, 44]]).max() < 0.2


@pytest.mark.parametrize("seed", range(3))
def test_out_of_distribution_rows_are_listed_first(call, tmp_path, seed, monkeypatch):
    monkeypatch.setattr("tractable.cli.commands.density.write_report", lambda *some: None)
    values = table(150, 4, seed)
    values[[11, 90]] += 6 * np.nanstd(values, 0) * [1, -1, 1, -1]
    assert set(np.argsort(-scored(values, seed).novelty)[:2]) == {11, 90}
    path = write(tmp_path / "t.csv", list("abcd"), values.tolist())
    done = call("density", path, "--components", 1, "--seed", seed, "--level", 0.98, "--force")
    assert done.exit_code == 0
    assert "3 of 150 rows have a novelty_share above 0.98" in done.stdout
