// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "sim/report/format.hpp"
#include "sim/report/metrics.hpp"
#include "sim/report/report.hpp"
#include "sim/report/text_parts.hpp"

namespace gpusim::report {
namespace {

constexpr std::size_t page_width = 80;
constexpr std::size_t label_width = 22;
constexpr std::size_t column_width = 19;
constexpr std::size_t columns_per_table = (page_width - label_width) / column_width;
constexpr std::size_t kernels_listed = 10;

double ratio(Picoseconds a, Picoseconds b) {
  return b.count() ? static_cast<double>(a.count()) / static_cast<double>(b.count()) : 0.0;
}

/// One variant with its figures at hand.
struct Column {
  const VariantResult* result = nullptr;
  KernelRanking ranking;
  Metrics m;

  std::int64_t isolated_steps() const { return result->isolated.totals.steps * result->steps_per_program; }
};

using Cell = std::function<std::string(const Column&)>;

struct Row {
  std::string label;
  Cell cell;  ///< Empty text where the variant has no such figure; a row of empty cells is left out.
};

std::string time_and_share(Picoseconds part, Picoseconds whole, Picoseconds largest) {
  return time_text(part, largest) + right(percent_text(ratio(part, whole)), 8);
}

std::string optional_count(double count) {
  return count > 0 ? count_text(count) : "";
}

std::string makespan_label(const std::vector<Column>& all) {
  const std::int64_t steps = all.front().isolated_steps();
  for (const Column& column : all)
    if (column.isolated_steps() != steps) return "makespan, all steps";
  return steps <= 1 ? "makespan" : fmt::format("makespan, {} steps", steps);
}

std::vector<Row> rows(const std::vector<Column>& all) {
  const Column& first = all.front();
  Picoseconds largest{0};
  for (const Column& column : all) largest = std::max({largest, column.m.step_time, column.m.makespan});
  std::vector<Row> out;
  out.push_back({"step time", [largest](const Column& c) { return time_text(c.m.step_time, largest); }});
  out.push_back({"speed-up", [base = first.m.step_time](const Column& c) {
                   return c.m.step_time.count() ? fmt::format("{:.2f}x", ratio(base, c.m.step_time)) : "";
                 }});
  out.push_back(
      {makespan_label(all), [largest](const Column& c) { return time_text(c.m.makespan, largest); }});
  out.push_back({"GPU busy", [largest](const Column& c) {
                   return time_text(c.m.gpu_busy, largest) + right(percent_text(c.m.gpu_utilization), 8);
                 }});
  out.push_back({"GPU idle", [largest](const Column& c) {
                   return time_and_share(c.m.idle_total(), c.m.step_time, largest);
                 }});
  for (int i = 0; i < engine::idle_cause_count; ++i) {
    const auto cause = static_cast<engine::IdleCause>(i);
    std::string label = std::string("  ") + engine::name(cause);
    std::replace(label.begin(), label.end(), '_', ' ');
    out.push_back({label, [cause, largest](const Column& c) {
                     const Picoseconds idle = c.m.idle_by(cause);
                     return idle.count() ? time_and_share(idle, c.m.step_time, largest) : "";
                   }});
  }
  out.push_back(
      {"SM active", [](const Column& c) { return c.m.sm_active ? percent_text(*c.m.sm_active) : ""; }});
  out.push_back(
      {"occupancy", [](const Column& c) { return c.m.occupancy ? percent_text(*c.m.occupancy) : ""; }});
  out.push_back({"regime", [](const Column& c) { return std::string(name(c.m.regime)); }});
  out.push_back({"MFU", [](const Column& c) { return c.m.mfu ? percent_text(*c.m.mfu) : ""; }});
  out.push_back({"HFU", [](const Column& c) { return c.m.hfu ? percent_text(*c.m.hfu) : ""; }});
  out.push_back({"tokens/s", [](const Column& c) {
                   return c.m.tokens_per_second ? scaled_text(*c.m.tokens_per_second, "") : "";
                 }});
  out.push_back({"model FLOPs", [](const Column& c) {
                   return c.m.model_flops ? scaled_text(*c.m.model_flops, "FLOP") : "";
                 }});
  out.push_back(
      {"memory traffic", [](const Column& c) { return c.m.hbm_bytes ? bytes_text(*c.m.hbm_bytes) : ""; }});
  out.push_back({"GPU ops", [](const Column& c) { return count_text(c.m.gpu_ops); }});
  out.push_back(
      {"  copies and memsets", [](const Column& c) { return optional_count(c.m.memcpys + c.m.memsets); }});
  out.push_back({"kernel launches", [](const Column& c) { return count_text(c.m.kernel_launches); }});
  out.push_back(
      {"CUDA graph launches", [](const Column& c) { return optional_count(c.m.cuda_graph_launches); }});
  out.push_back({"synchronisations", [](const Column& c) { return optional_count(c.m.synchronizations); }});
  out.push_back({"graph breaks", [](const Column& c) { return optional_count(c.m.graph_breaks); }});
  out.push_back({"host working", [largest](const Column& c) { return time_text(c.m.host_work, largest); }});
  out.push_back({"host blocked by queue", [largest](const Column& c) {
                   return c.m.host_blocked_queue.count() ? time_text(c.m.host_blocked_queue, largest) : "";
                 }});
  out.push_back({"host blocked, other", [largest](const Column& c) {
                   return c.m.host_blocked.count() ? time_text(c.m.host_blocked, largest) : "";
                 }});
  out.push_back(
      {"longest launch queue", [](const Column& c) { return fmt::format("{}", c.m.launch_queue_max); }});
  out.push_back({"peak memory", [](const Column& c) {
                   return c.m.peak_memory_bytes ? bytes_text(static_cast<double>(c.m.peak_memory_bytes)) : "";
                 }});
  out.push_back({"compile time", [largest](const Column& c) {
                   return c.m.compile_time.count() ? time_text(c.m.compile_time, largest) : "";
                 }});
  out.push_back({"  paid for after", [base = first.m.step_time](const Column& c) {
                   if (c.m.compile_time.count() == 0) return std::string();
                   const Picoseconds saved = base - c.m.step_time;
                   return saved.count() > 0 ? scaled_text(ratio(c.m.compile_time, saved), "steps")
                                            : std::string("never");
                 }});
  out.push_back({"as one CUDA graph", [largest](const Column& c) {
                   return c.result->one_cuda_graph
                              ? time_text(c.result->one_cuda_graph->step_time, largest) +
                                    right(percent_text(c.result->one_cuda_graph->gpu_utilization), 8)
                              : "";
                 }});
  return out;
}

/// Shares stand in a sub-column of their own, so plain cells end where the times do.
std::string place_cell(const std::string& text) {
  const bool has_share = text.ends_with(" %") && text.find("  ") != std::string::npos;
  if (has_share || text.ends_with(" %")) return right(text, column_width);
  return right(text, column_width - 8) + std::string(8, ' ');
}

void trim(std::string& line) {
  while (!line.empty() && line.back() == ' ') line.pop_back();
}

void write_table(std::string& out, const std::vector<Column>& all, std::size_t begin, std::size_t end) {
  std::string header = left("per step", label_width);
  for (std::size_t i = begin; i < end; ++i)
    header += right(shorten(printable(all[i].m.variant), column_width - 2), column_width);
  trim(header);
  out += header + "\n" + std::string(label_width + (end - begin) * column_width, '-') + "\n";
  for (const Row& row : rows(all)) {
    if (all.size() == 1 && row.label == "speed-up") continue;
    std::string line = left(row.label, label_width);
    bool empty = true;
    for (std::size_t i = begin; i < end; ++i) {
      const std::string text = row.cell(all[i]);
      empty = empty && text.empty();
      line += place_cell(text.empty() ? "-" : text);
    }
    if (empty) continue;
    trim(line);
    out += line + "\n";
  }
  out += "\n";
}

void write_wrapped(std::string& out, std::string_view text, std::string_view first_indent,
                   std::size_t indent) {
  bool first = true;
  for (const std::string& line : wrap(text, page_width - indent)) {
    out += first ? std::string(first_indent) : std::string(indent, ' ');
    out += line + "\n";
    first = false;
  }
}

bool same_kernels(const KernelRanking& a, const KernelRanking& b) {
  return std::equal(a.kernels.begin(), a.kernels.end(), b.kernels.begin(), b.kernels.end(),
                    [&](const RankedKernel& x, const RankedKernel& y) {
                      return x.name == y.name && x.kind == y.kind && x.count * b.steps == y.count * a.steps &&
                             x.total * b.steps == y.total * a.steps;
                    });
}

std::string group_text(const RankedKernel& kernel) {
  if (kernel.kind == engine::OpKind::Memcpy) return "copy";
  if (kernel.kind == engine::OpKind::Memset) return "memset";
  if (kernel.group == KernelGroup::Communication) return "comm";
  if (kernel.group == KernelGroup::Attention) return "attn";
  return group_name(kernel.group);
}

std::string roof_text(const RankedKernel& kernel) {
  const auto share = kernel.roof_share();
  if (!share) return "";
  const bool compute = kernel.compute_share.value_or(0) >= kernel.memory_share.value_or(0);
  return fmt::format("{:.0f} % {}", *share * 100, compute ? "comp" : "mem ");
}

struct KernelLine {
  std::string name, total, count, mean, share, group, roof;
};

constexpr std::size_t roof_column_width = 11;

std::size_t kernel_name_width(bool roofs) {
  return 35 - (roofs ? roof_column_width : 0);
}

void write_kernel_line(std::string& out, const KernelLine& cells, bool roofs) {
  const std::size_t name_width = kernel_name_width(roofs);
  std::string line = left(shorten(cells.name, name_width), name_width) + right(cells.total, 11) +
                     right(cells.count, 7) + right(cells.mean, 11) + right(cells.share, 8) + "  " +
                     left(cells.group, 6) + (roofs ? right(cells.roof, roof_column_width) : "");
  trim(line);
  out += line + "\n";
}

/// Where a compiled step's gain comes from, each part on top of those above.
void write_gains(std::string& out, const Column& column, bool several) {
  const std::vector<GainPart>& gains = column.result->gains;
  if (gains.size() < 2) return;
  out += several ? fmt::format("gain of {}\n", printable(column.m.variant)) : std::string("gain\n");
  Picoseconds largest{0};
  for (const GainPart& part : gains) largest = std::max(largest, part.step_time);
  for (std::size_t i = 0; i < gains.size(); ++i) {
    const std::string change =
        i == 0 ? std::string() : fmt::format("{:.2f}x", ratio(gains[i - 1].step_time, gains[i].step_time));
    out += fmt::format("  {:<34}{}", i == 0 ? gains[i].name : "+ " + gains[i].name,
                       right(time_text(gains[i].step_time, largest), 14));
    if (!change.empty()) out += right(change, 10);
    out += '\n';
  }
  out += "\n";
}

/// Steps of other shapes: what compiled again, and what each cost.
void write_shapes(std::string& out, const Column& column, bool several) {
  const std::vector<ShapeResult>& shapes = column.result->shapes;
  if (shapes.empty()) return;
  constexpr std::size_t shown_max = 40;
  out += several ? fmt::format("shapes of {}\n", printable(column.m.variant)) : std::string("shapes\n");
  out += "  step   batch sequence runs as     step time  compiling  outcome\n";
  for (std::size_t i = 0; i < std::min(shapes.size(), shown_max); ++i) {
    const ShapeResult& shape = shapes[i];
    out += fmt::format(
        "  {:>4} {:>7} {:>8} {:>7} {} {}  {}\n", i + 1, shape.batch, shape.sequence,
        shape.padded_to > 0 ? fmt::format("{}", shape.padded_to) : std::string("-"),
        right(time_text(shape.step_time), 13),
        right(shape.compile_time.count() > 0 ? fmt::format("{:.1f} s", seconds(shape.compile_time)) : "-",
              10),
        shape.outcome);
  }
  if (shapes.size() > shown_max) out += fmt::format("  {} more\n", shapes.size() - shown_max);
  out += "\n";
}

void write_kernels(std::string& out, const Column& column, bool name_variant) {
  const KernelRanking& ranking = column.ranking;
  if (ranking.kernels.empty()) return;
  const bool roofs =
      std::any_of(ranking.kernels.begin(), ranking.kernels.end(), [](const RankedKernel& kernel) {
        return kernel.kind == engine::OpKind::Kernel && kernel.roof_share();
      });
  write_kernel_line(out,
                    {.name = name_variant ? "kernels of " + printable(column.m.variant) : "kernels",
                     .total = "total",
                     .count = "count",
                     .mean = "mean",
                     .share = "share",
                     .group = "group",
                     .roof = "of roof"},
                    roofs);
  out += std::string(page_width, '-') + "\n";
  const std::size_t listed =
      ranking.kernels.size() <= kernels_listed + 1 ? ranking.kernels.size() : kernels_listed;
  for (std::size_t i = 0; i < listed; ++i) {
    const RankedKernel& kernel = ranking.kernels[i];
    write_kernel_line(out,
                      {.name = printable(kernel_label(kernel.name)),
                       .total = time_text(ranking.per_step(kernel.total)),
                       .count = count_text(ranking.per_step(static_cast<double>(kernel.count))),
                       .mean = time_text(kernel.mean()),
                       .share = percent_text(ratio(kernel.total, ranking.total)),
                       .group = group_text(kernel),
                       .roof = roof_text(kernel)},
                      roofs);
  }
  if (listed < ranking.kernels.size()) {
    Picoseconds rest{0};
    std::int64_t count = 0;
    for (std::size_t i = listed; i < ranking.kernels.size(); ++i) {
      rest += ranking.kernels[i].total;
      count += ranking.kernels[i].count;
    }
    write_kernel_line(out,
                      {.name = fmt::format("{} more", ranking.kernels.size() - listed),
                       .total = time_text(ranking.per_step(rest)),
                       .count = count_text(ranking.per_step(static_cast<double>(count))),
                       .mean = "",
                       .share = percent_text(ratio(rest, ranking.total)),
                       .group = "",
                       .roof = ""},
                      roofs);
  }
  std::vector<std::string> parts;
  for (int i = 0; i < kernel_group_count; ++i) {
    const auto group = static_cast<KernelGroup>(i);
    parts.push_back(
        fmt::format("{} {}", group_name(group), percent_text(ratio(ranking.of(group), ranking.total))));
  }
  if (ranking.copies.count())
    parts.push_back(fmt::format("copies and memsets {}", percent_text(ratio(ranking.copies, ranking.total))));
  out += "\n";
  write_wrapped(out, fmt::format("by group: {}", fmt::join(parts, ", ")), "", 2);
  out += "\n";
}

std::string difference_text(Picoseconds ours, Picoseconds theirs) {
  if (theirs.count() == 0) return "";
  return fmt::format("{:+.2f} %", (ratio(ours, theirs) - 1) * 100);
}

void write_trace(std::string& out, const Column& column, bool name_variant) {
  if (!column.result->trace || column.result->trace->traced_wall.count() == 0) return;
  const TraceComparison& trace = *column.result->trace;
  const Metrics::Window& window = column.m.window;
  out +=
      "replay against the trace" + (name_variant ? ", " + printable(column.m.variant) : std::string()) + "\n";
  out += std::string(page_width, '-') + "\n";
  out += left("", 30) + right("traced", 16) + right("replayed", 16) + right("error", 12) + "\n";
  out += left("first to last GPU op", 30) + right(time_text(trace.traced_wall), 16) +
         right(time_text(window.wall), 16) + right(difference_text(window.wall, trace.traced_wall), 12) +
         "\n";
  out += left("GPU busy", 30) + right(time_text(trace.traced_busy), 16) + right(time_text(window.busy), 16) +
         right(difference_text(window.busy, trace.traced_busy), 12) + "\n";
  out += fmt::format("starts of GPU ops: median error {}, 90 % within {}, worst {}\n",
                     time_text(trace.start_error_median), time_text(trace.start_error_p90),
                     time_text(trace.start_error_max));
  out += fmt::format("{} kernels", trace.kernels);
  if (window.steps > 1) out += fmt::format(" in {} steps", window.steps);
  if (trace.unlinked_ops)
    out += fmt::format("; {} GPU ops have no launch and keep their traced start", trace.unlinked_ops);
  out += "\n\n";
}

std::string steady_note(const Column& column) {
  const engine::Steady& steady = column.result->steady;
  const std::int64_t k = std::max<std::int64_t>(column.result->steps_per_program, 1);
  if (steady.period.steps == 0)
    return column.m.window.steps == 1 && !column.m.steady
               ? "step time is that of one isolated step"
               : fmt::format("step time is the mean of {} simulated steps",
                             column.result->isolated.totals.steps * k);
  if (!steady.exact)
    return fmt::format("not steady: step time is the mean of {} simulated steps", steady.period.steps * k);
  if (steady.period.steps > 1)
    return fmt::format("the steady state repeats every {} steps", column.m.period_steps);
  if (k > 1) return fmt::format("figures per step are means over the {} steps of the traced window", k);
  return "";
}

std::string value_text(const Value& value) {
  return std::visit(
      [](const auto& x) -> std::string {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, std::monostate>)
          return "unknown";
        else if constexpr (std::is_same_v<T, bool>)
          return x ? "true" : "false";
        else if constexpr (std::is_same_v<T, std::int64_t>)
          return fmt::format("{}", x);
        else if constexpr (std::is_same_v<T, double>)
          return fmt::format("{:.6g}", x);
        else if constexpr (std::is_same_v<T, std::string>)
          return printable(x);
        else
          return exact_microseconds(x, 2) + " us";
      },
      value);
}

std::string relation_text(const std::string& relation) {
  if (relation == "min") return "at least ";
  if (relation == "max") return "at most ";
  if (relation == "not") return "other than ";
  return "";
}

void write_expectations(std::string& out, const std::vector<ExpectationResult>& expectations) {
  if (expectations.empty()) return;
  const auto passed = std::count_if(expectations.begin(), expectations.end(),
                                    [](const ExpectationResult& expectation) { return expectation.pass; });
  out += fmt::format("expectations: {} of {} hold\n", passed, expectations.size());
  for (const ExpectationResult& expectation : expectations) {
    if (expectation.pass) continue;
    std::string text =
        fmt::format("{} is {}, expected {}{}", printable(expectation.path), value_text(expectation.actual),
                    relation_text(expectation.relation), value_text(expectation.expected));
    if (!expectation.within.empty()) text += " within " + printable(expectation.within);
    if (!expectation.relative_to.empty()) text += " of " + printable(expectation.relative_to);
    if (!expectation.where.empty()) text += " (" + printable(expectation.where) + ")";
    write_wrapped(out, text, "  FAILED ", 9);
  }
  out += "\n";
}

}  // namespace

std::string to_text(const ScenarioReport& report) {
  std::vector<Column> all;
  all.reserve(report.variants.size());
  for (const VariantResult& variant : report.variants) {
    KernelRanking ranking = rank_kernels(variant);
    Metrics figures = metrics(variant, ranking);
    all.push_back({&variant, std::move(ranking), std::move(figures)});
  }

  std::string out;
  const std::string title = printable(report.scenario.empty() ? report.file : report.scenario);
  for (const std::string& line : wrap(title, page_width)) out += line + "\n";
  out += std::string(std::min(page_width, width_of(title)), '=') + "\n";
  std::string description = report.description;
  std::replace(description.begin(), description.end(), '\n', ' ');
  write_wrapped(out, printable(description), "", 0);
  if (all.empty()) return out;

  const Device& device = all.front().result->device;
  if (!device.name.empty()) {
    std::string text = "device " + printable(device.name);
    if (device.peak)
      text +=
          fmt::format(", {} {} dense", scaled_text(device.peak->value(), "FLOP/s"), printable(device.dtype));
    if (device.bandwidth) text += ", " + scaled_text(device.bandwidth->value(), "B/s");
    write_wrapped(out, text, "", 2);
  }
  out += "\n";

  for (std::size_t begin = 0; begin < all.size(); begin += columns_per_table)
    write_table(out, all, begin, std::min(begin + columns_per_table, all.size()));

  const bool several = all.size() > 1;
  write_kernels(out, all.front(), several);
  for (std::size_t i = 1; i < all.size(); ++i)
    if (!same_kernels(all[i].ranking, all.front().ranking)) write_kernels(out, all[i], true);
  for (const Column& column : all) {
    const std::string variant = several ? column.m.variant : std::string();
    out += communication_text(column.m, variant);
    out += phases_text(column.m, variant);
    // Where nothing is kept for backward the table's one line says it.
    if (column.m.memory && column.m.memory->saved > Bytes(0)) out += memory_text(column.m, variant);
    out += fit_text(column.m, variant);
  }
  for (const Column& column : all) write_gains(out, column, several);
  for (const Column& column : all) write_shapes(out, column, several);
  for (const Column& column : all) write_trace(out, column, several);
  for (const Column& column : all)
    if (column.result->critical_path)
      out += path_text(*column.result->critical_path,
                       several ? "critical path of " + column.m.variant : std::string("critical path"));

  std::vector<std::pair<std::string, std::string>> notes;  // text, variants it holds for
  const auto add_note = [&](const std::string& text, const std::string& variant) {
    if (text.empty()) return;
    for (auto& [known, variants] : notes)
      if (known == text) {
        variants += ", " + variant;
        return;
      }
    notes.emplace_back(text, variant);
  };
  for (const Column& column : all) {
    add_note(steady_note(column), column.m.variant);
    add_note(out_of_memory_text(*column.result, column.m), column.m.variant);
    for (const std::string& cut : column.result->cuda_graphs_cut_by)
      add_note((column.m.cuda_graph_launches > 0 ? "the CUDA graphs are cut by "
                                                 : "a CUDA graph would be cut by ") +
                   cut,
               column.m.variant);
    for (const std::string& remedy : column.result->remedies) add_note(remedy, column.m.variant);
    for (const std::string& note : column.result->notes) add_note(note, column.m.variant);
  }
  if (!notes.empty()) {
    out += "notes\n";
    for (const auto& [text, variants] : notes)
      write_wrapped(out, printable(several ? text + " (" + variants + ")" : text), "  - ", 4);
    out += "\n";
  }
  write_expectations(out, report.expectations);

  for (const std::string& line : wrap(advice(report), page_width)) out += line + "\n";
  return out;
}

}  // namespace gpusim::report
