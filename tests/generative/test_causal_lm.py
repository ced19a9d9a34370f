"""Language models: probabilities, causality, generation with and without a cache."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import nn

import tractable as tr
from tractable.generative.causal_lm import CausalLM, sample_token
from tractable.likelihoods import Categorical, Normal, PerStep, Softmax
from tractable.nn import CausalTransformer

VOCAB_SIZE, CONTEXT = 3, 6


def learner(kind: str, steps: int = 3) -> tr.Learner:
    """A tiny model, a little trained."""
    torch.manual_seed(0)
    outputs = VOCAB_SIZE - 1 if kind == "TAGI" else VOCAB_SIZE
    net = CausalTransformer(
        VOCAB_SIZE, outputs, d_model=8, n_heads=2, n_layers=2, context_length=CONTEXT
    )
    part: Any = Categorical(VOCAB_SIZE) if kind == "TAGI" else Softmax(VOCAB_SIZE)
    model: tr.Learner = getattr(tr, kind)(net, PerStep(part), dtype=torch.float64)
    x = torch.randint(VOCAB_SIZE, (8, CONTEXT), generator=torch.Generator().manual_seed(1))
    for _ in range(steps):
        model.update(x, x.roll(-1, 1))
    return model


@pytest.mark.parametrize("kind", ["TAGI", "Backprop", "BayesByBackprop"])
def test_probabilities_of_all_sequences_sum_to_one(kind: str) -> None:
    lm = CausalLM(learner(kind))
    for length in (1, 2, 4):
        every = torch.tensor(list(itertools.product(range(VOCAB_SIZE), repeat=length)))
        found = lm.log_prob(every)
        assert abs(float(found.exp().sum()) - 1) < 1e-9
        assert float(found.exp().std()) > 1e-4  # not all the same


@pytest.mark.parametrize("kind", ["TAGI", "Backprop"])
def test_outputs_do_not_depend_on_later_tokens(kind: str) -> None:
    model = learner(kind)
    first = torch.tensor([[0, 1, 2, 0, 1, 2]])
    second = torch.tensor([[0, 1, 2, 2, 0, 0]])
    a, b = (model.outputs(tokens).moments() for tokens in (first, second))
    for one, other in zip(a, b, strict=True):
        assert torch.equal(one[:, :3], other[:, :3])
    assert not torch.equal(a[0][:, 3:], b[0][:, 3:])


@pytest.mark.parametrize("kind", ["TAGI", "Backprop"])
@pytest.mark.parametrize("steps", [4, 12])
def test_generation_with_the_cache_equals_generation_without(kind: str, steps: int) -> None:
    """Beyond the context as well."""
    lm = CausalLM(learner(kind))
    prompt = torch.tensor([[1, 2], [0, 0]])
    found = [
        lm.generate(prompt, steps, generator=torch.Generator().manual_seed(3), use_cache=use_cache)
        for use_cache in (True, False)
    ]
    assert torch.equal(*found)
    assert found[0].shape == (2, 2 + steps)
    assert torch.equal(found[0][:, :2], prompt)
    assert not torch.equal(
        found[0], lm.generate(prompt, steps, generator=torch.Generator().manual_seed(4))
    )


def test_outputs_with_the_cache_equal_those_without() -> None:
    """Means and variances up to rounding, and the cache is empty afterwards."""
    model = learner("TAGI")
    tokens = torch.tensor([[0, 1, 2, 0, 1]])
    whole = model.outputs(tokens).moments()
    with model.net.kv_cache():
        parts = [model.outputs(tokens[:, i:j]).moments() for i, j in ((0, 2), (2, 3), (3, 5))]
    for k in range(2):
        found = torch.cat([part[k] for part in parts], 1)
        torch.testing.assert_close(found, whole[k], rtol=1e-10, atol=1e-12)
    assert all(
        torch.equal(a, b) for a, b in zip(whole, model.outputs(tokens).moments(), strict=True)
    )


def test_draws_follow_the_probabilities() -> None:
    lm = CausalLM(learner("TAGI"))
    every = torch.arange(VOCAB_SIZE).unsqueeze(1)
    p = lm.log_prob(every).exp()
    n = 4000
    drawn = lm.generate(
        torch.zeros(n, 0, dtype=torch.int64), 1, generator=torch.Generator().manual_seed(0)
    )[:, 0]
    counts = torch.bincount(drawn, minlength=VOCAB_SIZE) / n
    assert float((counts - p).abs().max()) < 4 * (0.25 / n) ** 0.5
    cold = lm.generate(
        torch.zeros(n, 0, dtype=torch.int64),
        1,
        temperature=0.5,
        generator=torch.Generator().manual_seed(0),
    )[:, 0]
    counts = torch.bincount(cold, minlength=VOCAB_SIZE) / n
    wanted = p.square() / p.square().sum()
    assert float((counts - wanted).abs().max()) < 4 * (0.25 / n) ** 0.5


def test_temperature_zero_and_top_1_select_the_most_probable() -> None:
    lm = CausalLM(learner("Backprop"))
    greedy = lm.generate([[2]], 4, temperature=0)
    assert torch.equal(
        greedy, lm.generate([[2]], 4, top_k=1, generator=torch.Generator().manual_seed(9))
    )
    for i in range(1, 5):
        others = [
            float(lm.log_prob(torch.cat([greedy[:, :i], torch.tensor([[k]])], 1)))
            for k in range(VOCAB_SIZE)
        ]
        assert others[int(greedy[0, i])] == pytest.approx(max(others), abs=1e-9)


def test_padding_is_ignored() -> None:
    lm = CausalLM(learner("TAGI"))
    short = lm.log_prob([[1, 2]])
    torch.testing.assert_close(lm.log_prob([[1, 2, -100, -100]]), short)
    a, b = learner("TAGI", steps=1), learner("TAGI", steps=1)
    y = torch.tensor([[1, 2, -100, -100]])
    a.update(torch.tensor([[0, 1, 2, 0]]), y)
    b.update(torch.tensor([[0, 1, 1, 1]]), y)
    for name, weight in a.posterior.gaussians().items():
        assert torch.equal(weight.loc, b.posterior.gaussians()[name].loc), name


def test_learns_a_grammar() -> None:
    """The likelihood of a pattern, from that of chance."""
    torch.manual_seed(0)
    net = CausalTransformer(3, 2, d_model=16, n_heads=2, n_layers=1, context_length=6)
    lm = CausalLM(tr.TAGI(net, PerStep(Categorical(3, link="probit"))))
    lm.fit(torch.tensor([[1, 2, 1, 2, 1, 2]] * 16), epochs=10, batch_size=4)
    assert float(lm.log_prob([[1, 2, 1, 2, 1, 2]])) > -1.5  # chance: -6.6
    assert lm.generate([[1]], 5, temperature=0).tolist() == [[1, 2, 1, 2, 1, 2]]


def test_invalid_arguments_raise() -> None:
    lm = CausalLM(learner("BayesByBackprop"))
    with pytest.raises(TypeError, match="learner that runs it once per prediction"):
        lm.generate(None, 2, use_cache=True)
    assert lm.generate(None, 2).shape == (1, 2)
    with pytest.raises(ValueError, match=r"0\.\.2, got 3"):
        lm.log_prob([[3]])
    with pytest.raises(ValueError, match="tokens must be integers, got"):
        lm.log_prob([[1.7, 0.2]])
    with pytest.raises(ValueError, match="must have at least one token"):
        lm.log_prob(torch.zeros(2, 0))
    with pytest.raises(ValueError, match="context_length=6 tokens, got 7"):
        lm.log_prob([[0] * 7])
    with pytest.raises(ValueError, match=r"top_k must lie in 1\.\.3, got 4"):
        lm.generate(None, 1, top_k=4)
    with pytest.raises(ValueError, match="temperature"):
        lm.generate(None, 1, temperature=-1)
    with pytest.raises(TypeError, match="PerStep of a likelihood of classes"):
        CausalLM(tr.TAGI(nn.Linear(1, 1), Normal(0.1)))
    with pytest.raises(ValueError, match="n_heads must divide d_model"):
        CausalTransformer(3, d_model=6, n_heads=4)


def test_top_k_selects_k_tokens_even_with_ties() -> None:
    probs = torch.tensor([[0.1, 0.3, 0.3, 0.3], [0.25, 0.25, 0.25, 0.25], [0.4, 0.1, 0.4, 0.1]])
    generator = torch.Generator().manual_seed(0)
    drawn = torch.stack([sample_token(probs, 1.0, 2, generator) for _ in range(2_000)])
    wanted: list[tuple[list[int], float]] = [([1, 2], 0.5), ([0, 1], 0.5), ([0, 2], 0.5)]
    for column, (tokens, share) in zip(drawn.T, wanted, strict=True):
        assert column.unique().tolist() == tokens
        assert float((column == tokens[0]).double().mean()) == pytest.approx(share, abs=0.05)
