// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/communication.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "sim/trace/kernel_names.hpp"

namespace gpusim {
namespace {

using Interval = std::pair<Picoseconds, Picoseconds>;

/// Sorted, none touching another.
std::vector<Interval> merged(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end());
  std::vector<Interval> out;
  for (const Interval& interval : intervals) {
    if (!out.empty() && interval.first <= out.back().second)
      out.back().second = std::max(out.back().second, interval.second);
    else
      out.push_back(interval);
  }
  return out;
}

/// How much of [from, to) the intervals cover.
Picoseconds covered(const std::vector<Interval>& intervals, Picoseconds from, Picoseconds to) {
  Picoseconds sum{0};
  auto at =
      std::lower_bound(intervals.begin(), intervals.end(), from,
                       [](const Interval& interval, Picoseconds time) { return interval.second <= time; });
  for (; at != intervals.end() && at->first < to; ++at)
    sum += std::min(at->second, to) - std::max(at->first, from);
  return sum;
}

std::int64_t element_bytes(const std::string& dtype) {
  if (dtype == "Double" || dtype == "Long") return 8;
  if (dtype == "Float" || dtype == "Int") return 4;
  if (dtype == "BFloat16" || dtype == "Half" || dtype == "Short") return 2;
  if (dtype == "Byte" || dtype == "Char" || dtype == "Bool" || dtype.rfind("Float8", 0) == 0) return 1;
  return 0;
}

/// Bytes that a ring of `ranks` sends for each byte of the larger buffer (nccl-tests, doc/PERFORMANCE.md).
double ring_share(const std::string& name, double ranks) {
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  const double others = (ranks - 1) / ranks;
  if (has("allreduce") || has("all_reduce")) return 2 * others;
  if (has("allgather") || has("all_gather") || has("reduce_scatter") || has("all_to_all") || has("alltoall"))
    return others;
  return 1;
}

}  // namespace

double TraceCommunication::bus_bytes_per_second() const {
  if (bytes <= 0 || group_size < 2 || shortest <= Picoseconds{0}) return 0;
  return static_cast<double>(bytes) * ring_share(name, static_cast<double>(group_size)) / seconds(shortest);
}

TraceCommunications trace_communication(const Trace& trace) {
  TraceCommunications result;
  for (const TraceStep& step : trace.steps) result.steps.push_back({step.number, 0, {}, {}});
  // By name, since traces have many ops and few names.
  std::vector<bool> communicates(trace.names.size());
  std::vector<bool> known(trace.names.size());
  const auto is_collective = [&](const TraceOp& op) {
    if (op.kind != TraceOpKind::Kernel) return false;
    if (!known[op.name]) {
      known[op.name] = true;
      communicates[op.name] = kernel_group(trace.name_of(op.name)) == KernelGroup::Communication;
    }
    return static_cast<bool>(communicates[op.name]);
  };
  std::vector<std::uint32_t> found;
  for (std::uint32_t i = 0; i < trace.ops.size(); ++i)
    if (is_collective(trace.ops[i])) found.push_back(i);
  if (found.empty()) return result;
  // By device: what is no collective.
  std::vector<std::vector<Interval>> others(trace.devices.size());
  const auto device_of = [&](const TraceOp& op) { return trace.streams[op.stream].device_index; };
  for (const TraceOp& op : trace.ops)
    if (!is_collective(op)) others[device_of(op)].emplace_back(op.start, op.end);
  for (std::vector<Interval>& of_device : others) of_device = merged(std::move(of_device));
  std::unordered_map<std::int64_t, Picoseconds> launched;
  for (const TraceCall& call : trace.calls)
    if (call.correlation) launched.emplace(*call.correlation, call.start);

  std::map<std::tuple<std::string, std::string, std::int64_t, std::int64_t>, TraceCommunication> kinds;
  for (const std::uint32_t i : found) {
    const TraceOp& op = trace.ops[i];
    TraceCommunication kind;
    if (op.collective == trace_none) {
      const std::string& kernel = trace.name_of(op.name);
      kind.name = kernel.substr(0, kernel.find('('));  // without the types of its parameters
    } else {
      const TraceCollective& asked = trace.collectives[op.collective];
      kind.name = asked.name;
      kind.dtype = asked.dtype;
      kind.group_size = asked.group_size;
      kind.bytes =
          std::max<std::int64_t>({asked.in_elements, asked.out_elements, 0}) * element_bytes(asked.dtype);
    }
    TraceCommunication& sum =
        kinds.emplace(std::tuple(kind.name, kind.dtype, kind.bytes, kind.group_size), kind).first->second;
    const Picoseconds exposed = op.duration() - covered(others[device_of(op)], op.start, op.end);
    sum.shortest = sum.count == 0 ? op.duration() : std::min(sum.shortest, op.duration());
    ++sum.count;
    sum.total += op.duration();
    sum.exposed += exposed;
    result.total += op.duration();
    result.exposed += exposed;
    const auto call = op.correlation ? launched.find(*op.correlation) : launched.end();
    if (call == launched.end()) continue;
    for (std::size_t s = 0; s < trace.steps.size(); ++s) {
      if (call->second < trace.steps[s].start || call->second >= trace.steps[s].end) continue;
      ++result.steps[s].count;
      result.steps[s].total += op.duration();
      result.steps[s].exposed += exposed;
      break;
    }
  }
  for (auto& [key, kind] : kinds) result.kinds.push_back(std::move(kind));
  std::stable_sort(
      result.kinds.begin(), result.kinds.end(),
      [](const TraceCommunication& a, const TraceCommunication& b) { return a.total > b.total; });
  return result;
}

}  // namespace gpusim
