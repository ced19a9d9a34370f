"""Mixtures of normals: EM, densities, conditionals, holes; the book's cases of chapter 17."""

import copy
import math

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.mixture import GaussianMixture as Theirs

import tractable as tr
from tractable.errors import InvalidInput, InvalidModelFile
from tractable.generative import GaussianMixture, GenerativeModel
from tractable.generative.em import MixtureParams, e_step, log_prior, m_step
from tractable.persistence import model_file

NAN = math.nan


def clusters(rows=600, seed=0):
    """Two skewed clusters of three columns in different units."""
    rng = np.random.default_rng(seed)
    first = rng.standard_normal((rows, 3)) @ np.array([[1, 0.8, 0], [0, 0.6, 0.3], [0, 0, 0.5]])
    second = rng.standard_normal((rows, 3)) * [0.3, 1.0, 0.2] + [4.0, -3.0, 1.0]
    x = np.where(rng.random((rows, 1)) < 0.3, second, first)
    return x * [1.0, 50.0, 0.01] + [0.0, 300.0, 7.0]


def holes(x, share=0.3, seed=1):
    gone = np.random.default_rng(seed).random(x.shape) < share
    return np.where(gone, NAN, x)


def small():
    x = torch.tensor([-2.0, -1.5, -1.0, 0.5, 1.0, 3.0]).double().unsqueeze(1)
    means = torch.tensor([[-1.0], [1.0]]).double()
    return x, MixtureParams(torch.full((2,), 0.5).double(), means, torch.ones(2, 1, 1).double())


def test_vae_01_numbers_of_parameters():
    five = MixtureParams(torch.full((5,), 0.2), torch.zeros(5, 1), torch.ones(5, 1, 1))
    assert (five.n_params, five.n_free_params) == (15, 14)


def test_vae_05_two_steps_by_hand():
    x, mixture = small()
    share = [0.98201379, 0.952574127, 0.880797078, 0.268941421, 0.119202922, 0.002472623]
    found = mixture.log_joint(x).softmax(1)[:, 0]
    np.testing.assert_allclose(found, share, atol=1e-8)
    steps = []
    for _ in range(3):
        seen = e_step(mixture, x)
        steps.append((seen.log_likelihood, mixture))
        mixture = m_step(mixture, seen)
    np.testing.assert_allclose(
        [value for value, _ in steps], [-11.786183608, -10.997083267, -10.717165645], atol=1e-8
    )
    first = steps[1][1]
    assert float(first.weights[0]) == pytest.approx(0.53433366, abs=1e-8)
    np.testing.assert_allclose(first.means.flatten(), [-1.251588238, 1.436147875], atol=1e-8)
    np.testing.assert_allclose(first.covariances.flatten(), [0.667098788, 1.6379701], atol=1e-7)


@pytest.mark.parametrize("prior_count", [0.0, 5.0])
@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_em_never_decreases_the_likelihood(prior_count, missing):
    x = torch.from_numpy(holes((clusters(150) - [0, 300, 7]) / [2.0, 90, 0.01], missing))
    x = x[~x.isnan().all(1)]
    generator = torch.Generator().manual_seed(0)
    from tractable.generative.mixture import kmeans_pp_init

    prior = {"prior_count": prior_count, "prior_variance": 0.1}
    mixture, before = kmeans_pp_init(x, 4, generator), -math.inf
    gains = []
    for _ in range(40):
        found = e_step(mixture, x)
        value = found.log_likelihood + log_prior(mixture, **prior)
        gains.append(value - before)
        before, mixture = value, m_step(mixture, found, **prior)
    assert min(gains) > -1e-9 * abs(before)
    assert gains[1] > 1


def test_a_step_with_holes_is_the_gradient_of_the_likelihood_of_what_is_seen():
    """At a fixed point of EM the gradient vanishes: Fisher's identity at any point."""
    x = torch.from_numpy(holes((clusters(60) - [0, 300, 7]) / [2.0, 90, 0.01]))
    means = torch.tensor([[0.0, 0.1, 0.0], [1.5, -1.0, 0.7]]).double().requires_grad_()
    covariances = torch.stack([torch.eye(3), torch.eye(3) + 0.5]).double()
    mixture = MixtureParams(torch.tensor([0.6, 0.4]).double(), means, covariances)
    slope = torch.autograd.grad(mixture.log_joint(x).logsumexp(1).sum(), means)[0]
    still = MixtureParams(mixture.weights, means.detach(), covariances)
    first = e_step(still, x).first
    expected = torch.linalg.solve(covariances, first.unsqueeze(-1)).squeeze(-1)
    assert torch.allclose(slope, expected, atol=1e-9)


def test_one_component_is_the_sample_mean_and_covariance():
    x = clusters()
    model = GaussianMixture(1, prior_count=0.0, validation_fraction=0.0, dtype=torch.float64).fit(x)
    exact = stats.multivariate_normal(x.mean(0), np.cov(x.T, bias=True))
    np.testing.assert_allclose(model.predict().log_prob(x[:20]), exact.logpdf(x[:20]), atol=1e-6)


def test_as_good_as_scikit_learns():
    x, new = clusters(800), clusters(800, seed=5)
    ours = GaussianMixture(2, validation_fraction=0.0).fit(x).predict().log_prob(new).mean()
    unit = x.std(0)
    theirs = Theirs(2, random_state=0, n_init=3).fit(x / unit).score(new / unit)
    assert float(ours) == pytest.approx(theirs - np.log(unit).sum(), abs=0.01)


def test_the_number_of_components_is_chosen():
    model = GaussianMixture(validation_fraction=0.0).fit(clusters(1000))
    assert len(model.mixture_.weights) in (2, 3)
    assert model.validation_scores_[2] > model.validation_scores_[1] + 0.5
    assert (np.diff(model.history_) > -1e-9).all()


def test_samples_match_and_the_density_integrates_to_one():
    x = clusters(2000)
    p = GaussianMixture(2, validation_fraction=0.0).fit(x).predict()
    drawn = p.sample(4000).numpy()
    for k in range(3):
        assert stats.ks_2samp(drawn[:, k], x[:, k]).pvalue > 1e-3
    flat = GaussianMixture(2, validation_fraction=0.0).fit(x[:, :1]).predict()
    grid = np.linspace(-12, 12, 4001)
    assert np.trapezoid(flat.log_prob(grid).exp().numpy(), grid) == pytest.approx(1, abs=1e-4)


def test_conditionals_are_ratios_of_densities():
    """p(x2 | x1) by the conditional model = joint over marginal, and draws follow it."""
    x = clusters(1500)[:, :2]
    model = GaussianMixture(3, validation_fraction=0.0, dtype=torch.float64).fit(x[:, 1:], x[:, :1])
    joint = GaussianMixture(3, validation_fraction=0.0, dtype=torch.float64).fit(x)
    at = torch.tensor([[0.5], [4.0]]).double()
    grid = torch.linspace(-300, 700, 6001).double()
    p = model.predict(at)
    for i in range(2):
        alone = model.predict(at[i : i + 1])
        density = alone.log_prob(grid.unsqueeze(1)).exp()
        assert float(torch.trapezoid(density, grid)) == pytest.approx(1, abs=1e-6)
        both = torch.stack([at[i].expand(len(grid)), grid], 1)
        ratio = joint.predict().log_prob(both).exp()
        ratio = ratio / torch.trapezoid(ratio, grid)
        assert torch.allclose(density, ratio, atol=1e-3 * float(ratio.max()))
        drawn = p.sample(4000)[:, i, 0]
        mean = torch.trapezoid(density * grid, grid)
        std = torch.trapezoid(density * (grid - mean) ** 2, grid).sqrt()
        assert abs(drawn.mean() - mean) < 4 * std / math.sqrt(4000)
        assert float(drawn.std()) == pytest.approx(float(std), rel=0.1)


def test_learning_with_missing_values_agrees_with_complete_rows():
    """A third of the values missing at random: nearly as good on new rows as with all of them."""
    x, new = clusters(1500), clusters(1000, seed=7)
    whole = GaussianMixture(2, validation_fraction=0.0).fit(x).predict().log_prob(new).mean()
    found = GaussianMixture(2).fit(holes(x, 0.3)).predict()
    assert float(found.log_prob(new).mean()) > float(whole) - 0.03
    assert found.novelty_share(new).mean() == pytest.approx(0.5, abs=0.08)


def test_impute_covers_and_beats_the_mean():
    x, new = clusters(2000), clusters(500, seed=3)
    model = GaussianMixture(2).fit(x)
    gone = holes(new)
    found = tr.infer.impute(model, gone, n_samples=200)
    missing = np.isnan(gone)
    assert torch.equal(found.missing, torch.from_numpy(missing))
    mean, std = found.mean.numpy(), found.std.numpy()
    np.testing.assert_allclose(mean[~missing], new[~missing], rtol=1e-6)
    assert (std[~missing] == 0).all()
    unit = x.std(0)
    error = np.where(missing, (mean - new) / unit, 0)
    plain = np.where(missing, (x.mean(0) - new) / unit, 0)
    assert (error**2).sum() < 0.6 * (plain**2).sum()
    low, high = (part.numpy() for part in found.interval(0.9))
    inside = ((low <= new) & (new <= high))[missing].mean()
    assert inside == pytest.approx(0.9, abs=0.03)  # about 450 values: two standard errors
    again = tr.infer.impute(model, gone, n_samples=200)
    assert torch.equal(again.draws, found.draws)


def test_impute_follows_the_conditional_normal():
    """One component: regression of the hidden column on the others, exactly."""
    x = clusters(1000)
    model = GaussianMixture(1, prior_count=0.0, validation_fraction=0.0, dtype=torch.float64).fit(x)
    row = np.array([[1.0, NAN, 7.01]])
    found = tr.infer.impute(model, row, n_samples=20_000)
    covariance, mean = np.cov(x.T, bias=True), x.mean(0)
    slope = np.linalg.solve(covariance[np.ix_([0, 2], [0, 2])], covariance[[0, 2], 1])
    expected = mean[1] + slope @ (row[0, [0, 2]] - mean[[0, 2]])
    std = math.sqrt(covariance[1, 1] - slope @ covariance[[0, 2], 1])
    assert abs(float(found.mean[0, 1]) - expected) < 4 * std / math.sqrt(20_000)
    assert float(found.std[0, 1]) == pytest.approx(std, rel=0.02)


@pytest.mark.parametrize("given", [False, True])
def test_an_ensemble_is_the_average_of_its_members(given):
    """Each is a mixture of its own; the average of their densities is the mixture of all."""
    x = clusters(100)
    data = (x[:, 1:], x[:, :1]) if given else (x,)
    model = GaussianMixture(
        3, n_estimators=4, validation_fraction=0.0, dtype=torch.float64, seed=2
    ).fit(*data)
    mixture, context = model.mixture_, torch.tensor(x[:7, :1]) if given else None
    assert len(mixture.weights) == 12
    every = []
    for k in range(4):
        part = slice(3 * k, 3 * k + 3)
        own = MixtureParams(
            4 * mixture.weights[part], mixture.means[part], mixture.covariances[part]
        )
        assert float(own.weights.sum()) == pytest.approx(1)
        alone = GaussianMixture(3, validation_fraction=0.0, dtype=torch.float64)
        alone.scaler_, alone.context_scaler_ = model.scaler_, model.context_scaler_
        alone.mixture_ = own
        every.append(alone.predict(context).log_prob(data[0][:7]))
    every = torch.stack(every)
    p = model.predict(context)
    assert torch.allclose(p.log_prob_std(data[0][:7]), every.std(0, correction=0), atol=1e-9)
    assert float(p.log_prob_std(data[0][:7]).min()) > 0
    if not given:  # of conditionals it is the ratio of averages
        assert torch.allclose(p.log_prob(x[:7]), every.exp().mean(0).log(), atol=1e-9)
    sure = GaussianMixture(3, validation_fraction=0.0).fit(*data).predict(context)
    assert float(sure.log_prob_std(data[0][:7]).max()) == 0


def curved(rows, seed):
    """Columns that are curves of two hidden numbers: few rows for each component."""
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, rows))
    parts = [a, b, np.sin(2 * a), a * b, np.cos(a + b), np.tanh(2 * b)]
    return np.column_stack(parts) + 0.1 * rng.standard_normal((rows, 6))


def test_an_ensemble_imputes_better_with_higher_coverage():
    new = curved(600, 1)
    gone = np.random.default_rng(2).random(new.shape) < 0.2
    holed = np.where(gone, NAN, new)
    error, inside = {}, {}
    for members in (1, 8):
        model = GaussianMixture(5, n_estimators=members, validation_fraction=0.0).fit(
            curved(100, 0)
        )
        found = tr.infer.impute(model, holed, n_samples=100)
        low, high = (part.numpy() for part in found.interval(0.9))
        inside[members] = ((low <= new) & (new <= high))[gone].mean()
        error[members] = math.sqrt(((found.mean.numpy() - new)[gone] ** 2).mean())
    assert error[8] < 0.95 * error[1]
    assert inside[1] < 0.84
    assert inside[8] == pytest.approx(0.9, abs=0.03)


@pytest.mark.parametrize(("draws", "level"), [(19, 0.9), (40, 0.9), (100, 0.5)])
def test_intervals_have_the_nominal_coverage(draws, level):
    generator = torch.Generator().manual_seed(0)
    n = 40_000
    drawn = torch.randn(draws + 1, n, 1, generator=generator).exp()  # skewed
    holes_ = torch.ones(n, 1, dtype=torch.bool)
    low, high = tr.infer.Imputation(drawn[:-1], holes_).interval(level)
    share = float(((low <= drawn[-1]) & (drawn[-1] <= high)).double().mean())
    assert share == pytest.approx(level, abs=4 * math.sqrt(level * (1 - level) / n) + 2e-3)
    widest = tr.infer.Imputation(drawn[:5], holes_).interval(0.9)  # too few for 0.9
    assert torch.equal(widest[0], drawn[:5].amin(0))
    assert torch.equal(widest[1], drawn[:5].amax(0))


@pytest.mark.parametrize("members", [1, 3])
def test_files(tmp_path, members):
    x = clusters(80)
    model = GaussianMixture(seed=4, n_init=1, max_iter=10, n_estimators=members)
    model.fit(holes(x, 0.2))
    model.save(tmp_path / "m.tr")
    again = GenerativeModel.load(tmp_path / "m.tr")
    assert type(again) is GaussianMixture
    assert again.validation_scores_ == model.validation_scores_
    assert again.history_ == model.history_
    assert torch.equal(again.predict().log_prob(x), model.predict().log_prob(x))
    assert torch.equal(again.predict().novelty_share(x), model.predict().novelty_share(x))
    assert torch.equal(again.predict().sample(5), model.predict().sample(5))
    assert torch.equal(again.predict().log_prob_std(x), model.predict().log_prob_std(x))
    tensors, header = model_file.read(tmp_path / "m.tr")
    for wrong in (0, 7, 10**9):
        other = copy.deepcopy(header)
        other["generative"]["config"]["n_estimators"] = wrong
        model_file.write(tmp_path / "bad.tr", tensors, other)
        with pytest.raises(InvalidModelFile):
            GenerativeModel.load(tmp_path / "bad.tr")
    for name, wrong in (("weights", -1.0), ("covariances", -1.0)):
        bad = {k: t.clone() for k, t in tensors.items()}
        bad[f"learned/{name}"] *= wrong
        model_file.write(tmp_path / "bad.tr", bad, header)
        with pytest.raises(InvalidModelFile):
            GenerativeModel.load(tmp_path / "bad.tr")


def test_bad_input_is_refused():
    x = clusters(50)
    with pytest.raises(ValueError, match="n_components must be at least 1"):
        GaussianMixture(0)
    with pytest.raises(ValueError, match="n_estimators must be at least 1, got 0"):
        GaussianMixture(n_estimators=0)
    with pytest.raises(InvalidInput, match="60 components need as many rows"):
        GaussianMixture(60, validation_fraction=0.0).fit(x)
    x[:, 1] = NAN
    with pytest.raises(InvalidInput, match="column 1 has no values"):
        GaussianMixture().fit(x)
    with pytest.raises(InvalidInput, match="columns 0 and 3 are copies"):
        GaussianMixture().fit(np.column_stack([clusters(50), clusters(50)[:, 0]]))
    with pytest.raises(TypeError, match="has no arguments epochs"):
        GaussianMixture(1).fit(clusters(50), epochs=3)
    rows = np.r_[np.zeros((20, 1)), np.random.default_rng(0).standard_normal((20, 1))]
    with pytest.raises(ArithmeticError, match="shrunk to a point"):
        GaussianMixture(4, prior_count=0.0, validation_fraction=0.0).fit(rows)


def test_a_failed_fit_does_not_change_the_model():
    model = GaussianMixture(validation_fraction=0.0).fit(clusters(80))
    tried, history = dict(model.validation_scores_), list(model.history_)
    model.n_components = 200
    with pytest.raises(InvalidInput, match="200 components"):
        model.fit(clusters(50))
    assert tried
    assert (model.validation_scores_, model.history_) == (tried, history)


def test_the_interval_of_a_large_table():
    draws = torch.randn(9, 1000, 2000, generator=torch.Generator().manual_seed(0))
    found = tr.infer.Imputation(draws, torch.ones(1000, 2000, dtype=torch.bool))
    low, high = found.interval(0.8)  # more numbers than torch.quantile takes
    ordered = draws[:, :5].sort(0).values  # of nine draws a tenth is below the least
    torch.testing.assert_close(low[:5], ordered[0])
    torch.testing.assert_close(high[:5], ordered[-1])


def test_impute_refuses_unsupported_input():
    model = GaussianMixture(1).fit(clusters(50))
    with pytest.raises(ValueError, match="n_samples must be an integer"):
        tr.infer.impute(model, clusters(2), n_samples=0)
    with pytest.raises(TypeError, match="must have conditional distributions of rows"):
        tr.infer.impute(object(), clusters(2))
    with pytest.raises(InvalidInput, match="have 2 columns, and the model has 3"):
        tr.infer.impute(model, clusters(2)[:, :2])
    with pytest.raises(ValueError, match="level must lie"):
        tr.infer.impute(model, clusters(2)).interval(1.5)
    with pytest.raises(ValueError, match="expected at least two"):
        _ = tr.infer.impute(model, clusters(2), n_samples=1).std
