// One batch, one epoch, one prediction.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "chain.hpp"
#include "kernels.hpp"
#include "observe.hpp"
#include "state.hpp"

namespace tractable {

// Inputs of all observations; variance is null for exact inputs.  Numbers only, never indices: see
// `Targets`.
struct Observations {
  const float* x = nullptr;
  const float* x_variance = nullptr;
  std::size_t rows = 0;
  Targets targets;
};

struct Epoch {
  std::size_t batch_size = 1;
  double forget = 0;                // share to forget over the epoch
  std::vector<double> priors;       // prior variances: weight, then bias if any, of each layer
  double memory = 0;                // rows to infer the noise from, or 0 for all
};

// Scratch memory for batches of up to `batch` rows.
class Workspace;

// Called repeatedly with the number of finished batches; an exception stops the epoch.
using Progress = std::function<void(std::size_t)>;

// A chain ready to run.  It holds no parameters, and every call has a workspace of its own, so one
// may serve several models and threads.
class Learner {
 public:
  Learner(Chain chain, const Kernels& kernels);
  ~Learner();

  // Learn all rows once, in batches.  Returns the number of batches learnt, which is less than
  // all when a message was not finite: then `state` is as it was before that batch.  An exception
  // of `progress` leaves `external` untouched.
  std::size_t run(const External& external, const Observations& data, const Epoch& epoch,
                  const Progress& progress) const;

  // Moments of the outputs, into [rows][outputs].
  void predict(const External& external, const Observations& data, float* mean,
               float* variance) const;

  // The reason why derivatives are not supported, or null.
  const char* no_derivatives() const;
  // Moments of the derivative of the only output by every input, into [rows][inputs]: mean,
  // variance, and covariance with the input over the input's variance.
  void derivatives(const External& external, const Observations& data, float* mean,
                   float* variance, float* curvature) const;

  // Outputs of `rows` rows of inputs under draws of the weights, which all rows of a draw share,
  // into [samples][rows][outputs].  `normals`: units() times samples times rows of them.
  void draw(const External& external, const float* x, int rows, int samples,
            const float* normals, float* outputs) const;
  std::size_t units() const;

  // Scratch with the parameters in it, for many predictions with the same ones.
  std::unique_ptr<Workspace> taken(const External& external) const;
  void predict(Workspace& work, const Observations& data, float* mean, float* variance) const;

  const Chain& chain() const { return chain_; }
  const Kernels& kernels() const { return kernels_; }

 private:
  class Lease;
  void forward(const State& state, Workspace& work, const Observations& data, int batch,
               bool single) const;
  void derive(const Workspace& work, int row, float* mean, float* variance,
              float* curvature) const;
  void backward(const State& state, Workspace& work, int batch) const;
  Totals gather(const State& state, Workspace& work, int batch) const;
  void apply(State& state, Workspace& work, int batch, const Change& change,
             const std::vector<double>& priors) const;
  bool step(State& state, Workspace& work, const Observations& data, int batch,
            const Epoch& epoch) const;

  Chain chain_;
  const Kernels& kernels_;
  // Scratch of earlier calls, so that single updates need not allocate.
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Workspace>> idle_;
};

}  // namespace tractable
