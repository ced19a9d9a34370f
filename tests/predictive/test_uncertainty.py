"""Epistemic and aleatoric uncertainty: closed forms, integration, Monte Carlo."""

import inspect
import math
import pickle

import pytest
import torch
from torch import nn

import tractable as tr
from tractable.likelihoods import Bernoulli, Categorical, Softmax, probit
from tractable.predictive import (
    CategoricalPredictive,
    NormalMixturePredictive,
    NormalPredictive,
    Predictive,
    mixture,
)

D = torch.float64
LN2 = math.log(2)
LABELS = {
    "bernoulli": (Bernoulli(), 1),
    "tree": (Categorical(5), 4),
    "tree-probit": (Categorical(5, link="probit", sigma=0.7), 4),
    "tree-published": (Categorical(10, tree="published"), 11),
    "softmax": (Softmax(4), 4),
}
INTEGRABLE = {name: case for name, case in LABELS.items() if name != "tree-published"}
each = pytest.mark.parametrize(("likelihood", "width"), LABELS.values(), ids=LABELS.keys())


def outputs(width, rows=6, spread=1.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    mean = torch.randn(rows, width, generator=generator, dtype=D)
    return mean, spread * torch.rand(rows, width, generator=generator, dtype=D)


def entropy(probs):
    return torch.special.entr(probs).sum(-1)


def drawn(likelihood, mean, variance, draws=40_000):
    """Probabilities of the label for drawn outputs, draws in front."""
    generator = torch.Generator().manual_seed(1)
    noise = torch.randn(draws, *mean.shape, generator=generator, dtype=D)
    z = (mean + variance.sqrt() * noise).flatten(0, 1)
    return likelihood.predictive(z, torch.zeros_like(z)).probs.unflatten(0, (draws, -1))


# --- the expected entropy of one decision ------------------------------------------------------


@pytest.mark.parametrize("noise", [1.0, 1 / 9])
def test_expected_entropy_of_a_decision_against_dense_integration(noise):
    means = torch.linspace(-6, 6, 25, dtype=D)
    variances = torch.logspace(-6, 2, 17, dtype=D)
    mean, variance = (t.flatten() for t in torch.meshgrid(means, variances, indexing="ij"))
    got = probit.expected_entropy(mean, variance, noise)
    steps = torch.linspace(-10, 10, 20_001, dtype=D)
    density = (-0.5 * steps**2).exp() / math.sqrt(2 * math.pi)
    for at, var, value in zip(mean, variance, got, strict=True):
        p = torch.special.ndtr((at + var.sqrt() * steps) / math.sqrt(noise))
        truth = torch.trapezoid(entropy(torch.stack([p, 1 - p], -1)) * density, steps)
        assert value.item() == pytest.approx(truth.item(), abs=1e-10)


def test_a_decision_in_the_tails_and_without_variance():
    t = torch.tensor([0.0, -3.0, 30.0, 1e10], dtype=D)
    none = probit.expected_entropy(t, torch.zeros_like(t))
    p = torch.special.ndtr(t[:2])
    torch.testing.assert_close(none[:2], entropy(torch.stack([p, 1 - p], -1)))
    assert 0 < none[2] < 1e-190
    assert none[3] == 0
    tiny = probit.expected_entropy(t, torch.full_like(t, 1e-14))
    torch.testing.assert_close(tiny[:3], none[:3], rtol=1e-9, atol=0)
    assert probit.expected_entropy(t.float(), torch.ones(4)).dtype == torch.float32


# --- labels from Gaussian outputs --------------------------------------------------------------


@pytest.mark.parametrize("spread", [0.1, 4.0])
@pytest.mark.parametrize(("likelihood", "width"), INTEGRABLE.values(), ids=INTEGRABLE.keys())
def test_expected_entropy_against_drawn_outputs(likelihood, width, spread):
    mean, variance = outputs(width, spread=spread)
    got = likelihood.predictive(mean, variance).aleatoric
    h = entropy(drawn(likelihood, mean, variance))
    error = 5 * h.std(0) / math.sqrt(len(h))
    if isinstance(likelihood, Softmax):
        error = error + 0.01  # so are 256 draws
        error = torch.where(got == likelihood.predictive(mean, variance).entropy, 0.1, error)
    assert ((got - h.mean(0)).abs() < error).all()


@each
def test_the_parts_sum_to_the_entropy_and_are_not_negative(likelihood, width):
    for spread in (0.0, 1e-6, 1.0, 100.0):
        p = likelihood.predictive(*outputs(width, rows=50, spread=spread, seed=2))
        torch.testing.assert_close(p.epistemic + p.aleatoric, p.entropy, rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(p.entropy, entropy(p.probs))
        assert (p.epistemic >= 0).all()
        assert (p.aleatoric >= 0).all()
        assert p.epistemic.shape == p.aleatoric.shape == (50,)


@each
def test_known_outputs_have_no_epistemic_uncertainty(likelihood, width):
    mean, variance = outputs(width, spread=0)
    p = likelihood.predictive(mean, variance)
    torch.testing.assert_close(p.aleatoric, entropy(p.probs), rtol=1e-9, atol=1e-12)
    assert p.epistemic.abs().max() < 1e-9
    surely = likelihood.predictive((1e4 * mean).float(), variance.float())
    assert torch.isfinite(surely.aleatoric).all()
    assert torch.isfinite(surely.epistemic).all()


@pytest.mark.parametrize("likelihood", [Bernoulli(), Categorical(2), Categorical(2, link="probit")])
def test_an_output_that_is_quite_unknown_hides_one_bit(likelihood):
    """As the variance grows the label is decided by the weights alone: ln 2 less E[h]."""
    variance = torch.tensor([[1e2], [1e4], [1e8]], dtype=D)
    p = likelihood.predictive(torch.zeros_like(variance), variance)
    torch.testing.assert_close(p.epistemic, LN2 - p.aleatoric)
    assert (p.epistemic.diff() > 0).all()
    assert p.epistemic[-1] == pytest.approx(LN2, abs=1e-3)
    # far out the density of the output is flat where the entropy is not nought
    steps = torch.linspace(-40, 40, 80_001, dtype=D)
    h = torch.trapezoid(probit.log_entropy(steps).exp(), steps)
    noise = 1 / 9 if getattr(likelihood, "link", None) == "normal" else 1
    flat = h * (noise / (2 * math.pi * variance[-1])).sqrt()
    assert p.aleatoric[-1].item() == pytest.approx(flat.item(), rel=1e-6)


def test_the_chain_rule_by_hand():
    """Three classes: the second decision matters where the first one leads to it."""
    mean = torch.tensor([[0.3, -0.5]], dtype=D)
    variance = torch.tensor([[0.8, 2.0]], dtype=D)
    likelihood = Categorical(3, link="probit")
    p = likelihood.predictive(mean, variance)
    first, second = (probit.expected_entropy(mean[:, k], variance[:, k]) for k in (0, 1))
    reach = p.probs[:, :2].sum(-1)
    torch.testing.assert_close(p.aleatoric, first + reach * second, rtol=1e-12, atol=0)


@pytest.mark.parametrize(("kept", "most"), [(0.0, 0.06), (2.0, 0.005)])
def test_the_published_tree_given_that_a_path_ends_at_a_class(kept, most):
    """``kept``: how plainly the two nodes with a way that leads nowhere point to the other."""
    likelihood, width = LABELS["tree-published"]
    paths = likelihood.paths.double()
    one_way = (paths.clamp(min=0).sum(0) == 0) | ((-paths).clamp(min=0).sum(0) == 0)
    assert one_way.sum() == 2
    mean, variance = outputs(width, rows=20)
    mean[:, one_way] = mean[:, one_way] * (kept == 0) + kept
    variance[:, one_way] *= 0.1 if kept else 1
    z = torch.randn(10_000, 20, width, generator=torch.Generator().manual_seed(1), dtype=D)
    t = 3 * (mean + variance.sqrt() * z)
    yes, no = torch.special.log_ndtr(t), torch.special.log_ndtr(-t)
    log_q = yes @ paths.clamp(min=0).T + no @ (-paths).clamp(min=0).T
    weight = log_q.logsumexp(-1).exp()
    truth = (weight * entropy(log_q.softmax(-1))).mean(0) / weight.mean(0)
    got = likelihood.predictive(mean, variance).aleatoric
    assert (got - truth).abs().mean() < most


def test_softmax_draws_are_always_the_same_and_of_no_consequence():
    state = torch.random.get_rng_state()
    mean, variance = outputs(4)
    p = Softmax(4).predictive(mean, variance)
    assert torch.equal(p.aleatoric, Softmax(4).predictive(mean, variance).aleatoric)
    assert torch.equal(state, torch.random.get_rng_state())


def test_statistics_are_computed_on_demand():
    asked = []

    def expected():
        asked.append(1)
        return torch.tensor([0.1])

    p = CategoricalPredictive(torch.tensor([[0.5, 0.5]]), expected_entropy=expected)
    both = mixture([p, p.mixture_over_draws(1)]).double()
    assert both.mean.shape == both.variance.shape == (1, 2)
    both.log_prob(torch.tensor([1]))
    both.sample(2)
    assert not asked
    assert both.aleatoric.item() == pytest.approx(0.1)
    assert asked


# --- mixtures ----------------------------------------------------------------------------------


def test_probabilities_alone_have_no_epistemic_uncertainty():
    p = CategoricalPredictive(torch.tensor([[0.5, 0.5], [1.0, 0.0]]))
    assert p.aleatoric.tolist() == pytest.approx([LN2, 0])
    assert p.epistemic.tolist() == [0, 0]


def test_two_certain_members_that_contradict_each_other():
    yes = CategoricalPredictive(torch.tensor([[0.0, 1.0]], dtype=D))
    no = CategoricalPredictive(torch.tensor([[1.0, 0.0]], dtype=D))
    for both in (
        mixture([yes, no]),
        CategoricalPredictive(torch.cat([yes.probs, no.probs])).mixture_over_draws(2),
    ):
        assert both.epistemic.item() == pytest.approx(LN2, rel=1e-15)
        assert both.aleatoric.item() == 0
    assert mixture([yes, yes]).epistemic.item() == 0


def test_members_that_are_unsure_themselves():
    """The variances within and between members both count as epistemic."""
    likelihood = Bernoulli()
    mean, variance = outputs(1, rows=3)
    far, wide = outputs(1, rows=3, seed=5)
    both = mixture([likelihood.predictive(mean, variance), likelihood.predictive(far, wide)])
    h = [probit.expected_entropy(m, v).flatten() for m, v in ((mean, variance), (far, wide))]
    torch.testing.assert_close(both.aleatoric, (h[0] + h[1]) / 2)
    points = mixture(
        [likelihood.predictive(m, torch.zeros_like(m)) for m in (mean, far)]
    )  # the same members, sure of themselves
    assert (both.epistemic > 0).all()
    torch.testing.assert_close(
        points.aleatoric,
        (probit.log_entropy(mean).exp() + probit.log_entropy(far).exp()).flatten() / 2,
    )


def test_pooled_draws_approach_the_integral():
    likelihood = Categorical(5, link="probit")
    mean, variance = outputs(4)
    draws = 20_000
    noise = torch.randn(draws, *mean.shape, generator=torch.Generator().manual_seed(3), dtype=D)
    z = (mean + variance.sqrt() * noise).flatten(0, 1)
    pooled = likelihood.predictive(z, torch.zeros_like(z)).mixture_over_draws(draws)
    exact = likelihood.predictive(mean, variance)
    torch.testing.assert_close(pooled.aleatoric, exact.aleatoric, rtol=0, atol=0.02)
    torch.testing.assert_close(pooled.epistemic, exact.epistemic, rtol=0, atol=0.02)


# --- every kind, every learner -----------------------------------------------------------------


def moons(rows=120):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, 2, generator=generator)
    return x, (x[:, 0] + 0.3 * torch.randn(rows, generator=generator) > 0).long()


LEARNERS = {
    "tagi": lambda net, like: tr.TAGI(net, like, gain=1.0),
    "bbb": lambda net, like: tr.BayesByBackprop(net, like, n_weight_samples=20),
    "backprop": lambda net, like: tr.Backprop(net, like),
    "ensemble": lambda net, like: tr.Ensemble(net, like, n_estimators=3, learner=tr.Backprop),
    "ensemble-tagi": lambda net, like: tr.Ensemble(
        net, like, n_estimators=3, learner=tr.TAGI, gain=1.0
    ),
}


def net_of(likelihood):
    width = 1 if isinstance(likelihood, Bernoulli) else likelihood.outputs
    return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, width))


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # log_ndtr of many members
@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("likelihood", [Bernoulli(), Categorical(2), Softmax(2)], ids=repr)
def test_entropy_of_every_learner_is_epistemic_plus_aleatoric(learner, likelihood):
    x, y = moons()
    model = LEARNERS[learner](net_of(likelihood), likelihood)
    model.fit(x, y, epochs=3)
    p = model.predict(x)
    assert (p.epistemic >= 0).all()
    assert (p.aleatoric > 0).all()
    torch.testing.assert_close(p.epistemic + p.aleatoric, p.entropy)
    torch.testing.assert_close(p.entropy, entropy(p.probs))
    if learner == "backprop":  # one set of weights: in the data only the label is uncertain
        assert p.epistemic.median() < 1e-6
    elif not isinstance(likelihood, Softmax):
        assert p.epistemic.mean() > 1e-5


@pytest.mark.parametrize(
    "predictive",
    [
        NormalPredictive(torch.zeros(3), torch.ones(3), torch.ones(3)),
        NormalMixturePredictive(torch.zeros(2, 3), torch.ones(2, 3), torch.ones(2, 3)),
        Bernoulli().predictive(torch.zeros(3, 1), torch.ones(3, 1)),
        Categorical(3).predictive(torch.zeros(3, 2), torch.ones(3, 2)),
        Softmax(3).predictive(torch.eye(3).repeat(2, 1), torch.ones(6, 3)).mixture_over_draws(2),
        mixture([Softmax(3).predictive(torch.zeros(3, 3), torch.ones(3, 3))] * 2),
    ],
    ids=lambda p: type(p).__name__,
)
def test_every_kind_is_kept_whole_by_pickle_and_widened_by_double(predictive):
    copy = pickle.loads(pickle.dumps(predictive))
    wide = predictive.double()
    for member in ("mean", "variance", "epistemic", "aleatoric"):
        value = getattr(predictive, member)
        assert torch.equal(getattr(copy, member), value)
        assert getattr(wide, member).dtype == D
        torch.testing.assert_close(getattr(wide, member), value.double(), rtol=1e-5, atol=1e-6)
    assert predictive == predictive
    assert "tensor" in repr(predictive)
    assert torch.equal(predictive.squeezed().aleatoric, predictive.aleatoric)


def test_unsupported_members_raise_an_error():
    normal = NormalPredictive(torch.zeros(3), torch.ones(3), torch.ones(3))
    with pytest.raises(TypeError, match="NormalPredictive has no classes"):
        _ = normal.entropy
    with pytest.raises(TypeError, match="CategoricalPredictive cannot be rescaled"):
        CategoricalPredictive(torch.ones(3, 1)).rescaled(0.0, 2.0)
    assert {"epistemic", "aleatoric"} <= Predictive.__abstractmethods__
    assert inspect.isabstract(Predictive)
