#include "densities.hpp"

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace tractable {
namespace {

constexpr double kHalfRoot = 0.70710678118654752440;       // sqrt(1/2)
constexpr double kInverseRoot2Pi = 0.39894228040143267794;  // 1/sqrt(2 pi)

// Even nodes from the peak of an integrand to both sides, until it has fallen by exp(-kFall).  The
// sum converges like exp(-2 pi^2 / step^2) for a Gaussian, a step in deviations of the posterior,
// and like exp(-2 pi a / step) for a function that is analytic in a strip of half width a: of the
// Poisson density pi/2 before it grows, of the logistic one pi.
constexpr double kFall = 24;
constexpr double kStep = 0.5;
constexpr double kCountStep = 0.4, kLabelStep = 0.8;
constexpr int kMostNodes = 400;  // to one side
constexpr int kNewton = 40;
constexpr double kLittle = 0.1;  // share of the variance below which scores cancel

// Of a dispersion and the Newton steps to it, as in the Python module.
constexpr double kLeastDispersion = 1e-4, kMostDispersion = 1e8;
constexpr int kSolve = 3;

// Heteroscedastic noise, as in the Python module.
constexpr double kMostSurprise = 1e4, kLogNoiseRange = 14;
constexpr double kLog2Pi = 1.8378770664093454836;

// phi(t) / Phi(t).  Below -30 both underflow soon, and the continued fraction of the Mills ratio
// has converged after a few terms.
double hazard(double t) {
  if (t > -30) return kInverseRoot2Pi * std::exp(-0.5 * t * t) / (0.5 * std::erfc(-t * kHalfRoot));
  const double x = -t;
  double tail = 0;
  for (int k = 12; k >= 1; --k) tail = k / (x + tail);
  return x + tail;
}

// The derivative of log Gamma, and its own.  Eight steps up, then the asymptotic series (Abramowitz
// & Stegun, 6.3.18 and 6.4.12), whose first term left out is below 1e-14.
constexpr int kStepsUp = 8;

double digamma(double x) {
  double sum = 0;
  for (int k = 0; k < kStepsUp; ++k, x += 1) sum -= 1 / x;
  const double u = 1 / (x * x);
  const double series =
      u * (1.0 / 12 - u * (1.0 / 120 - u * (1.0 / 252 - u * (1.0 / 240 - u * (1.0 / 132 -
      u * (691.0 / 32760 - u / 12))))));
  return sum + std::log(x) - 0.5 / x - series;
}

double trigamma(double x) {
  double sum = 0;
  for (int k = 0; k < kStepsUp; ++k, x += 1) sum += 1 / (x * x);
  const double u = 1 / (x * x);
  const double series =
      u * (1.0 / 6 - u * (1.0 / 30 - u * (1.0 / 42 - u * (1.0 / 30 - u * (5.0 / 66 -
      u * (691.0 / 2730 - u * 7 / 6))))));
  return sum + 1 / x + 0.5 * u + series / x;
}

// Averages over the nodes: of the score and its derivative, of the shift z - mean, and of whatever
// else a density is asked for.
struct Sums {
  double weight = 0, score = 0, square = 0, bend = 0, shift = 0, shift_square = 0, also = 0;

  void add(double w, double s, double b, double d, double a) {
    weight += w;
    score += w * s;
    square += w * s * s;
    bend += w * b;
    shift += w * d;
    shift_square += w * d * d;
    also += w * a;
  }

  // Scores were counted from `base`, shifts from the peak.
  Message message(double base, double variance) const {
    const double s = score / weight, d = shift / weight;
    Message found;
    found.d_mu = base + s;
    const double share = (shift_square / weight - d * d) / variance;
    const double by_scores = bend / weight + (square / weight - s * s);
    const double d_var = share < kLittle ? (share - 1) / variance : by_scores;
    found.d_var = std::max(std::min(d_var, 0.0), -1 / variance);
    found.statistic = also / weight;
    return found;
  }
};

// Where density times Gaussian is greatest: the shift d solves `variance s(mean + d) = d` and lies
// between zero and `variance s(mean)`, as the score falls.
template <typename Density>
double peak(const Density& density, double mean, double variance, double guess) {
  const double first = variance * density.at(mean).score;
  double low = std::min(first, 0.0), high = std::max(first, 0.0);
  double d = std::min(std::max(guess, low), high);
  for (int k = 0; k < kNewton; ++k) {
    const auto here = density.at(mean + d);
    const double miss = variance * here.score - d;
    if (miss > 0) low = d;
    else high = d;
    const double step = miss / (variance * here.bend - 1);
    const bool inside = d - step >= low && d - step <= high;
    const double next = inside ? d - step : 0.5 * (low + high);
    const double moved = std::fabs(next - d);
    d = next;
    if (!(moved * moved > 1e-8 * variance)) break;  // near enough to place nodes around it
  }
  return d;
}

// The message of a density that is log-concave in the output.
template <typename Density>
Message integrate(const Density& density, double mean, double variance, double guess,
                  double widest) {
  if (!(variance > DBL_MIN)) {
    const auto here = density.at(mean);
    return {here.score, here.bend, here.also};
  }
  const double top = peak(density, mean, variance, guess);
  const auto there = density.at(mean + top);
  const double left = 1 / (1 / variance - there.bend);
  const double reach = std::sqrt(2 * kFall * variance);
  const double step = std::min(kStep * std::sqrt(left), std::max(widest, reach / kMostNodes));
  const double height = there.log - 0.5 * top * top / variance;
  Sums sums;
  sums.add(1, 0, there.bend, 0, there.also);
  for (const double way : {step, -step}) {
    for (int k = 1; k <= kMostNodes; ++k) {
      const double d = way * k, shift = top + d;
      const auto here = density.at(mean + shift);
      const double log = here.log - 0.5 * shift * shift / variance - height;
      if (!(log > -kFall)) break;
      sums.add(std::exp(log), here.score - there.score, here.bend, d, here.also);
    }
  }
  return sums.message(there.score, variance);
}

struct Here {
  double log, score, bend, also = 0;
};

struct Counts {
  double y;
  Here at(double z) const {
    const double rate = std::exp(z);
    return {y * z - rate, y - rate, -rate};
  }
};

// In terms of t = z - log r, with p = m / (m + r) and q = 1 - p; what has no z is left out.
struct Scattered {
  double y, r, log_r;
  Here at(double z) const {
    const double t = z - log_r, fall = std::exp(-std::fabs(t)), less = fall / (1 + fall);
    const double p = t > 0 ? 1 - less : less, q = t > 0 ? less : 1 - less;
    const double bent = std::log1p(fall);  // softplus(t) and softplus(-t) but for their straight part
    const double up = std::max(t, 0.0) + bent, down = std::max(-t, 0.0) + bent;
    // Of the Gamma variable given the count, g - log g but for digamma(y + r).
    const double also = (1 + y / r) * q + log_r + up;
    return {-y * down - r * up, y * q - r * p, -(y + r) * p * q, also};
  }
};

struct Labels {
  double sign;
  Here at(double z) const {
    const double t = sign * z, fall = std::exp(-std::fabs(t));
    const double less = fall / (1 + fall), p = t > 0 ? less : 1 - less;  // of the other label
    return {std::min(t, 0.0) - std::log1p(fall), sign * p, -p * (1 - p)};
  }
};

}  // namespace

Message poisson(double y, double mean, double variance) {
  // With u = log(v e^z) the peak solves e^u + u = log v + mean + v y.
  const double v = std::max(variance, DBL_MIN);
  const double a = std::log(v) + mean + v * y;
  double u = a > 1 ? std::log(a) : a;
  for (int k = 0; k < 2; ++k) {
    const double grown = std::exp(u);
    u = (a + grown * (u - 1)) / (grown + 1);
  }
  return integrate(Counts{y}, mean, variance, v * y - std::exp(u), kCountStep);
}

Message negative_binomial(double y, double dispersion, double mean, double variance) {
  const double r = std::min(std::max(dispersion, kLeastDispersion), kMostDispersion);
  const Scattered density{y, r, std::log(r)};
  // Between the mean and the output that would predict y, by their precisions.
  const double at = std::log(y + 0.5), pull = -variance * density.at(at).bend;
  const double guess = pull * (at - mean) / (1 + pull);
  Message found = integrate(density, mean, variance, guess, kCountStep);
  found.statistic -= digamma(y + r);
  return found;
}

double dispersion_of(double statistic) {
  const double wanted = std::max(statistic - 1, 1e-8);
  double r = (3 - wanted + std::sqrt((wanted - 3) * (wanted - 3) + 24 * wanted)) / (12 * wanted);
  for (int k = 0; k < kSolve; ++k) {
    const double miss = std::log(r) - digamma(r) - wanted;
    const double step = miss / (1 - r * trigamma(r));
    r *= std::exp(-std::min(std::max(step, -2.0), 2.0));
  }
  return std::min(std::max(r, kLeastDispersion), kMostDispersion);
}

Message logit(double sign, double mean, double variance) {
  return integrate(Labels{sign}, mean, variance, 0, kLabelStep);
}

Message probit(double sign, double mean, double total) {
  const double scale = 1 / std::sqrt(total);
  const double t = sign * mean * scale;
  const double h = hazard(t);
  // h (h + t) lies between 0 and 1; far in the tail rounding may leave that interval.
  const double bend = h * (h + t);
  const double curvature = bend < 0 ? 0 : bend > 1 ? 1 : bend;
  return {sign * h * scale, -curvature * scale * scale};
}

Pair heteroscedastic(const Rule1D& rule, double y, double mean, double variance, double log_noise,
                     double log_noise_variance, Scratch& scratch) {
  const std::size_t nodes = rule.points.size();
  scratch.resize(2 * nodes);
  double *log_terms = scratch.data(), *noises = log_terms + nodes;
  const double e = y - mean, std = std::sqrt(log_noise_variance);
  double top = -DBL_MAX;
  for (std::size_t k = 0; k < nodes; ++k) {
    const double nu = log_noise + std * rule.points[k];
    noises[k] = std::exp(std::min(std::max(nu, -kLogNoiseRange), kLogNoiseRange));
    const double total = variance + noises[k];
    log_terms[k] = rule.log_weights[k] - 0.5 * (e * e / total + std::log(total) + kLog2Pi);
    top = std::max(top, log_terms[k]);
  }
  double sum = 0, pulls = 0, bends = 0, g_sum = 0, g_bends = 0;
  for (std::size_t k = 0; k < nodes; ++k) {
    const double r = std::exp(log_terms[k] - top), total = variance + noises[k];
    const double pull = e / total, share = noises[k] / total;
    const double surprise = std::min(e * pull, kMostSurprise);
    const double g = 0.5 * share * (surprise - 1);
    sum += r;
    pulls += r * pull;
    bends += r * (pull * pull - 1 / total);
    g_sum += r * g;
    g_bends += r * (g * g + g + 0.5 * share * share * (1 - 2 * surprise));
  }
  const double d_mu = pulls / sum, d_noise = g_sum / sum;
  return {{d_mu, std::min(bends / sum - d_mu * d_mu, 0.0)},
          {d_noise, std::min(g_bends / sum - d_noise * d_noise, 0.0)}};
}

float expected_noise(float log_noise, float log_noise_variance) {
  const float log = log_noise + 0.5f * log_noise_variance;
  const float range = float(kLogNoiseRange);
  return std::exp(std::min(std::max(log, -range), range));
}

}  // namespace tractable
