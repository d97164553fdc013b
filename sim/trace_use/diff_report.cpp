// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>

#include "sim/report/format.hpp"
#include "sim/trace_use/diff.hpp"
#include "sim/trace_use/kernel_traits.hpp"

namespace gpusim {
namespace {

using report::exact_microseconds;
using report::json_string;
using report::left;
using report::right;
using report::shorten;

constexpr std::size_t width = 80;

std::string signed_us(Picoseconds time) {
  return fmt::format("{:+.3f}", static_cast<double>(time.count()) * 1e-6);
}
std::string us(Picoseconds time) {
  return fmt::format("{:.3f}", static_cast<double>(time.count()) * 1e-6);
}

std::string line(const std::string& what, const std::string& ops, Picoseconds a, Picoseconds b) {
  return left(what, 25) + right(ops, 13) + right(us(a), 14) + right(us(b), 14) + right(signed_us(b - a), 14) +
         "\n";
}

std::string counts(std::int64_t a, std::int64_t b) {
  return a == b ? std::to_string(a) : fmt::format("{} > {}", a, b);
}

const char* word(DiffRow::Change change) {
  switch (change) {
    case DiffRow::Change::Matched:
      return "matched";
    case DiffRow::Change::Renamed:
      return "renamed";
    case DiffRow::Change::Appeared:
      return "appeared";
    case DiffRow::Change::Vanished:
      return "vanished";
  }
  return "";
}

struct Sum {
  std::int64_t count_a = 0, count_b = 0;
  Picoseconds time_a{0}, time_b{0};
  void add(const DiffRow& row) {
    count_a += row.count_a;
    count_b += row.count_b;
    time_a += row.time_a;
    time_b += row.time_b;
  }
};

std::string what_of(const DiffSide& side) {
  if (side.step >= 0 && side.steps > 1) return fmt::format("step {} of {}", side.step + 1, side.steps);
  return side.steps > 1 ? fmt::format("all {} steps", side.steps) : "all of it";
}

std::string label(const DiffRow& row) {
  const std::string a = telling_name(row.name_a);
  const std::string b = telling_name(row.name_b);
  switch (row.change) {
    case DiffRow::Change::Appeared:
      return "+ " + b;
    case DiffRow::Change::Vanished:
      return "- " + a;
    case DiffRow::Change::Renamed:
      return "~ " + shorten(a, 19) + " > " + shorten(b, 19);
    case DiffRow::Change::Matched:
      return "  " + a;
  }
  return a;
}

std::string json_side(const DiffSide& side) {
  std::string idle;
  for (int c = 0; c < trace_idle_count; ++c)
    idle += fmt::format("{}\"{}\": {}", c == 0 ? "" : ", ", name(static_cast<TraceIdle>(c)),
                        exact_microseconds(side.idle[static_cast<std::size_t>(c)]));
  return fmt::format(
      "{{\"file\": {}, \"steps\": {}, \"step\": {}, \"wall_us\": {}, \"op_sum_us\": {}, \"overlap_us\": {}, "
      "\"idle_us\": {{{}}}}}",
      json_string(side.file), side.steps, side.step < 0 ? "null" : std::to_string(side.step),
      exact_microseconds(side.wall), exact_microseconds(side.sum), exact_microseconds(side.overlap), idle);
}

}  // namespace

std::string diff_text(const TraceDiff& diff, std::size_t rows) {
  std::string text = "A: " + shorten(report::printable(diff.a.file), width - 3) + "\n   " + what_of(diff.a) +
                     "\nB: " + shorten(report::printable(diff.b.file), width - 3) + "\n   " +
                     what_of(diff.b) + "\n\n";
  text +=
      left("", 25) + right("ops", 13) + right("A, us", 14) + right("B, us", 14) + right("B - A", 14) + "\n";
  text += line("from first to last op", "", diff.a.wall, diff.b.wall);
  std::map<std::string, Sum> groups;
  std::map<DiffRow::Change, Sum> changes;
  for (const DiffRow& row : diff.rows) {
    groups[row.group].add(row);
    changes[row.change].add(row);
  }
  for (const auto& [group, sum] : groups)
    text += line("  " + group, counts(sum.count_a, sum.count_b), sum.time_a, sum.time_b);
  text += line("  less what overlaps", "", -diff.a.overlap, -diff.b.overlap);
  for (int c = 0; c < trace_idle_count; ++c) {
    const auto cause = static_cast<std::size_t>(c);
    if (diff.a.idle[cause] == Picoseconds(0) && diff.b.idle[cause] == Picoseconds(0)) continue;
    std::string title = std::string("  idle: ") + name(static_cast<TraceIdle>(c));
    std::replace(title.begin(), title.end(), '_', ' ');
    text += line(title, "", diff.a.idle[cause], diff.b.idle[cause]);
  }
  text += "\n";
  for (const auto& [change, sum] : changes)
    text +=
        line(std::string("kernels that ") +
                 (change == DiffRow::Change::Appeared || change == DiffRow::Change::Vanished ? "" : "are ") +
                 word(change),
             counts(sum.count_a, sum.count_b), sum.time_a, sum.time_b);
  text += "\n" + left("kernels (+ new, - gone, ~ another for it)", 44) + right("ops", 13) +
          right("A, us", 11) + right("B - A", 12) + "\n";
  Sum rest;
  for (std::size_t i = 0; i < diff.rows.size(); ++i) {
    const DiffRow& row = diff.rows[i];
    if (i >= rows) {
      rest.add(row);
      continue;
    }
    text += left(shorten(report::printable(label(row)), 44), 44) +
            right(counts(row.count_a, row.count_b), 13) + right(us(row.time_a), 11) +
            right(signed_us(row.difference()), 12) + "\n";
  }
  if (diff.rows.size() > rows)
    text += left(fmt::format("  {} others", diff.rows.size() - rows), 44) +
            right(counts(rest.count_a, rest.count_b), 13) + right(us(rest.time_a), 11) +
            right(signed_us(rest.time_b - rest.time_a), 12) + "\n";
  return text;
}

std::string diff_json(const TraceDiff& diff) {
  std::string text = "{\"a\": " + json_side(diff.a) + ",\n \"b\": " + json_side(diff.b) +
                     ",\n \"difference_us\": " + exact_microseconds(diff.difference()) + ",\n \"kernels\": [";
  for (std::size_t i = 0; i < diff.rows.size(); ++i) {
    const DiffRow& row = diff.rows[i];
    const auto name = [](const std::string& n) { return n.empty() ? std::string("null") : json_string(n); };
    text += fmt::format(
        "{}  {{\"change\": \"{}\", \"group\": {}, \"name_a\": {}, \"name_b\": {}, \"count_a\": {}, "
        "\"count_b\": {}, "
        "\"time_a_us\": {}, \"time_b_us\": {}, \"difference_us\": {}}}",
        i == 0 ? "\n" : ",\n", word(row.change), json_string(row.group), name(row.name_a), name(row.name_b),
        row.count_a, row.count_b, exact_microseconds(row.time_a), exact_microseconds(row.time_b),
        exact_microseconds(row.difference()));
  }
  return text + "]}\n";
}

}  // namespace gpusim
