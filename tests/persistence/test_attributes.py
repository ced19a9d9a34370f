"""``load`` restores every attribute that the docstring of a class states."""

from __future__ import annotations

import inspect
import re
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import tractable as tr
from tests.persistence import made
from tests.persistence.kinds import KINDS
from tractable import agents
from tractable.learners import Method, State
from tractable.learners import serialization as learner_files
from tractable.learners.input_checks import InputChecks
from tractable.learners.off_data.widening import OffData

ROWS = torch.as_tensor(made.ROWS, dtype=torch.get_default_dtype())


def stated(kind: type) -> list[str]:
    """Attributes in the docstrings of a class and of its bases."""
    found: dict[str, None] = {}
    for base in kind.__mro__:
        doc = inspect.cleandoc(base.__dict__.get("__doc__") or "")
        if not base.__module__.startswith("tractable") or "Attributes:" not in doc:
            continue
        part = re.split(r"\n(?=\S)", doc.split("Attributes:", 1)[1])[0]
        for names in re.findall(r"^    (\w[\w, ]*):", part, re.MULTILINE):
            found |= dict.fromkeys(name.strip() for name in names.split(","))
    return [name for name in found if name not in CACHES]


def same(one: Any, two: Any) -> bool:
    """Whether two values hold the same: by their numbers and, for objects, by their parts."""
    if callable(one) and not isinstance(one, nn.Module | type):
        return callable(two)
    if type(one) is not type(two):
        return False
    if isinstance(one, tr.Learner):
        return same(learner_files.pack(one), learner_files.pack(two))
    if isinstance(one, torch.optim.Optimizer):
        return same(one.state_dict(), two.state_dict())
    if isinstance(one, InputChecks):
        return (one.format, one.flat_targets) == (two.format, two.flat_targets)
    if isinstance(one, OffData):
        kept, again = one.support, two.support
        return same(kept and kept.tensors(), again and again.tensors())
    if isinstance(one, State):
        return True  # with caches: what it holds is compared by the learner's file
    if isinstance(one, Method):
        return same(one.config(), two.config())
    if isinstance(one, torch.Tensor):
        return torch.equal(one, two)
    if isinstance(one, np.ndarray):
        return np.array_equal(one, two, equal_nan=one.dtype.kind == "f")
    if isinstance(one, float):
        return one == two or (one != one and two != two)
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(same(one[k], two[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, nn.Module):
        return repr(one) == repr(two) and same(one.state_dict(), two.state_dict())
    if isinstance(one, np.random.Generator):
        return one.bit_generator.state == two.bit_generator.state
    if isinstance(one, torch.Generator):
        return torch.equal(one.get_state(), two.get_state())
    if one is None or isinstance(one, PLAIN):
        return one == two
    return same(parts(one), parts(two))


CACHES = ("output_shapes",)
"""Stated, but filled again as inputs come."""
PLAIN = (str, int, bool, type, torch.dtype, torch.device)


def parts(value: Any) -> dict[str, Any]:
    """The attributes of an object, without the environment, which is made again."""
    return {k: v for k, v in getattr(value, "__dict__", {}).items() if k != "env"}


def learner(make: Any) -> Any:
    return make().fit(ROWS[:, 1:], ROWS[:, 0], epochs=2, progress=False)


def net() -> nn.Sequential:
    return made.mlp(2, 4, 1)


def control() -> agents.TAGIControl:
    small = {
        "policy_hidden_layer_sizes": (6,),
        "value_hidden_layer_sizes": (6,),
        "n_steps": 16,
        "batch_size": 8,
    }
    return agents.TAGIControl("Pendulum-v1", **small).learn(40)


def bandit() -> agents.Bandit:
    model = tr.TAGI(nn.Linear(4, 1), tr.likelihoods.Normal(0.3))
    agent = agents.Bandit(model, n_features=2, n_actions=2)
    for row in ROWS[:10, :2].tolist():
        agent.update(row, agent.act(row), row[0])
    return agent


OWN = {
    "tagi": lambda: learner(lambda: tr.TAGI(net(), tr.likelihoods.Normal())),
    "bbb": lambda: learner(lambda: tr.BayesByBackprop(net(), tr.likelihoods.Normal())),
    "backprop": lambda: learner(lambda: tr.Backprop(net(), tr.likelihoods.Normal())),
    "ensemble": lambda: learner(
        lambda: tr.Ensemble(net(), tr.likelihoods.Normal(), n_estimators=2)
    ),
    "control": control,
    "bandit_tagi": bandit,
}
MADE = {
    **made.LEARNERS, **made.FORECASTERS, **made.GENERATIVE, **made.AGENTS, **OWN
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_every_stated_attribute_is_restored(name, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = MADE[name]()
    one.save(tmp_path / "m.tr")
    two = KINDS[name].load(tmp_path / "m.tr")
    names = stated(type(one))
    assert names
    missing = [
        attribute for attribute in names if hasattr(one, attribute) != hasattr(two, attribute)
    ]
    assert missing == []
    other = [a for a in names if hasattr(one, a) and not same(getattr(one, a), getattr(two, a))]
    assert other == []


def test_values_that_differ_are_noticed():
    """So that the test above can fail."""
    pairs = [
        (torch.zeros(2), torch.ones(2)), (np.zeros(2), np.ones(2)), ({"a": 1}, {"a": 2}),
        ([1.0], [2.0]), ((1,), [1]), (nn.Linear(1, 1), nn.Linear(1, 1)), (None, 0),
        (np.random.default_rng(0), np.random.default_rng(1)),
        (tr.likelihoods.Normal(0.1), tr.likelihoods.Normal(0.2)),
    ]  # fmt: skip
    for one, two in pairs:
        assert same(one, one)
        assert not same(one, two)
