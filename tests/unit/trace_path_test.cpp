// SPDX-License-Identifier: Apache-2.0
// The critical path of traces small enough to follow by hand, and of real ones to the picosecond.
#include "sim/trace/trace_path.hpp"

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/trace_text.hpp"

using namespace gpusim;
using gpusim::test::call;
using gpusim::test::kernel;
using gpusim::test::span;
using gpusim::test::trace_text;

namespace {

constexpr std::int64_t ps = 1'000'000;  // of a microsecond

Trace trace_of(const std::vector<std::string>& events) {
  return read_trace_bytes(trace_text(events));
}

/// "host 0-5 | launch_call 5-8 | ...", in microseconds.
std::string shown(const Trace& trace, const TracePath& path) {
  std::string text;
  for (const TracePathPiece& piece : path.pieces) {
    const auto us = [&](Picoseconds time) {
      REQUIRE(time.count() % ps == 0);
      return std::to_string(time.count() / ps);
    };
    text += text.empty() ? "" : " | ";
    text += std::string(name(piece.resource)) + " " + us(piece.from) + "-" + us(piece.to);
    if (piece.resource == TraceResource::Kernel || piece.resource == TraceResource::Communication)
      text += " " + trace.name_of(trace.ops[piece.op].name);
    if (piece.host_op != trace_none) text += " " + trace.name_of(trace.cpu_ops[piece.host_op].name);
    if (piece.call != trace_none) text += " " + trace.name_of(trace.calls[piece.call].name);
  }
  return text;
}

std::string call_on(int thread, const std::string& name, const std::string& ts, const std::string& dur,
                    int correlation) {
  return R"({"ph":"X","cat":"cuda_runtime","name":")" + name + R"(","pid":100,"tid":)" +
         std::to_string(thread) + R"(,"ts":)" + ts + R"(,"dur":)" + dur + R"(,"args":{"correlation":)" +
         std::to_string(correlation) + "}}";
}

std::string sync_record(const std::string& kind, const std::string& ts, int stream, int correlation,
                        const std::string& more = "") {
  return R"({"ph":"X","cat":"cuda_sync","name":")" + kind + R"(","pid":0,"tid":)" + std::to_string(stream) +
         R"(,"ts":)" + ts + R"(,"dur":1,"args":{"cuda_sync_kind":")" + kind + R"(","stream":)" +
         std::to_string(stream) + R"(,"device":0,"correlation":)" + std::to_string(correlation) + more + "}}";
}

void check_cover(const Trace& trace, const TracePath& path) {
  Picoseconds at = path.begin;
  Picoseconds sum{0};
  for (const TracePathPiece& piece : path.pieces) {
    REQUIRE(piece.from == at);
    REQUIRE(piece.to > piece.from);
    at = piece.to;
  }
  CHECK(at == path.end);
  for (const Picoseconds time : path.by_resource) sum += time;
  CHECK(sum == path.span());
  for (const TracePathPiece& piece : path.pieces) {
    const bool runs = piece.resource == TraceResource::Kernel ||
                      piece.resource == TraceResource::Communication || piece.resource == TraceResource::Copy;
    // An op that overlaps its successor ends later than the path leaves it.
    if (runs && piece.to == trace.ops[piece.op].end && path.op_slack[piece.op] != Picoseconds(0)) {
      INFO("op " << piece.op);
      CHECK(path.op_slack[piece.op] == Picoseconds(0));
    }
  }
  for (const Picoseconds slack : path.op_slack) CHECK(slack >= Picoseconds(0));
  for (const TracePathKernel& one : path.kernels) {
    CHECK(one.gain >= Picoseconds(0));
    CHECK(one.gain <= one.path);
  }
}

}  // namespace

TEST_CASE("A launch-bound trace's path runs through the host, the last launch and its kernel") {
  // Calls of 4 us every 10 us; kernels of 2 us start 1 us after their call.
  const Trace trace = trace_of({call("cudaLaunchKernel", "0", "4", 1), kernel("5", "2", 1),
                                call("cudaLaunchKernel", "10", "4", 2), kernel("15", "2", 2),
                                call("cudaLaunchKernel", "20", "4", 3), kernel("25", "2", 3)});
  const TracePath path = trace_path(trace);
  CHECK(shown(trace, path) ==
        "launch_call 0-4 cudaLaunchKernel | host 4-10 | launch_call 10-14 cudaLaunchKernel | host 14-20 | "
        "launch_call 20-24 cudaLaunchKernel | launch_latency 24-25 | kernel 25-27 k");
  check_cover(trace, path);
  // The second has to end before the third starts at 25, 8 later than it does, and so can start at 23 at
  // the latest, 16 after the end of the first.
  CHECK(path.op_slack[0] == Picoseconds(16 * ps));
  CHECK(path.op_slack[1] == Picoseconds(8 * ps));
  CHECK(path.op_slack[2] == Picoseconds(0));
  REQUIRE(path.kernels.size() == 1);
  CHECK(path.kernels[0].path == Picoseconds(2 * ps));
  CHECK(path.kernels[0].gain == Picoseconds(2 * ps));
  // Without launch calls: 27 - 3 * 4 = 15.
  CHECK(path.gain[static_cast<std::size_t>(TraceResource::LaunchCall)] == Picoseconds(12 * ps));
}

TEST_CASE("Where the device is behind, the path runs through its kernels and the gaps between them") {
  const Trace trace = trace_of({call("cudaLaunchKernel", "0", "4", 1), kernel("6", "20", 1, 7, "a"),
                                call("cudaLaunchKernel", "5", "4", 2), kernel("27", "20", 2, 7, "b"),
                                call("cudaDeviceSynchronize", "10", "40", 3)});
  const TracePath path = trace_path(trace);
  CHECK(
      shown(trace, path) ==
      "launch_call 0-4 cudaLaunchKernel | launch_latency 4-6 | kernel 6-26 a | gap 26-27 | kernel 27-47 b | "
      "synchronization 47-50 cudaDeviceSynchronize");
  check_cover(trace, path);
}

TEST_CASE("After a synchronisation the host's work is on the path, named after the op that runs") {
  const Trace trace =
      trace_of({call("cudaLaunchKernel", "0", "4", 1), kernel("5", "10", 1, 7, "a"),
                call("cudaStreamSynchronize", "6", "11", 2), span("cpu_op", "aten::item", "5.5", "13.5"),
                span("cpu_op", "aten::mm", "21", "10"), call("cudaLaunchKernel", "25", "4", 3),
                kernel("30", "2", 3, 7, "b")});
  const TracePath path = trace_path(trace);
  CHECK(
      shown(trace, path) ==
      "launch_call 0-4 cudaLaunchKernel | launch_latency 4-5 | kernel 5-15 a | synchronization 15-17 "
      "cudaStreamSynchronize | host 17-19 aten::item | host 19-21 | host 21-25 aten::mm | launch_call 25-29 "
      "cudaLaunchKernel | launch_latency 29-30 | kernel 30-32 b");
  check_cover(trace, path);
}

TEST_CASE("A recorded event leads the path into the stream that it was recorded in") {
  // Stream 8 runs c after an event behind a on stream 7; b on stream 7 ends earlier and has slack.
  const Trace trace = trace_of(
      {call("cudaLaunchKernel", "0", "2", 1), kernel("3", "30", 1, 7, "a"),
       call("cudaEventRecord", "3", "1", 2), call("cudaStreamWaitEvent", "5", "1", 3),
       sync_record("Stream Wait Event", "5", 8, 3,
                   R"(,"wait_on_stream":7,"wait_on_cuda_event_record_corr_id":2,"wait_on_cuda_event_id":1)"),
       call("cudaLaunchKernel", "7", "2", 4), kernel("35", "20", 4, 8, "c"),
       call("cudaLaunchKernel", "10", "2", 5), kernel("34", "5", 5, 7, "b")});
  const TracePath path = trace_path(trace);
  CHECK(
      shown(trace, path) ==
      "launch_call 0-2 cudaLaunchKernel | launch_latency 2-3 | kernel 3-33 a | event 33-35 | kernel 35-55 c");
  check_cover(trace, path);
  CHECK(path.op_slack[2] == Picoseconds(16 * ps));  // b ends at 39, the run at 55
}

TEST_CASE("A thread that waits for another leads to the other's work") {
  // Thread 1 hands over at 12, thread 2 launches from 20 to 60, thread 1 goes on at 70.
  const std::string work = span("cpu_op", "backward", "18", "50", 2);
  const Trace trace = trace_of({call_on(1, "cudaLaunchKernel", "0", "10", 1), kernel("11", "1", 1), work,
                                call_on(2, "cudaLaunchKernel", "20", "10", 2), kernel("31", "1", 2),
                                call_on(2, "cudaLaunchKernel", "50", "10", 3), kernel("61", "1", 3),
                                call_on(1, "cudaLaunchKernel", "70", "10", 4), kernel("81", "1", 4)});
  const TracePath path = trace_path(trace);
  CHECK(shown(trace, path) ==
        "launch_call 0-10 cudaLaunchKernel | host 10-18 | host 18-20 backward | launch_call 20-30 "
        "cudaLaunchKernel | "
        "host 30-50 backward | launch_call 50-60 cudaLaunchKernel | host 60-70 | launch_call 70-80 "
        "cudaLaunchKernel | launch_latency 80-81 | kernel 81-82 k");
  check_cover(trace, path);
}

TEST_CASE("A kernel beside a longer one on another stream gains nothing") {
  const Trace trace = trace_of({call("cudaLaunchKernel", "0", "2", 1), kernel("3", "30", 1, 7, "long"),
                                call("cudaLaunchKernel", "3", "2", 2), kernel("6", "25", 2, 8, "short")});
  const TracePath path = trace_path(trace);
  check_cover(trace, path);
  REQUIRE(path.kernels.size() == 2);
  CHECK(trace.name_of(path.kernels[0].name) == "long");
  // Without it the run would end with the other, at 31 instead of 33.
  CHECK(path.kernels[0].gain == Picoseconds(2 * ps));
  CHECK(path.kernels[0].path == Picoseconds(30 * ps));
  CHECK(path.kernels[1].path == Picoseconds(0));
  CHECK(path.kernels[1].gain == Picoseconds(0));
  CHECK(path.kernels[1].least_slack == Picoseconds(2 * ps));
}

TEST_CASE("A trace without calls and GPU ops has an empty path") {
  const TracePath path = trace_path(trace_of({span("cpu_op", "aten::add", "1", "3")}));
  CHECK(path.span() == Picoseconds(0));
  CHECK(path.pieces.empty());
}

TEST_CASE("The path of every public and measured trace covers its span to the picosecond") {
  const std::string shared = GPUSIM_SHARED_DIR;
  std::vector<std::string> files = {std::string(GPUSIM_SOURCE_DIR) + "/tests/data/traces"};
  for (const std::string folder : {"/traces/public", "/measured/h200/traces", "/measured/h200x2/traces"}) {
    if (!shared.empty()) files.push_back(shared + folder);
  }
  int traces = 0;
  for (const std::string& folder : files) {
    if (!std::filesystem::exists(folder)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string path = entry.path().string();
      if (path.find(".json") == std::string::npos) continue;
      INFO(path);
      const Trace trace = read_trace(path);
      check_cover(trace, trace_path(trace));
      ++traces;
    }
  }
  CHECK(traces >= 2);
}
