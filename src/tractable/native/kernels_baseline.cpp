// The loops for the instruction set that every processor of the platform has.
#include <cfloat>
#include <cstdint>
#include <cstring>

#include "kernels.hpp"

#define TRACTABLE_LANES 4

namespace tractable {
namespace baseline {
#include "lanes.hpp"
#include "kernels.inl"
}  // namespace baseline

const Kernels& baseline_kernels() {
  using namespace baseline;
  static const Kernels kernels = {"baseline", kLanes, activate, scan,  forward,
                                  pull,       gather, apply,    apply_one, branch, joint};
  return kernels;
}

}  // namespace tractable
