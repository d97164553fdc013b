// SPDX-License-Identifier: Apache-2.0
// Networks and backends for tests of fusion.
#pragma once

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

#include "models/compiler/legality.hpp"
#include "tests/support/networks.hpp"

namespace gpusim::test {

/// A backend that joins what Inductor joins by default.
inline Backend joining_backend(CaptureKind capture = CaptureKind::Dynamo) {
  Backend backend;
  backend.key = capture == CaptureKind::None ? "eager" : "inductor";
  backend.capture = capture;
  return backend;
}

/// Products as templates that are compiled (max-autotune).
inline BackendMode template_mode() {
  BackendMode mode;
  mode.name = "max-autotune";
  mode.products = {.epilogue = true, .prologue = true, .templates = true};
  return mode;
}

/// `inputs` as "x: {shape: [8, 8]}", lines of a body, and what it gives.
inline OpGraph fusion_graph(const std::string& inputs, const std::string& body, const std::string& gives,
                            ElementType dtype = ElementType::Bf16) {
  return build_graph(
      network_of("name: n\ninputs: {" + inputs + "}\nbody:\n" + body + "gives: [" + gives + "]\n"),
      sizes(1, 1, StepKind::Inference, {}, dtype));
}

inline OpIndex op_named(const OpGraph& graph, const std::string& name) {
  for (OpIndex i = 0; i < graph.ops.size(); ++i)
    if (graph.ops[i].name == name) return i;
  std::string all;
  for (const Op& op : graph.ops) all += " " + op.name;
  throw std::invalid_argument("no op " + name + " among" + all);
}

inline std::vector<OpIndex> ops_named(const OpGraph& graph, std::initializer_list<const char*> names) {
  std::vector<OpIndex> ops;
  for (const char* name : names) ops.push_back(op_named(graph, name));
  return ops;
}

inline std::vector<OpIndex> all_ops(const OpGraph& graph) {
  std::vector<OpIndex> ops;
  for (OpIndex i = 0; i < graph.ops.size(); ++i) ops.push_back(i);
  return ops;
}

/// Why these ops cannot be one kernel; "legal" if they can.
inline std::string refusal_of(const OpGraph& graph, const std::vector<OpIndex>& ops,
                              const BackendMode& mode = {}, const Backend& backend = joining_backend()) {
  return kernel_refusal(graph, ops, backend, mode).value_or("legal");
}
inline std::string refusal_of(const OpGraph& graph, std::initializer_list<const char*> names,
                              const BackendMode& mode = {}, const Backend& backend = joining_backend()) {
  return refusal_of(graph, ops_named(graph, names), mode, backend);
}

}  // namespace gpusim::test
