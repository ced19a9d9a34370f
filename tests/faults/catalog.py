"""The planted faults: plain data, one change of one file each.

``old`` must occur exactly once in the file; ``test_faults.py`` names the ones that no longer do.
After a rename, edit the texts here; a fault describes a formula, not its names.
"""

# ruff: noqa: E501
# fmt: off

from __future__ import annotations

from dataclasses import dataclass
from functools import partial


@dataclass(frozen=True)
class Fault:
    """One planted fault.

    Attributes:
        file: path relative to the package.
        tests: test files that are run first, relative to ``tests``.  In memory only the tests are
            run that begin with what follows ``::``.
        what: description.
        old: text to replace.
        new: replacement.
    """

    file: str
    tests: str
    what: str
    old: str
    new: str

    @property
    def subpackage(self) -> str:
        """Return the subpackage that holds the file."""
        return self.file.split("/")[0]

    @property
    def name(self) -> str:
        """Return an identifier that does not depend on the texts."""
        return f"{self.file}: {self.what}"


SUITES: dict[str, tuple[str, ...]] = {
    "moments": ("moments", "rules", "gaussian", "infer"),
    "rules": ("rules", "gaussian", "moments"),
    "likelihoods": ("likelihoods", "predictive", "learners"),
    "predictive": ("predictive", "likelihoods"),
    "learners": ("learners", "training", "persistence"),
    "sklearn": ("sklearn",),
    "forecast": ("forecast",),
    "native": ("native", "learners"),
}
"""Test folders of each subpackage, which are run after the files of the fault."""

ACTIVATION = partial(Fault, "moments/activation.py", "moments/test_activation.py")
DERIVATIVE = partial(Fault, "moments/input_derivative.py", "infer/test_derivatives.py")
NORM = partial(Fault, "moments/norm.py", "rules/test_norm.py")
CELLS = partial(Fault, "moments/recurrent.py", "rules/test_recurrent.py")
ATTENTION = partial(Fault, "moments/softmax.py", "rules/test_attention.py")
POSITIONS = partial(Fault, "moments/shared_variance.py", "rules/test_shared_variance.py")
NORMAL = partial(Fault, "likelihoods/normal.py", "likelihoods/test_inferred_noise.py likelihoods/test_conformance.py::TestNormal")
TREE = partial(Fault, "likelihoods/categorical.py", "likelihoods/test_likelihoods.py::test_class_prob")
ORDINAL = partial(Fault, "likelihoods/ordinal.py", "likelihoods/test_truth.py::test_grades likelihoods/test_learned_noise.py::test_epoch")
MIXTURE = partial(Fault, "predictive/normal_mixture.py", "predictive/test_mixture.py")
LOG_NORMAL = partial(Fault, "predictive/log_normal.py", "predictive/test_log_normal.py")
NOISE = partial(Fault, "sklearn/noise_model.py", "sklearn/test_noise_model.py")
SPREAD = partial(Fault, "forecast/calibration.py", "forecast/test_spread.py forecast/test_loops.py::test_averages")
WINDOWS = partial(Fault, "forecast/windows.py", "forecast/test_loops.py::test_rows_and_targets")
DENSITY = partial(Fault, "native/densities.cpp", "native/test_densities.py")
OBSERVE = partial(Fault, "native/observe.cpp", "native/test_parity.py")

FAULTS: list[Fault] = [
    # --- moments -----------------------------------------------------------------------------
    ACTIVATION("slope of the rectifier 1 at zero", "mu.clamp_min(0), mu > 0", "mu.clamp_min(0), mu >= 0"),
    ACTIVATION("variance of the rectified Gaussian loses a term", "alpha * f * (q - p) - f * f", "alpha * f * (q - p)"),
    ACTIVATION("slope of the cosine that of the sine", "_oscillating(mu.sin() * damp, var), -mu.sin() * damp", "_oscillating(mu.cos() * damp, var), -mu.sin() * damp"),
    ACTIVATION("variance of a square without the factor 2", "2 * var * var + 4 * (var * mu) * mu", "2 * var * var + 2 * (var * mu) * mu"),
    DERIVATIVE("square of the covariance not doubled", "_AdjacentCovariance(weighted(j * j), [(2, _row((s * s).mul_(2)))])", "_AdjacentCovariance(weighted(j * j), [(2, _row(s * s))])"),
    DERIVATIVE("covariance with the inputs loses its second term", "_row(g_low.mul_(low.jacobian))", "_row(g_low.mul_(low.jacobian) * 0)"),
    NORM("share taken by the statistics without the spread", "taken = (2 - eps * square) / n", "taken = (1 - eps * square) / n"),
    CELLS("update gate weighs the new state", "torch.lerp(n, now, rz[:, units:], out=h_t)", "torch.lerp(now, n, rz[:, units:], out=h_t)"),
    CELLS("variance of the cell without that of the forget gate", "torch.addcmul(of_f, c_now, q_f, out=c_out)", "torch.mul(c_now, q_f, out=c_out)"),
    ATTENTION("variance of the queries not centered", "spread = shared.div_(_left_by_centering(p))", "spread = shared"),
    POSITIONS("variance of a mean not divided by the count", "alone = variance.mean(dims, keepdim=True) / count", "alone = variance.mean(dims, keepdim=True)"),
    Fault("moments/conditioning.py", "moments/test_conditioning.py", "number of observations ignored", "rest = 1 - q / n", "rest = 1 - q"),
    # --- rules -------------------------------------------------------------------------------
    Fault("rules/arithmetic.py", "rules/test_arithmetic.py", "variance multiplied by alpha, not its square", "var_y = var_y * alpha**2", "var_y = var_y * abs(alpha)"),
    Fault("rules/arithmetic.py", "rules/test_arithmetic.py", "variance divided once by a constant", "input.variance / other / other", "input.variance / other"),
    Fault("rules/bilinear.py", "rules/test_arithmetic.py", "variance multiplied once by a constant", "x.variance * c * c", "x.variance * c"),
    Fault("rules/einsum.py", "rules/test_dense.py rules/test_conformance.py", "copies of a broadcast index count as independent", "sizes[0][c] != sizes[1][c]", "False"),
    Fault("rules/norm.py", "rules/test_conformance.py::TestTangent::test_moments_are_those_of_samples", "factor 2 dropped from the Jacobian of local response", "c = 2 * alpha * beta / size", "c = alpha * beta / size"),
    Fault("rules/norm.py", "rules/test_fallback.py", "running variance of instance norm moves to the mean", "running_mean, running_var, center.mean(0), spread.mean(0), momentum, eps", "running_mean, running_var, spread.mean(0), center.mean(0), momentum, eps"),
    Fault("rules/reduction.py", "rules/test_dense.py rules/test_in_place.py", "variance of a mean divided by n once", "input.variance.mean(*args, **kwargs) / entries", "input.variance.mean(*args, **kwargs)"),
    Fault("rules/pool.py", "rules/test_max_pool.py", "variance of the first entry in place of the chosen one", "select(input.variance, indices, dims)", "select(input.variance, indices * 0, dims)"),
    Fault("rules/recurrent.py", "rules/test_recurrent.py", "squares of the states missing from messages to the weights", "d_var.mT @ (before * before)", "d_var.mT @ before"),
    Fault("rules/recurrent.py", "rules/test_recurrent.py", "last state of a packed row one step early", "state[ends - 1, rows]", "state[ends - 2, rows]"),
    Fault("rules/attention.py", "rules/test_attention.py", "causal mask sees one key ahead", "device=query.device).tril()", "device=query.device).tril(1)"),
    Fault("rules/structural.py", "rules/test_dense.py", "binomial coefficients of a difference not squared", "math.comb(n, k) ** 2 *", "math.comb(n, k) *"),
    Fault("rules/shared_variance.py", "rules/test_shared_variance.py", "weight of a part not squared", "(part.shape[along] / total) ** 2", "(part.shape[along] / total)"),
    # --- likelihoods -------------------------------------------------------------------------
    NORMAL("sign of the residual", "(y - mean) * precision, -precision", "(mean - y) * precision, -precision"),
    NORMAL("variance of a square without the mixed term", "(2 * p * p + 4 * p * e * e) * observed", "(2 * p * p + 2 * p * e * e) * observed"),
    NORMAL("variance of the noise grows by the scale, not its square", "self.noise_variance * scale**2", "self.noise_variance * scale"),
    TREE("decisions for no in place of yes", "yes @ paths.clamp(min=0).T + no @ (-paths).clamp(min=0).T", "no @ paths.clamp(min=0).T + yes @ (-paths).clamp(min=0).T"),
    ORDINAL("upper edge of a level one too low", "t.gather(-1, k + 1).squeeze(-1)", "t.gather(-1, k).squeeze(-1) + 1"),
    ORDINAL("diagonals of the information do not share their sign", "beside = -(p[:, 1:-1]", "beside = (p[:, 1:-1]"),
    Fault("likelihoods/laplace.py", "likelihoods/test_truth.py::test_least", "scale of the Laplace evidence", "variance / (2 * b * b) - (2 * b).log()\n\n", "variance / (b * b) - (2 * b).log()\n\n"),
    Fault("likelihoods/poisson.py", "likelihoods/test_truth.py::test_counts", "log factorial of the count before", "torch.lgamma(y + 1)", "torch.lgamma(y + 2)"),
    Fault("likelihoods/probit.py", "likelihoods/test_conformance.py::TestBernoulli likelihoods/test_likelihoods.py", "curvature with the sign of the argument turned", "h * (h + t)).to(", "h * (h - t)).to("),
    Fault("likelihoods/student_t.py", "likelihoods/test_truth.py::test_heavy", "second message without the spread of the scores", "((pull - d_mu) ** 2 - 1 / total)", "(-1 / total)"),
    # --- predictive --------------------------------------------------------------------------
    Fault("predictive/normal.py", "predictive/test_units.py", "variances scaled once", "square = scale * scale", "square = scale * 1"),
    Fault("predictive/normal.py", "predictive/test_units.py", "within and noise swapped", "            self.epistemic_variance.squeeze(1),\n            self.noise_variance.squeeze(1),", "            self.noise_variance.squeeze(1),\n            self.epistemic_variance.squeeze(1),"),
    MIXTURE("variance between the draws lost", "self.means.var(0, correction=0) + self.epistemic_variance.mean(0)", "self.epistemic_variance.mean(0)"),
    MIXTURE("number of draws missing from the density", "return density.logsumexp(0) - math.log(len(density))", "return density.logsumexp(0)"),
    Fault("predictive/base.py", "predictive/test_units.py", "parts stay in single precision", "return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value", "return value"),
    LOG_NORMAL("mean of the log-normal without half the variance", "return (mean + variance / 2).exp() - self.shift", "return (mean + variance).exp() - self.shift"),
    LOG_NORMAL("slope with the wrong sign", "return -(y.clamp(max=self.top) + self.shift).log()", "return (y.clamp(max=self.top) + self.shift).log()"),
    LOG_NORMAL("growth counts in the mean", "calm = (calm - self.growth).clamp_min(0)", "calm = calm.clamp_min(0)"),
    Fault("predictive/categorical.py", "predictive/test_distribution_mixtures.py::test_levels", "level itself not below itself", "(levels <= y)", "(levels < y)"),
    Fault("predictive/categorical.py", "predictive/test_distribution_mixtures.py::test_levels predictive/test_uncertainty.py::test_every_kind", "order of the classes lost in a mixture", "all(part.ordered for part in parts)", "all(not part.ordered for part in parts)"),
    # --- learners ----------------------------------------------------------------------------
    Fault("learners/methods/tagi/method.py", "learners/test_streams.py", "rate of forgetting with the wrong sign of its rows", "math.log1p(-1 / memory_rows)", "math.log1p(-1 / memory_rows) / 2"),
    Fault("learners/methods/tagi/method.py", "learners/test_ensemble.py", "variance not taken back", "state.posterior.variance.copy_(variance)", "pass"),
    Fault("learners/methods/variational/local_reparameterization.py", "learners/test_bbb_truth.py", "inputs not squared for the variance of outputs", "delta = func(input * input, weight.variance", "delta = func(input, weight.variance"),
    Fault("learners/methods/variational/method.py", "learners/test_bbb_truth.py", "derivative of the entropy doubled", "value=-weight)", "value=-2 * weight)"),
    Fault("learners/methods/variational/method.py", "learners/test_bbb_truth.py::test_weights_of_the_divergence", "weights of batches begin one too late", "2.0 ** -(position.batch + 1)", "2.0 ** -(position.batch + 2)"),
    Fault("learners/methods/ensemble.py", "learners/test_ensemble.py", "variance between members with the correction", "locs.var(0, correction=0)", "locs.var(0)"),
    Fault("learners/methods/laplace/curvature.py", "learners/test_laplace.py", "volume of the Gaussian doubled", "- squares - volume)", "- squares - 2 * volume)"),
    Fault("learners/methods/laplace/curvature.py", "learners/test_laplace.py", "eigenvectors transposed", "return axes @ ((axes.T @ vector) / (h + delta))", "return axes.T @ ((axes @ vector) / (h + delta))"),
    Fault("learners/methods/laplace/laplace.py", "learners/test_laplace.py", "prior left out of the Newton step", "self.move(state, found.slope + state.delta * w)", "self.move(state, found.slope)"),
    Fault("learners/methods/tagi/batch_norm.py", "learners/test_statistics.py", "momentum not put back", "layer.momentum = before[name]", "pass"),
    Fault("learners/off_data/reservoir.py", "learners/test_reservoir.py", "rows with the smallest numbers forgotten too late", "return keys[: len(self.kept)]", "return keys"),
    # --- sklearn -----------------------------------------------------------------------------
    NOISE("half of the log variance missing", "(robust_chi2(chi2) if gate else chi2) + total.log())", "(robust_chi2(chi2) if gate else chi2) + 0.5 * total.log())"),
    NOISE("both halves are the same rows", "for train, test in (halves, halves[::-1]):", "for train, test in (halves, (halves[1], halves[1])):"),
    NOISE("columns of the mean and a constant swapped", "torch.cat([torch.ones_like(rest[:, :1]), rest], dim=1)", "torch.cat([rest, torch.ones_like(rest[:, :1])], dim=1)"),
    Fault("sklearn/noise_model.py", "sklearn/test_noise_tails.py", "degrees of freedom not halved", "special.gammaincinv(degrees / 2,", "special.gammaincinv(degrees,"),
    Fault("sklearn/preprocessing.py", "sklearn/test_outliers.py", "limit around zero, not the median", "median - limit, median + limit", "-limit, limit"),
    Fault("sklearn/calibration.py", "sklearn/test_calibration.py", "criterion applied to the first factor", "found[best] - found[0]", "found[best] - found[best]"),
    Fault("sklearn/preprocessing.py", "sklearn/test_weights.py", "fractions summed to another number of rows", "np.cumsum(weights * (np.count_nonzero(weights) / weights.sum()))", "np.cumsum(weights)"),
    Fault("sklearn/calibration.py", "sklearn/test_noise_model.py::test_growth sklearn/test_calibration.py::test_targets", "block learned as well", "some[~torch.isin(some, block)]", "some[torch.isin(some, some)]"),
    Fault("sklearn/model_selection.py", "sklearn/test_relevance.py", "squared slopes as factors", "(square / mean).sqrt().clamp_min(MIN_RELEVANCE)", "(square / mean).clamp_min(MIN_RELEVANCE)"),
    # --- forecast ----------------------------------------------------------------------------
    WINDOWS("window one value late", "first = origins - layout.lags + 1", "first = origins - layout.lags"),
    WINDOWS("covariates of the origin in place of the next time", "ahead = ahead[origins + 1].reshape(len(x), -1)", "ahead = ahead[origins].reshape(len(x), -1)"),
    WINDOWS("forecasts count as observed", "np.where(history.variance > 0, np.nan, history.loc)", "history.loc"),
    SPREAD("outcome of a forecast known one time early", "made = now - 1 - ahead", "made = now - ahead"),
    SPREAD("epistemic variance not taken off the squared errors", "np.maximum(square - epistemic, _MIN_SHARE * square)", "np.maximum(square, _MIN_SHARE * square)"),
    SPREAD("correlation not shrunk", "weight = 1 / (1 + len(errors) / steps)", "weight = 0 / (1 + len(errors) / steps)"),
    Fault("forecast/backtest.py", "forecast/test_loops.py::test_naive", "seasonal forecast one season early", "season * -(-ahead // season)", "season * (ahead // season + 1)"),
    Fault("forecast/recursive.py", "forecast/test_spread.py::test_the_covariance", "level left out of the derivative", "j = slope @ to_inputs + to_level", "j = slope @ to_inputs"),
    Fault("forecast/backtest.py", "forecast/test_loops.py::test_error_bars forecast/test_causality.py::test_recent_errors", "errors inside the fit count as outcomes", "(outcome < n_learned)[:, None, :]", "(outcome < 0)[:, None, :]"),
    Fault("forecast/scaling.py", "forecast/test_truth.py::test_transforms", "median in place of the mean of a logarithm", "    center = np.exp(mean + variance / 2)\n    shift", "    center = np.exp(mean)\n    shift"),
    # --- native ------------------------------------------------------------------------------
    DENSITY("series of the digamma function with a wrong number", "u * (1.0 / 12 - u * (1.0 / 120", "u * (1.0 / 21 - u * (1.0 / 120"),
    DENSITY("score of the base left out", "found.d_mu = base + s;", "found.d_mu = s;"),
    DENSITY("derivative of the score of the log noise without a factor 2", "score + 0.5 * share * share * (1 - 2 * surprise)", "score + 0.5 * share * share * (1 - surprise)"),
    DENSITY("continued fraction of the Mills ratio cut off", "for (int k = 12; k >= 1; --k)", "for (int k = 1; k >= 1; --k)"),
    OBSERVE("expected square without the variance", "seen += e * e + p;", "seen += e * e;"),
    OBSERVE("gate without the mean of a chi-squared", "constexpr double kWidth = 3.5, kClip = 4, kMean = 0.92", "constexpr double kWidth = 3.5, kClip = 4, kMean = 1.0"),
    Fault("native/kernels.inl", "native/test_parity.py native/test_engine.py", "variance of a product without the variance of both", "spread[k] += (m * m + s) * vx;", "spread[k] += m * m * vx;"),
    Fault("native/draws.cpp", "native/test_draws.py", "covariance of two rows without the bias", "covariance[k] += external.variance[b]", "covariance[k] += 0 * external.variance[b]"),
    Fault("native/derivatives.cpp", "native/test_derivatives.py", "squared covariance left out", " + sums.square * right * right", ""),
]
