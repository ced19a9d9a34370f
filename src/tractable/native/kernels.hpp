// The loops over weights, compiled once per instruction set and chosen at run time.
#pragma once

#include <cstddef>

#include "chain.hpp"

namespace tractable {

// Moments of a layer's weights, one row per input (the bias is the row of an input that is 1),
// each row padded with zeros to whole vectors.  A weight of mean and variance zero contributes
// nothing and stays zero, so the padding needs no special treatment.
struct Weights {
  float* mean;
  float* variance;
  int rows;
  int width;  // of a row, padded
};

// Which inputs of which observations matter: after a ReLU about half are zero, with all their
// moments, and every loop below skips them.
struct Active {
  int* by_row;       // [batch][rows]: active inputs of each observation
  int* row_counts;   // [batch]
  int* by_input;     // [rows][batch]: observations in which each input is active
  int* input_counts; // [rows]
};

// Inputs of a layer, one row per observation; variance and slope may be null.
struct Inputs {
  float* mean;
  float* variance;
  float* slope;  // d input / d output of the layer below
  int stride;
};

// Moments of, or messages to, the outputs of a layer, one padded row per observation.
struct Outputs {
  float* first;
  float* second;
};

struct Totals {
  double power = 0;      // sum of v g^2
  double curvature = 0;  // sum of the messages to the variances
};

// The step of the batch rule, and the share to forget.
struct Change {
  float alpha = 1;
  float observed = 1;  // max(1, alpha * number of observed values)
  float rate = 0;      // share of the information to forget
  Rule rule = Rule::damped;
};

// What is known of the derivative of the output by the units above a layer, each [width]; `bent`
// is null where their slopes are constant (tractable/moments/input_derivative.py).
struct Branches {
  const float* mean;
  const float* variance;
  const float* bent;  // r times the bend and the slope of the unit: the weight of a covariance
};

// Sums over the units above, for one unit below that the weights mu and v join to them.
struct BranchSums {
  float rest = 0;       // sum E mu
  float own = 0;        // sum var (v + mu^2) + E^2 v
  float spread = 0;     // sum E^2 mu^2
  float shift = 0;      // sum bent v
  float mixed = 0;      // sum bent E v mu
  float square = 0;     // sum bent^2 v^2
  float curvature = 0;  // sum bent mu^2
};

struct Kernels {
  const char* name;
  int lanes;

  void (*activate)(const Activation* steps, int count, const float* mean, const float* variance,
                   int units, float* a, float* a_variance, float* slope);
  void (*scan)(int batch, int rows, Inputs a, Active active);
  // Moments of z = W a; `own` (or null) receives the part sum v a^2 of each variance.
  void (*forward)(Weights w, int batch, Inputs a, Active active, Outputs z, float* own);
  // Messages to the layer below, into [batch][below_width].
  void (*pull)(Weights w, int inputs, int batch, Inputs a, Active active, Outputs d,
               Outputs below, int below_width);
  // Messages to the weights, summed over the batch, into g and g_variance.
  Totals (*gather)(Weights w, int batch, Inputs a, Active active, Outputs d, float* g,
                   float* g_variance);
  // Change rows `from` to `to` by gathered messages.
  void (*apply)(Weights w, int from, int to, Active active, const float* g,
                const float* g_variance, Change change, float prior_variance);
  // The same for one observation, whose messages need not be gathered.
  void (*apply_one)(Weights w, int from, int to, Inputs a, Outputs d, Change change,
                    float prior_variance);
  // The sums of one row of weights.
  BranchSums (*branch)(const float* mu, const float* v, int width, Branches above);
  // Of one output, whose weights mu and v lie side by side: sum mu x_a for every row a of `x`, and
  // sum v x_a x_b for every pair b <= a, at a (a + 1) / 2 + b.
  void (*joint)(const float* mu, const float* v, int in, const float* x, int stride, int rows,
                float* mean, float* covariance);
};

const Kernels& baseline_kernels();
const Kernels* avx2_kernels();  // null where the compiler or the processor has none

}  // namespace tractable
