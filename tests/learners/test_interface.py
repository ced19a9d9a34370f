"""The interface of a learner that users see: arrays, copies, states and descriptions."""

import inspect

import numpy as np
import pytest
import torch
from torch import nn

import tractable as tr

KINDS = {
    "TAGI": tr.TAGI,
    "BayesByBackprop": tr.BayesByBackprop,
    "Backprop": tr.Backprop,
    "Laplace": tr.Laplace,
    "Ensemble": tr.Ensemble,
}


def fitted(name: str) -> tuple[tr.Learner, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    X = generator.standard_normal((30, 2))
    y = X[:, 0] + 0.1 * generator.standard_normal(30)
    net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
    model = KINDS[name](net, tr.likelihoods.Normal())
    return model.fit(X, y, epochs=2, progress=False), X, y


@pytest.mark.parametrize("name", KINDS)
def test_every_method_takes_arrays(name):
    model, X, y = fitted(name)
    x, targets = torch.from_numpy(X), torch.from_numpy(y)
    assert torch.equal(model.outputs(X).moments()[0], model.outputs(x).moments()[0])
    assert torch.equal(model.log_prob_gradient(X, y), model.log_prob_gradient(x, targets))
    seeds = [torch.Generator().manual_seed(3) for _ in range(2)]
    arrays, tensors = (
        model.sample(rows, 4, generator=generator)
        for rows, generator in zip((X, x), seeds, strict=True)
    )
    assert arrays.shape == (4, 30, 1)
    assert torch.equal(arrays, tensors)
    assert model.sample(X).shape == (1, 30, 1)
    with pytest.raises(tr.errors.InvalidInput):
        model.outputs(X[:, :1])


@pytest.mark.parametrize("name", KINDS)
def test_a_state_dict_is_loaded_and_training_continues_alike(name):
    model, X, y = fitted(name)
    held = {key: value.clone() for key, value in model.state_dict().items()}
    other = KINDS[name](model.net, tr.likelihoods.Normal())
    other.load_state_dict(held)
    assert torch.equal(other.predict(X).std, model.predict(X).std)
    for learner in (model, other):
        learner.update(X[:3], y[:3])
    assert torch.equal(other.predict(X).std, model.predict(X).std)
    before = other.predict(X).mean
    del held["generator"]
    with pytest.raises(tr.errors.InvalidModelFile):
        other.load_state_dict(held)
    assert torch.equal(other.predict(X).mean, before)


@pytest.mark.parametrize("name", KINDS)
def test_moving_to_a_device_keeps_the_state(name):
    model, X, _ = fitted(name)
    before = model.predict(X)
    moved = model.to("cpu")
    assert moved is model
    assert torch.equal(model.predict(X).std, before.std)
    assert torch.equal(model.predict(3 * X).novelty, fitted(name)[0].predict(3 * X).novelty)


@pytest.mark.parametrize("name", KINDS)
def test_the_representation_states_whether_it_was_fitted(name):
    model, X, y = fitted(name)
    assert repr(model).startswith(f"{name}(Sequential with 17 parameters, Normal(")
    assert repr(model).endswith("fitted to 30 rows, 2 epochs)")
    new = KINDS[name](model.net, tr.likelihoods.Normal())
    assert repr(new).endswith("not fitted)")
    assert repr(new.update(X[:2], y[:2])).endswith("updated online)")


def test_a_signature_shows_the_options_of_the_method():
    parameters = inspect.signature(tr.TAGI).parameters
    assert parameters["epoch_forgetting"].default == 0.3
    assert list(parameters)[:2] == ["net", "likelihood"]
    assert "options" not in parameters


def test_unknown_options_are_refused_with_a_hint():
    net, normal = nn.Linear(1, 1), tr.likelihoods.Normal()
    with pytest.raises(TypeError, match="'lr': TAGI has no learning rate"):
        tr.TAGI(net, normal, lr=0.1)
    with pytest.raises(TypeError, match=r"'gian'.*'gain'"):
        tr.TAGI(net, normal, gian=1.0)
