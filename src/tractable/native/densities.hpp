// Messages of likelihoods whose integral over an output has no closed form: numbers in, numbers out.
#pragma once

#include <vector>

namespace tractable {

// Derivatives of a log evidence in the mean of an output, and what the observation says of a noise
// that is learnt from it.
struct Message {
  double d_mu = 0;
  double d_var = 0;
  double statistic = 0;
};

// Numbers of a batch, kept between calls.
using Scratch = std::vector<double>;

// A count y ~ Poisson(exp(z)) (tractable/likelihoods/poisson.py).
Message poisson(double y, double mean, double variance);

// A count of mean m = exp(z) and variance m + m^2 / r with the dispersion r; the statistic is
// E[g - log g] of the Gamma variable g (tractable/likelihoods/negative_binomial.py).
Message negative_binomial(double y, double dispersion, double mean, double variance);

// The dispersion of greatest likelihood, given the mean of the statistic.
double dispersion_of(double statistic);

// A label, sign +1 or -1, of probability 1 / (1 + exp(-sign z)) (likelihoods/bernoulli.py).
Message logit(double sign, double mean, double variance);

// The same of probability Phi(sign z / sqrt(variance of the noise)), where `total` is the variance
// of output and noise together.
Message probit(double sign, double mean, double total);

// y ~ N(z_1, exp(z_2)) (tractable/likelihoods/heteroscedastic.py): the two messages, by a sum over
// z_2.
struct Pair {
  Message mean, log_noise;
};
Pair heteroscedastic(double y, double mean, double variance, double log_noise,
                     double log_noise_variance);

// Its noise as a prediction has it: the mean of a log-normal variable, in single precision.
float expected_noise(float log_noise, float log_noise_variance);

}  // namespace tractable
