// SPDX-License-Identifier: Apache-2.0
// What a compiler did with a step and why, for people: `gpusim explain`.
#pragma once

#include <string>
#include <vector>

#include "models/compiler/compile.hpp"
#include "models/compiler/options.hpp"
#include "models/compiler/recompute_curve.hpp"

namespace gpusim::report {

/// A variant that was compiled.
struct ExplainedVariant {
  std::string variant;
  CompiledStep step;
  CompileOptions options;
  double compile_seconds = 0;
  std::vector<CurvePoint> curve;  ///< Of a training step, if asked for.
};

/// Which gpusim, and the digest of what it was asked about.
struct ExplainOrigin {
  std::string version{};
  std::string input{};
};

/// At most 80 columns. Regions of the same code are shown once.
std::string explain_text(const std::string& scenario, const std::vector<ExplainedVariant>& variants);

/// {"gpusim": ..., "scenario": ..., "input": ..., "variants": [{"variant", "backend", "mode", "graph_breaks":
/// [...], "passes": [...], "regions": [{"name", "times", "compiled", "cuda_graph", "kernels": [{"name",
/// "ops", "read_bytes", "written_bytes", "eager_bytes"}], "refused": [{"producer", "consumer", "reason",
/// "bytes"}]}], "recompute": [...], "recompute_curve": [...]}]}; the last two of training steps
/// (explain_recompute.hpp).
std::string explain_json(const std::string& scenario, const std::vector<ExplainedVariant>& variants,
                         const ExplainOrigin& origin);

}  // namespace gpusim::report
