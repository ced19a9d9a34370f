"""Joint predictions averaged over draws of the weights or over members."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tractable as tr
from tractable.likelihoods import Categorical, Joint, Laplace, Likelihood, Normal, Ordinal, Softmax
from tractable.predictive.joint import JointPredictive

LABELS = [Softmax(3), Categorical(3), Categorical(3, link="probit"), Ordinal(3)]
KINDS: list[tuple[Any, dict[str, Any]]] = [
    (tr.BayesByBackprop, {"lr": 0.01, "n_weight_samples": 4, "rho": (-1.0, 0.0)}),
    (tr.Ensemble, {"n_estimators": 3, "learner": tr.TAGI}),
    (tr.Ensemble, {"n_estimators": 2, "learner": tr.BayesByBackprop, "n_weight_samples": 3}),
]


def fitted(kind: Any, options: dict[str, Any], labels: Likelihood) -> tuple[Any, Tensor, Tensor]:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(30, 2, generator=g)
    y = torch.cat([x[:, :1], torch.randint(0, 3, (30, 1), generator=g), x[:, 1:]], 1)
    joint = Joint(Normal(), labels, Laplace())
    model = kind(nn.Linear(2, joint.outputs_needed), joint, seed=1, **options)
    model.fit(x, y, epochs=2, batch_size=10, progress=False, distance_aware=False)
    return model, x, y


@pytest.mark.parametrize("labels", LABELS, ids=repr)
@pytest.mark.parametrize(("kind", "options"), KINDS, ids=["n_weight_samples", "members", "both"])
def test_each_target_is_mixed_by_itself(
    kind: Any, options: dict[str, Any], labels: Likelihood
) -> None:
    """Numbers have a variance in two parts and labels an entropy in two parts, a column each."""
    model, x, _ = fitted(kind, options, labels)
    p = model.predict(x)
    assert isinstance(p, JointPredictive)
    first, second, third = p.parts
    torch.testing.assert_close(first.epistemic + first.aleatoric, first.variance)
    torch.testing.assert_close(second.epistemic + second.aleatoric, second.entropy)
    torch.testing.assert_close(second.probs.sum(1), torch.ones(30))
    torch.testing.assert_close(third.epistemic + third.aleatoric, third.variance)
    assert p.epistemic.shape == p.aleatoric.shape == (30, 3)
    assert p.mean.shape == p.variance.shape == (30, 5)
    assert (p.epistemic >= -1e-5).all()
    assert (p.epistemic > 1e-6).any()


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=["n_weight_samples", "members", "both"])
def test_targets_of_a_row_depend_on_each_other_through_the_draw(
    kind: Any, options: dict[str, Any]
) -> None:
    """The density of a row is the mean over draws of products, and samples follow it."""
    model, x, y = fitted(kind, options, Softmax(3))
    p = model.predict(x)
    members = getattr(model, "members", [model])
    found = []
    for member in members:
        outputs = member.outputs(x)
        if hasattr(outputs, "values"):
            parts = [member.likelihood.predictive(z, torch.zeros_like(z)) for z in outputs.values]
        else:
            parts = [outputs.predictive()]
        found += [part.log_prob(y) for part in parts]
    want = torch.stack(found).double().logsumexp(0) - math.log(len(found))
    torch.testing.assert_close(p.log_prob(y).double(), want, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(p.double().log_prob(y).double(), want, rtol=1e-4, atol=1e-4)
    drawn = p.sample(20_000, torch.Generator().manual_seed(0))
    assert drawn.shape == (20_000, 30, 3)
    mean = torch.cat([p.mean[:, :1], p.mean[:, 4:]], 1)
    error = p.variance[:, [0, 4]].sqrt() / 20_000**0.5
    assert ((drawn.mean(0)[:, [0, 2]] - mean).abs() < 5 * error).all()
    shares = torch.stack([(drawn[..., 1] == k).float().mean(0) for k in range(3)], 1)
    torch.testing.assert_close(shares, p.mean[:, 1:4], rtol=0, atol=0.02)
