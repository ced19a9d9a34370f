"""Adversarial networks: losses against divergences, both trainers, contexts, files."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce

from tractable import metrics
from tractable.errors import InvalidInput, InvalidModelFile, NotFitted, Unsupported
from tractable.generative import GAN, GenerativeModel
from tractable.generative.gan_training import (
    AdversarialTrainer,
    critic_loss,
    discriminator_loss,
    generator_loss,
    gradient_penalty,
    truncated_mass,
    truncated_normal,
)


def normals(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# --- losses -------------------------------------------------------------------------------------


def test_gan_11_the_loss_is_the_cross_entropy_of_the_labelled_union():
    real, made = normals(0, 40), normals(1, 40)
    label = torch.cat([torch.ones(40), torch.zeros(40)])
    union = bce(torch.cat([real, made]), label, reduction="sum") / 40
    assert torch.allclose(discriminator_loss(real, made), union)
    generated = bce(made, torch.zeros(40))
    assert torch.allclose(generator_loss(made, saturating=True), -generated)
    assert torch.allclose(generator_loss(made), bce(made, torch.ones(40)))


def test_the_best_discriminators_loss_is_2_log_2_less_2_js():
    """N(0, 1) against N(1, 1): the log odds are 1/2 - x; the divergence by quadrature."""
    x, y = normals(0, 50_000).double(), 1 + normals(1, 50_000).double()

    def js(t, mine, other):
        p, q = norm.pdf(t, mine), norm.pdf(t, other)
        return p * np.log(2 * p / (p + q)) / 2

    truth = quad(js, -9, 10, (0, 1))[0] + quad(js, -9, 10, (1, 0))[0]
    parts = torch.nn.functional.softplus(x - 0.5) + torch.nn.functional.softplus(0.5 - y)
    error = float(parts.std()) / math.sqrt(len(parts))
    best = float(discriminator_loss(0.5 - x, 0.5 - y))
    assert abs(best - (2 * math.log(2) - 2 * truth)) < 4 * error
    # A trained one comes near it, and not below by more than it can by chance.
    net = nn.Linear(1, 1).double()
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=50)

    def step():
        optimizer.zero_grad()
        loss = discriminator_loss(net(x[:, None])[:, 0], net(y[:, None])[:, 0])
        loss.backward()
        return loss

    optimizer.step(step)
    assert float(step().detach()) == pytest.approx(best, abs=1e-4)
    assert net.weight.item() == pytest.approx(-1, abs=0.04)
    assert math.log(2) - float(step().detach()) / 2 == pytest.approx(truth, abs=4 * error)


def test_a_lipschitz_critic_reaches_the_wasserstein_distance_and_not_more():
    """Divided by its greatest slope a critic is Lipschitz: at most the sorted W1, and near it."""
    x, y = normals(0, 500, 1), 2 + 0.5 * normals(1, 500, 1)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(net.parameters(), 5e-3)
    for _ in range(400):
        loss = critic_loss(net(x), net(y)) + 10 * gradient_penalty(net, x, y, torch.rand(500, 1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    grid = torch.linspace(-5, 6, 4_000)[:, None]
    with torch.no_grad():
        slope = float((net(grid).diff(dim=0) / grid.diff(dim=0)).abs().max())
        found = -float(critic_loss(net(x), net(y))) / slope
    truth = metrics.wasserstein(x, y)
    assert 0.9 * truth < found <= truth * (1 + 1e-4)


def test_the_penalty_of_a_plane_is_known():
    plane = nn.Linear(3, 1, bias=False)
    with torch.no_grad():
        plane.weight.copy_(torch.tensor([[3.0, 0.0, 4.0]]))
    found = gradient_penalty(plane, normals(0, 7, 3), normals(1, 7, 3), torch.rand(7, 1))
    assert float(found.detach()) == pytest.approx(16, abs=1e-4)


def test_gan_07_truncated_latents():
    mass = [truncated_mass(tau) for tau in (2, 1, 0.5, 0.04)]
    want = [0.954499736, 0.682689492, 0.382924923, 0.031906874]
    np.testing.assert_allclose(mass, want, atol=1e-8)
    whole = [truncated_mass(tau, 100) for tau in (2, 1, 0.5, 0.04)]
    want = [9.496886896e-3, 2.644367617e-17, 2.048157352e-42, 2.445824721e-150]
    np.testing.assert_allclose(whole, want, rtol=1e-5)
    drawn = truncated_normal((50_000,), 0.5, torch.Generator().manual_seed(0), torch.float64)
    assert float(drawn.abs().max()) <= 0.5
    variance = 1 - 2 * 0.5 * norm.pdf(0.5) / truncated_mass(0.5)
    assert float(drawn.var()) == pytest.approx(variance, rel=0.03)


# --- training ----------------------------------------------------------------------------------


def two_moons(rows=1_000, seed=0):
    """A curved table in other units: no straight map of normals makes it."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(0, np.pi, rows)
    x = np.column_stack([np.cos(t), np.sin(t)]) + 0.1 * rng.standard_normal((rows, 2))
    return x * [50.0, 0.2] + [300.0, 1.0]


def networks(columns=2, context=0, latent_dim=2):
    def net(inputs, outputs):
        return nn.Sequential(
            nn.Linear(inputs, 48), nn.LeakyReLU(0.2), nn.Linear(48, 48), nn.LeakyReLU(0.2),
            nn.Linear(48, outputs),
        )  # fmt: skip

    return net(latent_dim + context, columns), net(columns + context, 1)


@pytest.mark.parametrize(
    ("how", "epochs"),
    [
        ({}, 40),
        ({"loss": "wasserstein", "n_critic": 3, "lr": 3e-3}, 60),
        ({"loss": "wasserstein", "weight_clip": 0.1, "n_critic": 2, "lr": 2e-3}, 40),
    ],
    ids=["logistic", "penalty", "clipped"],
)
def test_samples_are_close_to_the_data(how, epochs):
    x, new = two_moons(), two_moons(seed=3)
    unit = x.std(0)
    model = GAN(*networks(), latent_dim=2, **how).fit(x, epochs=epochs)
    made = model.predict().sample(1_000).numpy()
    mean, covariance = x.mean(0), np.cov(x.T)
    gauss = np.random.default_rng(0).multivariate_normal(mean, covariance, 1_000)
    ours = metrics.energy_distance(made / unit, new / unit)
    plain = metrics.energy_distance(gauss / unit, new / unit)
    assert ours < (plain if "weight_clip" not in how else 6 * plain)
    assert len(model.history_) == epochs
    assert all(math.isfinite(v) for record in model.history_ for v in record.values())
    if "weight_clip" in how:
        assert (
            max(float(p.detach().abs().max()) for p in model.discriminator_.parameters()) < 0.1001
        )


def test_samples_depend_on_the_context():
    context = torch.rand(800, 1, generator=torch.Generator().manual_seed(0)) * 4 - 2
    x = torch.cat([2 * context, -context], 1) + 0.2 * normals(1, 800, 2)
    model = GAN(*networks(context=1), latent_dim=2, lr=2e-3).fit(x, context, epochs=30)
    made = model.predict([[-1.5], [1.5]]).sample(300)
    assert made.shape == (300, 2, 2)
    mean = made.mean(0)
    assert mean[0, 0] < -1.5 < 1.5 < mean[1, 0]
    assert mean[0, 1] > 0.7 > -0.7 > mean[1, 1]
    assert model.score(x[:4], context[:4]).shape == (4,)


def test_the_same_seed_makes_the_same_and_files_keep_it(tmp_path):
    x = two_moons(200)
    models = [GAN(*networks(), latent_dim=2, seed=5).fit(x, epochs=2) for _ in range(2)]
    first, second = (model.predict().sample(6) for model in models)
    assert torch.equal(first, second)
    models[0].save(tmp_path / "g.tr")
    again = GenerativeModel.load(tmp_path / "g.tr")
    assert type(again) is GAN
    assert torch.equal(again.predict().sample(6), first)
    assert torch.equal(again.score(x[:5]), models[0].score(x[:5]))
    assert again.history_ == models[0].history_
    narrow = models[0].predict(truncation=0.1).sample(500)
    assert (narrow.std(0) < models[0].predict().sample(500).std(0)).all()
    data = bytearray((tmp_path / "g.tr").read_bytes())
    data[-9] ^= 1
    (tmp_path / "bad.tr").write_bytes(bytes(data))
    with pytest.raises(InvalidModelFile):
        GenerativeModel.load(tmp_path / "bad.tr")


def test_bad_input_is_refused():
    x = two_moons(50)
    make, judge = networks()
    with pytest.raises(ValueError, match="latent_dim must be at least 1"):
        GAN(make, judge, latent_dim=0)
    with pytest.raises(ValueError, match="weight_clip must be positive, for loss='wasserstein'"):
        GAN(make, judge, latent_dim=2, weight_clip=0.1)
    with pytest.raises(ValueError, match="loss must be"):
        GAN(make, judge, latent_dim=2, loss="hinge")
    with pytest.raises(InvalidInput, match="generator must return rows of 2 numbers"):
        GAN(nn.Linear(2, 3), judge, latent_dim=2).fit(x)
    with pytest.raises(InvalidInput, match="one score per row"):
        GAN(make, nn.Linear(2, 2), latent_dim=2).fit(x)
    with pytest.raises(NotFitted):
        GAN(make, judge, latent_dim=2).score(x)
    model = GAN(make, judge, latent_dim=2).fit(x, epochs=1)
    with pytest.raises(Unsupported, match="a GAN has no log_prob"):
        model.predict().log_prob(x)
    with pytest.raises(ValueError, match="truncation must be positive"):
        model.predict(truncation=-1.0)
    with pytest.raises(InvalidInput, match="without a context"):
        model.predict([[1.0]])


def test_a_fit_neither_uses_nor_changes_the_global_generator():
    x, found = normals(0, 200, 2), []
    for seed in (1, 2):
        judge = nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.5), nn.Linear(8, 1))
        model = GAN(nn.Linear(2, 2), judge, latent_dim=2, seed=4)
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        found.append(model.fit(x, epochs=2).predict().sample(5))
        assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(*found)


def test_the_average_of_the_weights_is_bias_corrected():
    # After 60 steps 0.99^60, more than a half, would be of the weights that were drawn.
    x = 3 + normals(0, 320, 1)
    model = GAN(
        nn.Linear(1, 1),
        nn.Linear(1, 1),
        latent_dim=1,
        loss="wasserstein",
        weight_clip=1.0,
        n_critic=1,
    )
    trainer = AdversarialTrainer(model, x, None)
    first = trainer.generator.bias.detach().clone()
    for _ in range(12):
        trainer.run_epoch(64)
    now, kept = trainer.generator.bias.detach(), trainer.average.bias.detach()
    assert float((now - first).abs()) > 0.05
    assert float((now - kept).abs()) < 0.4 * float((now - first).abs())


def test_a_generator_that_never_learns_is_no_model():
    model = GAN(nn.Linear(1, 1), nn.Linear(1, 1), latent_dim=1, loss="wasserstein")
    with pytest.raises(ValueError, match="was not updated: there were 2 discriminator steps, and"):
        model.fit(normals(0, 60, 1), epochs=2)
    assert model.generator_ is None


def test_scores_want_the_context_that_was_learnt():
    x = normals(0, 60, 2)
    plain = GAN(nn.Linear(2, 2), nn.Linear(2, 1), latent_dim=2).fit(x, epochs=1)
    given = GAN(nn.Linear(3, 2), nn.Linear(3, 1), latent_dim=2).fit(x, x[:, :1], epochs=1)
    with pytest.raises(InvalidInput, match="fitted without a context"):
        plain.score(x[:2], x[:2, :1])
    with pytest.raises(InvalidInput, match="with a context: use"):
        given.score(x[:2])
    with pytest.raises(InvalidInput, match="2 rows and 3 contexts"):
        given.score(x[:2], x[:3, :1])
    assert given.score(x[:2], x[:2, :1]).shape == (2,)
