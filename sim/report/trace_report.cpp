// SPDX-License-Identifier: Apache-2.0
#include "sim/report/trace_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>

#include "sim/report/format.hpp"

namespace gpusim::report {
namespace {

constexpr std::size_t page_width = 80;
constexpr std::size_t kernels_listed = 10;
constexpr std::size_t gaps_listed = 6;
constexpr std::size_t ops_listed = 8;
constexpr std::size_t steps_listed = 10;
constexpr std::size_t other_listed = 5;

double ratio(Picoseconds part, Picoseconds whole) {
  return whole.count() == 0 ? 0 : static_cast<double>(part.count()) / static_cast<double>(whole.count());
}

Picoseconds from_us(double microseconds) {
  return Picoseconds(static_cast<std::int64_t>(microseconds * 1e6));
}

/// A table: the first column takes what the others leave of the page.
class Table {
 public:
  explicit Table(std::vector<std::size_t> widths) : widths_(std::move(widths)) {
    first_ = page_width - std::accumulate(widths_.begin(), widths_.end(), std::size_t{0});
  }
  std::size_t first() const { return first_; }
  std::string row(std::string_view text, const std::vector<std::string>& cells) const {
    std::string out = left(shorten(text, first_ - 1), first_);
    for (std::size_t i = 0; i < cells.size(); ++i) out += right(cells[i], widths_[i]);
    while (out.ends_with(' ')) out.pop_back();
    return out + "\n";
  }
  std::string head(std::string_view text, const std::vector<std::string>& cells) const {
    return "\n" + row(text, cells) + std::string(page_width, '-') + "\n";
  }

 private:
  std::vector<std::size_t> widths_;
  std::size_t first_ = 0;
};

std::string cause_text(TraceIdleCause cause) {
  std::string text = gpusim::name(cause);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::string kernel_tables(const Summary& s) {
  if (s.kernels == 0) return "";
  const Table table({12, 9, 7, 12});
  std::string out = table.head("kernels by what they do", {"time", "share", "count", "mean"});
  std::array<std::size_t, kernel_group_count> order{};
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return s.kernel_groups[a].total_us > s.kernel_groups[b].total_us;
  });
  const auto line = [&](std::string_view text, double total, std::int64_t count) {
    return table.row(text, {time_text(from_us(total), from_us(s.kernel_us)),
                            percent_text(s.kernel_us > 0 ? total / s.kernel_us : 0), fmt::format("{}", count),
                            time_text(from_us(total / static_cast<double>(count)))});
  };
  for (const std::size_t i : order) {
    const KernelGroupTotal& total = s.kernel_groups[i];
    if (total.count > 0)
      out += line(trace_group_text(static_cast<KernelGroup>(i)), total.total_us, total.count);
  }
  const std::size_t all = s.kernel_totals.size();
  const std::size_t listed = all <= kernels_listed + 1 ? all : kernels_listed;
  out +=
      table.head(listed < all ? fmt::format("largest {} of {} kernels", listed, all) : std::string("kernels"),
                 {"time", "share", "count", "mean"});
  for (std::size_t i = 0; i < listed; ++i) {
    const KernelTotal& kernel = s.kernel_totals[i];
    out += line(trace_label(kernel.name, table.first() - 1), kernel.total_us, kernel.count);
  }
  if (listed < all) {
    double total = 0;
    std::int64_t count = 0;
    for (std::size_t i = listed; i < all; ++i) {
      total += s.kernel_totals[i].total_us;
      count += s.kernel_totals[i].count;
    }
    out += line(fmt::format("{} more", all - listed), total, count);
  }
  return out;
}

/// What stands behind a gap: what the host was at, and the op that it led to.
std::string behind(const Trace& trace, const TraceGap& gap) {
  std::string text;
  if (gap.sync_call != trace_none) text = "after " + trace.name_of(trace.calls[gap.sync_call].name);
  if (gap.cause == TraceIdleCause::Dispatch || gap.cause == TraceIdleCause::Input) {
    if (!text.empty()) text += ": ";
    text += gap.host_call != trace_none ? trace.name_of(trace.calls[gap.host_call].name)
            : gap.host_op != trace_none ? trace.name_of(trace.cpu_ops[gap.host_op].name)
                                        : std::string("host code between ops");
  }
  if (text.empty()) return "before " + trace_label(trace.name_of(trace.ops[gap.op].name), 30);
  return printable(text);
}

std::string idle_tables(const Trace& trace, const TraceDetail& detail) {
  if (detail.gaps.empty()) return "";
  const Picoseconds idle = detail.wall - detail.busy;
  const Table causes({12, 10, 12, 12});
  std::string out = causes.head("idle time by cause", {"time", "of idle", "of wall", "gaps"});
  std::array<std::size_t, trace_idle_cause_count> order{};
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return detail.idle[a] > detail.idle[b]; });
  for (const std::size_t i : order) {
    if (detail.idle[i] == Picoseconds(0)) continue;
    const auto mostly = std::count_if(detail.gaps.begin(), detail.gaps.end(), [&](const TraceGap& gap) {
      return static_cast<std::size_t>(gap.cause) == i;
    });
    out += causes.row(cause_text(static_cast<TraceIdleCause>(i)),
                      {time_text(detail.idle[i], idle), percent_text(ratio(detail.idle[i], idle)),
                       percent_text(ratio(detail.idle[i], detail.wall)), fmt::format("{}", mostly)});
  }
  if (!detail.dispatch.empty()) {
    std::string text = "The host meanwhile: ";
    for (std::size_t i = 0; i < std::min(other_listed, detail.dispatch.size()); ++i)
      text += fmt::format("{}{} {}", i == 0 ? "" : ", ", trace_label(detail.dispatch[i].name, 40),
                          time_text(detail.dispatch[i].idle, idle));
    for (const std::string& line : wrap(text + ".", page_width)) out += line + "\n";
  }
  const Table gaps({12, 12, 40});
  const std::size_t listed = std::min(gaps_listed, detail.gaps.size());
  out += gaps.head("largest gaps", {"at", "length", left("   behind it", 40)});
  for (std::size_t i = 0; i < listed; ++i) {
    const TraceGap& gap = detail.gaps[i];
    out += gaps.row(cause_text(gap.cause), {time_text(gap.from, detail.wall), time_text(gap.duration(), idle),
                                            "   " + left(shorten(behind(trace, gap), 37), 37)});
  }
  return out;
}

std::string host_tables(const Trace& trace, const TraceDetail& detail) {
  std::string out;
  if (!detail.launch_apis.empty()) {
    const Table table({6, 13, 11, 11, 13});
    out += table.head("launch calls", {"count", "host time", "median", "90 %", "longest"});
    for (std::size_t i = 0; i < std::min(other_listed, detail.launch_apis.size()); ++i) {
      const TraceLaunchApi& api = detail.launch_apis[i];
      out +=
          table.row(printable(trace.name_of(api.name)),
                    {fmt::format("{}", api.calls.count), time_text(api.calls.total),
                     time_text(api.calls.median), time_text(api.calls.high), time_text(api.calls.longest)});
    }
    std::string text = fmt::format(
        "Launched but not started when a launch call returned: {:g} GPU op{} in the median, "
        "{} at most, of one stream.",
        detail.queue.median, detail.queue.median == 1 ? "" : "s", detail.queue.longest);
    if (detail.short_kernels > 0)
      text += fmt::format(" {} kernel{} took less time than the call that launched {}.", detail.short_kernels,
                          detail.short_kernels == 1 ? "" : "s", detail.short_kernels == 1 ? "it" : "them");
    for (const std::string& line : wrap(text, page_width)) out += line + "\n";
  }
  if (!detail.syncs.empty()) {
    const Table table({7, 8, 13, 13, 13});
    out += table.head("waits of the host", {"count", "waited", "host time", "longest", "GPU idle"});
    for (std::size_t i = 0; i < std::min(other_listed, detail.syncs.size()); ++i) {
      const TraceSyncCost& sync = detail.syncs[i];
      out += table.row(printable(trace.name_of(sync.name)),
                       {fmt::format("{}", sync.calls.count), fmt::format("{}", sync.waited),
                        time_text(sync.calls.total), time_text(sync.calls.longest), time_text(sync.idle)});
    }
  }
  if (!detail.graphs.empty()) {
    const Table table({9, 12, 12, 13});
    out += table.head("CUDA graphs", {"launches", "call", "on the GPU", "first op"});
    for (std::size_t i = 0; i < std::min(other_listed, detail.graphs.size()); ++i) {
      const TraceGraphFigures& graph = detail.graphs[i];
      out += table.row(
          fmt::format("{} GPU op{}", graph.nodes, graph.nodes == 1 ? "" : "s"),
          {fmt::format("{}", graph.calls.count), time_text(graph.calls.median), time_text(graph.spans.median),
           graph.first_op == trace_none ? std::string("-")
                                        : "  " + trace_label(trace.name_of(graph.first_op), 11)});
    }
  }
  return out;
}

std::string step_table(const TraceDetail& detail) {
  const bool any_work =
      std::any_of(detail.steps.begin(), detail.steps.end(),
                  [](const TraceStepFigures& step) { return step.kernels + step.launches > 0; });
  if (!any_work) return "";
  const Table table({12, 13, 13, 9, 10, 10});
  std::string out = table.head("steps", {"host", "GPU span", "GPU busy", "share", "kernels", "launches"});
  const std::size_t listed = std::min(steps_listed, detail.steps.size());
  for (std::size_t i = 0; i < listed; ++i) {
    const TraceStepFigures& step = detail.steps[i];
    out += table.row(step.number < 0 ? std::string("step") : fmt::format("step {}", step.number),
                     {time_text(step.host), time_text(step.span), time_text(step.busy),
                      percent_text(ratio(step.busy, step.span)), fmt::format("{}", step.kernels),
                      fmt::format("{}", step.launches)});
  }
  if (listed < detail.steps.size()) out += fmt::format("{} more\n", detail.steps.size() - listed);
  return out;
}

std::string op_table(const Trace& trace, const TraceDetail& detail) {
  if (detail.ops.empty()) return "";
  const Table table({6, 11, 13, 11});
  std::string out =
      table.head("ops by GPU time (from their shapes)", {"count", "GPU time", "FLOP/s", "bytes/s"});
  for (std::size_t i = 0; i < std::min(ops_listed, detail.ops.size()); ++i) {
    const TraceOpFigures& op = detail.ops[i];
    const std::string name = printable(trace.name_of(op.name));
    const std::string text = name + " " + shapes_text(trace.inputs[op.inputs]);
    const auto flops = op.flops_per_second();
    const auto bytes = op.bytes_per_second();
    out += table.row(
        text, {fmt::format("{}", op.count), time_text(op.gpu), flops ? scaled_text(*flops, "FLOP/s") : "-",
               bytes ? scaled_text(*bytes, "B/s") : "-"});
  }
  return out;
}

/// Without the parentheses at the end of a kernel's name that hold its parameters' types, and without
/// template arguments that tell nothing.
std::string without_types(std::string name) {
  if (name.ends_with(')')) {
    int depth = 0;
    for (std::size_t i = name.size(); i-- > 0;) {
      depth += name[i] == ')' ? 1 : name[i] == '(' ? -1 : 0;
      if (depth > 0) continue;
      if (i > 0 && name[i - 1] != ':') name.resize(i);
      break;
    }
  }
  for (const std::string_view noise :
       {"at::detail::", "std::", "c10::", "cutlass::", "{lambda()#1}::operator()"}) {
    for (std::size_t at = name.find(noise); at != std::string::npos; at = name.find(noise, at))
      name.erase(at, noise.size());
  }
  return name;
}

}  // namespace

TraceAnalysis::TraceAnalysis(const Trace& trace)
    : summary(summarize(trace)),
      detail(trace_detail(trace)),
      path(trace_path(trace)),
      communication(trace_communication(trace)) {}

std::string trace_label(std::string_view name, std::size_t width) {
  constexpr std::string_view evaluate = "autograd::engine::evaluate_function: ";
  if (name.starts_with(evaluate)) name.remove_prefix(evaluate.size());
  const std::string label = kernel_label(name);
  std::string text = printable(without_types(label));
  if (text.empty()) text = printable(label);
  if (width_of(text) <= width || width < 12) return shorten(text, width);
  // The beginning tells more than the end, but the end tells variants apart.
  const std::size_t tail = width / 4;
  std::size_t cut = width - tail - 2;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xc0) == 0x80) --cut;
  std::size_t from = text.size() - tail;
  while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xc0) == 0x80) ++from;
  return text.substr(0, cut) + ".." + text.substr(from);
}

std::string trace_group_text(KernelGroup group) {
  return group == KernelGroup::Matmul ? "matrix products" : std::string(kernel_group_name(group));
}

std::string shapes_text(const std::vector<TraceInput>& inputs) {
  std::string out;
  for (const TraceInput& input : inputs) {
    for (const std::vector<std::int64_t>& shape : input.shapes) {
      if (shape.empty()) continue;
      out += out.empty() ? "" : "x";
      out += fmt::format("[{}]", fmt::join(shape, ","));
    }
  }
  return out;
}

std::string trace_summary_text(const Trace& trace, const TraceAnalysis& analysis) {
  std::string out = summary_text(analysis.summary);
  out += kernel_tables(analysis.summary);
  out += idle_tables(trace, analysis.detail);
  out += host_tables(trace, analysis.detail);
  out += step_table(analysis.detail);
  out += trace_communication_text(analysis.communication);
  out += op_table(trace, analysis.detail);
  const std::vector<std::string> advice = trace_advice(trace, analysis);
  if (!advice.empty()) out += "\n";
  for (std::size_t i = 0; i < advice.size(); ++i) {
    bool first = true;
    for (const std::string& line : wrap(advice[i], page_width - 3)) {
      out += (advice.size() == 1 ? std::string()
              : first            ? fmt::format("{}. ", i + 1)
                                 : std::string("   ")) +
             line + "\n";
      first = false;
    }
  }
  return out;
}

}  // namespace gpusim::report
