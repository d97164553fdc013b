// SPDX-License-Identifier: Apache-2.0
// The two launch workloads on which event engines are compared.
//   launch queue: one host thread launches kernels of 1 to 5 us into one stream; a launch takes `call` of CPU
//   time. two streams:  kernel i goes to stream i mod 2; every kernel with i mod 10 == 9 waits, once its
//   stream takes it,
//                 for the end of kernel i-1 on the other stream.
#pragma once

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

}  // namespace gpusim::bench
