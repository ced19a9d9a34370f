"""Figures contain the given data; checked in the artists, not in the pixels."""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from tractable import metrics, plots
from tractable.plots.style import COLORS, MatplotlibMissing
from tractable.posterior import Posterior
from tractable.predictive import CategoricalPredictive, NormalPredictive


@pytest.fixture
def predictive():
    x = torch.linspace(0, 1, 30)
    return x, NormalPredictive(x.sin(), 0.01 + x**2 / 10, torch.full_like(x, 0.01))


@pytest.fixture
def posterior():
    generator = torch.Generator().manual_seed(0)
    loc = torch.randn(600, generator=generator) / 5
    variance = torch.rand(600, generator=generator) / 50 + 1e-4
    shapes = {"0.weight": torch.Size([20, 20]), "2.weight": torch.Size([10, 20])}
    return Posterior(shapes, loc, variance, {"0.weight": 1.0, "2.weight": 1.0})


def test_bands_show_mean_intervals_data_and_draws(predictive):
    x, p = predictive
    shuffled = torch.randperm(30, generator=torch.Generator().manual_seed(1))
    mixed = NormalPredictive(p.loc[shuffled], p.epistemic[shuffled], p.aleatoric[shuffled])
    draws = torch.stack([mixed.mean + 1, mixed.mean - 1])
    ax = plots.prediction_bands(
        x[shuffled], mixed, levels=(0.5, 0.9), samples=draws, data=([0.2, 0.3], [1, 2]), label="net"
    )
    wide, narrow = ax.collections
    low, high = p.interval(0.9)
    drawn = wide.get_paths()[0].vertices
    assert np.abs(low.numpy()[:, None] - drawn[:, 1]).min(1).max() < 1e-6
    assert np.abs(high.numpy()[:, None] - drawn[:, 1]).min(1).max() < 1e-6
    assert narrow.get_paths()[0].get_extents().height < wide.get_paths()[0].get_extents().height
    first, second, mean, data = ax.lines
    assert np.allclose(mean.get_ydata(), p.mean)  # sorted by x
    assert np.allclose(first.get_ydata(), p.mean + 1)
    assert np.allclose(second.get_ydata(), p.mean - 1)
    assert data.get_ydata().tolist() == [1, 2]
    assert ax.get_legend_handles_labels()[1] == ["net, 90%", "net, 50%", "net", "data"]


def test_bands_of_two_models_have_two_colours(predictive):
    x, p = predictive
    ax = plots.prediction_bands(x, p, label="one")
    assert plots.prediction_bands(x, p, label="two", ax=ax) is ax
    assert [line.get_color() for line in ax.lines] == list(COLORS[:2])


def test_bands_refuse_what_does_not_fit(predictive):
    x, p = predictive
    with pytest.raises(ValueError, match="30"):
        plots.prediction_bands(x[:5], p)
    with pytest.raises(ValueError, match="levels"):
        plots.prediction_bands(x, p, levels=(90,))
    with pytest.raises(TypeError, match="no weight samples"):
        plots.prediction_bands(x, p, samples=3)
    with pytest.raises(ValueError, match="columns"):
        plots.prediction_bands(x, p, samples=torch.zeros(3, 7))
    assert not plt.get_fignums()  # refused before anything was drawn


def test_reliability_plots_the_curve_and_the_error():
    probs = torch.tensor([[0.9, 0.1], [0.95, 0.05], [0.45, 0.55]])
    curve = metrics.reliability(CategoricalPredictive(probs), [0, 1, 1], n_bins=5)
    ax = plots.reliability(CategoricalPredictive(probs), [0, 1, 1], n_bins=5, label="net")
    diagonal, line = ax.lines
    assert list(diagonal.get_xdata()) == [0, 1]
    assert np.allclose(line.get_xdata(), curve.confidence[curve.count > 0])
    assert np.allclose(line.get_ydata(), [1, 0.5])
    assert line.get_label() == f"net: ECE {curve.ece:.2%}"
    assert [bar.get_height() for bar in ax.patches] == pytest.approx([0, 0, 0.1, 0, 0.2])
    plots.reliability(curve, label="again", ax=ax)
    assert len(ax.lines) == 3  # one diagonal only
    with pytest.raises(ValueError, match="observed classes"):
        plots.reliability(CategoricalPredictive(probs))


def test_learning_curves_take_learners_histories_and_names():
    history = [{"epoch": float(i), "elbo": -100.0 / i} for i in range(1, 11)]
    ax = plots.learning_curves({"a": history, "b": history[:4]}, "elbo", smooth=3)
    raw_a, smooth_a, raw_b, smooth_b = ax.lines
    assert raw_a.get_ydata()[0] == -100
    assert smooth_a.get_ydata()[0] == pytest.approx(np.mean([-100, -50, -100 / 3]))
    assert smooth_a.get_xdata()[0] == 3
    assert len(smooth_b.get_ydata()) == 2
    assert raw_b.get_color() == smooth_b.get_color() != raw_a.get_color()
    assert ax.get_ylabel() == "elbo"
    with pytest.raises(KeyError, match="elbo"):
        plots.learning_curves(history, "loss")


def test_weight_histogram_is_a_density_of_the_means(posterior):
    ax = plots.weights({"net": posterior}, bins=50)
    heights, edges, _ = ax.patches[1].get_data()
    assert (heights * np.diff(edges)).sum() == pytest.approx(1, abs=0.01)
    counts, _ = np.histogram(posterior.loc.numpy(), edges)
    assert np.allclose(heights * np.diff(edges) * 600, counts)
    smooth = plots.weights(posterior, kind="density", bins=50).patches[1].get_data()
    assert (smooth.values * np.diff(smooth.edges)).sum() == pytest.approx(1, abs=0.02)
    assert np.abs(np.diff(smooth.values)).max() < np.abs(np.diff(heights)).max()
    assert plots.weights(torch.randn(100)).patches


def test_snr_marks_the_share_that_pruning_removes(posterior):
    ax = plots.snr(posterior, prune_fraction=0.75)
    ratio = posterior.loc.abs() / posterior.variance.sqrt()
    at = ax.lines[0].get_xdata()[0]
    assert at == pytest.approx(float(np.quantile(10 * np.log10(ratio.numpy()), 0.75)), abs=1e-4)
    with pytest.raises(ValueError, match="prune_fraction"):
        plots.snr(posterior, prune_fraction=75)


def test_pruning_and_robustness_curves():
    ax = plots.pruning({"0.weight": ([0, 0.5], [0.01, 0.02]), "2.weight": ([0, 0.5], [0.01, 0.3])})
    assert [line.get_label() for line in ax.lines] == ["0.weight", "2.weight"]
    assert ax.lines[1].get_ydata().tolist() == [0.01, 0.3]
    assert ax.xaxis.get_major_formatter()(0.5, 0) == "50%"
    ax = plots.robustness(([0, 0.1], [0.99, 0.5]))
    assert ax.lines[0].get_xdata().tolist() == [0, 0.1]
    assert ax.get_ylim()[0] == 0
    with pytest.raises(ValueError, match="values"):
        plots.robustness(([0, 0.1], [0.99]))


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch, predictive):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MatplotlibMissing, match=r"tractable\[plots\]"):
        plots.prediction_bands(*predictive)
