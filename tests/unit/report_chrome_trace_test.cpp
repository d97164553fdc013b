// SPDX-License-Identifier: Apache-2.0
#include "sim/report/chrome_trace.hpp"

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <tuple>

#include "sim/trace/trace.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/report_examples.hpp"

namespace gpusim::report {
namespace {

using namespace gpusim::literals;
using nlohmann::json;

std::string trace_of(const VariantResult& result) {
  std::ostringstream out;
  write_chrome_trace(out, result.program, *result.timeline,
                     {.title = result.variant, .device_name = "example"});
  return out.str();
}

TEST_CASE("every GPU op has an event, and its launch the same correlation id") {
  const json document = json::parse(trace_of(test::many_small_kernels()));
  CHECK(document["schemaVersion"] == 1);
  CHECK(document["deviceProperties"][0]["name"] == "example");
  std::map<std::int64_t, int> launches, kernels, starts, finishes;
  for (const json& event : document["traceEvents"]) {
    REQUIRE(event["pid"].is_number_integer());
    REQUIRE(event["tid"].is_number_integer());
    const std::string category = event.value("cat", "");
    if (category == "cuda_runtime") ++launches[event["args"]["correlation"]];
    if (category == "kernel") {
      ++kernels[event["args"]["correlation"]];
      CHECK(event["args"]["stream"] == 7);
      CHECK(event["pid"] == 0);
      CHECK(event["tid"] == 7);
    }
    if (category == "ac2g") ++(event["ph"] == "s" ? starts : finishes)[event["id"]];
  }
  CHECK(launches.size() == 300);
  CHECK(kernels == launches);
  CHECK(starts == launches);
  CHECK(finishes == launches);
  CHECK(launches.count(0) == 0);  // readers take 0 for "none"
}

TEST_CASE("ops of a CUDA graph share the correlation id of its launch") {
  const json document = json::parse(trace_of(test::one_cuda_graph()));
  std::map<std::int64_t, int> kernels;
  std::int64_t launch = 0;
  for (const json& event : document["traceEvents"]) {
    if (event.value("name", "") == "cudaGraphLaunch") launch = event["args"]["correlation"];
    if (event.value("cat", "") == "kernel") {
      ++kernels[event["args"]["correlation"]];
      CHECK(event["args"]["graph node id"] > 0);
    }
  }
  CHECK(kernels == std::map<std::int64_t, int>{{launch, 300}});
}

TEST_CASE("ops that overlap others of their stream lie on a row of their own") {
  test::ProgramBuilder builder;
  const engine::Index op = builder.op("node", 10_us);
  builder.program.graphs.push_back({builder.program.intern("fork"), {{op, {}}, {op, {}}, {op, {0, 1}}}});
  builder.call(engine::Call::LaunchGraph, 6_us, 0);
  const VariantResult result = test::simulated("fork", std::move(builder.program));
  const json document = json::parse(trace_of(result));
  std::map<std::int64_t, int> rows;
  std::map<std::pair<std::int64_t, std::int64_t>, std::string> names;
  for (const json& event : document["traceEvents"]) {
    if (event.value("cat", "") == "kernel") {
      ++rows[event["tid"]];
      CHECK(event["args"]["stream"] == 7);
    }
    if (event["name"] == "thread_name") names[{event["pid"], event["tid"]}] = event["args"]["name"];
  }
  REQUIRE(rows.size() == 2);
  for (const auto& [row, count] : rows) CHECK(names.count({0, row}) == 1);
  CHECK(names[{0, 7}] == "stream 7 default");
}

TEST_CASE("queue and memory counters end where they began") {
  test::ProgramBuilder builder;
  builder.program.sizes = {1 << 20};
  builder.call(engine::Call::Allocate, 0_us, 0);
  builder.launch(builder.op("long", 100_us), 5, 5_us);
  builder.call(engine::Call::SynchronizeDevice, 1_us, 0);
  builder.call(engine::Call::Free, 0_us, 0);
  const VariantResult result = test::simulated("queue", std::move(builder.program));
  const json document = json::parse(trace_of(result));
  std::int64_t longest = 0, queue = -1, memory = -1, memory_max = 0;
  for (const json& event : document["traceEvents"]) {
    if (event["ph"] != "C") continue;
    if (event["name"] == "allocated memory") {
      memory = event["args"]["bytes"];
      memory_max = std::max(memory_max, memory);
    } else {
      CHECK(event["name"] == "launch queue, stream 7");
      queue = event["args"]["entries"];
      longest = std::max(longest, queue);
      CHECK(queue >= 0);
    }
  }
  CHECK(longest == 4);  // the first one starts as soon as its launch arrives
  CHECK(queue == 0);
  CHECK(memory == 0);
  CHECK(memory_max == 1 << 20);
}

TEST_CASE("steps are marked on the first host thread") {
  test::ProgramBuilder builder;
  builder.launch(builder.op("k", 3_us), 2, 6_us);
  VariantResult result;
  engine::Timeline timeline;
  result.isolated = engine::run(builder.program, {}, 3, &timeline);
  result.timeline = timeline;
  result.program = builder.program;
  std::map<std::string, double> steps;
  const json document = json::parse(trace_of(result));
  for (const json& event : document["traceEvents"])
    if (event.value("cat", "") == "user_annotation") steps[event["name"]] = event["dur"];
  CHECK(steps == std::map<std::string, double>{
                     {"ProfilerStep#0", 12.0}, {"ProfilerStep#1", 12.0}, {"ProfilerStep#2", 12.0}});
}

TEST_CASE("the steps of a traced window are marked where they begin") {
  test::ProgramBuilder builder;
  builder.call(engine::Call::Work, 1_us);
  builder.launch(builder.op("k", 3_us), 4, 6_us);
  VariantResult result = test::simulated("window", std::move(builder.program));
  const auto marks = [&](const ChromeTraceOptions& options) {
    std::ostringstream out;
    write_chrome_trace(out, result.program, *result.timeline, options);
    std::vector<std::tuple<std::string, double, double>> found;
    const json document = json::parse(out.str());
    for (const json& event : document["traceEvents"])
      if (event.value("cat", "") == "user_annotation")
        found.emplace_back(event["name"], event["ts"], event["dur"]);
    return found;
  };
  CHECK(marks({.steps_per_program = 2, .step_starts = {1, 3}}) ==
        std::vector<std::tuple<std::string, double, double>>{{"ProfilerStep#0", 1.0, 12.0},
                                                             {"ProfilerStep#1", 13.0, 12.0}});
  CHECK(marks({.steps_per_program = 2, .step_starts = {3}}) ==
        std::vector<std::tuple<std::string, double, double>>{{"ProfilerStep#0", 0.0, 13.0},
                                                             {"ProfilerStep#1", 13.0, 12.0}});
  CHECK(marks({.steps_per_program = 2}) ==
        std::vector<std::tuple<std::string, double, double>>{{"Window#0", 0.0, 25.0}});
}

TEST_CASE("hostile names are escaped") {
  test::ProgramBuilder builder;
  builder.launch(builder.op("k<\"\\\n\x01\xff>", 3_us), 1, 6_us);
  const json document = json::parse(trace_of(test::simulated("hostile \"", std::move(builder.program))));
  int found = 0;
  for (const json& event : document["traceEvents"])
    if (event.value("cat", "") == "kernel") {
      CHECK(event["name"] == "k<\"\\\n\x01\xEF\xBF\xBD>");
      ++found;
    }
  CHECK(found == 1);
}

TEST_CASE("streams keep numbers that are their names, others get free ones") {
  test::ProgramBuilder builder;
  builder.program.streams = {{"default", 0}, {"7", 0}, {"20", 0}, {"copy", 0}};
  const engine::Index op = builder.op("k", 3_us);
  for (std::uint16_t stream = 0; stream < 4; ++stream)
    builder.call(engine::Call::Launch, 6_us, op).stream = stream;
  const json document = json::parse(trace_of(test::simulated("streams", std::move(builder.program))));
  std::vector<std::int64_t> streams;
  for (const json& event : document["traceEvents"])
    if (event.value("cat", "") == "kernel") streams.push_back(event["args"]["stream"]);
  CHECK(streams == std::vector<std::int64_t>{8, 7, 20, 9});
}

TEST_CASE("calls of a replayed trace keep their runtime names, made-up names do not hide a launch") {
  test::ProgramBuilder builder;
  const engine::Index op = builder.op("k", 3_us);
  for (const char* name : {"cuLaunchKernelEx", "hipLaunchKernel", "my launch"}) {
    builder.call(engine::Call::Launch, 6_us, op);
    builder.program.threads.front().names.push_back(builder.program.intern(name));
  }
  std::vector<std::pair<std::string, std::string>> calls;
  const json document = json::parse(trace_of(test::simulated("names", std::move(builder.program))));
  for (const json& event : document["traceEvents"])
    if (event["ph"] == "X" && event["pid"] == host_pid && event["cat"] != "user_annotation")
      calls.emplace_back(event["cat"], event["name"]);
  CHECK(calls == std::vector<std::pair<std::string, std::string>>{{"cuda_driver", "cuLaunchKernelEx"},
                                                                  {"cuda_runtime", "hipLaunchKernel"},
                                                                  {"cuda_runtime", "cudaLaunchKernel"}});
}

TEST_CASE("the project's own reader reads the trace back to the picosecond") {
  test::ProgramBuilder builder;
  builder.call(engine::Call::Work, 12'345'678_ps);
  builder.launch(builder.op("a", 3'000'001_ps), 20, 2'000'003_ps);
  builder.launch(builder.op("Memset (Device)", 999'999_ps, 4096, 0, engine::OpKind::Memset), 1, 2_us);
  builder.call(engine::Call::SynchronizeDevice, 1_us, 0);
  const VariantResult result = test::simulated("exact", std::move(builder.program));
  const Trace trace = read_trace_bytes(trace_of(result));
  REQUIRE(trace.ops.size() == result.timeline->ops.size());
  CHECK(trace.repairs.empty());
  CHECK(trace.invalid_events == 0);
  const Picoseconds first = trace.ops.front().start;
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    CHECK(trace.ops[i].start - first == result.timeline->ops[i].start - result.timeline->ops[0].start);
    CHECK(trace.ops[i].duration() == result.timeline->ops[i].end - result.timeline->ops[i].start);
  }
  REQUIRE(trace.steps.size() == 1);
  CHECK(trace.steps[0].number == 0);
  CHECK(trace.calls.size() == 22);
}

}  // namespace
}  // namespace gpusim::report
