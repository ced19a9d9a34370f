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
constexpr double kLogNoiseRange = 14;
constexpr double kLeastVariance = 1e-30, kSmall = 0.01;
constexpr int kSolveShift = 4, kScan = 16;
// Steps between nodes: in deviations of the posterior, and of the log noise.
constexpr double kNoiseStep = 0.7, kLogNoiseStep = 0.45;

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

// A residual whose variance is that of its mean and a noise, by the log of the noise.
struct Noises {
  double e, variance;

  struct At {
    double total, pull, score, bend;
  };
  double log(const At& at) const { return -0.5 * (e * at.pull + std::log(at.total)); }
  At at(double nu) const {
    const double noise = std::exp(std::min(std::max(nu, -kLogNoiseRange), kLogNoiseRange));
    const double total = variance + noise, share = noise / total, pull = e / total;
    if (!(std::fabs(nu) < kLogNoiseRange)) return {total, pull, 0, 0};
    const double surprise = e * pull, score = 0.5 * share * (surprise - 1);
    return {total, pull, score, score + 0.5 * share * share * (1 - 2 * surprise)};
  }
};

// About where the integrand over the log noise is greatest, as a shift from its mean: between zero
// and a bound, as in the Python module.
double noise_peak(const Noises& density, double log_noise, double v) {
  const double square = density.e * density.e;
  const double most = std::max(square - density.variance, std::exp(-kLogNoiseRange));
  const double top = std::min(std::log(most), kLogNoiseRange) - log_noise;
  double span = std::max(top, -0.5 * v);
  if (top > 0) {
    const double a =
        std::log(0.5 * v) + std::log(std::max(square, DBL_MIN)) - log_noise + 0.5 * v;
    double u = a > 1 ? std::log(a) : a;
    for (int k = 0; k < kSolveShift; ++k) {
      const double grown = std::exp(u);
      u = (a + grown * (u - 1)) / (grown + 1);
    }
    span = std::min(top, std::max(std::exp(u) - 0.5 * v, 0.0));
  }
  const double low = std::min(span, 0.0), high = std::max(span, 0.0);
  // With most of the variance noise, or with little surprise, there is one peak; else the shifts
  // in between are scanned.
  const bool one = span <= 0 || (log_noise > -kLogNoiseRange && high + log_noise < kLogNoiseRange &&
                                 density.variance < std::exp(log_noise));
  double d = one ? high : 0;
  if (!one) {
    double best = -DBL_MAX;
    for (int k = 0; k <= kScan; ++k) {
      const double shift = span * k / kScan;
      const double found = density.log(density.at(log_noise + shift)) - 0.5 * shift * shift / v;
      if (found > best) best = found, d = shift;
    }
  }
  for (int k = 0; k < kNewton; ++k) {
    const auto here = density.at(log_noise + d);
    const double bent = 1 - v * std::min(here.bend, 0.0);
    const double next = std::min(std::max(d - (d - v * here.score) / bent, low), high);
    const double moved = next - d;
    d = next;
    if (!(moved * moved * bent > 1e-3 * v)) break;  // near enough to place nodes around it
  }
  return d;
}

// Averages over the nodes; pulls and scores are counted from those at the peak, shifts from it.
struct NoiseSums {
  double weight = 0, pull = 0, pull_square = 0, precision = 0;
  double score = 0, score_square = 0, bend = 0, shift = 0, shift_square = 0;

  void add(double w, const Noises::At& here, const Noises::At& there, double d) {
    const double p = here.pull - there.pull, s = here.score - there.score;
    weight += w;
    pull += w * p;
    pull_square += w * p * p;
    precision += w / here.total;
    score += w * s;
    score_square += w * s * s;
    bend += w * here.bend;
    shift += w * d;
    shift_square += w * d * d;
  }

  Pair messages(const Noises::At& there, double top, double v) const {
    const double p = pull / weight, s = score / weight, d = shift / weight;
    const double left = (shift_square / weight - d * d) / v;
    const double by_scores = bend / weight + (score_square / weight - s * s);
    Pair found;
    found.mean.d_mu = there.pull + p;
    found.mean.d_var = std::min(pull_square / weight - p * p - precision / weight, 0.0);
    found.log_noise.d_mu = v > kSmall ? (top + d) / v : there.score + s;
    const double d_var = v > kSmall || left < kLittle ? (left - 1) / v : by_scores;
    found.log_noise.d_var = std::min(d_var, 0.0);
    return found;
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

Pair heteroscedastic(double y, double mean, double variance, double log_noise,
                     double log_noise_variance) {
  const double v = std::max(log_noise_variance, kLeastVariance);
  const Noises density{y - mean, variance};
  const double top = noise_peak(density, log_noise, v);
  const auto there = density.at(log_noise + top);
  const double left = v / (1 - v * std::min(there.bend, 0.0));
  const double step = std::min(kNoiseStep * std::sqrt(left), kLogNoiseStep);
  const double height = density.log(there) - 0.5 * top * top / v;
  NoiseSums sums;
  sums.add(1, there, there, 0);
  for (const double way : {step, -step}) {
    for (int k = 1; k <= kMostNodes; ++k) {
      const double d = way * k, shift = top + d;
      const auto here = density.at(log_noise + shift);
      const double log = density.log(here) - 0.5 * shift * shift / v - height;
      if (!(log > -kFall)) break;
      sums.add(std::exp(log), here, there, d);
    }
  }
  return sums.messages(there, top, v);
}

float expected_noise(float log_noise, float log_noise_variance) {
  const float log = log_noise + 0.5f * log_noise_variance;
  const float range = float(kLogNoiseRange);
  return std::exp(std::min(std::max(log, -range), range));
}

}  // namespace tractable
