// SPDX-License-Identifier: Apache-2.0
// What a profiler trace says, for people and programs. docs/traces.md tells how to read it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/trace/communication.hpp"
#include "sim/trace/detail.hpp"
#include "sim/trace/ranks.hpp"
#include "sim/trace/summary.hpp"
#include "sim/trace/trace.hpp"
#include "sim/trace/trace_path.hpp"

namespace gpusim::report {

/// Everything that `trace summary` shows of one trace.
struct TraceAnalysis {
  explicit TraceAnalysis(const Trace& trace);

  Summary summary;
  TraceDetail detail;
  TracePath path;
  TraceCommunications communication;
};

/// For people, 80 columns wide. Ends with a newline.
std::string trace_summary_text(const Trace& trace, const TraceAnalysis& analysis);
/// One object: all keys of summary_json, and the details.
std::string trace_summary_json(const Trace& trace, const TraceAnalysis& analysis);

/// Collectives by kind and by step, exposed and hidden; empty without any.
std::string trace_communication_text(const TraceCommunications& communication);
/// Members of an object, each with a comma before it.
std::string trace_communication_json(const TraceCommunications& communication);

/// The routine for finding a bottleneck, one paragraph a step: measure, look for idle time, rank the kernels,
/// hold the largest against its roof, change one thing.
std::vector<std::string> trace_advice(const Trace& trace, const TraceAnalysis& analysis);

/// The critical path. `top`: lines of each table.
std::string trace_path_text(const Trace& trace, const TracePath& path, std::size_t top);
std::string trace_path_json(const Trace& trace, const TracePath& path, std::size_t top);

/// Ranks of one run beside each other. `ranks` may not be empty.
std::string rank_text(std::span<const RankTrace> ranks);

/// A kernel's name in at most `width` columns, without parameter types and much-repeated namespaces.
std::string trace_label(std::string_view name, std::size_t width);
/// "matrix products", "attention", "communication", "elementwise & other".
std::string trace_group_text(KernelGroup group);
/// "Input Dims" in short: "[16,1024] x [1024,4096]".
std::string shapes_text(const std::vector<TraceInput>& inputs);

}  // namespace gpusim::report
