// SPDX-License-Identifier: Apache-2.0
#include "sim/config/backend_reader.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

#include "sim/config/load.hpp"
#include "sim/config/resolve.hpp"

namespace gpusim::config {
namespace {

constexpr std::int64_t ops_max_limit = 1'000'000;

void read_fusion_keys(Fields& fields, FusionRules& into) {
  fields.optional("pointwise", into.pointwise);
  fields.optional("into_reduction", into.into_reduction);
  fields.optional("after_reduction", into.after_reduction);
  fields.optional("reductions_together", into.reductions_together);
  fields.optional("siblings", into.siblings);
  fields.optional("mixed_orders", into.mixed_orders);
  fields.optional("library_norms", into.library_norms);
  std::int64_t ops_max = into.ops_max;
  fields.optional("ops_max", ops_max, at_least(std::int64_t{1}), at_most(ops_max_limit));
  into.ops_max = static_cast<std::int32_t>(ops_max);
}

void read_products(const Node& node, ProductRules& into) {
  Fields fields(node);
  fields.optional("bias", into.bias);
  fields.optional("activation", into.activation);
  fields.optional("epilogue", into.epilogue);
  fields.optional("prologue", into.prologue);
  fields.optional("templates", into.templates);
  fields.optional("norm_prologue", into.norm_prologue);
  fields.optional("padding", into.padding);
  fields.done();
}

void read_seconds(Fields& fields, const char* key, double& into) {
  fields.optional_with(key, [&](const Node& time) {
    into = std::chrono::duration<double>(time.as<Picoseconds>(non_negative)).count();
  });
}

void read_compile_cost(const Node& node, CompileCost& into) {
  Fields fields(node);
  read_seconds(fields, "process", into.process);
  read_seconds(fields, "base", into.base);
  read_seconds(fields, "per_op", into.per_op);
  read_seconds(fields, "per_kernel", into.per_kernel);
  read_seconds(fields, "per_product", into.per_product);
  fields.optional_with("warm_share", [&](const Node& share) {
    into.warm_share = share.as<Ratio>(non_negative, at_most(1.0)).value();
  });
  fields.done();
}

/// What a mode can change, into what holds in all of them.
void read_mode_keys(Fields& fields, BackendMode& into) {
  fields.optional("help", into.help);
  fields.optional_with("fusion", [&](const Node& node) { read_fusion_rules(node, into.fusion); });
  fields.optional_with("products", [&](const Node& node) { read_products(node, into.products); });
  fields.optional_with("passes", [&](const Node& node) { read_passes(node, into.simplify); });
  fields.optional_with("cuda_graph", [&](const Node& node) {
    into.cuda_graphs = node.one_of<CudaGraphPolicy>({{"none", CudaGraphPolicy::None},
                                                     {"full", CudaGraphPolicy::Whole},
                                                     {"trees", CudaGraphPolicy::Trees},
                                                     {"piecewise", CudaGraphPolicy::Piecewise}});
  });
  fields.optional_with("compile", [&](const Node& node) { read_compile_cost(node, into.compile); });
}

std::vector<BackendMode> read_modes(const Node& node, const BackendMode& common) {
  std::vector<BackendMode> modes;
  Errors errors;
  for (const auto& [name, map] : node.entries()) {
    // A backend over another one takes a mode away by setting it to null.
    if (map.is_null()) continue;
    modes.push_back(common);
    modes.back().name = name;
    modes.back().help.clear();
    errors.collect([&, &changes = map] {
      Fields fields(changes);
      read_mode_keys(fields, modes.back());
      fields.done();
    });
  }
  if (modes.empty())
    errors.add(
        node.diagnostic("the map of modes is empty", "leave the key away for one mode called 'default'"));
  errors.throw_if_any();
  return modes;
}

CompiledHostOps read_host_ops(const Node& node) {
  CompiledHostOps ops;
  Fields fields(node);
  fields.optional("region", ops.region);
  fields.optional("parameter", ops.parameter);
  fields.optional("kernel", ops.kernel);
  fields.optional("library", ops.library);
  fields.optional("attention", ops.attention);
  fields.optional("replay", ops.replay);
  fields.done();
  return ops;
}

}  // namespace

void read_fusion_rules(const Node& node, FusionRules& into) {
  Fields fields(node);
  read_fusion_keys(fields, into);
  fields.done();
}

void read_passes(const Node& node, SimplifyRules& into) {
  Fields fields(node);
  fields.optional("dead_code", into.dead_code);
  fields.optional("inference_dropout", into.inference_dropout);
  fields.optional("no_ops", into.no_ops);
  fields.optional("constants", into.constants);
  fields.optional("freeze", into.freeze);
  fields.optional("common_subexpressions", into.common_subexpressions);
  fields.optional("layout", into.layout);
  fields.optional("merge_qkv", into.merge_qkv);
  fields.optional("merge_gate_up", into.merge_gate_up);
  fields.done();
}

ElementType read_precision(const Node& node) {
  std::vector<std::string> known;
  for (const std::string& name : element_type_names())
    if (product_dtype(*find_element_type(name))) known.push_back(name);
  if (std::find(known.begin(), known.end(), node.text()) == known.end()) node.fail_unknown(known);
  return *find_element_type(node.text());
}

Backend read_backend(const Node& backend, const SearchPath& search) {
  const Resolved resolved = resolve("backends", "inductor", backend, search);
  Backend result;
  result.key = resolved.key;
  result.name = resolved.key;
  Fields fields(resolved.map);
  fields.optional("name", result.name);
  fields.required_with("capture", [&](const Node& node) {
    result.capture = node.one_of<CaptureKind>({{"none", CaptureKind::None},
                                               {"dynamo", CaptureKind::Dynamo},
                                               {"whole_graph", CaptureKind::WholeGraph}});
  });
  fields.optional("fused_attention", result.fused_attention);
  fields.optional("dynamic_shapes", result.dynamic_shapes);
  fields.optional("training", result.training);
  fields.optional("python", result.python);
  fields.optional_with("vendors", [&](const Node& list) {
    for (const Node& vendor : list.items())
      result.vendors.push_back(vendor.one_of<Vendor>({{"nvidia", Vendor::Nvidia}, {"amd", Vendor::Amd}}));
  });
  fields.optional_with("precisions", [&](const Node& list) {
    for (const Node& precision : list.items()) result.precisions.push_back(read_precision(precision));
  });
  fields.optional("kernel_prefix", result.kernel_prefix);
  fields.optional_with("host_ops", [&](const Node& ops) { result.host = read_host_ops(ops); });
  BackendMode common;
  read_mode_keys(fields, common);
  result.help = common.help;
  common.help.clear();
  result.modes = {common};
  fields.optional_with("modes", [&](const Node& modes) { result.modes = read_modes(modes, common); });
  fields.done();
  return result;
}

std::vector<Backend> known_backends(const SearchPath& search) {
  std::vector<Backend> backends;
  for (const std::string& name : known_configs("backends", search))
    backends.push_back(read_backend(load_text(name, name), search));
  return backends;
}

}  // namespace gpusim::config
