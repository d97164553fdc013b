// SPDX-License-Identifier: Apache-2.0
// The `gpusim` program as users and scripts meet it: exit codes, and what goes to stdout and stderr.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <sys/wait.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "tests/support/catch.hpp"
#include "tests/support/run_gpusim.hpp"

namespace fs = std::filesystem;
using gpusim::test::ContainsSubstring;
using gpusim::test::content;
using gpusim::test::Folder;
using gpusim::test::Result;
using gpusim::test::run_gpusim;

namespace {

constexpr const char* small = R"(name: small
workload: {kernels: [{kernel: k, duration: 3 us, launch: 6 us, repeat: 300}]}
variants:
  eager: {steps: 1}
  graph: {steps: 1, cuda_graph: full}
expect:
  - {path: eager.step_time, equals: 1803 us}
  - {path: graph.step_time, equals: 906 us}
)";

}  // namespace

TEST_CASE("run reports on stdout and is silent on stderr") {
  const Folder folder;
  const Result r = run_gpusim(folder, "run " + folder.write("small.yaml", small));
  CHECK(r.exit_code == 0);
  CHECK(r.err.empty());
  CHECK_THAT(r.out, ContainsSubstring("1803.00 us"));
  CHECK_THAT(r.out, ContainsSubstring("906.00 us"));
}

TEST_CASE("run writes one JSON object for all files") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", small);
  const Result r = run_gpusim(folder, "run --format json " + file + " " + file);
  REQUIRE(r.exit_code == 0);
  const auto json = nlohmann::json::parse(r.out);
  REQUIRE(json["scenarios"].size() == 2);
  const auto& first = json["scenarios"][0];
  CHECK(first["scenario"] == "small");
  CHECK(first["file"] == file);
  CHECK(first["runs"][0]["variant"] == "eager");
  CHECK(first["runs"][0]["step_time_us"] == 1803.0);
  CHECK(first["runs"][1]["cuda_graph_launches"] == 1);
  CHECK(first["expectations"][0]["pass"] == true);
  CHECK_THAT(r.out, ContainsSubstring("\"step_time_us\": 1803.000000"));
}

TEST_CASE("run gives the same bytes each time") {
  const Folder folder;
  const std::string file = folder.write("random.yaml", R"(
workload:
  kernels: [{kernel: k, distribution: d, launch: 2 us, repeat: 50}]
  distributions: {d: {lognormal: {median: 3 us, sigma: 0.4}}}
steps: 5
)");
  const std::string first = run_gpusim(folder, "run --format json " + file).out;
  CHECK(first == run_gpusim(folder, "run --format json " + file).out);
  CHECK(first != run_gpusim(folder, "run --format json --seed 1 " + file).out);
}

TEST_CASE("--set, --variant and --steps change what is run") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", small);
  const Result r = run_gpusim(
      folder, "run --format json --set 'workload.kernels.0.duration=5 us' --variant eager --steps 2 " + file);
  REQUIRE(r.exit_code == 0);
  const auto runs = nlohmann::json::parse(r.out)["scenarios"][0]["runs"];
  REQUIRE(runs.size() == 1);
  CHECK(runs[0]["makespan_us"] == 3605.0);
  CHECK(runs[0]["window"]["steps"] == 2);
}

TEST_CASE("test tells scenarios that hold from those that do not") {
  const Folder folder;
  folder.write("all/a.yaml", small);
  folder.write("all/below/b.yaml", small);
  Result r = run_gpusim(folder, "test " + (folder / "all"));
  CHECK(r.exit_code == 0);
  CHECK_THAT(r.out, ContainsSubstring("2 scenarios, 4 expectations: all hold"));

  const std::string wrong =
      folder.write("all/c.yaml", std::string(small) + "  - {path: graph.step_time, max: 900 us}\n");
  r = run_gpusim(folder, "test " + (folder / "all"));
  CHECK(r.exit_code == 1);
  CHECK(r.err.empty());
  CHECK_THAT(r.out, ContainsSubstring(
                        wrong + ":9:5: failed: graph.step_time: expected at most 900 us, but it is 906 us"));
  CHECK_THAT(r.out, ContainsSubstring("ok     " + (folder / "all/a.yaml")));

  folder.write("all/d.yaml", "workload: {kernels: 5}\n");
  r = run_gpusim(folder, "test " + (folder / "all"));
  CHECK(r.exit_code == 2);
  CHECK_THAT(r.err, ContainsSubstring("d.yaml:1:21: error: workload.kernels:"));
}

TEST_CASE("bad input is exit code 2 with nothing on stdout") {
  const Folder folder;
  const std::string good = folder.write("small.yaml", small);
  const std::string bad = folder.write("bad.yaml", "workload: {kernels: [{kernel: a, duration: 3}]}\n");
  const std::string stuck = folder.write(
      "stuck.yaml",
      "workload: {kernels: [{wait: never}, {kernel: a, duration: 1 us}, {synchronize: device}]}\n");
  for (const std::string& arguments :
       {"run " + bad, "run " + good + " " + bad, "run " + (folder / "missing.yaml"), "run " + stuck,
        std::string("run"), "run --format xml " + good, "run --bogus " + good, "run --steps 0 " + good,
        "run --steps x " + good, "run --set nonsense " + good, "run --variant none " + good,
        std::string("walk"), std::string(""), std::string("list planets"), "trace summary " + good,
        "trace summary " + (folder / "missing.json"),
        "run " + good + " --trace " + (folder / "no/such/folder.json")}) {
    INFO(arguments);
    const Result r = run_gpusim(folder, arguments);
    CHECK(r.exit_code == 2);
    CHECK(r.out.empty());
    CHECK_FALSE(r.err.empty());
  }
  CHECK_THAT(run_gpusim(folder, "run " + stuck).err, ContainsSubstring("never"));
}

TEST_CASE("help and version go to stdout") {
  const Folder folder;
  Result r = run_gpusim(folder, "--version");
  CHECK(r.exit_code == 0);
  CHECK(r.out.rfind("gpusim ", 0) == 0);
  r = run_gpusim(folder, "run --help");
  CHECK(r.exit_code == 0);
  CHECK_THAT(r.out, ContainsSubstring("--set"));
  CHECK(r.err.empty());
}

TEST_CASE("--trace writes one Chrome trace per run") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", small);
  Result r = run_gpusim(folder, "run --variant eager --trace " + (folder / "t.json") + " " + file);
  CHECK(r.exit_code == 0);
  const auto trace = nlohmann::json::parse(content(folder / "t.json"));
  CHECK(trace["traceEvents"].size() > 600);
  r = run_gpusim(folder, "run --trace " + (folder / "t.json") + " " + file);
  CHECK(fs::exists(folder / "t.eager.json"));
  CHECK(fs::exists(folder / "t.graph.json"));
  // What is written can be read again.
  r = run_gpusim(folder, "trace summary --format json " + (folder / "t.eager.json"));
  CHECK(r.exit_code == 0);
  const auto summary = nlohmann::json::parse(r.out);
  CHECK(summary["kernels"] == 300);
  CHECK(summary["busy_us"] == 900.0);
}

TEST_CASE("--critical-path explains the isolated run of each variant") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", small);
  const Result text = run_gpusim(folder, "run --critical-path " + file);
  CHECK(text.exit_code == 0);
  CHECK_THAT(text.out, ContainsSubstring("critical path of eager"));
  CHECK_THAT(text.out, ContainsSubstring("if the host were infinitely fast:      900.00 us    2.00x"));
  const Result r = run_gpusim(folder, "run --critical-path --format json " + file);
  REQUIRE(r.exit_code == 0);
  const auto runs = nlohmann::json::parse(r.out)["scenarios"][0]["runs"];
  CHECK(runs[0]["critical_path"]["by_resource_us"]["host"] == 1800.0);
  CHECK(runs[0]["critical_path"]["by_resource_us"]["kernel"] == 3.0);
  CHECK(runs[1]["critical_path"]["by_resource_us"]["kernel"] == 900.0);
  CHECK(run_gpusim(folder, "run --format json " + file).out.find("critical_path") == std::string::npos);

  const Result many = run_gpusim(folder, "run --critical-path --steps 1000000 " + file);
  CHECK(many.exit_code == 2);
  CHECK_THAT(many.err, ContainsSubstring("critical_path_ops_max"));
  CHECK_THAT(many.err, ContainsSubstring("hint: ask for fewer steps"));
}

TEST_CASE("list names hardware, hosts and backends") {
  const Folder folder;
  const Result r = run_gpusim(folder, "list hardware");
  CHECK(r.exit_code == 0);
  CHECK_THAT(r.out, ContainsSubstring("h200"));
  CHECK_THAT(r.out, ContainsSubstring("4.8 TB/s"));
  CHECK(run_gpusim(folder, "list hosts").exit_code == 0);
  const Result links = run_gpusim(folder, "list interconnects");
  CHECK(links.exit_code == 0);
  CHECK_THAT(links.out, ContainsSubstring("\nnvlink4         NVLink 4, NVSwitch"));
  CHECK_THAT(links.out, ContainsSubstring("  450 GB/s    360 GB/s in rings  up to 8 GPUs\n"));
  const Result backends = run_gpusim(folder, "list backends");
  CHECK(backends.exit_code == 0);
  CHECK_THAT(backends.out, ContainsSubstring("inductor: TorchInductor, "));
  CHECK_THAT(backends.out, ContainsSubstring("\n    default reduce-overhead max-autotune"));
}

TEST_CASE("a backend is found beside the scenario and in GPUSIM_CONFIGS, and is no scenario for test") {
  const Folder folder;
  folder.write("here/backends/mine.yaml", "base: tvm\nname: Mine\nhelp: of my own\nmodes: {tuned: null}\n");
  const std::string scenario =
      "hardware: h200\nhost: xeon-h200-cloud\nworkload: {network: fma_relu}\nbackend: mine\nmode: tuned\n";
  const Result r = run_gpusim(folder, "run " + folder.write("here/a.yaml", scenario));
  CHECK(r.exit_code == 2);
  CHECK_THAT(r.err, ContainsSubstring("a.yaml:5:7: error: mode: Mine has no mode 'tuned'"));
  const Result far = run_gpusim(folder, "run " + folder.write("there/a.yaml", scenario));
  CHECK_THAT(far.err, ContainsSubstring("error: backend: unknown backends 'mine'"));
  folder.write("here/a.yaml", "workload: {kernels: []}\n");
  CHECK_THAT(run_gpusim(folder, "test " + (folder / "here")).out, ContainsSubstring("1 scenario,"));
}

TEST_CASE("hardware is found beside the scenario and in GPUSIM_CONFIGS") {
  const Folder folder;
  folder.write("here/hardware/mine.yaml", "base: h200\nname: Mine\n");
  const std::string scenario = "hardware: mine\nworkload: {kernels: [{kernel: k, duration: 3 us}]}\n";
  CHECK(run_gpusim(folder, "run " + folder.write("here/a.yaml", scenario)).exit_code == 0);
  const std::string elsewhere = folder.write("there/a.yaml", scenario);
  CHECK(run_gpusim(folder, "run " + elsewhere).exit_code == 2);
  ::setenv("GPUSIM_CONFIGS", (folder / "here").c_str(), 1);
  CHECK(run_gpusim(folder, "run " + elsewhere).exit_code == 0);
  ::unsetenv("GPUSIM_CONFIGS");
}

TEST_CASE("results that cannot be written are an error, a reader that leaves is none") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", small);
  if (fs::exists("/dev/full")) {
    const Result r = run_gpusim(folder, "run " + file, ">/dev/full");
    CHECK(r.exit_code == 2);
    CHECK_THAT(r.err, ContainsSubstring("cannot write the results"));
  }
  const std::string command = "bash -c \"set -o pipefail; '" + std::string(GPUSIM_PROGRAM) + "' run " + file +
                              " " + file + " 2>'" + (folder / "err") + "' | true\"";
  const int status = std::system(command.c_str());
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(content(folder / "err").empty());
}

TEST_CASE("a trace is a question of its own") {
  const Folder folder;
  const std::string trace = folder.write("t.json", R"({"deviceProperties": [{"id": 0, "name": "NVIDIA H200"}],
"traceEvents": [
 {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 0, "dur": 5, "args": {"correlation": 1}},
 {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 50, "dur": 5, "args": {"correlation": 2}},
 {"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 7, "ts": 7, "dur": 10, "args": {"correlation": 1, "device": 0, "stream": 7}},
 {"ph": "X", "cat": "kernel", "name": "b", "pid": 0, "tid": 7, "ts": 57, "dur": 20, "args": {"correlation": 2, "device": 0, "stream": 7}}
]})");
  const Result r = run_gpusim(folder, "run --format json " + trace);
  REQUIRE(r.exit_code == 0);
  const auto runs = nlohmann::json::parse(r.out)["scenarios"][0]["runs"];
  REQUIRE(runs.size() == 3);
  // What the profiler added to the host's work is no part of the question.
  CHECK(runs[0]["variant"] == "unprofiled");
  CHECK(runs[0]["window"]["wall_us"].get<double>() < 60);
  CHECK_FALSE(runs[0]["one_cuda_graph"].is_null());
  CHECK(runs[2]["variant"] == "traced");
  CHECK(runs[2]["window"]["wall_us"].get<double>() == gpusim::test::Approx(70).margin(1));
  CHECK(runs[1]["variant"] == "cuda_graph");
  CHECK(runs[1]["cuda_graph_launches"] == 1);
  CHECK(runs[1]["window"]["wall_us"].get<double>() < 35);
}
