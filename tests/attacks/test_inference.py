import math

import pytest
import torch
from torch import nn

import tractable as tr
from tests.infer.models import F64, classifier, clusters, mlp, set_posterior
from tractable.attacks import Budget, inference
from tractable.attacks import tagi_attack as attack
from tractable.attacks.inference import _undecided


def linear_classifier(sigma_v: float = 0.3) -> tr.TAGI:
    """Two classes, one output: the sign of w x + b, observed as +1 or -1 with noise."""
    likelihood = tr.likelihoods.Categorical(2, link="normal", sigma=sigma_v)
    model = tr.TAGI(nn.Linear(4, 1), likelihood, dtype=F64, seed=1)
    model.update(torch.eye(4, dtype=F64), [0, 1, 0, 1])
    return model


def test_one_step_on_a_linear_model_is_the_conditional_gaussian():
    model = linear_classifier()
    w, b = model.posterior["weight"], model.posterior["bias"]
    x = torch.tensor([[0.2, -0.1, 0.4, 0.3]], dtype=F64)
    other = 1 - int(model.predict(x).labels)
    sigma, sigma_v = 0.1, 0.2
    found = attack(model, x, other, input_std=sigma, steps=1, noise_std=sigma_v)
    sign = model.likelihood.paths[other].item()
    v = sigma**2
    mean = (w.loc @ x[0] + b.loc).item()
    variance = (x**2 @ w.variance[0] + v * (w.loc**2 + w.variance).sum() + b.variance).item()
    gain = v * w.loc[0] / (variance + sigma_v**2)
    assert (found.images.loc - (x + gain * (sign - mean))).abs().max() < 1e-12
    assert (found.images.variance - (v - gain * w.loc[0] * v)).abs().max() < 1e-12


@pytest.mark.parametrize("link", ["probit", "normal"])
def test_targeted_and_untargeted_attacks_fool_the_network(link):
    model = classifier(link)
    images, labels = clusters()
    assert torch.equal(model.predict(images).labels, labels)
    for shift in (1, 2):
        found = attack(model, images, (labels + shift) % 3, input_std=0.1)
        assert found.success.all()
        assert torch.equal(model.predict(found.images.loc).labels, (labels + shift) % 3)
        assert (found.images.variance > 0).all()
    free = attack(model, images, input_std=0.1)
    assert free.success.all()
    assert (free.labels != labels).all()
    assert (free.l2 < 3).all()


def two_decisions() -> tr.TAGI:
    """One pixel, four classes: the first decision is well known, the second, upon it, is not.

    The classes 0 and 1 differ in the second decision, ``1.2 x - 1``; the first, ``1 - x / 2``,
    says that it is one of them.
    """
    likelihood = tr.likelihoods.Categorical(4, tree="published", link="normal", sigma=0.1)
    model = tr.TAGI(nn.Linear(1, 3), likelihood, dtype=F64).update([[0.0]], [0])
    return set_posterior(
        model,
        {
            "weight": ([[-0.5], [1.2], [0.0]], 0.0),
            "bias": ([1.0, -1.0, 0.0], [0.0, 1.0, 0.0]),
        },
    )


def test_observed_decisions_do_not_limit_the_attack(monkeypatch):
    model = two_decisions()
    image = torch.zeros(1, 1, dtype=F64)
    assert model.predict(image).labels.item() == 1
    found = attack(model, image, 0, input_std=0.3)
    assert found.success.all()
    assert found.images.loc.item() > 1 / 1.2
    # Observing both decisions in every iteration, the known one holds the pixel back.
    monkeypatch.setattr(inference, "DECIDED", math.inf)
    held = attack(model, image, 0, input_std=0.3, min_step=0)
    assert not held.success.any()
    assert held.steps.item() == 100
    assert held.images.loc.item() < 0.5


def test_from_the_second_iteration_on_a_walk_does_not_creep():
    """An output with uncertain weights gives little information at every iteration."""
    model = set_posterior(
        tr.TAGI(
            nn.Linear(2, 1), tr.likelihoods.Categorical(2, link="normal", sigma=0.1), dtype=F64
        ).update([[0.0, 0.0]], [0]),
        {"weight": ([[1.0, 0.5]], 4.0), "bias": ([-1.0], 4.0)},
    )
    image = torch.zeros(1, 2, dtype=F64)
    target = 1 - int(model.predict(image).labels)
    for steps in (1, 2, 3):
        creeping, walking = (
            attack(model, image, target, input_std=0.05, steps=steps, min_step=shortest)
            for shortest in (0.0, 1.0)
        )
        assert creeping.linf.item() < 0.05 * steps
        # One published step, then steps of one standard deviation of the pixel that moves most.
        wanted = 0.05 * (steps - 1) + creeping.linf.item() / steps
        assert walking.linf.item() == pytest.approx(wanted, rel=0.05)


def test_labels_that_are_decided_but_not_yet_given_are_observed():
    """All decisions count as made, yet the image is not taken for the target: no standstill."""
    model = two_decisions()
    outputs = tr.Gaussian(torch.tensor([[0.3, 0.3, 0.0], [0.3, 0.05, 0.0]], dtype=F64), 0.01)
    seen = _undecided(model.likelihood, torch.tensor([0, 0]), outputs)
    assert (seen.d_mu[0, :2] > 0).all()
    assert seen.d_mu[1, 0] == 0
    assert seen.d_var[1, 0] == 0
    assert seen.d_mu[1, 1] > 0


def test_the_default_noise_is_a_tenth_of_that_of_training():
    likelihood = tr.likelihoods.Categorical(2, link="normal")  # whose noise is 0.2
    model = tr.TAGI(nn.Linear(4, 1), likelihood, dtype=F64, seed=1)
    model.update(torch.eye(4, dtype=F64), [0, 1, 0, 1])
    x = torch.tensor([[0.2, -0.1, 0.4, 0.3]], dtype=F64)
    other = 1 - int(model.predict(x).labels)
    chosen, default = (attack(model, x, other, steps=1, noise_std=s) for s in (0.02, None))
    assert torch.equal(chosen.images.loc, default.images.loc)


def test_fooled_images_stop_early_and_rows_do_not_depend_on_each_other():
    model = classifier()
    images, labels = clusters()
    target = (labels + 1) % 3
    target[0] = labels[0]  # fooled before the first step
    found = attack(model, images, target, input_std=0.05)
    assert found.steps[0] == 0
    assert torch.equal(found.images.loc[0], images[0])
    assert found.l2[0] == 0
    alone = attack(model, images[1:2], target[1:2], input_std=0.05)
    assert alone.steps[0] == found.steps[1]
    assert torch.allclose(alone.images.loc[0], found.images.loc[1], atol=1e-5)


def test_budgets_and_clipping_hold():
    model = classifier()
    images, labels = clusters()
    target = (labels + 1) % 3
    box = attack(model, images, target, input_std=0.1, steps=20, budget=0.3)
    assert (box.linf <= 0.3 + 1e-6).all()
    ball = attack(model, images, target, input_std=0.1, steps=20, budget=Budget(0.4, "2"))
    assert (ball.l2 <= 0.4 + 1e-6).all()
    clipped = attack(model, images, target, input_std=0.1, steps=20, bounds=(-1.0, 1.0))
    assert clipped.images.loc.abs().max() <= 1.0
    # The budget is in pixel units, so half the scale doubles the range.
    roomy = attack(model, images, target, input_std=0.1, steps=20, budget=0.3, pixel_scale=0.5)
    assert (roomy.linf <= 0.3 + 1e-6).all()
    assert (roomy.images.loc - images).abs().max() > 0.3


def test_the_same_attack_in_other_units():
    """With standardized images, sigma and distortions are still in pixel units."""
    model = classifier()
    images, labels = clusters()
    plain = attack(model, images, (labels + 1) % 3, input_std=0.1)
    scaled = attack(model, images, (labels + 1) % 3, input_std=0.1 * 7, pixel_scale=7.0)
    assert torch.allclose(plain.images.loc, scaled.images.loc)
    assert torch.allclose(7 * plain.l2, scaled.l2)


def test_bad_input():
    model = classifier()
    images, labels = clusters()
    with pytest.raises(ValueError, match=r"labels must lie in 0..2"):
        attack(model, images, 3)
    with pytest.raises(ValueError, match="labels must be one integer per row"):
        attack(model, images, [0, 1])
    with pytest.raises(ValueError, match="input_std must be a positive number"):
        attack(model, images, 1, input_std=0.0)
    with pytest.raises(ValueError, match="budget must be a positive number"):
        attack(model, images, 1, budget=-0.1)
    with pytest.raises(ValueError, match="norm of a budget"):
        Budget(0.1, "1")
    with pytest.raises(ValueError, match=r"bounds must be \(lowest, highest\)"):
        attack(model, images, 1, bounds=(1.0, 0.0))
    with pytest.raises(ValueError, match="leave target or label out"):
        attack(model, images, 1, label=labels)
    with pytest.raises(ValueError, match="steps must be at least 1"):
        attack(model, images, 1, steps=0)
    with pytest.raises(ValueError, match="needs a normal likelihood or link"):
        attack(model, images, 1, noise_std=0.1)
    with pytest.raises(TypeError, match="needs a model of classes"):
        attack(mlp(nn.ReLU), torch.zeros(1, 2), 1)
    unfitted = tr.TAGI(nn.Linear(2, 2), tr.likelihoods.Categorical(3))
    with pytest.raises(tr.learners.NotFitted):
        attack(unfitted, images, 1)
