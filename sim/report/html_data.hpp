// SPDX-License-Identifier: Apache-2.0
// What the pages of html/ draw, as JSON. Internal to sim/report.
//
// Kernel names, host work and ops of the network are told by their place in "names". Times of timelines are
// nanoseconds, rounded moment by moment, so that nothing adds up; starts are given as differences.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "sim/report/explain_report.hpp"
#include "sim/report/result.hpp"

namespace gpusim::report {

/// Texts that stand in the data many times, told by number.
class NameTable {
 public:
  std::size_t operator()(std::string_view text);
  const std::vector<std::string>& all() const { return all_; }

 private:
  std::map<std::string, std::size_t, std::less<>> places_;
  std::vector<std::string> all_;
};

/// Ops of a variant that do the same: name, kind, FLOPs and bytes are equal.
struct DistinctOps {
  struct Entry {
    engine::Index op = 0;  ///< One of them, into Program::ops.
    std::int64_t count = 0;
    Picoseconds total{0};
  };
  std::vector<Entry> entries;      ///< In the order of Program::ops.
  std::vector<std::size_t> of_op;  ///< Place in `entries` of each op of the program.
  std::int64_t steps = 1;          ///< Of the user, that counts and totals are over.
};
DistinctOps distinct_ops(const VariantResult& result);

/// {"name", "family", "kind", "flops", "bytes", "count", "total_ns"}, a list each: an entry for each of
/// `ops`. Bytes as they load the memory, see RankedKernel.
nlohmann::ordered_json ops_json(const VariantResult& result, const DistinctOps& ops, NameTable& names);

/// Rows of host threads and streams, idle time, steps; see html/timeline.js. Pre: result.timeline.
nlohmann::ordered_json timeline_json(const VariantResult& result, const DistinctOps& ops, NameTable& names);

/// Memory over time by what it is taken for; null where it is not known.
nlohmann::ordered_json memory_json(const VariantResult& result);

/// Kernels of each region with the ops in them, what was not joined and why, passes, breaks.
nlohmann::ordered_json fusion_json(const ExplainedVariant& explained);

/// All of a scenario.
nlohmann::ordered_json scenario_json(const ScenarioReport& report,
                                     const std::vector<ExplainedVariant>& explained);

}  // namespace gpusim::report
