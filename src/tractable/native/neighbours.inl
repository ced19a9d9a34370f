// The search for the nearest kept rows, for numbers of type REAL and vectors of TRACTABLE_BYTES.
//
// Differences are squared one by one: |x|^2 - 2 x k + |k|^2 would lose the digits of rows that are
// near each other.  A row that has three kept rows within reach in both measures is beyond neither,
// and the search ends there.

typedef REAL Real;
typedef Real Vector __attribute__((vector_size(TRACTABLE_BYTES)));
typedef WHOLE Flags __attribute__((vector_size(TRACTABLE_BYTES)));

constexpr int kWide = TRACTABLE_BYTES / int(sizeof(Real));
constexpr int kVectors = kTogether / kWide;
constexpr std::size_t kLook = 4;  // blocks after which to see whether the search can end

inline Vector load(const Real* from) {
  Vector x;
  std::memcpy(&x, from, sizeof x);
  return x;
}

// The three least of the numbers that came by, in each lane.
struct Least {
  Vector value[kNearest];

  void clear() {
    for (Vector& v : value) v = Vector{} + std::numeric_limits<Real>::infinity();
  }

  void take(Vector x) {
    for (Vector& v : value) {
      const Vector larger = LARGER(v, x);
      v = SMALLER(v, x);
      x = larger;
    }
  }

  // How many of them are within a limit.
  int within(Real limit) const {
    Flags inside = {};
    for (const Vector& v : value) inside -= v <= limit;
    int total = 0;
    for (int k = 0; k < kWide; ++k) total += int(inside[k]);
    return total;
  }

  // Root of the mean of the least `number` of all lanes, less `limit`.
  Real beyond(int number, double limit) const {
    Real left[kNearest][kWide];
    std::memcpy(left, value, sizeof left);
    double sum = 0;
    for (int n = 0; n < number; ++n) {
      int lane = 0;
      for (int k = 1; k < kWide; ++k) lane = left[0][k] < left[0][lane] ? k : lane;
      sum += double(left[0][lane]);
      left[0][lane] = left[1][lane];
      left[1][lane] = left[2][lane];
      left[2][lane] = std::numeric_limits<Real>::infinity();
    }
    const double distance = std::sqrt(sum / number) - limit;
    return distance > 0 ? Real(distance) : Real(0);
  }
};

inline Real growth(Real first, Real second, double share) {
  return std::max(first * first, Real(second * second * share));
}

inline __attribute__((always_inline)) void search(const Kept<Real>& kept, const Real* x,
                                                  const bool weighted, Real* first, Real* second) {
  const std::size_t columns = kept.columns, blocks = (kept.count + kTogether - 1) / kTogether;
  const int number = kept.count < std::size_t(kNearest) ? int(kept.count) : kNearest;
  const Real reach = Real(kept.reach * kept.reach), near = Real(kept.near * kept.near);
  const std::size_t held = kept.count - (blocks - 1) * kTogether;
  Real outside[kTogether];  // infinite where the last block has no row
  for (std::size_t k = 0; k < kTogether; ++k)
    outside[k] = k < held ? Real(0) : std::numeric_limits<Real>::infinity();
  Least plain, other;
  plain.clear();
  other.clear();
  const Real* at = kept.rows;
  for (std::size_t block = 0; block < blocks; ++block) {
    Vector square[kVectors] = {}, change[kVectors] = {};
    for (std::size_t j = 0; j < columns; ++j, at += kTogether) {
      for (int v = 0; v < kVectors; ++v) {
        const Vector away = load(at + v * kWide) - x[j];
        const Vector own = away * away;
        square[v] += own;
        if (weighted) change[v] += own * kept.weights[j];
      }
    }
    const bool last = block + 1 == blocks;
    for (int v = 0; v < kVectors; ++v) {
      plain.take(last ? square[v] + load(outside + v * kWide) : square[v]);
      if (weighted) other.take(last ? change[v] + load(outside + v * kWide) : change[v]);
    }
    if (block % kLook == kLook - 1 && plain.within(reach) >= number &&
        (!weighted || other.within(near) >= number)) {
      *first = 0;
      if (weighted) *second = 0;
      return;
    }
  }
  *first = plain.beyond(number, kept.reach);
  if (weighted) *second = growth(*first, other.beyond(number, kept.near), kept.share);
}

void beyond(const Kept<Real>& kept, const Real* x, std::size_t rows, Real* first, Real* second) {
  for (std::size_t row = 0; row < rows; ++row, x += kept.columns) {
    if (second != nullptr)
      search(kept, x, true, first + row, second + row);
    else
      search(kept, x, false, first + row, nullptr);
  }
}
