"""Diffusion against Gaussians, whose best predictor, chain and density are in closed form."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import tractable as tr
from tractable.errors import InvalidInput, InvalidModelFile
from tractable.generative import Diffusion, GenerativeModel, NoiseSchedule
from tractable.generative.column_scaler import ColumnScaler
from tractable.generative.diffusion.density import Denoiser, DiffusionDensity
from tractable.generative.diffusion.samplers import SamplerConfig
from tractable.learners.outputs import GaussianOutputs
from tractable.persistence import model_file


class Best:
    """The best predictor of v for rows that are N(0, variance), as a learner."""

    def __init__(self, schedule, variance):
        self.schedule, self.variance = schedule, variance

    def outputs(self, x):
        z, features = x[:, :1], x[0, 1:]
        every = self.schedule.features(torch.arange(1, self.schedule.steps + 1))
        t = int((every - features).abs().sum(1).argmin()) + 1
        return GaussianOutputs(self.row(z, t), torch.zeros_like(z), None)

    def row(self, z, t):
        a, b = (float(f(t)) for f in (self.schedule.alpha_bar, self.schedule.one_minus_alpha_bar))
        return math.sqrt(a) * self.variance / (a * self.variance + b) * z

    def error(self, t):
        a, b = (float(f(t)) for f in (self.schedule.alpha_bar, self.schedule.one_minus_alpha_bar))
        return self.variance * b / (a * self.variance + b)


def gaussian_density(schedule, variance, walk, draws):
    best = Best(schedule, variance)
    errors = torch.tensor([[best.error(t)] for t in range(1, schedule.steps + 1)]).double()
    columns = ColumnScaler.fit(
        torch.randn(50, 1), standardize=False, dequantize=False, is_continuous=False
    )
    return DiffusionDensity(
        Denoiser(schedule, "x", best, None, 1.0), errors, walk, None, scaler=columns,
        guidance_fn=None, guidance_fn_scale=1.0, n_noise_samples=draws, seed=0,
        dtype=torch.float64, progress=False,
    )  # fmt: skip


@pytest.mark.parametrize("x", [0.3, 1.5])
def test_dif_09_the_full_bound_is_the_log_density(x):
    # For standard normal rows every step back is normal, and the chain ends in its prior.
    density = gaussian_density(NoiseSchedule([0.1, 0.2, 0.3]), 1.0, SamplerConfig(), 1)
    rows = torch.full((20_000, 1), x, dtype=torch.float64)  # 20,000 draws of the noise
    found = density.log_prob(rows)
    exact = -0.5 * (x**2 + math.log(2 * math.pi))
    se = float(found.std()) / math.sqrt(len(found))
    assert abs(float(found.mean()) - exact) < 4 * se
    # Without the term of the prior it would exceed the log density (D-16).
    dropped = float(density.denoiser.schedule.prior_divergence(rows[:1]))
    assert float(found.mean()) + dropped > exact + 4 * se or dropped < 4 * se


def test_variances_of_the_bound():
    # For standard normal rows beta is what the exact step back has; the posterior's is too small.
    schedule = NoiseSchedule([0.1, 0.2, 0.3])
    rows = torch.full((4_000, 1), 0.8, dtype=torch.float64)
    posterior, beta, learnt = (
        gaussian_density(schedule, 1.0, SamplerConfig(variance=kind), 1).log_prob(rows)
        for kind in ("posterior", "beta", "learned")
    )
    assert float(posterior.mean()) < float(learnt.mean()) - 0.005  # the same noise
    assert torch.allclose(beta, learnt, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "walk",
    [
        SamplerConfig(),
        SamplerConfig(variance="beta", final_noise=True),
        SamplerConfig(variance="posterior", steps=7),
        SamplerConfig("ddim", steps=5),
        SamplerConfig("ddim", eta=0.6),
    ],
)
def test_dif_10_moments_of_samples_follow_the_linear_recursion(walk):
    schedule, variance = NoiseSchedule.cosine(20), 2.5
    density = gaussian_density(schedule, variance, walk, 1)
    best = density.denoiser.learner
    n = 40_000
    drawn = density.sample(n, torch.Generator().manual_seed(1))
    spread, times = 1.0, schedule.times(walk.steps)
    for t, s in zip(times, [*times[1:], 0], strict=True):
        at, as_ = float(schedule.alpha_bar(t)), float(schedule.alpha_bar(s))
        beta = 1 - at / as_
        k = float(best.row(torch.ones(1), t))  # x̂ = k z
        if walk.sampler == "ddpm":
            slope = math.sqrt(1 - beta) * (1 - as_) / (1 - at)
            slope += math.sqrt(as_) * beta / (1 - at) * k
            noise = beta * (1 - as_) / (1 - at)
            if walk.variance == "beta":
                noise = beta
            elif walk.variance == "learned":
                noise += as_ * (beta / (1 - at)) ** 2 * best.error(t)
        else:
            noise = walk.eta**2 * beta * (1 - as_) / (1 - at)
            eps = (1 - math.sqrt(at) * k) / math.sqrt(1 - at)  # the noise that is seen, over z
            slope = math.sqrt(as_) * k + math.sqrt(1 - as_ - noise) * eps
        last = s == 0 and not walk.final_noise
        spread = slope**2 * spread + (0 if last else noise)
    found = float(drawn.var())
    assert found == pytest.approx(spread, abs=4 * spread * math.sqrt(2 / n))
    assert abs(float(drawn.mean())) < 4 * math.sqrt(spread / n)


def test_exact_chain_gives_back_the_variance():
    density = gaussian_density(NoiseSchedule.cosine(50), 2.5, SamplerConfig(final_noise=True), 1)
    drawn = density.sample(40_000, torch.Generator().manual_seed(2))
    assert float(drawn.var()) == pytest.approx(2.5, abs=4 * 2.5 * math.sqrt(2 / 40_000) + 0.01)


def correlated(rows, seed):
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky([[1.0, 0.8], [0.8, 1.0]])
    return rng.standard_normal((rows, 2)) @ root.T


@pytest.mark.parametrize(
    ("learner", "form"),
    [(tr.TAGI, "v"), (tr.Backprop, "v"), (tr.TAGI, "noise"), (tr.Backprop, "noise")],
)
def test_the_affine_predictor_is_approached_and_not_beaten(learner, form):
    x = correlated(4000, 0)
    options = {} if learner is tr.TAGI else {"lr": 3e-3}
    model = Diffusion(
        (64,),
        steps=20,
        learner=learner,
        prediction_type=form,
        validation_fraction=0,
        learner_kwargs=options,
        seed=1,
    )
    model.fit(x, noise_copies=10, epochs=4, batch_size=100)
    rows = torch.as_tensor(correlated(20_000, 1), dtype=torch.float32)
    generator = torch.Generator().manual_seed(5)
    z = model.scaler_.to_model(rows, torch.float32)
    given, target, t = model.noised_rows(z, None, generator)
    mean = model.learner_.outputs(given).moments()[0]
    # The best is linear in z = a x + b eps, with covariance S of the rows: of the noise its
    # covariance with z is b I, of v = a eps - b x it is a b (I - S).
    S = torch.tensor([[1.0, 0.8], [0.8, 1.0]]).double()
    a2 = model.schedule.alpha_bar(t)[:, None, None]
    total = a2 * S + (1 - a2) * torch.eye(2)
    cross = (a2 * (1 - a2)).sqrt() * (torch.eye(2) - S)
    if form == "noise":
        cross = (1 - a2).sqrt() * torch.eye(2, dtype=torch.float64)
    best = (cross @ torch.linalg.solve(total, given[:, :2, None].double())).squeeze(-1)
    error = ((mean - target) ** 2).sum(1).double()
    least = ((best - target) ** 2).sum(1)
    gap = error - least
    se = float(gap.std()) / math.sqrt(len(gap))
    assert float(gap.mean()) > -4 * se
    assert float(gap.mean()) < 0.05 * float(least.mean())


@pytest.fixture(scope="module")
def moons():
    from sklearn.datasets import make_moons

    return make_moons(1000, noise=0.06, random_state=0)


def energy(a, b):
    a, b = (torch.as_tensor(v).double() for v in (a, b))
    return float(2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, b).mean())


@pytest.fixture(scope="module")
def conditional(moons):
    X, y = moons
    return Diffusion((64, 64), steps=30, seed=2).fit(X, y, epochs=6)


def test_samples_and_contexts(moons, conditional):
    X, y = moons
    p = conditional.predict([[0.0], [1.0]])
    drawn = p.sample(400)
    assert drawn.shape == (400, 2, 2)
    for k in (0, 1):
        right, wrong = energy(drawn[:, k], X[y == k]), energy(drawn[:, k], X[y != k])
        assert right < 0.03 < 0.3 < wrong
    assert torch.equal(p.sample(3), conditional.predict([[0.0], [1.0]]).sample(3))
    right = conditional.predict(y[:200]).log_prob(X[:200]).mean()
    wrong = conditional.predict(1 - y[:200]).log_prob(X[:200]).mean()
    assert right > wrong + 1


def test_guidance_sharpens_and_none_forgets(moons, conditional):
    X, y = moons
    none = conditional.predict([[1.0]], guidance_scale=0.0).sample(600)[:, 0]
    plain = conditional.predict([[1.0]]).sample(600)[:, 0]
    assert energy(none, X) < energy(none, X[y == 1])
    sharp = conditional.predict([[1.0]], guidance_scale=2.0).sample(600)[:, 0]

    def wrong(rows):  # share nearer to the other moon
        near = [torch.cdist(rows.double(), torch.tensor(X[y == k])).amin(1) for k in (0, 1)]
        return float((near[0] < near[1]).double().mean())

    assert wrong(sharp) <= wrong(plain) + 0.01


def test_classifier_guidance_moves_samples(moons):
    X, _ = moons
    model = Diffusion((64, 64), steps=30, seed=2, validation_fraction=0).fit(X, epochs=3)
    plain = model.predict().sample(300)
    raised = model.predict(guidance_fn=lambda rows, t: 3 * rows[:, 1]).sample(300)
    assert raised[:, 1].mean() > plain[:, 1].mean() + 0.1


@pytest.mark.parametrize(
    "walk",
    [SamplerConfig(), SamplerConfig("ddim"), SamplerConfig("ddim", 25), SamplerConfig("ddpm", 25)],
)
@pytest.mark.parametrize("schedule", [NoiseSchedule.cosine(100), NoiseSchedule.linear(100)])
def test_a_linear_guide_tilts_a_gaussian_exactly(walk, schedule):
    # N(0, 2) times exp(x / 4) is N(2 / 4, 2), up to a factor.
    density = gaussian_density(schedule, 2.0, walk, 1)
    plain = density.sample(50, torch.Generator().manual_seed(0))
    density.guidance_fn = lambda rows, t: 0.25 * rows[:, 0]
    moved = density.sample(50, torch.Generator().manual_seed(0)) - plain
    assert moved.std() < 1e-9  # the spread is that of the rows
    assert abs(float(moved.mean()) - 0.5) < 0.02


def test_epistemic_variance_is_larger_with_fewer_rows(moons):
    X, _ = moons
    few, many = (
        Diffusion((32,), steps=20, validation_fraction=0).fit(X[:n], noise_copies=copies, epochs=1)
        for n, copies in ((50, 4), (1000, 20))
    )
    rows, std = few.predict().sample_with_std(100)
    assert torch.equal(rows, few.predict().sample(100))
    assert std.shape == rows.shape
    assert std.mean() > 2 * many.predict().sample_with_std(100)[1].mean() > 0


def test_complete_conditions_on_what_is_known():
    x = correlated(2000, 3)
    model = Diffusion((64,), steps=40, validation_fraction=0).fit(x, epochs=3)
    rows = np.array([[1.5, np.nan], [np.nan, -1.0], [0.5, 0.5]])
    drawn = model.predict().impute(rows, n_samples=300)
    assert drawn.shape == (300, 3, 2)
    assert (drawn[:, 0, 0] == 1.5).all()
    assert (drawn[:, 2] == 0.5).all()
    assert 0.5 < float(drawn[:, 0, 1].mean()) < 1.6  # 1.2 exactly; inpainting lags behind
    assert -1.2 < float(drawn[:, 1, 0].mean()) < -0.3
    assert float(drawn[:, 0, 1].std()) < 0.9


@pytest.mark.parametrize(
    ("learner", "members", "options"),
    [
        (tr.TAGI, 2, {}),
        (tr.BayesByBackprop, 1, {"n_weight_samples": 3}),
        (tr.Laplace, 1, {}),
        (tr.Backprop, 2, {}),
    ],
)
def test_every_learner_and_files(tmp_path, moons, learner, members, options):
    X, y = moons
    model = Diffusion(
        (16,),
        steps=8,
        learner=learner,
        n_estimators=members,
        learner_kwargs=options,
        dtype=torch.float64,
    ).fit(X[:200], y[:200], epochs=1, noise_copies=2)
    p = model.predict([[0.0]])
    model.save(tmp_path / "m.tr")
    again = GenerativeModel.load(tmp_path / "m.tr").predict([[0.0]])
    assert torch.equal(again.sample(5), p.sample(5))
    assert torch.equal(again.log_prob(X[:5]), p.log_prob(X[:5]))
    assert torch.equal(again.novelty_share(X[:5]), p.novelty_share(X[:5]))
    assert p.log_prob(X[:5]).dtype == torch.float64


def test_own_network_and_schedule_in_a_file(tmp_path, moons):
    X, _ = moons
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))
    model = Diffusion(net, schedule=NoiseSchedule([0.1, 0.2, 0.5, 0.9]), prediction_type="x")
    model.fit(X[:100], epochs=1, noise_copies=2)
    model.save(tmp_path / "m.tr")
    again = Diffusion.load(tmp_path / "m.tr")
    assert again.schedule.steps == 4
    assert torch.equal(again.predict().sample(5), model.predict().sample(5))
    with pytest.raises(InvalidModelFile):
        tr.Learner.load(tmp_path / "m.tr")


@pytest.mark.parametrize("change", ["steps", "widths", "betas", "errors", "kind"])
def test_files_that_ask_for_too_much_are_refused(tmp_path, moons, change):
    X, _ = moons
    path = tmp_path / "m.tr"
    if change == "widths":
        tr.generative.Autoregressive((8,)).fit(X[:60], epochs=1).save(path)
    else:
        Diffusion((8,), steps=5).fit(X[:100], epochs=1, noise_copies=1).save(path)
    tensors, header = model_file.read(path)
    entry = header["generative"]
    if change == "steps":
        entry["config"]["steps"] = 10**9
    elif change == "widths":
        entry["config"]["net"] = [700, 700, 700]
    elif change == "betas":
        tensors["learned/betas"] = tensors["learned/betas"] * 10
    elif change == "errors":
        tensors["learned/errors"] = -tensors["learned/errors"]
    else:
        entry["kind"] = "os.system"
    model_file.write(path, tensors, header)
    with pytest.raises(InvalidModelFile):
        GenerativeModel.load(path)


def test_bad_input(moons):
    X, _ = moons
    model = Diffusion((8,), steps=5).fit(X[:100], epochs=1, noise_copies=1)
    with pytest.raises(InvalidInput, match="guidance_scale needs a context"):
        model.predict(guidance_scale=2.0)
    with pytest.raises(ValueError, match="6 sampling steps are more than the 5 steps"):
        model.predict(steps=6)
    told = Diffusion((8,), steps=5, context_dropout=0.0).fit(
        X[:100], X[:100, :1], epochs=1, noise_copies=1
    )
    with pytest.raises(InvalidInput, match="context_dropout above 0"):
        told.predict([[0.0]], guidance_scale=2.0)
    for bad in ({"sampler": "euler"}, {"variance": "none"}, {"eta": 2.0}, {"n_noise_samples": 0}):
        with pytest.raises(ValueError, match="must"):
            model.predict(**bad)
    for bad in (
        {"prediction_type": "score"},
        {"schedule": "square"},
        {"context_dropout": 1.0},
        {"n_estimators": 0},
    ):
        with pytest.raises(ValueError, match="must"):
            Diffusion((8,), **bad)
    with pytest.raises(InvalidInput, match="cannot process inputs"):
        Diffusion(nn.Linear(3, 2)).fit(X)


def test_the_variance_of_a_step_is_that_of_rows_held_out():
    """Few rows, learnt long: their errors are much smaller than those of new rows."""
    rows = torch.randn(800, 6, generator=torch.Generator().manual_seed(3))
    given = {
        "steps": 10,
        "standardize": False,
        "learner": tr.Backprop,
        "learner_kwargs": {"lr": 3e-3},
    }
    model = Diffusion((64,), validation_fraction=0.9, **given).fit(
        rows[:200], epochs=10, noise_copies=400
    )
    reading, schedule = model.predict().density.denoiser, model.schedule
    generator, found = torch.Generator().manual_seed(0), []
    for t in range(1, 11):
        noise = torch.randn(rows.shape, generator=generator)
        seen, _ = reading.predict_x0(schedule.q_sample(rows, noise, t), t, None)
        found.append((seen - rows).double().square().mean(0))
    ratio = float((torch.stack(found) / model.errors_).mean())
    assert ratio == pytest.approx(1, abs=0.15)


def test_long_sampling_shows_progress(moons, capsys):
    model = Diffusion((8,), steps=5).fit(moons[0][:100], epochs=1, noise_copies=1)
    model.predict(progress=True).sample(3)
    assert "Sampling" in capsys.readouterr().err
    model.predict(progress=False).sample(3)
    model.predict().sample(3)  # not on a terminal
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_guide_moves_dequantized_columns(seed):
    """A rounded column has no gradient: the guide sees the column before it is rounded."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 8, 400)
    x = np.column_stack([counts, 0.5 * rng.integers(0, 5, 400), rng.standard_normal(400)])
    model = Diffusion((16,), steps=20, dequantize=True, seed=seed)
    model.fit(x, epochs=2, noise_copies=20, progress=False)
    plain = model.predict().sample(300).mean(0)
    for column in range(3):
        for sign in (1.0, -1.0):
            p = model.predict(guidance_fn=lambda rows, t, k=column, s=sign: 3 * s * rows[:, k])
            moved = p.sample(300)
            step = x[:, column].std() / 4
            assert sign * float(moved[:, column].mean() - plain[column]) > step
            if column < 2:  # samples still take the values that were seen
                assert set(moved[:, column].tolist()) <= set(np.unique(x[:, column]).tolist())


def test_rows_of_the_guide_are_the_rows_before_rounding():
    """Both maps back to the data agree up to half a step, and one has the exact derivative."""
    rng = np.random.default_rng(0)
    x = torch.tensor(np.column_stack([rng.integers(0, 8, 400) * 0.5, rng.standard_normal(400)]))
    columns = ColumnScaler.fit(x, standardize=True, dequantize=True, is_continuous=True)
    z = torch.randn(50, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    leaf = z.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(columns.to_unrounded_data(leaf).sum(), leaf)
    assert torch.allclose(gradient, columns.units.scale.expand(50, 2))
    inside = z[:, 0].abs() < 1
    gap = (columns.to_unrounded_data(z) - columns.to_data(z))[inside]
    assert float(gap[:, 0].abs().max()) <= 0.25 + 1e-12
    assert float(gap[:, 1].abs().max()) == 0.0
