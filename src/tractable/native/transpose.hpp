// A matrix turned, four by four: the layout of torch's weights and that of the loops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tractable {

// to[c][r] = from[r][c]; the strides are the lengths of the rows in memory.
inline void transpose(const float* from, int rows, int columns, int from_stride, float* to,
                      int to_stride) {
  typedef float Four __attribute__((vector_size(16)));
#if defined(__clang__)
#define TRACTABLE_PICK(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
  typedef std::int32_t Places __attribute__((vector_size(16)));
#define TRACTABLE_PICK(a, b, i, j, k, l) __builtin_shuffle(a, b, Places{i, j, k, l})
#endif
  const auto load = [](const float* at) {
    Four x;
    std::memcpy(&x, at, sizeof x);
    return x;
  };
  const auto store = [](float* at, Four x) { std::memcpy(at, &x, sizeof x); };
  const std::size_t step = std::size_t(from_stride), stride = std::size_t(to_stride);
  int r = 0;
  for (; r + 4 <= rows; r += 4) {
    const float* in = from + std::size_t(r) * step;
    float* out = to + r;
    int c = 0;
    for (; c + 4 <= columns; c += 4, in += 4, out += 4 * stride) {
      const Four a = load(in), b = load(in + step);
      const Four d = load(in + 2 * step), e = load(in + 3 * step);
      const Four ab = TRACTABLE_PICK(a, b, 0, 4, 1, 5), ab2 = TRACTABLE_PICK(a, b, 2, 6, 3, 7);
      const Four de = TRACTABLE_PICK(d, e, 0, 4, 1, 5), de2 = TRACTABLE_PICK(d, e, 2, 6, 3, 7);
      store(out, TRACTABLE_PICK(ab, de, 0, 1, 4, 5));
      store(out + stride, TRACTABLE_PICK(ab, de, 2, 3, 6, 7));
      store(out + 2 * stride, TRACTABLE_PICK(ab2, de2, 0, 1, 4, 5));
      store(out + 3 * stride, TRACTABLE_PICK(ab2, de2, 2, 3, 6, 7));
    }
    for (; c < columns; ++c, ++in, out += stride)
      for (int k = 0; k < 4; ++k) out[k] = in[std::size_t(k) * step];
  }
  for (; r < rows; ++r)
    for (int c = 0; c < columns; ++c)
      to[std::size_t(c) * stride + std::size_t(r)] = from[std::size_t(r) * step + std::size_t(c)];
#undef TRACTABLE_PICK
}

}  // namespace tractable
