// SPDX-License-Identifier: Apache-2.0
#include "sim/app/advise_knobs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <variant>

namespace gpusim {
namespace {

using advise::Choice;
using advise::Knob;

/// Keys that only a compiler has use for; those of graph breaks and better kernels hold for eager steps, too.
constexpr std::array<std::string_view, 10> compiler_keys{
    "backend",         "mode",   "fullgraph", "regional", "warm_cache", "dynamic",
    "recompile_limit", "passes", "fusion",    "precision"};

constexpr const char* recorded_by_hand = "to be recorded by hand, inputs stay where they are";

class KnobMaker {
 public:
  KnobMaker(const config::Node& tree, const Variant& variant) : tree_(tree), variant_(variant) {
    const auto variants = tree.find("variants");
    if (variants && variants->is_map() && variants->has(variant.name))
      prefix_ = "variants." + variant.name + '.';
    network_ = std::get_if<NetworkWorkload>(&variant.workload.source);
  }

  AdviseKnobs make(const std::vector<Backend>& backends, bool batch) {
    add_execution(backends);
    if (network_ == nullptr) return std::move(knobs_);
    add_graph_breaks();
    if (network_->training) {
      add_recompute();
      add_optimizer();
    }
    add_attention();
    add_formats();
    add_batch(batch);
    return std::move(knobs_);
  }

 private:
  /// Whether the scenario gives the key, for this variant.
  bool gives(std::initializer_list<std::string_view> path) const {
    const auto value = [&](const std::optional<config::Node>& from) -> std::optional<config::Node> {
      std::optional<config::Node> node = from;
      for (const std::string_view key : path) {
        if (!node || !node->is_map()) return std::nullopt;
        node = node->find(key);
      }
      return node;
    };
    if (!prefix_.empty())
      if (const auto own = value(tree_.find("variants")->find(variant_.name))) return !own->is_null();
    const auto base = value(tree_);
    return base && !base->is_null();
  }

  std::string set(std::string_view path, std::string_view value) const {
    return fmt::format("{}{}={}", prefix_, path, value);
  }

  /// Takes back what `keys` say.
  void take_back(std::vector<std::string>& sets, const auto& keys) const {
    for (const std::string_view key : keys)
      if (gives({key})) sets.push_back(set(key, "null"));
  }

  Knob& add(std::string name, AdviseKnobs::For whose = AdviseKnobs::For::All) {
    knobs_.knobs.push_back({.name = std::move(name), .choices = {{.label = "as it is", .sets = {}}}});
    knobs_.knob_for.push_back(whose);
    return knobs_.knobs.back();
  }
  /// Knobs that there is nothing to choose of are none.
  void keep_if_any() {
    if (knobs_.knobs.back().choices.size() > 1) return;
    knobs_.knobs.pop_back();
    knobs_.knob_for.pop_back();
  }

  bool is_eager() const {
    return !variant_.compile || variant_.compile->backend.capture == CaptureKind::None;
  }

  void add_execution(const std::vector<Backend>& backends) {
    Knob& knob = add("execution");
    knobs_.compiles.push_back(!is_eager());
    const auto choice = [&](std::string label, std::vector<std::string> sets, bool compiles,
                            std::string remark = {}) {
      knob.choices.push_back(
          {.label = std::move(label), .sets = std::move(sets), .remark = std::move(remark)});
      knobs_.compiles.push_back(compiles);
    };
    const bool recorded = variant_.cuda_graph != CudaGraphMode::None || gives({"cuda_graph"});
    std::vector<std::string> eager;
    take_back(eager, compiler_keys);
    if (network_ != nullptr) take_back(eager, std::array<std::string_view, 1>{"recompute"});
    if (!is_eager() || recorded) {
      std::vector<std::string> sets = eager;
      sets.push_back(set("cuda_graph", "none"));
      choice(is_eager() ? "cuda_graph=none" : "eager", std::move(sets), false);
    }
    if (!is_eager() || variant_.cuda_graph != CudaGraphMode::Full) {
      std::vector<std::string> sets = eager;
      sets.push_back(set("cuda_graph", "full"));
      choice(is_eager() ? "cuda_graph=full" : "eager cuda_graph=full", std::move(sets), false,
             recorded_by_hand);
    }
    if (network_ == nullptr) return;
    for (const Backend& backend : backends) {
      if (backend.capture == CaptureKind::None) continue;
      for (const BackendMode& mode : backend.modes) {
        const bool is_present = !is_eager() && variant_.compile->backend.key == backend.key &&
                                variant_.compile->mode.name == mode.name;
        std::vector<std::string> sets{set("backend", backend.key), set("mode", mode.name)};
        if (network_->training && gives({"workload", "checkpointing"}))
          sets.push_back(set("workload.checkpointing", "null"));
        const std::string label = fmt::format("backend={} mode={}", backend.key, mode.name);
        if (!is_present || gives({"cuda_graph"})) {
          std::vector<std::string> plain = sets;
          take_back(plain, std::array<std::string_view, 1>{"cuda_graph"});
          choice(label, std::move(plain), true);
        }
        // Of a backend that records none by itself.
        if (&mode != &backend.modes.front() || mode.cuda_graphs != CudaGraphPolicy::None) continue;
        for (const char* policy : {"full", "piecewise"}) {
          std::vector<std::string> graphs = sets;
          graphs.push_back(set("cuda_graph", policy));
          choice(fmt::format("{} cuda_graph={}", label, policy), std::move(graphs), true, recorded_by_hand);
        }
      }
    }
  }

  void add_graph_breaks() {
    if (!gives({"graph_breaks"})) return;
    add("graph breaks")
        .choices.push_back({.label = "graph_breaks=null",
                            .sets = {set("graph_breaks", "null")},
                            .remark = "needs other Python code (gpusim explain says what to write)"});
  }

  void add_recompute() {
    const TrainingOptions& training = *network_->training;
    Knob& budgets = add("recompute", AdviseKnobs::For::Compiled);
    for (const char* budget : {"0.75", "0.5", "0.25", "0"})
      budgets.choices.push_back({.label = fmt::format("recompute.memory_budget={}", budget),
                                 .sets = {set("recompute", fmt::format("{{memory_budget: {}}}", budget))}});
    if (gives({"recompute"}))
      budgets.choices.push_back({.label = "recompute=min_cut", .sets = {set("recompute", "min_cut")}});
    Knob& checkpointing = add("checkpointing", AdviseKnobs::For::Eager);
    for (const Checkpointing how : {Checkpointing::None, Checkpointing::Selective, Checkpointing::Blocks})
      if (how != training.checkpointing)
        checkpointing.choices.push_back({.label = fmt::format("checkpointing={}", name(how)),
                                         .sets = {set("workload.checkpointing", name(how))}});
  }

  void add_optimizer() {
    const OptimizerOptions& optimizer = network_->training->optimizer;
    if (optimizer.kind == OptimizerKind::None) return;
    Knob& knob = add("optimizer");
    const bool is_map = gives({"workload", "optimizer", "kind"}) ||
                        gives({"workload", "optimizer", "loop"}) ||
                        gives({"workload", "optimizer", "clip_norm"});
    for (const OptimizerLoop loop : {OptimizerLoop::ForLoop, OptimizerLoop::Foreach, OptimizerLoop::Fused}) {
      if (loop == optimizer.loop) continue;
      const std::string word = fmt::format("{}_{}", name(optimizer.kind), name(loop));
      std::vector<std::string> sets;
      if (is_map) {
        sets.push_back(set("workload.optimizer.kind", name(optimizer.kind)));
        sets.push_back(set("workload.optimizer.loop", name(loop)));
      } else {
        sets.push_back(set("workload.optimizer", word));
      }
      knob.choices.push_back({.label = "optimizer=" + word, .sets = std::move(sets)});
    }
    keep_if_any();
  }

  void add_attention() {
    for (const Network::Parameter& parameter : network_->network->parameters) {
      if (std::find(parameter.choices.begin(), parameter.choices.end(), "flash") == parameter.choices.end())
        continue;
      const auto own = network_->sizes.parameters.find(parameter.name);
      const NetworkValue& value = own == network_->sizes.parameters.end() ? parameter.value : own->second;
      const auto* word = std::get_if<std::string>(&value);
      if (word != nullptr && *word == "flash") continue;
      add(parameter.name)
          .choices.push_back({.label = parameter.name + "=flash",
                              .sets = {set("workload.parameters." + parameter.name, "flash")},
                              .remark = "changes rounding"});
    }
  }

  void add_formats() {
    const ElementType dtype = network_->training ? network_->training->dtype : network_->sizes.dtype;
    if (dtype != ElementType::Fp32) return;
    Knob& knob = add("formats");
    if (network_->float32_matmul == Float32Matmul::Highest)
      knob.choices.push_back({.label = "float32_matmul=high",
                              .sets = {set("workload.float32_matmul", "high")},
                              .remark = "changes rounding"});
    knob.choices.push_back(
        {.label = "dtype=bf16", .sets = {set("workload.dtype", "bf16")}, .remark = "changes rounding"});
  }

  void add_batch(bool batch) {
    constexpr std::int64_t accumulation_most = 1024;
    const std::int64_t present = network_->sizes.batch;
    Knob& knob = add("batch");
    if (network_->training)
      for (const std::int64_t parts : {2, 4, 8, 16}) {
        const std::int64_t micro = network_->training->accumulation * parts;
        if (present % parts != 0 || micro > accumulation_most) continue;
        knob.choices.push_back({.label = fmt::format("batch={} accumulation={}", present / parts, micro),
                                .sets = {set("workload.batch", std::to_string(present / parts)),
                                         set("workload.accumulation", std::to_string(micro))}});
      }
    if (batch && variant_.shapes.empty()) {
      std::vector<std::int64_t> sizes;
      for (const std::int64_t part : {8, 4, 2})
        if (present % part == 0) sizes.push_back(present / part);
      for (const std::int64_t times : {2, 4, 8, 16, 32}) sizes.push_back(present * times);
      for (const std::int64_t size : sizes)
        knob.choices.push_back({.label = fmt::format("batch={}", size),
                                .sets = {set("workload.batch", std::to_string(size))},
                                .remark = network_->training ? "another batch trains differently" : ""});
    }
    keep_if_any();
  }

  const config::Node& tree_;
  const Variant& variant_;
  const NetworkWorkload* network_ = nullptr;
  std::string prefix_;
  AdviseKnobs knobs_;
};

}  // namespace

std::vector<std::string> measured_backends() {
  return {"eager", "inductor"};
}

bool AdviseKnobs::makes_sense(const advise::Setting& setting) const {
  const bool compiled = compiles[setting.front()];
  for (std::size_t knob = 0; knob < setting.size(); ++knob) {
    if (setting[knob] == 0) continue;
    if (knob_for[knob] == (compiled ? For::Eager : For::Compiled)) return false;
  }
  return true;
}

AdviseKnobs advise_knobs(const config::Node& tree, const Variant& variant,
                         const std::vector<Backend>& backends, bool batch) {
  return KnobMaker(tree, variant).make(backends, batch);
}

}  // namespace gpusim
