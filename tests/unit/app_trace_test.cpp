// SPDX-License-Identifier: Apache-2.0
// Traces that gpusim writes, read back by gpusim: the run's numbers to the nanosecond, in the documented
// format.
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/catch.hpp"
#include "tests/support/run_gpusim.hpp"

using gpusim::test::ContainsSubstring;
using gpusim::test::content;
using gpusim::test::Folder;
using gpusim::test::Result;
using gpusim::test::run_gpusim;
using nlohmann::json;

namespace {

const std::vector<std::string> scenarios = {"run_ahead",        "overlap_copy_compute", "two_threads",
                                            "graph_break_sync", "launch_bound_decode",  "gpt2_prefill"};

std::string scenario(const std::string& name) {
  return std::string(GPUSIM_SOURCE_DIR) + "/scenarios/" + name + ".yaml";
}

/// Trace files that `run --trace` wrote, by variant.
std::map<std::string, std::string> traces_of(const Folder& folder, const std::string& name,
                                             const json& runs) {
  std::map<std::string, std::string> files;
  for (const json& run : runs) {
    const std::string variant = run["variant"];
    files[variant] = folder / (runs.size() == 1 ? name + ".json" : name + "." + variant + ".json");
  }
  return files;
}

json runs_of(const Folder& folder, const std::string& name) {
  const Result r =
      run_gpusim(folder, "run --format json --trace " + (folder / (name + ".json")) + " " + scenario(name));
  REQUIRE(r.exit_code == 0);
  return json::parse(r.out)["scenarios"][0]["runs"];
}

/// What the format of Chrome traces and PyTorch's profiler says of an event.
void check_event(const json& event) {
  INFO(event.dump());
  REQUIRE(event.is_object());
  REQUIRE(event.contains("ph"));
  const std::string phase = event["ph"];
  CHECK(std::set<std::string>{"X", "i", "C", "M", "s", "f"}.count(phase) == 1);
  CHECK(event["name"].is_string());
  CHECK(event["pid"].is_number());
  if (phase == "M") {
    CHECK(std::set<std::string>{"process_name", "process_labels", "process_sort_index", "thread_name",
                                "thread_sort_index"}
              .count(event["name"].get<std::string>()) == 1);
    CHECK(event["args"].is_object());
    return;
  }
  CHECK(event["ts"].is_number());
  CHECK(event["ts"].get<double>() >= 0);
  if (phase == "C") {
    CHECK(event["args"].is_object());
    for (const auto& [series, value] : event["args"].items()) CHECK(value.is_number());
    return;
  }
  CHECK(event["tid"].is_number());
  if (phase == "s" || phase == "f") {
    CHECK(event["id"].is_number());
    CHECK(event["cat"] == "ac2g");
    if (phase == "f") CHECK(event["bp"] == "e");
  }
  if (phase != "X") return;
  CHECK(event["dur"].is_number());
  CHECK(event["dur"].get<double>() >= 0);
  const std::string category = event["cat"];
  CHECK(std::set<std::string>{"kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cpu_op",
                              "user_annotation", "gpu_user_annotation"}
            .count(category) == 1);
  if (category == "kernel" || category == "gpu_memcpy" || category == "gpu_memset") {
    CHECK(event["args"]["device"] == event["pid"]);
    CHECK(event["args"]["stream"].is_number());
    CHECK(event["args"]["correlation"].is_number());
  }
}

}  // namespace

TEST_CASE("A trace that run writes gives the run's numbers back, to the nanosecond") {
  const Folder folder;
  for (const std::string& name : scenarios) {
    const json runs = runs_of(folder, name);
    const auto files = traces_of(folder, name, runs);
    for (const json& run : runs) {
      INFO(name << ", " << run["variant"]);
      const Result r = run_gpusim(folder, "trace summary --format json " + files.at(run["variant"]));
      REQUIRE(r.exit_code == 0);
      const json summary = json::parse(r.out);
      const json& window = run["window"];
      const double steps = window["steps"];
      const auto near = [](const json& a, const json& b) {
        return std::abs(a.get<double>() - b.get<double>()) < 1e-3;
      };
      CHECK(near(summary["wall_us"], window["wall_us"]));
      CHECK(near(summary["busy_us"], window["busy_us"]));
      double idle = 0;
      for (const auto& [cause, time] : summary["idle_us"].items()) idle += time.get<double>();
      CHECK(near(idle, window["idle_us"]));
      for (const char* key : {"gpu_ops", "kernels", "memcpys", "memsets", "kernel_launches"}) {
        INFO(key);
        CHECK(summary[key].get<double>() == run[key].get<double>() * steps);
      }
      CHECK(summary["graph_launches"].get<double>() == run["cuda_graph_launches"].get<double>() * steps);
      CHECK(summary["unlinked_gpu_ops"] == 0);
      CHECK(summary["repairs"].empty());
      CHECK(summary["invalid_events"] == 0);
    }
  }
}

TEST_CASE("A trace that run writes keeps to the format, its arrows lead from calls to GPU ops") {
  const Folder folder;
  for (const std::string& name : scenarios) {
    const json runs = runs_of(folder, name);
    for (const auto& [variant, file] : traces_of(folder, name, runs)) {
      INFO(name << ", " << variant);
      const json trace = json::parse(content(file));
      CHECK(trace["schemaVersion"] == 1);
      CHECK(trace["deviceProperties"].is_array());
      REQUIRE(trace["traceEvents"].is_array());
      std::map<std::int64_t, int> begun;
      std::map<std::int64_t, int> ended;
      std::set<std::int64_t> correlations;
      std::size_t number = 0;
      for (const json& event : trace["traceEvents"]) {
        if (++number < 3000) check_event(event);  // The rest is more of the same.
        if (event["ph"] == "s") ++begun[event["id"].get<std::int64_t>()];
        if (event["ph"] == "f") ++ended[event["id"].get<std::int64_t>()];
        if (event["ph"] == "X" && event["cat"] == "cuda_runtime" && event["args"].contains("correlation"))
          CHECK(correlations.insert(event["args"]["correlation"].get<std::int64_t>()).second);
      }
      CHECK(!begun.empty());
      for (const auto& [id, count] : ended) {
        CHECK(begun[id] == 1);
        CHECK(correlations.count(id) == 1);
      }
    }
  }
}

TEST_CASE("trace critical-path covers the span of a written trace, and refuses what is no trace") {
  const Folder folder;
  const json runs = runs_of(folder, "graph_break_sync");
  const std::string file = traces_of(folder, "graph_break_sync", runs).begin()->second;
  const Result text = run_gpusim(folder, "trace critical-path --top 3 " + file);
  CHECK(text.exit_code == 0);
  CHECK_THAT(text.out, ContainsSubstring("critical path"));
  const Result r = run_gpusim(folder, "trace critical-path --format json " + file);
  REQUIRE(r.exit_code == 0);
  const json path = json::parse(r.out);
  double at = 0;
  for (const json& piece : path["pieces"]) {
    CHECK(std::abs(piece["at_us"].get<double>() - at) < 1e-6);
    at += piece["length_us"].get<double>();
  }
  CHECK(std::abs(path["span_us"].get<double>() - at) < 1e-6);
  const Result bad =
      run_gpusim(folder, "trace critical-path " + folder.write("bad.json", "{\"traceEvents\": 1 2}"));
  CHECK(bad.exit_code == 2);
  CHECK_THAT(bad.err, ContainsSubstring("byte"));
}

TEST_CASE("trace summary takes a folder, and puts ranks of one run beside each other") {
  const Folder folder;
  const auto rank = [&](int number, const char* duration) {
    folder.write(
        "rank" + std::to_string(number) + ".json",
        R"({"distributedInfo": {"rank": )" + std::to_string(number) +
            R"(, "world_size": 2}, "traceEvents": [{"ph":"X","cat":"kernel","name":"ncclAllReduce","pid":0,
"tid":7,"ts":1,"dur":)" +
            duration + R"(,"args":{"device":0,"stream":7}}]})");
  };
  rank(0, "20");
  rank(1, "6");
  const Result r = run_gpusim(folder, "trace summary " + (folder / "."));
  CHECK(r.exit_code == 0);
  CHECK_THAT(r.out, ContainsSubstring("2 ranks of 2"));
  CHECK_THAT(r.out, ContainsSubstring("rank 1 came last to 1; rank 0"));
  CHECK_THAT(r.out, ContainsSubstring("14.00 us"));
  const Result json_result = run_gpusim(folder, "trace summary --format json " + (folder / "."));
  CHECK(json::parse(json_result.out).size() == 2);
  const Folder empty;
  const Result none = run_gpusim(empty, "trace summary " + (empty / "."));
  CHECK(none.exit_code == 2);
  CHECK_THAT(none.err, ContainsSubstring("a folder without any trace"));
}

TEST_CASE("What trace calibrate cannot read, find or write is refused with a way out") {
  const Folder folder;
  const std::string good = folder.write(
      "good.json",
      R"({"traceEvents": [{"ph":"X","cat":"cpu_op","name":"aten::add","pid":1,"tid":1,"ts":0,"dur":9,"args":{}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":2,"dur":5,"args":{"correlation":1}},
{"ph":"X","cat":"kernel","name":"add","pid":0,"tid":7,"ts":10,"dur":3,"args":{"device":0,"stream":7,"correlation":1}}]})");
  const auto refused = [&](const std::string& arguments, const std::string& what,
                           const std::string& way_out) {
    INFO(arguments);
    const Result r = run_gpusim(folder, "trace calibrate " + arguments);
    CHECK(r.exit_code == 2);
    CHECK_THAT(r.err, ContainsSubstring(what));
    CHECK_THAT(r.err, ContainsSubstring(way_out));
  };
  refused(folder / "none.json", "none.json", "error");
  refused(folder.write("bad.json", "{\"traceEvents\": 1 2}"), "byte", "bad.json");
  refused(good + " --host xeon-h200-clodu", "xeon-h200-clodu", "did you mean 'xeon-h200-cloud'?");
  refused(good + " --hardware h2oo", "h2oo", "h200");
  refused(good + " --hardware-out " + (folder / "gpu.yaml"), "say nothing about the device", "record_shapes");
  refused(good + " --host-out " + (folder / "no/such/host.yaml"), "cannot be written", "no/such/host.yaml");
  CHECK(run_gpusim(folder, "trace calibrate " + good).exit_code == 0);
}
