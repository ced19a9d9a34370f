#include "learner.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <utility>

#include "workspace.hpp"

namespace tractable {
namespace {

constexpr std::size_t kPredictedAtOnce = 32;
constexpr std::chrono::milliseconds kBetweenReports(100);
constexpr std::size_t kWeightsBetweenLooks = 1 << 18;  // look at the clock about every 0.1 ms
constexpr std::size_t kKept = 4;                       // idle workspaces

}  // namespace

// A workspace for the length of a call, which no other call can have meanwhile.  Nothing under the
// mutex waits for the GIL, so that a thread that holds one of them cannot wait for the other.
class Learner::Lease {
 public:
  Lease(const Learner& learner, int batch, bool learning) : learner_(learner) {
    {
      const std::lock_guard<std::mutex> lock(learner.mutex_);
      auto& idle = learner.idle_;
      const auto fits = std::find_if(idle.begin(), idle.end(), [&](const auto& work) {
        return work->batch() == batch && work->learning() == learning;
      });
      if (fits != idle.end()) {
        work_ = std::move(*fits);
        idle.erase(fits);
      }
    }
    if (!work_)
      work_ = std::make_unique<Workspace>(learner.chain_, learner.kernels_.lanes, batch, learning);
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    const std::lock_guard<std::mutex> lock(learner_.mutex_);
    if (learner_.idle_.size() == kKept) learner_.idle_.erase(learner_.idle_.begin());
    learner_.idle_.push_back(std::move(work_));
  }
  Workspace& operator*() const { return *work_; }

 private:
  const Learner& learner_;
  std::unique_ptr<Workspace> work_;
};

Learner::Learner(Chain chain, const Kernels& kernels)
    : chain_(std::move(chain)), kernels_(kernels) {
  idle_.reserve(kKept);
}

Learner::~Learner() = default;

void Learner::forward(const State& state, Workspace& work, const Observations& data, int batch,
                      bool single) const {
  const std::size_t width = std::size_t(chain_.inputs());
  Inputs a = work.inputs(0);
  const bool spread = data.x_variance != nullptr;
  for (int b = 0; b < batch; ++b) {
    const std::size_t from = data.targets.row(b) * width, to = std::size_t(b) * a.stride;
    std::memcpy(a.mean + to, data.x + from, width * sizeof(float));
    if (spread) std::memcpy(a.variance + to, data.x_variance + from, width * sizeof(float));
    if (!chain_.before.empty())
      kernels_.activate(chain_.before.data(), int(chain_.before.size()), a.mean + to,
                        spread ? a.variance + to : nullptr, a.stride, a.mean + to,
                        a.variance + to, a.slope + to);
  }
  if (!spread) a.variance = nullptr;
  a.slope = nullptr;
  for (std::size_t l = 0; l < chain_.layers.size(); ++l) {
    const Layer& layer = chain_.layers[l];
    if (layer.bias) {
      for (int b = 0; b < batch; ++b) {
        const std::size_t at = std::size_t(b) * a.stride + layer.in;
        a.mean[at] = 1;
        if (a.variance) a.variance[at] = 0;
        if (a.slope) a.slope[at] = 0;
      }
    }
    const Outputs z = work.outputs(l);
    const Active active = work.active(l);
    kernels_.scan(batch, layer.rows(), a, active);
    kernels_.forward(state.weights(l), batch, a, active, z, single ? work.own(l) : nullptr);
    const int out = state.width(l);
    const bool last = l + 1 == chain_.layers.size();
    // The activations after the last layer, if any, are done in place.
    const Inputs next = last ? Inputs{z.first, z.second, nullptr, out} : work.inputs(l + 1);
    const int count = int(layer.after.size());
    if (last && count == 0) break;
    for (int b = 0; b < batch; ++b) {
      const std::size_t from = std::size_t(b) * out, to = std::size_t(b) * next.stride;
      float* slope = last ? work.output_slope() + from : next.slope + to;
      kernels_.activate(layer.after.data(), count, z.first + from, z.second + from, out,
                        next.mean + to, next.variance + to, slope);
    }
    a = next;
  }
}

// Messages from the outputs down to the outputs of every layer.
void Learner::backward(const State& state, Workspace& work, int batch) const {
  const std::size_t last = chain_.layers.size() - 1;
  if (!chain_.layers[last].after.empty()) {
    const Outputs d = work.messages(last);
    const float* slope = work.output_slope();
    const std::size_t width = std::size_t(state.width(last)), outputs = chain_.outputs();
    // Not the padding, where the slopes of a batch that is not finite may be NaN: nobody sets the
    // messages there again, so a NaN would stay for all later batches.
    for (std::size_t first = 0; first < std::size_t(batch) * width; first += width) {
      for (std::size_t k = first; k < first + outputs; ++k) {
        d.first[k] *= slope[k];
        d.second[k] *= slope[k] * slope[k];
      }
    }
  }
  for (std::size_t l = last; l > 0; --l)
    kernels_.pull(state.weights(l), chain_.layers[l].in, batch, work.inputs(l), work.active(l),
                  work.messages(l), work.messages(l - 1), state.width(l - 1));
}

// Messages to the weights; of a single observation only their totals are needed.
Totals Learner::gather(const State& state, Workspace& work, int batch) const {
  Totals totals;
  for (std::size_t l = 0; l < chain_.layers.size(); ++l) {
    const Outputs d = work.messages(l);
    const Inputs a = work.inputs(l);
    if (batch == 1) {
      const float* own = work.own(l);
      double d_var = 0, squares = 0;
      for (int o = 0; o < state.width(l); ++o) {
        totals.power += double(d.first[o]) * d.first[o] * own[o];
        d_var += d.second[o];
      }
      for (int i = 0; i < chain_.layers[l].rows(); ++i) squares += double(a.mean[i]) * a.mean[i];
      totals.curvature += d_var * squares;
    } else {
      float* g = work.g.get() + state.at(l);
      const Totals more = kernels_.gather(state.weights(l), batch, a, work.active(l), d, g,
                                          g + state.size());
      totals.power += more.power;
      totals.curvature += more.curvature;
    }
  }
  return totals;
}

void Learner::apply(State& state, Workspace& work, int batch, const Change& change,
                    const std::vector<double>& priors) const {
  std::size_t prior = 0;
  for (std::size_t l = 0; l < chain_.layers.size(); ++l) {
    const Layer& layer = chain_.layers[l];
    const int ends[] = {0, layer.in, layer.rows()};
    for (int part = 0; part < (layer.bias ? 2 : 1); ++part) {
      const float prior_variance = float(priors[prior++]);
      if (batch == 1) {
        kernels_.apply_one(state.weights(l), ends[part], ends[part + 1], work.inputs(l),
                           work.messages(l), change, prior_variance);
      } else {
        const float* g = work.g.get() + state.at(l);
        kernels_.apply(state.weights(l), ends[part], ends[part + 1], work.active(l), g,
                       g + state.size(), change, prior_variance);
      }
    }
  }
}

bool Learner::step(State& state, Workspace& work, const Observations& data, int batch,
                   const Epoch& epoch) const {
  forward(state, work, data, batch, batch == 1);
  const std::size_t last = chain_.layers.size() - 1;
  const int width = state.width(last);
  const Outputs z = work.outputs(last), d = work.messages(last);
  observe(chain_, state, data.targets, batch, width, z, d, work.scratch);
  judge(chain_, state, data.targets, batch, width, z, work.verdict);
  weigh(chain_, work.verdict, batch, width, d.first);
  const Tally heard = tally(chain_, batch, width, z, d);  // with the variances as if all believed
  weigh(chain_, work.verdict, batch, width, d.second);
  backward(state, work, batch);
  const Totals totals = gather(state, work, batch);
  if (!std::isfinite(float(totals.power + totals.curvature))) return false;
  Change change;
  if (!plan(chain_, heard, totals.power, change)) return false;
  change.rate = float(epoch.forget * (double(batch) / double(data.rows)));
  apply(state, work, batch, change, epoch.priors);
  update_noise(chain_, state, data.targets, batch, width, z, work.verdict, epoch.memory,
               work.scratch);
  record(chain_, state, data.targets, batch, width, z, work.verdict);
  return true;
}

std::size_t Learner::run(const External& external, const Observations& all, const Epoch& epoch,
                         const Progress& progress) const {
  using Clock = std::chrono::steady_clock;
  const std::size_t size = std::min(epoch.batch_size, all.rows);
  const Lease lease(*this, int(size), true);
  Workspace& work = *lease;
  State& state = work.state;
  state.take(chain_, external);
  Observations data = all;
  Clock::time_point reported = Clock::now();
  std::size_t done = 0, weights = 0;
  for (std::size_t first = 0; first < all.rows; first += size) {
    data.targets.first = first;
    const int batch = int(std::min(size, all.rows - first));
    if (!step(state, work, data, batch, epoch)) break;
    ++done;
    weights += state.size() * std::size_t(batch);
    if (weights < kWeightsBetweenLooks) continue;
    weights = 0;
    const Clock::time_point now = Clock::now();
    if (now - reported < kBetweenReports) continue;
    reported = now;
    progress(done);
  }
  state.give(chain_, external);
  return done;
}

void Learner::predict(const External& external, const Observations& all, float* mean,
                      float* variance) const {
  const std::size_t size = std::min(kPredictedAtOnce, all.rows);
  const Lease lease(*this, int(size), false);
  (*lease).state.take(chain_, external);
  predict(*lease, all, mean, variance);
}

void Learner::derivatives(const External& external, const Observations& all, float* mean,
                          float* variance, float* curvature) const {
  const std::size_t size = std::min(kPredictedAtOnce, all.rows);
  const Lease lease(*this, int(size), false);
  Workspace& work = *lease;
  work.state.take(chain_, external);
  Observations data = all;
  const std::size_t inputs = std::size_t(chain_.inputs());
  for (std::size_t first = 0; first < all.rows; first += size) {
    data.targets.first = first;
    const int batch = int(std::min(size, all.rows - first));
    forward(work.state, work, data, batch, false);
    for (int b = 0; b < batch; ++b) {
      const std::size_t to = (first + std::size_t(b)) * inputs;
      derive(work, b, mean + to, variance + to, curvature + to);
    }
  }
}

std::unique_ptr<Workspace> Learner::taken(const External& external) const {
  auto work = std::make_unique<Workspace>(chain_, kernels_.lanes, int(kPredictedAtOnce), false);
  work->state.take(chain_, external);
  return work;
}

void Learner::predict(Workspace& work, const Observations& all, float* mean,
                      float* variance) const {
  const std::size_t size = std::size_t(work.batch());
  Observations data = all;
  const std::size_t last = chain_.layers.size() - 1, outputs = std::size_t(chain_.outputs());
  for (std::size_t first = 0; first < all.rows; first += size) {
    data.targets.first = first;
    const int batch = int(std::min(size, all.rows - first));
    forward(work.state, work, data, batch, false);
    const Outputs z = work.outputs(last);
    for (int b = 0; b < batch; ++b) {
      const std::size_t from = std::size_t(b) * work.state.width(last);
      const std::size_t to = (first + std::size_t(b)) * outputs;
      std::copy(z.first + from, z.first + from + outputs, mean + to);
      std::copy(z.second + from, z.second + from + outputs, variance + to);
    }
  }
}

}  // namespace tractable
