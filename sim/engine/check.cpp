// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/check.hpp"

#include <algorithm>

namespace gpusim::engine {

namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw ProgramError("program: " + what);
}

/// `of` makes the words for whom they are about; only on failure, since programs can have millions of parts.
template <class Of>
void check_duration(Picoseconds value, const Of& of, const char* what) {
  if (value < Picoseconds(0)) refuse(of() + what + " is negative");
  if (value > time_max) throw TimeLimitError(of() + what + " is longer than 26 days (time_max)");
}

template <class Of>
void check_index(Index index, std::size_t size, const Of& of, const char* what) {
  if (index >= size) refuse(of() + what + " does not exist");
}

void check_distribution(const Distribution& distribution) {
  const auto of = [&] { return "distribution '" + distribution.name + "'"; };
  check_duration(distribution.a, of, "");
  check_duration(distribution.b, of, "");
  if (!(distribution.shape >= 0)) refuse(of() + " has a negative shape");
  if (distribution.kind == Distribution::Kind::Uniform && distribution.b < distribution.a)
    refuse(of() + " is empty");
  if (distribution.kind == Distribution::Kind::Choice && distribution.choices.empty())
    refuse(of() + " is empty");
  for (const Picoseconds choice : distribution.choices) check_duration(choice, of, "");
}

void check_op(const Program& program, Index index) {
  const GpuOp& op = program.ops[index];
  const OpInfo& info = program.info[index];
  const auto of = [&] { return "op " + std::to_string(index); };
  check_index(info.name, program.names.size(), of, "'s name");
  if (info.footprint != no_index) check_index(info.footprint, program.footprints.size(), of, "'s footprint");
  check_duration(op.duration, of, "'s duration");
  check_duration(op.min_period, of, "'s minimum period");
  check_duration(info.min_period_in_graph, of, "'s minimum period in a CUDA graph");
  if (op.distribution != no_index)
    check_index(op.distribution, program.distributions.size(), of, "'s distribution");
  if (op.gap_class >= gap_class_limit) refuse(of() + "'s gap class is out of range");
}

void check_nodes(const Program& program, const CudaGraph& graph, Index index) {
  const auto of = [&] { return "CUDA graph " + std::to_string(index); };
  check_index(graph.name, program.names.size(), of, "'s name");
  if (graph.nodes.empty()) refuse(of() + " has no nodes");
  for (Index i = 0; i < graph.nodes.size(); ++i) {
    const bool is_op = graph.nodes[i].kind == CudaGraph::NodeKind::Op;
    check_index(graph.nodes[i].op, is_op ? program.ops.size() : program.events.size(), of,
                is_op ? "'s node's op" : "'s node's event");
    // Only earlier nodes: that is what keeps it free of cycles.
    for (const Index before : graph.nodes[i].after)
      if (before >= i)
        refuse(of() + ": node " + std::to_string(i) + " waits for a node that is not before it");
  }
}

bool launch_follows(const HostThread& thread, std::size_t at) {
  const std::uint16_t stream = thread.instructions[at].stream;
  return std::any_of(thread.instructions.begin() + static_cast<std::ptrdiff_t>(at), thread.instructions.end(),
                     [&](const Instruction& later) {
                       return (later.call == Call::Launch || later.call == Call::LaunchGraph) &&
                              later.stream == stream;
                     });
}

void check_instruction(const Program& program, const HostThread& thread, std::size_t at) {
  const Instruction& instruction = thread.instructions[at];
  const auto of = [&] { return "thread '" + thread.name + "', instruction " + std::to_string(at) + "'s "; };
  check_duration(instruction.duration, of, "duration");
  check_duration(instruction.latency, of, "latency");
  check_duration(instruction.return_latency, of, "return latency");
  const auto stream = [&] { check_index(instruction.stream, program.streams.size(), of, "stream"); };
  const auto event = [&] { check_index(instruction.object, program.events.size(), of, "event"); };
  switch (instruction.call) {
    case Call::Work:
    case Call::Input:
    case Call::SynchronizeDevice:
      break;
    case Call::Allocate:
    case Call::Free:
      check_index(instruction.object, program.sizes.size(), of, "byte count");
      break;
    case Call::Launch:
      stream();
      check_index(instruction.object, program.ops.size(), of, "op");
      break;
    case Call::LaunchGraph:
      stream();
      check_index(instruction.object, program.graphs.size(), of, "CUDA graph");
      break;
    case Call::Record:
      stream();
      event();
      break;
    case Call::StreamWait:
      stream();
      event();
      if (instruction.attached && !launch_follows(thread, at))
        refuse(of() + "attached wait has no launch to ride on");
      break;
    case Call::SynchronizeStream:
      stream();
      break;
    case Call::SynchronizeEvent:
      event();
      break;
    case Call::Signal:
    case Call::Await:
      check_index(instruction.object, program.signals.size(), of, "signal");
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

Index Program::add(const GpuOp& op, const OpInfo& about) {
  ops.push_back(op);
  info.push_back(about);
  return static_cast<Index>(ops.size() - 1);
}

void check_tables(const Program& program, const Machine& machine) {
  if (machine.launch_queue_depth < 1) refuse("the launch queue depth is below 1");
  if (machine.graph_class >= gap_class_limit) refuse("the machine's CUDA-graph class is out of range");
  check_duration(
      machine.event_latency, [] { return std::string("the machine"); }, "'s event latency");
  if (program.threads.empty()) refuse("no host thread");
  if (program.streams.size() > 0xffff || program.threads.size() > 0xffff)
    refuse("more than 65,535 streams or threads");
  for (const Stream& stream : program.streams)
    if (stream.device < 0 || stream.device > 0xffff)
      refuse("stream '" + stream.name + "' has a device out of range");
  for (const Distribution& distribution : program.distributions) check_distribution(distribution);
  if (program.info.size() != program.ops.size()) refuse("ops and their information differ in number");
  for (Index i = 0; i < program.graphs.size(); ++i) check_nodes(program, program.graphs[i], i);
}

void check_graph(const Program& program, Index index) {
  for (const CudaGraph::Node& node : program.graphs[index].nodes)
    if (node.kind == CudaGraph::NodeKind::Op) check_op(program, node.op);
}

void check(const Program& program, const Machine& machine) {
  check_tables(program, machine);
  for (const std::int64_t size : program.sizes)
    if (size < 0) refuse("a byte count is negative");
  for (Index i = 0; i < program.ops.size(); ++i) check_op(program, i);
  for (const HostThread& thread : program.threads) {
    for (const Index name : thread.names)
      if (name != no_index)
        check_index(
            name, program.names.size(), [&] { return "thread '" + thread.name + "'"; }, "'s call's name");
    for (std::size_t i = 0; i < thread.instructions.size(); ++i) check_instruction(program, thread, i);
  }
}

}  // namespace gpusim::engine
