// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/recompile.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace gpusim {
namespace {

/// A size that no compiled code takes as one of many.
bool specialized(std::int64_t size) {
  return size <= 1;
}

/// What was compiled, by its guards.
struct Entry {
  std::size_t number = 0;
  CallSizes sizes;            ///< With which it was compiled.
  std::vector<bool> dynamic;  ///< By dimension.
  bool equal_stay_equal = false;

  bool any_dynamic() const { return std::find(dynamic.begin(), dynamic.end(), true) != dynamic.end(); }

  bool fits(const CallSizes& call, const std::vector<ShapeBranch>& branches) const {
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      if (dynamic[d] ? specialized(call[d]) : call[d] != sizes[d]) return false;
      if (!dynamic[d] || !equal_stay_equal) continue;
      for (std::size_t e = 0; e < d; ++e)
        if (dynamic[e] && sizes[e] == sizes[d] && call[e] != call[d]) return false;
    }
    return std::all_of(branches.begin(), branches.end(), [&](const ShapeBranch& branch) {
      return (call[branch.dimension] > branch.above) == (sizes[branch.dimension] > branch.above);
    });
  }
};

/// The CUDA graphs of an entry for one value of its dynamic sizes.
struct Recordings {
  bool warmed_up = false;
  bool given_up = false;
  std::set<std::int64_t> addresses;  ///< With which it was recorded.
};

class CodeCache {
 public:
  explicit CodeCache(const RecompileRules& rules) : rules_(rules) {}

  CallRecord call(const ShapeCall& call) {
    CallRecord record;
    const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
      ++record.entries_tried;
      return entry.fits(call.sizes, rules_.branches);
    });
    if (found != entries_.end()) {
      record.outcome = CallOutcome::Hits;
      std::rotate(entries_.begin(), found, found + 1);
    } else if (static_cast<std::int64_t>(entries_.size()) >= rules_.limit) {
      record.outcome = CallOutcome::Eager;
      return record;
    } else {
      entries_.insert(entries_.begin(), compile(call.sizes));
    }
    const Entry& entry = entries_.front();
    record.entry = entry.number;
    record.dynamic = entry.any_dynamic();
    if (rules_.cuda_graphs) replay(call, entry, record);
    return record;
  }

 private:
  Entry compile(const CallSizes& sizes) {
    if (entries_.empty()) {
      first_ = sizes;
      varies_.assign(sizes.size(), false);
    }
    Entry entry{.number = entries_.size(), .sizes = sizes, .dynamic = {}};
    entry.equal_stay_equal = rules_.dynamic == DynamicShapes::Always;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d] != first_[d]) varies_[d] = true;
      const bool marked = std::find(rules_.marked.begin(), rules_.marked.end(), d) != rules_.marked.end();
      const bool wanted = marked || rules_.dynamic == DynamicShapes::Always ||
                          (rules_.dynamic == DynamicShapes::Automatic && varies_[d]);
      entry.dynamic.push_back(wanted && !specialized(sizes[d]));
    }
    return entry;
  }

  void replay(const ShapeCall& call, const Entry& entry, CallRecord& record) {
    if (record.dynamic && rules_.cuda_graphs->skip_dynamic) return;
    CallSizes key;
    for (std::size_t d = 0; d < call.sizes.size(); ++d)
      if (entry.dynamic[d]) key.push_back(call.sizes[d]);
    std::map<CallSizes, Recordings>& of_entry = recordings_[entry.number];
    const auto [known, added] = of_entry.try_emplace(std::move(key));
    record.warns =
        added && static_cast<std::int64_t>(of_entry.size()) == rules_.cuda_graphs->sizes_warned + 1;
    Recordings& recordings = known->second;
    if (recordings.given_up) return;
    if (!recordings.warmed_up) {
      recordings.warmed_up = true;
      record.graph = GraphOutcome::WarmUp;
    } else if (!recordings.addresses.insert(call.addresses).second) {
      record.graph = GraphOutcome::Replay;
    } else if (static_cast<std::int64_t>(recordings.addresses.size()) >
               1 + rules_.cuda_graphs->rerecords_limit) {
      recordings.given_up = true;
    } else {
      record.graph = GraphOutcome::Record;
    }
  }

  const RecompileRules& rules_;
  std::vector<Entry> entries_;  ///< The most recently used first.
  CallSizes first_;             ///< Of the first compilation.
  std::vector<bool> varies_;    ///< By dimension: it was another one when something was compiled later.
  std::map<std::size_t, std::map<CallSizes, Recordings>> recordings_;
};

}  // namespace

std::vector<CallRecord> simulate_calls(std::span<const ShapeCall> calls, const RecompileRules& rules) {
  CodeCache cache(rules);
  std::vector<CallRecord> records;
  records.reserve(calls.size());
  for (const ShapeCall& call : calls) records.push_back(cache.call(call));
  return records;
}

void check_export(const ExportedShapes& exported) {
  for (const ExportedDimension& d : exported.dynamic) {
    const std::int64_t size = exported.traced[d.dimension];
    if (specialized(size))
      throw CompileError("dimension " + std::to_string(d.dimension) + " is traced with size " +
                             std::to_string(size) + ", which becomes a constant",
                         "trace with a size of at least 2");
    if (size < d.least || size > d.most)
      throw CompileError("dimension " + std::to_string(d.dimension) + " is traced with size " +
                         std::to_string(size) + ", outside " + std::to_string(d.least) + " to " +
                         std::to_string(d.most));
  }
}

void check_exported_call(const ExportedShapes& exported, const CallSizes& sizes) {
  for (std::size_t d = 0; d < exported.traced.size(); ++d) {
    const auto declared = std::find_if(exported.dynamic.begin(), exported.dynamic.end(),
                                       [d](const ExportedDimension& e) { return e.dimension == d; });
    if (declared == exported.dynamic.end()) {
      if (sizes[d] != exported.traced[d])
        throw CompileError("dimension " + std::to_string(d) + " is " + std::to_string(exported.traced[d]) +
                               " in the exported program, not " + std::to_string(sizes[d]),
                           "declare the dimension dynamic when exporting");
    } else if (sizes[d] < declared->least || sizes[d] > declared->most) {
      throw CompileError("size " + std::to_string(sizes[d]) + " of dimension " + std::to_string(d) +
                             " is outside " + std::to_string(declared->least) + " to " +
                             std::to_string(declared->most) + ", for which the program was exported",
                         "declare wider bounds when exporting");
    }
  }
}

}  // namespace gpusim
