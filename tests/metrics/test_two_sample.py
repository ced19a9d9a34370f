"""The two-sample classifier test: calibrated for equal distributions, accurate for others."""

import math

import numpy as np
import pytest
import scipy.stats
import torch
from scipy.integrate import quad
from sklearn.metrics import roc_auc_score
from torch import nn

import tractable as tr
from tractable import metrics
from tractable.metrics.two_sample import area_under_roc


def normals(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def js_of_shifted_normals(shift):
    def part(t, mine, other):
        p, q = scipy.stats.norm.pdf(t, mine), scipy.stats.norm.pdf(t, other)
        return p * np.log(2 * p / (p + q)) / 2

    return sum(quad(part, -9, 9 + shift, (m, o))[0] for m, o in ((0, shift), (shift, 0)))


@pytest.mark.parametrize("shift", [1.0, 2.0])
def test_estimate_is_close_to_the_divergence(shift):
    """The loss of the best discriminator is 2 log 2 - 2 JS: found to a tenth."""
    a, b = normals(0, 1_500, 3), normals(1, 1_000, 3)
    b[:, 0] += shift
    found = metrics.two_sample(a, b)
    truth = js_of_shifted_normals(shift)
    assert 0.9 * truth - 3 * found.js_std < found.js < truth + 3 * found.js_std
    low, high = found.interval(0.9)
    assert low < found.js < high
    assert found.accuracy == pytest.approx(scipy.stats.norm.cdf(shift / 2), abs=0.03)
    assert found.auroc == pytest.approx(scipy.stats.norm.cdf(shift / math.sqrt(2)), abs=0.03)
    assert found.differs()
    # The scores are log density ratios.
    ratio = -shift * (a[:, 0].double() - shift / 2)
    assert float((found.score_a - ratio).square().mean().sqrt()) < 0.35 * float(ratio.std())


def test_false_positive_rate_for_equal_distributions_is_nominal():
    levels = [metrics.two_sample(normals(s, 80, 2), normals(900 + s, 60, 2), epochs=10, seed=s)
              for s in range(40)]  # fmt: skip
    p = [found.p_value for found in levels]
    assert scipy.stats.kstest(p, "uniform").pvalue > 0.01
    assert sum(value < 0.1 for value in p) <= 9  # 4 expected, 9 with probability 2 %
    assert np.mean([found.js for found in levels]) < 0.005


def test_a_correlation_is_found_that_no_column_shows():
    a, b = normals(0, 1_000, 2), normals(1, 1_000, 2)
    b[:, 1] = 0.8 * b[:, 0] + 0.6 * b[:, 1]
    columns = [scipy.stats.ks_2samp(a[:, i], b[:, i]).pvalue for i in range(2)]
    assert min(columns) > 0.05
    assert metrics.two_sample(a, b).p_value < 1e-6


def test_area_is_scikit_learns_with_ties_and_its_error_is_right():
    a, b = normals(0, 40).round(decimals=1), (normals(1, 60) - 0.5).round(decimals=1)
    label = np.r_[np.ones(40), np.zeros(60)]
    assert area_under_roc(a, b)[0] == pytest.approx(
        roc_auc_score(label, torch.cat([a, b])), abs=1e-12
    )
    drawn = [area_under_roc(normals(s, 40), normals(1_000 + s, 60) - 0.5) for s in range(400)]
    spread = np.std([value for value, _, _ in drawn])
    assert np.sqrt(np.mean([variance for _, variance, _ in drawn])) == pytest.approx(
        spread, rel=0.1
    )
    null = [area_under_roc(normals(s, 40), normals(1_000 + s, 60))[0] for s in range(400)]
    assert math.sqrt(drawn[0][2]) == pytest.approx(np.std(null), rel=0.1)


def test_any_learner_can_be_asked():
    def backprop(columns, seed):
        net = nn.Sequential(nn.Linear(columns, 16), nn.ReLU(), nn.Linear(16, 1))
        return tr.Backprop(net, tr.likelihoods.Bernoulli("logit"), lr=1e-2, seed=seed)

    a, b = normals(0, 200, 2), normals(1, 200, 2) + 1.5
    found = metrics.two_sample(a, b, factory=backprop, n_folds=2, epochs=10)
    assert found.differs(0.999)
    again = metrics.two_sample(a, b, factory=backprop, n_folds=2, epochs=10)
    assert again.p_value == found.p_value
    assert torch.equal(again.score_a, found.score_a)


def test_constant_columns_and_separable_samples_are_no_trouble():
    a = torch.cat([normals(0, 50, 1), torch.ones(50, 1)], 1)
    found = metrics.two_sample(a, a + torch.tensor([20.0, 0.0]), epochs=10)
    assert found.auroc == 1
    assert found.js > 0.8 * math.log(2)
    assert math.isfinite(found.js_std)
    same = metrics.two_sample(torch.ones(20, 2), torch.ones(30, 2), epochs=2)
    assert same.auroc == 0.5
    assert same.p_value == pytest.approx(0.5)


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="n_folds must lie between 2 and the rows of the smaller"):
        metrics.two_sample(torch.zeros(3, 1), torch.zeros(9, 1))
    with pytest.raises(ValueError, match="same columns"):
        metrics.two_sample(torch.zeros(9, 1), torch.zeros(9, 2))
    found = metrics.two_sample(normals(0, 20, 1), normals(1, 20, 1), epochs=1)
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        found.interval(1.0)
