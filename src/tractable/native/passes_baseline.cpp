// The loops for the instruction set that every processor of the platform has.
#include <cfloat>
#include <cstdint>
#include <cstring>

#include "passes.hpp"

#define TRACTABLE_LANES 4

namespace tractable {
namespace baseline {
#include "lanes.hpp"
#include "passes.inl"
}  // namespace baseline

const Passes& baseline_passes() {
  using namespace baseline;
  static const Passes passes = {"baseline", kLanes, activate, scan,  forward,
                                pull,       gather, apply,    apply_one, branch, joint};
  return passes;
}

}  // namespace tractable
