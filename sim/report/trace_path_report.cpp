// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "sim/report/format.hpp"
#include "sim/report/trace_report.hpp"

namespace gpusim::report {
namespace {

constexpr std::size_t page_width = 80;
constexpr std::size_t stretches_listed = 5;

double ratio(Picoseconds part, Picoseconds whole) {
  return whole.count() == 0 ? 0 : static_cast<double>(part.count()) / static_cast<double>(whole.count());
}

std::string resource_text(TraceResource resource) {
  std::string text = gpusim::name(resource);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

bool is_run(TraceResource resource) {
  return resource == TraceResource::Kernel || resource == TraceResource::Communication ||
         resource == TraceResource::Copy;
}

/// What a piece belongs to. Pauses before ops are told apart by the op, work on the host by call or op.
std::string subject(const Trace& trace, const TracePathPiece& piece) {
  if (is_run(piece.resource)) return trace.name_of(trace.ops[piece.op].name);
  if (piece.call != trace_none) return trace.name_of(trace.calls[piece.call].name);
  if (piece.host_op != trace_none) return trace.name_of(trace.cpu_ops[piece.host_op].name);
  if (piece.op != trace_none) return "before " + trace.name_of(trace.ops[piece.op].name);
  return "host code between ops";
}

std::string label_of(std::string_view subject, std::size_t width) {
  constexpr std::string_view before = "before ";
  if (!subject.starts_with(before)) return trace_label(subject, width);
  return std::string(before) + trace_label(subject.substr(before.size()), width - before.size());
}

struct Item {
  std::string name;
  TraceResource resource = TraceResource::Unknown;
  Picoseconds time{0};
  std::int64_t pieces = 0;
};

/// All pieces but those of GPU ops that run, by what they belong to; most time first.
std::vector<Item> items_beside_ops(const Trace& trace, const TracePath& path) {
  std::map<std::pair<std::string, TraceResource>, Item> sums;
  for (const TracePathPiece& piece : path.pieces) {
    if (is_run(piece.resource)) continue;
    const std::string name = subject(trace, piece);
    Item& item = sums[{name, piece.resource}];
    item.name = name;
    item.resource = piece.resource;
    item.time += piece.duration();
    ++item.pieces;
  }
  std::vector<Item> result;
  for (auto& [key, item] : sums) result.push_back(std::move(item));
  std::stable_sort(result.begin(), result.end(),
                   [](const Item& a, const Item& b) { return a.time > b.time; });
  return result;
}

struct Stretch {
  Picoseconds from{0};
  Picoseconds to{0};
  TraceResource resource = TraceResource::Unknown;
  std::size_t longest = 0;  ///< Piece.
  std::int64_t pieces = 0;
};

/// Pieces that follow each other, of one resource.
std::vector<Stretch> stretches(const TracePath& path) {
  std::vector<Stretch> result;
  for (std::size_t i = 0; i < path.pieces.size(); ++i) {
    const TracePathPiece& piece = path.pieces[i];
    if (result.empty() || result.back().resource != piece.resource)
      result.push_back({piece.from, piece.to, piece.resource, i, 0});
    Stretch& stretch = result.back();
    stretch.to = piece.to;
    ++stretch.pieces;
    if (piece.duration() > path.pieces[stretch.longest].duration()) stretch.longest = i;
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const Stretch& a, const Stretch& b) { return a.to - a.from > b.to - b.from; });
  return result;
}

std::string cells(const std::vector<std::pair<std::string, std::size_t>>& columns) {
  std::string out;
  for (const auto& [text, width] : columns) out += right(text, width);
  return out;
}

std::string clipped(std::string line) {
  while (line.ends_with(' ')) line.pop_back();
  return line + "\n";
}

const std::string& rule() {
  static const std::string line = std::string(page_width, '-') + "\n";
  return line;
}

std::string resource_table(const TracePath& path) {
  std::string out = clipped(left("critical path", 30) +
                            cells({{"time", 14}, {"share", 10}, {"pieces", 10}, {"gain at most", 16}})) +
                    rule();
  for (std::size_t i = 0; i < trace_resource_count; ++i) {
    if (path.by_resource[i] == Picoseconds(0)) continue;
    const auto pieces = std::count_if(
        path.pieces.begin(), path.pieces.end(),
        [&](const TracePathPiece& piece) { return static_cast<std::size_t>(piece.resource) == i; });
    out += clipped(left(resource_text(static_cast<TraceResource>(i)), 30) +
                   cells({{time_text(path.by_resource[i], path.span()), 14},
                          {percent_text(ratio(path.by_resource[i], path.span())), 10},
                          {fmt::format("{}", pieces), 10},
                          {time_text(path.gain[i], path.span()), 16}}));
  }
  return out + clipped(left("span", 30) + right(time_text(path.span()), 14));
}

std::string kernel_table(const Trace& trace, const TracePath& path, std::size_t top) {
  const auto on = std::count_if(path.kernels.begin(), path.kernels.end(),
                                [](const TracePathKernel& kernel) { return kernel.path > Picoseconds(0); });
  if (on == 0) return "";
  std::string out = "\n" +
                    clipped(left("GPU ops on the path", 35) +
                            cells({{"on path", 12}, {"times", 7}, {"of", 7}, {"gain at most", 19}})) +
                    rule();
  const std::size_t listed = std::min<std::size_t>(top, static_cast<std::size_t>(on));
  for (std::size_t i = 0; i < listed; ++i) {
    const TracePathKernel& kernel = path.kernels[i];
    out += clipped(left(trace_label(trace.name_of(kernel.name), 34), 35) +
                   cells({{time_text(kernel.path, path.span()), 12},
                          {fmt::format("{}", kernel.on_path), 7},
                          {fmt::format("{}", kernel.count), 7},
                          {time_text(kernel.gain, path.span()), 11},
                          {percent_text(ratio(kernel.gain, path.span())), 8}}));
  }
  if (listed < static_cast<std::size_t>(on))
    out += fmt::format("{} more\n", static_cast<std::size_t>(on) - listed);
  return out;
}

std::string item_table(const Trace& trace, const TracePath& path, std::size_t top) {
  const std::vector<Item> items = items_beside_ops(trace, path);
  if (items.empty()) return "";
  std::string out = "\n" +
                    clipped(left("beside GPU ops", 34) + left("   resource", 19) +
                            cells({{"time", 12}, {"share", 8}, {"pieces", 7}})) +
                    rule();
  for (std::size_t i = 0; i < std::min(top, items.size()); ++i) {
    out +=
        clipped(left(label_of(items[i].name, 33), 34) + left("   " + resource_text(items[i].resource), 19) +
                cells({{time_text(items[i].time, path.span()), 12},
                       {percent_text(ratio(items[i].time, path.span())), 8},
                       {fmt::format("{}", items[i].pieces), 7}}));
  }
  if (top < items.size()) out += fmt::format("{} more\n", items.size() - top);
  return out;
}

std::string stretch_table(const Trace& trace, const TracePath& path) {
  const std::vector<Stretch> all = stretches(path);
  if (all.empty()) return "";
  std::string out = "\n" +
                    clipped(left("longest stretches", 31) + left("   resource", 19) +
                            cells({{"length", 12}, {"pieces", 7}, {"from", 11}})) +
                    rule();
  for (std::size_t i = 0; i < std::min(stretches_listed, all.size()); ++i) {
    const Stretch& stretch = all[i];
    std::string what = label_of(subject(trace, path.pieces[stretch.longest]), stretch.pieces > 1 ? 21 : 30);
    if (stretch.pieces > 1) what += " and more";
    out += clipped(left(what, 31) + left("   " + resource_text(stretch.resource), 19) +
                   cells({{time_text(stretch.to - stretch.from, path.span()), 12},
                          {fmt::format("{}", stretch.pieces), 7},
                          {time_text(stretch.from - path.begin, path.span()), 11}}));
  }
  return out;
}

std::string slack_table(const Trace& trace, const TracePath& path, std::size_t top) {
  std::vector<const TracePathKernel*> free;
  for (const TracePathKernel& kernel : path.kernels)
    if (kernel.least_slack > Picoseconds(0)) free.push_back(&kernel);
  if (free.empty()) return "";
  std::stable_sort(free.begin(), free.end(),
                   [](const TracePathKernel* a, const TracePathKernel* b) { return a->total > b->total; });
  std::string out = "\n" +
                    clipped(left("never on the path: gain nothing", 35) +
                            cells({{"time", 12}, {"count", 7}, {"least slack", 13}, {"median", 13}})) +
                    rule();
  for (std::size_t i = 0; i < std::min(top / 2 + 1, free.size()); ++i) {
    out += clipped(left(trace_label(trace.name_of(free[i]->name), 34), 35) +
                   cells({{time_text(free[i]->total, path.span()), 12},
                          {fmt::format("{}", free[i]->count), 7},
                          {time_text(free[i]->least_slack, path.span()), 13},
                          {time_text(free[i]->median_slack, path.span()), 13}}));
  }
  return out;
}

}  // namespace

std::string trace_path_text(const Trace& trace, const TracePath& path, std::size_t top) {
  std::string out = shorten(printable(trace.file), page_width) + "\n";
  if (path.pieces.empty()) return out + "no call and no GPU op: nothing that a path could lead through\n";
  const std::string text = fmt::format(
      "From the first op, call or GPU op to the end of the last call or GPU op: {}. What is not on the path "
      "does "
      "not make it longer.",
      time_text(path.span()));
  for (const std::string& line : wrap(text, page_width)) out += line + "\n";
  out += "\n" + resource_table(path);
  out += kernel_table(trace, path, top);
  out += item_table(trace, path, top);
  out += stretch_table(trace, path);
  return out + slack_table(trace, path, top);
}

std::string trace_path_json(const Trace& trace, const TracePath& path, std::size_t top) {
  std::string out =
      fmt::format("{{\n \"file\": {},\n \"begin_us\": {},\n \"span_us\": {}", json_string(trace.file),
                  exact_microseconds(path.begin), exact_microseconds(path.span()));
  const auto by_resource = [&](const char* key, const auto& values) {
    out += fmt::format(",\n \"{}\": {{", key);
    for (std::size_t i = 0; i < trace_resource_count; ++i)
      out += fmt::format("{}\"{}\": {}", i == 0 ? "" : ", ", gpusim::name(static_cast<TraceResource>(i)),
                         exact_microseconds(values[i]));
    out += "}";
  };
  by_resource("path_us", path.by_resource);
  by_resource("gain_us", path.gain);
  out += ",\n \"kernels\": [";
  for (std::size_t i = 0; i < path.kernels.size(); ++i) {
    const TracePathKernel& k = path.kernels[i];
    out += fmt::format(
        "{}\n  {{\"name\": {}, \"count\": {}, \"total_us\": {}, \"on_path\": {}, \"path_us\": {}, "
        "\"gain_us\": {}, "
        "\"least_slack_us\": {}, \"median_slack_us\": {}}}",
        i == 0 ? "" : ",", json_string(trace.name_of(k.name)), k.count, exact_microseconds(k.total),
        k.on_path, exact_microseconds(k.path), exact_microseconds(k.gain), exact_microseconds(k.least_slack),
        exact_microseconds(k.median_slack));
  }
  out += "\n ],\n \"beside_ops\": [";
  const std::vector<Item> items = items_beside_ops(trace, path);
  for (std::size_t i = 0; i < std::min(top, items.size()); ++i)
    out += fmt::format("{}\n  {{\"name\": {}, \"resource\": \"{}\", \"time_us\": {}, \"pieces\": {}}}",
                       i == 0 ? "" : ",", json_string(items[i].name), gpusim::name(items[i].resource),
                       exact_microseconds(items[i].time), items[i].pieces);
  out += "\n ],\n \"pieces\": [";
  for (std::size_t i = 0; i < path.pieces.size(); ++i) {
    const TracePathPiece& piece = path.pieces[i];
    out += fmt::format("{}\n  {{\"at_us\": {}, \"length_us\": {}, \"resource\": \"{}\", \"name\": {}}}",
                       i == 0 ? "" : ",", exact_microseconds(piece.from - path.begin),
                       exact_microseconds(piece.duration()), gpusim::name(piece.resource),
                       json_string(subject(trace, piece)));
  }
  return out + "\n ]\n}";
}

}  // namespace gpusim::report
