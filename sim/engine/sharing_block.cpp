// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/sharing_block.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gpusim::engine {

namespace {

constexpr double saturated_issue =
    0.95;  // share of the issue slots from which a kernel counts as bound by them
constexpr std::int64_t system_shared_memory =
    1024;                                // bytes that CUDA takes of every block that uses shared memory
constexpr std::int64_t fluid_waves = 4;  // with more waves than this no step of a wave is seen any more
constexpr double nearly_all_bandwidth =
    0.95;  // of the cap: traffic that is served first leaves the rest to others
constexpr double load_unit = 1 << 20;

std::int32_t clamped(std::int64_t value, std::int64_t least, std::int64_t most) {
  return static_cast<std::int32_t>(std::clamp(value, least, most));
}

double ceiling_of_ratio(std::int64_t a, std::int64_t b) {
  return static_cast<double>(a / b + (a % b != 0 ? 1 : 0));
}

std::int64_t load_of(std::int32_t need, std::int32_t all) {
  return static_cast<std::int64_t>(load_unit * static_cast<double>(need) / static_cast<double>(all));
}

}  // namespace

SharingLimits::SharingLimits(const SharingMachine& machine)
    : sms(std::max(machine.sms, 0)),
      bandwidth_top(std::max(machine.bandwidth_top, 0.0) / 1e12),
      bandwidth_per_sm(std::max(machine.bandwidth_per_sm, 0.0) / 1e12),
      long_block(static_cast<double>(machine.long_block.count())) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  sm.threads = clamped(machine.threads_per_sm, 1, most);
  sm.registers = clamped(machine.registers_per_sm, 1, most);
  sm.shared_memory = clamped(machine.shared_memory_per_sm, 1, most);
  sm.blocks = clamped(machine.blocks_per_sm, 1, most);
  // The cap is such that the memory gives `top` when every SM asks for the most it can. Without a limit per
  // SM they ask for three times what they get, about what they do on an H200. A limit that could not reach
  // the top, or one that is none, would make the cap infinite or the demand of a kernel at the top.
  double x = 1.0 / 3.0;
  if (sms > 0 && bandwidth_per_sm > 0) x = std::clamp(bandwidth_top / (sms * bandwidth_per_sm), 0.1, 0.9);
  bandwidth_cap = bandwidth_top / std::sqrt(1 - x * x);
}

double SharingLimits::soft_cap(double asked) const {
  const double x = asked / bandwidth_cap;
  return asked / std::sqrt(1 + x * x);
}

double SharingLimits::beside(double served, double asked) const {
  if (served == 0) return soft_cap(asked);  // what follows comes to, without the roots
  const double x = std::min(served / bandwidth_cap, nearly_all_bandwidth);
  return soft_cap(asked + x * bandwidth_cap / std::sqrt(1 - x * x)) - x * bandwidth_cap;
}

BlockModel::BlockModel(const Footprint& footprint, Picoseconds duration, const SharingLimits& limits)
    : alone(static_cast<double>(duration.count())) {
  const std::int64_t blocks = std::max<std::int64_t>(footprint.blocks, 1);
  const std::int64_t threads = std::max(footprint.threads_per_block, 0);
  need.threads = clamped(threads, 0, limits.sm.threads);
  need.registers = clamped(threads * std::max(footprint.registers_per_thread, 0), 0, limits.sm.registers);
  need.blocks = 1;
  per_sm = room(limits.sm, need);
  if (footprint.shared_memory_per_block > 0) {
    const std::int64_t most = limits.sm.shared_memory;
    need.shared_memory =
        clamped(std::min(footprint.shared_memory_per_block, most) + system_shared_memory, 0, most);
    carveout = clamped(std::int64_t{need.shared_memory} * per_sm, 0, most);
    per_sm = room(limits.sm, need);
  }
  load = std::max({load_of(need.threads, limits.sm.threads), load_of(need.registers, limits.sm.registers),
                   load_of(need.shared_memory, limits.sm.shared_memory),
                   load_of(need.blocks, limits.sm.blocks)});

  const std::int64_t slots = std::int64_t{limits.sms} * per_sm;
  const std::int64_t used = std::min<std::int64_t>(limits.sms, blocks);  // SMs
  const double block_count = static_cast<double>(blocks);
  const double slot_count = static_cast<double>(slots);
  const double fullest =
      std::min(static_cast<double>(per_sm), ceiling_of_ratio(blocks, used));  // blocks on one SM
  const double bytes = limits.bandwidth_top > 0 ? static_cast<double>(footprint.bytes) : 0;
  const double share = std::clamp(footprint.arithmetic, 0.0, 1.0);

  arithmetic = share >= saturated_issue;
  memory = bytes > 0 && !footprint.memory_hidden && !arithmetic;
  fluid = memory || blocks > fluid_waves * slots;
  // A slot runs so many blocks one after the other. Blocks in lockstep run in whole waves.
  layers = fluid ? std::max(1.0, block_count / slot_count) : ceiling_of_ratio(blocks, slots);
  const double time_alone = alone / layers;
  if (arithmetic && blocks > used) {  // the blocks of an SM run one after the other, each with all of it
    if (!fluid) layers = ceiling_of_ratio(blocks, used);
    time = fluid ? alone * static_cast<double>(used) / block_count : alone / layers;
    issue = 1;
  } else {
    // SM time of arithmetic, spread evenly over the blocks; at most what the fullest SM has for each of its
    // blocks.
    const double issue_time =
        std::min(share * alone * static_cast<double>(used) / block_count, time_alone / fullest);
    time = time_alone;
    if (memory) {
      // Near the cap a kernel asks for more than it gets: the soft cap turned round. It asks for no more than
      // it can with its arithmetic. Its time with an idle memory follows from what the memory then gives it
      // alone.
      const double drawn = std::min(bytes / alone, limits.bandwidth_top) / limits.bandwidth_cap;
      draw = bytes / block_count / std::max(time_alone * std::sqrt(1 - drawn * drawn), issue_time);
      const double asked = draw * static_cast<double>(std::min(blocks, slots));
      memory_alone = limits.soft_cap(asked) / asked;
      time = time_alone * memory_alone;
    }
    issue = issue_time / time;
  }
  if (!memory) draw = bytes / block_count / time;
  fullest_draw = draw * fullest;
  lasting = !arithmetic && time > limits.long_block;
}

}  // namespace gpusim::engine
