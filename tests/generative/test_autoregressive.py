"""Chains of conditionals: masks, density, conditioning, every learner, files."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import tractable as tr
from tractable.errors import InvalidInput, InvalidModelFile
from tractable.generative import MADE, Autoregressive, GenerativeModel

S = np.array([[1.0, 0.8, 0.3], [0.8, 1.0, 0.5], [0.3, 0.5, 1.0]])


def gaussian(rows, seed=0):
    return np.random.default_rng(seed).multivariate_normal([1.0, -1.0, 0.0], S, rows)


@pytest.mark.parametrize(
    ("columns", "context", "hidden"), [(1, 0, (4,)), (4, 2, (60, 60)), (5, 0, (3,))]
)
def test_columns_depend_on_previous_columns_and_the_context(columns, context, hidden):
    torch.manual_seed(0)
    net = MADE(columns, 2, context, hidden).double()
    x = torch.randn(1, context + columns, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(net, x).squeeze().reshape(columns, 2, -1)
    reaches = jacobian.abs().sum(1) > 0
    for k in range(columns):
        assert not reaches[k, context + k :].any()
    if columns == 4:  # wide enough to reach everything before
        for k in range(columns):
            assert reaches[k, :context].all()
            assert reaches[k, context : context + k].all()


@pytest.fixture(scope="module")
def fitted():
    return Autoregressive((32,), tr.likelihoods.HeteroscedasticNormal(), seed=1).fit(gaussian(3000))


def test_density_of_a_gaussian(fitted):
    new = gaussian(1000, 1)
    exact = stats.multivariate_normal([1.0, -1.0, 0.0], S).logpdf(new)
    found = fitted.predict().log_prob(new).numpy()
    se = (exact - found).std() / math.sqrt(len(new))
    assert -4 * se < exact.mean() - found.mean() < 0.05
    drawn = fitted.predict().sample(4000).double().numpy()
    np.testing.assert_allclose(np.cov(drawn.T), S, atol=0.12)
    np.testing.assert_allclose(drawn.mean(0), [1.0, -1.0, 0.0], atol=0.08)


def test_density_integrates_to_one():
    model = Autoregressive((8,), seed=0).fit(gaussian(200)[:, :2], epochs=2)
    side = torch.linspace(-9, 9, 400)
    mass = model.predict().log_prob(torch.cartesian_prod(side, side)).double().exp().sum()
    assert float(mass) * float(side[1] - side[0]) ** 2 == pytest.approx(1, abs=2e-3)


def test_conditioning_on_any_columns(fitted):
    # x_0 | x_1, x_2 and x_1 | x_0, x_2 of the Gaussian; the missing columns come before known ones.
    rows = np.array([[np.nan, 0.5, 1.0], [2.0, np.nan, -1.0], [0.0, 0.0, 0.0]])
    drawn = fitted.predict().impute(rows, n_samples=400).double().numpy()
    assert (drawn[:, 2] == 0).all()
    for row, hole in ((0, 0), (1, 1)):
        others = [k for k in range(3) if k != hole]
        gain = S[hole, others] @ np.linalg.inv(S[np.ix_(others, others)])
        shift = rows[row, others] - np.array([1.0, -1.0, 0.0])[others]
        mean = [1.0, -1.0, 0.0][hole] + gain @ shift
        std = math.sqrt(S[hole, hole] - gain @ S[others, hole])
        assert (drawn[:, row, others] == rows[row, others].astype(np.float32)).all()
        assert drawn[:, row, hole].mean() == pytest.approx(mean, abs=5 * std / 20 + 0.08)
        assert drawn[:, row, hole].std() == pytest.approx(std, rel=0.2)


def test_order_of_the_chain():
    x = gaussian(500)
    model = Autoregressive((16,), order=[2, 0, 1], seed=0, calibrate=False).fit(x, epochs=2)
    p = model.predict()
    drawn = p.sample(500)
    assert (drawn.mean(0) - torch.tensor([1.0, -1.0, 0.0])).abs().max() < 0.3
    assert float(p.log_prob([[1.0, -1.0, 0.0]])) > float(p.log_prob([[-1.0, 1.0, 0.0]])) + 1
    with pytest.raises(InvalidInput, match="every column from 0 to 2 once"):
        Autoregressive(order=[0, 1]).fit(x)


def test_scale_of_the_noise_is_fitted_to_rows_that_were_not_learnt():
    x = gaussian(300, 3)
    plain, scaled = (
        Autoregressive((32,), seed=0, calibrate=calibrate, validation_fraction=0).fit(x, epochs=4)
        for calibrate in (False, True)
    )
    parts = scaled.learner_.likelihood.part.part_list
    assert float(parts[0].noise_scale) != 1.0
    assert float(plain.learner_.likelihood.part.part_list[0].noise_scale) == 1.0


@pytest.mark.parametrize(
    ("learner", "members", "likelihood"),
    [
        (tr.TAGI, 2, None),
        (tr.BayesByBackprop, 1, tr.likelihoods.HeteroscedasticNormal()),
        (tr.Backprop, 2, tr.likelihoods.Mixture(tr.likelihoods.HeteroscedasticNormal(), 2)),
        (tr.Laplace, 1, tr.likelihoods.HeteroscedasticNormal()),
        (tr.TAGI, 1, tr.likelihoods.Normal()),
        (tr.TAGI, 1, tr.likelihoods.StudentT(5)),
    ],
)
def test_every_learner_and_files(tmp_path, learner, members, likelihood):
    x = gaussian(120)
    options = {"n_weight_samples": 3} if learner is tr.BayesByBackprop else {}
    model = Autoregressive(
        (8,),
        likelihood,
        learner=learner,
        n_estimators=members,
        learner_kwargs=options,
        dtype=torch.float64,
    ).fit(x, x[:, :1], epochs=1)
    p = model.predict(x[:5, :1])
    model.save(tmp_path / "m.tr")
    again = GenerativeModel.load(tmp_path / "m.tr").predict(x[:5, :1])
    assert torch.equal(again.log_prob(x[:5]), p.log_prob(x[:5]))
    assert torch.equal(again.sample(2), p.sample(2))
    assert p.sample(2).shape == (2, 5, 3)
    assert p.log_prob(x[:5]).isfinite().all()
    if members > 1:
        assert (p.log_prob_std(x[:5]) > 0).all()


class Peeking(nn.Module):
    def __init__(self):
        super().__init__()
        self.all = nn.Linear(3, 3 * 2)

    def forward(self, x):
        return self.all(x).reshape(-1, 3, 2)


def test_bad_input(tmp_path):
    x = gaussian(60)
    normal = tr.likelihoods.HeteroscedasticNormal()
    with pytest.raises(InvalidInput, match=r"outputs of column 0 .* depend on column 0"):
        Autoregressive(Peeking(), normal).fit(x)
    with pytest.raises(InvalidInput, match="must return"):
        Autoregressive(nn.Linear(3, 6), normal).fit(x)
    with pytest.raises(TypeError, match="value of a column"):
        Autoregressive((8,), tr.likelihoods.PerStep(normal))
    with pytest.raises(ValueError, match="min_noise"):
        Autoregressive((8,), min_noise=-1.0)
    own = Autoregressive(MADE(3, 2, 0, (8,)), normal).fit(x, epochs=1)
    own.save(tmp_path / "m.tr")
    with pytest.raises(InvalidModelFile, match="net="):
        Autoregressive.load(tmp_path / "m.tr")
    again = Autoregressive.load(tmp_path / "m.tr", net=MADE(3, 2, 0, (8,)))
    assert torch.equal(again.predict().log_prob(x[:5]), own.predict().log_prob(x[:5]))
    with pytest.raises(ValueError, match="n_particles"):
        own.predict(n_particles=0)


@pytest.mark.parametrize("likelihood", [None, tr.likelihoods.HeteroscedasticNormal()])
def test_a_row_so_far_out_that_its_density_overflows_is_new(likelihood):
    p = Autoregressive((8,), likelihood).fit(gaussian(200), epochs=1).predict()
    rows = np.array([[1.0, -1.0, 0.0], [1e8, 1.0, 1.0], [1e20, 1.0, 1.0], [1.0, 1.0, 1e30]])
    assert bool((p.novelty_share(rows)[1:] == 1).all())
    assert bool((p.log_prob(rows)[2:] == -math.inf).all())
    assert float(p.novelty_share(rows)[0]) < 1


def test_imputation_by_parts_keeps_complete_rows(monkeypatch):
    X = gaussian(300)
    p = Autoregressive((8,)).fit(X, epochs=1).predict(n_particles=4)
    rows = torch.tensor(X[:9], dtype=torch.float32)
    rows[[1, 4, 8], 0] = math.nan
    asked = []
    one = p.density.learner.outputs
    monkeypatch.setattr(
        p.density.learner, "outputs", lambda x, **o: (asked.append(len(x)), one(x, **o))[1]
    )
    monkeypatch.setattr("tractable.generative.autoregressive._CHUNK_ROWS", 2 * 5 * 4)
    found = p.impute(rows, n_samples=5)
    assert asked == [40, 40, 20, 20]  # two rows, then one: to draw, and to weigh
    assert not bool(found.isnan().any())
    assert bool((found == rows)[:, ~rows.isnan()].all())
    assert float(found[:, 1, 0].std()) > 0


def test_long_sampling_shows_progress(fitted, capsys):
    fitted.predict(progress=True).sample(3)
    assert "Sampling" in capsys.readouterr().err
    fitted.predict().sample(3)  # not on a terminal
    assert capsys.readouterr().err == ""
