// SPDX-License-Identifier: Apache-2.0
// Programs written by hand in tests, short enough to check by eye.
#pragma once

#include <string>

#include "sim/engine/engine.hpp"

namespace gpusim::test {

inline Picoseconds us(double value) {
  return Picoseconds(static_cast<std::int64_t>(value * 1e6 + (value < 0 ? -0.5 : 0.5)));
}

class ProgramBuilder {
 public:
  explicit ProgramBuilder(int threads = 1, int streams = 1) {
    for (int i = 0; i < threads; ++i) program.threads.push_back({"thread" + std::to_string(i), {}, {}});
    for (int i = 0; i < streams; ++i) program.streams.push_back({std::to_string(i), 0});
  }

  engine::Program program;
  std::size_t thread = 0;  ///< The one that instructions go to.

  engine::Index op(const std::string& name, Picoseconds duration, engine::GapClass gap_class = 0) {
    engine::GpuOp op;
    op.duration = duration;
    op.gap_class = gap_class;
    return program.add(op, {.name = program.intern(name)});
  }
  engine::Index event(const std::string& name) {
    program.events.push_back(name);
    return static_cast<engine::Index>(program.events.size() - 1);
  }
  engine::Index signal(const std::string& name) {
    program.signals.push_back(name);
    return static_cast<engine::Index>(program.signals.size() - 1);
  }

  engine::Instruction& add(engine::Instruction instruction) {
    auto& instructions = program.threads[thread].instructions;
    instructions.push_back(instruction);
    return instructions.back();
  }
  engine::Instruction& work(Picoseconds duration) {
    return add({.call = engine::Call::Work, .duration = duration});
  }
  engine::Instruction& input(Picoseconds duration) {
    return add({.call = engine::Call::Input, .duration = duration});
  }
  /// Launch whose latency is the call's own duration unless given.
  engine::Instruction& launch(engine::Index op, Picoseconds call, std::uint16_t stream = 0) {
    return add(
        {.call = engine::Call::Launch, .stream = stream, .object = op, .duration = call, .latency = call});
  }
  engine::Instruction& launch(engine::Index op, Picoseconds call, Picoseconds latency, std::uint16_t stream) {
    return add(
        {.call = engine::Call::Launch, .stream = stream, .object = op, .duration = call, .latency = latency});
  }
  engine::Instruction& launch_graph(engine::Index graph, Picoseconds call, std::uint16_t stream = 0) {
    return add({.call = engine::Call::LaunchGraph,
                .stream = stream,
                .object = graph,
                .duration = call,
                .latency = call});
  }
  engine::Instruction& record(engine::Index event, std::uint16_t stream) {
    return add({.call = engine::Call::Record, .stream = stream, .object = event});
  }
  engine::Instruction& wait(engine::Index event, std::uint16_t stream, bool attached = false) {
    return add({.call = engine::Call::StreamWait, .attached = attached, .stream = stream, .object = event});
  }
  engine::Instruction& synchronize_stream(std::uint16_t stream) {
    return add({.call = engine::Call::SynchronizeStream, .stream = stream});
  }
  engine::Instruction& synchronize_device() {
    return add({.call = engine::Call::SynchronizeDevice, .object = 0});
  }
  engine::Instruction& synchronize_event(engine::Index event) {
    return add({.call = engine::Call::SynchronizeEvent, .object = event});
  }
  engine::Instruction& signal_to(engine::Index signal) {
    return add({.call = engine::Call::Signal, .object = signal});
  }
  engine::Instruction& await(engine::Index signal) {
    return add({.call = engine::Call::Await, .object = signal});
  }
};

}  // namespace gpusim::test
