// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/result.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace gpusim::engine {

const char* name(IdleCause cause) {
  switch (cause) {
    case IdleCause::Event:
      return "event";
    case IdleCause::Synchronization:
      return "synchronization";
    case IdleCause::LaunchLatency:
      return "launch_latency";
    case IdleCause::Gap:
      return "gap";
    case IdleCause::Dispatch:
      return "dispatch";
    case IdleCause::Input:
      return "input";
  }
  return "unknown";
}

Picoseconds Totals::idle_total() const {
  return std::accumulate(idle.begin(), idle.end(), Picoseconds(0));
}

Totals add(Totals a, const Totals& b, std::int64_t times) {
  const auto more = [&](auto& sum, const auto& part) { sum += part * times; };
  more(a.steps, b.steps);
  more(a.wall, b.wall);
  more(a.busy, b.busy);
  more(a.op_sum, b.op_sum);
  for (std::size_t i = 0; i < a.idle.size(); ++i) more(a.idle[i], b.idle[i]);
  more(a.host_work, b.host_work);
  more(a.host_blocked, b.host_blocked);
  more(a.host_blocked_queue, b.host_blocked_queue);
  more(a.counts.kernels, b.counts.kernels);
  more(a.counts.memcpys, b.counts.memcpys);
  more(a.counts.memsets, b.counts.memsets);
  more(a.counts.kernel_launches, b.counts.kernel_launches);
  more(a.counts.cuda_graph_launches, b.counts.cuda_graph_launches);
  more(a.counts.synchronizations, b.counts.synchronizations);
  return a;
}

Totals operator-(Totals a, const Totals& b) {
  return add(a, b, -1);
}

CallRecord Timeline::call(Index number) const {
  const std::size_t t = number % threads.size();
  const std::size_t executed = number / threads.size();
  const Thread& thread = threads[t];
  const std::size_t step = executed / thread.per_step;
  const std::size_t instruction = executed % thread.per_step;
  return {.start = instruction == 0 ? thread.step_start[step] : thread.call_end[executed - 1],
          .end = thread.call_end[executed],
          .instruction = static_cast<Index>(instruction),
          .step = static_cast<std::uint32_t>(step),
          .thread = static_cast<std::uint16_t>(t)};
}

std::vector<Index> Timeline::calls_in_order() const {
  std::vector<std::size_t> next(threads.size(), 0);
  std::vector<Picoseconds> start(threads.size());
  std::size_t total = 0;
  for (std::size_t t = 0; t < threads.size(); ++t) {
    total += threads[t].call_end.size();
    if (!threads[t].call_end.empty()) start[t] = threads[t].step_start[0];
  }
  std::vector<Index> order;
  order.reserve(total);
  while (order.size() < total) {
    std::size_t first = threads.size();
    for (std::size_t t = 0; t < threads.size(); ++t)
      if (next[t] < threads[t].call_end.size() && (first == threads.size() || start[t] < start[first]))
        first = t;
    order.push_back(call_number(first, next[first]));
    if (++next[first] < threads[first].call_end.size())
      start[first] = call(call_number(first, next[first])).start;
  }
  return order;
}

std::vector<Index> Timeline::ops_in_order() const {
  const auto before = [&](Index a, Index b) {
    const OpRecord& x = ops[a];
    const OpRecord& y = ops[b];
    return std::tie(x.start, x.call, x.node, x.end) < std::tie(y.start, y.call, y.node, y.end);
  };
  // Nearly sorted as they stand: only those that come too late are.
  std::vector<Index> order;
  std::vector<Index> late;
  order.reserve(ops.size());
  for (Index i = 0; i < ops.size(); ++i)
    (order.empty() || !before(i, order.back()) ? order : late).push_back(i);
  std::sort(late.begin(), late.end(), before);
  const auto in_order = static_cast<std::ptrdiff_t>(order.size());
  order.insert(order.end(), late.begin(), late.end());
  std::inplace_merge(order.begin(), order.begin() + in_order, order.end(), before);
  return order;
}

std::size_t Timeline::call_limit() const {
  std::size_t most = 0;
  for (const Thread& thread : threads) most = std::max(most, thread.call_end.size());
  return most * threads.size();
}

const Instruction& instruction_of(const Program& program, const CallRecord& call) {
  return program.threads[call.thread].instructions[call.instruction];
}

const Instruction& launch_of(const Program& program, const Timeline& timeline, const OpRecord& record) {
  const std::size_t thread = record.call % timeline.threads.size();
  const std::size_t executed = record.call / timeline.threads.size();
  const LargeVector<Instruction>& instructions = program.threads[thread].instructions;
  return instructions[executed % instructions.size()];
}

Index op_of(const Program& program, const Timeline& timeline, const OpRecord& record) {
  const Instruction& launch = launch_of(program, timeline, record);
  return record.node == no_index ? launch.object : program.graphs[launch.object].nodes[record.node].op;
}

std::vector<std::uint16_t> lanes(const Program& program, const Timeline& timeline) {
  std::vector<std::uint16_t> result;
  result.reserve(timeline.ops.size());
  std::vector<std::vector<Picoseconds>> free_at(program.streams.size());
  for (const OpRecord& record : timeline.ops) {
    std::vector<Picoseconds>& free = free_at[launch_of(program, timeline, record).stream];
    auto lane = std::find_if(free.begin(), free.end(), [&](Picoseconds at) { return at <= record.start; });
    if (lane == free.end()) lane = free.insert(lane, Picoseconds(0));
    *lane = record.end;
    result.push_back(static_cast<std::uint16_t>(std::min<std::ptrdiff_t>(lane - free.begin(), 0xffff)));
  }
  return result;
}

}  // namespace gpusim::engine
