// SPDX-License-Identifier: Apache-2.0
// Compiling small functions, and calls of many shapes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/compiler/compile.hpp"
#include "models/compiler/recompile.hpp"
#include "sim/config/backend_reader.hpp"
#include "tests/support/networks.hpp"

namespace gpusim::test {

inline CompileOptions options_of(const std::string& backend, const std::string& mode = "") {
  CompileOptions options;
  options.backend = config::read_backend(config::load_text(backend, "t"), config::SearchPath{});
  options.mode = mode.empty() ? options.backend.modes.front() : *options.backend.find(mode);
  return options;
}

/// y of a function of x [5, 64].
inline OpGraph function_of(const std::string& body) {
  return build_graph(network_of("name: n\ninputs:\n  x: {shape: [5, 64]}\nbody:\n" + body + "gives: [y]\n"),
                     sizes(1, 1));
}

/// As torch.compile has it.
inline CapturedStep captured(const std::string& body) {
  return capture_regions(function_of(body), options_of("inductor"));
}

/// How many regions are compiled.
inline std::int64_t graphs(const CapturedStep& step) {
  std::int64_t count = 0;
  for (const Region& region : step.regions) count += region.compiled ? 1 : 0;
  return count;
}

inline CompiledStep compiled(const OpGraph& graph, const CompileOptions& options = options_of("inductor")) {
  return compile_step(std::make_shared<const OpGraph>(graph), options, h200());
}

/// One letter a call: C compiles, h hits, e runs eagerly.
inline std::string outcomes(const std::vector<CallSizes>& sizes, const RecompileRules& rules = {}) {
  std::vector<ShapeCall> calls;
  for (const CallSizes& s : sizes) calls.push_back({.sizes = s});
  std::string text;
  for (const CallRecord& record : simulate_calls(calls, rules))
    text += record.outcome == CallOutcome::Compiles ? 'C' : record.outcome == CallOutcome::Hits ? 'h' : 'e';
  return text;
}

inline RecompileRules dynamic(DynamicShapes shapes) {
  RecompileRules rules;
  rules.dynamic = shapes;
  return rules;
}

}  // namespace gpusim::test
