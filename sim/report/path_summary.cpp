// SPDX-License-Identifier: Apache-2.0
#include "sim/report/path_summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "sim/report/format.hpp"

namespace gpusim::report {
namespace {

using engine::Call;
using engine::Index;
using engine::no_index;

constexpr std::size_t page_width = 80;
constexpr std::size_t stretches_kept = 10;
constexpr std::size_t stretches_listed = 5;
constexpr std::size_t items_listed = 10;

/// What tells one subject from another, without its text: a path can have millions of pieces.
struct SubjectKey {
  int call = -1;               ///< engine::Call, or -1 for an op.
  bool before_launch = false;  ///< Work without a name of its own: `name` is what is launched next.
  Index name = no_index;       ///< Into Program::names.
  friend auto operator<=>(const SubjectKey&, const SubjectKey&) = default;
};

/// Work between launches has no name in most traces; what tells something is what the host is about to
/// launch.
Index launched_after(const engine::Program& program, const engine::CallRecord& work, bool& found) {
  const engine::LargeVector<engine::Instruction>& all = program.threads[work.thread].instructions;
  std::size_t next = work.instruction;
  while (next < all.size() && all[next].call == Call::Work) ++next;
  if (next == all.size()) return no_index;
  found = all[next].call == Call::Launch || all[next].call == Call::LaunchGraph;
  if (!found) return no_index;
  return all[next].call == Call::Launch ? program.info[all[next].object].name
                                        : program.graphs[all[next].object].name;
}

SubjectKey key_of(const engine::Program& program, const engine::Timeline& timeline,
                  const PathSegment& segment) {
  if (segment.op != no_index) {
    const Index op = engine::op_of(program, timeline, timeline.ops[segment.op]);
    return {.name = program.info[op].name};
  }
  if (segment.call == no_index) return {};
  const engine::CallRecord record = timeline.call(segment.call);
  const engine::Instruction& in = engine::instruction_of(program, record);
  SubjectKey key{.call = static_cast<int>(in.call)};
  if (in.call == Call::Launch)
    key.name = program.info[in.object].name;
  else if (in.call == Call::LaunchGraph)
    key.name = program.graphs[in.object].name;
  else
    key.name = program.threads[record.thread].name_of(record.instruction);
  if (in.call == Call::Work && key.name == no_index)
    key.name = launched_after(program, record, key.before_launch);
  return key;
}

const char* call_text(Call call) {
  switch (call) {
    case Call::Work:
      return "work";
    case Call::Input:
      return "input";
    case Call::Launch:
    case Call::LaunchGraph:
      return "launch";
    case Call::Record:
      return "event record";
    case Call::StreamWait:
      return "event wait";
    case Call::SynchronizeStream:
    case Call::SynchronizeEvent:
    case Call::SynchronizeDevice:
      return "synchronize";
    case Call::Allocate:
      return "allocate";
    case Call::Free:
      return "free";
    case Call::Signal:
      return "signal";
    case Call::Await:
      return "await";
  }
  return "call";
}

PathSubject subject_of(const engine::Program& program, const SubjectKey& key, PathResource resource) {
  PathSubject subject;
  if (key.name != no_index) subject.name = program.names[key.name];
  if (key.call < 0) {
    if (resource == PathResource::Gap || resource == PathResource::Event) subject.action = "before";
    return subject;
  }
  const Call call = static_cast<Call>(key.call);
  const bool is_launch = call == Call::Launch || call == Call::LaunchGraph;
  if (resource == PathResource::Synchronization)
    subject.action =
        is_launch || !subject.name.empty() ? "return of" : std::string("return of ") + call_text(call);
  else if (is_launch)
    subject.action = "launch of";
  else if (key.before_launch)
    subject.action = "work for";
  else if (subject.name.empty())
    subject.action = call_text(call);
  return subject;
}

double ratio(Picoseconds a, Picoseconds b) {
  return b.count() ? static_cast<double>(a.count()) / static_cast<double>(b.count()) : 0.0;
}

std::string resource_text(PathResource resource) {
  std::string text = name(resource);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::string subject_text(const PathSubject& subject) {
  std::string text = subject.action;
  if (!text.empty() && !subject.name.empty()) text += ' ';
  return printable(text + kernel_label(subject.name));
}

const char* condition_text(InfinitelyFast what) {
  switch (what) {
    case InfinitelyFast::Host:
      return "if the host were infinitely fast:";
    case InfinitelyFast::Launches:
      return "if launches took no time:";
    case InfinitelyFast::Kernels:
      return "if kernels and copies took no time:";
  }
  return "";
}

void add_slack(PathSummary& summary, const engine::Timeline& timeline, const CriticalPath& path) {
  summary.ops = static_cast<std::int64_t>(timeline.ops.size());
  std::vector<Picoseconds> slack;
  for (std::size_t i = 0; i < timeline.ops.size(); ++i) {
    if (path.op_slack[i] == Picoseconds(0)) continue;
    slack.push_back(path.op_slack[i]);
    summary.slack_sum += path.op_slack[i];
    summary.time_with_slack += timeline.ops[i].end - timeline.ops[i].start;
  }
  summary.ops_with_slack = static_cast<std::int64_t>(slack.size());
  if (slack.empty()) return;
  const auto middle = slack.begin() + static_cast<std::ptrdiff_t>(slack.size() / 2);
  std::nth_element(slack.begin(), middle, slack.end());
  summary.slack_median = *middle;
}

}  // namespace

PathSummary summarize_path(const engine::Program& program, const engine::Timeline& timeline,
                           const CriticalPath& path,
                           const std::array<Counterfactual, infinitely_fast_count>& infinitely_fast,
                           std::int64_t steps) {
  PathSummary summary;
  summary.makespan = path.makespan;
  summary.steps = steps;
  summary.by_resource = path.by_resource;
  summary.unexplained = path.unexplained;
  summary.infinitely_fast = infinitely_fast;
  add_slack(summary, timeline, path);

  std::map<std::pair<PathResource, SubjectKey>, std::size_t> known;
  std::vector<PathSummary::Stretch> stretches;
  std::vector<SubjectKey> item_keys;
  std::vector<SubjectKey> stretch_keys;
  Picoseconds longest_piece{0};
  for (const PathSegment& segment : path.segments) {
    const SubjectKey key = key_of(program, timeline, segment);
    const auto [found, added] = known.try_emplace({segment.resource, key}, summary.items.size());
    if (added) {
      summary.items.push_back({.subject = {}, .resource = segment.resource});
      item_keys.push_back(key);
    }
    PathSummary::Item& item = summary.items[found->second];
    item.time += segment.duration();
    ++item.count;

    if (stretches.empty() || stretches.back().resource != segment.resource) {
      ++summary.stretches[static_cast<std::size_t>(segment.resource)];
      stretches.push_back({.from = segment.from, .resource = segment.resource, .subject = {}});
      stretch_keys.push_back(key);
      longest_piece = segment.duration();
    } else if (segment.duration() > longest_piece) {
      stretch_keys.back() = key;
      longest_piece = segment.duration();
    }
    stretches.back().to = segment.to;
    ++stretches.back().pieces;
  }
  for (std::size_t i = 0; i < summary.items.size(); ++i)
    summary.items[i].subject = subject_of(program, item_keys[i], summary.items[i].resource);
  std::stable_sort(summary.items.begin(), summary.items.end(),
                   [](const PathSummary::Item& a, const PathSummary::Item& b) { return a.time > b.time; });

  std::vector<std::size_t> order(stretches.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const std::size_t kept = std::min(stretches_kept, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                    [&](std::size_t a, std::size_t b) {
                      return std::tuple(-stretches[a].duration().count(), a) <
                             std::tuple(-stretches[b].duration().count(), b);
                    });
  for (std::size_t i = 0; i < kept; ++i) {
    summary.longest.push_back(stretches[order[i]]);
    summary.longest.back().subject =
        subject_of(program, stretch_keys[order[i]], summary.longest.back().resource);
  }
  return summary;
}

std::string path_text(const PathSummary& summary, std::string_view title) {
  const std::string rule = std::string(page_width, '-') + "\n";
  std::string out;
  std::string heading(title);
  if (summary.steps > 1) heading += fmt::format(", {} steps", summary.steps);
  out += left(shorten(printable(heading), 48), 49) + right("time", 12) + right("share", 8) +
         right("stretches", 11) + "\n" + rule;
  for (std::size_t i = 0; i < path_resource_count; ++i) {
    const Picoseconds time = summary.by_resource[i];
    if (time == Picoseconds(0)) continue;
    out += left(resource_text(static_cast<PathResource>(i)), 49) +
           right(time_text(time, summary.makespan), 12) +
           right(percent_text(ratio(time, summary.makespan)), 8) +
           right(fmt::format("{}", summary.stretches[i]), 11) + "\n";
  }
  out += left("makespan", 49) + right(time_text(summary.makespan), 12) + "\n\n";

  const auto line = [](std::string_view what, std::string_view resource, std::string_view a,
                       std::string_view b, std::string_view c) {
    std::string text =
        left(shorten(what, 32), 33) + left(resource, 16) + right(a, 11) + right(b, 8) + right(c, 12);
    while (text.ends_with(' ')) text.pop_back();
    return text + "\n";
  };
  if (!summary.items.empty()) {
    out += line("on the path", "resource", "time", "count", "share") + rule;
    const std::size_t listed = summary.items.size() <= items_listed + 1 ? summary.items.size() : items_listed;
    for (std::size_t i = 0; i < listed; ++i) {
      const PathSummary::Item& item = summary.items[i];
      out += line(subject_text(item.subject), resource_text(item.resource),
                  time_text(item.time, summary.makespan), fmt::format("{}", item.count),
                  percent_text(ratio(item.time, summary.makespan)));
    }
    if (listed < summary.items.size()) {
      Picoseconds rest{0};
      std::int64_t count = 0;
      for (std::size_t i = listed; i < summary.items.size(); ++i) {
        rest += summary.items[i].time;
        count += summary.items[i].count;
      }
      out +=
          line(fmt::format("{} more", summary.items.size() - listed), "", time_text(rest, summary.makespan),
               fmt::format("{}", count), percent_text(ratio(rest, summary.makespan)));
    }
    out += "\n" + line("longest stretches", "resource", "length", "pieces", "from") + rule;
    for (std::size_t i = 0; i < std::min(stretches_listed, summary.longest.size()); ++i) {
      const PathSummary::Stretch& stretch = summary.longest[i];
      std::string what = subject_text(stretch.subject);
      if (stretch.pieces > 1) what = shorten(what, 23) + " and more";
      out += line(what, resource_text(stretch.resource), time_text(stretch.duration(), summary.makespan),
                  fmt::format("{}", stretch.pieces), time_text(stretch.from, summary.makespan));
    }
    out += "\n";
  }

  if (summary.ops > 0) {
    std::string text;
    if (summary.ops_with_slack == 0)
      text = fmt::format("None of the {} GPU ops could end later without lengthening the run.", summary.ops);
    else
      text = fmt::format(
          "{} of {} GPU ops, {} of run time, could each end later without lengthening the run: half of them "
          "by {} or "
          "more.",
          summary.ops_with_slack, summary.ops, time_text(summary.time_with_slack),
          time_text(summary.slack_median));
    for (const std::string& part : wrap(text, page_width)) out += part + "\n";
  }
  for (const Counterfactual& c : summary.infinitely_fast) {
    const auto speedup = c.speedup(summary.makespan);
    out += left(condition_text(c.what), 36) +
           (c.makespan ? right(time_text(*c.makespan, summary.makespan), 12)
                       : std::string("  stuck: not compared")) +
           (speedup ? right(fmt::format("{:.2f}x", *speedup), 9) : std::string()) + "\n";
  }
  return out + "\n";
}

}  // namespace gpusim::report
