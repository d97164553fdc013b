// SPDX-License-Identifier: Apache-2.0
// The launch workloads on which event engines are compared.
//   launch queue (lq): one host thread launches kernels of 1 to 5 us into one stream; a launch takes `call`
//   of
//     CPU time.
//   two streams (2s): kernel i goes to stream i mod 2; every kernel with i mod 10 == 9 waits, once its stream
//     takes it, for the end of kernel i-1 on the other stream.
//   sharing and graphs (sg): CUDA graphs of two branches on stream 0 and kernels on stream 1 share the SMs
//   and
//     the memory of an H200; see sharing_graphs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "sim/engine/engine.hpp"

namespace gpusim::bench {

/// 1000 to 5000 ns from a 64-bit linear congruential generator.
inline std::vector<std::int64_t> kernel_durations_ns(std::int64_t n) {
  std::vector<std::int64_t> durations(static_cast<std::size_t>(n));
  std::uint64_t x = 12345;
  for (std::int64_t& duration : durations) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    duration = 1000 + static_cast<std::int64_t>((x >> 33) % 4001);
  }
  return durations;
}

inline engine::Program launches(std::int64_t n, Picoseconds call, bool two) {
  using namespace engine;
  Program program;
  program.names = {"kernel"};
  program.streams = {{"0", 0}};
  if (two) program.streams.push_back({"1", 0});
  program.events = {"previous kernel"};
  program.threads = {{"main", {}, {}}};
  const std::vector<std::int64_t> durations = kernel_durations_ns(n);
  program.ops.reserve(durations.size());
  program.info.reserve(durations.size());
  program.threads[0].instructions.reserve(durations.size() + durations.size() / 5);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto stream = static_cast<std::uint16_t>(two ? i % 2 : 0);
    LargeVector<Instruction>& out = program.threads[0].instructions;
    if (two && i % 10 == 9)
      out.push_back({.call = Call::StreamWait, .attached = true, .stream = stream, .object = 0});
    GpuOp op;
    op.duration = Picoseconds(durations[static_cast<std::size_t>(i)] * 1000);
    program.add(op, {.name = 0});
    out.push_back({.call = Call::Launch,
                   .stream = stream,
                   .object = static_cast<Index>(i),
                   .duration = call,
                   .latency = call});
    if (two && i % 10 == 8) out.push_back({.call = Call::Record, .stream = stream, .object = 0});
  }
  return program;
}

inline engine::Program launch_queue(std::int64_t n, Picoseconds call) {
  return launches(n, call, false);
}
inline engine::Program two_streams(std::int64_t n, Picoseconds call) {
  return launches(n, call, true);
}

/// Numbers of the same generator.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : x_(seed) {}
  std::int64_t between(std::int64_t least, std::int64_t most) {
    x_ = x_ * 6364136223846793005u + 1442695040888963407u;
    return least + static_cast<std::int64_t>((x_ >> 33) % static_cast<std::uint64_t>(most - least + 1));
  }

 private:
  std::uint64_t x_;
};

/// Adds a kernel of `least` to `most` us. Bound by memory: it draws `bandwidth` bytes per second; else it has
/// no memory traffic and takes 30 to 100 % of the issue slots of its SMs.
struct KernelShape {
  std::int64_t least = 2;
  std::int64_t most = 20;
  std::int64_t blocks = 132;
  double bandwidth = 0;
};
inline engine::Index add_kernel(engine::Program& program, Numbers& numbers, const KernelShape& shape) {
  const std::int64_t duration = numbers.between(shape.least * 1'000'000, shape.most * 1'000'000);  // ps
  engine::Footprint footprint;
  footprint.blocks = shape.blocks;
  footprint.threads_per_block = static_cast<std::int32_t>(128 * numbers.between(1, 4));
  if (shape.bandwidth > 0)
    footprint.bytes = static_cast<std::int64_t>(shape.bandwidth * static_cast<double>(duration) * 1e-12);
  else
    footprint.arithmetic = static_cast<double>(numbers.between(30, 100)) / 100;
  program.footprints.push_back(footprint);
  engine::GpuOp op;
  op.duration = Picoseconds(duration);
  return program.add(op, {.name = 0, .footprint = static_cast<engine::Index>(program.footprints.size() - 1)});
}

/// A CUDA graph of `count` nodes in two branches: fork after the first, join at the last.
inline engine::CudaGraph forked_graph(engine::Program& program, Numbers& numbers, engine::Index count) {
  engine::CudaGraph graph{.name = 1, .nodes = {}};
  for (engine::Index i = 0; i < count; ++i) {
    KernelShape shape{.blocks = numbers.between(16, 264)};
    // At most what so many SMs can ask for.
    if (numbers.between(0, 1) == 1)
      shape.bandwidth = 25e9 * static_cast<double>(std::min<std::int64_t>(shape.blocks, 132));
    engine::CudaGraph::Node node{.op = add_kernel(program, numbers, shape), .after = {}};
    if (i == count - 1 && i > 2)
      node.after = {i - 2, i - 1};
    else if (i > 0)
      node.after = {i > 2 ? i - 2 : 0};
    graph.nodes.push_back(std::move(node));
  }
  return graph;
}

/// Machine of `sg`: an H200 with gaps of 1.1 us in streams and 0.5 us in CUDA graphs.
inline engine::Machine sharing_machine() {
  engine::Machine machine;
  machine.launch_queue_depth = 1024;
  for (auto& row : machine.gap) std::fill(std::begin(row), std::end(row), Picoseconds(1'100'000));
  for (auto& row : machine.graph_gap) std::fill(std::begin(row), std::end(row), Picoseconds(500'000));
  machine.sharing.sms = 132;
  machine.sharing.bandwidth_top = 4250e9;
  machine.sharing.bandwidth_per_sm = 100e9;
  return machine;
}

/// `n` kernels in rounds of 20: one of eight CUDA graphs of 16 nodes (kernels of 2 to 20 us) into stream 0,
/// an event recorded after it, and four kernels of 5 to 30 us into stream 1, the last of which waits for that
/// event. Half of those kernels are bound by memory on all SMs, half are small. What is left of `n` goes to
/// stream 1. A launch takes `call` and arrives 1 us after its end.
inline engine::Program sharing_graphs(std::int64_t n, Picoseconds call) {
  using namespace engine;
  constexpr Index nodes = 16;
  constexpr std::int64_t beside = 4;
  Program program;
  program.names = {"kernel", "graph"};
  program.streams = {{"0", 0}, {"1", 0}};
  program.events = {"previous graph"};
  program.threads = {{"main", {}, {}}};
  Numbers numbers(12345);
  for (int i = 0; i < 8; ++i) program.graphs.push_back(forked_graph(program, numbers, nodes));
  LargeVector<Instruction>& out = program.threads[0].instructions;
  Instruction launch{.call = Call::LaunchGraph, .duration = call, .latency = call + Picoseconds(1'000'000)};
  std::int64_t kernels = 0;
  for (std::int64_t round = 0; kernels < n; ++round) {
    const bool whole = n - kernels >= nodes + beside;
    if (whole) {
      launch.call = Call::LaunchGraph;
      launch.stream = 0;
      launch.object = static_cast<Index>(round % 8);
      out.push_back(launch);
      out.push_back({.call = Call::Record, .stream = 0, .object = 0});
      kernels += nodes;
    }
    for (std::int64_t i = 0; i < beside && kernels < n; ++i, ++kernels) {
      if (whole && i == beside - 1)
        out.push_back({.call = Call::StreamWait, .attached = true, .stream = 1, .object = 0});
      const bool memory = numbers.between(0, 1) == 1;
      launch.call = Call::Launch;
      launch.stream = 1;
      launch.object = add_kernel(program, numbers,
                                 {.least = 5,
                                  .most = 30,
                                  .blocks = memory ? 132 * numbers.between(1, 8) : numbers.between(1, 32),
                                  .bandwidth = memory ? 3800e9 : 0});
      out.push_back(launch);
    }
  }
  return program;
}

}  // namespace gpusim::bench
