// SPDX-License-Identifier: Apache-2.0
// What follows from a kernel's footprint for one of its blocks, on a given machine.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/engine/footprint.hpp"
#include "sim/engine/time.hpp"

namespace gpusim::engine {

/// The slots of an SM, or what a block takes of them.
struct SmResources {
  std::int32_t threads = 0;
  std::int32_t registers = 0;
  std::int32_t shared_memory = 0;  ///< bytes
  std::int32_t blocks = 0;
};

/// A machine in the units of the rule.
struct SharingLimits {
  std::int32_t sms = 0;
  SmResources sm;
  double bandwidth_top = 0;     ///< bytes per picosecond
  double bandwidth_cap = 0;     ///< bytes per picosecond: asymptote of the soft cap, see soft_cap
  double bandwidth_per_sm = 0;  ///< bytes per picosecond; 0: no limit
  double long_block = 0;        ///< ps

  explicit SharingLimits(const SharingMachine& machine);

  /// What the memory gives when `asked` is asked of it (bytes per picosecond): D / sqrt(1 + (D / cap)^2),
  /// one curve for a kernel alone and for several (validation/h200/concurrency, finding 6).
  double soft_cap(double asked) const;

  /// What is left for `asked` beside traffic of `served` that is not slowed (bytes per picosecond): `served`
  /// is what soft_cap gives to some demand, which `asked` adds to. Never nothing, though the others may draw
  /// all there is.
  double beside(double served, double asked) const;
};

/// A block of a kernel, as the rule sees it. The rule gives a kernel that is alone its measured duration
/// exactly, whatever its numbers (but for the rounding of doubles).
struct BlockModel {
  SmResources need;           ///< at most a whole SM
  std::int32_t carveout = 0;  ///< shared memory that an SM sets aside where this kernel is the first, bytes
  std::int32_t per_sm = 1;    ///< blocks of this kernel that fit on an idle SM
  std::int64_t load = 0;      ///< the largest share of an SM that a block takes of any resource, in 2^-20
  bool arithmetic = false;    ///< bound by issue slots: the blocks of an SM run one after the other
  bool memory = false;        ///< slowed by the traffic of others
  bool fluid = false;         ///< blocks are replaced as they end; else they run in waves, in lockstep
  bool lasting = false;     ///< SMs come free one by one when its blocks end, see SharingMachine::long_block
  double alone = 0;         ///< ps: of the whole kernel
  double layers = 1;        ///< blocks (lockstep: a whole number) that run one after the other in a slot
  double time = 1;          ///< ps: of a block with nothing in its way: all issue slots, an idle memory
  double issue = 0;         ///< share of an SM's issue slots that a block takes at full speed (A / time)
  double draw = 0;          ///< bytes per ps that a block asks of the memory at full speed
  double fullest_draw = 0;  ///< bytes per ps that its fullest SM asks for when it is alone
  double memory_alone = 1;  ///< share of `draw` that the memory gives it when it is alone

  /// alone > 0, limits.sms > 0
  BlockModel(const Footprint& footprint, Picoseconds alone, const SharingLimits& limits);
};

/// How many more blocks fit into `free`.
inline std::int32_t room(const SmResources& free, const SmResources& need) {
  std::int32_t fits = free.blocks;  // each takes one
  if (need.threads > 0) fits = std::min(fits, free.threads / need.threads);
  if (need.registers > 0) fits = std::min(fits, free.registers / need.registers);
  if (need.shared_memory > 0) fits = std::min(fits, free.shared_memory / need.shared_memory);
  return fits;
}

}  // namespace gpusim::engine
