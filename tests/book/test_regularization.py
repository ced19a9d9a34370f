"""Chapter 9, regularization: REG cases, through priors, likelihoods and diagnostics."""

import math
from functools import partial

import pytest
import torch
from torch import nn

import tractable as tr
from tests.book.test_linear import X, Y

W = torch.tensor([0.5, -2.0, 1.25], dtype=torch.float64)


def test_reg_01_a_normal_prior_is_an_l2_penalty():
    prior = tr.priors.Normal(0.5)
    added = -(prior.log_prob(W) - prior.log_prob(torch.zeros_like(W))).sum()
    assert float(added) == pytest.approx(2 * float(W.square().sum()))


@pytest.mark.parametrize("sigma", [0.5, 1.7])
def test_reg_02_penalty_adds_2_lambda_phi_to_the_gradient(sigma):
    found = -tr.priors.Normal(sigma).score(W)
    torch.testing.assert_close(found, 2 * (1 / (2 * sigma**2)) * W)


def test_reg_03_decoupled_decay_is_a_step_on_a_penalised_loss():
    alpha, decay = 0.05, 0.02

    def loss(w):
        return ((w[0] - 3) * w[1] - w[2] ** 2) ** 2

    def penalised(w):
        return loss(w) + decay / (2 * alpha) * w.square().sum()

    leaf = W.clone().requires_grad_()
    (slope,) = torch.autograd.grad(loss(leaf), leaf)
    by_hand = (1 - decay) * W - alpha * slope
    plain = tr.diagnostics.descent(penalised, W, lr=alpha, n_steps=1).points[1]
    torchs = tr.diagnostics.descent(
        loss, W, lr=alpha, n_steps=1, weight_decay=decay / alpha
    ).points[1]
    assert plain == pytest.approx(by_hand.tolist())
    assert torchs == pytest.approx(by_hand.tolist())


def test_reg_05_noise_on_the_inputs():
    """The expected loss of eq. 2.5 with inputs of variance 0.04: by Gaussian inputs, exactly."""
    noise = tr.Gaussian(X[:, None], torch.full((4, 1), 0.04, dtype=torch.float64))

    def expected(phi):
        z = noise * phi[1] + phi[0]
        return ((z.loc[:, 0] - Y).square() + z.variance[:, 0]).sum()

    at = torch.tensor([1.1, 1.1], dtype=torch.float64)
    assert float(expected(at)) == pytest.approx(2.8936)

    def by_hand(phi):
        return (phi[0] + phi[1] * X - Y).square().sum() + 4 * 0.04 * phi[1] ** 2

    found = tr.diagnostics.descent(by_hand, [0.0, 0.0], lr=0.03, n_steps=2000).points[-1]
    assert found == pytest.approx((1.151162791, 1.065891473), abs=1e-5)
    assert float(by_hand(at)) == pytest.approx(2.8936)


def test_reg_06_label_smoothing_is_a_cross_entropy():
    z = torch.tensor([[2.0, 0.5, -1.0]], dtype=torch.float64)
    y = torch.tensor([0])
    ours = -tr.likelihoods.Softmax(3, smoothing=0.1).log_prob(y, z)
    assert float(ours) == pytest.approx(0.466311297, abs=1e-8)
    torchs = nn.functional.cross_entropy(z, y, label_smoothing=0.1)
    assert float(torchs) == pytest.approx(0.391311297, abs=1e-8)
    right = nn.functional.cross_entropy(z, y, label_smoothing=0.15)
    assert float(right) == pytest.approx(float(ours))


def flow(loss, phi, time, steps=2000):
    """Integrate the gradient flow by the fourth-order Runge-Kutta method."""

    def slope(at):
        leaf = at.detach().requires_grad_()
        return -torch.autograd.grad(loss(leaf), leaf)[0]

    h = time / steps
    for _ in range(steps):
        a = slope(phi)
        b = slope(phi + h / 2 * a)
        c = slope(phi + h / 2 * b)
        d = slope(phi + h * c)
        phi = phi + h / 6 * (a + 2 * b + 2 * c + d)
    return phi


def test_reg_08_a_step_follows_the_flow_of_the_modified_loss():
    def loss(p):
        return 0.5 * p.square().sum()

    start, alpha = torch.tensor([1.0], dtype=torch.float64), 0.1
    step = tr.diagnostics.descent(loss, start, lr=alpha, n_steps=1).points[1][0]
    assert step == pytest.approx(0.9)
    modified = tr.diagnostics.modified_loss(loss, alpha)
    plain = float(flow(loss, start, alpha, 50)) - step
    better = float(flow(modified, start, alpha, 50)) - step
    assert plain == pytest.approx(4.837418e-3, abs=1e-9)
    assert abs(better) == pytest.approx(3.245226e-4, abs=1e-9)


def test_reg_10_the_penalty_of_sgd():
    gradients = [(1.0, 2.0), (3.0, -1.0), (-2.0, 0.5)]
    slopes = [torch.tensor(g, dtype=torch.float64) for g in gradients]
    batches = [partial(torch.dot, slope) for slope in slopes]
    at = torch.tensor([0.3, -0.7], dtype=torch.float64)
    found = tr.diagnostics.implicit_regularization(batches, at, lr=4.0)
    assert found.step_penalty + found.batch_penalty == pytest.approx(6.416666667)
    mean = torch.tensor(gradients, dtype=torch.float64).mean(0)
    assert found.step_penalty == pytest.approx(float(mean.square().sum()))
    assert found.sgd_loss == pytest.approx(float(tr.diagnostics.modified_loss(batches, 4.0)(at)))
    assert found.descent_loss == pytest.approx(found.loss + found.step_penalty)


def test_reg_11_norms():
    phi = torch.tensor([0.5, -2.0], dtype=torch.float64)
    zero = torch.zeros_like(phi)
    l1, l2 = tr.priors.Laplace(1.0), tr.priors.Normal(math.sqrt(0.5))
    assert float((l1.log_prob(zero) - l1.log_prob(phi)).sum()) == pytest.approx(2.5)
    assert float((l2.log_prob(zero) - l2.log_prob(phi)).sum()) == pytest.approx(4.25)
    assert int((phi != 0).sum()) == 2
    assert float(phi.abs().sqrt().sum()) == pytest.approx(2.121320344)


def test_steps_and_batches_of_a_model():
    x, y = X[:, None].repeat(4, 1), Y.repeat(4)
    model = tr.Backprop(nn.Linear(1, 1), tr.likelihoods.Normal(1.0), dtype=torch.float64)
    found = tr.diagnostics.implicit_regularization(model, x, y, lr=0.1, batch_size=4)
    assert found.n_batches == 4
    assert found.loss == pytest.approx(tr.diagnostics.curvature(model, x, y).loss)
    whole = tr.diagnostics.implicit_regularization(model, x, y, lr=0.1, batch_size=16)
    assert whole.batch_penalty == 0
    assert whole.step_penalty == pytest.approx(found.step_penalty)
    assert 0.1 / 4 * tr.diagnostics.curvature(model, x, y).gradient_norm ** 2 == pytest.approx(
        whole.step_penalty
    )
    with pytest.raises(ValueError, match="from 1 to 16 rows"):
        tr.diagnostics.implicit_regularization(model, x, y, lr=0.1, batch_size=17)
    with pytest.raises(ValueError, match="lr must be a positive"):
        tr.diagnostics.implicit_regularization(model, x, y, lr=0.0)
    with pytest.raises(ValueError, match="lr must be a positive"):
        tr.diagnostics.modified_loss([], -1.0)
