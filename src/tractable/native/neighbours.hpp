// How far rows are from the nearest of a set of kept rows (tractable/learners/off_data/support.py).
#pragma once

#include <cstddef>

namespace tractable {

constexpr int kTogether = 32;  // kept rows that lie side by side, column after column
constexpr int kNearest = 3;    // rows that a distance is taken to

// The kept rows, [blocks][columns][kTogether]; what fills up the last block is not looked at.
template <typename Real>
struct Kept {
  const Real* rows;
  const Real* weights;  // of the squared differences in the second measure; may be null
  std::size_t columns;
  std::size_t count;
  double reach, near;  // up to which a distance counts as none, in either measure
  double share;        // factor on the square of the second distance
};

// `first` is the root mean square distance of each row to the nearest kept ones, less `reach`, and
// not below zero.  `second` is its square, or that of the second distance, less `near`, times
// `share` where that is greater; null where there are no weights.
template <typename Real>
using Beyond = void (*)(const Kept<Real>& kept, const Real* x, std::size_t rows, Real* first,
                        Real* second);

template <typename Real>
Beyond<Real> beyond_kept();  // for the best instruction set that can run here

}  // namespace tractable
