"""Selection of the engine of a learner, and errors if the requested one is unavailable."""

from __future__ import annotations

import copy
import logging
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import tractable as tr
from tests.native import draw
from tractable import native, versions
from tractable.errors import UnsupportedByKernel
from tractable.learners.methods.tagi.engines import native as native_engine
from tractable.likelihoods import Categorical, HeteroscedasticNormal, Normal

CHAIN = draw.network([3, 10, 1], "relu")


def test_auto_selects_the_kernel_for_a_small_chain() -> None:
    assert tr.TAGI(CHAIN, Normal(0.1)).engine == "native"
    assert tr.TAGI(CHAIN, Normal(0.1), engine="torch").engine == "torch"
    assert tr.TAGI(nn.Linear(2, 1), Normal(0.1)).engine == "native"


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layer(x)


def frozen() -> nn.Module:
    net = copy.deepcopy(CHAIN)
    net[0].weight.requires_grad_(False)
    return net


def shared() -> nn.Module:
    layer = nn.Linear(3, 3)
    return nn.Sequential(layer, nn.ReLU(), layer)


def hooked() -> nn.Module:
    net = copy.deepcopy(CHAIN)
    net[0].register_forward_hook(lambda *_: None)
    return net


@pytest.mark.parametrize(
    ("net", "likelihood", "options", "reason"),
    [
        (Residual(), Normal(0.1), {}, "Residual"),
        (nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 1)), Normal(0.1), {}, "GELU"),
        (nn.Sequential(nn.Dropout(), nn.Linear(3, 1)), Normal(0.1), {}, "Dropout"),
        (nn.Sequential(nn.Flatten(0), nn.Linear(3, 1)), Normal(0.1), {}, "Flatten"),
        (frozen(), Normal(0.1), {}, "frozen"),
        (shared(), Normal(0.1), {}, "shared"),
        (hooked(), Normal(0.1), {}, "hooks"),
        (CHAIN, HeteroscedasticNormal(), {}, "HeteroscedasticNormal"),
        (CHAIN, Categorical(5), {}, "Categorical"),
        (CHAIN, Normal(0.1), {"dtype": torch.float64}, "float64"),
        (CHAIN, Normal(0.1), {"moments": "exact"}, "moments"),
        (CHAIN, Normal(0.1), {"compile": True}, "compile"),
    ],
)
def test_unsupported_models_use_torch_or_raise_an_error(
    net: nn.Module, likelihood: tr.likelihoods.Likelihood, options: dict[str, object], reason: str
) -> None:
    assert tr.TAGI(net, likelihood, **options).engine == "torch"
    with pytest.raises(UnsupportedByKernel, match=reason):
        tr.TAGI(net, likelihood, engine="native", **options)


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(ValueError, match="auto, torch, native"):
        tr.TAGI(CHAIN, Normal(0.1), engine="jax")


@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "tanh", "sigmoid"])
def test_exact_moments_of_any_activation_are_computed_by_torch(activation: str) -> None:
    net = draw.network([3, 10, 1], activation)
    likelihood = Normal(0.1)
    assert tr.TAGI(net, likelihood, moments="exact").engine == "torch"
    with pytest.raises(UnsupportedByKernel, match="moments"):
        tr.TAGI(net, likelihood, engine="native", moments="exact")


def test_exact_moments_of_a_chain_without_activations_are_those_of_the_kernel() -> None:
    net = draw.network([3, 10, 1], "identity")
    assert tr.TAGI(net, Normal(0.1), engine="native", moments="exact").engine == "native"


def test_rows_of_another_shape_are_computed_by_torch() -> None:
    model = tr.TAGI(CHAIN, Normal(0.3))
    exact = tr.TAGI(CHAIN, Normal(0.3), engine="torch")
    rng = draw.seeded()
    x, y = torch.randn(6, 4, 3, generator=rng), torch.randn(6, 4, 1, generator=rng)
    for one in (model, exact):
        one.update(x, y)
    assert draw.distance(model, exact) == 0
    with pytest.raises(ValueError, match="cannot process inputs"):
        model.update(torch.ones(6, 2), torch.ones(6, 1))


def test_without_the_kernel_auto_uses_torch_and_warns_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    model = tr.TAGI(CHAIN, Normal(0.3))
    model.update(torch.zeros(1, 3), torch.ones(1, 1))
    model.save(tmp_path / "model")
    monkeypatch.setattr(native, "kernel", lambda: None)
    native_engine.log_missing_kernel.cache_clear()
    with caplog.at_level(logging.WARNING, logger="tractable"):
        for _ in range(3):
            assert tr.TAGI(CHAIN, Normal(0.1)).engine == "torch"
        assert tr.TAGI(Residual(), Normal(0.1)).engine == "torch"
    assert len(caplog.records) == 1
    assert "\n" not in caplog.records[0].getMessage()
    with pytest.raises(UnsupportedByKernel, match="not installed"):
        tr.TAGI(CHAIN, Normal(0.1), engine="native")
    loaded = tr.TAGI.load(tmp_path / "model")
    assert loaded.engine == "torch"
    assert torch.equal(loaded.posterior.loc, model.posterior.loc)
    assert versions.get_versions()["kernel"].startswith("not built")
    native_engine.log_missing_kernel.cache_clear()


def test_loading_does_not_require_the_kernel(tmp_path: Path) -> None:
    tr.TAGI(CHAIN, Normal(0.3), engine="native").save(tmp_path / "native")
    tr.TAGI(CHAIN, Normal(0.3), engine="torch").save(tmp_path / "torch")
    assert tr.TAGI.load(tmp_path / "native").method.config()["engine"] == "auto"
    assert tr.TAGI.load(tmp_path / "torch").engine == "torch"


def test_copies_have_separate_kernels() -> None:
    model = tr.TAGI(CHAIN, Normal(0.3))
    twin = copy.deepcopy(model)
    rng = draw.seeded()
    x, y = torch.randn(5, 3, generator=rng), torch.randn(5, 1, generator=rng)
    twin.update(x, y)
    assert not torch.equal(twin.posterior.loc, model.posterior.loc)
    model.update(x, y)
    assert torch.equal(twin.posterior.loc, model.posterior.loc)


def test_data_loaders_and_odd_memory_layouts() -> None:
    rng = draw.seeded()
    x, y = torch.randn(3, 40, generator=rng).T, torch.randn(1, 40, generator=rng).T
    one, other = (tr.TAGI(CHAIN, Normal(0.3), engine="native") for _ in range(2))
    one.fit(x, y, epochs=2, batch_size=8, shuffle=False, progress=False)
    other.fit(DataLoader(TensorDataset(x, y), batch_size=8), epochs=2, progress=False)
    assert draw.distance(one, other) < 1e-6


def test_integer_targets() -> None:
    x, y = torch.randn(20, 3, generator=draw.seeded()), torch.arange(20).reshape(20, 1) % 3
    models = [tr.TAGI(CHAIN, Normal(0.3), engine=e) for e in ("native", "torch")]
    for model in models:
        model.fit(x, y, epochs=1, batch_size=4, progress=False)
    assert draw.distance(*models) < 1e-5


def test_config_reports_the_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    facts = versions.get_versions()
    assert facts["kernel"] == "present"
    assert facts["instruction set"] in ("avx2", "baseline")
    versions.show_versions()
    assert len(capsys.readouterr().out.splitlines()) == len(facts)
