// SPDX-License-Identifier: Apache-2.0
// The timeline and memory over time, as html/timeline.js and html/memory.js take them.
#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "sim/report/html_data.hpp"
#include "sim/report/html_report.hpp"
#include "sim/report/kernel_family.hpp"
#include "sim/report/op_executions.hpp"

namespace gpusim::report {
namespace {

using engine::Call;
using engine::CallRecord;
using engine::Index;
using engine::Instruction;
using engine::no_index;
using engine::OpRecord;
using nlohmann::ordered_json;

std::int64_t nanoseconds(Picoseconds time) {
  return (time.count() + 500) / 1000;
}

/// What a host thread is doing, as html/timeline.js numbers it.
enum class Doing : std::uint8_t {
  Work,
  Launch,
  LaunchGraph,
  Synchronize,
  Input,
  AwaitThread,
  OtherCall,
  QueueFull
};

Doing doing(Call call) {
  switch (call) {
    case Call::Work:
      return Doing::Work;
    case Call::Input:
      return Doing::Input;
    case Call::Launch:
      return Doing::Launch;
    case Call::LaunchGraph:
      return Doing::LaunchGraph;
    case Call::SynchronizeStream:
    case Call::SynchronizeEvent:
    case Call::SynchronizeDevice:
      return Doing::Synchronize;
    case Call::Await:
      return Doing::AwaitThread;
    case Call::Record:
    case Call::StreamWait:
    case Call::Allocate:
    case Call::Free:
    case Call::Signal:
      return Doing::OtherCall;
  }
  return Doing::OtherCall;
}

/// Bars of a row, in order of their starts.
class Bars {
 public:
  void add(Picoseconds start, Picoseconds end, std::size_t what) {
    const std::int64_t from = nanoseconds(start);
    starts_.push_back(from - last_);
    lengths_.push_back(std::max<std::int64_t>(nanoseconds(end) - from, 0));
    what_.push_back(what);
    last_ = from;
  }
  bool empty() const { return what_.empty(); }
  /// `what`: the key of the third list.
  void put(ordered_json& row, const char* what) {
    row["t"] = std::move(starts_);
    row["d"] = std::move(lengths_);
    row[what] = std::move(what_);
  }

 private:
  std::int64_t last_ = 0;
  std::vector<std::int64_t> starts_;
  std::vector<std::int64_t> lengths_;
  std::vector<std::size_t> what_;
};

class TimelineData {
 public:
  TimelineData(const VariantResult& result, const DistinctOps& ops, NameTable& names)
      : result_(result),
        program_(result.program),
        timeline_(*result.timeline),
        ops_(ops),
        names_(names),
        calls_(timeline_.calls_in_order()),
        in_order_(timeline_.ops_in_order()) {}

  ordered_json write() {
    ordered_json data;
    data["end_ns"] = nanoseconds(result_.isolated.totals.wall);
    cut_off();
    if (until_ < Picoseconds::max()) data["shown_ns"] = nanoseconds(until_);
    data["steps_ns"] = steps();
    data["idle"] = idle();
    data["rows"] = ordered_json::array();
    for (std::size_t thread = 0; thread < program_.threads.size(); ++thread) add_thread(data["rows"], thread);
    add_streams(data["rows"]);
    return data;
  }

 private:
  /// As long as fits: a page with millions of bars helps nobody.
  void cut_off() {
    if (calls_.size() + in_order_.size() <= html_events_max) return;
    std::size_t call = 0;
    std::size_t op = 0;
    while (call + op < html_events_max) {
      const bool next_is_call =
          op == in_order_.size() ||
          (call < calls_.size() && timeline_.call(calls_[call]).start <= timeline_.ops[in_order_[op]].start);
      until_ = next_is_call ? timeline_.call(calls_[call]).start : timeline_.ops[in_order_[op]].start;
      ++(next_is_call ? call : op);
    }
  }

  ordered_json steps() const {
    ordered_json starts = ordered_json::array();
    if (timeline_.threads.empty()) return starts;
    if (!result_.step_starts.empty() && timeline_.threads.front().step_start.size() == 1) {
      for (const Index instruction : result_.step_starts)
        starts.push_back(nanoseconds(timeline_.call(timeline_.call_number(0, instruction)).start));
    } else {
      for (const Picoseconds at : timeline_.threads.front().step_start) starts.push_back(nanoseconds(at));
    }
    return starts;
  }

  ordered_json idle() const {
    Bars bars;
    for (const engine::IdleInterval& piece : result_.idle_intervals) {
      if (piece.from >= until_) break;
      bars.add(piece.from, piece.to, static_cast<std::size_t>(piece.cause));
    }
    ordered_json row = ordered_json::object();
    bars.put(row, "cause");
    return row;
  }

  std::string given_name(Index name) const { return name == no_index ? "" : program_.names[name]; }

  /// What people see; launches are named after what they launch.
  std::string call_name(const CallRecord& call, const Instruction& instruction) const {
    switch (instruction.call) {
      case Call::Launch:
        return given_name(program_.info[instruction.object].name);
      case Call::LaunchGraph:
        return given_name(program_.graphs[instruction.object].name);
      default:
        break;
    }
    const std::string given = given_name(program_.threads[call.thread].name_of(call.instruction));
    if (!given.empty()) return given;
    switch (instruction.call) {
      case Call::Record:
        return "record " + program_.events[instruction.object];
      case Call::StreamWait:
        return "stream waits for " + program_.events[instruction.object];
      case Call::SynchronizeStream:
        return "wait for stream " + program_.streams[instruction.stream].name;
      case Call::SynchronizeEvent:
        return "wait for " + program_.events[instruction.object];
      case Call::SynchronizeDevice:
        return "wait for the device";
      case Call::Signal:
        return "signal " + program_.signals[instruction.object];
      case Call::Await:
        return "wait for " + program_.signals[instruction.object];
      case Call::Input:
        return "wait for input";
      case Call::Allocate:
        return "allocate";
      case Call::Free:
        return "free";
      default:
        return "work";
    }
  }

  void add_thread(ordered_json& rows, std::size_t thread) {
    Bars bars;
    std::vector<int> kinds;
    const auto add = [&](Picoseconds start, Picoseconds end, std::size_t what, Doing kind) {
      if (nanoseconds(end) == nanoseconds(start)) return;  // Nothing to see.
      bars.add(start, end, what);
      kinds.push_back(static_cast<int>(kind));
    };
    for (const Index number : calls_) {
      const CallRecord call = timeline_.call(number);
      if (call.thread != thread) continue;
      if (call.start >= until_) break;
      const Instruction& instruction = instruction_of(program_, call);
      const Doing kind = doing(instruction.call);
      const std::size_t name = names_(call_name(call, instruction));
      const bool puts_into_stream =
          kind == Doing::Launch || kind == Doing::LaunchGraph || instruction.call == Call::StreamWait;
      if (puts_into_stream && !instruction.blocking && call.end - call.start > instruction.duration) {
        // The queue had no room: the call itself comes after the wait for it.
        const Picoseconds begun = call.end - instruction.duration;
        add(call.start, begun, name, Doing::QueueFull);
        add(begun, call.end, name, kind);
      } else if (instruction.blocking && call.end - call.start > instruction.duration) {
        add(call.start, call.start + instruction.duration, name, kind);
        add(call.start + instruction.duration, call.end, name, Doing::Synchronize);
      } else {
        add(call.start, call.end, name, kind);
      }
    }
    if (bars.empty()) return;
    ordered_json row;
    row["kind"] = "host";
    row["label"] = program_.threads[thread].name;
    bars.put(row, "n");
    row["k"] = std::move(kinds);
    rows.push_back(std::move(row));
  }

  /// A row for each stream, and one for each lane where its ops overlap.
  void add_streams(ordered_json& rows) {
    const std::vector<std::uint16_t> lanes = engine::lanes(program_, timeline_);
    struct Row {
      Bars bars;
      std::vector<std::int64_t> waited;  ///< From the start of the launch call, ns.
    };
    std::vector<std::vector<Row>> streams(program_.streams.size());
    for (const Index i : in_order_) {
      const OpRecord& record = timeline_.ops[i];
      if (record.start >= until_) continue;
      const CallRecord call = timeline_.call(record.call);
      std::vector<Row>& of_stream = streams[instruction_of(program_, call).stream];
      if (of_stream.size() <= lanes[i]) of_stream.resize(lanes[i] + std::size_t{1});
      Row& row = of_stream[lanes[i]];
      row.bars.add(record.start, record.end, ops_.of_op[engine::op_of(program_, timeline_, record)]);
      row.waited.push_back(nanoseconds(record.start) - nanoseconds(call.start));
    }
    for (std::size_t s = 0; s < streams.size(); ++s)
      for (std::size_t lane = 0; lane < streams[s].size(); ++lane) {
        if (streams[s][lane].bars.empty()) continue;
        ordered_json row;
        row["kind"] = "stream";
        row["label"] = program_.streams[s].name;
        row["device"] = program_.streams[s].device;
        row["lane"] = lane;
        streams[s][lane].bars.put(row, "o");
        row["q"] = std::move(streams[s][lane].waited);
        rows.push_back(std::move(row));
      }
  }

  const VariantResult& result_;
  const engine::Program& program_;
  const engine::Timeline& timeline_;
  const DistinctOps& ops_;
  NameTable& names_;
  std::vector<Index> calls_;
  std::vector<Index> in_order_;
  Picoseconds until_ = Picoseconds::max();
};

/// Values that change now and then: [place, value] where they do.
class Changes {
 public:
  void add(std::size_t place, std::int64_t value) {
    if (!values_.empty() && values_.back() == value) return;
    places_.push_back(place);
    values_.push_back(value);
  }
  ordered_json take() { return {{"at", std::move(places_)}, {"bytes", std::move(values_)}}; }

 private:
  std::vector<std::size_t> places_;
  std::vector<std::int64_t> values_;
};

ordered_json by_kind(const VariantResult& result) {
  const engine::Timeline& timeline = *result.timeline;
  // By thread and instruction; of pieces that one call launches, the one that needs most.
  std::map<std::pair<std::uint16_t, Index>, const MemoryShares*> marks;
  for (const MemoryMark& mark : result.memory_marks) {
    const MemoryShares*& shares = marks[{mark.thread, mark.instruction}];
    if (shares == nullptr || shares->total() < mark.shares.total()) shares = &mark.shares;
  }
  std::vector<std::int64_t> times;
  std::array<Changes, memory_kind_count> kinds;
  std::array<bool, memory_kind_count> used{};
  std::int64_t last = 0;
  for (const Index number : timeline.calls_in_order()) {
    const CallRecord call = timeline.call(number);
    const auto mark = marks.find({call.thread, call.instruction});
    if (mark == marks.end()) continue;
    const std::int64_t at = nanoseconds(call.start);
    times.push_back(at - last);
    last = at;
    for (std::size_t i = 0; i < memory_kind_count; ++i) {
      const Bytes bytes = (*mark->second)[static_cast<MemoryKind>(i)];
      kinds[i].add(times.size() - 1, bytes.value());
      used[i] = used[i] || bytes > Bytes(0);
    }
  }
  ordered_json data;
  data["t"] = std::move(times);
  data["kinds"] = ordered_json::array();
  for (std::size_t i = 0; i < memory_kind_count; ++i) {
    if (!used[i]) continue;
    ordered_json kind = kinds[i].take();
    kind["name"] = std::string(name(static_cast<MemoryKind>(i)));
    data["kinds"].push_back(std::move(kind));
  }
  return data;
}

ordered_json allocated(const engine::Timeline& timeline) {
  std::vector<std::int64_t> times;
  Changes changes;
  std::int64_t last = 0;
  for (const engine::MemoryRecord& record : timeline.memory) {
    const std::int64_t at = nanoseconds(record.at);
    times.push_back(at - last);
    last = at;
    changes.add(times.size() - 1, record.bytes);
  }
  ordered_json kind = changes.take();
  kind["name"] = "allocated";
  ordered_json data;
  data["t"] = std::move(times);
  data["kinds"] = ordered_json::array({std::move(kind)});
  return data;
}

}  // namespace

ordered_json timeline_json(const VariantResult& result, const DistinctOps& ops, NameTable& names) {
  return TimelineData(result, ops, names).write();
}

ordered_json memory_json(const VariantResult& result) {
  if (!result.timeline) return nullptr;
  if (!result.memory_marks.empty()) return by_kind(result);
  if (!result.timeline->memory.empty()) return allocated(*result.timeline);
  return nullptr;
}

}  // namespace gpusim::report
