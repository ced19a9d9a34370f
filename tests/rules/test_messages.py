"""Messages: autograd = the explicit formula = stop-gradients = the dense reference.

Autograd goes through the rule; the other three are written here or called directly.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.rules import dense
from tests.rules.cases import BILINEAR, ELEMENTWISE, LINEAR, Case, Curve, label
from tractable import Gaussian
from tractable.moments import bilinear
from tractable.rules import activation_moments
from tractable.testing.gaussians import (
    REGIMES,
    gaussian,
    generator,
    leaves,
    normal,
    wrapped,
)

pytestmark = [
    pytest.mark.parametrize("regime", REGIMES),
    pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning"),
]
Messages = list[Tensor]


def close(a: Messages, b: Messages) -> None:
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def carried(z: Gaussian, inputs: Messages, d_mu: Tensor, d_var: Tensor) -> Messages:
    return list(torch.autograd.grad([z.loc, z.variance], inputs, [d_mu, d_var]))


def sent(z: Tensor, *words: object) -> tuple[Tensor, Tensor]:
    """Some message to ``z``; the variance shrinks, as an observation makes it."""
    source = generator("message", *words)
    return normal(z, source), -normal(z, source).abs()


@pytest.mark.parametrize("case", LINEAR, ids=label)
def test_linear(case: Case, regime: str) -> None:
    """``A^T d_mu`` and ``(A^2)^T d_var``."""
    inputs = leaves(case.inputs(regime))
    z = case.function(*wrapped(inputs))
    assert isinstance(z, Gaussian)
    d_mu, d_var = sent(z.loc, case.name, regime)
    half = len(inputs) // 2
    got = carried(z, inputs, d_mu, d_var)
    a = dense.matrix(case)
    close([dense.flat(got[:half])], [a.T @ d_mu.reshape(-1)])
    close([dense.flat(got[half:])], [(a**2).T @ d_var.reshape(-1)])


@pytest.mark.parametrize("case", BILINEAR, ids=label)
def test_bilinear_messages_equal_the_dense_reference(case: Case, regime: str) -> None:
    """``cov(z, w) / var_w = mu_x``, entry by entry."""
    inputs = leaves(case.inputs(regime))
    z = case.function(*wrapped(inputs))
    assert isinstance(z, Gaussian)
    d_mu, d_var = sent(z.loc, case.name, regime)
    half = len(inputs) // 2
    mu_x, mu_w = (m.detach().reshape(-1) for m in inputs[:2])
    t, b = dense.table(case), dense.bias(case)
    to_x, to_w = torch.einsum("kij,j->ki", t, mu_w), torch.einsum("kij,i->kj", t, mu_x)
    jacobians = [to_x, to_w, b][:half]
    want = [j.T @ d_mu.reshape(-1) for j in jacobians]
    want += [(j**2).T @ d_var.reshape(-1) for j in jacobians]
    close([m.reshape(-1) for m in carried(z, inputs, d_mu, d_var)], want)


@pytest.mark.parametrize("case", BILINEAR, ids=label)
def test_bilinear_messages_equal_the_stop_gradient_form(case: Case, regime: str) -> None:
    inputs = leaves(case.inputs(regime))
    z = case.function(*wrapped(inputs))
    assert isinstance(z, Gaussian)
    d_mu, d_var = sent(z.loc, case.name, regime)

    half = len(inputs) // 2
    (mu_x, mu_w, *mu_b), (var_x, var_w, *var_b) = inputs[:half], inputs[half:]
    loc = case.function(mu_x, mu_w, *mu_b)
    variance = (
        _second(case, mu_x.detach() ** 2, var_w)
        + _second(case, var_x, mu_w.detach() ** 2)
        + _second(case, var_x, var_w).detach()
    )
    if var_b:
        variance = variance + dense.only_bias(case, var_b[0])
    close([z.loc, z.variance], [loc, variance])
    stopped = torch.autograd.grad([loc, variance], inputs, [d_mu, d_var])
    close(carried(z, inputs, d_mu, d_var), list(stopped))


def _second(case: Case, x: Tensor, w: Tensor) -> Tensor:
    """The map on second moments: where the function itself scales, its scale is squared."""
    if case.name.startswith("batch_norm"):
        return torch.einsum("kij,i,j->k", dense.table(case) ** 2, x.reshape(-1), w).view(x.shape)
    return dense.without_bias(case, x, w)


@pytest.mark.parametrize("case", [c for c in BILINEAR if c.map is not None], ids=label)
def test_bilinear_messages_equal_the_explicit_formula(case: Case, regime: str) -> None:
    inputs = leaves(case.inputs(regime))
    z = case.function(*wrapped(inputs))
    assert isinstance(z, Gaussian)
    assert case.map is not None
    d_mu, d_var = sent(z.loc, case.name, regime)
    half = len(inputs) // 2
    means, variances = ([m.detach() for m in part] for part in (inputs[:half], inputs[half:]))
    b = (means[2], variances[2]) if half == 3 else (None, None)
    moments = bilinear.forward(case.map, (means[0], variances[0]), (means[1], variances[1]), b)
    close(list(moments), [z.loc.detach(), z.variance.detach()])
    needs = (True, True, half == 3)
    to_means, to_variances = bilinear.messages(
        case.map, d_mu, d_var, means[0], means[1], needs, needs
    )
    explicit = [m for m in (*to_means, *to_variances) if m is not None]
    close(carried(z, inputs, d_mu, d_var), explicit)


@pytest.mark.parametrize("mode", ["linear", "exact"])
@pytest.mark.parametrize("curve", ELEMENTWISE, ids=label)
def test_activation(curve: Curve, mode: str, regime: str) -> None:
    """``J d_mu`` and ``J^2 d_var``, with J from autograd.

    Linearized, it is the slope of the function; exact, it is the slope of the *mean* (Stein:
    ``cov(phi(z), z) / var = E[phi'(z)] = d E[phi(z)] / d mu``).
    """
    g = gaussian((9,), regime, generator(curve.name, regime))
    if curve.positive:
        g = Gaussian(g.loc.abs() + 0.5, g.variance)
    inputs = leaves([g])
    with activation_moments(mode):  # type: ignore[arg-type]
        z = curve.function(*wrapped(inputs))
    assert isinstance(z, Gaussian)
    d_mu, d_var = sent(z.loc, curve.name, regime)
    exact = curve.always_exact or ((curve.exact or curve.bounded) and mode == "exact")
    mean = _mean(curve, *inputs) if exact else curve.function(inputs[0])
    (slope,) = torch.autograd.grad(mean.sum(), inputs[0])

    mu, var = inputs
    loc = z.loc.detach() + slope * (mu - mu.detach())
    variance = z.variance.detach() + slope**2 * (var - var.detach())
    stopped = torch.autograd.grad([loc, variance], inputs, [d_mu, d_var])
    close(carried(z, inputs, d_mu, d_var), list(stopped))
    close(list(stopped), [slope * d_mu, slope**2 * d_var])


def _mean(curve: Curve, mu: Tensor, var: Tensor) -> Tensor:
    """``E[phi(z)]`` as textbooks have it, for autograd to differentiate."""
    unit = torch.distributions.Normal(torch.zeros_like(mu), torch.ones_like(mu))
    sigma = var.clamp_min(1e-300).sqrt()
    alpha = mu / sigma
    relu = mu * unit.cdf(alpha) + sigma * unit.log_prob(alpha).exp()
    name = curve.name.split(",")[0]
    if name.startswith("relu"):
        return relu
    if name == "leaky_relu":
        k = 0.3 if curve.name.endswith("0.3") else 0.01
        return k * mu + (1 - k) * relu
    if name == "abs":
        return 2 * relu - mu
    if name == "exp":
        return torch.exp(mu + var / 2)
    if name == "sigmoid":
        return torch.sigmoid(mu / (1 + torch.pi / 8 * var).sqrt())
    if name == "tanh":
        return torch.tanh(mu / (1 + torch.pi / 2 * var).sqrt())
    if name in ("sin", "cos"):
        return getattr(mu, name)() * torch.exp(-var / 2)
    assert curve.always_exact
    return mu**2 + var
