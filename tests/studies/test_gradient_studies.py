"""The studies of section 4: their data, and a run in miniature that is killed and resumed."""

import json
import math

import matplotlib as mpl
import pytest
import torch

from tractable.cli.output import print_table
from tractable_studies.mnist import run as mnist
from tractable_studies.regression import run as regression

mpl.use("Agg")


def test_the_curve_is_that_of_equation_22():
    data = regression.draw(0)
    assert data.x.shape == (1024, 1)
    assert data.at.shape == (1000, 1)
    assert data.x.min() >= 0
    assert data.x.max() <= 0.5
    x = data.x
    clean = x + 0.3 * torch.sin(2 * math.pi * x) + 0.3 * torch.sin(4 * math.pi * x)
    slope = (
        1 + 0.6 * math.pi * torch.cos(2 * math.pi * x) + 1.2 * math.pi * torch.cos(4 * math.pi * x)
    )
    residual = (data.y - clean) / slope.abs().clamp_min(1)
    assert residual.std() == pytest.approx(0.02, rel=0.2)  # to first order in the noise


def test_regression_in_miniature(tmp_path, capsys):
    names = ["gaussian-1", "local-1", "tagi", "dnns"]
    arguments = ["--quick", "--epochs", "3", "--out", str(tmp_path), "--models", *names]
    regression.main(arguments)
    result = json.loads((tmp_path / "results.json").read_text())
    assert list(result["metrics"]) == names
    assert "paper lppd" in capsys.readouterr().out
    assert (tmp_path / "regression-tagi.png").stat().st_size > 1000
    pair = result["metrics"]["local-1"]["against_weights"]
    assert pair["weights"]["published_ms_per_epoch"] == 317.8
    assert [row["learner"] for row in result["comparison"]][: len(names)] == names
    assert result["command"].startswith("python -m tractable_studies.regression.run --quick")
    assert (tmp_path / "report.html").is_file()
    titles = {chart["title"]: list(chart["curves"]) for chart in result["charts"]}
    assert titles == {
        "ELBO by epoch": ["gaussian-1", "local-1"], "Log-likelihood by epoch": ["dnns"]
    }  # fmt: skip
    regression.main(arguments)  # finished models are read, not trained again
    again = json.loads((tmp_path / "results.json").read_text())
    assert again["metrics"]["dnns"] == result["metrics"]["dnns"]


def test_the_mnist_table_names_the_published_errors(capsys):
    curve = {"fraction": [0.0, 0.9], "error_percent": [1.0, 2.0]}
    fgsm = {"0.0": 0.99, "0.05": 0.9, "0.1": 0.5}
    found = {
        "test_error_percent": 1.5, "lppd": -0.05, "ece_percent": 0.4, "epochs": 3,
        "pruned": curve, "accuracy_under_fgsm_of_a_cnn": fgsm,
    }  # fmt: skip
    print_table(mnist.HEADER, mnist.rows({"bnn-gaussian": found, "bnn-laplace": found}, 400))
    text = capsys.readouterr().out
    assert "1.82 / 1.31" in text
    assert " 9.0 " in text
