"""Growth of the variance off the data where the function is flatter than on average."""

from __future__ import annotations

import pytest
import torch

import tractable as tr
from tractable.learners.off_data.support import TrainingSupport


def steep_then_flat(x: torch.Tensor) -> torch.Tensor:
    """Return a function that is steep within 0.1 of zero and flat elsewhere."""
    return torch.cat([x[:, :1].clamp(-0.1, 0.1) * 10, -2 * x[:, :1].clamp(-0.1, 0.1)], dim=1)


def long_tailed(n: int = 300) -> torch.Tensor:
    draw = torch.Generator().manual_seed(0)
    body = 0.05 * torch.randn(n, 1, generator=draw, dtype=torch.float64)
    return torch.cat([body, torch.linspace(5, 60, 12, dtype=torch.float64).unsqueeze(1)])


def test_the_slope_is_limited_by_the_secants_from_the_nearest_row() -> None:
    x = long_tailed()
    support = TrainingSupport.from_rows(x)
    assert support is not None
    support = support.with_slope(steep_then_flat, seed=0)
    new = torch.tensor([[100.0], [-0.5], [33.0]], dtype=torch.float64)
    extra = support.distance(new).extra
    z, rows, f = support.scaled(new), support.rows, steep_then_flat(x)
    for at in range(3):
        nearest = int((rows - z[at]).square().sum(1).argmin())
        steps = (rows - rows[nearest]).square().sum(1).clamp_min(1e-4)
        secant = ((f - f[nearest]).square() / steps[:, None]).sum(0) / (len(rows) - 1)
        share = (16 * secant / support.slope).clamp_max(1)
        assert extra[at] == pytest.approx(
            (support._nearest.growth(z[at : at + 1])[1] * support.slope * share).tolist(), rel=1e-9
        )
    assert bool((share < 0.1).all())


def test_functions_of_constant_slope_are_not_limited() -> None:
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(400, 3, generator=draw, dtype=torch.float64)
    for function in (lambda x: x @ x.new_tensor([[1.0], [-2.0], [0.5]]), lambda x: x.sin()):
        support = TrainingSupport.from_rows(x)
        assert support is not None
        assert support.with_slope(function, seed=0).slope_ratio is None
    constant = TrainingSupport.from_rows(x).with_slope(lambda x: x[:, :1] * 0 + 3, seed=0)
    assert constant.slope_ratio is None


def test_files_and_later_rows_keep_the_limit(tmp_path) -> None:
    x = long_tailed().float()
    net = torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    model = tr.TAGI(net, tr.likelihoods.Normal(outputs=2), seed=0)
    model.fit(x, steep_then_flat(x), epochs=20)
    support = model.off_data.support
    assert support.slope_ratio is not None
    assert len(support.slope_ratio) == len(support.rows)
    model.save(tmp_path / "model.tr")
    loaded = tr.TAGI.load(tmp_path / "model.tr")
    new = torch.linspace(-3, 90, 40).unsqueeze(1)
    assert torch.equal(loaded.predict(new).variance, model.predict(new).variance)
    later = support.joined(torch.tensor([[1e3], [2e3]]))
    assert len(later.slope_ratio) == len(later.rows) > len(support.rows)
    assert torch.equal(later.slope_ratio[-2:], torch.ones(2, 2))
