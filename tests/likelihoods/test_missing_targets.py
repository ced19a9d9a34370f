"""Missing targets of a normal likelihood contribute no evidence and no messages."""

import pytest
import torch
from torch import nn

import tractable as tr
from tractable.errors import InvalidTarget
from tractable.likelihoods import Joint, MultivariateNormal, Normal, PerStep

NAN = float("nan")


def moments(rows=5, outputs=3):
    g = torch.Generator().manual_seed(0)
    mean = torch.randn(rows, outputs, generator=g)
    return (
        torch.randn(rows, outputs, generator=g),
        mean,
        0.1 + torch.rand(rows, outputs, generator=g),
    )


def test_complete_targets_equal_the_normal_likelihood():
    y, mean, variance = moments()
    ours, plain = Normal(None, 3, missing=True), Normal(None, 3)
    torch.testing.assert_close(
        ours.log_evidence(y, mean, variance), plain.log_evidence(y, mean, variance)
    )
    torch.testing.assert_close(ours.messages(y, mean, variance), plain.messages(y, mean, variance))
    torch.testing.assert_close(
        ours.update_noise(y, mean, variance), plain.update_noise(y, mean, variance)
    )


def test_missing_targets_equal_independent_normals():
    y, mean, variance = moments()
    y[0, 1] = y[3, 1] = y[4, 2] = NAN
    ours = Normal(None, 3, missing=True)
    joint = Joint(*(Normal() for _ in range(3)))
    torch.testing.assert_close(
        ours.log_evidence(y, mean, variance), joint.log_evidence(y, mean, variance)
    )
    heard, theirs = ours.observe(y, mean, variance), joint.observe(y, mean, variance)
    torch.testing.assert_close(heard.d_mu, theirs.d_mu)
    torch.testing.assert_close(heard.d_var, theirs.d_var)
    assert float(heard.d_mu[0, 1]) == float(heard.d_var[0, 1]) == 0
    for name in ("noise_mean", "noise_variance"):
        parts = torch.cat([theirs.noise[f"parts.{k}.{name}"] for k in range(3)])
        torch.testing.assert_close(heard.noise[name], parts)


def test_an_output_without_any_target_keeps_its_noise():
    y, mean, variance = moments()
    y[:, 1] = NAN
    noise = Normal(None, 3, missing=True).update_noise(y, mean, variance)
    assert float(noise["noise_mean"][1]) == float(noise["noise_variance"][1]) == 1
    assert float(noise["noise_mean"][0]) != 1


@pytest.mark.parametrize("kind", [tr.TAGI, tr.Backprop])
def test_learners_find_the_line_and_the_noise_behind_gaps(kind):
    g = torch.Generator().manual_seed(1)
    x = torch.randn(400, 1, generator=g)
    y = torch.cat([2 * x, -x], 1) + torch.tensor([0.1, 0.5]) * torch.randn(400, 2, generator=g)
    y[torch.rand(400, 2, generator=g) < 0.4] = NAN
    options = {"lr": 0.05} if kind is tr.Backprop else {}
    model = kind(nn.Linear(1, 2), Normal(None, 2, missing=True), **options)
    model.fit(x, y, epochs=20, batch_size=20, distance_aware=False, progress=False)
    found = model.predict(torch.ones(1, 1))
    assert torch.allclose(found.mean, torch.tensor([[2.0, -1.0]]), atol=0.12)
    noise = model.likelihood.noise_mean.sqrt().tolist()
    assert noise == pytest.approx([0.1, 0.5], rel=0.2)


def test_infinite_targets_are_refused():
    with pytest.raises(InvalidTarget, match="infinite"):
        Normal(None, 2, missing=True).check_targets(
            torch.tensor([[1.0, float("inf")]]), torch.Size([1, 2])
        )
    with pytest.raises(InvalidTarget, match="error bars"):
        Normal(None, 1, missing=True).check_targets(
            tr.Gaussian(torch.zeros(1, 1), torch.ones(1, 1)), torch.Size([1, 1])
        )


def test_it_is_saved_and_loaded(tmp_path):
    model = tr.TAGI(nn.Linear(1, 2), Normal(None, 2, missing=True))
    model.update(torch.ones(2, 1), torch.tensor([[1.0, NAN], [NAN, 2.0]]))
    model.save(tmp_path / "m.tr")
    again = tr.TAGI.load(tmp_path / "m.tr")
    assert again.likelihood.missing
    assert torch.equal(again.likelihood.noise_mean, model.likelihood.noise_mean)


def half_missing(seed):
    """Rows of two targets with one, both or none of them missing."""
    g = torch.Generator().manual_seed(seed)
    y, mean = torch.randn(8, 2, generator=g), torch.randn(8, 2, generator=g)
    variance = 0.1 + torch.rand(8, 2, generator=g)
    y[0, 0] = y[1, 1] = y[2, 0] = y[2, 1] = NAN
    return y, mean, variance


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_a_half_missing_row_sends_messages_of_observed_targets(scale):
    """As a part of others, an incomplete likelihood gives the messages that it gives alone."""
    for seed in range(5):
        y, mean, variance = half_missing(seed)
        y, mean, variance = scale * y, scale * mean, scale**2 * variance
        alone = Normal(None, 2, missing=True)
        want = alone.observe(y, mean, variance)
        joint = Joint(Normal(None, 2, missing=True), Normal(1.0))
        rest = torch.zeros(8, 1)
        beside = [torch.cat([part, rest + scale], 1) for part in (y, mean, variance)]
        steps = PerStep(Normal(None, 2, missing=True))
        inner = PerStep(Joint(Normal(), Normal()))
        for likelihood, values, prefix in (
            (joint, beside, "parts.0."),
            (steps, [part.reshape(4, 2, 2) for part in (y, mean, variance)], "parts.0."),
            (inner, [part.reshape(4, 2, 2) for part in (y, mean, variance)], None),
        ):
            targets = likelihood.check_targets(values[0], values[1].shape)
            heard = likelihood.observe(targets, *values[1:])
            for ours, theirs in ((heard.d_mu, want.d_mu), (heard.d_var, want.d_var)):
                shaped = ours[:, :2] if likelihood is joint else ours.reshape(8, 2)
                torch.testing.assert_close(shaped, theirs)
            if prefix is not None:
                for name, value in want.noise.items():
                    torch.testing.assert_close(heard.noise[prefix + name], value)
            evidence = likelihood.log_evidence(targets, *values[1:])
            assert torch.isfinite(evidence).all()
        evidence = steps.log_evidence(
            y.reshape(4, 2, 2), *(t.reshape(4, 2, 2) for t in (mean, variance))
        )
        torch.testing.assert_close(
            evidence, alone.log_evidence(y, mean, variance).reshape(4, 2).sum(1)
        )


@pytest.mark.parametrize("kind", [tr.TAGI, tr.Backprop, tr.BayesByBackprop])
def test_rows_that_are_all_half_missing_are_learned(kind):
    """No row has both targets of the part."""
    for seed in range(2):
        g = torch.Generator().manual_seed(seed)
        x = torch.randn(600, 1, generator=g)
        y = torch.cat([2 * x, -x, x], 1) + 0.1 * torch.randn(600, 3, generator=g)
        y[::2, 0] = y[1::2, 1] = NAN
        options = {} if kind is tr.TAGI else {"lr": 0.05}
        joint = Joint(Normal(None, 2, missing=True), Normal())
        model = kind(nn.Linear(1, 3), joint, seed=seed, **options)
        model.fit(x, y, epochs=15, batch_size=20, distance_aware=False, progress=False)
        found = model.predict(torch.ones(1, 1)).mean
        assert torch.allclose(found, torch.tensor([[2.0, -1.0, 1.0]]), atol=0.1)


def test_a_part_that_takes_no_gaps_needs_all_its_targets():
    """A correlated noise of which one target is missing is not observed."""
    y = torch.tensor([[1.0, NAN, 3.0], [1.0, 2.0, NAN]])
    joint = Joint(MultivariateNormal(2), Normal(1.0))
    d_mu, _ = joint.messages(joint.check_targets(y, y.shape), torch.zeros(2, 3), torch.ones(2, 3))
    assert (d_mu != 0).tolist() == [[False, False, True], [True, True, False]]
