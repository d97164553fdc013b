// SPDX-License-Identifier: Apache-2.0
// A critical path in figures and names: what a report says of it. docs/critical-path.md tells how to read it.
//
//   critical path of eager                                 time   share  stretches
//   --------------------------------------------------------------------------------
//   kernel                                             3.00 us   0.2 %          1
//   host                                            1800.00 us  99.8 %          1
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/critical_path/critical_path.hpp"

namespace gpusim::report {

/// What a piece of the path belongs to, in words: {"launch of", "gemm"}, {"before", "gemm"}, {"", "gemm"},
/// {"work for", "gemm"}, {"synchronize", ""}.
struct PathSubject {
  std::string action;
  std::string name;

  friend bool operator==(const PathSubject&, const PathSubject&) = default;
};

struct PathSummary {
  /// All pieces of one subject and resource.
  struct Item {
    PathSubject subject;
    PathResource resource = PathResource::Host;
    Picoseconds time{0};
    std::int64_t count = 0;
  };
  /// Pieces of one resource that follow each other.
  struct Stretch {
    Picoseconds from{0};
    Picoseconds to{0};
    PathResource resource = PathResource::Host;
    PathSubject subject;      ///< Of the longest piece.
    std::int64_t pieces = 0;  ///< Of any subject.

    Picoseconds duration() const { return to - from; }
  };
  Picoseconds makespan{0};
  std::int64_t steps = 1;  ///< Of the user.
  std::array<Picoseconds, path_resource_count> by_resource{};
  std::array<std::int64_t, path_resource_count> stretches{};
  std::vector<Stretch> longest;  ///< The ten longest, longest first; equal ones in order of time.
  std::vector<Item> items;       ///< Longest first; equal ones in order of time.
  std::int64_t ops = 0;
  std::int64_t ops_with_slack = 0;
  Picoseconds time_with_slack{0};  ///< Run time of these ops, together.
  Picoseconds slack_sum{0};
  Picoseconds slack_median{0};  ///< Of the ops that have some: so much or more for half of them.
  Picoseconds unexplained{0};
  std::array<Counterfactual, infinitely_fast_count> infinitely_fast{};

  Picoseconds of(PathResource resource) const { return by_resource[static_cast<std::size_t>(resource)]; }
};

/// `steps`: of the user, in the timeline.
PathSummary summarize_path(const engine::Program& program, const engine::Timeline& timeline,
                           const CriticalPath& path,
                           const std::array<Counterfactual, infinitely_fast_count>& infinitely_fast,
                           std::int64_t steps);

/// For people, 80 columns wide. `title` stands over the first table.
std::string path_text(const PathSummary& summary, std::string_view title);

}  // namespace gpusim::report
