"""The studies of deep networks: their networks, their data, runs in miniature."""

import json

import pytest
import torch

from tractable_studies.depth import nets
from tractable_studies.depth import run as depth
from tractable_studies.fine_tune import run as fine_tune
from tractable_studies.images.run import cifar_resnet
from tractable_studies.normalised import run as normalised


@pytest.mark.parametrize("name", nets.NAMES)
def test_networks_have_so_many_layers(name):
    net = nets.network(name, 5, 8, 9)
    assert net(torch.randn(3, 1, 8, 8)).shape == (3, 9)
    matrices = [p for p in net.parameters() if p.ndim > 1]
    assert len(matrices) == 6
    assert sum(isinstance(m, nets.Residual) for m in net.modules()) == 4 * name.count("residual")


def test_split_of_rows_depends_on_the_seed():
    first, second = (depth.Sets.of("digits", seed) for seed in (0, 1))
    assert [len(part[0]) for part in (first.train, first.validation, first.test)] == [
        1100,
        300,
        397,
    ]
    assert not torch.equal(first.train[1], second.train[1])
    assert abs(float(first.train[0].mean())) < 1e-5


def test_depth_in_miniature(tmp_path, capsys):
    depth.main(["--quick", "--depths", "1", "--epochs", "1", "--out", str(tmp_path)])
    found = json.loads((tmp_path / "results.json").read_text())["metrics"]["mlp-plain, 1"]
    assert found["rate"] in depth.RATES
    assert 0 < found["TAGI"]["error"] < 0.5
    assert "its rate" in capsys.readouterr().out


def test_fine_tuning_in_miniature(tmp_path, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    images, labels = torch.randn(700, 3, 32, 32, generator=generator), torch.arange(700) % 5
    images += labels.reshape(-1, 1, 1, 1) / 2
    rows = (images, labels)
    monkeypatch.setattr(fine_tune.Halves, "load", lambda: fine_tune.Halves(rows, rows, rows))
    monkeypatch.setattr(fine_tune, "RATES", (1e-3,))
    words = "--quick --images 30 --epochs 1 --first-rows 60 --test-rows 30"
    fine_tune.main([*words.split(), "--out", str(tmp_path)])
    found = json.loads((tmp_path / "results.json").read_text())["metrics"]["30"]
    assert set(found) == set(fine_tune.WAYS)
    assert all(0 <= run["error"] <= 1 for runs in found.values() for run in runs)


def test_the_resnet_is_of_the_size_that_it_says():
    size = sum(p.numel() for p in cifar_resnet().parameters())
    assert 200_000 < size < 300_000


def test_normalised_image_networks_in_miniature(tmp_path, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    images, labels = torch.randn(60, 3, 32, 32, generator=generator), torch.arange(60) % 10
    sets = normalised.Sets((images, labels), (images, labels), (images, labels), 9 * images)
    monkeypatch.setattr(normalised.Sets, "load", lambda *sizes: sets)
    monkeypatch.setattr(normalised, "RATES", (1e-3,))
    normalised.main(["--quick", "--out", str(tmp_path)])
    found = json.loads((tmp_path / "results.json").read_text())["metrics"]
    assert set(found) == {"resnet", "mixer"}
    for network in found.values():
        for learner in normalised.LEARNERS:
            assert all(0 <= network[learner][key] <= 1 for key in ("error", "ece", "auroc"))
            assert 0.5 < network[learner]["nll"] < 5


def test_mixer_distinguishes_patches():
    """Two patches that change places are another image."""
    net = normalised.network("mixer", 9)
    x = torch.randn(2, 3, 32, 32)
    moved = x.clone()
    moved[..., :4, :4], moved[..., :4, 4:8] = x[..., :4, 4:8], x[..., :4, :4]
    assert net(x).shape == (2, 9)
    assert not torch.allclose(net(x), net(moved))
