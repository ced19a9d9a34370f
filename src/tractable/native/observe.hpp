// Messages of an observation to the outputs, as in tractable.likelihoods.
#pragma once

#include <cstdint>
#include <vector>

#include "chain.hpp"
#include "kernels.hpp"
#include "state.hpp"

namespace tractable {

// Targets of one batch: numbers, or labels for the trees.  The numbers may
// be the caller's own; labels and order say where to read, so they are copies that were checked
// and that no other thread can change.
struct Targets {
  const float* values = nullptr;          // [rows][targets]
  const float* variances = nullptr;       // error bars of the values, or null
  const std::int64_t* labels = nullptr;   // [rows]
  const std::int64_t* order = nullptr;    // which rows form the batch, or null: `first` onwards
  std::size_t first = 0;

  std::size_t row(int b) const {
    return order ? std::size_t(order[first + b]) : first + std::size_t(b);
  }
  float variance(std::size_t at) const { return variances ? variances[at] : 0.0f; }
};

// Messages d to outputs z of a batch, both in rows of `width`; sums of their statistics in
// `scratch`, where a noise is learnt from them.
void observe(const Chain& chain, const State& state, const Targets& y, int batch, int width,
             Outputs z, Outputs d, Scratch& scratch);

// Weights of a batch by the outlier gate (learners/methods/tagi/outlier_gate.py); `record` applies them.
struct Verdict {
  bool any = false;            // whether a weight is below 1
  std::vector<double> weight;  // [batch][targets]
  std::vector<double> level;   // of each noise, after the batch
  std::vector<double> top;     // largest level in the batch
  std::vector<double> chi2;    // [batch][targets]
};
void judge(const Chain& chain, const State& state, const Targets& y, int batch, int width,
           Outputs z, Verdict& verdict);
// Multiply one of the messages by the weights.
void weigh(const Chain& chain, const Verdict& verdict, int batch, int width, float* message);
void record(const Chain& chain, State& state, const Targets& y, int batch, int width, Outputs z,
            const Verdict& verdict);

// Infer the noise from the same batch, if the likelihood does; `memory` is the number of rows to
// infer it from, or 0 for all, and `scratch` the result of `observe`.
void update_noise(const Chain& chain, State& state, const Targets& y, int batch, int width,
                  Outputs z, const Verdict& verdict, double memory, const Scratch& scratch);

// Statistics of the messages to the outputs for the batch rule.
struct Tally {
  double squares = 0;  // sum of d_mu^2
  double total = 0;    // the same over the outputs that received messages
  double c = 0;        // averages of own variance and of noise, weighted by d_mu^2
  double s2 = 0;
  double seen = 0;
  double fourth = 0;   // sum of d_mu^4
};
Tally tally(const Chain& chain, int batch, int width, Outputs z, Outputs d);

// The scale of the step (tractable/learners/methods/tagi/batch_rule.py, `plan`); `power` is sum v g^2.  Returns
// whether it is finite.
bool plan(const Chain& chain, const Tally& tally, double power, Change& change);

}  // namespace tractable
