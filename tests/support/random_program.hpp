// SPDX-License-Identifier: Apache-2.0
// Random programs that cannot deadlock: awaits go to signals of lower threads, and streams wait only for
// records that the same thread has called before.
#pragma once

#include <random>

#include "sim/engine/engine.hpp"

namespace gpusim::test {

struct RandomProgramOptions {
  bool share_streams = true;  ///< Several threads may launch into one stream.
  bool copies = true;         ///< Ops that compete for copy engines.
  bool distributions = false;
  bool graphs_shared = true;  ///< One CUDA graph may be launched into several streams (no: nor streams).
  bool sharing = false;       ///< Two small devices that kernels share; events and peer copies too.
  int threads_max = 3;
  int streams_max = 4;
  int instructions_max = 40;
};

struct RandomProgram {
  engine::Program program;
  engine::Machine machine;
};

inline RandomProgram random_program(std::uint64_t seed, const RandomProgramOptions& options = {}) {
  using namespace engine;
  std::mt19937_64 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); };
  const auto chance = [&](int percent) { return below(100) < percent; };
  // Multiples of half a microsecond meet often, odd picoseconds show rounding: both.
  const auto time = [&](int half_us_max) {
    return Picoseconds(500'000 * below(half_us_max + 1) + (chance(20) ? below(1000) : 0));
  };

  RandomProgram result;
  Program& p = result.program;
  Machine& m = result.machine;
  m.launch_queue_depth = chance(50) ? 1 + below(4) : 1024;
  m.event_latency = time(3);
  m.graph_class = 3;
  for (int from = 0; from < 4; ++from)
    for (int to = 0; to < 4; ++to) {
      m.gap[from][to] = time(3);
      m.graph_gap[from][to] = time(2);
      if (to == 2 && from != 3) m.gap[from][to] = -time(2);  // class 2 is programmatic
    }

  const int threads = 1 + below(options.threads_max);
  const int streams = options.share_streams ? 1 + below(options.streams_max) : threads * (1 + below(2));
  for (int i = 0; i < streams; ++i) p.streams.push_back({"s" + std::to_string(i), 0});
  p.names = {"op", "graph"};
  if (options.distributions) {
    Distribution uniform;
    uniform.name = "uniform";
    uniform.b = Picoseconds(7'000'000);
    p.distributions = {uniform};
    p.seed = seed;
  }
  const int ops = 2 + below(5);
  for (int i = 0; i < ops; ++i) {
    GpuOp op;
    OpInfo info;
    info.name = 0;
    op.duration = time(12);
    op.min_period = chance(40) ? time(5) : Picoseconds(0);
    info.min_period_in_graph = chance(40) ? time(5) : Picoseconds(0);
    op.gap_class = static_cast<GapClass>(below(3));
    if (chance(10)) op.gap_before = time(4);
    if (options.copies && chance(25)) {
      op.kind = OpKind::Memcpy;
      op.copy_engine = chance(50) ? CopyEngine::HostToDevice : CopyEngine::DeviceToHost;
    } else if (chance(15)) {
      op.kind = OpKind::Memset;
    }
    if (options.distributions && chance(50)) op.distribution = 0;
    p.add(op, info);
  }
  for (int i = below(3); i > 0; --i) {
    CudaGraph graph;
    graph.name = 1;
    for (int n = 0, size = 1 + below(6); n < size; ++n) {
      CudaGraph::Node node;
      node.op = static_cast<Index>(below(ops));
      for (int before = 0; before < n; ++before)
        if (chance(40)) node.after.push_back(static_cast<Index>(before));
      graph.nodes.push_back(node);
    }
    p.graphs.push_back(graph);
  }

  std::vector<int> signals_given;  // per signal; signal i is given by thread signal_thread[i]
  std::vector<int> signal_thread;
  for (int t = 0; t < threads; ++t) {
    HostThread thread{"t" + std::to_string(t), {}, {}};
    const auto pick_stream = [&] {
      return static_cast<std::uint16_t>(options.share_streams ? below(streams)
                                                              : t + threads * below(streams / threads));
    };
    const Index event = static_cast<Index>(p.events.size());
    p.events.push_back("e" + std::to_string(t));
    bool recorded = false;
    std::vector<int> available = signals_given;
    for (int left = 1 + below(options.instructions_max); left > 0; --left) {
      Instruction in;
      in.duration = time(8);
      in.latency = chance(50) ? in.duration : time(10);
      in.return_latency = Picoseconds(
          in.duration.count() > 0
              ? static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(in.duration.count()))
              : 0);
      in.stream = pick_stream();
      const int what = below(100);
      if (what < 15) {
        in.call = chance(80) ? Call::Work : Call::Input;
      } else if (what < 60) {
        in.call = Call::Launch;
        in.object = static_cast<Index>(below(ops));
        in.blocking = chance(10);
      } else if (what < 68 && !p.graphs.empty()) {
        in.call = Call::LaunchGraph;
        in.object = static_cast<Index>(below(static_cast<int>(p.graphs.size())));
        if (!options.graphs_shared) {
          const int graph = static_cast<int>(in.object);
          if (graph % threads != t) continue;
          in.stream = static_cast<std::uint16_t>(t + threads * (graph / threads % (streams / threads)));
        }
      } else if (what < 76) {
        in.call = Call::Record;
        in.object = event;
        recorded = true;
      } else if (what < 84 && recorded) {
        in.call = Call::StreamWait;
        in.object = event;
      } else if (what < 88) {
        in.call = chance(50) ? Call::SynchronizeStream : Call::SynchronizeDevice;
        in.object = 0;
      } else if (what < 90 && recorded) {
        in.call = Call::SynchronizeEvent;
        in.object = event;
      } else if (what < 93) {
        in.call = chance(50) ? Call::Allocate : Call::Free;
        in.object = static_cast<Index>(p.sizes.size());
        p.sizes.push_back(512 * below(100));
      } else if (what < 96) {
        in.call = Call::Signal;
        in.object = static_cast<Index>(p.signals.size());
        p.signals.push_back("g" + std::to_string(p.signals.size()));
        signals_given.push_back(1);
        signal_thread.push_back(t);
      } else {
        int found = -1;
        for (std::size_t s = 0; s < available.size() && found < 0; ++s)
          if (available[s] > 0 && signal_thread[s] < t) found = static_cast<int>(s);
        if (found < 0) continue;
        available[static_cast<std::size_t>(found)] = 0;
        signals_given[static_cast<std::size_t>(found)] = 0;
        in.call = Call::Await;
        in.object = static_cast<Index>(found);
      }
      thread.instructions.push_back(in);
      if (in.call == Call::StreamWait && chance(50)) {
        // An attached wait rides on a launch of the same stream.
        thread.instructions.back().attached = true;
        Instruction launch;
        launch.call = Call::Launch;
        launch.stream = in.stream;
        launch.object = static_cast<Index>(below(ops));
        launch.duration = time(6);
        launch.latency = launch.duration;
        thread.instructions.push_back(launch);
      }
    }
    if (thread.instructions.empty()) thread.instructions.push_back({.call = Call::Work, .duration = time(3)});
    p.threads.push_back(thread);
  }
  if (options.sharing) {
    m.sharing.sms = 4 + below(8);
    m.sharing.bandwidth_top = 1e12;
    m.sharing.long_block = time(10);
    for (std::size_t i = 0; i < p.streams.size(); ++i) p.streams[i].device = chance(30) ? 1 : 0;
    for (int i = 0; i < 4; ++i)
      p.footprints.push_back({.blocks = 1 + below(40),
                              .threads_per_block = 256 << below(3),
                              .registers_per_thread = 16 + below(48),
                              .bytes = chance(50) ? 1000 * below(4000) : 0,
                              .arithmetic = chance(30) ? 1.0 : 0.01 * below(50)});
    for (std::size_t i = 0; i < p.ops.size(); ++i) {
      if (p.ops[i].kind == OpKind::Kernel && chance(70)) p.info[i].footprint = static_cast<Index>(below(4));
      if (p.ops[i].kind == OpKind::Memcpy && chance(30)) {
        p.ops[i].copy_engine = CopyEngine::Peer;
        p.ops[i].peer = static_cast<std::uint8_t>(below(2));
      }
    }
    // Every graph records an event of its own and waits for it: what an earlier replay recorded.
    for (CudaGraph& graph : p.graphs) {
      if (chance(50)) continue;
      const auto event = static_cast<Index>(p.events.size());
      p.events.push_back("g" + std::to_string(event));
      const auto last = static_cast<Index>(graph.nodes.size());
      graph.nodes.push_back(
          {event, {static_cast<Index>(below(static_cast<int>(last)))}, CudaGraph::NodeKind::Record});
      graph.nodes.push_back({static_cast<Index>(below(ops)), {last}, CudaGraph::NodeKind::Op});
    }
  }
  return result;
}

}  // namespace gpusim::test
