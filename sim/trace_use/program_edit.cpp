// SPDX-License-Identifier: Apache-2.0
#include "sim/trace_use/program_edit.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

namespace gpusim {
namespace {

using engine::Call;
using engine::HostThread;
using engine::Index;
using engine::Instruction;
using engine::no_index;

bool launches(const Instruction& i) {
  return i.call == Call::Launch || i.call == Call::LaunchGraph;
}

bool waits_for_device(const Instruction& i) {
  return i.call == Call::SynchronizeDevice || i.call == Call::SynchronizeStream ||
         i.call == Call::SynchronizeEvent;
}

/// Writes the threads of a program anew, instruction by instruction, and keeps the places of steps right.
/// `edit` gets a thread's index, the instruction and the thread written so far, and appends what shall stand
/// there.
void rewrite(
    BuiltProgram& built,
    const std::function<void(std::uint16_t thread, Index at, const HostThread& old, HostThread& out)>& edit) {
  for (std::size_t t = 0; t < built.program.threads.size(); ++t) {
    HostThread old;
    std::swap(old, built.program.threads[t]);
    HostThread& out = built.program.threads[t];
    out.name = old.name;
    std::vector<Index> moved(old.instructions.size() + 1);
    for (Index i = 0; i < old.instructions.size(); ++i) {
      moved[i] = static_cast<Index>(out.instructions.size());
      edit(static_cast<std::uint16_t>(t), i, old, out);
    }
    moved[old.instructions.size()] = static_cast<Index>(out.instructions.size());
    for (InstructionPlace& place : built.step_starts)
      if (place.thread == t && place.instruction < moved.size()) place.instruction = moved[place.instruction];
  }
}

}  // namespace

void join_kernels(EditedReplay& replay, const std::vector<FusedGroup>& groups) {
  engine::Program& program = replay.built.program;
  std::set<Index> vanished;
  for (const FusedGroup& group : groups) {
    const Index first = replay.op_of[group.members.front()];
    engine::GpuOp& op = program.ops[first];
    op.duration = group.together;
    program.info[first].name = static_cast<Index>(program.names.size());
    program.names.push_back(group.name);
    for (std::size_t k = 1; k < group.members.size(); ++k) {
      vanished.insert(replay.op_of[group.members[k]]);
      replay.op_of[group.members[k]] = no_index;
    }
  }
  const std::vector<InstructionPlace> starts = replay.built.step_starts;
  rewrite(replay.built, [&](std::uint16_t thread, Index at, const HostThread& old, HostThread& out) {
    const Instruction& i = old.instructions[at];
    if (i.call == Call::Launch && vanished.count(i.object) != 0) return;
    if (i.call == Call::Work && at + 1 < old.instructions.size()) {
      const Instruction& next = old.instructions[at + 1];
      const bool starts_step =
          std::find(starts.begin(), starts.end(), InstructionPlace{thread, at}) != starts.end();
      if (!starts_step && next.call == Call::Launch && vanished.count(next.object) != 0) return;
    }
    out.add(i, old.name_of(at));
  });
}

void compile_host(EditedReplay& replay, const CompiledHost& costs) {
  const std::vector<InstructionPlace> starts = replay.built.step_starts;
  // What each region launches: found before anything is written.
  std::map<InstructionPlace, std::vector<Index>> regions;  ///< By the place of the first launch.
  for (std::size_t t = 0; t < replay.built.program.threads.size(); ++t) {
    const HostThread& thread = replay.built.program.threads[t];
    std::vector<Index>* region = nullptr;
    Index before = no_index;
    for (Index at = 0; at < thread.instructions.size(); ++at) {
      const Instruction& i = thread.instructions[at];
      if (waits_for_device(i) || i.call == Call::LaunchGraph) region = nullptr;
      if (i.call != Call::Launch) continue;
      if (!costs.compiled(i.object)) {
        region = nullptr;
        continue;
      }
      if (region != nullptr && costs.new_step(before, i.object)) region = nullptr;
      if (region == nullptr) region = &regions[{static_cast<std::uint16_t>(t), at}];
      region->push_back(i.object);
      before = i.object;
    }
  }
  const auto next_launch = [](const HostThread& thread, Index at) {
    while (at < thread.instructions.size() && thread.instructions[at].call != Call::Launch &&
           !waits_for_device(thread.instructions[at]) && thread.instructions[at].call != Call::Signal &&
           thread.instructions[at].call != Call::LaunchGraph)
      ++at;
    return at;
  };
  rewrite(replay.built, [&](std::uint16_t thread, Index at, const HostThread& old, HostThread& out) {
    const Instruction& i = old.instructions[at];
    if (i.call == Call::Work) {
      const Index next = next_launch(old, at);
      const bool before_compiled = next < old.instructions.size() &&
                                   old.instructions[next].call == Call::Launch &&
                                   costs.compiled(old.instructions[next].object);
      if (before_compiled) {
        Instruction kept = i;
        kept.duration = std::min(i.duration, costs.kept(old.instructions[next].object));
        if (kept.duration > Picoseconds(0)) out.add(kept, old.name_of(at));
        return;
      }
    }
    if (i.call == Call::Launch && costs.compiled(i.object)) {
      Picoseconds time = costs.kernel(i.object);
      const auto region = regions.find({thread, at});
      if (region != regions.end()) time += costs.region(region->second, thread != 0);
      if (time > Picoseconds(0)) out.add({.call = Call::Work, .duration = time});
    }
    out.add(i, old.name_of(at));
  });
}

std::int64_t remove_synchronizations(EditedReplay& replay) {
  // Across threads the last launch is that of the thread that launches last; each thread keeps its own tail.
  std::int64_t removed = 0;
  std::vector<Index> last(replay.built.program.threads.size(), 0);
  for (std::size_t t = 0; t < last.size(); ++t) {
    const HostThread& thread = replay.built.program.threads[t];
    for (Index at = 0; at < thread.instructions.size(); ++at)
      if (launches(thread.instructions[at])) last[t] = at;
  }
  rewrite(replay.built, [&](std::uint16_t thread, Index at, const HostThread& old, HostThread& out) {
    Instruction i = old.instructions[at];
    if (waits_for_device(i) && at < last[thread]) {
      ++removed;
      return;
    }
    if (launches(i) && i.blocking) {
      i.blocking = false;
      i.return_latency = Picoseconds(0);
      ++removed;
    }
    out.add(i, old.name_of(at));
  });
  return removed;
}

void scale_host(EditedReplay& replay, double factor) {
  const auto times = [factor](Picoseconds time) {
    return Picoseconds(std::llround(static_cast<double>(time.count()) * factor));
  };
  for (std::size_t t = 0; t < replay.built.program.threads.size(); ++t) {
    const std::vector<std::uint16_t>& kept = replay.built.threads_kept;
    if (std::find(kept.begin(), kept.end(), t) != kept.end()) continue;
    for (Instruction& i : replay.built.program.threads[t].instructions) {
      const Picoseconds after = i.latency - std::min(i.latency, i.duration);
      const Picoseconds within = i.latency - after;
      i.latency = times(within) + after;
      i.duration = times(i.duration);
    }
  }
}

}  // namespace gpusim
