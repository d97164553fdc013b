// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "sim/report/format.hpp"
#include "sim/report/trace_report.hpp"

namespace gpusim::report {
namespace {

constexpr std::size_t listed_max = 100;

/// A list of at most `listed_max` items.
template <class Items, class Write>
std::string list(const char* key, const Items& items, Write write) {
  std::string out = fmt::format(",\n \"{}\": [", key);
  for (std::size_t i = 0; i < std::min(items.size(), listed_max); ++i)
    out += (i == 0 ? "\n  {" : ",\n  {") + write(items[i]) + "}";
  return out + (items.empty() ? "]" : "\n ]");
}

template <class Values, class Name>
std::string causes(const Values& values, std::size_t count, Name name) {
  std::string out = "{";
  for (std::size_t i = 0; i < count; ++i)
    out += fmt::format("{}\"{}\": {}", i == 0 ? "" : ", ", name(i), exact_microseconds(values[i]));
  return out + "}";
}

std::string times(const TraceTimes& t) {
  return fmt::format("\"count\": {}, \"total_us\": {}, \"median_us\": {}, \"p90_us\": {}, \"longest_us\": {}",
                     t.count, exact_microseconds(t.total), exact_microseconds(t.median),
                     exact_microseconds(t.high), exact_microseconds(t.longest));
}

std::string number(const std::optional<double>& value) {
  return value ? exact_number(*value) : "null";
}

}  // namespace

std::string trace_summary_json(const Trace& trace, const TraceAnalysis& analysis) {
  const TraceDetail& d = analysis.detail;
  const auto name_or_null = [&](std::uint32_t name) {
    return name == trace_none ? std::string("null") : json_string(trace.name_of(name));
  };
  const auto call_name = [&](std::uint32_t call) {
    return name_or_null(call == trace_none ? trace_none : trace.calls[call].name);
  };
  const auto idle_name = [](std::size_t i) { return gpusim::name(static_cast<TraceIdleCause>(i)); };
  std::string more = ",\n \"idle_us\": " + causes(d.idle, trace_idle_cause_count, idle_name);
  more += list("largest_gaps", d.gaps, [&](const TraceGap& gap) {
    return fmt::format(
        "\"at_us\": {}, \"length_us\": {}, \"cause\": \"{}\", \"idle_us\": {}, \"op\": {}, \"host_call\": "
        "{}, "
        "\"host_op\": {}, \"after\": {}",
        exact_microseconds(gap.from), exact_microseconds(gap.duration()), gpusim::name(gap.cause),
        causes(gap.by_cause, trace_idle_cause_count, idle_name), name_or_null(trace.ops[gap.op].name),
        call_name(gap.host_call),
        name_or_null(gap.host_op == trace_none ? trace_none : trace.cpu_ops[gap.host_op].name),
        call_name(gap.sync_call));
  });
  more += list("dispatch", d.dispatch, [&](const TraceDispatch& one) {
    return fmt::format("\"name\": {}, \"idle_us\": {}", json_string(one.name), exact_microseconds(one.idle));
  });
  more += list("launch_calls", d.launch_apis, [&](const TraceLaunchApi& api) {
    return fmt::format("\"name\": {}, {}", name_or_null(api.name), times(api.calls));
  });
  more += fmt::format(",\n \"short_kernels\": {},\n \"queue_median\": {},\n \"queue_longest\": {}",
                      d.short_kernels, exact_number(d.queue.median), d.queue.longest);
  more += list("synchronizations", d.syncs, [&](const TraceSyncCost& sync) {
    return fmt::format("\"name\": {}, {}, \"waited\": {}, \"gpu_idle_us\": {}, \"gaps\": {}",
                       name_or_null(sync.name), times(sync.calls), sync.waited, exact_microseconds(sync.idle),
                       sync.gaps);
  });
  more += list("step_table", d.steps, [&](const TraceStepFigures& step) {
    return fmt::format(
        "\"number\": {}, \"host_us\": {}, \"gpu_span_us\": {}, \"gpu_busy_us\": {}, \"kernels\": {}, "
        "\"launches\": {}",
        step.number, exact_microseconds(step.host), exact_microseconds(step.span),
        exact_microseconds(step.busy), step.kernels, step.launches);
  });
  more += list("cuda_graphs", d.graphs, [&](const TraceGraphFigures& graph) {
    return fmt::format("\"nodes\": {}, \"first_op\": {}, \"calls\": {{{}}}, \"gpu\": {{{}}}", graph.nodes,
                       name_or_null(graph.first_op), times(graph.calls), times(graph.spans));
  });
  more += list("ops", d.ops, [&](const TraceOpFigures& op) {
    return fmt::format(
        "\"name\": {}, \"shapes\": {}, \"count\": {}, \"gpu_us\": {}, \"flops\": {}, \"bytes\": {}, "
        "\"flops_per_second\": {}, \"bytes_per_second\": {}",
        name_or_null(op.name), json_string(shapes_text(trace.inputs[op.inputs])), op.count,
        exact_microseconds(op.gpu), number(op.flops), number(op.bytes), number(op.flops_per_second()),
        number(op.bytes_per_second()));
  });
  more += fmt::format(",\n \"critical_path\": {{\"span_us\": {}, \"path_us\": {}, \"gain_us\": {}}}",
                      exact_microseconds(analysis.path.span()),
                      causes(analysis.path.by_resource, trace_resource_count,
                             [](std::size_t i) { return gpusim::name(static_cast<TraceResource>(i)); }),
                      causes(analysis.path.gain, trace_resource_count,
                             [](std::size_t i) { return gpusim::name(static_cast<TraceResource>(i)); }));
  more += trace_communication_json(analysis.communication);
  more += fmt::format(",\n \"gpu_ops_listed_twice\": {}", d.twice);
  more += ",\n \"advice\": [";
  const std::vector<std::string> advice = trace_advice(trace, analysis);
  for (std::size_t i = 0; i < advice.size(); ++i)
    more += (i == 0 ? "\n  " : ",\n  ") + json_string(advice[i]);
  more += advice.empty() ? "]" : "\n ]";
  return summary_json(analysis.summary, more);
}

}  // namespace gpusim::report
