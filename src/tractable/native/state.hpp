// The state that training changes, in the memory layout of the loops.
//
// An epoch works on this copy and writes it back at its end, so that an interrupted epoch changes
// nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <vector>

#include "chain.hpp"
#include "kernels.hpp"
#include "transpose.hpp"

namespace tractable {

constexpr std::size_t kAlignment = 64;

// Zeroed floats (or ints) that begin on a cache line.
template <typename T>
class Block {
 public:
  Block() = default;
  explicit Block(std::size_t size)
      : data_(static_cast<T*>(::operator new(std::max<std::size_t>(size, 1) * sizeof(T),
                                             std::align_val_t(kAlignment)))) {
    std::fill(data_.get(), data_.get() + size, T());
  }
  T* get() const { return data_.get(); }

 private:
  struct Free {
    void operator()(T* p) const { ::operator delete(p, std::align_val_t(kAlignment)); }
  };
  std::unique_ptr<T, Free> data_;
};

inline int padded(int size, int lanes) { return (size + lanes - 1) / lanes * lanes; }

// The caller's own memory: two flat vectors in the layout of tractable.posterior, and the noise.
// Numbers only: should another thread write to them meanwhile, the results are of no use, but no
// place in memory depends on them.
struct External {
  float* mean;
  float* variance;
  double* noise_mean;
  double* noise_variance;
  std::size_t noises;
  std::size_t levels = 0;       // number of gate levels: one per noise, or one for all
  double* surprise = nullptr;   // levels of the gate
  double* surprises = nullptr;  // log of the gate, kLogged numbers
};

// Number of outliers, and the last ones as target, mean and deviations
// (learners/methods/tagi/outlier_gate.py).
constexpr std::size_t kRemembered = 8;
constexpr std::size_t kLogged = 1 + 3 * kRemembered;

class State {
 public:
  State(const Chain& chain, int lanes) {
    std::size_t size = 0;
    for (const Layer& layer : chain.layers) {
      at_.push_back(size);
      widths_.push_back(padded(layer.out, lanes));
      rows_.push_back(layer.rows());
      size += std::size_t(rows_.back()) * widths_.back();
    }
    mean_ = Block<float>(size);
    variance_ = Block<float>(size);
    size_ = size;
  }

  Weights weights(std::size_t layer) const {
    return {mean_.get() + at_[layer], variance_.get() + at_[layer], rows_[layer],
            widths_[layer]};
  }

  std::size_t at(std::size_t layer) const { return at_[layer]; }
  int width(std::size_t layer) const { return widths_[layer]; }
  std::size_t size() const { return size_; }

  void take(const Chain& chain, const External& from) {
    for (std::size_t l = 0; l < chain.layers.size(); ++l) {
      copy_in(chain.layers[l], weights(l).mean, widths_[l], from.mean);
      copy_in(chain.layers[l], weights(l).variance, widths_[l], from.variance);
    }
    noise_mean.assign(from.noise_mean, from.noise_mean + from.noises);
    noise_variance.assign(from.noise_variance, from.noise_variance + from.noises);
    if (from.surprise != nullptr) {
      surprise.assign(from.surprise, from.surprise + from.levels);
      surprises.assign(from.surprises, from.surprises + kLogged);
    }
  }

  void give(const Chain& chain, const External& to) const {
    for (std::size_t l = 0; l < chain.layers.size(); ++l) {
      copy_out(chain.layers[l], weights(l).mean, widths_[l], to.mean);
      copy_out(chain.layers[l], weights(l).variance, widths_[l], to.variance);
    }
    std::copy(noise_mean.begin(), noise_mean.end(), to.noise_mean);
    std::copy(noise_variance.begin(), noise_variance.end(), to.noise_variance);
    if (to.surprise != nullptr) {
      std::copy(surprise.begin(), surprise.end(), to.surprise);
      std::copy(surprises.begin(), surprises.end(), to.surprises);
    }
  }

  std::vector<double> noise_mean, noise_variance, surprise, surprises;

 private:
  // Transposed: a row per input.  The padding begins as zeros in every call, whatever the numbers
  // of an earlier call have made of it.
  static void copy_in(const Layer& layer, float* packed, int width, const float* flat) {
    if (width != layer.out)
      std::fill(packed, packed + std::size_t(layer.rows()) * std::size_t(width), 0.0f);
    transpose(flat + layer.weight_at, layer.out, layer.in, layer.in, packed, width);
    if (layer.bias)
      std::copy(flat + layer.bias_at, flat + layer.bias_at + layer.out,
                packed + std::size_t(layer.in) * width);
  }

  static void copy_out(const Layer& layer, const float* packed, int width, float* flat) {
    transpose(packed, layer.in, layer.out, width, flat + layer.weight_at, layer.in);
    if (layer.bias)
      std::copy(packed + std::size_t(layer.in) * width,
                packed + std::size_t(layer.in) * width + layer.out, flat + layer.bias_at);
  }

  std::vector<std::size_t> at_;
  std::vector<int> widths_, rows_;
  std::size_t size_ = 0;
  Block<float> mean_, variance_;
};

}  // namespace tractable
