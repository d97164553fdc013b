// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/detail.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>

namespace gpusim {
namespace {

TraceTimes times_of(std::vector<Picoseconds> values) {
  TraceTimes result;
  result.count = static_cast<std::int64_t>(values.size());
  if (values.empty()) return result;
  std::sort(values.begin(), values.end());
  for (const Picoseconds value : values) result.total += value;
  result.median = values[values.size() / 2];
  result.high = values[(values.size() * 9 + 9) / 10 - 1];
  result.longest = values.back();
  return result;
}

TraceIdleCause cause_of(const Trace& trace, const TracePathPiece& piece) {
  switch (piece.resource) {
    case TraceResource::Host:
      if (piece.host_op != trace_none &&
          trace.name_of(trace.cpu_ops[piece.host_op].name).starts_with("enumerate(DataLoader)"))
        return TraceIdleCause::Input;
      return TraceIdleCause::Dispatch;
    case TraceResource::LaunchCall:
    case TraceResource::LaunchQueue:
      return TraceIdleCause::Dispatch;
    case TraceResource::Synchronization:
      return TraceIdleCause::Synchronization;
    case TraceResource::LaunchLatency:
      return TraceIdleCause::LaunchLatency;
    case TraceResource::Gap:
      return TraceIdleCause::Gap;
    case TraceResource::Event:
      return TraceIdleCause::Event;
    case TraceResource::Kernel:
    case TraceResource::Communication:
    case TraceResource::Copy:
    case TraceResource::Unknown:
      break;
  }
  return TraceIdleCause::Unknown;
}

std::string host_name(const Trace& trace, const TracePathPiece& piece) {
  if (piece.call != trace_none) return trace.name_of(trace.calls[piece.call].name);
  if (piece.host_op != trace_none) return trace.name_of(trace.cpu_ops[piece.host_op].name);
  return "host code between ops";
}

std::vector<std::uint32_t> ops_by_start(const Trace& trace) {
  std::vector<std::uint32_t> order(trace.ops.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return trace.ops[a].start != trace.ops[b].start ? trace.ops[a].start < trace.ops[b].start : a < b;
  });
  return order;
}

void find_gaps(const Trace& trace, const TraceDependencies& dependencies,
               const std::vector<std::uint32_t>& order, TraceDetail& detail) {
  const Picoseconds first = trace.ops[order.front()].start;
  Picoseconds end = first;
  std::map<std::string, Picoseconds> dispatch;
  for (const std::uint32_t i : order) {
    const TraceOp& op = trace.ops[i];
    if (op.start > end) {
      TraceGap gap;
      gap.from = end - first;
      gap.to = op.start - first;
      gap.op = i;
      Picoseconds longest{0};
      for (const TracePathPiece& piece : dependencies.walk_back(dependencies.op_start(i), end)) {
        const TraceIdleCause cause = cause_of(trace, piece);
        gap.by_cause[static_cast<std::size_t>(cause)] += piece.duration();
        if (cause == TraceIdleCause::Synchronization) {
          gap.sync_call = piece.call;
        } else if (cause == TraceIdleCause::Dispatch || cause == TraceIdleCause::Input) {
          dispatch[host_name(trace, piece)] += piece.duration();
          if (piece.duration() > longest) {
            longest = piece.duration();
            gap.host_call = piece.call;
            gap.host_op = piece.host_op;
          }
        }
      }
      for (std::size_t cause = 0; cause < trace_idle_cause_count; ++cause) {
        detail.idle[cause] += gap.by_cause[cause];
        if (gap.by_cause[cause] > gap.by_cause[static_cast<std::size_t>(gap.cause)])
          gap.cause = static_cast<TraceIdleCause>(cause);
      }
      detail.gaps.push_back(gap);
    }
    end = std::max(end, op.end);
  }
  detail.wall = end - first;
  Picoseconds idle{0};
  for (const Picoseconds time : detail.idle) idle += time;
  detail.busy = detail.wall - idle;
  std::sort(detail.gaps.begin(), detail.gaps.end(), [](const TraceGap& a, const TraceGap& b) {
    return a.duration() != b.duration() ? a.duration() > b.duration() : a.from < b.from;
  });
  for (const auto& [name, idle_time] : dispatch) detail.dispatch.push_back({name, idle_time});
  std::sort(detail.dispatch.begin(), detail.dispatch.end(),
            [](const TraceDispatch& a, const TraceDispatch& b) {
              return a.idle != b.idle ? a.idle > b.idle : a.name < b.name;
            });
}

void count_launches(const Trace& trace, const TraceLinks& links, TraceDetail& detail) {
  std::map<std::uint32_t, std::vector<Picoseconds>> by_name;
  std::vector<Picoseconds> all;
  for (std::uint32_t i = 0; i < trace.calls.size(); ++i) {
    const TraceCall& call = trace.calls[i];
    if (call.kind != TraceCallKind::KernelLaunch && call.kind != TraceCallKind::GraphLaunch) continue;
    by_name[call.name].push_back(call.duration());
    all.push_back(call.duration());
    const std::uint32_t op = links.first_op_of_call[i];
    if (call.kind == TraceCallKind::KernelLaunch && op != trace_none &&
        trace.ops[op].kind == TraceOpKind::Kernel && trace.ops[op].duration() < call.duration())
      ++detail.short_kernels;
  }
  for (auto& [name, times] : by_name) detail.launch_apis.push_back({name, times_of(std::move(times))});
  std::stable_sort(
      detail.launch_apis.begin(), detail.launch_apis.end(),
      [](const TraceLaunchApi& a, const TraceLaunchApi& b) { return a.calls.count > b.calls.count; });
  detail.launches = times_of(std::move(all));
}

void cost_synchronizations(const Trace& trace, const TraceLinks& links, TraceDetail& detail) {
  const std::vector<std::uint32_t> awaited = awaited_ops(trace, links);
  std::map<std::uint32_t, std::vector<Picoseconds>> by_name;
  std::map<std::uint32_t, TraceSyncCost> costs;
  const auto counts = [&](std::uint32_t call) {
    return is_synchronization(trace.calls[call].kind) || awaited[call] != trace_none;
  };
  for (std::uint32_t i = 0; i < trace.calls.size(); ++i) {
    if (!counts(i)) continue;
    by_name[trace.calls[i].name].push_back(trace.calls[i].duration());
    costs[trace.calls[i].name].waited += awaited[i] != trace_none ? 1 : 0;
  }
  for (const TraceGap& gap : detail.gaps) {
    if (gap.sync_call == trace_none) continue;
    TraceSyncCost& cost = costs[trace.calls[gap.sync_call].name];
    cost.idle += gap.duration();
    ++cost.gaps;
  }
  for (auto& [name, cost] : costs) {
    cost.name = name;
    cost.calls = times_of(std::move(by_name[name]));
    detail.syncs.push_back(cost);
  }
  std::stable_sort(
      detail.syncs.begin(), detail.syncs.end(),
      [](const TraceSyncCost& a, const TraceSyncCost& b) { return a.calls.total > b.calls.total; });
}

void tabulate_steps(const Trace& trace, const TraceLinks& links, const std::vector<std::uint32_t>& order,
                    TraceDetail& detail) {
  std::vector<std::uint32_t> steps(trace.steps.size());
  std::iota(steps.begin(), steps.end(), 0U);
  std::stable_sort(steps.begin(), steps.end(), [&](std::uint32_t a, std::uint32_t b) {
    return trace.steps[a].start < trace.steps[b].start;
  });
  const auto step_at = [&](Picoseconds time) -> std::size_t {
    const auto after = std::partition_point(
        steps.begin(), steps.end(), [&](std::uint32_t step) { return trace.steps[step].start <= time; });
    if (after == steps.begin() || trace.steps[*(after - 1)].end <= time) return steps.size();
    return static_cast<std::size_t>(after - steps.begin()) - 1;
  };
  struct Reach {
    bool any = false;
    Picoseconds first{0};
    Picoseconds end{0};
  };
  std::vector<Reach> reach(steps.size());
  detail.steps.resize(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    detail.steps[i].number = trace.steps[steps[i]].number;
    detail.steps[i].host = trace.steps[steps[i]].duration();
  }
  for (const TraceCall& call : trace.calls) {
    if (call.kind != TraceCallKind::KernelLaunch && call.kind != TraceCallKind::GraphLaunch) continue;
    if (const std::size_t step = step_at(call.start); step < steps.size()) ++detail.steps[step].launches;
  }
  for (const std::uint32_t i : order) {
    const TraceOp& op = trace.ops[i];
    const std::uint32_t call = links.call_of_op[i];
    const std::size_t at = step_at(call == trace_none ? op.start : trace.calls[call].start);
    if (at == steps.size()) continue;
    TraceStepFigures& step = detail.steps[at];
    step.kernels += op.kind == TraceOpKind::Kernel ? 1 : 0;
    Reach& so_far = reach[at];
    if (!so_far.any) so_far = {true, op.start, op.start};
    step.busy += std::max(op.end - std::max(op.start, so_far.end), Picoseconds(0));
    so_far.end = std::max(so_far.end, op.end);
    step.span = so_far.end - so_far.first;
  }
}

void tabulate_graphs(const Trace& trace, const TraceLinks& links, TraceDetail& detail) {
  struct Times {
    std::vector<Picoseconds> calls, spans;
  };
  std::vector<Picoseconds> ends(trace.calls.size(), Picoseconds::min());
  for (std::uint32_t i = 0; i < trace.ops.size(); ++i) {
    if (const std::uint32_t call = links.call_of_op[i]; call != trace_none)
      ends[call] = std::max(ends[call], trace.ops[i].end);
  }
  std::map<std::pair<std::uint32_t, std::uint32_t>, Times> graphs;
  for (std::uint32_t i = 0; i < trace.calls.size(); ++i) {
    if (trace.calls[i].kind != TraceCallKind::GraphLaunch) continue;
    const std::uint32_t first = links.first_op_of_call[i];
    Times& times = graphs[{links.ops_of_call[i], first == trace_none ? trace_none : trace.ops[first].name}];
    times.calls.push_back(trace.calls[i].duration());
    if (first != trace_none) times.spans.push_back(ends[i] - trace.ops[first].start);
  }
  for (auto& [key, times] : graphs)
    detail.graphs.push_back(
        {key.first, key.second, times_of(std::move(times.calls)), times_of(std::move(times.spans))});
  std::stable_sort(
      detail.graphs.begin(), detail.graphs.end(),
      [](const TraceGraphFigures& a, const TraceGraphFigures& b) { return a.spans.total > b.spans.total; });
}

/// By call: the innermost op around it whose inputs are known.
std::vector<std::uint32_t> ops_around_calls(const Trace& trace, const TraceLinks& links) {
  std::vector<std::uint32_t> result(trace.calls.size(), trace_none);
  std::vector<std::vector<std::uint32_t>> spans(trace.threads.size());
  for (std::uint32_t i = 0; i < trace.cpu_ops.size(); ++i) {
    if (trace.cpu_ops[i].inputs != trace_none) spans[trace.cpu_ops[i].thread].push_back(i);
  }
  for (std::size_t thread = 0; thread < spans.size(); ++thread) {
    std::vector<std::uint32_t>& ops = spans[thread];
    std::sort(ops.begin(), ops.end(), [&](std::uint32_t a, std::uint32_t b) {
      const TraceSpan& x = trace.cpu_ops[a];
      const TraceSpan& y = trace.cpu_ops[b];
      return x.start != y.start ? x.start < y.start : x.end != y.end ? x.end > y.end : a < b;
    });
    std::vector<std::uint32_t> open;
    std::size_t next = 0;
    for (const std::uint32_t call : links.thread_calls[thread]) {
      const Picoseconds time = trace.calls[call].start;
      for (; next < ops.size() && trace.cpu_ops[ops[next]].start <= time; ++next) {
        while (!open.empty() && trace.cpu_ops[open.back()].end < trace.cpu_ops[ops[next]].end)
          open.pop_back();
        open.push_back(ops[next]);
      }
      while (!open.empty() && trace.cpu_ops[open.back()].end <= time) open.pop_back();
      if (!open.empty()) result[call] = open.back();
    }
  }
  return result;
}

void rate_ops(const Trace& trace, const TraceLinks& links, TraceDetail& detail) {
  if (trace.inputs.empty()) return;
  const std::vector<std::uint32_t> around = ops_around_calls(trace, links);
  std::map<std::pair<std::uint32_t, std::uint32_t>, TraceOpFigures> figures;
  std::vector<char> seen(trace.cpu_ops.size(), 0);
  for (std::uint32_t i = 0; i < trace.ops.size(); ++i) {
    const std::uint32_t call = links.call_of_op[i];
    if (call == trace_none || around[call] == trace_none) continue;
    const TraceSpan& op = trace.cpu_ops[around[call]];
    TraceOpFigures& one = figures[{op.name, op.inputs}];
    one.name = op.name;
    one.inputs = op.inputs;
    one.gpu += trace.ops[i].duration();
    if (seen[around[call]] == 0) ++one.count;
    seen[around[call]] = 1;
  }
  for (auto& [key, one] : figures) {
    one.flops = op_flops(trace.name_of(one.name), trace.inputs[one.inputs]);
    one.bytes = op_bytes(trace.inputs[one.inputs]);
    detail.ops.push_back(one);
  }
  std::stable_sort(detail.ops.begin(), detail.ops.end(),
                   [](const TraceOpFigures& a, const TraceOpFigures& b) { return a.gpu > b.gpu; });
}

std::int64_t count_twice(const Trace& trace, const std::vector<std::uint32_t>& order) {
  std::int64_t result = 0;
  const auto key = [&](std::uint32_t i) {
    const TraceOp& op = trace.ops[i];
    return std::tuple(op.start, op.stream, op.name, op.end, op.correlation.value_or(-1),
                      op.graph_node.value_or(-1));
  };
  std::vector<std::uint32_t> sorted = order;
  std::sort(sorted.begin(), sorted.end(), [&](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); });
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (trace.ops[sorted[i]].end > trace.ops[sorted[i]].start && key(sorted[i - 1]) == key(sorted[i]))
      ++result;
  }
  return result;
}

}  // namespace

const char* name(TraceIdleCause cause) {
  constexpr std::array<const char*, trace_idle_cause_count> names = {
      "dispatch", "input", "synchronization", "launch_latency", "gap", "event", "unknown"};
  return names[static_cast<std::size_t>(cause)];
}

TraceDetail trace_detail(const Trace& trace) {
  TraceDetail detail;
  const TraceLinks links(trace);
  const std::vector<std::uint32_t> order = ops_by_start(trace);
  if (!order.empty()) {
    const TraceDependencies dependencies(trace, links);
    find_gaps(trace, dependencies, order, detail);
  }
  count_launches(trace, links, detail);
  detail.queue = queue_length(trace, links);
  cost_synchronizations(trace, links, detail);
  tabulate_steps(trace, links, order, detail);
  tabulate_graphs(trace, links, detail);
  rate_ops(trace, links, detail);
  detail.twice = count_twice(trace, order);
  return detail;
}

}  // namespace gpusim
