// SPDX-License-Identifier: Apache-2.0
// Traces that no profiler would write replay too: no deadlock, every op once, nothing before its launch.
#include <random>

#include "sim/engine/engine.hpp"
#include "sim/program/replay.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/written_trace.hpp"

using namespace gpusim;
using gpusim::test::TraceText;

namespace {

Trace random_trace(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); };
  const int threads = 1 + below(3);
  const int streams = 1 + below(3);
  const bool orderly = below(2) == 0;  // ops after their calls
  TraceText text;
  if (below(2) == 0)
    for (int s = 0; s < 3; ++s) text.step(s, 100 * s, 95);
  for (int i = 1; i <= 40; ++i) {
    text.thread = 1 + below(threads);
    const double at = below(300) + below(1000) * 0.001;
    const double length = below(12) * 0.7;
    const int correlation = 1 + below(50);
    const double start = orderly ? at + below(40) : below(340);
    const int stream = 1 + below(streams);
    switch (below(9)) {
      case 0:
        text.call("cudaDeviceSynchronize", at, length);
        break;
      case 1:
        text.call("cudaStreamSynchronize", at, length, correlation);
        break;
      case 2:
        text.call("cudaEventRecord", at, 1, correlation);
        break;
      case 3:
        text.call("cudaStreamWaitEvent", at, 1, 100 + i);
        text.sync(
            "Stream Wait Event", at, 1,
            fmt::format(R"("cuda_sync_kind":"Stream Wait Event","stream":{},"correlation":{},"device":0,)"
                        R"("wait_on_stream":{},"wait_on_cuda_event_record_corr_id":{})",
                        stream, 100 + i, 1 + below(streams), 1 + below(50)));
        break;
      case 4:
        text.call("cudaEventSynchronize", at, length);
        break;
      case 5: {
        text.call("cudaGraphLaunch", at, length, 200 + i);
        const int nodes = below(6);
        for (int k = 0; k < nodes; ++k)
          text.kernel("node", start + 2 * k, 1 + below(3), 200 + i, 1 + below(streams));
        break;
      }
      case 6:
        text.call("cudaMemcpyAsync", at, length, 300 + i).copy("Memcpy HtoD", start, length, 300 + i, stream);
        break;
      default:
        text.launch(at, length, correlation)
            .kernel("k" + std::to_string(below(3)), start, below(20), correlation, stream);
        break;
    }
  }
  return text.read();
}

}  // namespace

TEST_CASE("Replays of random traces end, run every op once, and none before its launch") {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    INFO("seed " << seed);
    const Trace trace = random_trace(seed);
    for (const double f : {1.0, 0.3, 2.5}) {
      ReplayOptions options;
      options.host_time = TraceWorkload::HostTime::Factor;
      options.host_factor = f;
      options.kernel_duration_factor = f > 1 ? 0.5 : 1;
      const Replay replay = build_replay(trace, nullptr, options);
      engine::Timeline timeline;
      REQUIRE_NOTHROW(engine::run(replay.built.program, replay.built.machine, 3));
      REQUIRE_NOTHROW(engine::run(replay.built.program, replay.built.machine, 1, &timeline));
      std::vector<int> times(replay.built.program.ops.size(), 0);
      for (const engine::OpRecord& record : timeline.ops) {
        ++times[engine::op_of(replay.built.program, timeline, record)];
        REQUIRE(record.start >= timeline.call(record.call).start);
      }
      REQUIRE(times == std::vector<int>(times.size(), 1));
    }
  }
}

TEST_CASE(
    "Without a factor, ops without a launch start when they were traced to start or wait for each other "
    "alone") {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    INFO("seed " << seed);
    const Trace trace = random_trace(seed);
    const TraceRules rules = derive_rules(trace, nullptr);
    const Replay replay = build_replay(trace, nullptr);
    engine::Timeline timeline;
    engine::run(replay.built.program, replay.built.machine, 1, &timeline);
    std::vector<Picoseconds> start(replay.built.program.ops.size());
    for (const engine::OpRecord& record : timeline.ops)
      start[engine::op_of(replay.built.program, timeline, record)] = record.start + replay.origin;
    for (std::size_t i = 0; i < trace.ops.size(); ++i)
      if (rules.ops[i].call == trace_none) REQUIRE(start[replay.op_of[i]] == trace.ops[i].start);
  }
}
