// SPDX-License-Identifier: Apache-2.0
#include "sim/program/capture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "sim/engine/engine.hpp"

namespace gpusim {
namespace {

using engine::Call;
using engine::Index;
using engine::Instruction;
using NodeKind = engine::CudaGraph::NodeKind;
using engine::no_index;

using NodeSet = std::vector<Index>;  ///< Sorted, without duplicates.

NodeSet united(const NodeSet& a, const NodeSet& b) {
  NodeSet both;
  both.reserve(a.size() + b.size());
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

bool launches(const Instruction& i) {
  return i.call == Call::Launch || i.call == Call::LaunchGraph;
}

bool blocks_host(const Instruction& i) {
  switch (i.call) {
    case Call::SynchronizeStream:
    case Call::SynchronizeEvent:
    case Call::SynchronizeDevice:
      return true;
    case Call::Launch:
    case Call::LaunchGraph:
      return i.blocking;
    default:
      return false;
  }
}

/// Names of C++ kernels can be hundreds of characters long; their ends differ less than their beginnings.
std::string shortened(const std::string& name) {
  constexpr std::size_t limit = 48;
  return name.size() <= limit ? name : name.substr(0, limit - 3) + "...";
}

/// The calls of all threads in the order in which an isolated step makes them.
std::vector<InstructionPlace> call_order(const engine::Program& program, const engine::Machine& machine) {
  std::vector<InstructionPlace> order;
  if (program.threads.size() == 1) {
    order.reserve(program.threads[0].instructions.size());
    for (Index i = 0; i < program.threads[0].instructions.size(); ++i) order.push_back({0, i});
    return order;
  }
  engine::Timeline timeline;
  engine::run(program, machine, 1, &timeline);
  for (const Index number : timeline.calls_in_order()) {
    const engine::CallRecord call = timeline.call(number);
    order.push_back({call.thread, call.instruction});
  }
  return order;
}

class Capture {
 public:
  Capture(const engine::Program& program, const engine::Machine& machine, const CaptureOptions& options)
      : in_(program), options_(options), order_(call_order(program, machine)) {
    kept_thread_.assign(in_.threads.size(), false);
    for (const std::uint16_t thread : options.threads_kept) kept_thread_[thread] = true;
    step_starts_.insert(options.step_starts.begin(), options.step_starts.end());
    cleared_op_.assign(in_.ops.size(), no_index);
  }

  Captured run() {
    split();
    find_uses();
    engine::Program& out = result_.program;
    out.names = in_.names;
    out.ops = in_.ops;
    out.info = in_.info;
    out.footprints = in_.footprints;
    out.sizes = in_.sizes;
    out.streams = in_.streams;
    out.events = in_.events;
    out.signals = in_.signals;
    out.distributions = in_.distributions;
    out.seed = in_.seed;
    // Graphs of kept threads keep their indices; those taken apart stay unused in the table.
    out.graphs = in_.graphs;
    for (const engine::HostThread& thread : in_.threads) out.threads.push_back({thread.name, {}, {}});

    std::size_t stretch = 0;
    for (std::size_t at = 0; at < order_.size(); ++at) {
      while (stretch < stretches_.size() && stretches_[stretch].last < at) ++stretch;
      if (stretch < stretches_.size() && at == stretches_[stretch].begin) record(stretches_[stretch]);
      const bool inside = stretch < stretches_.size() && at >= stretches_[stretch].begin;
      emit(at, inside ? &stretches_[stretch] : nullptr);
    }
    return std::move(result_);
  }

 private:
  /// An instruction and what people see of it.
  struct Shown {
    Instruction instruction;
    Index name = no_index;
  };

  /// Positions [begin, end) of order_ without a blocking call and with at least one launch.
  struct Stretch {
    std::size_t begin = 0;
    std::size_t last = 0;          ///< Position of the last entry.
    std::size_t first_launch = 0;  ///< Positions.
    std::size_t last_launch = 0;
    std::vector<bool> launching_thread;
    Index graph = no_index;
    std::vector<Shown> before;  ///< Waits for events from outside.
    std::vector<Shown> after;   ///< Records of events for the outside.
  };

  const Instruction& at(std::size_t position) const {
    const InstructionPlace place = order_[position];
    return in_.threads[place.thread].instructions[place.instruction];
  }
  bool kept(std::size_t position) const { return kept_thread_[order_[position].thread]; }

  void split() {
    std::optional<Stretch> open;
    std::string last_op;
    std::vector<std::string> pending_cuts;
    const auto close = [&] {
      if (open) stretches_.push_back(std::move(*open));
      open.reset();
    };
    std::size_t begin = 0;
    for (std::size_t i = 0; i < order_.size(); ++i) {
      if (kept(i)) continue;
      const Instruction& instruction = at(i);
      if (step_starts_.count(order_[i]) != 0) {
        close();
        pending_cuts.clear();
        begin = i;
      }
      if (blocks_host(instruction)) {
        if (open) pending_cuts.push_back(cut_reason(i, last_op));
        close();
        begin = i + 1;
        continue;
      }
      if (is_left_out(instruction)) {
        if (open) open->last = open->last_launch;
        close();
        begin = i + 1;
        continue;
      }
      if (launches(instruction)) {
        if (!open) {
          // A call that blocks after the last launch of a step cuts nothing.
          for (std::string& reason : pending_cuts) note_cut(std::move(reason));
          pending_cuts.clear();
          open.emplace();
          open->begin = begin;
          open->first_launch = i;
          open->launching_thread.assign(in_.threads.size(), false);
          if (!origin_) origin_ = instruction.stream;
        }
        open->last_launch = i;
        open->launching_thread[order_[i].thread] = true;
        last_op = name_of(instruction);
        captured_streams_.insert(instruction.stream);
      }
      if (open) open->last = i;
    }
    close();
  }

  bool is_left_out(const Instruction& instruction) const {
    return instruction.call == Call::Launch &&
           std::binary_search(options_.ops_left_out.begin(), options_.ops_left_out.end(), instruction.object);
  }

  std::string name_of(const Instruction& instruction) const {
    const Index name = instruction.call == Call::Launch ? in_.info[instruction.object].name
                                                        : in_.graphs[instruction.object].name;
    return name == no_index ? std::string() : in_.names[name];
  }

  std::string cut_reason(std::size_t position, const std::string& last_op) const {
    const Instruction& instruction = at(position);
    std::string what;
    switch (instruction.call) {
      case Call::SynchronizeDevice:
        what = "synchronising the device";
        break;
      case Call::SynchronizeStream:
        what = fmt::format("synchronising stream '{}'", in_.streams[instruction.stream].name);
        break;
      case Call::SynchronizeEvent:
        what = fmt::format("synchronising event '{}'", in_.events[instruction.object]);
        break;
      default:
        what = fmt::format("blocking on '{}'", shortened(name_of(instruction)));
        break;
    }
    std::string reason = last_op.empty() ? what : fmt::format("{} after '{}'", what, shortened(last_op));
    if (in_.threads.size() > 1) reason += fmt::format(" ({})", in_.threads[order_[position].thread].name);
    return reason;
  }

  void note_cut(std::string reason) {
    const auto [known, added] = cut_index_.emplace(reason, result_.cuts.size());
    if (added) result_.cuts.push_back({std::move(reason), 0});
    ++result_.cuts[known->second].count;
  }

  /// Which events are waited for outside the recording that records them.
  void find_uses() {
    used_outside_.assign(in_.events.size(), false);
    std::set<Index> recorded;
    std::size_t stretch = 0;
    for (std::size_t i = 0; i < order_.size(); ++i) {
      while (stretch < stretches_.size() && stretches_[stretch].last < i) {
        ++stretch;
        recorded.clear();
      }
      const bool inside = stretch < stretches_.size() && i >= stretches_[stretch].begin && !kept(i);
      const Instruction& instruction = at(i);
      if (instruction.call == Call::SynchronizeEvent) used_outside_[instruction.object] = true;
      if (instruction.call == Call::Record && inside) recorded.insert(instruction.object);
      if (instruction.call == Call::LaunchGraph) {
        for (const engine::CudaGraph::Node& node : in_.graphs[instruction.object].nodes) {
          if (node.kind == NodeKind::Record && inside) recorded.insert(node.op);
          if (node.kind == NodeKind::Wait && (!inside || recorded.count(node.op) == 0))
            used_outside_[node.op] = true;
        }
      }
      if (instruction.call == Call::StreamWait && (!inside || recorded.count(instruction.object) == 0))
        used_outside_[instruction.object] = true;
    }
  }

  /// The op without a gap of its own, which was measured or stated for a stream.
  Index without_gap(Index op) {
    if (in_.ops[op].gap_before == engine::gap_from_table) return op;
    if (cleared_op_[op] == no_index) {
      engine::GpuOp cleared = in_.ops[op];
      cleared.gap_before = engine::gap_from_table;
      cleared_op_[op] = result_.program.add(cleared, in_.info[op]);
    }
    return cleared_op_[op];
  }

  void record(Stretch& stretch) {
    engine::CudaGraph graph;
    std::map<std::uint16_t, NodeSet> tail;  ///< By stream: what the next op of the stream waits for.
    std::map<Index, NodeSet> events;        ///< Recorded in this stretch.
    std::set<Index> external_waits;
    std::map<Index, Shown> external_records;  ///< The last record of each event.

    for (std::size_t i = stretch.begin; i <= stretch.last; ++i) {
      if (kept(i)) continue;
      const Instruction& instruction = at(i);
      const Index shown = in_.threads[order_[i].thread].name_of(order_[i].instruction);
      NodeSet& front = tail[instruction.stream];
      switch (instruction.call) {
        case Call::Launch:
          graph.nodes.push_back({without_gap(instruction.object), front, NodeKind::Op});
          front = {static_cast<Index>(graph.nodes.size() - 1)};
          break;
        case Call::LaunchGraph:
          take_apart(in_.graphs[instruction.object], graph, front, events);
          break;
        case Call::Record:
          events[instruction.object] = front;
          if (used_outside_[instruction.object]) external_records[instruction.object] = {instruction, shown};
          break;
        case Call::StreamWait: {
          const auto known = events.find(instruction.object);
          if (known != events.end()) {
            front = united(front, known->second);
          } else if (external_waits.insert(instruction.object).second) {
            stretch.before.push_back({instruction, shown});
            stretch.before.back().instruction.stream = *origin_;
          }
          break;
        }
        default:
          break;
      }
    }
    for (auto& [event, record] : external_records) {
      record.instruction.stream = *origin_;
      stretch.after.push_back(record);
    }
    if (graph.nodes.empty()) return;  // CUDA graphs of nothing but waits for what is recorded here.
    graph.name = name(stretches_.size() == 1 ? std::string("captured step")
                                             : fmt::format("captured part {}", result_.graphs + 1));
    result_.nodes += static_cast<std::int64_t>(graph.nodes.size());
    ++result_.graphs;
    stretch.graph = static_cast<Index>(result_.program.graphs.size());
    result_.program.graphs.push_back(std::move(graph));
  }

  void take_apart(const engine::CudaGraph& child, engine::CudaGraph& graph, NodeSet& front,
                  std::map<Index, NodeSet>& events) {
    if (child.nodes.empty()) return;
    // What stands for each node. A wait for an event of the same recording becomes edges.
    std::vector<NodeSet> stands_for(child.nodes.size());
    std::vector<bool> is_sink(child.nodes.size(), true);
    for (std::size_t i = 0; i < child.nodes.size(); ++i) {
      const engine::CudaGraph::Node& node = child.nodes[i];
      NodeSet after = node.after.empty() ? front : NodeSet();
      for (const Index earlier : node.after) {
        after = united(after, stands_for[earlier]);
        is_sink[earlier] = false;
      }
      if (node.kind == NodeKind::Wait) {
        if (const auto known = events.find(node.op); known != events.end()) {
          stands_for[i] = united(after, known->second);
          continue;
        }
      }
      stands_for[i] = {static_cast<Index>(graph.nodes.size())};
      if (node.kind == NodeKind::Record) events[node.op] = stands_for[i];
      graph.nodes.push_back({node.op, std::move(after), node.kind});
    }
    NodeSet last;
    for (std::size_t i = 0; i < is_sink.size(); ++i)
      if (is_sink[i]) last = united(last, stands_for[i]);
    front = std::move(last);
  }

  void emit(std::size_t position, const Stretch* stretch) {
    const InstructionPlace place = order_[position];
    engine::HostThread& out = result_.program.threads[place.thread];
    const Instruction& instruction = at(position);
    const Index shown = in_.threads[place.thread].name_of(place.instruction);
    if (kept(position)) {
      out.add(instruction, shown);
      return;
    }
    if (stretch == nullptr) {
      keep_outside(instruction, shown, out);
      return;
    }
    switch (instruction.call) {
      case Call::Launch:
      case Call::LaunchGraph:
        if (position == stretch->last_launch) launch(*stretch, out);
        return;
      case Call::Record:
      case Call::StreamWait:
        return;
      case Call::Work: {
        const bool between = position > stretch->first_launch && position < stretch->last_launch;
        if (stretch->launching_thread[place.thread] && (between || !options_.keep_surrounding_work)) return;
        break;
      }
      default:
        break;
    }
    out.add(instruction, shown);
  }

  /// Everything recorded runs in one stream now: what is not recorded has to find it there.
  void keep_outside(Instruction instruction, Index shown, engine::HostThread& out) {
    const bool moved =
        origin_ && instruction.stream != *origin_ && captured_streams_.count(instruction.stream) != 0;
    if (moved && instruction.call == Call::SynchronizeStream) instruction.stream = *origin_;
    if (moved && launches(instruction)) {
      if (!join_event_) {
        join_event_ = static_cast<Index>(result_.program.events.size());
        result_.program.events.emplace_back("captured work");
      }
      Instruction join;
      join.call = Call::Record;
      join.stream = *origin_;
      join.object = *join_event_;
      join.duration = options_.costs.event_call;
      join.latency = options_.costs.event_latency;
      out.add(join);
      join.call = Call::StreamWait;
      join.stream = instruction.stream;
      out.add(join);
    }
    out.add(instruction, shown);
  }

  void launch(const Stretch& stretch, engine::HostThread& out) {
    for (const auto& [instruction, shown] : stretch.before) out.add(instruction, shown);
    if (stretch.graph != no_index) replay(stretch.graph, out);
    for (const auto& [instruction, shown] : stretch.after) out.add(instruction, shown);
  }

  void replay(Index graph, engine::HostThread& out) {
    const auto nodes = static_cast<std::int64_t>(result_.program.graphs[graph].nodes.size());
    if (options_.costs.host_work > Picoseconds(0)) {
      Instruction work;
      work.duration = options_.costs.host_work;
      out.add(work, name("CUDA graph replay"));
    }
    Instruction launch;
    launch.call = Call::LaunchGraph;
    launch.stream = *origin_;
    launch.object = graph;
    launch.duration = options_.costs.call(nodes);
    launch.latency = options_.costs.latency(nodes);
    out.add(launch);
  }

  Index name(const std::string& text) {
    const auto [known, added] = new_names_.emplace(text, static_cast<Index>(result_.program.names.size()));
    if (added) result_.program.names.push_back(text);
    return known->second;
  }

  const engine::Program& in_;
  const CaptureOptions& options_;
  std::vector<InstructionPlace> order_;
  std::vector<bool> kept_thread_;
  std::set<InstructionPlace> step_starts_;
  std::vector<Stretch> stretches_;
  std::optional<std::uint16_t> origin_;
  std::set<std::uint16_t> captured_streams_;
  std::vector<bool> used_outside_;
  std::vector<Index> cleared_op_;
  std::optional<Index> join_event_;
  std::map<std::string, std::size_t> cut_index_;
  std::map<std::string, Index> new_names_;
  Captured result_;
};

}  // namespace

Captured capture(const engine::Program& program, const engine::Machine& machine,
                 const CaptureOptions& options) {
  if (program.threads.empty()) {
    Captured same;
    same.program = program;
    return same;
  }
  return Capture(program, machine, options).run();
}

}  // namespace gpusim
