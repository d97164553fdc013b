// SPDX-License-Identifier: Apache-2.0
// The fast path against the event loop, byte for byte.
#pragma once

#include <algorithm>

#include "sim/engine/engine.hpp"
#include "tests/support/random_program.hpp"

namespace gpusim::test {

inline bool equal(const engine::OpRecord& a, const engine::OpRecord& b) {
  return a.start == b.start && a.end == b.end && a.call == b.call && a.node == b.node;
}

inline bool equal(const engine::Timeline& a, const engine::Timeline& b) {
  const std::vector<engine::Index> order_a = a.ops_in_order();
  const std::vector<engine::Index> order_b = b.ops_in_order();
  if (!std::equal(order_a.begin(), order_a.end(), order_b.begin(), order_b.end(),
                  [&](engine::Index x, engine::Index y) { return equal(a.ops[x], b.ops[y]); }))
    return false;
  if (a.threads.size() != b.threads.size()) return false;
  for (std::size_t t = 0; t < a.threads.size(); ++t)
    if (a.threads[t].call_end != b.threads[t].call_end || a.threads[t].step_start != b.threads[t].step_start)
      return false;
  return std::equal(a.memory.begin(), a.memory.end(), b.memory.begin(), b.memory.end(),
                    [](const engine::MemoryRecord& x, const engine::MemoryRecord& y) {
                      return x.at == y.at && x.bytes == y.bytes;
                    });
}

inline bool equal(const engine::Run& a, const engine::Run& b) {
  return a.totals == b.totals && a.window == b.window && a.first_op_start == b.first_op_start &&
         a.last_op_end == b.last_op_end && a.peak_bytes == b.peak_bytes && a.final_bytes == b.final_bytes &&
         a.queue_length_max == b.queue_length_max;
}

/// 0 if both paths agree on everything; otherwise what differs first.
inline const char* difference(const RandomProgram& random, std::int64_t steps) {
  engine::Timeline fast, slow;
  const engine::Run a = engine::run(random.program, random.machine, steps, &fast);
  const engine::Run b = engine::run_event_by_event(random.program, random.machine, steps, &slow);
  if (!equal(fast, slow)) return "timelines";
  if (!(a.totals == b.totals)) return "totals";
  if (!equal(a, b)) return "runs";
  if (!equal(engine::run(random.program, random.machine, steps), b)) return "runs without a timeline";
  return nullptr;
}

}  // namespace gpusim::test
