#include "observe.hpp"

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace tractable {
namespace {

// Of the gate (learners/methods/tagi/outlier_gate.py) and of the limit (learners/methods/tagi/batch_rule.py).
constexpr double kWidth = 3.5, kClip = 4, kMean = 0.92, kSteps = 10;
constexpr double kLongest = 3;
// Of a parameter that is learnt from an average (likelihoods/online_em.py).
constexpr double kMostRows = 1000;
// Squared residuals below the rounding of the targets say nothing (likelihoods/normal.py).
constexpr double kRounding = 0x1p-46, kLeastNoise = 1e-24;

// No message takes more variance than there is, and a trace is left (likelihoods/base.py,
// `take_at_most_all`): whatever likelihood is behind it, later rows can still move the weights.
constexpr float kMostTaken = 1 - 0x1p-21f;

void put(Outputs d, Outputs z, std::size_t at, const Message& message) {
  float d_var = float(message.d_var);
  const float variance = std::max(z.second[at], FLT_MIN);
  if (d_var * variance < -kMostTaken) d_var = -kMostTaken / variance;
  d.first[at] = float(message.d_mu);
  d.second[at] = d_var;
}

// What a value of a row says to one output; nothing to a node off the path of a label.
Message heard(const Chain& chain, const State& state, const Targets& y, std::size_t row, int o,
              float mean, float variance) {
  const Likelihood& likelihood = chain.likelihood;
  const std::size_t outputs = std::size_t(chain.outputs()), at = row * outputs + std::size_t(o);
  switch (likelihood.kind) {
    case Observation::poisson:
      return poisson(y.values[at], mean, variance);
    case Observation::negative_binomial:
    case Observation::dispersed:
      return negative_binomial(y.values[at], state.noise_mean[o], mean, variance);
    case Observation::logit:
      return logit(2.0 * y.values[at] - 1, mean, variance);
    case Observation::probit:
      return probit(2.0 * y.values[at] - 1, mean, 1.0 + variance);
    case Observation::probit_tree:
    case Observation::normal_tree: {
      const float sign = likelihood.paths[std::size_t(y.labels[row]) * outputs + std::size_t(o)];
      if (sign == 0) return {};
      if (likelihood.kind == Observation::probit_tree)
        return probit(sign, mean, double(variance) + likelihood.tree_noise);
      const float precision = 1 / (variance + likelihood.tree_noise);
      return {(sign - mean) * precision, -precision};
    }
    default: {
      const float noise = float(state.noise_mean[state.noise_mean.size() == 1 ? 0 : o]);
      const float precision = 1 / (variance + noise + y.variance(at));
      return {(y.values[at] - mean) * precision, -precision};
    }
  }
}

// The log noises stand behind the means.
void observe_noise(const Chain& chain, const Targets& y, int batch, int width, Outputs z,
                   Outputs d) {
  const std::size_t targets = std::size_t(chain.targets());
  for (int b = 0; b < batch; ++b) {
    const std::size_t at = std::size_t(b) * std::size_t(width), row = y.row(b);
    for (std::size_t o = 0; o < targets; ++o) {
      const std::size_t mean = at + o, noise = at + targets + o;
      const Pair said =
          heteroscedastic(y.values[row * targets + o], z.first[mean], z.second[mean],
                          z.first[noise], z.second[noise]);
      put(d, z, mean, said.mean);
      put(d, z, noise, said.log_noise);
    }
  }
}

// A running average of the statistics and the dispersion of that (likelihoods/online_em.py).  Behind
// the dispersions stands the number of rows that the average counts.
void update_dispersion(const Chain& chain, State& state, int batch, double memory,
                       const Scratch& sums) {
  const std::size_t outputs = std::size_t(chain.outputs());
  const double most = memory > 0 ? std::min(memory, kMostRows) : kMostRows;
  const double rows = std::min(state.noise_mean[outputs], most), gain = batch / (rows + batch);
  for (std::size_t o = 0; o < outputs; ++o) {
    double& statistic = state.noise_variance[o];
    statistic += gain * (sums[o] / batch - statistic);
    state.noise_mean[o] = dispersion_of(statistic);
  }
  state.noise_mean[outputs] = rows + batch;
}

// Variance of a prediction, noise included; the sum of two variances is rounded as torch rounds it.
double spread(const Chain& chain, const State& state, const Targets& y, std::size_t seen,
              Outputs z, std::size_t at, std::size_t noise) {
  if (chain.likelihood.kind == Observation::heteroscedastic) {
    const std::size_t log_noise = at + std::size_t(chain.targets());
    return z.second[at] + expected_noise(z.first[log_noise], z.second[log_noise]);
  }
  const float variance = z.second[at] + y.variance(seen);
  return variance + state.noise_mean[noise];
}

}  // namespace

void observe(const Chain& chain, const State& state, const Targets& y, int batch, int width,
             Outputs z, Outputs d, Scratch& scratch) {
  if (chain.likelihood.kind == Observation::heteroscedastic)
    return observe_noise(chain, y, batch, width, z, d);
  const int outputs = chain.outputs();
  scratch.assign(std::size_t(outputs), 0.0);
  for (int b = 0; b < batch; ++b) {
    const std::size_t at = std::size_t(b) * width, row = y.row(b);
    for (int o = 0; o < outputs; ++o) {
      const Message said = heard(chain, state, y, row, o, z.first[at + o], z.second[at + o]);
      put(d, z, at + o, said);
      scratch[std::size_t(o)] += said.statistic;
    }
  }
}

void judge(const Chain& chain, const State& state, const Targets& y, int batch, int width,
           Outputs z, Verdict& verdict) {
  verdict.any = false;
  if (!chain.gate) return;
  const std::size_t targets = std::size_t(chain.targets()), levels = state.surprise.size();
  const std::size_t values = std::size_t(batch) * targets;
  verdict.level = state.surprise;
  verdict.top.assign(levels, 0.0);
  verdict.chi2.resize(values);
  double most = 0;
  for (int b = 0; b < batch; ++b) {
    const std::size_t at = std::size_t(b) * std::size_t(width), from = y.row(b) * targets;
    for (std::size_t o = 0; o < targets; ++o) {
      const std::size_t n = levels == 1 ? 0 : o;
      const double residual = double(y.values[from + o]) - z.first[at + o];
      const double chi2 = residual * residual / spread(chain, state, y, from + o, z, at + o, n);
      double& level = verdict.level[n];
      level = std::max(1.0, level + (std::min(chi2, kClip * level) / kMean - level) / kSteps);
      verdict.top[n] = std::max(verdict.top[n], level);
      verdict.chi2[std::size_t(b) * targets + o] = chi2;
      most = std::max(most, chi2);
    }
  }
  if (!(most > kWidth * kWidth)) return;  // as nearly always: no level is below 1
  verdict.weight.resize(values);
  for (std::size_t k = 0; k < values; ++k) {
    const double believed = kWidth * kWidth * verdict.top[levels == 1 ? 0 : k % targets];
    verdict.weight[k] = std::min(1.0, believed / verdict.chi2[k]);
    verdict.any |= verdict.weight[k] < 1;
  }
}

void weigh(const Chain& chain, const Verdict& verdict, int batch, int width, float* message) {
  if (!verdict.any) return;
  const std::size_t outputs = std::size_t(chain.outputs()), targets = std::size_t(chain.targets());
  // A weight counts for the mean and for the noise of a target.
  for (std::size_t b = 0; b < std::size_t(batch); ++b)
    for (std::size_t o = 0; o < outputs; ++o)
      message[b * std::size_t(width) + o] *= float(verdict.weight[b * targets + o % targets]);
}

void record(const Chain& chain, State& state, const Targets& y, int batch, int width, Outputs z,
            const Verdict& verdict) {
  if (!chain.gate) return;
  state.surprise = verdict.level;
  if (!verdict.any) return;
  const std::size_t targets = std::size_t(chain.targets());
  for (int b = 0; b < batch; ++b) {
    for (std::size_t o = 0; o < targets; ++o) {
      const std::size_t k = std::size_t(b) * targets + o;
      if (!(verdict.weight[k] < 1)) continue;
      double* log = state.surprises.data();
      // Whatever number the caller's log begins with, the place is one of those there are.
      const double place = std::fmod(log[0], double(kRemembered));
      double* entry = log + 1 + 3 * (place >= 0 ? std::size_t(place) : 0);
      entry[0] = y.values[y.row(b) * targets + o];
      entry[1] = z.first[std::size_t(b) * std::size_t(width) + o];
      entry[2] = std::sqrt(verdict.chi2[k]);
      log[0] += 1;
    }
  }
}

void update_noise(const Chain& chain, State& state, const Targets& y, int batch, int width,
                  Outputs z, const Verdict& verdict, double memory, const Scratch& scratch) {
  if (chain.likelihood.kind == Observation::dispersed)
    return update_dispersion(chain, state, batch, memory, scratch);
  if (chain.likelihood.kind != Observation::inferred) return;
  const int outputs = chain.outputs();
  for (int o = 0; o < outputs; ++o) {
    const double m = state.noise_mean[o];
    double s = state.noise_variance[o];
    if (memory > 0) s = std::max(s, 2 * m * m / memory);
    double seen = 0, doubt = 0, square = 0;
    for (int b = 0; b < batch; ++b) {
      const std::size_t at = std::size_t(b) * width + o;
      const std::size_t from = y.row(b) * outputs + o;
      double residual = y.values[from] - z.first[at];
      if (verdict.any) residual *= verdict.weight[std::size_t(b) * std::size_t(outputs) + o];
      // As far as the gate lets it through: the rounding of an outlier is not that of others.
      const double believed = z.first[at] + residual;
      square += believed * believed;
      const double var = double(z.second[at]) + y.variance(from);
      const double share = m / (var + m);
      const double e = share * residual, p = share * var;
      seen += e * e + p;
      doubt += 2 * p * p + 4 * p * e * e;
    }
    seen = std::max(seen / batch, std::max(kRounding * square / batch, kLeastNoise));
    doubt /= double(batch) * batch;
    const double spread = s + 2 * (s + m * m) / batch;
    const double gain = s / spread;
    state.noise_mean[o] = m + gain * (seen - m);
    state.noise_variance[o] = s - gain * gain * std::max(spread - doubt, 0.0);
  }
}

Tally tally(const Chain& chain, int batch, int width, Outputs z, Outputs d) {
  Tally t;
  const int outputs = chain.outputs();
  for (int b = 0; b < batch; ++b) {
    for (int o = 0; o < outputs; ++o) {
      const std::size_t at = std::size_t(b) * width + o;
      const double d_mu = d.first[at], d_var = d.second[at];
      const double weight = d_mu * d_mu;
      t.squares += weight;
      t.fourth += weight * weight;
      if (!(d_var < 0)) continue;
      const double own = -1 / d_var;
      t.seen += 1;
      t.total += weight;
      t.c += weight * own;
      t.s2 += weight * (own - z.second[at]);
    }
  }
  return t;
}

bool plan(const Chain& chain, const Tally& t, double power, Change& change) {
  change.rule = chain.rule;
  if (chain.rule == Rule::damped) {
    const double tiny = chain.limit ? DBL_MIN : FLT_MIN;
    const double product = power * t.total;
    // Without a limit torch computes in float: what is not finite there is not finite here.
    if (!std::isfinite(chain.limit ? product : double(float(product)))) return false;
    const double limit = product / std::max(t.squares, tiny) + t.s2;
    double alpha = 1;
    if (limit > t.c) alpha = t.c / std::max(limit, tiny);
    if (chain.limit) {
      const double shared = t.squares * t.squares / std::max(t.fourth, DBL_MIN);
      const double longest = kLongest * kLongest * std::max(1.0, alpha * shared);
      const double length = alpha * alpha * power;
      if (length > longest) alpha *= std::sqrt(longest / length);
    }
    change.alpha = float(alpha);
  }
  change.observed = std::max(change.alpha * float(std::max(t.seen, 1.0)), 1.0f);
  return true;
}

}  // namespace tractable
