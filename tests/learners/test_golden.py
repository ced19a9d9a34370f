"""The published implementation, pytagi 0.1.12, number by number.

``tests/golden/make_pytagi_golden.py`` creates the files and documents how.
"""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

import tractable as tr

GOLDEN = Path(__file__).parent.parent / "golden"
CASES = [
    case
    for name in ("pytagi_fnn", "pytagi_cnn")
    for case in json.loads((GOLDEN / f"{name}.json").read_text())["cases"]
]


def network(layers: list[dict]) -> nn.Sequential:
    return nn.Sequential(
        *[
            getattr(nn, layer["type"])(**{k: v for k, v in layer.items() if k != "type"})
            for layer in layers
        ]
    )


RUNS = [pytest.param(case, {"engine": "torch"}, id=case["name"]) for case in CASES]
RUNS += [
    pytest.param(case, {"engine": "native"}, id=f"{case['name']}-native")
    for case in CASES
    if case["name"].startswith("fnn")
]
RUNS += [
    pytest.param(case, {"compile": True}, id=f"{case['name']}-compiled")
    for case in CASES
    if case["name"] in ("fnn_batch_4", "cnn_batch_2")
]


@pytest.mark.parametrize(("case", "options"), RUNS)
def test_same_numbers_as_the_published_implementation(case, options):
    model = tr.TAGI(
        network(case["layers"]),
        tr.likelihoods.Normal(case["sigma_v"]),
        batch_rule="published",
        **options,
    )
    for name, moments in case["parameters"].items():
        gaussian = model.posterior[name]
        gaussian.loc.copy_(torch.tensor(moments["mean"]).reshape(gaussian.shape))
        gaussian.variance.copy_(torch.tensor(moments["variance"]).reshape(gaussian.shape))
    for update in case["updates"]:
        x, y = torch.tensor(update["x"]), torch.tensor(update["y"])
        predicted = model.predict(x)
        torch.testing.assert_close(
            predicted.mean, torch.tensor(update["predicted_mean"]), rtol=1e-5, atol=1e-6
        )
        torch.testing.assert_close(
            predicted.epistemic, torch.tensor(update["predicted_variance"]), rtol=1e-5, atol=0
        )
        model.update(x, y)
        for name, moments in update["parameters"].items():
            gaussian = model.posterior[name]
            mean = torch.tensor(moments["mean"]).reshape(gaussian.shape)
            variance = torch.tensor(moments["variance"]).reshape(gaussian.shape)
            torch.testing.assert_close(gaussian.loc, mean, rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(gaussian.variance, variance, rtol=2e-5, atol=0)
