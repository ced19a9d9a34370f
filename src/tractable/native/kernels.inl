// The loops of kernels.hpp; included once per instruction set, after lanes.hpp.
//
// Equations: forward (8), (9), (14) and messages (11), (14) of Nguyen & Goulet (2022); the batch
// rule of tractable/learners/methods/tagi/batch_rule.py, which is the definition that this must agree with.

constexpr int kBlock = 4;  // vectors of outputs treated at once: sums stay in registers

// --- activations ---------------------------------------------------------------------------------

inline void value_and_slope(Activation step, Lanes& a, Lanes& slope) {
  switch (step.kind) {
    case Kind::relu:
      slope = a > 0.0f ? slope : Lanes{};
      a = at_least(a, Lanes{});
      break;
    case Kind::leaky_relu: {
      const Lanes k = a > 0.0f ? all(1.0f) : all(step.negative_slope);
      a *= k;
      slope *= k;
      break;
    }
    case Kind::tanh:
      a = tanh(a);
      slope *= 1.0f - a * a;
      break;
    case Kind::sigmoid:
      a = sigmoid(a);
      slope *= a * (1.0f - a);
      break;
  }
}

// All arrays are padded to whole vectors; `variance` may be null.
void activate(const Activation* steps, int count, const float* mean, const float* variance,
              int units, float* a, float* a_variance, float* slope) {
  for (int i = 0; i < units; i += kLanes) {
    Lanes value = load(mean + i), j = all(1.0f);
    for (int k = 0; k < count; ++k) value_and_slope(steps[k], value, j);
    store(a + i, value);
    store(slope + i, j);
    if (variance != nullptr) store(a_variance + i, load(variance + i) * (j * j));
  }
}

template <bool kSpread, bool kSlope>
void scan_batch(int batch, int rows, Inputs a, Active active) {
  int* __restrict counts = active.input_counts;
  int* __restrict by_input = active.by_input;
  int* __restrict by_row = active.by_row;
  for (int i = 0; i < rows; ++i) counts[i] = 0;
  for (int b = 0; b < batch; ++b, by_row += rows) {
    const float* mean = a.mean + std::size_t(b) * a.stride;
    const float* variance = kSpread ? a.variance + std::size_t(b) * a.stride : nullptr;
    const float* slope = kSlope ? a.slope + std::size_t(b) * a.stride : nullptr;
    int n = 0;
    for (int i = 0; i < rows; ++i) {
      const int on = int(mean[i] != 0.0f) | (kSpread ? int(variance[i] != 0.0f) : 0) |
                     (kSlope ? int(slope[i] != 0.0f) : 0);
      by_row[n] = i;
      n += on;
      by_input[std::size_t(i) * batch + counts[i]] = b;
      counts[i] += on;
    }
    active.row_counts[b] = n;
  }
}

void scan(int batch, int rows, Inputs a, Active active) {
  if (a.slope != nullptr) {
    scan_batch<true, true>(batch, rows, a, active);
  } else {
    a.variance != nullptr ? scan_batch<true, false>(batch, rows, a, active)
                          : scan_batch<false, false>(batch, rows, a, active);
  }
}

// --- moments forward -----------------------------------------------------------------------------

// `kSpread`: the inputs have variances.  `kOwn`: keep sum v a^2 apart.
template <int kVectors, bool kSpread, bool kOwn>
inline void forward_block(const float* mu, const float* v, int width, const float* a,
                          const float* va, const int* list, int count, float* z, float* vz,
                          float* own) {
  Lanes mean[kVectors] = {}, fixed[kVectors] = {}, spread[kVectors] = {};
  for (int n = 0; n < count; ++n) {
    const int i = list[n];
    const std::size_t at = std::size_t(i) * width;
    const Lanes x = all(a[i]), x2 = x * x;
    const Lanes vx = kSpread ? all(va[i]) : Lanes{};
    for (int k = 0; k < kVectors; ++k) {
      const Lanes m = load(mu + at + k * kLanes), s = load(v + at + k * kLanes);
      mean[k] += m * x;
      fixed[k] += s * x2;
      if (kSpread) spread[k] += (m * m + s) * vx;
    }
  }
  for (int k = 0; k < kVectors; ++k) {
    store(z + k * kLanes, mean[k]);
    store(vz + k * kLanes, kSpread ? fixed[k] + spread[k] : fixed[k]);
    if (kOwn) store(own + k * kLanes, fixed[k]);
  }
}

template <int kVectors, bool kSpread, bool kOwn>
inline void forward_column(Weights w, int at, int batch, Inputs a, Active active, Outputs z,
                           float* own) {
  for (int b = 0; b < batch; ++b) {
    const std::size_t in = std::size_t(b) * a.stride, out = std::size_t(b) * w.width + at;
    forward_block<kVectors, kSpread, kOwn>(
        w.mean + at, w.variance + at, w.width, a.mean + in, kSpread ? a.variance + in : nullptr,
        active.by_row + std::size_t(b) * w.rows, active.row_counts[b], z.first + out,
        z.second + out, kOwn ? own + out : nullptr);
  }
}

template <bool kSpread, bool kOwn>
void forward_layer(Weights w, int batch, Inputs a, Active active, Outputs z, float* own) {
  int at = 0;
  for (; at + kBlock * kLanes <= w.width; at += kBlock * kLanes)
    forward_column<kBlock, kSpread, kOwn>(w, at, batch, a, active, z, own);
  switch ((w.width - at) / kLanes) {
    case 3: forward_column<3, kSpread, kOwn>(w, at, batch, a, active, z, own); break;
    case 2: forward_column<2, kSpread, kOwn>(w, at, batch, a, active, z, own); break;
    case 1: forward_column<1, kSpread, kOwn>(w, at, batch, a, active, z, own); break;
  }
}

void forward(Weights w, int batch, Inputs a, Active active, Outputs z, float* own) {
  if (a.variance != nullptr) {
    own ? forward_layer<true, true>(w, batch, a, active, z, own)
        : forward_layer<true, false>(w, batch, a, active, z, own);
  } else {
    own ? forward_layer<false, true>(w, batch, a, active, z, own)
        : forward_layer<false, false>(w, batch, a, active, z, own);
  }
}

// --- messages backward ---------------------------------------------------------------------------

// Messages from kRows observations to one input.
template <int kRows>
inline void pull_some(const float* mu, int width, const int* list, Outputs d, int i, Inputs a,
                      Outputs below, int below_width) {
  Lanes first[kRows] = {}, second[kRows] = {};
  const float *from[kRows], *from_second[kRows];
  for (int r = 0; r < kRows; ++r) {
    from[r] = d.first + std::size_t(list[r]) * width;
    from_second[r] = d.second + std::size_t(list[r]) * width;
  }
  for (int o = 0; o < width; o += kLanes) {
    const Lanes m = load(mu + o), m2 = m * m;
    for (int r = 0; r < kRows; ++r) {
      first[r] += m * load(from[r] + o);
      second[r] += m2 * load(from_second[r] + o);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    const float j = a.slope[std::size_t(list[r]) * a.stride + i];
    const std::size_t to = std::size_t(list[r]) * below_width + i;
    below.first[to] = j * sum(first[r]);
    below.second[to] = j * j * sum(second[r]);
  }
}

void pull(Weights w, int inputs, int batch, Inputs a, Active active, Outputs d, Outputs below,
          int below_width) {
  const std::size_t size = std::size_t(batch) * below_width * sizeof(float);
  std::memset(below.first, 0, size);
  std::memset(below.second, 0, size);
  for (int i = 0; i < inputs; ++i) {
    const float* mu = w.mean + std::size_t(i) * w.width;
    const int* list = active.by_input + std::size_t(i) * batch;
    int n = active.input_counts[i];
    for (; n >= 4; n -= 4, list += 4)
      pull_some<4>(mu, w.width, list, d, i, a, below, below_width);
    if (n >= 2) {
      pull_some<2>(mu, w.width, list, d, i, a, below, below_width);
      n -= 2;
      list += 2;
    }
    if (n == 1) pull_some<1>(mu, w.width, list, d, i, a, below, below_width);
  }
}

template <int kVectors>
inline void gather_column(Weights w, int at, int batch, Inputs a, Active active, Outputs d,
                          float* g, float* g_variance, Totals& totals) {
  for (int i = 0; i < w.rows; ++i) {
    const int count = active.input_counts[i];
    if (count == 0) continue;
    const int* list = active.by_input + std::size_t(i) * batch;
    Lanes first[kVectors] = {}, second[kVectors] = {};
    for (int n = 0; n < count; ++n) {
      const std::size_t b = list[n];
      const Lanes x = all(a.mean[b * a.stride + i]), x2 = x * x;
      const float* d_mu = d.first + b * w.width + at;
      const float* d_var = d.second + b * w.width + at;
      for (int k = 0; k < kVectors; ++k) {
        first[k] += x * load(d_mu + k * kLanes);
        second[k] += x2 * load(d_var + k * kLanes);
      }
    }
    const std::size_t to = std::size_t(i) * w.width + at;
    Lanes power = {}, curvature = {};
    for (int k = 0; k < kVectors; ++k) {
      store(g + to + k * kLanes, first[k]);
      store(g_variance + to + k * kLanes, second[k]);
      power += load(w.variance + to + k * kLanes) * (first[k] * first[k]);
      curvature += second[k];
    }
    totals.power += sum(power);
    totals.curvature += sum(curvature);
  }
}

Totals gather(Weights w, int batch, Inputs a, Active active, Outputs d, float* g,
              float* g_variance) {
  Totals totals;
  int at = 0;
  for (; at + kBlock * kLanes <= w.width; at += kBlock * kLanes)
    gather_column<kBlock>(w, at, batch, a, active, d, g, g_variance, totals);
  switch ((w.width - at) / kLanes) {
    case 3: gather_column<3>(w, at, batch, a, active, d, g, g_variance, totals); break;
    case 2: gather_column<2>(w, at, batch, a, active, d, g, g_variance, totals); break;
    case 1: gather_column<1>(w, at, batch, a, active, d, g, g_variance, totals); break;
  }
  return totals;
}

// --- the batch rule ------------------------------------------------------------------------------

// The change of eight weights; written so that shrinking and forgetting share one division:
// with v' = v N / D and 1/v'' = (1 - rate)/v' + rate/v0,  v'' = v N / ((1 - rate) D + v N rate/v0).
template <Rule kRule, bool kForget>
inline void change_lanes(float* mean, float* variance, Lanes g, Lanes g_variance, Change c,
                         float forgotten) {
  const Lanes v = load(variance);
  store(mean, load(mean) + g * v * c.alpha);
  const Lanes q = g_variance * v * -c.alpha;
  Lanes top, bottom;
  if (kRule == Rule::damped) {
    const float part = 1.0f / c.observed;
    top = v * at_least(1.0f - q * part, Lanes{});
    bottom = 1.0f + q * (1.0f - part);
  } else {
    const auto small = q <= 0.5f;
    top = v * (small ? 1.0f - q : all(0.25f));
    bottom = small ? all(1.0f) : q;
  }
  if (kForget) bottom = (1.0f - c.rate) * bottom + forgotten * top;
  store(variance, top / at_least(bottom, all(FLT_MIN)));
}

inline void forget_row(float* variance, int width, Change c, float forgotten) {
  for (int o = 0; o < width; o += kLanes) {
    const Lanes v = load(variance + o);
    store(variance + o, v / at_least((1.0f - c.rate) + forgotten * v, all(FLT_MIN)));
  }
}

template <Rule kRule, bool kForget>
void apply_rows(Weights w, int from, int to, Active active, const float* g,
                const float* g_variance, Change c, float forgotten) {
  for (int i = from; i < to; ++i) {
    const std::size_t row = std::size_t(i) * w.width;
    if (active.input_counts[i] == 0) {
      if (kForget) forget_row(w.variance + row, w.width, c, forgotten);
      continue;
    }
    for (int o = 0; o < w.width; o += kLanes)
      change_lanes<kRule, kForget>(w.mean + row + o, w.variance + row + o, load(g + row + o),
                                   load(g_variance + row + o), c, forgotten);
  }
}

void apply(Weights w, int from, int to, Active active, const float* g, const float* g_variance,
           Change c, float prior_variance) {
  const float forgotten = c.rate / prior_variance;
  if (c.rule == Rule::damped) {
    c.rate > 0 ? apply_rows<Rule::damped, true>(w, from, to, active, g, g_variance, c, forgotten)
               : apply_rows<Rule::damped, false>(w, from, to, active, g, g_variance, c, forgotten);
  } else {
    c.rate > 0
        ? apply_rows<Rule::published, true>(w, from, to, active, g, g_variance, c, forgotten)
        : apply_rows<Rule::published, false>(w, from, to, active, g, g_variance, c, forgotten);
  }
}

template <Rule kRule, bool kForget>
void apply_one_rows(Weights w, int from, int to, Inputs a, Outputs d, Change c, float forgotten) {
  for (int i = from; i < to; ++i) {
    const std::size_t row = std::size_t(i) * w.width;
    const float x = a.mean[i];
    if (x == 0.0f) {
      if (kForget) forget_row(w.variance + row, w.width, c, forgotten);
      continue;
    }
    const float x2 = x * x;
    for (int o = 0; o < w.width; o += kLanes)
      change_lanes<kRule, kForget>(w.mean + row + o, w.variance + row + o,
                                   x * load(d.first + o), x2 * load(d.second + o), c, forgotten);
  }
}

void apply_one(Weights w, int from, int to, Inputs a, Outputs d, Change c, float prior_variance) {
  const float forgotten = c.rate / prior_variance;
  if (c.rule == Rule::damped) {
    c.rate > 0 ? apply_one_rows<Rule::damped, true>(w, from, to, a, d, c, forgotten)
               : apply_one_rows<Rule::damped, false>(w, from, to, a, d, c, forgotten);
  } else {
    c.rate > 0 ? apply_one_rows<Rule::published, true>(w, from, to, a, d, c, forgotten)
               : apply_one_rows<Rule::published, false>(w, from, to, a, d, c, forgotten);
  }
}

// --- derivatives ---------------------------------------------------------------------------------

template <bool kBent>
inline BranchSums branch_sums(const float* mu, const float* v, int width, Branches above) {
  Lanes rest = {}, own = {}, spread = {}, shift = {}, mixed = {}, square = {}, curvature = {};
  for (int o = 0; o < width; o += kLanes) {
    const Lanes m = load(mu + o), s = load(v + o), e = load(above.mean + o);
    const Lanes m2 = m * m, e2 = e * e;
    rest += e * m;
    own += load(above.variance + o) * (s + m2) + e2 * s;
    spread += e2 * m2;
    if (kBent) {
      const Lanes bent = load(above.bent + o), share = bent * s;
      shift += share;
      mixed += share * e * m;
      square += share * share;
      curvature += bent * m2;
    }
  }
  BranchSums sums;
  sums.rest = sum(rest);
  sums.own = sum(own);
  sums.spread = sum(spread);
  if (kBent) {
    sums.shift = sum(shift);
    sums.mixed = sum(mixed);
    sums.square = sum(square);
    sums.curvature = sum(curvature);
  }
  return sums;
}

BranchSums branch(const float* mu, const float* v, int width, Branches above) {
  return above.bent != nullptr ? branch_sums<true>(mu, v, width, above)
                               : branch_sums<false>(mu, v, width, above);
}

// --- draws ---------------------------------------------------------------------------------------

inline float sum_of_products(const float* v, const float* x, const float* y, int size) {
  Lanes total = {};
  int i = 0;
  for (; i + kLanes <= size; i += kLanes) total += load(v + i) * load(x + i) * load(y + i);
  float rest = 0;
  for (; i < size; ++i) rest += v[i] * x[i] * y[i];
  return sum(total) + rest;
}

void joint(const float* mu, const float* v, int in, const float* x, int stride, int rows,
           float* mean, float* covariance) {
  for (int a = 0; a < rows; ++a) {
    const float* row = x + std::size_t(a) * stride;
    Lanes first = {}, second = {};
    int i = 0;
    for (; i + kLanes <= in; i += kLanes) {
      const Lanes value = load(row + i);
      first += load(mu + i) * value;
      second += load(v + i) * (value * value);
    }
    float m = sum(first), c = sum(second);
    for (; i < in; ++i) {
      m += mu[i] * row[i];
      c += v[i] * row[i] * row[i];
    }
    for (int b = 0; b < a; ++b)
      *covariance++ = sum_of_products(v, row, x + std::size_t(b) * stride, in);
    mean[a] = m;
    *covariance++ = c;
  }
}
