"""Files with the words of the first file format are read, and written with the current words."""

import numpy as np
import pytest
import torch
from torch import nn

import tractable as tr
from tractable import generative as g
from tractable.generative import serialization
from tractable.persistence import model_file

X = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
MODELS = {
    "mixture": lambda: g.GaussianMixture(2, n_estimators=2, validation_fraction=0.2).fit(X),
    "GAN": lambda: g.GAN(
        nn.Linear(2, 2), nn.Linear(2, 1), latent_dim=2, loss="wasserstein", n_critic=2
    ).fit(X, epochs=2),
    "VAE": lambda: g.VAE(
        nn.Linear(2, 2), nn.Linear(1, 2), tr.likelihoods.Normal(0.5, outputs=2), latent_dim=1,
        objective="iwae", n_latent_samples=2, estimator="doubly_reparameterized",
    ).fit(X, epochs=1),
    "decoder": lambda: g.LatentDecoder(nn.Linear(1, 2), latent_dim=1).fit(X, epochs=1),
    "autoregressive": lambda: g.Autoregressive((4,), min_noise=0.1).fit(X, epochs=1),
    "diffusion": lambda: g.Diffusion((4,), steps=4, prediction_type="noise").fit(
        X, epochs=1, noise_copies=2
    ),
}  # fmt: skip


def with_old_words(tensors, header):
    """A header and tensors as the first file format had them."""
    entry = header["generative"]
    kind = entry["kind"]
    words = serialization._OLD_ARGUMENTS | serialization._OLD_ARGUMENTS_OF.get(kind, {})
    # Only the words of a model's own arguments: several old words were used by one model only.
    old = {new: old for old, new in words.items()}
    values = {(n, new): value for (n, value), new in serialization._OLD_VALUES.items()}
    for section in ("config", "common"):
        entry[section] = {
            old.get(n, n): values.get((n, v), v) if isinstance(v, str) else v
            for n, v in entry[section].items()
        }
    entry["learnt"] = entry.pop("learned")
    for before, now in serialization._OLD_LEARNED.items():
        if now in entry["learnt"]:
            entry["learnt"][before] = entry["learnt"].pop(now)
    kinds = {new: before for before, new in serialization._OLD_KINDS.items()}
    entry["kind"] = kinds.get(kind, kind)
    return {name.replace("learned/", "learnt/"): t for name, t in tensors.items()}, header


@pytest.mark.parametrize("name", MODELS)
def test_a_file_with_old_words_gives_the_same_model(name, tmp_path):
    model = MODELS[name]()
    model.save(tmp_path / "new.tr")
    tensors, header = model_file.read(tmp_path / "new.tr")
    header.pop("format")
    model_file.write(tmp_path / "old.tr", *with_old_words(tensors, header))
    again = g.GenerativeModel.load(tmp_path / "old.tr")
    assert torch.equal(again.predict().sample(3), model.predict().sample(3))
    again.save(tmp_path / "again.tr")
    one, two = (model_file.read(tmp_path / f"{file}.tr") for file in ("new", "again"))
    assert one[1] == two[1]
    assert all(np.array_equal(one[0][key], two[0][key]) for key in one[0])
