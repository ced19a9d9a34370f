"""Surviving mutants that were looked at, with the reason why no test notices them.

A mutant is identified by its file and by its changed line, before and after, so that the entry
disappears from the table when the line changes.
"""

# ruff: noqa: E501
# fmt: off

from __future__ import annotations

REVIEWED: dict[tuple[str, str, str], str] = {
    ("predictive/mixtures.py", "alone = few[0, 0].numel() == 1", "alone = few[1, 0].numel() == 1"): "equivalent: every draw has as many outputs",
    ("predictive/log_normal.py", "starts = (of.means - of.epistemic_variance - of.noise_variance)[", "starts = (of.means - of.epistemic_variance + of.noise_variance)["): "equivalent within the precision of the search, which starts elsewhere",
    ("predictive/cdfs.py", "if m % _CHECK == 0 or m == _STEPS - 1:", "if m % _CHECK != 0 or m == _STEPS - 1:"): "equivalent: convergence is looked at in other steps",
    ("predictive/cdfs.py", "return (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680))) / x", "return (1 / 12 - square * (1 / 360 - square * (1 / 1261 - square / 1680))) / x"): "equivalent within rounding: the argument is 50 at least",
    ("likelihoods/from_distribution.py", "return slope.detach().nan_to_num(0.0, 0.0, 0.0), bend", "return slope.detach().nan_to_num(1.0, 0.0, 0.0), bend"): "equivalent: a slope that is not a number stops at the next comparison of heights",
    ("likelihoods/heteroscedastic.py", "top = (e * e - var_1).clamp_min(math.exp(-_LOG_NOISE_RANGE)).log()", "top = (e * e - var_1).clamp_min(math.exp(-_LOG_NOISE_RANGE)).log1p()"): "equivalent within the accuracy of the sum: a bound of the first guess of the peak",
    ("likelihoods/ordinal.py", "for at, share in zip(z, weight, strict=True): # one at a time, for memory", "for at, share in zip(z, weight, strict=False): # one at a time, for memory"): "equivalent: both have one entry for each node",
    ("likelihoods/base.py", "w = torch.cat([weight] * (mean.shape[-1] // weight.shape[-1]), -1).to(d_mu.dtype)", "w = torch.cat([weight] * (mean.shape[-1] // weight.shape[-1]), (1)).to(d_mu.dtype)"): "equivalent: the weights have two dimensions",
    ("likelihoods/categorical.py", "return (node * sign.abs()).sum(-1)", "return (node * sign.abs()).sum((1))"): "equivalent for one label in a row: two dimensions",
    ("likelihoods/ordinal.py", "return (edges - mean.unsqueeze(-1)) / s.unsqueeze(-1), s", "return (edges - mean.unsqueeze(-1)) / s.unsqueeze((1)), s"): "equivalent: one output in a row, so that the new dimension has the same place",
    ("likelihoods/von_mises.py", "return (variance >= _WIDE) | (self.parameter <= _FLAT)", "return (variance > _WIDE) | (self.parameter <= _FLAT)"): "equivalent: both ways agree where one follows the other",
    ("likelihoods/student_t.py", "return u, (half * (u - u.exp())).softmax(0)", "return u, (half * (u - u.expm1())).softmax(0)"): "equivalent: a constant does not change a softmax",
    ("likelihoods/quadrature.py", "far = (height[1:] <= height[0] - FALL).unflatten(0, (2, -1))", "far = (height[1:] < height[0] - FALL).unflatten(0, (2, -1))"): "equivalent: the bound is a choice, met by no height exactly",
    ("likelihoods/von_mises.py", "ratio = k / (start + 0.5 + math.hypot(start + 0.5, k))", "ratio = k * (start + 0.5 + math.hypot(start + 0.5, k))"): "equivalent within rounding: the downward recursion forgets where it starts",
    ("rules/norm.py", "if running_mean is not None and running_var is not None:", "if running_mean is not None or running_var is not None:"): "equivalent: torch gives both or none",
    ("rules/recurrent_steps.py", "r_x, z_x, n_x = F.linear(x, w[0], _bias(w, 2)).chunk(3, -1)", "r_x, z_x, n_x = F.linear(x, w[0], _bias(w, 2)).chunk(3, (1))"): "equivalent: the inputs have two dimensions",
    ("rules/jacobian.py", "if loc.numel() * input.numel() > _MAX_ENTRIES:", "if loc.numel() / input.numel() > _MAX_ENTRIES:"): "equivalent below the size at which a message refuses the Jacobian",
    ("rules/bilinear.py", "w = other.unsqueeze(-1) if other.dim() == 1 else other", "w = other.unsqueeze((1)) if other.dim() == 1 else other"): "equivalent: the operand has one dimension",
}
