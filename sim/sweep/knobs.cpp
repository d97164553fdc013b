// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/knobs.hpp"

#include <algorithm>
#include <utility>

namespace gpusim::sweep {
namespace {

using engine::GpuOp;
using engine::Index;
using engine::Instruction;
using engine::Machine;
using engine::OpInfo;
using engine::Program;

/// More than this many times are not kept: about 2 GB.
constexpr std::size_t times_max = 50'000'000;

bool same_gaps(const Machine& a, const Machine& b) {
  return std::equal(&a.gap[0][0], &a.gap[0][0] + engine::gap_class_limit * engine::gap_class_limit,
                    &b.gap[0][0]) &&
         std::equal(&a.graph_gap[0][0],
                    &a.graph_gap[0][0] + engine::gap_class_limit * engine::gap_class_limit,
                    &b.graph_gap[0][0]);
}

bool same_sharing(const engine::SharingMachine& a, const engine::SharingMachine& b) {
  return a.sms == b.sms && a.threads_per_sm == b.threads_per_sm && a.registers_per_sm == b.registers_per_sm &&
         a.shared_memory_per_sm == b.shared_memory_per_sm && a.blocks_per_sm == b.blocks_per_sm &&
         a.bandwidth_top == b.bandwidth_top && a.bandwidth_per_sm == b.bandwidth_per_sm &&
         a.long_block == b.long_block;
}

bool same_machine(const Machine& a, const Machine& b) {
  return a.launch_queue_depth == b.launch_queue_depth && a.graph_class == b.graph_class &&
         a.event_latency == b.event_latency && same_gaps(a, b) && same_sharing(a.sharing, b.sharing);
}

bool same_but_times(const Instruction& a, const Instruction& b) {
  return a.call == b.call && a.blocking == b.blocking && a.attached == b.attached && a.stream == b.stream &&
         a.object == b.object;
}

bool same_but_times(const GpuOp& a, const GpuOp& b) {
  return a.distribution == b.distribution && a.kind == b.kind && a.copy_engine == b.copy_engine &&
         a.peer == b.peer;
}

bool same_graph(const engine::CudaGraph& a, const engine::CudaGraph& b) {
  return std::equal(
      a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(),
      [](const auto& x, const auto& y) { return x.op == y.op && x.after == y.after && x.kind == y.kind; });
}

bool same_distribution(const engine::Distribution& a, const engine::Distribution& b) {
  return a.kind == b.kind && a.a == b.a && a.b == b.b && a.shape == b.shape && a.choices == b.choices;
}

/// Whether the programs differ in nothing but times, names and footprints.
bool same_structure(const Program& a, const Program& b) {
  if (a.ops.size() != b.ops.size() || a.info.size() != b.info.size() || a.events.size() != b.events.size() ||
      a.signals.size() != b.signals.size() || a.sizes != b.sizes || a.seed != b.seed ||
      a.threads.size() != b.threads.size() || a.footprints.size() != b.footprints.size())
    return false;
  for (std::size_t i = 0; i < a.ops.size(); ++i)
    if (!same_but_times(a.ops[i], b.ops[i]) || a.info[i].footprint != b.info[i].footprint) return false;
  for (std::size_t t = 0; t < a.threads.size(); ++t) {
    const auto& x = a.threads[t].instructions;
    const auto& y = b.threads[t].instructions;
    if (x.size() != y.size()) return false;
    for (std::size_t i = 0; i < x.size(); ++i)
      if (!same_but_times(x[i], y[i])) return false;
  }
  return std::equal(a.graphs.begin(), a.graphs.end(), b.graphs.begin(), b.graphs.end(), same_graph) &&
         std::equal(a.distributions.begin(), a.distributions.end(), b.distributions.begin(),
                    b.distributions.end(), same_distribution) &&
         std::equal(a.streams.begin(), a.streams.end(), b.streams.begin(), b.streams.end(),
                    [](const auto& x, const auto& y) { return x.device == y.device; });
}

}  // namespace

Knobs::CallTimes Knobs::times_of(const Instruction& instruction) {
  return {instruction.duration, instruction.latency, instruction.return_latency};
}

Knobs::OpTimes Knobs::times_of(const Program& program, std::size_t i) {
  const GpuOp& op = program.ops[i];
  return {op.duration, op.min_period, op.gap_before, program.info[i].min_period_in_graph, op.gap_class};
}

bool same_times(const Built& a, const Built& b) {
  if (!same_structure(a.program, b.program) || !same_machine(a.machine, b.machine) ||
      a.program.footprints != b.program.footprints)
    return false;
  for (std::size_t i = 0; i < a.program.ops.size(); ++i) {
    const GpuOp& x = a.program.ops[i];
    const GpuOp& y = b.program.ops[i];
    if (x.duration != y.duration || x.min_period != y.min_period || x.gap_before != y.gap_before ||
        x.gap_class != y.gap_class ||
        a.program.info[i].min_period_in_graph != b.program.info[i].min_period_in_graph)
      return false;
  }
  for (std::size_t t = 0; t < a.program.threads.size(); ++t)
    if (!std::equal(a.program.threads[t].instructions.begin(), a.program.threads[t].instructions.end(),
                    b.program.threads[t].instructions.begin(),
                    [](const Instruction& x, const Instruction& y) {
                      return x.duration == y.duration && x.latency == y.latency &&
                             x.return_latency == y.return_latency;
                    }))
      return false;
  return true;
}

Knobs::Knobs(Built base, std::span<const std::uint32_t> values, std::span<const std::uint32_t> base_at)
    : base_(std::move(base)), base_at_(base_at.begin(), base_at.end()) {
  std::uint32_t instructions = 0;
  for (const engine::HostThread& thread : base_.program.threads) {
    first_of_thread_.push_back(instructions);
    instructions += static_cast<std::uint32_t>(thread.instructions.size());
  }
  const auto all = [](std::size_t count) {
    std::vector<std::uint32_t> members(count);
    for (std::size_t i = 0; i < count; ++i) members[i] = static_cast<std::uint32_t>(i);
    return members;
  };
  for (const std::uint32_t count : values) {
    Axis& axis = axes_.emplace_back();
    axis.calls.push_back({all(instructions), {}});
    axis.ops.push_back({all(base_.program.ops.size()), {}});
    axis.call_changes.resize(instructions);
    axis.op_changes.resize(base_.program.ops.size());
    axis.known.reserve(count);
  }
}

template <class ProgramType>
auto& Knobs::instruction(ProgramType& program, std::uint32_t number) const {
  const auto thread = std::upper_bound(first_of_thread_.begin(), first_of_thread_.end(), number) - 1;
  return program.threads[static_cast<std::size_t>(thread - first_of_thread_.begin())]
      .instructions[number - *thread];
}

/// Splits each group into those that have the same times at the next value too, and notes these.
template <class Times, class TimesOf>
void Knobs::refine(std::vector<Group<Times>>& groups, const TimesOf& times_of_member) {
  const std::size_t before = groups.size();
  for (std::size_t g = 0; g < before; ++g) {
    if (groups[g].members.empty()) {
      groups[g].at.emplace_back();
      continue;
    }
    const std::vector<std::uint32_t> members = std::move(groups[g].members);
    groups[g].members.clear();
    const std::vector<Times> so_far = groups[g].at;
    std::vector<std::size_t> parts;  // Groups that this one falls into.
    for (const std::uint32_t member : members) {
      const Times times = times_of_member(member);
      const auto part = std::find_if(parts.begin(), parts.end(),
                                     [&](std::size_t p) { return groups[p].at.back() == times; });
      if (part != parts.end()) {
        groups[*part].members.push_back(member);
        continue;
      }
      std::size_t place = g;
      if (!parts.empty()) {
        place = groups.size();
        groups.push_back({{}, so_far});
      }
      groups[place].at.push_back(times);
      groups[place].members.push_back(member);
      parts.push_back(place);
    }
  }
}

bool Knobs::add(std::size_t a, std::uint32_t value, const Built& built) {
  Axis& axis = axes_[a];
  const Program& program = built.program;
  if (!same_structure(base_.program, program)) return false;
  if (axis.known.size() != value) return false;
  axis.known.push_back(true);
  refine(axis.calls, [&](std::uint32_t member) {
    const CallTimes times = times_of(instruction(program, member));
    if (times != times_of(instruction(base_.program, member))) axis.call_changes[member] = true;
    return times;
  });
  refine(axis.ops, [&](std::uint32_t member) {
    const OpTimes times = times_of(program, member);
    if (times != times_of(base_.program, member)) axis.op_changes[member] = true;
    return times;
  });
  axis.machine_changes = axis.machine_changes || !same_machine(built.machine, base_.machine);
  axis.machines.push_back(built.machine);
  axis.footprints_change = axis.footprints_change || program.footprints != base_.program.footprints;
  axis.footprints.push_back(program.footprints);
  const auto kept = [&](const auto& groups) { return groups.size() * (value + 1); };
  return kept(axis.calls) + kept(axis.ops) < times_max &&
         axis.footprints.size() * program.footprints.size() < times_max;
}

void Knobs::add_broken(std::size_t a, std::uint32_t value) {
  Axis& axis = axes_[a];
  axis.known.resize(value + 1, false);
  for (auto& group : axis.calls) group.at.emplace_back();
  for (auto& group : axis.ops) group.at.emplace_back();
  axis.machines.push_back(base_.machine);
  axis.footprints.push_back(base_.program.footprints);
}

/// Takes out what never changes. Gives how many times are left.
template <class Times>
std::size_t Knobs::prune(std::vector<Group<Times>>& groups, const std::vector<bool>& changes) {
  std::size_t left = 0;
  for (Group<Times>& group : groups) {
    std::erase_if(group.members, [&](std::uint32_t member) { return !changes[member]; });
    if (!group.members.empty()) left += group.at.size();
  }
  std::erase_if(groups, [](const Group<Times>& group) { return group.members.empty(); });
  return left;
}

bool Knobs::finish() {
  std::vector<bool> call_taken(axes_.empty() ? 0 : axes_.front().call_changes.size());
  std::vector<bool> op_taken(axes_.empty() ? 0 : axes_.front().op_changes.size());
  bool machine_taken = false;
  bool footprints_taken = false;
  const auto take = [](std::vector<bool>& taken, const std::vector<bool>& changes) {
    for (std::size_t i = 0; i < changes.size(); ++i) {
      if (!changes[i]) continue;
      if (taken[i]) return false;
      taken[i] = true;
    }
    return true;
  };
  for (Axis& axis : axes_) {
    prune(axis.calls, axis.call_changes);
    prune(axis.ops, axis.op_changes);
    if (!axis.machine_changes) axis.machines.clear();
    if (!axis.footprints_change) axis.footprints.clear();
    if (!take(call_taken, axis.call_changes) || !take(op_taken, axis.op_changes)) return false;
    if ((axis.machine_changes && machine_taken) || (axis.footprints_change && footprints_taken)) return false;
    machine_taken = machine_taken || axis.machine_changes;
    footprints_taken = footprints_taken || axis.footprints_change;
  }
  return true;
}

bool Knobs::known(std::span<const std::uint32_t> at) const {
  for (std::size_t axis = 0; axis < axes_.size(); ++axis)
    if (!axes_[axis].known[at[axis]]) return false;
  return true;
}

void Knobs::apply(Built& built, std::size_t a, std::uint32_t value) const {
  const Axis& axis = axes_[a];
  Program& program = built.program;
  const bool one_thread = program.threads.size() == 1;
  for (const Group<CallTimes>& group : axis.calls) {
    const CallTimes& times = group.at[value];
    const auto write = [&](Instruction& in) {
      in.duration = times.duration;
      in.latency = times.latency;
      in.return_latency = times.return_latency;
    };
    if (one_thread) {
      Instruction* const first = program.threads.front().instructions.data();
      for (const std::uint32_t member : group.members) write(first[member]);
    } else {
      for (const std::uint32_t member : group.members) write(instruction(program, member));
    }
  }
  for (const Group<OpTimes>& group : axis.ops) {
    const OpTimes& times = group.at[value];
    for (const std::uint32_t member : group.members) {
      GpuOp& op = program.ops[member];
      op.duration = times.duration;
      op.min_period = times.min_period;
      op.gap_before = times.gap_before;
      op.gap_class = times.gap_class;
      program.info[member].min_period_in_graph = times.min_period_in_graph;
    }
  }
  if (!axis.machines.empty()) built.machine = axis.machines[value];
  if (!axis.footprints.empty()) program.footprints = axis.footprints[value];
}

const Built& Knobs::Setting::set(std::span<const std::uint32_t> at) {
  for (std::size_t axis = 0; axis < at_.size(); ++axis) {
    if (at_[axis] == at[axis]) continue;
    at_[axis] = at[axis];
    knobs_->apply(built_, axis, at[axis]);
  }
  return built_;
}

}  // namespace gpusim::sweep
