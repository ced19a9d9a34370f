"""Files that name options and tensors as before version 0.2 are read."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import tractable as tr
from tractable.learners.learner import Learner
from tractable.persistence import model_file

OPTIONS = {
    "prior_variance_ratio": "relative_variance",
    "scale_by_layer_size": "even_steps",
    "residual_gain": "branches",
    "reinit": "fresh",
    "prior_scale": "widen",
    "epoch_forgetting": "forget",
    "n_weight_samples": "draws",
    "n_train_samples": "samples",
    "n_estimators": "n",
}
TENSORS = {"slope_radius": "near", "radius": "reach", "column_slopes": "steep"}
Normal = tr.likelihoods.Normal
LEARNERS: dict[str, Callable[[nn.Module], Learner]] = {
    "TAGI": lambda net: tr.TAGI(net, Normal(), prior_variance_ratio=0.5, epoch_forgetting=0.2),
    "BayesByBackprop": lambda net: tr.BayesByBackprop(net, Normal(), n_train_samples=2),
    "Backprop": lambda net: tr.Backprop(net, Normal(), n_weight_samples=7),
    "Laplace": lambda net: tr.Laplace(net, Normal()),
    "Ensemble": lambda net: tr.Ensemble(net, Normal(), learner=tr.TAGI, n_estimators=2),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_files_with_former_names_are_read(name, tmp_path):
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(30, 3, generator=generator), torch.randn(30, 1, generator=generator)
    model = LEARNERS[name](nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1)))
    model.fit(x, y, epochs=1, batch_size=10, progress=False)
    model.save(tmp_path / "now.tr")
    tensors, header = model_file.read(tmp_path / "now.tr")
    options = {OPTIONS.get(key, key): value for key, value in header["options"].items()}
    former = {}
    for key, tensor in tensors.items():
        folder, _, last = key.rpartition("/")
        renamed = folder == "support" and last in TENSORS
        former[f"support/{TENSORS[last]}" if renamed else key] = tensor
    assert options.keys() != header["options"].keys() or name == "Laplace"
    assert former.keys() != tensors.keys()
    model_file.write(tmp_path / "former.tr", former, {**header, "options": options})
    found = tr.Learner.load(tmp_path / "former.tr")
    assert torch.equal(found.predict(x).mean, model.predict(x).mean)
    assert torch.equal(found.predict(5 * x).std, model.predict(5 * x).std)
    found.save(tmp_path / "again.tr")
    assert model_file.read(tmp_path / "again.tr")[1]["options"] == header["options"]
