// Moments of the derivative of the output by the inputs: the "nodes" sums of
// tractable/moments/input_derivative.py, which is the definition that this must agree with.
#include <algorithm>

#include "learner.hpp"
#include "workspace.hpp"

namespace tractable {
namespace {

// A smooth activation's slope depends on its unit; a piecewise linear one's does not.
bool bends(const std::vector<Activation>& steps) {
  return !steps.empty() && (steps[0].kind == Kind::tanh || steps[0].kind == Kind::sigmoid);
}

// Slope of a unit: its mean and variance, and the bend g of cov(slope, u) = g cov(a, u).
struct Slope {
  float mean = 1;
  float variance = 0;
  float bend = 0;
};

Slope slope_of(const std::vector<Activation>& steps, float a, float s, float jacobian) {
  if (steps.empty()) return {};
  if (!bends(steps)) return {jacobian, 0, 0};
  const bool is_tanh = steps[0].kind == Kind::tanh;
  Slope slope;
  slope.bend = is_tanh ? -2 * a : 1 - 2 * a;
  slope.mean = is_tanh ? 1 - a * a - s : a - a * a - s;
  slope.variance = s * (slope.bend * slope.bend + 2 * s);
  return slope;
}

}  // namespace

const char* Learner::no_derivatives() const {
  if (chain_.outputs() != 1) return "native derivatives need a single output";
  if (!chain_.before.empty() || !chain_.layers.back().after.empty())
    return "native derivatives need a linear layer first and last";
  bool below = false;
  for (const Layer& layer : chain_.layers) {
    if (layer.after.size() > 1) return "native derivatives take one activation between layers";
    const bool bent = bends(layer.after);
    if (bent && below) return "native derivatives take no two smooth activations in a row";
    below = bent;
  }
  return nullptr;
}

// One row, from the last layer to the first; the forward pass is in `work`.
void Learner::derive(const Workspace& work, int row, float* mean, float* variance,
                     float* curvature) const {
  const State& state = work.state;
  const std::size_t last = chain_.layers.size() - 1;
  std::size_t widest = 0;
  for (std::size_t l = 0; l <= last; ++l)
    widest = std::max(widest, std::size_t(std::max(state.width(l), work.inputs(l).stride)));
  // Of the units above, then of those below: mean, variance, r.
  thread_local std::vector<float> scratch;
  scratch.assign(widest * 6, 0.0f);
  float* above = scratch.data();
  float* below = above + 3 * widest;
  above[0] = 1;           // the output by itself
  above[2 * widest] = 1;  // and nothing above it
  for (std::size_t l = last + 1; l-- > 0;) {
    const Layer& layer = chain_.layers[l];
    const Weights w = state.weights(l);
    const bool bent = bends(layer.after);
    if (bent) {
      const Inputs top = work.inputs(l + 1);
      const std::size_t at = std::size_t(row) * top.stride;
      for (int o = 0; o < layer.out; ++o) {
        const float j = top.slope[at + o];
        const Slope slope = slope_of(layer.after, top.mean[at + o], top.variance[at + o], j);
        above[2 * widest + o] *= slope.bend * j;
      }
    }
    const Branches branches = {above, above + widest, bent ? above + 2 * widest : nullptr};
    const Inputs low = work.inputs(l);
    const std::size_t at = std::size_t(row) * low.stride;
    std::fill(below, below + 3 * widest, 0.0f);
    for (int i = 0; i < layer.in; ++i) {
      Slope slope;
      if (l > 0) {
        const float j = low.slope[at + i];
        if (j == 0) continue;  // a ReLU that is off: nothing passes
        slope = slope_of(chain_.layers[l - 1].after, low.mean[at + i], low.variance[at + i], j);
      }
      const std::size_t at_row = std::size_t(i) * w.width;
      const BranchSums sums = kernels_.branch(w.mean + at_row, w.variance + at_row, w.width,
                                              branches);
      const float x = slope.mean, right = low.mean[at + i] * x;
      below[i] = sums.rest * x + sums.shift * right;
      below[widest + i] = sums.own * (slope.variance + x * x) + sums.spread * slope.variance +
                          2 * sums.mixed * right * x + sums.square * right * right;
      below[2 * widest + i] = sums.rest;
      if (l == 0) curvature[i] = sums.curvature;
    }
    std::swap(above, below);
  }
  const int inputs = chain_.inputs();
  std::copy(above, above + inputs, mean);
  std::copy(above + widest, above + widest + inputs, variance);
}

}  // namespace tractable
