// Outputs under draws of the weights, without drawing the weights.
//
// Given the inputs of a layer, its outputs for several rows are jointly Gaussian, and different
// units are independent because their weights are: for rows x_a and x_b of one unit,
//   E[z_a] = sum mu x_a,   cov(z_a, z_b) = sum v x_a x_b.
// So drawing the few values of z, layer after layer, gives the same joint distribution over the
// rows as drawing all weights once and passing every row through them; exact but for rounding.
#include <algorithm>
#include <cmath>

#include "learner.hpp"

namespace tractable {
namespace {

// Below this share of its variance a value follows from the rows before it, but for rounding.
constexpr float kRounding = 1e-6f;

// Where row a of a triangle begins, whose rows have one, two, three... values.
constexpr std::size_t triangle(int a) { return std::size_t(a) * (std::size_t(a) + 1) / 2; }

// The lower triangle L of covariance = L L^T, in place; rows that follow from others get zeros.
void factor(float* c, int rows) {
  for (int a = 0; a < rows; ++a) {
    float* row = c + triangle(a);
    const float variance = row[a];
    for (int b = 0; b <= a; ++b) {
      const float* other = c + triangle(b);
      float rest = row[b];
      for (int k = 0; k < b; ++k) rest -= row[k] * other[k];
      if (b < a) row[b] = other[b] > 0 ? rest / other[b] : 0.0f;
      else row[a] = rest > kRounding * variance ? std::sqrt(rest) : 0.0f;
    }
  }
}

}  // namespace

std::size_t Learner::units() const {
  std::size_t total = 0;
  for (const Layer& layer : chain_.layers) total += std::size_t(layer.out);
  return total;
}

void Learner::draw(const External& external, const float* x, int rows, int samples,
                   const float* normals, float* outputs) const {
  int widest = padded(chain_.inputs(), kernels_.lanes);
  for (const Layer& layer : chain_.layers)
    widest = std::max(widest, padded(layer.out, kernels_.lanes));
  const std::size_t stride = std::size_t(widest), sample = std::size_t(rows) * stride;
  const std::size_t all = std::size_t(samples) * sample;
  const std::size_t pairs = triangle(rows), drawn = std::size_t(samples) * std::size_t(rows);
  // Values below and above a layer, slopes that nobody asks for, a unit's means and covariances.
  thread_local std::vector<float> scratch;
  scratch.assign(2 * all + stride + std::size_t(rows) + pairs, 0.0f);
  float *below = scratch.data(), *above = below + all, *slope = above + all;
  float *mean = slope + stride, *covariance = mean + rows;

  const auto activate = [&](const std::vector<Activation>& steps, float* values, int units) {
    if (!steps.empty())
      kernels_.activate(steps.data(), int(steps.size()), values, nullptr,
                        padded(units, kernels_.lanes), values, nullptr, slope);
  };
  for (int a = 0; a < rows; ++a) {
    float* row = below + std::size_t(a) * stride;
    std::copy_n(x + std::size_t(a) * std::size_t(chain_.inputs()), chain_.inputs(), row);
    activate(chain_.before, row, chain_.inputs());
  }
  int groups = 1;  // of samples that have the same values below
  for (const Layer& layer : chain_.layers) {
    for (int o = 0; o < layer.out; ++o) {
      const std::size_t at = layer.weight_at + std::size_t(o) * std::size_t(layer.in);
      for (int g = 0; g < groups; ++g) {
        kernels_.joint(external.mean + at, external.variance + at, layer.in,
                       below + std::size_t(g) * sample, widest, rows, mean, covariance);
        if (layer.bias) {
          const std::size_t b = layer.bias_at + std::size_t(o);
          for (int a = 0; a < rows; ++a) mean[a] += external.mean[b];
          for (std::size_t k = 0; k < pairs; ++k) covariance[k] += external.variance[b];
        }
        factor(covariance, rows);
        const int first = groups == 1 ? 0 : g, last = groups == 1 ? samples : g + 1;
        for (int s = first; s < last; ++s) {
          const float* e = normals + (std::size_t(s) * layer.out + o) * rows;
          float* z = above + std::size_t(s) * sample + o;
          for (int a = 0; a < rows; ++a) {
            const float* l = covariance + triangle(a);
            float value = mean[a];
            for (int b = 0; b <= a; ++b) value += l[b] * e[b];
            z[std::size_t(a) * stride] = value;
          }
        }
      }
    }
    normals += std::size_t(samples) * std::size_t(layer.out) * std::size_t(rows);
    for (std::size_t k = 0; k < drawn; ++k) activate(layer.after, above + k * stride, layer.out);
    std::swap(below, above);
    groups = samples;
  }
  for (std::size_t k = 0; k < drawn; ++k)
    std::copy_n(below + k * stride, chain_.outputs(),
                outputs + k * std::size_t(chain_.outputs()));
}

}  // namespace tractable
