// SPDX-License-Identifier: Apache-2.0
// `gpusim advise` on steps whose remedy is known.
#include <string>

#include <nlohmann/json.hpp>

#include "tests/support/catch.hpp"
#include "tests/support/run_gpusim.hpp"

using gpusim::test::ContainsSubstring;
using gpusim::test::Folder;
using gpusim::test::Result;
using gpusim::test::run_gpusim;
using nlohmann::json;

namespace {

const std::string scenarios = std::string(GPUSIM_SOURCE_DIR) + "/scenarios/";

json advice(const Folder& folder, const std::string& arguments) {
  const Result result = run_gpusim(folder, "advise " + arguments + " --format json");
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return json::parse(result.out);
}

}  // namespace

TEST_CASE("A launch-bound step is advised to use a CUDA graph") {
  const Folder folder;
  // 300 launches of 6 us against 300 kernels of 3 us.
  const json found = advice(folder, scenarios + "launch_bound_decode.yaml");
  CHECK(found["variant"] == "eager");
  CHECK(found["present"]["step_time_us"] == 1800.0);
  CHECK(found["next"]["changes"] == json({"cuda_graph=full"}));
  CHECK(found["next"]["step_time_us"] == 900.0);
  CHECK(found["next"]["speedup"] == 2.0);
}

TEST_CASE("A step bound by memory traffic is advised to fuse, and that is what the compiled step takes") {
  const Folder folder;
  // Large elementwise ops one after the other: as one kernel each byte moves once.
  const std::string file = folder.write("chain.yaml", R"(
hardware: h200
host: xeon-h200-cloud
workload: {network: layer_norm_gelu, batch: 64, sequence: 4096, dtype: bf16}
)");
  const json found = advice(folder, file);
  REQUIRE(found["next"].is_object());
  const std::string change = found["next"]["changes"][0];
  CHECK_THAT(change, ContainsSubstring("backend=inductor"));
  // A CUDA graph of the same kernels has nothing to give.
  for (const json& single : found["single_changes"])
    if (single["changes"] == json({"cuda_graph=full"})) CHECK(single["speedup"] < 1.03);
  // What it says is what the run gives.
  std::string sets;
  for (const std::string set : found["next"]["set"]) sets += " --set '" + set + "'";
  const json run = json::parse(run_gpusim(folder, "run --format json " + file + sets).out);
  CHECK(run["scenarios"][0]["runs"][0]["step_time_us"] == found["next"]["step_time_us"]);
}

TEST_CASE("A step that does not fit is advised what does") {
  const Folder folder;
  const json found =
      advice(folder, scenarios + "train_gpt2.yaml --variant store --set workload.batch=192 --backend eager");
  CHECK(found["present"]["verdict"] == "needs_memory");
  CHECK(found["next"]["changes"] == json({"batch=96 accumulation=2"}));
  CHECK(found["next"]["peak_memory_bytes"] <= found["limits"]["memory_bytes"]);
  for (const json& one : found["front"]) CHECK(one["peak_memory_bytes"] <= found["limits"]["memory_bytes"]);
}

TEST_CASE("Limits of memory and latency hold for all that is proposed") {
  const Folder folder;
  const json found =
      advice(folder, scenarios +
                         "train_gpt2.yaml --variant store --objective tokens --max-memory '20 GB' "
                         "--max-latency '60 ms' --backend eager");
  REQUIRE(found["front"].size() > 1);
  for (const json& one : found["front"]) {
    CHECK(one["peak_memory_bytes"] <= 20'000'000'000);
    CHECK(one["step_time_us"] <= 60'000.0);
  }
}

TEST_CASE("Any number of threads finds the same") {
  const Folder folder;
  const std::string arguments =
      "advise " + scenarios + "train_gpt2.yaml --variant checkpoint --backend eager --jobs ";
  CHECK(run_gpusim(folder, arguments + "1").out == run_gpusim(folder, arguments + "3").out);
}

TEST_CASE("What a variant says of compiling is taken back where eager execution is tried") {
  const Folder folder;
  const std::string file = folder.write("compiled.yaml", R"(
hardware: h200
host: xeon-h200-cloud
workload: {network: llama_160m, batch: 1, sequence: 128}
mode: reduce-overhead
graph_breaks: [{after: 'block[3]', cause: item}]
variants:
  compiled: {backend: inductor, fusion: {siblings: false}}
)");
  const json found = advice(folder, file);
  bool eager = false;
  bool mended = false;
  for (const json& single : found["single_changes"]) {
    INFO(single.dump());
    if (single["changes"] == json({"eager"})) eager = single["verdict"] == "fits";
    if (single["changes"] == json({"graph_breaks=null"})) mended = single["verdict"] == "fits";
  }
  CHECK(eager);
  CHECK(mended);
}

TEST_CASE("What advise cannot use is refused at the option") {
  const Folder folder;
  const std::string file = scenarios + "launch_bound_decode.yaml ";
  const auto says = [&](const std::string& arguments, const std::string& what) {
    const Result result = run_gpusim(folder, "advise " + arguments);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, ContainsSubstring(what));
  };
  says(file + "--objective tokens", "--objective tokens: error: only steps of networks have tokens");
  says(file + "--objective cost", "--objective cost: error: needs the price");
  says(file + "--price cheap", "--price: error: 'cheap' is no price");
  says(file + "--max-memory 80", "--max-memory: error: ");
  says(file + "--max-latency '3 GB'", "--max-latency: error: ");
  says(file + "--backend inductr", "did you mean 'inductor'?");
  says(file + "--variant eagre", "unknown variant 'eagre'");
  says("nowhere.yaml", "nowhere.yaml");
}
