// The same loops for AVX2 with fused multiply-add.
//
// Every header comes before the instruction set changes, so that no inline function of the
// standard library is compiled for it and then shared with the rest.
#include <cfloat>
#include <cstdint>
#include <cstring>

#include "kernels.hpp"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#include <immintrin.h>

#define TRACTABLE_LANES 8

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif

namespace tractable {
namespace avx2 {
#include "lanes.hpp"
#include "kernels.inl"
}  // namespace avx2
}  // namespace tractable

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace tractable {

const Kernels* avx2_kernels() {
  using namespace avx2;
  static const Kernels kernels = {"avx2", kLanes, activate, scan,     forward,
                                  pull,   gather, apply,    apply_one, branch, joint};
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &kernels : nullptr;
}

}  // namespace tractable

#else

namespace tractable {
const Kernels* avx2_kernels() { return nullptr; }
}  // namespace tractable

#endif
