// The search for the nearest kept rows, compiled for each instruction set and chosen at run time.
//
// Every header comes before the instruction set changes (see kernels_avx2.cpp).
#if defined(__GNUC__) && !defined(__clang__)
// GCC's own _mm512_min_ps has an operand that is never read, and warns of it (its bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include "neighbours.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define TRACTABLE_X86
#include <immintrin.h>
#endif

namespace tractable {
namespace {

namespace baseline {
#define TRACTABLE_BYTES 16
#define SMALLER(a, b) ((a) < (b) ? (a) : (b))
#define LARGER(a, b) ((a) < (b) ? (b) : (a))
namespace single {
#define REAL float
#define WHOLE std::int32_t
#include "neighbours.inl"
#undef REAL
#undef WHOLE
}  // namespace single
namespace twofold {
#define REAL double
#define WHOLE std::int64_t
#include "neighbours.inl"
#undef REAL
#undef WHOLE
}  // namespace twofold
#undef TRACTABLE_BYTES
#undef SMALLER
#undef LARGER
}  // namespace baseline

}  // namespace
}  // namespace tractable

#ifdef TRACTABLE_X86

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif

namespace tractable {
namespace {
namespace avx2 {
#define TRACTABLE_BYTES 32
namespace single {
#define REAL float
#define WHOLE std::int32_t
#define SMALLER(a, b) ((Vector)_mm256_min_ps((__m256)(a), (__m256)(b)))
#define LARGER(a, b) ((Vector)_mm256_max_ps((__m256)(a), (__m256)(b)))
#include "neighbours.inl"
#undef REAL
#undef WHOLE
#undef SMALLER
#undef LARGER
}  // namespace single
namespace twofold {
#define REAL double
#define WHOLE std::int64_t
#define SMALLER(a, b) ((Vector)_mm256_min_pd((__m256d)(a), (__m256d)(b)))
#define LARGER(a, b) ((Vector)_mm256_max_pd((__m256d)(a), (__m256d)(b)))
#include "neighbours.inl"
#undef REAL
#undef WHOLE
#undef SMALLER
#undef LARGER
}  // namespace twofold
#undef TRACTABLE_BYTES
}  // namespace avx2
}  // namespace
}  // namespace tractable

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f")
#endif

namespace tractable {
namespace {
namespace avx512 {
#define TRACTABLE_BYTES 64
namespace single {
#define REAL float
#define WHOLE std::int32_t
#define SMALLER(a, b) ((Vector)_mm512_min_ps((__m512)(a), (__m512)(b)))
#define LARGER(a, b) ((Vector)_mm512_max_ps((__m512)(a), (__m512)(b)))
#include "neighbours.inl"
#undef REAL
#undef WHOLE
#undef SMALLER
#undef LARGER
}  // namespace single
namespace twofold {
#define REAL double
#define WHOLE std::int64_t
#define SMALLER(a, b) ((Vector)_mm512_min_pd((__m512d)(a), (__m512d)(b)))
#define LARGER(a, b) ((Vector)_mm512_max_pd((__m512d)(a), (__m512d)(b)))
#include "neighbours.inl"
#undef REAL
#undef WHOLE
#undef SMALLER
#undef LARGER
}  // namespace twofold
#undef TRACTABLE_BYTES
}  // namespace avx512
}  // namespace
}  // namespace tractable

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif

namespace tractable {

template <>
Beyond<float> beyond_kept<float>() {
#ifdef TRACTABLE_X86
  if (__builtin_cpu_supports("avx512f")) return avx512::single::beyond;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2::single::beyond;
#endif
  return baseline::single::beyond;
}

template <>
Beyond<double> beyond_kept<double>() {
#ifdef TRACTABLE_X86
  if (__builtin_cpu_supports("avx512f")) return avx512::twofold::beyond;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2::twofold::beyond;
#endif
  return baseline::twofold::beyond;
}

}  // namespace tractable
