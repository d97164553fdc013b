// SPDX-License-Identifier: Apache-2.0
// `gpusim sweep` as users and scripts meet it.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

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
  eager: {}
  graph: {cuda_graph: full}
)";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string quoted(const std::string& text) {
  return "'" + text + "'";
}

/// A line of `run --format csv` without its last two cells, version and input.
std::string without_origin(const std::string& line) {
  return line.substr(0, line.rfind(',', line.rfind(',') - 1));
}

}  // namespace

TEST_CASE("sweep prints one row for each point and variant") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", small);
  // By hand: launches of 6 us bind, 300 x 6 + 3; launches of 2 us do not, 2 + 300 x 3; one CUDA graph launch
  // of 6 or 2 us and 900 us of kernels.
  const Result result =
      run_gpusim(folder, "sweep '" + file +
                             "' --vary 'workload.kernels.0.launch=6 us,2 us' --columns makespan,step_time");
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  CHECK(result.out ==
        "point,variant,workload.kernels.0.launch,makespan_us,step_time_us,error\n"
        "0,eager,6 us,1803.000000,1800.000000,\n"
        "0,graph,6 us,906.000000,900.000000,\n"
        "1,eager,2 us,902.000000,900.000000,\n"
        "1,graph,2 us,902.000000,900.000000,\n");
}

TEST_CASE("sweep says what run says with the same --set") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", small);
  const Result sweep = run_gpusim(
      folder, "sweep '" + file + "' --vary 'workload.kernels.0.duration=1 us:9 us:4 us' --columns all");
  const std::vector<std::string> rows = lines_of(sweep.out);
  REQUIRE(rows.size() == 7);
  std::size_t row = 1;
  for (const char* duration : {"1 us", "5 us", "9 us"}) {
    const Result run = run_gpusim(
        folder, "run '" + file + "' --format csv --set 'workload.kernels.0.duration=" + duration + "'");
    const std::vector<std::string> lines = lines_of(run.out);
    REQUIRE(lines.size() == 3);
    for (const char* variant : {"eager", "graph"}) {
      const std::string& line = lines[variant == std::string("eager") ? 1 : 2];
      // Behind scenario, file and variant stand the figures, before version and input; behind point, variant
      // and value too, and no error.
      const std::string mark = std::string(",") + variant + ",";
      const std::string figures = without_origin(line.substr(line.find(mark) + mark.size()));
      CHECK_THAT(rows[row], ContainsSubstring("," + std::string(duration) + "," + figures + ","));
      ++row;
    }
  }
}

TEST_CASE("A point that fails is a row with its error, and the sweep goes on") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", small);
  const Result result =
      run_gpusim(folder, "sweep '" + file +
                             "' --variant eager --vary 'workload.kernels.0.duration=3 us,x,1 us' "
                             "--columns makespan");
  CHECK(result.exit_code == 0);
  const std::vector<std::string> rows = lines_of(result.out);
  REQUIRE(rows.size() == 4);
  CHECK(rows[1] == "0,eager,3 us,1803.000000,");
  CHECK_THAT(rows[2], ContainsSubstring("1,eager,x,,"));
  CHECK_THAT(rows[2], ContainsSubstring("'x' is not a duration"));
  CHECK(rows[3] == "2,eager,1 us,1801.000000,");
  CHECK_THAT(result.err, ContainsSubstring("1 of 3 rows have an error; the first, at point 1"));
}

TEST_CASE("A stuck point is a row too") {
  const Folder folder;
  const std::string file = folder.write("stuck.yaml", R"(name: stuck
workload: {kernels: [{record: a}, {kernel: k, duration: 3 us, after: [a]}]}
)");
  const Result result =
      run_gpusim(folder, "sweep '" + file + "' --vary 'workload.kernels.0.record=a,b' --columns makespan");
  CHECK(result.exit_code == 0);
  const std::vector<std::string> rows = lines_of(result.out);
  REQUIRE(rows.size() == 3);
  CHECK_THAT(rows[1], ContainsSubstring("0,default,a,3.000000,"));
  CHECK_THAT(rows[2], ContainsSubstring("deadlock"));
}

TEST_CASE("What sweep cannot do at any point is said before the first one") {
  const Folder folder;
  const std::string file = quoted(folder.write("small.yaml", small));
  const auto error = [&](const std::string& arguments) {
    const Result result = run_gpusim(folder, "sweep " + file + " " + arguments);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    return result.err;
  };
  CHECK_THAT(
      error("--vary 'workload.kernels.0.duraton=1 us,2 us'"),
      ContainsSubstring("--vary workload.kernels.0.duraton=1 us: error: workload.kernels[0].duraton: unknown "
                        "key\n  hint: did you mean 'duration'?"));
  CHECK_THAT(error("--vary 'workload.kernels.0.duration=1,2'"), ContainsSubstring("'1' has no unit"));
  CHECK_THAT(error("--vary 'workload.kernels.7.duration=1 us'"),
             ContainsSubstring("no such item in a list of 1"));
  CHECK_THAT(
      error("--vary seed=1,2 --columns step_tim"),
      ContainsSubstring("--columns step_tim: error: no such figure\n  hint: did you mean 'step_time_us'?"));
  CHECK_THAT(error("--vary seed=1,2 --out x.txt"), ContainsSubstring("unknown ending '.txt'"));
  CHECK_THAT(error("--vary seed=1,2 --resume"), ContainsSubstring("needs a file to go on with"));
  CHECK_THAT(error("--vary seed=1,2 --out /nowhere/x.csv"),
             ContainsSubstring("/nowhere/x.csv: error: cannot be "
                               "written"));
  CHECK_THAT(error("--vary seed=1,2 --jobs -1"), ContainsSubstring("--jobs: error: must be 1 to 4096"));
  CHECK_THAT(error("--vary seed=1,2 --zip --random 1"), ContainsSubstring("give one of the two"));
}

TEST_CASE("The bytes of a sweep do not depend on --jobs") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", small);
  const std::string arguments = "sweep '" + file +
                                "' --vary 'workload.kernels.0.launch=1 us:8 us:100 ns' --vary "
                                "workload.kernels.0.repeat=1,50,x,300 --out '";
  for (const char* name : {"one.csv", "one.jsonl"}) {
    const std::string one = folder / name;
    const std::string many = folder / (std::string("many-") + name);
    CHECK(run_gpusim(folder, arguments + one + "' --jobs 1").exit_code == 0);
    CHECK(run_gpusim(folder, arguments + many + "' --jobs 5").exit_code == 0);
    CHECK(content(one) == content(many));
    CHECK(lines_of(content(one)).size() >= 71 * 4 * 2);
  }
}

TEST_CASE("Shards follow each other as the whole") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", small);
  const std::string arguments =
      "sweep '" + file + "' --vary 'workload.kernels.0.launch=1 us:8 us:1 us' --columns makespan --out '";
  const std::string whole = folder / "whole.jsonl";
  CHECK(run_gpusim(folder, arguments + whole + "'").exit_code == 0);
  std::string parts;
  for (const char* shard : {"1/3", "2/3", "3/3"}) {
    const std::string part = folder / "part.jsonl";
    CHECK(run_gpusim(folder, arguments + part + "' --shard " + shard).exit_code == 0);
    parts += content(part);
  }
  CHECK(parts == content(whole));
}

TEST_CASE("A sweep that is interrupted exits with 130, and --resume completes its file") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", small);
  const std::string arguments =
      "sweep '" + file +
      "' --vary 'workload.kernels.0.launch=1 us:8 us:1 ns' --columns makespan,step_time "
      "--jobs 2 --out '";
  const std::string whole = folder / "whole.csv";
  CHECK(run_gpusim(folder, arguments + whole + "'").exit_code == 0);
  const std::string cut = folder / "cut.csv";
  // As from a terminal: timeout sends SIGINT after a moment.
  const std::string script = "timeout --preserve-status --signal=INT 0.3 '" + std::string(GPUSIM_PROGRAM) +
                             "' " + arguments + cut + "' 2>'" + (folder / "err") + "'";
  const int status = std::system(script.c_str());
  CHECK(WEXITSTATUS(status) == 130);
  CHECK_THAT(content(folder / "err"), ContainsSubstring("interrupted: "));
  CHECK_THAT(content(folder / "err"), ContainsSubstring("--resume goes on with it"));
  const std::string before = content(cut);
  CHECK(before.size() < content(whole).size());
  CHECK(before == content(whole).substr(0, before.size()));
  CHECK(run_gpusim(folder, arguments + cut + "' --resume").exit_code == 0);
  CHECK(content(cut) == content(whole));
  // A changed scenario is another sweep.
  folder.write("small.yaml", std::string(small) + "seed: 7\n");
  const Result other = run_gpusim(folder, arguments + cut + "' --resume");
  CHECK(other.exit_code == 2);
  CHECK_THAT(other.err, ContainsSubstring("belongs to another sweep"));
}

TEST_CASE("A bare trace can be swept") {
  const Folder folder;
  const std::string trace = std::string(GPUSIM_SOURCE_DIR) + "/tests/golden/near_the_roofs.trace.json";
  const Result result =
      run_gpusim(folder, "sweep '" + trace +
                             "' --vary 'hardware=h200,a100_80gb' --variant cuda_graph --columns makespan");
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK(lines_of(result.out).size() == 3);
}

namespace {

/// Each row without its last result column and error.
std::vector<std::string> without_last(const std::vector<std::string>& rows) {
  std::vector<std::string> cut;
  for (const std::string& row : rows) {
    std::string text = row.substr(0, row.rfind(','));
    cut.push_back(text.substr(0, text.rfind(',')));
  }
  return cut;
}

/// Columns that times tell, for which programs are put together where they can be.
constexpr const char* times =
    "makespan,step_time,gpu_utilization,idle.dispatch,idle.gap,kernels,host.blocked_queue";

/// The rows of the times, and the same from points that are read one by one: the regime needs more than
/// times.
void check_points_one_by_one(const Folder& folder, const std::string& arguments) {
  INFO(arguments);
  const Result fast = run_gpusim(folder, arguments + " --columns " + times);
  const Result slow = run_gpusim(folder, arguments + " --columns " + times + ",regime");
  INFO(fast.err << slow.err);
  REQUIRE(fast.exit_code == 0);
  REQUIRE(slow.exit_code == 0);
  const std::vector<std::string> rows = lines_of(fast.out);
  const std::vector<std::string> expected = without_last(lines_of(slow.out));
  REQUIRE(rows.size() == expected.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    // Rows with an error end in its text.
    if (rows[i].find(": error: ") != std::string::npos) continue;
    CHECK(rows[i] == expected[i] + (i == 0 ? ",error" : ","));
  }
}

}  // namespace

TEST_CASE("Points put together from axes are those that are read one by one") {
  const Folder folder;
  const auto sweep = [&](const std::string& file, const std::string& axes) {
    check_points_one_by_one(folder, "sweep " + quoted(file) + " " + axes);
  };
  const std::string copies = folder.write("copies.yaml", R"(name: copies
hardware: h200
workload:
  kernels:
    - {copy: h2d, bytes: 4 MiB, stream: up}
    - {kernel: roofs, bytes: 16 MiB, flops: 1 GFLOP, dtype: bf16, repeat: 5}
    - {kernel: fixed, duration: 3 us, repeat: 20}
    - {memset: zeros, bytes: 32 MiB, repeat: 3}
    - {copy: d2h, bytes: 4 B, blocking: true}
variants:
  eager: {}
  graph: {cuda_graph: full}
  isolated: {steps: 3}
)");
  const std::string launch = "--vary 'hardware.launch.call=1 us:9 us:1 us' ";
  const std::string bandwidth = "--vary 'hardware.memory.bandwidth=1 TB/s:6 TB/s:500 GB/s' ";
  sweep(copies, launch + bandwidth);
  sweep(copies, launch + "--vary 'workload.kernels.2.duration=1 us:9 us:1 us,x'");
  sweep(copies, launch + "--vary 'hardware.launch.arrival_after_call=0 us:9 us:1 us'");
  sweep(copies, launch + "--vary hardware.launch.queue_depth=1:10:1");
  sweep(copies, bandwidth + "--vary 'workload.kernels.1.bytes=1 MiB:64 MiB:8 MiB'");
  sweep(copies, bandwidth + "--vary 'hardware.peak.bf16=100 TFLOP/s:900 TFLOP/s:100 TFLOP/s'");
  sweep(copies,
        "--vary 'workload.kernels.0.bytes=1 MiB:64 MiB:8 MiB' --vary 'hardware.host_link.h2d=10 GB/s:60 "
        "GB/s:10 GB/s'");
  sweep(copies,
        launch + "--vary hardware=h200,a100_80gb,t4 --vary 'workload.kernels.2.duration=1 us:9 us:2 us'");
  const std::string scenarios = std::string(GPUSIM_SOURCE_DIR) + "/scenarios/";
  sweep(scenarios + "launch_bound_decode.yaml",
        "--vary 'workload.kernels.0.launch=1 us:9 us:1 us' --vary 'workload.kernels.0.duration=1 us:9 us:1 "
        "us'");
  sweep(scenarios + "streams_share_a_gpu.yaml",
        "--variant memory_bound --vary 'variants.memory_bound.workload.kernels.0.bytes=1 GB:5 GB:500 MB' "
        "--vary "
        "'variants.memory_bound.workload.kernels.1.duration=100 us:2 ms:200 us'");
}

TEST_CASE("A swept point is the point that run sets, for kernels, networks, compilers, training and traces") {
  const Folder folder;
  const std::string network = folder.write("network.yaml", R"(name: network
hardware: h200
host: xeon-h200-cloud
workload: {network: llama_160m, step: decode, batch: 1, sequence: 128}
variants:
  eager: {}
  graph: {cuda_graph: full}
  compiled: {backend: inductor, mode: reduce-overhead}
)");
  const std::string training = folder.write("training.yaml", R"(name: training
hardware: h200
host: xeon-h200-cloud
workload: {network: gpt2, step: training, batch: 2, sequence: 128}
variants:
  eager: {}
  compiled: {backend: inductor}
)");
  const std::string trace = std::string(GPUSIM_SOURCE_DIR) + "/tests/golden/near_the_roofs.trace.json";
  const std::string launch = "hardware.launch.call=2 us,5 us";
  const std::string bandwidth = "hardware.memory.bandwidth=3 TB/s,4.8 TB/s";
  struct Case {
    std::string file;
    std::string first;
    std::string second;
  };
  for (const Case& c :
       {Case{network, launch, bandwidth}, Case{network, "host.speed=0.5,2", "workload.batch=1,4"},
        Case{training, launch, bandwidth}, Case{training, "host.speed=0.5,2", "workload.batch=1,2"},
        Case{trace, "hardware=h200,a100_80gb", launch}}) {
    const Result sweep = run_gpusim(folder, "sweep " + quoted(c.file) + " --columns all --vary " +
                                                quoted(c.first) + " --vary " + quoted(c.second));
    INFO(c.file << "\n" << sweep.err);
    REQUIRE(sweep.exit_code == 0);
    const std::vector<std::string> rows = lines_of(sweep.out);
    const auto values = [](const std::string& axis) {
      const std::string list = axis.substr(axis.find('=') + 1);
      return std::vector<std::string>{list.substr(0, list.find(',')), list.substr(list.find(',') + 1)};
    };
    const auto path = [](const std::string& axis) { return axis.substr(0, axis.find('=') + 1); };
    std::size_t row = 1;
    for (const std::string& first : values(c.first))
      for (const std::string& second : values(c.second)) {
        const Result run = run_gpusim(folder, "run " + quoted(c.file) + " --format csv --set " +
                                                  quoted(path(c.first) + first) + " --set " +
                                                  quoted(path(c.second) + second));
        const std::vector<std::string> lines = lines_of(run.out);
        for (std::size_t i = 1; i < lines.size(); ++i, ++row) {
          // Behind scenario, file and variant.
          std::size_t begin = 0;
          for (int k = 0; k < 3; ++k) begin = lines[i].find(',', begin) + 1;
          REQUIRE(row < rows.size());
          const std::string& line = rows[row];
          // What would make a step fit is only looked for if all columns are asked for, as here.
          CHECK_THAT(line, ContainsSubstring("," + first + "," + second + "," +
                                             without_origin(lines[i].substr(begin)) + ","));
        }
      }
    CHECK(row == rows.size());
  }
}
