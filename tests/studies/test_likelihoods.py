"""The study of likelihoods: its rows, how others are scored, a run in miniature."""

import json

import torch

from tractable.data import RegressionData
from tractable_studies.likelihoods import peers, rows, run


def table(path, lines=60):
    names = ["mnth", "hr", "weathersit", "weekday", *rows.NUMBERS, "bikers"]
    body = [
        ",".join(
            [
                f"m{k % 3}",
                str(k % 24),
                "clear",
                str(k % 7),
                *["0.5"] * 2,
                *[str(k / 60)] * 4,
                str(k),
            ]
        )
        for k in range(lines)
    ]
    path.write_text("\n".join([",".join(names), *body]))
    return path


def test_counts_stay_counts_and_inputs_are_standardised(tmp_path):
    task = rows.bikes(table(tmp_path / "bikes.csv"), seed=0)
    assert len(task.y_test) == 12
    assert sorted(torch.cat([task.y, task.y_test]).flatten().tolist()) == list(range(60))
    assert task.x.shape[1] == 6 + 3 + 24 + 1 + 7
    torch.testing.assert_close(task.x.mean(0), torch.zeros(task.x.shape[1]), rtol=0, atol=1e-5)


def test_the_inverse_problem_has_several_answers():
    task = rows.inverse(2000, seed=0)
    near = task.y[task.x.abs() < 0.05]
    assert near.max() - near.min() > 1.5


def test_levels_are_numbered_from_zero():
    y = torch.tensor([[3.0], [8.0], [5.0], [4.0]])
    data = RegressionData(
        "w", torch.randn(4, 2), y, (torch.tensor([0, 1, 2]),), (torch.tensor([3]),)
    )
    task = rows.published(data, 0, levels=True)
    assert task.y.tolist() == [0, 5, 2]
    assert task.y_test.tolist() == [1]


def test_a_mean_of_scikit_learn_as_counts(tmp_path):
    task = rows.bikes(table(tmp_path / "bikes.csv"), seed=0)
    plain = peers.by_scikit(peers.linear, dispersed=False)(task, 0)
    wide = peers.by_scikit(peers.linear, dispersed=True)(task, 0)
    torch.testing.assert_close(plain.mean, plain.aleatoric)
    torch.testing.assert_close(plain.mean, wide.mean)
    assert (wide.variance > plain.variance).all()


def test_a_run_in_miniature(tmp_path):
    arguments = ["--quick", "--groups", "answers", "--epochs", "1", "--rows", "60"]
    path = run.main([*arguments, "--out", str(tmp_path)])
    results = json.loads(path.read_text())
    assert set(results["metrics"]["answers"]) == set(run.models(1)["answers"])
    assert results["comparison"][0]["learner"] == "TAGI, Mixture(3)"


def test_directions_come_from_those_before(tmp_path):
    path = tmp_path / "wind.csv"
    path.write_text("\n".join(['"","x"', *(f'"{k}",{0.1 * k}' for k in range(52))]))
    task = rows.winds(path)
    assert (len(task.x), len(task.x_test)) == (40, 10)
    assert task.x.shape[1] == 4 + 5
    torch.testing.assert_close(task.y[0], torch.tensor([0.2]))
    alone = peers.one_direction(task, 0)
    assert alone.mean.unique().numel() == 1


def test_columns_that_are_sums_of_others_are_left_out():
    x = torch.eye(3, dtype=torch.float64).repeat(4, 1)
    x = torch.cat([torch.ones(12, 1, dtype=torch.float64), x], 1)
    assert peers.independent(x) == [0, 1, 2]
