// Scratch memory of a batch: what the layers hold, and which inputs are active.
#pragma once

#include <vector>

#include "chain.hpp"
#include "kernels.hpp"
#include "observe.hpp"
#include "state.hpp"

namespace tractable {

class Workspace {
 public:
  Workspace(const Chain& chain, int lanes, int batch, bool learning)
      : state(chain, lanes), batch_(batch), learning_(learning) {
    const std::size_t rows = std::size_t(batch);
    for (const Layer& layer : chain.layers) {
      Level level;
      level.stride = padded(layer.rows(), lanes);
      level.width = padded(layer.out, lanes);
      const std::size_t stride = std::size_t(level.stride), width = std::size_t(level.width);
      const std::size_t inputs = std::size_t(layer.rows());
      level.floats = Block<float>(rows * (3 * stride + 6 * width));
      level.ints = Block<int>(2 * rows * inputs + rows + inputs);
      levels_.push_back(std::move(level));
      layers_.push_back(layer);
    }
    if (learning && batch > 1) g = Block<float>(2 * state.size());
  }

  int batch() const { return batch_; }
  bool learning() const { return learning_; }

  Inputs inputs(std::size_t l) const {
    const Level& level = levels_[l];
    const std::size_t size = std::size_t(batch_) * level.stride;
    float* at = level.floats.get();
    return {at, at + size, at + 2 * size, level.stride};
  }
  Outputs outputs(std::size_t l) const { return pair(l, 0); }   // moments of z
  Outputs messages(std::size_t l) const { return pair(l, 2); }  // to z
  float* own(std::size_t l) const { return pair(l, 4).first; }  // sum v a^2 of each z
  // Slopes of the activations after the last layer.
  float* output_slope() const { return pair(levels_.size() - 1, 4).second; }

  Active active(std::size_t l) const {
    const std::size_t size = std::size_t(batch_) * layers_[l].rows();
    int* at = levels_[l].ints.get();
    int* counts = at + 2 * size;
    return {at, counts, at + size, counts + batch_};
  }

  State state;
  Verdict verdict;
  Scratch scratch;
  Block<float> g;  // messages to the means of all weights, then to their variances

 private:
  struct Level {
    int stride = 0;  // of the inputs
    int width = 0;   // of the outputs
    Block<float> floats;
    Block<int> ints;
  };

  Outputs pair(std::size_t l, std::size_t which) const {
    const Level& level = levels_[l];
    const std::size_t size = std::size_t(batch_) * level.width;
    float* at = level.floats.get() + 3 * std::size_t(batch_) * level.stride + which * size;
    return {at, at + size};
  }

  int batch_;
  bool learning_;
  std::vector<Level> levels_;
  std::vector<Layer> layers_;
};

}  // namespace tractable
