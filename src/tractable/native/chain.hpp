// What is computed: a chain of linear layers and activations under a likelihood.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "densities.hpp"

namespace tractable {

enum class Kind { relu, leaky_relu, tanh, sigmoid };

struct Activation {
  Kind kind;
  float negative_slope;
};

// z = W a + b and the activations that follow it.
struct Layer {
  int in = 0;
  int out = 0;
  bool bias = false;
  std::size_t weight_at = 0;  // where W, row-major, begins in the flat vectors
  std::size_t bias_at = 0;
  std::vector<Activation> after;

  int rows() const { return in + (bias ? 1 : 0); }
};

enum class Observation {
  normal,         // y = z + v, with a known noise
  inferred,       // the same, and the noise variance is inferred
  probit_tree,    // decisions along a path, each the sign of z + e
  normal_tree,    // decisions along a path, each seen as +1 or -1 with noise
  probit,         // a label 0 or 1 of every output, the sign of z + e
  logit,          // the same, of probability 1 / (1 + exp(-z))
  poisson,        // a count of every output, of rate exp(z)
  negative_binomial,  // the same, and more scattered by a known dispersion
  dispersed,      // the same, and the dispersion is inferred
  heteroscedastic,  // y = z_1 + v, where z_2 is the log variance of v
};

struct Likelihood {
  Observation kind = Observation::normal;
  float tree_noise = 1;              // variance of the decisions
  std::int64_t classes = 0;          // of the trees
  std::vector<std::int8_t> paths;    // signs of each class (rows) at each output (columns)

  bool tree() const {
    return kind == Observation::probit_tree || kind == Observation::normal_tree;
  }
  bool counts_scatter() const {
    return kind == Observation::negative_binomial || kind == Observation::dispersed;
  }
  bool noise() const { return kind == Observation::normal || kind == Observation::inferred; }
};

enum class Rule { damped, published };

struct Chain {
  std::vector<Activation> before;  // activations of the inputs themselves
  std::vector<Layer> layers;
  Likelihood likelihood;
  Rule rule = Rule::damped;
  bool limit = false;  // of the length of a step
  bool gate = false;   // on values far from all that was expected
  std::size_t parameters = 0;

  int inputs() const { return layers.front().in; }
  int outputs() const { return layers.back().out; }
  // Numbers in a row of targets: two outputs serve one where the noise is predicted.
  int targets() const {
    return likelihood.kind == Observation::heteroscedastic ? outputs() / 2 : outputs();
  }
};

}  // namespace tractable
