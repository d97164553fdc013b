// SPDX-License-Identifier: Apache-2.0
// Small programs for the engine and the ideal machine of the exercises: a launch arrives when its call
// returns, kernels follow each other without a gap, and the queue is longer than any step here. Nothing here
// computes a result.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "models/units/quantity.hpp"
#include "sim/engine/engine.hpp"

namespace gpusim::test {

using namespace gpusim::literals;
using Durations = std::vector<Picoseconds>;

inline Durations repeated(std::int64_t n, Picoseconds duration) {
  return Durations(static_cast<std::size_t>(n), duration);
}

inline Durations cycled(std::initializer_list<std::int64_t> microseconds_list, int times) {
  Durations result;
  for (int i = 0; i < times; ++i) {
    for (const std::int64_t us : microseconds_list) result.push_back(us * 1_us);
  }
  return result;
}

inline engine::Machine ideal_machine() {
  return {};
}

/// Builds the instruction list of one host thread on one stream.
class ProgramBuilder {
 public:
  ProgramBuilder() {
    program_.streams.push_back({.name = "default", .device = 0});
    program_.threads.push_back({.name = "main", .instructions = {}, .names = {}});
    program_.events.emplace_back("event");
  }

  engine::Index op(Picoseconds duration, engine::OpKind kind = engine::OpKind::Kernel) {
    engine::GpuOp op;
    op.duration = duration;
    op.kind = kind;
    return program_.add(op, {.name = program_.intern("op")});
  }

  ProgramBuilder& launch(Picoseconds duration, Picoseconds call) {
    engine::Instruction i;
    i.call = engine::Call::Launch;
    i.object = op(duration);
    i.duration = call;
    i.latency = call;
    return add(i);
  }

  ProgramBuilder& launch_all(const Durations& durations, Picoseconds call) {
    for (const Picoseconds duration : durations) launch(duration, call);
    return *this;
  }

  /// The kernels as one CUDA graph, one after the other.
  ProgramBuilder& launch_graph(const Durations& durations, Picoseconds call) {
    engine::CudaGraph graph;
    graph.name = program_.intern("graph");
    for (const Picoseconds duration : durations) {
      engine::CudaGraph::Node node;
      node.op = op(duration);
      if (!graph.nodes.empty()) node.after.push_back(static_cast<engine::Index>(graph.nodes.size() - 1));
      graph.nodes.push_back(std::move(node));
    }
    program_.graphs.push_back(std::move(graph));
    engine::Instruction i;
    i.call = engine::Call::LaunchGraph;
    i.object = static_cast<engine::Index>(program_.graphs.size() - 1);
    i.duration = call;
    i.latency = call;
    return add(i);
  }

  ProgramBuilder& work(Picoseconds duration) {
    engine::Instruction i;
    i.call = engine::Call::Work;
    i.duration = duration;
    return add(i);
  }

  ProgramBuilder& input(Picoseconds duration) {
    engine::Instruction i;
    i.call = engine::Call::Input;
    i.duration = duration;
    return add(i);
  }

  ProgramBuilder& synchronize() {
    engine::Instruction i;
    i.call = engine::Call::SynchronizeDevice;
    i.object = 0;
    return add(i);
  }

  /// Durations drawn anew at each execution.
  ProgramBuilder& launch_random(engine::Distribution distribution, Picoseconds call) {
    program_.distributions.push_back(std::move(distribution));
    launch(0_us, call);
    program_.ops.back().distribution = static_cast<engine::Index>(program_.distributions.size() - 1);
    return *this;
  }

  engine::Program& program() { return program_; }
  operator const engine::Program&() const { return program_; }

 private:
  ProgramBuilder& add(const engine::Instruction& instruction) {
    program_.threads.front().instructions.push_back(instruction);
    return *this;
  }

  engine::Program program_;
};

inline engine::Program eager_program(const Durations& durations, Picoseconds launch) {
  return ProgramBuilder().launch_all(durations, launch);
}

inline engine::Program graph_program(const Durations& durations, Picoseconds graph_launch) {
  return ProgramBuilder().launch_graph(durations, graph_launch);
}

inline double utilization(const engine::Totals& totals) {
  return totals.wall.count() == 0
             ? 0
             : static_cast<double>(totals.busy.count()) / static_cast<double>(totals.wall.count());
}

inline Picoseconds idle(const engine::Totals& totals, engine::IdleCause cause) {
  return totals.idle[static_cast<std::size_t>(cause)];
}

/// "stated, within": the tolerance that the note of the figure gives.
struct Stated {
  double value;
  double within;
};

inline bool reproduces(double recomputed, Stated stated) {
  return recomputed >= stated.value - stated.within && recomputed <= stated.value + stated.within;
}

}  // namespace gpusim::test
