// The Python face of the kernel: NumPy arrays in, checked, and the GIL released.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <tuple>

#include "arguments.hpp"
#include "learner.hpp"
#include "neighbours.hpp"
#include "workspace.hpp"

namespace tractable {
namespace {

// Bounds that keep every size in the kernel within its type: a few widths in an int, and all
// parameters, padded, in a size_t.
constexpr int kWidest = 1 << 28;
constexpr std::size_t kMostParameters = std::size_t(1) << 48;
constexpr std::size_t kLargestBatch = std::size_t(1) << 30;
// Rows whose covariances, a triangle, an int can count; and values drawn of one unit.
constexpr std::size_t kDrawnTogether = 46340;
constexpr std::size_t kDrawnAtOnce = std::size_t(1) << 32;

const Kernels& kernels_named(const std::string& name) {
  const Kernels* avx2 = avx2_kernels();
  if (name == "baseline") return baseline_kernels();
  if (name == "avx2" && avx2 != nullptr) return *avx2;
  if (name.empty()) return avx2 != nullptr ? *avx2 : baseline_kernels();
  refuse("no instruction set " + name + " here");
}

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  if (avx2_kernels() != nullptr) names.push_back("avx2");
  names.push_back("baseline");
  return names;
}

using ActivationArgs = std::tuple<std::string, float>;
using LayerArgs = std::tuple<int, int, bool, std::vector<ActivationArgs>>;

std::vector<Activation> activations(const std::vector<ActivationArgs>& args) {
  std::vector<Activation> steps;
  for (const auto& [name, slope] : args) {
    if (name == "relu") steps.push_back({Kind::relu, slope});
    else if (name == "leaky_relu") steps.push_back({Kind::leaky_relu, slope});
    else if (name == "tanh") steps.push_back({Kind::tanh, slope});
    else if (name == "sigmoid") steps.push_back({Kind::sigmoid, slope});
    else refuse("unknown activation " + name);
  }
  return steps;
}

Observation observation(const std::string& kind) {
  if (kind == "normal") return Observation::normal;
  if (kind == "inferred") return Observation::inferred;
  if (kind == "probit_tree") return Observation::probit_tree;
  if (kind == "normal_tree") return Observation::normal_tree;
  if (kind == "probit") return Observation::probit;
  if (kind == "logit") return Observation::logit;
  if (kind == "poisson") return Observation::poisson;
  if (kind == "negative_binomial") return Observation::negative_binomial;
  if (kind == "dispersed") return Observation::dispersed;
  if (kind == "heteroscedastic") return Observation::heteroscedastic;
  refuse("unknown likelihood " + kind);
}

Likelihood likelihood(const std::string& kind, float noise,
                      const std::optional<Array<std::int8_t>>& paths, int outputs) {
  Likelihood result;
  result.kind = observation(kind);
  if (result.tree() != paths.has_value()) refuse("paths go with a tree");
  if (result.tree()) {
    if (paths->ndim() != 2 || paths->shape(1) != outputs) refuse("paths need a column per output");
    result.tree_noise = noise;
    result.classes = paths->shape(0);
    result.paths.assign(elements(*paths), elements(*paths) + paths->size());
  }
  if (result.kind == Observation::heteroscedastic && outputs % 2 != 0)
    refuse("a predicted noise needs two outputs per target");
  return result;
}

std::unique_ptr<Learner> make(const std::vector<ActivationArgs>& before,
                              const std::vector<LayerArgs>& layers, const std::string& kind,
                              float noise, const std::optional<Array<std::int8_t>>& paths,
                              const std::string& rule, const std::string& instructions,
                              bool limit, bool gate) {
  Chain chain;
  chain.before = activations(before);
  int width = -1;
  for (const auto& [in, out, bias, after] : layers) {
    if (in < 1 || out < 1 || (width >= 0 && in != width)) refuse("layers do not fit");
    if (in > kWidest || out > kWidest) refuse("a layer is too wide");
    Layer layer;
    layer.in = in;
    layer.out = width = out;
    layer.bias = bias;
    layer.weight_at = chain.parameters;
    layer.bias_at = layer.weight_at + std::size_t(in) * std::size_t(out);
    layer.after = activations(after);
    chain.parameters = layer.bias_at + (bias ? std::size_t(out) : 0);
    if (chain.parameters > kMostParameters) refuse("the network is too large");
    chain.layers.push_back(layer);
  }
  if (chain.layers.empty()) refuse("no layers");
  chain.likelihood = likelihood(kind, noise, paths, chain.outputs());
  if (rule != "damped" && rule != "published") refuse("unknown rule " + rule);
  chain.rule = rule == "damped" ? Rule::damped : Rule::published;
  const bool numbers =
      chain.likelihood.noise() || chain.likelihood.kind == Observation::heteroscedastic;
  if (gate && !numbers) refuse("labels and counts have no gate");
  chain.limit = limit;
  chain.gate = gate;
  return std::make_unique<Learner>(std::move(chain), kernels_named(instructions));
}

std::size_t learn(const Learner& learner, Array<float> loc, Array<float> variance,
                  const std::vector<double>& priors, Array<double> noise_mean,
                  Array<double> noise_variance, const Array<float>& x,
                  const std::optional<Array<float>>& x_variance,
                  const std::optional<Array<float>>& y,
                  const std::optional<Array<float>>& y_variance,
                  const std::optional<Array<std::int64_t>>& labels,
                  const std::optional<Array<std::int64_t>>& order, std::size_t batch_size,
                  double forget, const std::optional<py::function>& progress,
                  std::optional<Array<double>> surprise, std::optional<Array<double>> surprises,
                  double memory) {
  const Chain& chain = learner.chain();
  std::size_t tensors = 0;
  for (const Layer& layer : chain.layers) tensors += layer.bias ? 2 : 1;
  if (priors.size() != tensors) refuse("one prior variance per parameter is needed");
  if (batch_size < 1 || batch_size > kLargestBatch) refuse("batch_size is out of range");
  External mine = external(chain, loc, variance, noise_mean, noise_variance);
  set_gate(chain, mine, surprise, surprises);
  Observations data = observations(chain, x, x_variance);
  Indices own;
  set_targets(chain, data, own, y, y_variance, labels, order);
  const auto report = [&progress](std::size_t done) {
    const py::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (progress) (*progress)(done);
  };
  const py::gil_scoped_release no_gil;
  return learner.run(mine, data, {batch_size, forget, priors, memory}, report);
}

std::tuple<Array<float>, Array<float>> predict(const Learner& learner, Array<float> loc,
                                               Array<float> variance, const Array<float>& x,
                                               const std::optional<Array<float>>& x_variance) {
  const Chain& chain = learner.chain();
  const External mine = parameters(chain, loc, variance);
  const Observations data = observations(chain, x, x_variance);
  const py::ssize_t outputs = chain.outputs();
  Array<float> mean({x.shape(0), outputs}), spread({x.shape(0), outputs});
  float *to_mean = mean.mutable_data(), *to_spread = spread.mutable_data();
  {
    const py::gil_scoped_release no_gil;
    learner.predict(mine, data, to_mean, to_spread);
  }
  return {mean, spread};
}

std::tuple<Array<float>, Array<float>, Array<float>> derivatives(const Learner& learner,
                                                                 Array<float> loc,
                                                                 Array<float> variance,
                                                                 const Array<float>& x,
                                                                 const Array<float>& x_variance) {
  const Chain& chain = learner.chain();
  if (const char* why = learner.no_derivatives()) refuse(why);
  const External mine = parameters(chain, loc, variance);
  const Observations data = observations(chain, x, x_variance);
  Array<float> mean({x.shape(0), x.shape(1)}), spread({x.shape(0), x.shape(1)}),
      curvature({x.shape(0), x.shape(1)});
  float *to_mean = mean.mutable_data(), *to_spread = spread.mutable_data(),
        *to_curvature = curvature.mutable_data();
  {
    const py::gil_scoped_release no_gil;
    learner.derivatives(mine, data, to_mean, to_spread, to_curvature);
  }
  return {mean, spread, curvature};
}

Array<float> draw(const Learner& learner, Array<float> loc, Array<float> variance,
                  const Array<float>& x, int samples, const Array<float>& normals) {
  const Chain& chain = learner.chain();
  const External mine = parameters(chain, loc, variance);
  const Observations data = observations(chain, x, std::nullopt);
  if (samples < 1) refuse("at least one draw is needed");
  if (data.rows > kDrawnTogether)
    refuse("at most " + std::to_string(kDrawnTogether) + " rows can be drawn together, not " +
           std::to_string(data.rows));
  const std::size_t drawn = product(data.rows, std::size_t(samples));
  if (drawn > kDrawnAtOnce) refuse("too many draws at once");
  if (std::size_t(normals.size()) != product(learner.units(), drawn))
    refuse("a normal per unit, row and draw is needed");
  Array<float> outputs({py::ssize_t(samples), x.shape(0), py::ssize_t(chain.outputs())});
  learner.draw(mine, data.x, int(data.rows), samples, elements(normals), outputs.mutable_data());
  return outputs;
}

// The network with the parameters that it had when this was made.  It has one workspace, and the
// GIL, which is kept, sees to it that one call at a time uses it.
class Snapshot {
 public:
  Snapshot(const Learner& learner, Array<float> loc, Array<float> variance) : learner_(learner) {
    work_ = learner.taken(parameters(learner.chain(), loc, variance));
  }

  std::tuple<Array<float>, Array<float>> predict(const Array<float>& x) {
    const Observations data = observations(learner_.chain(), x, std::nullopt);
    const py::ssize_t outputs = learner_.chain().outputs();
    Array<float> mean({x.shape(0), outputs}), spread({x.shape(0), outputs});
    learner_.predict(*work_, data, mean.mutable_data(), spread.mutable_data());
    return {mean, spread};
  }

 private:
  const Learner& learner_;
  std::unique_ptr<Workspace> work_;
};

// See `beyond_kept`.
template <typename Real>
std::tuple<Array<Real>, std::optional<Array<Real>>> beyond(
    const Array<Real>& x, const Array<Real>& kept, std::size_t count,
    const std::optional<Array<Real>>& weights, double reach, double near, double share) {
  if (x.ndim() != 2 || kept.ndim() != 3 || kept.shape(1) != x.shape(1) ||
      kept.shape(2) != kTogether)
    refuse("the rows do not have the columns of the kept rows");
  const std::size_t blocks = std::size_t(kept.shape(0));
  if (count < 1 || count > product(blocks, kTogether) || count <= (blocks - 1) * kTogether)
    refuse("the blocks do not hold so many kept rows");
  if (weights && weights->size() != x.shape(1)) refuse("a weight for each column is needed");
  const Kept<Real> known = {elements(kept), weights ? elements(*weights) : nullptr,
                            std::size_t(x.shape(1)), count, reach, near, share};
  Array<Real> first(x.shape(0));
  std::optional<Array<Real>> second;
  if (weights) second.emplace(x.shape(0));
  const Real* from = elements(x);
  Real *to = first.mutable_data(), *also = second ? second->mutable_data() : nullptr;
  {
    const py::gil_scoped_release no_gil;
    beyond_kept<Real>()(known, from, std::size_t(x.shape(0)), to, also);
  }
  return {first, second};
}

}  // namespace
}  // namespace tractable

PYBIND11_MODULE(_kernel, m) {
  using namespace tractable;
  m.doc() = "TAGI on chains of linear layers and activations (see tractable.native).";
  m.def("instruction_sets", &instruction_sets, "Those that can run here, best first.");
  const auto distances = [&m](auto function) {
    m.def("beyond", function, py::arg("x").noconvert(), py::arg("kept").noconvert(),
          py::arg("count"), py::arg("weights").noconvert().none(true), py::arg("reach"),
          py::arg("near"), py::arg("share"), "How much farther than `reach` rows are from the nearest kept rows.");
  };
  distances(&beyond<float>);
  distances(&beyond<double>);
  m.attr("TOGETHER") = kTogether;
  py::class_<Learner> learner(m, "Learner");
  learner
      .def(py::init(&make), py::kw_only(), py::arg("before"), py::arg("layers"),
           py::arg("likelihood"), py::arg("tree_noise"), py::arg("paths").none(true),
           py::arg("rule"), py::arg("instructions") = "",
           py::arg("limit") = false, py::arg("gate") = false)
      .def_property_readonly("instructions",
                             [](const Learner& self) { return self.kernels().name; })
      .def("learn", &learn, py::arg("loc").noconvert(), py::arg("variance").noconvert(),
           py::arg("priors"), py::arg("noise_mean").noconvert(),
           py::arg("noise_variance").noconvert(), py::arg("x").noconvert(),
           py::arg("x_variance").noconvert(), py::arg("y").noconvert(),
           py::arg("y_variance").noconvert(), py::arg("labels").noconvert(),
           py::arg("order").noconvert(), py::arg("batch_size"), py::arg("forget"),
           py::arg("progress"), py::arg("surprise").noconvert() = py::none(),
           py::arg("surprises").noconvert() = py::none(), py::arg("memory") = 0.0)
      .def("predict", &predict, py::arg("loc").noconvert(), py::arg("variance").noconvert(),
           py::arg("x").noconvert(), py::arg("x_variance").noconvert());
  learner
      .def_property_readonly("gives_derivatives",
                             [](const Learner& self) { return self.no_derivatives() == nullptr; })
      .def("derivatives", &derivatives, py::arg("loc").noconvert(),
           py::arg("variance").noconvert(), py::arg("x").noconvert(),
           py::arg("x_variance").noconvert());
  learner
      .def_property_readonly("units", [](const Learner& self) { return self.units(); })
      .def("draw", &draw, py::arg("loc").noconvert(), py::arg("variance").noconvert(),
           py::arg("x").noconvert(), py::arg("samples"), py::arg("normals").noconvert());
  py::class_<Snapshot>(m, "Snapshot")
      .def(py::init<const Learner&, Array<float>, Array<float>>(), py::keep_alive<1, 2>(),
           py::arg("learner"), py::arg("loc").noconvert(), py::arg("variance").noconvert())
      .def("predict", &Snapshot::predict, py::arg("x").noconvert());
}
