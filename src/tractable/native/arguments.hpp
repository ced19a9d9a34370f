// What Python hands over, checked: no other file of the kernel trusts an array.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "chain.hpp"
#include "learner.hpp"

namespace tractable {

namespace py = pybind11;

template <typename T>
using Array = py::array_t<T, py::array::c_style>;

[[noreturn]] inline void refuse(const std::string& what) { throw std::invalid_argument(what); }

// The elements of an array that are certain to lie where a T may lie.  pybind11 has checked the
// dtype and that they lie side by side, and holds a reference to the array during the call: so it
// stays, and NumPy refuses to resize it, as torch refuses for a tensor that NumPy looks at.  What
// is read through the pointer may still change once the GIL is released; sizes are taken before.
template <typename T>
const T* elements(const Array<T>& array) {
  if ((array.flags() & py::detail::npy_api::NPY_ARRAY_ALIGNED_) == 0)
    refuse("an array is not aligned");
  return array.data();
}

template <typename T>
T* elements_to_change(Array<T>& array) {
  elements(array);
  return array.mutable_data();
}

inline std::size_t product(std::size_t a, std::size_t b) {
  if (b != 0 && a > std::numeric_limits<std::size_t>::max() / b) refuse("the sizes are too large");
  return a * b;
}

// The caller's parameters, checked against the chain.
inline External parameters(const Chain& chain, Array<float>& loc, Array<float>& variance) {
  if (std::size_t(loc.size()) != chain.parameters || loc.size() != variance.size())
    refuse("the flat vectors do not have the size of the network");
  return {elements_to_change(loc), elements_to_change(variance), nullptr, nullptr, 0};
}

// The same and the noise.
inline External external(const Chain& chain, Array<float>& loc, Array<float>& variance,
                         Array<double>& noise_mean, Array<double>& noise_variance) {
  External mine = parameters(chain, loc, variance);
  const bool one_each = noise_mean.size() == chain.outputs();
  const bool shared = noise_mean.size() == 1 && chain.likelihood.kind == Observation::normal;
  const bool counts = chain.likelihood.counts_scatter();  // a dispersion each, and a number of rows
  if (noise_mean.size() != noise_variance.size() ||
      (chain.likelihood.noise() && !(one_each || shared)) ||
      (counts && noise_mean.size() != py::ssize_t(chain.outputs()) + 1))
    refuse("the noise does not have the size of the outputs");
  mine.noise_mean = elements_to_change(noise_mean);
  mine.noise_variance = elements_to_change(noise_variance);
  mine.noises = std::size_t(noise_mean.size());
  return mine;
}

// What the gate has learnt, which is given where there is a gate.
inline void set_gate(const Chain& chain, External& mine, std::optional<Array<double>>& surprise,
                     std::optional<Array<double>>& surprises) {
  if (!chain.gate) return;
  const std::size_t levels = chain.likelihood.noise() ? mine.noises : 1;
  if (!surprise || std::size_t(surprise->size()) != levels)
    refuse("the gate needs a level for each noise");
  if (!surprises || std::size_t(surprises->size()) != kLogged) refuse("the gate needs its log");
  mine.levels = levels;
  mine.surprise = elements_to_change(*surprise);
  mine.surprises = elements_to_change(*surprises);
}

inline Observations observations(const Chain& chain, const Array<float>& x,
                                 const std::optional<Array<float>>& x_variance) {
  if (x.ndim() != 2 || x.shape(1) != chain.inputs()) refuse("inputs do not fit the network");
  Observations data;
  data.x = elements(x);
  data.rows = std::size_t(x.shape(0));
  if (x_variance) {
    if (x_variance->size() != x.size()) refuse("input variances do not have the inputs' size");
    data.x_variance = elements(*x_variance);
  }
  return data;
}

// A copy of one index per row, all below `end`.  First copied, then checked: without the GIL, and
// even with it from torch, another thread may write to the caller's array, and the indices that
// were checked must be those that are used.
inline std::vector<std::int64_t> indices(const Array<std::int64_t>& array, std::size_t rows,
                                         std::int64_t end, const char* wrong_size,
                                         const char* out_of_range) {
  if (std::size_t(array.size()) != rows) refuse(wrong_size);
  const std::int64_t* from = elements(array);
  std::vector<std::int64_t> copy(from, from + rows);
  for (const std::int64_t index : copy)
    if (index < 0 || index >= end) refuse(out_of_range);
  return copy;
}

// What `Targets` points to beside the caller's numbers.
struct Indices {
  std::vector<std::int64_t> labels, order;
};

inline void set_targets(const Chain& chain, Observations& data, Indices& own,
                        const std::optional<Array<float>>& y,
                        const std::optional<Array<float>>& y_variance,
                        const std::optional<Array<std::int64_t>>& labels,
                        const std::optional<Array<std::int64_t>>& order) {
  const bool tree = chain.likelihood.tree();
  if (tree != labels.has_value() || tree == y.has_value()) refuse("wrong kind of targets");
  const std::size_t rows = data.rows;
  if (tree) {
    own.labels = indices(*labels, rows, chain.likelihood.classes, "one label per row is needed",
                         "a label is out of range");
    data.targets.labels = own.labels.data();
  } else {
    if (std::size_t(y->size()) != product(rows, std::size_t(chain.targets())))
      refuse("one target per output and row is needed");
    data.targets.values = elements(*y);
  }
  if (y_variance) {
    if (!chain.likelihood.noise() || y_variance->size() != y->size())
      refuse("target variances need a target each");
    data.targets.variances = elements(*y_variance);
  }
  if (order) {
    own.order = indices(*order, rows, std::int64_t(rows),
                        "the order must name as many rows as there are", "the order names no row");
    data.targets.order = own.order.data();
  }
}

}  // namespace tractable
