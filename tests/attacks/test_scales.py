"""Attacks respect their bounds on data of any location and scale, not only in [0, 1]."""

import itertools
from functools import cache

import pytest
import torch
from torch import nn

import tractable as tr
from tests.infer.models import classifier, clusters
from tractable import attacks
from tractable.attacks.budget import lengths
from tractable.errors import InvalidInput

SCALES = [(0.0, 1.0), (0.0, 1e-6), (0.0, 1e6), (-3.0, 2.0), (1e3, 50.0)]
"""Location and scale of the data."""
SEEDS = (0, 1)


@cache
def fitted(seed, learner=tr.Backprop, dtype=torch.float64):
    """A classifier of standard normal rows, and the rows."""
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(60, 3, generator=generator, dtype=dtype)
    y = (z.sum(1) > 0).long()
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
    options = {} if learner is tr.TAGI else {"lr": 3e-2}
    model = learner(net, tr.likelihoods.Softmax(2), dtype=dtype, seed=seed, **options)
    return model.fit(z, y, epochs=15, batch_size=10), z, y


class InUnits(nn.Module):
    """A network behind the standardization of its inputs."""

    def __init__(self, inner, location, scale):
        super().__init__()
        self.inner, self.location, self.scale = inner, location, scale

    def forward(self, x):
        return self.inner((x - self.location) / self.scale)


def problem(location, scale, seed):
    """A classifier of rows of any location and scale, and the rows."""
    model, z, y = fitted(seed)
    net = InUnits(model.posterior.to_module(model.net), location, scale)
    outer = tr.Backprop(net, tr.likelihoods.Softmax(2), dtype=z.dtype, init="net")
    return outer, location + scale * z, y


@pytest.fixture(scope="module")
def clustered():
    return classifier()


def sizes_of(change, norm):
    flat = change.flatten(1)
    return flat.abs().amax(1) if norm == "inf" else flat.norm(dim=1)


def attack_calls(model, x, y, epsilon, bounds, seed):
    """Return every gradient attack with its norm and its result."""
    yield "inf", attacks.fgsm(model, x, y, epsilon, bounds=bounds)
    yield "inf", attacks.fgsm(model, x, 1 - y, epsilon, targeted=True, bounds=bounds)
    for norm, start in itertools.product(("inf", "2"), (False, True)):
        generator = torch.Generator().manual_seed(seed) if start else None
        options = {"norm": norm, "steps": 4, "bounds": bounds, "generator": generator}
        yield norm, attacks.pgd(model, x, y, epsilon, **options)
        yield norm, attacks.pgd(model, x, y, epsilon, step_size=10 * scale_of(epsilon), **options)


def scale_of(epsilon):
    return float(torch.as_tensor(epsilon).max()) or 1.0


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("location", "scale"), SCALES)
def test_the_change_is_within_epsilon_and_zero_changes_nothing(location, scale, seed):
    model, x, y = problem(location, scale, seed)
    rounding = 1e-12 * float(x.abs().max())
    low, high = float(x.min()), float(x.max())
    each = scale * torch.linspace(0, 1, len(x), dtype=x.dtype)
    for epsilon in (0.01 * scale, 5 * scale, each):
        for bounds in (None, (low, high)):
            for norm, moved in attack_calls(model, x, y, epsilon, bounds, seed):
                assert (sizes_of(moved - x, norm) <= epsilon + rounding).all()
                assert (moved != x).any()
                if bounds is not None:
                    assert moved.min() >= bounds[0]
                    assert moved.max() <= bounds[1]
    for bounds in (None, (low, high)):
        for _, moved in attack_calls(model, x, y, 0.0, bounds, seed):
            assert torch.equal(moved, x)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("location", "scale"), SCALES)
def test_robustness_begins_at_the_accuracy_and_is_the_same_in_other_units(location, scale, seed):
    model, x, y = problem(location, scale, seed)
    epsilons = [0.0, 0.1, 0.3, 1.0]
    found = attacks.robustness(model, x, y, [scale * e for e in epsilons])
    assert found[0] == pytest.approx(tr.metrics.accuracy(model.predict(x), y))
    assert found[-1] < found[0]
    for e, accuracy in zip(epsilons, found, strict=True):
        moved = attacks.fgsm(model, x, y, scale * e)
        assert accuracy == pytest.approx(tr.metrics.accuracy(model.predict(moved), y))
    standard, z, _ = problem(0.0, 1.0, seed)
    assert found == attacks.robustness(standard, z, y, epsilons)
    bounds = (float(x.min()), float(x.max()))
    inside = attacks.robustness(model, x, y, [scale * e for e in epsilons], bounds=bounds)
    for e, accuracy in zip(epsilons, inside, strict=True):
        moved = attacks.fgsm(model, x, y, scale * e, bounds=bounds)
        assert accuracy == pytest.approx(tr.metrics.accuracy(model.predict(moved), y))


@pytest.mark.parametrize("learner", [tr.TAGI, tr.Backprop])
def test_standardized_rows_move_by_epsilon_only(learner):
    model, x, y = fitted(0, learner)
    assert x.abs().max() > 2
    moved = attacks.fgsm(model, x, y, 0.01)
    assert (moved - x).abs().max().item() == pytest.approx(0.01, abs=1e-12)
    (accuracy,) = attacks.robustness(model, x, y, [0.0])
    assert accuracy == pytest.approx(tr.metrics.accuracy(model.predict(x), y))


def test_inputs_outside_the_bounds_are_refused(clustered):
    model, x, y = fitted(0)
    words = r"entry -?\d.* of row \d+ lies outside bounds=\(0.0, 1.0\).*bounds=None"
    with pytest.raises(InvalidInput, match=words):
        attacks.fgsm(model, x, y, 0.1, bounds=(0.0, 1.0))
    with pytest.raises(InvalidInput, match=words):
        attacks.pgd(model, x, y, 0.1, bounds=(0.0, 1.0))
    with pytest.raises(InvalidInput, match=words):
        attacks.robustness(model, x, y, [0.1], bounds=(0.0, 1.0))
    with pytest.raises(ValueError, match=r"bounds must be \(lowest, highest\)"):
        attacks.fgsm(model, x, y, 0.1, bounds=(9.0, -9.0))
    images, _ = clusters()
    with pytest.raises(InvalidInput, match=r"lies outside bounds=\(-0.9, 0.9\)"):
        attacks.tagi_attack(clustered, images, 1, bounds=(-0.9, 0.9))


def test_bounds_of_single_precision_inputs_may_differ_by_rounding():
    model, x, y = fitted(0, dtype=torch.float32)
    low, high = float(x.min()), float(x.max())
    bounds = (low * (1 - 1e-7), high * (1 - 1e-7))
    moved = attacks.fgsm(model, x, y, 0.1, bounds=bounds)
    assert (moved - x).abs().max() <= 0.1 + 1e-6


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1e-30, 1e-25, 1e-15, 1.0, 1e15, 1e25])
def test_lengths_neither_underflow_nor_overflow(scale, dtype):
    rows = torch.randn(50, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = lengths((scale * rows).to(dtype)).double()
    assert torch.allclose(found, scale * rows.norm(dim=1), rtol=1e-5, atol=0)


@pytest.mark.parametrize("size", [1e-8, 1e-20])
def test_one_step_is_no_longer_than_asked_for_where_the_gradient_is_tiny(size):
    """A gradient whose squares underflow in single precision still has a direction."""
    net = nn.Linear(3, 2)
    with torch.no_grad():
        net.weight.copy_(size * torch.tensor([[1.0, -2.0, 0.5], [-1.0, 1.0, 2.0]]))
        net.bias.zero_()
    model = tr.Backprop(net, tr.likelihoods.Softmax(2), init="net")
    x = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    moved = attacks.pgd(
        model, x, torch.zeros(20, dtype=torch.long), 1.0, norm="2", steps=1, step_size=0.1
    )
    assert torch.allclose((moved - x).norm(dim=1), torch.full((20,), 0.1), atol=1e-5)


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("norm", ["inf", "2"])
@pytest.mark.parametrize("size", [0.05, 0.4])
def test_inferred_images_are_within_the_budget_in_every_unit(clustered, unit, norm, size):
    model = clustered
    images, labels = clusters()
    clip = (float(images.min()), float(images.max()))
    options = {"input_std": 0.1 * unit, "pixel_scale": unit, "steps": 10}
    for target, limits in itertools.product(((labels + 1) % 3, None), (None, clip)):
        found = attacks.tagi_attack(
            model,
            images,
            target,
            budget=attacks.Budget(size * unit, norm),
            bounds=limits,
            **options,
        )
        change = (found.images.loc - images) * unit
        assert (sizes_of(change, norm) <= size * unit * (1 + 1e-5)).all()
        assert torch.allclose(found.l2, change.norm(dim=1))
        assert torch.allclose(found.linf, change.abs().amax(1))
        assert torch.equal(found.labels, model.predict(found.images.loc).labels)
        if limits is not None:
            assert found.images.loc.min() >= clip[0]
            assert found.images.loc.max() <= clip[1]
