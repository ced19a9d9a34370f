#include "observe.hpp"

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace tractable {
namespace {

constexpr double kHalfRoot = 0.70710678118654752440;       // sqrt(1/2)
constexpr double kInverseRoot2Pi = 0.39894228040143267794;  // 1/sqrt(2 pi)

// phi(t) / Phi(t).  Below -30 both underflow soon, and the continued fraction of the Mills ratio
// has converged after a few terms.
double hazard(double t) {
  if (t > -30) return kInverseRoot2Pi * std::exp(-0.5 * t * t) / (0.5 * std::erfc(-t * kHalfRoot));
  const double x = -t;
  double tail = 0;
  for (int k = 12; k >= 1; --k) tail = k / (x + tail);
  return x + tail;
}

void probit(float sign, float mean, double variance, float& d_mu, float& d_var) {
  const double scale = 1 / std::sqrt(variance);
  const double t = sign * double(mean) * scale;
  const double h = hazard(t);
  // h (h + t) lies between 0 and 1; far in the tail rounding may leave that interval.
  const double bend = h * (h + t);
  const double curvature = bend < 0 ? 0 : bend > 1 ? 1 : bend;
  d_mu = float(sign * h * scale);
  d_var = float(-curvature * scale * scale);
}

}  // namespace

void observe(const Chain& chain, const State& state, const Targets& y, int batch, int width,
             Outputs z, Outputs d) {
  const Likelihood& likelihood = chain.likelihood;
  const int outputs = chain.outputs();
  const std::size_t noises = state.noise_mean.size();
  for (int b = 0; b < batch; ++b) {
    const std::size_t at = std::size_t(b) * width, row = y.row(b);
    for (int o = 0; o < outputs; ++o) {
      const float mean = z.first[at + o], variance = z.second[at + o];
      float d_mu = 0, d_var = 0;
      if (y.values != nullptr) {
        const float noise = float(state.noise_mean[noises == 1 ? 0 : o]);
        const std::size_t seen = row * outputs + o;
        const float precision = 1 / (variance + noise + y.variance(seen));
        d_mu = (y.values[seen] - mean) * precision;
        d_var = -precision;
      } else {
        const float sign = likelihood.paths[std::size_t(y.labels[row]) * outputs + o];
        if (sign == 0) {
          // A node off the path hears nothing.
        } else if (likelihood.kind == Observation::probit_tree) {
          probit(sign, mean, double(variance) + likelihood.tree_noise, d_mu, d_var);
        } else {
          const float precision = 1 / (variance + likelihood.tree_noise);
          d_mu = (sign - mean) * precision;
          d_var = -precision;
        }
      }
      d.first[at + o] = d_mu;
      d.second[at + o] = d_var;
    }
  }
}

void update_noise(const Chain& chain, State& state, const Targets& y, int batch, int width,
                  Outputs z) {
  if (chain.likelihood.kind != Observation::inferred) return;
  const int outputs = chain.outputs();
  for (int o = 0; o < outputs; ++o) {
    const double m = state.noise_mean[o], s = state.noise_variance[o];
    double seen = 0, doubt = 0;
    for (int b = 0; b < batch; ++b) {
      const std::size_t at = std::size_t(b) * width + o;
      const std::size_t from = y.row(b) * outputs + o;
      const double residual = y.values[from] - z.first[at];
      const double var = double(z.second[at]) + y.variance(from);
      const double share = m / (var + m);
      const double e = share * residual, p = share * var;
      seen += e * e + p;
      doubt += 2 * p * p + 4 * p * e * e;
    }
    seen /= batch;
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

Change plan(Rule rule, const Tally& t, double power) {
  Change change;
  change.rule = rule;
  if (rule == Rule::damped) {
    const double limit = power * t.total / std::max<double>(t.squares, FLT_MIN) + t.s2;
    if (limit > t.c) change.alpha = float(t.c / std::max<double>(limit, FLT_MIN));
  }
  change.observed = std::max(change.alpha * float(std::max(t.seen, 1.0)), 1.0f);
  return change;
}

}  // namespace tractable
