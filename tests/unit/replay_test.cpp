// SPDX-License-Identifier: Apache-2.0
// The rules of docs/trace-replay.md, one by one, on traces small enough to check by eye.
#include "sim/program/replay.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "sim/config/error.hpp"
#include "sim/engine/engine.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/program_builder.hpp"
#include "tests/support/written_trace.hpp"

using namespace gpusim;
using gpusim::test::TraceText;
using gpusim::test::us;
using HostTime = TraceWorkload::HostTime;

namespace {

/// Round numbers: gap 1 us everywhere, arrival 2 us after a call of 4 us.
GpuSpec hardware() {
  GpuSpec gpu;
  gpu.key = gpu.name = "test";
  gpu.launch.call = us(4);
  gpu.launch.arrival_after_call = us(2);
  gpu.launch.queue_depth = 1024;
  gpu.launch.event_latency = us(1);
  gpu.launch.sync_call = us(1.5);
  gpu.launch.sync_return = us(3);
  for (auto& row : gpu.launch.gap.gap) row.fill(us(1));
  for (auto& row : gpu.launch.graph_gap.gap) row.fill(us(0.5));
  gpu.launch.cuda_graph.call.points = {{1, us(6)}};
  gpu.launch.cuda_graph.arrival_after_call = us(1);
  return gpu;
}

struct Result {
  Replay replay;
  engine::Run run;
  engine::Timeline timeline;
  ReplayComparison comparison;
  Picoseconds start(const Trace& trace, const std::string& name) const {
    for (const engine::OpRecord& record : timeline.ops) {
      const engine::Program& p = replay.built.program;
      if (p.names[p.info[engine::op_of(p, timeline, record)].name] == name)
        return record.start + replay.origin;
    }
    FAIL("no op " << name << " of " << trace.file);
    return {};
  }
};

Result replay(const Trace& trace, const ReplayOptions& options = {}, const GpuSpec& gpu = hardware()) {
  Result r;
  r.replay = build_replay(trace, &gpu, options);
  r.run = engine::run(r.replay.built.program, r.replay.built.machine, 1, &r.timeline);
  r.comparison = compare(trace, r.replay, r.timeline);
  return r;
}

ReplayOptions factor(double f) {
  ReplayOptions options;
  options.host_time = HostTime::Factor;
  options.host_factor = f;
  return options;
}

ReplayOptions durations(double f) {
  ReplayOptions options;
  options.kernel_duration_factor = f;
  return options;
}

Captured captured_of(const Replay& r, const GpuSpec& gpu) {
  CaptureOptions options;
  options.costs = cuda_graph_costs(gpu, r.built.program);
  options.step_starts = r.built.step_starts;
  options.threads_kept = r.built.threads_kept;
  return capture(r.built.program, r.built.machine, options);
}

std::int64_t calls(const Replay& r, engine::Call call) {
  std::int64_t n = 0;
  for (const engine::HostThread& thread : r.built.program.threads)
    n += std::count_if(thread.instructions.begin(), thread.instructions.end(),
                       [&](const engine::Instruction& i) { return i.call == call; });
  return n;
}

}  // namespace

TEST_CASE(
    "A launch into an idle stream arrives after its call by what the hardware says, if the trace does not") {
  // Two samples are too few: b is expected 2 us after its call, c.f. the hardware, not after 2.4.
  const Trace trace =
      TraceText().launch(0, 5, 1).kernel("a", 7.4, 3, 1).launch(20, 5, 2).kernel("b", 27.4, 3, 2).read();
  const Result r = replay(trace);
  CHECK(r.replay.statistics.arrival_samples == 0);
  CHECK(r.start(trace, "a") == us(7.4));  // the first op of its stream is anchored
  CHECK(r.start(trace, "b") == us(27));
}

TEST_CASE("Three idle-stream launches give the trace its own arrival, their median, by kind of op") {
  TraceText text;
  const double latency[] = {1.0, 1.5, 1.25, 1.75, 1.5};
  for (int i = 0; i < 5; ++i)
    text.launch(100 * i, 5, i + 1).kernel("k" + std::to_string(i), 100 * i + 5 + latency[i], 3, i + 1);
  for (int i = 5; i < 8; ++i)
    text.call("cudaMemcpyAsync", 100 * i, 5, i + 1).copy("Memcpy HtoD", 100 * i + 9, 3, i + 1);
  const Trace trace = text.read();
  const Result r = replay(trace);
  CHECK(r.replay.statistics.arrival_samples == 8);
  CHECK(r.replay.statistics.arrival_after_call == us(1.5));
  CHECK(r.start(trace, "k1") == us(106.5));
  CHECK(r.start(trace, "k3") == us(306.5));
  CHECK(r.start(trace, "Memcpy HtoD") == us(509));
}

TEST_CASE(
    "A queued op follows its predecessor by the mean gap of the other ops between the same neighbours") {
  // a b a b a b, all launched early; the gaps before b are 1.0, 1.2, 1.4 and before a 1.1, 1.3.
  TraceText text;
  for (int i = 0; i < 6; ++i) text.launch(2 * i, 1, i + 1);
  const double gaps[] = {0, 1.0, 1.1, 1.2, 1.3, 1.4};
  double at = 3;
  std::vector<double> starts;
  for (int i = 0; i < 6; ++i) {
    at += gaps[i];
    starts.push_back(at);
    text.kernel(i % 2 == 0 ? "a" : "b", at, 50, i + 1);
    at += 50;
  }
  const Trace trace = text.read();
  const Result r = replay(trace);
  CHECK(r.replay.statistics.queued_ops == 5);
  CHECK(r.replay.statistics.gaps_from_pairs == 5);
  // Own gap left out: the first b gets (1.2 + 1.4) / 2, the first a after a b gets 1.3.
  REQUIRE(r.timeline.ops.size() == 6);
  CHECK(r.timeline.ops[1].start - r.timeline.ops[0].end == us(1.3));
  CHECK(r.timeline.ops[2].start - r.timeline.ops[1].end == us(1.3));
  CHECK(r.timeline.ops[3].start - r.timeline.ops[2].end == us(1.2));
  CHECK(r.timeline.ops[4].start - r.timeline.ops[3].end == us(1.1));
  CHECK(r.timeline.ops[5].start - r.timeline.ops[4].end == us(1.1));
}

TEST_CASE("Fast and slow gaps are told apart, and can be taken together") {
  TraceText text;
  for (int i = 0; i < 5; ++i) text.launch(2 * i, 1, i + 1);
  const double gaps[] = {0, 1.0, 2.0, 1.2, 2.2};  // before the second to fifth a
  double at = 3;
  for (int i = 0; i < 5; ++i) {
    at += gaps[i];
    text.kernel("a", at, 50, i + 1);
    at += 50;
  }
  const Trace trace = text.read();
  const Result told_apart = replay(trace);
  CHECK(told_apart.timeline.ops[1].start - told_apart.timeline.ops[0].end == us(1.2));
  CHECK(told_apart.timeline.ops[2].start - told_apart.timeline.ops[1].end == us(2.2));
  ReplayOptions together;
  together.rules.gap_modes = false;
  const Result mean = replay(trace, together);
  CHECK(mean.timeline.ops[1].start - mean.timeline.ops[0].end == us(1.8));
}

TEST_CASE("A gap that nothing in the trace tells comes from the hardware, and is 0 without hardware") {
  const Trace trace =
      TraceText().launch(0, 5, 1).launch(5, 5, 2).kernel("a", 7, 3, 1).kernel("b", 12.5, 3, 2).read();
  const Result r = replay(trace);
  CHECK(r.replay.statistics.gaps_from_hardware == 1);
  CHECK(r.start(trace, "b") == us(12));
  const Replay without = build_replay(trace, nullptr);
  CHECK(without.built.program.ops[without.op_of[1]].gap_before == Picoseconds(0));
  CHECK_FALSE(without.built.notes.empty());
}

TEST_CASE("An op seen to start inside its launch call arrives at that point of the call, scaled with it") {
  const Trace trace =
      TraceText().launch(0, 10, 1).kernel("a", 12, 3, 1).launch(100, 40, 2).kernel("b", 110, 3, 2).read();
  const Result r = replay(trace);
  CHECK(r.replay.statistics.ops_starting_in_call == 1);
  CHECK(r.start(trace, "b") == us(110));
  CHECK(replay(trace, factor(0.5)).start(trace, "b") == us(50 + 5));
}

TEST_CASE("A host factor scales work and calls, and leaves the arrival after the call as it is") {
  const Trace trace =
      TraceText().launch(0, 10, 1).kernel("a", 12, 3, 1).launch(100, 10, 2).kernel("b", 112, 3, 2).read();
  CHECK(replay(trace, factor(0.5)).start(trace, "b") == us(55 + 2));
  ReplayOptions slow_arrival;
  slow_arrival.launch_latency_factor = 3;
  CHECK(replay(trace, slow_arrival).start(trace, "b") == us(110 + 6));
}

TEST_CASE("Ops without a launch stay where they were, and later ops of their stream wait for them") {
  const Trace trace = TraceText()
                          .launch(0, 5, 1)
                          .kernel("a", 7, 3, 1)
                          .kernel("pinned", 40, 10, 0)
                          .launch(45, 5, 2)
                          .kernel("b", 52, 3, 2)
                          .read();
  const Result r = replay(trace);
  CHECK(r.replay.statistics.unlinked_ops == 1);
  CHECK(r.start(trace, "pinned") == us(40));
  CHECK(r.start(trace, "b") == us(52));
  const Result longer = replay(trace, durations(4));
  CHECK(longer.start(trace, "pinned") == us(40));
  CHECK(longer.start(trace, "b") == us(80 + 1));  // end of the pinned one plus the event latency
}

TEST_CASE("Ops that ran in another order than they were launched are taken as unlinked, as few as possible") {
  const Trace trace = TraceText()
                          .launch(0, 5, 1)
                          .launch(10, 5, 2)
                          .launch(20, 5, 3)
                          .kernel("b", 17, 3, 2)
                          .kernel("c", 27, 3, 3)
                          .kernel("a", 40, 3, 1)
                          .read();
  const Result r = replay(trace);
  CHECK(r.replay.statistics.out_of_order_ops == 1);
  CHECK(r.replay.statistics.unlinked_ops == 1);
  CHECK(r.start(trace, "a") == us(40));
  CHECK(r.start(trace, "c") == us(27));
}

TEST_CASE("A synchronisation that found work to wait for waits for the simulated completion") {
  const Trace trace = TraceText()
                          .launch(0, 5, 1)
                          .kernel("a", 7, 30, 1)
                          .call("cudaDeviceSynchronize", 10, 35)  // returns 8 us after the completion at 37
                          .launch(50, 5, 2)
                          .kernel("b", 57, 3, 2)
                          .read();
  const Result r = replay(trace);
  CHECK(r.replay.statistics.blocking_synchronizations == 1);
  CHECK(r.start(trace, "b") == us(57));
  CHECK(replay(trace, durations(2)).start(trace, "b") == us(57 + 30));
  // Over before the host looks: only the call's own 1.5 us are left of it.
  CHECK(replay(trace, durations(0.01)).start(trace, "b") == us(10 + 1.5 + 5 + 5 + 2));
}

TEST_CASE("A synchronisation with nothing to wait for costs what it did") {
  const Trace trace = TraceText()
                          .launch(0, 5, 1)
                          .kernel("a", 7, 3, 1)
                          .call("cudaDeviceSynchronize", 20, 6)
                          .launch(30, 5, 2)
                          .kernel("b", 37, 3, 2)
                          .read();
  const Result r = replay(trace);
  CHECK(r.replay.statistics.synchronizations == 1);
  CHECK(r.replay.statistics.blocking_synchronizations == 0);
  CHECK(r.start(trace, "b") == us(37));
  CHECK(replay(trace, factor(0.5)).start(trace, "b") == us(17.5 + 2));
}

TEST_CASE(
    "A synchronisation that does not say what it waits for waits for what had been launched and ended last") {
  for (const char* call : {"cudaEventSynchronize", "cudaStreamSynchronize"}) {
    TraceText text;
    text.launch(0, 5, 1)
        .kernel("a", 7, 33, 1, 7)
        .call(call, 10, 50)
        .launch(65, 5, 3)
        .kernel("c", 72, 3, 3, 7);
    text.thread = 2;
    text.launch(20, 5, 2).kernel("launched later", 27, 28, 2, 8);
    const Trace trace = text.read();
    INFO(call);
    const Result r = replay(trace);
    CHECK(r.replay.statistics.blocking_synchronizations == 1);
    CHECK(r.start(trace, "c") == us(72));
    CHECK(replay(trace, durations(2)).start(trace, "c") == us(72 + 33));
  }
}

TEST_CASE("A copy whose call returned after its end blocks the host") {
  const Trace trace = TraceText()
                          .launch(0, 5, 1)
                          .kernel("a", 7, 3, 1)
                          .call("cudaMemcpy", 20, 50, 2)
                          .copy("Memcpy DtoH", 26, 40, 2)
                          .launch(80, 5, 3)
                          .kernel("b", 87, 3, 3)
                          .read();
  const Result r = replay(trace);
  CHECK(r.replay.statistics.blocking_copies == 1);
  CHECK(r.start(trace, "b") == us(87));
  CHECK(replay(trace, durations(2)).start(trace, "b") == us(87 + 40));
}

TEST_CASE("Threads whose calls alternate hand the work on, whatever the speed of the host") {
  TraceText text;
  text.launch(0, 10, 1).kernel("a", 12, 3, 1);
  text.thread = 2;
  text.launch(50, 10, 2).kernel("b", 62, 3, 2);
  text.thread = 1;
  text.launch(100, 10, 3).kernel("c", 112, 3, 3);
  const Trace trace = text.read();
  const Result r = replay(trace);
  CHECK(r.replay.statistics.hand_offs == 2);
  CHECK(r.start(trace, "b") == us(62));
  CHECK(r.start(trace, "c") == us(112));
  const Result fast = replay(trace, factor(0.5));
  CHECK(fast.start(trace, "b") == us(30 + 2));
  CHECK(fast.start(trace, "c") == us(55 + 2));
}

TEST_CASE("A hand-off follows the other thread when that waits for the device") {
  TraceText text;
  text.launch(0, 10, 1).kernel("a", 12, 100, 1).call("cudaDeviceSynchronize", 20, 100);
  text.thread = 2;
  text.launch(150, 10, 2).kernel("b", 162, 3, 2);
  const Trace trace = text.read();
  CHECK(replay(trace).start(trace, "b") == us(162));
  CHECK(replay(trace, durations(2)).start(trace, "b") == us(262));
}

TEST_CASE("Threads whose calls overlap run beside each other") {
  TraceText text;
  text.launch(0, 10, 1).kernel("a", 12, 3, 1).launch(50, 10, 2).kernel("b", 62, 3, 2);
  text.thread = 2;
  text.launch(55, 10, 3).kernel("c", 67, 3, 3, 8);
  const Trace trace = text.read();
  const Result r = replay(trace);
  CHECK(r.replay.statistics.independent_threads == 1);
  CHECK(r.replay.statistics.hand_offs == 0);
  CHECK(r.start(trace, "b") == us(62));
  CHECK(r.start(trace, "c") == us(67));
}

TEST_CASE("A CUDA graph launch fans out to the nodes that share its correlation") {
  TraceText text;
  text.launch(0, 10, 1).kernel("a", 12, 50, 1).call("cudaGraphLaunch", 20, 10, 2);
  double at = 64;
  for (int i = 0; i < 4; ++i, at += 5.5) text.kernel("n" + std::to_string(i), at, 5, 2);
  text.launch(40, 10, 3).kernel("b", at + 1.5, 5, 3);
  const Trace trace = text.read();
  const Result r = replay(trace);
  CHECK(r.replay.statistics.cuda_graph_launches == 1);
  CHECK(r.run.totals.counts.cuda_graph_launches == 1);
  CHECK(r.run.totals.counts.kernel_launches == 2);
  REQUIRE(r.replay.built.program.graphs.size() == 1);
  CHECK(r.replay.built.program.graphs[0].nodes.size() == 4);
  CHECK(r.run.totals.counts.kernels == 6);
  // The graph follows a by the hardware's gap; its nodes are 0.5 us apart, from the hardware too.
  CHECK(r.start(trace, "n0") == us(63));
  CHECK(r.start(trace, "n3") == us(63 + 3 * 5.5));
}

TEST_CASE("A wait that the trace records is simulated as one") {
  const Trace trace =
      TraceText()
          .launch(0, 5, 1)
          .kernel("a", 7, 100, 1, 7)
          .call("cudaEventRecord", 6, 1, 2)
          .call("cudaStreamWaitEvent", 8, 1, 3)
          .sync("Stream Wait Event", 8, 1,
                R"("cuda_sync_kind":"Stream Wait Event","stream":8,"correlation":3,"device":0,)"
                R"("wait_on_stream":7,"wait_on_cuda_event_id":1,"wait_on_cuda_event_record_corr_id":2)")
          .launch(10, 5, 4)
          .kernel("first", 17, 3, 4, 9)
          .launch(20, 5, 5)
          .kernel("b", 108, 3, 5, 8)
          .launch(30, 5, 6)
          .kernel("b2", 112, 3, 6, 8)
          .read();
  const Result r = replay(trace);
  CHECK(r.replay.statistics.recorded_waits == 1);
  CHECK(calls(r.replay, engine::Call::Record) == 1);
  CHECK(r.start(trace, "b") == us(108));
  CHECK(replay(trace, durations(2)).start(trace, "b") == us(207 + 1));
}

TEST_CASE("A start that only the end of another stream's op explains becomes a wait, never a circle") {
  const Trace trace = TraceText()
                          .launch(0, 5, 1)
                          .kernel("first", 7, 3, 1, 8)
                          .launch(10, 5, 2)
                          .kernel("long", 17, 100, 2, 7)
                          .launch(20, 5, 3)
                          .kernel("waits", 120, 3, 3, 8)
                          .read();
  const Result r = replay(trace);
  CHECK(r.replay.statistics.inferred_waits == 1);
  CHECK(r.replay.statistics.wait_latency == us(3));
  CHECK(r.start(trace, "waits") == us(120));
  CHECK(replay(trace, durations(2)).start(trace, "waits") == us(217 + 3));
}

TEST_CASE("A launch that a full queue blocked takes the usual time, and the engine blocks it") {
  GpuSpec gpu = hardware();
  gpu.launch.queue_depth = 12;
  TraceText text;
  const int n = 16;
  for (int i = 0; i < n; ++i) {
    // The device takes 100 us an op. With twelve waiting, a call blocks until one starts.
    const double start = i <= 13 ? 2 * i : 106 + 101 * (i - 14);
    text.launch(start, i < 13 ? 1 : i == 13 ? 79 : 100, i + 1).kernel("k", 3 + 101 * i, 100, i + 1);
  }
  const Result r = replay(text.read(), {}, gpu);
  CHECK(r.replay.statistics.blocked_launches == 3);
  CHECK(r.run.totals.host_blocked_queue > us(270));
  CHECK(r.comparison.start_error_max < us(1));
}

TEST_CASE("Kernels that overlap their predecessor do so in the replay, not in a captured CUDA graph") {
  for (const char* launch : {"cudaLaunchKernelExC", "cudaLaunchKernelExC_ptsz"}) {
    INFO(launch);
    TraceText text;
    for (int i = 0; i < 6; ++i) text.call(i % 2 == 0 ? "cudaLaunchKernel" : launch, 2 * i, 1, i + 1);
    double at = 3;
    for (int i = 0; i < 6; ++i) {
      text.kernel(i % 2 == 0 ? "gemm" : "splitKreduce", at, 50, i + 1);
      at += i % 2 == 0 ? 50 - 0.25 : 50 + 1;
    }
    const Trace trace = text.read();
    const Result r = replay(trace);
    CHECK(r.replay.statistics.programmatic_ops == 3);
    CHECK(r.timeline.ops[1].start - r.timeline.ops[0].end == us(-0.25));
    CHECK(r.comparison.start_error_max == Picoseconds(0));
    const GpuSpec gpu = hardware();
    const Captured captured = captured_of(r.replay, gpu);
    engine::Timeline timeline;
    engine::run(captured.program, r.replay.built.machine, 1, &timeline);
    REQUIRE(timeline.ops.size() == 6);
    for (std::size_t i = 1; i < 6; ++i) CHECK(timeline.ops[i].start - timeline.ops[i - 1].end == us(0.5));
  }
}

TEST_CASE("Steps are counted, and a CUDA graph does not reach across them") {
  TraceText text;
  for (int s = 0; s < 3; ++s) {
    text.step(s, 1000 * s, 900);
    for (int i = 0; i < 4; ++i)
      text.launch(1000 * s + 50 + 100 * i, 5, 4 * s + i + 1)
          .kernel("k", 1000 * s + 57 + 100 * i, 20, 4 * s + i + 1);
  }
  const Trace trace = text.read();
  const Result r = replay(trace);
  CHECK(r.replay.built.steps_per_program == 3);
  REQUIRE(r.replay.built.step_starts.size() == 2);
  const GpuSpec gpu = hardware();
  const Captured captured = captured_of(r.replay, gpu);
  CHECK(captured.graphs == 3);
  CHECK(captured.nodes == 12);
}

TEST_CASE(
    "The first step waits for its first call no longer than the others, and the profiler's last look counts "
    "not") {
  TraceText text;
  for (int s = 0; s < 2; ++s) {
    const double first = s == 0 ? 3000 : 50;
    text.step(s, 5000 * s, 4900)
        .launch(5000 * s + first, 5, s + 1)
        .kernel("k", 5000 * s + first + 7, 20, s + 1);
  }
  text.call("cudaDeviceSynchronize", 9950, 10);
  const Trace trace = text.read();
  const Result r = replay(trace);
  CHECK(r.replay.origin == us(2950));
  CHECK(r.replay.statistics.synchronizations == 0);
  CHECK(r.run.totals.wall == us(9900 - 2950));
  CHECK(r.comparison.start_error_max == Picoseconds(0));
}

TEST_CASE("The automatic host factor compares launch calls, and says what it did") {
  const auto trace_of = [](int launches, double call) {
    TraceText text;
    for (int i = 0; i < launches; ++i)
      text.launch(100 * i, call, i + 1).kernel("k", 100 * i + call + 1, 20, i + 1);
    return text.read();
  };
  ReplayOptions options;
  options.host_time = HostTime::Auto;
  const GpuSpec gpu = hardware();
  const Replay fitting = build_replay(trace_of(20, 8), &gpu, options);
  CHECK(fitting.statistics.host_factor == 0.5);
  CHECK(fitting.built.notes.size() == 1);
  CHECK(build_replay(trace_of(19, 8), &gpu, options).statistics.host_factor == default_host_factor);
  CHECK(build_replay(trace_of(20, 4), &gpu, options).statistics.host_factor == default_host_factor);
  CHECK(build_replay(trace_of(20, 50), &gpu, options).statistics.host_factor == default_host_factor);
  CHECK(build_replay(trace_of(20, 8), nullptr, options).statistics.host_factor == default_host_factor);
}

TEST_CASE(
    "A host model replaces work by the prices of the ops that start in it, and calls by the hardware's") {
  TraceText text;
  text.cpu_op("aten::mm", 0, 100).cpu_op("aten::inner", 1, 98).launch(50, 10, 1).kernel("a", 62, 3, 1);
  text.cpu_op("aten::unknown", 200, 50).launch(220, 10, 2).kernel("b", 232, 3, 2);
  const Trace trace = text.read();
  HostSpec host;
  host.name = "test host";
  host.ops["mm"].no_grad = us(30);
  host.default_op.emplace();
  host.default_op->no_grad = us(14);
  ReplayOptions options;
  options.host_time = HostTime::Model;
  options.host = &host;
  const Result r = replay(trace, options);
  // 30 us of mm hold one launch of 4 us, 14 us of the other op likewise.
  CHECK(r.start(trace, "b") - r.replay.origin == us(26 + 4 + 10 + 4 + 2));
  options.host = nullptr;
  const GpuSpec gpu = hardware();
  CHECK_THROWS_AS(build_replay(trace, &gpu, options), ConfigError);
}

TEST_CASE("A trace without GPU ops replays its host time") {
  const Trace trace = TraceText().step(0, 100, 500).cpu_op("aten::mm", 150, 100).read();
  const Result r = replay(trace);
  CHECK(r.run.totals.wall == us(500));
  CHECK(r.comparison.compared == 0);
  CHECK_FALSE(r.replay.built.notes.empty());
}

TEST_CASE("Every traced op has its own op in the program") {
  const Trace trace = read_trace(std::string(GPUSIM_SOURCE_DIR) +
                                 "/tests/data/traces/seed_decoder_B4_T1024_eager.trace.json.gz");
  const Result r = replay(trace);
  REQUIRE(r.replay.op_of.size() == trace.ops.size());
  std::vector<engine::Index> sorted = r.replay.op_of;
  std::sort(sorted.begin(), sorted.end());
  CHECK(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end());
  CHECK(r.comparison.compared == static_cast<std::int64_t>(trace.ops.size()));
  CHECK(std::abs(r.comparison.wall_error) < 0.01);
  CHECK(r.comparison.start_error_median <= us(3));
}
