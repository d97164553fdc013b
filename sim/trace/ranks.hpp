// SPDX-License-Identifier: Apache-2.0
// The traces of several ranks beside each other: who computes, who communicates, who waits for whom.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/trace/trace.hpp"

namespace gpusim {

/// What is kept of one rank's trace.
struct RankTrace {
  explicit RankTrace(const Trace& trace);

  struct Collective {
    std::string name;
    std::string group;
    Picoseconds duration{0};
  };
  std::string file;
  std::int64_t rank = -1;
  std::int64_t world_size = -1;
  Picoseconds wall{0};                  ///< From the first GPU op's start to the latest end.
  Picoseconds busy{0};                  ///< At least one GPU op runs.
  Picoseconds computing{0};             ///< At least one that is no collective runs.
  Picoseconds communicating{0};         ///< At least one collective runs.
  std::vector<Collective> collectives;  ///< By time of start.

  Picoseconds exposed() const { return busy - computing; }  ///< Only collectives run.
};

/// How long a rank's collectives took longer than the same ones of the rank in which they were shortest. They
/// end together, so whoever comes last has the shortest: this is time spent waiting for it.
struct RankWait {
  Picoseconds waited{0};
  std::int64_t last = 0;  ///< Collectives for which this rank was waited for.
};

/// One for each rank; the n-th collective of a group is the same in all. Those that not all ranks have, or by
/// other names, are left out: `matched` are compared.
struct RankSkew {
  std::vector<RankWait> ranks;
  std::int64_t matched = 0;
};
RankSkew compare_ranks(std::span<const RankTrace> ranks);

/// Whether the traces are of different ranks of one run, by what they say themselves.
bool are_ranks_of_one_run(std::span<const RankTrace> ranks);

}  // namespace gpusim
