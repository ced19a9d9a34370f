// Several floats at once, as wide as the instruction set this file is compiled for.
//
// Included after the instruction set is chosen, inside a namespace of its own, because the same
// source is compiled once per instruction set (see kernels_*.cpp).

typedef float Lanes __attribute__((vector_size(4 * TRACTABLE_LANES)));
typedef std::int32_t Whole __attribute__((vector_size(4 * TRACTABLE_LANES)));

constexpr int kLanes = TRACTABLE_LANES;

inline Lanes load(const float* from) {
  Lanes x;
  std::memcpy(&x, from, sizeof x);
  return x;
}

inline void store(float* to, Lanes x) { std::memcpy(to, &x, sizeof x); }

inline Lanes all(float x) { return x - Lanes{}; }

// The second argument where a comparison with NaN fails: NaN stays NaN in `x`.
inline Lanes at_least(Lanes x, Lanes floor) { return x < floor ? floor : x; }
inline Lanes at_most(Lanes x, Lanes ceiling) { return x > ceiling ? ceiling : x; }

inline float sum(Lanes x) {
#if TRACTABLE_LANES == 8
  __m128 s = _mm_add_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
#else
  float total = 0;
  for (int k = 0; k < kLanes; ++k) total += x[k];
  return total;
#endif
}

// exp(x) by the reduction and polynomial of the Cephes library: within 2 units in the last place.
inline Lanes exp(Lanes x) {
  x = at_most(at_least(x, all(-87.3f)), all(88.0f));
  Lanes t = x * 1.44269504088896341f;
  t += t < 0.0f ? all(-0.5f) : all(0.5f);
  const Whole n = __builtin_convertvector(t, Whole);
  const Lanes k = __builtin_convertvector(n, Lanes);
  x -= k * 0.693359375f;
  x -= k * -2.12194440e-4f;
  Lanes p = all(1.9875691500e-4f);
  p = p * x + 1.3981999507e-3f;
  p = p * x + 8.3334519073e-3f;
  p = p * x + 4.1665795894e-2f;
  p = p * x + 1.6666665459e-1f;
  p = p * x + 5.0000001201e-1f;
  p = p * x * x + x + 1.0f;
  const Whole power = (n + 127) << 23;
  Lanes scale;
  std::memcpy(&scale, &power, sizeof scale);
  return p * scale;
}

inline Lanes sigmoid(Lanes x) { return 1.0f / (1.0f + exp(-x)); }

inline Lanes tanh(Lanes x) {
  const Lanes magnitude = x < 0.0f ? -x : x;
  const Lanes far = 1.0f - 2.0f / (exp(2.0f * at_most(magnitude, all(20.0f))) + 1.0f);
  const Lanes s = x * x;
  Lanes p = all(-5.70498872745e-3f);
  p = p * s + 2.06390887954e-2f;
  p = p * s - 5.37397155531e-2f;
  p = p * s + 1.33314422036e-1f;
  p = p * s - 3.33332819422e-1f;
  const Lanes near = p * s * x + x;
  return magnitude < 0.625f ? near : (x < 0.0f ? -far : far);
}
