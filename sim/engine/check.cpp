// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "sim/engine/program.hpp"

namespace gpusim::engine {

namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw ProgramError("program: " + what);
}

void check_duration(Picoseconds value, const std::string& of) {
  if (value < Picoseconds(0)) refuse(of + " is negative");
}

void check_index(Index index, std::size_t size, const std::string& what) {
  if (index >= size) refuse(what + " does not exist");
}

void check_distribution(const Distribution& distribution) {
  const std::string of = "distribution '" + distribution.name + "'";
  check_duration(distribution.a, of);
  check_duration(distribution.b, of);
  if (!(distribution.shape >= 0)) refuse(of + " has a negative shape");
  if (distribution.kind == Distribution::Kind::Uniform && distribution.b < distribution.a)
    refuse(of + " is empty");
  if (distribution.kind == Distribution::Kind::Choice && distribution.choices.empty())
    refuse(of + " is empty");
  for (const Picoseconds choice : distribution.choices) check_duration(choice, of);
}

void check_op(const Program& program, const GpuOp& op, Index index) {
  const std::string of = "op " + std::to_string(index);
  check_index(op.name, program.names.size(), of + "'s name");
  check_duration(op.duration, of + "'s duration");
  check_duration(op.min_period, of + "'s minimum period");
  check_duration(op.min_period_in_graph, of + "'s minimum period in a CUDA graph");
  if (op.distribution != no_index)
    check_index(op.distribution, program.distributions.size(), of + "'s distribution");
  if (op.gap_class >= gap_class_limit) refuse(of + "'s gap class is out of range");
}

void check_graph(const Program& program, const CudaGraph& graph, Index index) {
  const std::string of = "CUDA graph " + std::to_string(index);
  check_index(graph.name, program.names.size(), of + "'s name");
  if (graph.nodes.empty()) refuse(of + " has no nodes");
  for (Index i = 0; i < graph.nodes.size(); ++i) {
    check_index(graph.nodes[i].op, program.ops.size(), of + "'s node " + std::to_string(i));
    // Only earlier nodes: that is what keeps it free of cycles.
    for (const Index before : graph.nodes[i].after)
      if (before >= i) refuse(of + ": node " + std::to_string(i) + " waits for a node that is not before it");
  }
}

void check_instruction(const Program& program, const HostThread& thread, std::size_t at) {
  const Instruction& instruction = thread.instructions[at];
  const std::string of = "thread '" + thread.name + "', instruction " + std::to_string(at) + "'s ";
  check_duration(instruction.duration, of + "duration");
  check_duration(instruction.latency, of + "latency");
  check_duration(instruction.return_latency, of + "return latency");
  if (instruction.bytes < 0) refuse(of + "byte count is negative");
  if (instruction.name != no_index) check_index(instruction.name, program.names.size(), of + "name");
  const auto stream = [&] { check_index(instruction.stream, program.streams.size(), of + "stream"); };
  switch (instruction.call) {
    case Call::Work:
    case Call::Input:
    case Call::Allocate:
    case Call::Free:
      break;
    case Call::Launch:
      stream();
      check_index(instruction.object, program.ops.size(), of + "op");
      break;
    case Call::LaunchGraph:
      stream();
      check_index(instruction.object, program.graphs.size(), of + "CUDA graph");
      break;
    case Call::Record:
      stream();
      check_index(instruction.object, program.events.size(), of + "event");
      break;
    case Call::StreamWait:
      stream();
      check_index(instruction.object, program.events.size(), of + "event");
      if (instruction.attached) {
        const bool followed =
            std::any_of(thread.instructions.begin() + static_cast<std::ptrdiff_t>(at),
                        thread.instructions.end(), [&](const Instruction& later) {
                          return (later.call == Call::Launch || later.call == Call::LaunchGraph) &&
                                 later.stream == instruction.stream;
                        });
        if (!followed) refuse(of + "attached wait has no launch to ride on");
      }
      break;
    case Call::SynchronizeStream:
      stream();
      break;
    case Call::SynchronizeEvent:
      check_index(instruction.object, program.events.size(), of + "event");
      break;
    case Call::SynchronizeDevice:
      break;
    case Call::Signal:
    case Call::Await:
      check_index(instruction.object, program.signals.size(), of + "signal");
      break;
  }
}

}  // namespace

Index Program::intern(const std::string& text) {
  const auto found = std::find(names.begin(), names.end(), text);
  if (found != names.end()) return static_cast<Index>(found - names.begin());
  names.push_back(text);
  return static_cast<Index>(names.size() - 1);
}

void check(const Program& program, const Machine& machine) {
  if (machine.launch_queue_depth < 1) refuse("the launch queue depth is below 1");
  if (machine.graph_class >= gap_class_limit) refuse("the machine's CUDA-graph class is out of range");
  check_duration(machine.event_latency, "the machine's event latency");
  if (program.threads.empty()) refuse("no host thread");
  if (program.streams.size() > 0xffff || program.threads.size() > 0xffff)
    refuse("more than 65,535 streams or threads");
  for (const Stream& stream : program.streams)
    if (stream.device < 0 || stream.device > 0xffff)
      refuse("stream '" + stream.name + "' has a device out of range");
  for (const Distribution& distribution : program.distributions) check_distribution(distribution);
  for (Index i = 0; i < program.ops.size(); ++i) check_op(program, program.ops[i], i);
  for (Index i = 0; i < program.graphs.size(); ++i) check_graph(program, program.graphs[i], i);
  for (const HostThread& thread : program.threads)
    for (std::size_t i = 0; i < thread.instructions.size(); ++i) check_instruction(program, thread, i);
}

}  // namespace gpusim::engine
