// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/compile_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "models/compiler/buckets.hpp"
#include "models/compiler/capture_regions.hpp"
#include "models/graph/value.hpp"
#include "sim/config/backend_reader.hpp"
#include "sim/config/load.hpp"
#include "sim/scenario/network_workload.hpp"
#include "sim/scenario/recompute_reader.hpp"
#include "sim/scenario/workload_reader.hpp"

namespace gpusim {

using config::at_least;
using config::at_most;
using config::Fields;
using config::Node;
using config::positive;

namespace {

constexpr std::int64_t size_max = std::int64_t{1} << 40;

/// The value of a key; a variant takes a key of the top level back by setting it to null.
std::optional<Node> find_set(const Node& map, std::string_view key) {
  auto node = map.find(key);
  if (node && node->is_null()) node.reset();
  return node;
}

GraphBreak read_graph_break(const Node& node) {
  GraphBreak result;
  if (!node.is_map())
    node.fail("a graph break is a map",
              "write {after: 'block[3]', cause: item}; names with brackets need quotes");
  Fields fields(node);
  fields.required("after", result.after);
  fields.optional_with("cause", [&](const Node& cause) {
    const auto known = find_break_cause(cause.text());
    if (!known) cause.fail_unknown(break_cause_names());
    result.cause = *known;
  });
  fields.optional("loop", result.in_loop);
  fields.done();
  return result;
}

KernelOverride read_override(const Node& node) {
  KernelOverride result;
  if (!node.is_map()) node.fail("a better kernel is a map", "write {op: rms_norm, of_roof: 90 %}");
  Fields fields(node);
  fields.required("op", result.op);
  fields.optional("source", result.source);
  fields.optional("duration", result.duration, positive, at_most(duration_max));
  fields.optional_with("of_roof", [&](const Node& share) {
    result.of_roof = share.as<Ratio>(positive, at_most(1.0)).value();
  });
  fields.optional("speedup", result.speedup, positive);
  const int said = int{node.has("duration")} + int{node.has("of_roof")} + int{node.has("speedup")};
  if (said != 1)
    fields.errors().add(node.diagnostic(
        said == 0 ? "does not say how fast the kernel is" : "says several times how fast the kernel is",
        "give one of 'duration', 'of_roof' and 'speedup'"));
  if (node.has("op") && result.op.empty()) fields.errors().add(node.at("op").diagnostic("the name is empty"));
  fields.done();
  return result;
}

GraphBuckets read_buckets(const Node& node) {
  if (node.is_scalar()) {
    if (node.text() != "default") node.fail_unknown(std::vector<std::string>{"default"});
    return default_buckets(ServingLimits{});
  }
  GraphBuckets buckets;
  Errors errors;
  for (const Node& item : node.items())
    errors.collect([&] {
      const auto size = item.as<std::int64_t>(at_least(std::int64_t{1}), at_most(size_max));
      if (!buckets.sizes.empty() && size <= buckets.sizes.back())
        item.fail("batch sizes must ascend", fmt::format("{} stands before it", buckets.sizes.back()));
      buckets.sizes.push_back(size);
    });
  if (node.size() == 0) errors.add(node.diagnostic("the list of batch sizes is empty", "write [1, 2, 4, 8]"));
  if (node.size() > buckets_max)
    errors.add(node.diagnostic(fmt::format("more than {} batch sizes (buckets_max)", buckets_max)));
  errors.throw_if_any();
  return buckets;
}

class CompileReader {
 public:
  CompileReader(const Node& variant, const GpuSpec* hardware, const config::SearchPath& search)
      : variant_(variant), hardware_(hardware), search_(search) {}

  CompileChoice read() {
    const auto workload = variant_.find("workload");
    // Without a workload there is another mistake to report.
    if (workload && !is_network_workload(*workload)) {
      refuse_without_network();
      errors_.collect([&] { read_cuda_graph_of_launches(false); });
      errors_.throw_if_any();
      return choice_;
    }
    const auto backend = find_set(variant_, "backend");
    choice_.where = variant_.location();
    if (backend) {
      choice_.where = backend->location();
      errors_.collect([&] { choice_.compile.emplace().backend = config::read_backend(*backend, search_); });
      errors_.throw_if_any();  // All other keys are read by what the backend does.
    }
    if (!choice_.compile || choice_.compile->backend.capture == CaptureKind::None) {
      read_eager();
    } else {
      read_compiled(*backend);
    }
    errors_.throw_if_any();
    return std::move(choice_);
  }

 private:
  void refuse_without_network() {
    for (const std::string_view key : compile_keys) {
      const auto node = find_set(variant_, key);
      if (!node) continue;
      errors_.add({node->key_location(), node->path(), "needs a network: a compiler takes its ops",
                   fmt::format("write 'workload: {{network: gpt2, ...}}', or leave '{}' away", key)});
    }
  }

  // --- Nothing is compiled.

  void read_eager() {
    for (const std::string_view key : {"mode", "fullgraph", "regional", "warm_cache", "dynamic",
                                       "recompile_limit", "passes", "fusion", "precision", "recompute"}) {
      const auto node = find_set(variant_, key);
      if (!node) continue;
      errors_.add({node->key_location(), node->path(), "is for a compiler, and nothing is compiled here",
                   choice_.compile ? fmt::format("set '{}: null' in a variant that runs eagerly", key)
                                   : "write 'backend: inductor' beside it (gpusim list backends)"});
    }
    CompileOptions options;
    read_breaks_and_kernels(options);
    errors_.collect([&] { options.buckets = read_cuda_graph_of_launches(true); });
    // An eager step is a compiled one only as far as the scenario says more about it.
    const bool more = !options.breaks.empty() || !options.overrides.empty() || options.buckets;
    if (!more) {
      choice_.compile.reset();
      return;
    }
    errors_.collect([&] {
      options.backend = choice_.compile ? std::move(choice_.compile->backend)
                                        : config::read_backend(config::load_text("eager", "eager"), search_);
      options.mode = options.backend.modes.front();
      choice_.compile = std::move(options);
    });
  }

  /// `cuda_graph` where no compiler decides about it. Returns the batch sizes that are recorded, if it says
  /// so.
  std::optional<GraphBuckets> read_cuda_graph_of_launches(bool network) {
    const auto node = find_set(variant_, "cuda_graph");
    if (!node) return std::nullopt;
    const std::string way_out = network
                                    ? "write 'full' for one CUDA graph of the step, or 'backend: inductor' "
                                      "beside it"
                                    : "write 'full': all launches are recorded";
    if (node->is_map()) {
      if (!network) node->fail("batch sizes are those of a network", way_out);
      CudaGraphPolicy policy = CudaGraphPolicy::Whole;
      GraphBuckets buckets = read_bucketed(*node, policy);
      if (policy != CudaGraphPolicy::Whole)
        node->at("policy").fail("only a compiler takes a step to pieces", way_out);
      choice_.cuda_graph = CudaGraphMode::Full;
      return buckets;
    }
    switch (read_policy(*node)) {
      case CudaGraphPolicy::None:
        break;
      case CudaGraphPolicy::Whole:
        choice_.cuda_graph = CudaGraphMode::Full;
        break;
      case CudaGraphPolicy::Trees:
      case CudaGraphPolicy::Piecewise:
        node->fail(fmt::format("'{}' records what a compiler makes of a network", node->text()), way_out);
    }
    return std::nullopt;
  }

  // --- A compiler.

  void read_compiled(const Node& backend) {
    CompileOptions& options = *choice_.compile;
    const Backend& b = options.backend;
    options.mode = b.modes.front();
    options.full_graph = b.capture == CaptureKind::WholeGraph;
    errors_.collect([&] { check_vendor(backend, b); });
    errors_.collect([&] {
      if (const auto mode = find_set(variant_, "mode")) {
        const BackendMode* found = b.find(mode->text());
        if (found == nullptr) {
          std::vector<std::string> known;
          for (const BackendMode& m : b.modes) known.push_back(m.name);
          mode->fail(fmt::format("{} has no mode '{}'", b.name, mode->text()),
                     name_hint(mode->text(), known, "modes"));
        }
        options.mode = *found;
      }
    });
    errors_.collect([&] { read_capture(options); });
    errors_.collect([&] {
      if (const auto warm = find_set(variant_, "warm_cache")) options.warm_cache = warm->as<bool>();
    });
    read_breaks_and_kernels(options);
    if (options.full_graph && !options.breaks.empty())
      errors_.add(variant_.at("graph_breaks")
                      .items()
                      .front()
                      .diagnostic(b.capture == CaptureKind::WholeGraph
                                      ? fmt::format("{} takes the whole step or nothing", b.name)
                                      : "'fullgraph: true' takes no graph break",
                                  "mend the break in the network, or set 'graph_breaks: null' here"));
    errors_.collect([&] {
      if (const auto passes = find_set(variant_, "passes"))
        config::read_passes(*passes, options.mode.simplify);
    });
    errors_.collect([&] {
      if (const auto fusion = find_set(variant_, "fusion")) read_fusion(*fusion, options);
    });
    errors_.collect([&] {
      if (const auto precision = find_set(variant_, "precision")) read_precision(*precision, options);
    });
    errors_.collect([&] {
      if (const auto recompute = find_set(variant_, "recompute")) read_recompute(*recompute, options);
    });
    errors_.collect([&] {
      if (const auto node = find_set(variant_, "cuda_graph")) read_cuda_graph(*node, options);
    });
  }

  void check_vendor(const Node& node, const Backend& backend) const {
    if (hardware_ == nullptr || backend.vendors.empty()) return;
    if (std::find(backend.vendors.begin(), backend.vendors.end(), hardware_->vendor) != backend.vendors.end())
      return;
    std::string names;
    for (const Vendor vendor : backend.vendors)
      names += (names.empty() ? "" : ", ") + std::string(name(vendor));
    node.fail(fmt::format("{} does not run on {}", backend.name, hardware_->name),
              fmt::format("it runs on GPUs of: {}", names));
  }

  /// What is captured, and for which shapes.
  void read_capture(CompileOptions& options) {
    const Backend& b = options.backend;
    const bool whole = b.capture == CaptureKind::WholeGraph;
    const std::string way_out = "backends that capture with Dynamo have it (docs/backends.md)";
    errors_.collect([&] {
      if (const auto full = find_set(variant_, "fullgraph")) {
        options.full_graph = full->as<bool>();
        if (whole && !options.full_graph)
          full->fail(fmt::format("{} takes the whole step or nothing", b.name), way_out);
      }
    });
    errors_.collect([&] {
      if (const auto regional = find_set(variant_, "regional")) {
        options.regional = regional->as<bool>();
        if (whole && options.regional)
          regional->fail(fmt::format("{} takes the whole step, not one block", b.name), way_out);
      }
    });
    errors_.collect([&] {
      if (const auto limit = find_set(variant_, "recompile_limit")) {
        options.recompile_limit = limit->as<std::int64_t>(at_least(std::int64_t{1}), at_most(size_max));
        if (whole) limit->fail(fmt::format("{} never falls back to eager", b.name), way_out);
      }
    });
    errors_.collect([&] {
      if (const auto dynamic = find_set(variant_, "dynamic")) {
        options.dynamic = dynamic->one_of<DynamicShapes>({{"auto", DynamicShapes::Automatic},
                                                          {"true", DynamicShapes::Always},
                                                          {"false", DynamicShapes::Never}});
        if (options.dynamic == DynamicShapes::Always && !b.dynamic_shapes)
          dynamic->fail(fmt::format("{} builds for one shape", b.name),
                        "leave 'dynamic' away: each new shape is a build of its own");
      }
    });
  }

  void read_breaks_and_kernels(CompileOptions& options) {
    errors_.collect([&] {
      if (const auto list = find_set(variant_, "graph_breaks")) {
        if (list->size() > graph_breaks_max)
          list->fail(fmt::format("more than {} graph breaks (graph_breaks_max)", graph_breaks_max));
        for (const Node& node : list->items())
          errors_.collect([&] { options.breaks.push_back(read_graph_break(node)); });
      }
    });
    errors_.collect([&] {
      if (const auto list = find_set(variant_, "kernel_overrides"))
        for (const Node& node : list->items())
          errors_.collect([&] { options.overrides.push_back(read_override(node)); });
    });
  }

  static void read_fusion(const Node& node, CompileOptions& options) {
    if (node.is_scalar()) {
      if (node.text() != "none")
        node.fail(fmt::format("unknown name '{}'", node.text()),
                  "write none, {siblings: false, ...} or {groups: [[op, op], ...]}");
      // Each op alone, as the library has it.
      FusionRules& fusion = options.mode.fusion;
      fusion.pointwise = fusion.into_reduction = fusion.after_reduction = false;
      fusion.reductions_together = fusion.siblings = fusion.mixed_orders = false;
      ProductRules& products = options.mode.products;
      products.activation = products.epilogue = products.prologue = false;
      return;
    }
    const auto groups = find_set(node, "groups");
    if (!groups) {
      config::read_fusion_rules(node, options.mode.fusion);
      return;
    }
    for (const auto& [key, value] : node.entries())
      if (key != "groups" && !value.is_null())
        value.fail("says what may be joined, and 'groups' says what is",
                   fmt::format("remove 'groups' or set '{}: null'", key));
    std::vector<std::vector<std::string>> list;
    for (const Node& group : groups->items()) {
      list.emplace_back();
      for (const Node& op : group.items()) list.back().push_back(op.as<std::string>());
      if (list.back().empty()) group.fail("the group is empty", "write the names of its ops");
    }
    options.groups = std::move(list);
  }

  void read_precision(const Node& node, CompileOptions& options) const {
    const ElementType wanted = config::read_precision(node);
    const std::vector<ElementType>& known = options.backend.precisions;
    if (std::find(known.begin(), known.end(), wanted) == known.end()) {
      std::string names;
      for (const ElementType type : known) names += (names.empty() ? "" : ", ") + std::string(name(type));
      node.fail(fmt::format("{} does not lower products to {}", options.backend.name, name(wanted)),
                known.empty() ? "'workload.dtype' is the network's own" : "it knows: " + names);
    }
    if (hardware_ != nullptr && !hardware_->peak.find(*product_dtype(wanted)))
      node.fail(fmt::format("{} has no rate for products in {}", hardware_->name, name(wanted)),
                "'peak' of the hardware lists the dtypes that it has");
    options.precision = wanted;
  }

  static CudaGraphPolicy read_policy(const Node& node) {
    return node.one_of<CudaGraphPolicy>({{"none", CudaGraphPolicy::None},
                                         {"full", CudaGraphPolicy::Whole},
                                         {"trees", CudaGraphPolicy::Trees},
                                         {"piecewise", CudaGraphPolicy::Piecewise}});
  }

  /// `{buckets: [1, 2, 4]}`, with a `policy` for each of them.
  static GraphBuckets read_bucketed(const Node& node, CudaGraphPolicy& policy) {
    GraphBuckets buckets;
    Fields fields(node);
    fields.optional_with("policy", [&](const Node& word) {
      policy = word.one_of<CudaGraphPolicy>(
          {{"full", CudaGraphPolicy::Whole}, {"piecewise", CudaGraphPolicy::Piecewise}});
    });
    fields.required_with("buckets", [&](const Node& sizes) { buckets = read_buckets(sizes); });
    fields.done();
    return buckets;
  }

  static void read_cuda_graph(const Node& node, CompileOptions& options) {
    if (node.is_map()) {
      options.mode.cuda_graphs = CudaGraphPolicy::Whole;
      options.buckets = read_bucketed(node, options.mode.cuda_graphs);
      return;
    }
    options.mode.cuda_graphs = read_policy(node);
    if (options.mode.cuda_graphs == CudaGraphPolicy::Trees && options.backend.capture != CaptureKind::Dynamo)
      node.fail(fmt::format("CUDA graph trees are torch.compile's, not {}'s", options.backend.name),
                "write 'full' for one CUDA graph of the step");
  }

  const Node& variant_;
  const GpuSpec* hardware_;
  const config::SearchPath& search_;
  CompileChoice choice_;
  Errors errors_;
};

}  // namespace

CompileChoice read_compile(const Node& variant, const GpuSpec* hardware, const config::SearchPath& search) {
  return CompileReader(variant, hardware, search).read();
}

void check_compile_names(const Node& variant, const OpGraph& graph) {
  Errors errors;
  if (const auto breaks = find_set(variant, "graph_breaks"))
    for (const Node& node : breaks->items()) {
      const Node after = node.at("after");
      try {
        check_break_place(graph, after.text());
      } catch (const CompileError& error) {
        errors.add(after.diagnostic(error.what(), error.hint()));
      }
    }
  const auto fusion = find_set(variant, "fusion");
  if (const auto groups = fusion && fusion->is_map() ? find_set(*fusion, "groups") : std::nullopt) {
    std::vector<std::string> known;
    for (const Op& op : graph.ops) known.push_back(op.name);
    const std::set<std::string, std::less<>> ops(known.begin(), known.end());
    std::set<std::string> taken;
    for (const Node& group : groups->items())
      for (const Node& op : group.items()) {
        if (ops.count(op.text()) == 0)
          errors.add(op.diagnostic(fmt::format("no op '{}'", op.text()), hint_for(op.text(), known, "ops")));
        if (!taken.insert(op.text()).second)
          errors.add(op.diagnostic(fmt::format("'{}' is in a group already", op.text())));
      }
  }
  errors.throw_if_any();
}

void check_training(const Node& variant, const NetworkWorkload& workload, const CompileOptions& options) {
  Errors errors;
  if (const auto recompute = find_set(variant, "recompute"); recompute && !workload.training)
    errors.add(
        recompute->diagnostic(fmt::format("is for training, and the step is {}", name(workload.sizes.step)),
                              "write 'workload: {step: training}', or 'recompute: null' here"));
  errors.throw_if_any();
  if (!workload.training || options.backend.capture == CaptureKind::None) return;
  if (!options.backend.training)
    errors.add(variant.at("backend").diagnostic(
        fmt::format("{} does not train: it takes the forward pass alone", options.backend.name),
        "gpusim list backends; docs/backends.md says which train"));
  if (const auto precision = find_set(variant, "precision"))
    errors.add(precision->diagnostic("is of inference: 'workload.precision' says it of training",
                                     "write 'workload: {precision: autocast, dtype: bf16}'"));
  if (workload.training->checkpointing != Checkpointing::None)
    errors.add(
        variant.at("workload")
            .at("checkpointing")
            .diagnostic(
                "is for steps that run eagerly: a compiler decides itself what it keeps",
                "write 'recompute: {policy: blocks}', and 'checkpointing: null' in the variant's workload"));
  errors.throw_if_any();
}

std::vector<ShapeStep> read_shapes(const Node& list, const NetworkSizes& sizes) {
  std::vector<ShapeStep> shapes;
  Errors errors;
  if (list.size() > step_shapes_max)
    list.fail(fmt::format("more than {} shapes (step_shapes_max)", step_shapes_max));
  for (const Node& node : list.items())
    errors.collect([&] {
      if (!node.is_map()) node.fail("the shape of a step is a map", "write {batch: 8, sequence: 256}");
      ShapeStep shape{.batch = sizes.batch, .sequence = sizes.sequence, .where = node.location()};
      Fields fields(node);
      fields.optional("batch", shape.batch, at_least(std::int64_t{1}), at_most(size_max));
      fields.optional("sequence", shape.sequence, at_least(std::int64_t{1}), at_most(size_max));
      fields.done();
      shapes.push_back(std::move(shape));
    });
  if (list.size() == 0)
    errors.add(list.diagnostic("the list of shapes is empty", "leave the key away if all steps are alike"));
  errors.throw_if_any();
  return shapes;
}

}  // namespace gpusim
