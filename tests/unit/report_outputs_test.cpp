// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "sim/report/format.hpp"
#include "sim/report/metrics.hpp"
#include "sim/report/report.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/report_examples.hpp"

namespace gpusim::report {
namespace {

using namespace gpusim::literals;
using nlohmann::ordered_json;

ScenarioReport two_variants() {
  ScenarioReport report;
  report.scenario = "300 small kernels";
  report.file = "scenarios/small, kernels.yaml";
  report.variants = {test::many_small_kernels(), test::one_cuda_graph()};
  report.expectations = {{.path = "eager.step_time",
                          .relation = "equals",
                          .expected = 1800_us,
                          .actual = 1800_us,
                          .within = "",
                          .relative_to = "",
                          .where = "",
                          .pass = true},
                         {.path = "cuda_graph.regime",
                          .relation = "equals",
                          .expected = std::string("memory"),
                          .actual = std::string("mixed"),
                          .within = "",
                          .relative_to = "",
                          .where = "small.yaml:20:5",
                          .pass = false}};
  return report;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST_CASE("JSON has the keys of the contract in their order") {
  const auto json = ordered_json::parse(to_json({two_variants()}, "1.2.3"));
  CHECK(json["gpusim"] == "1.2.3");
  const auto& scenario = json["scenarios"][0];
  CHECK(scenario["scenario"] == "300 small kernels");
  CHECK(scenario["file"] == "scenarios/small, kernels.yaml");
  const std::vector<std::string> contract{"variant",
                                          "step_time_us",
                                          "makespan_us",
                                          "steady",
                                          "gpu_busy_us",
                                          "gpu_utilization",
                                          "idle_us",
                                          "gpu_ops",
                                          "kernels",
                                          "memcpys",
                                          "memsets",
                                          "kernel_launches",
                                          "cuda_graph_launches",
                                          "graph_breaks",
                                          "mfu",
                                          "hfu",
                                          "model_flops",
                                          "hbm_bytes",
                                          "tokens_per_second",
                                          "peak_memory_bytes",
                                          "regime",
                                          "compile_time_s",
                                          "window"};
  std::vector<std::string> keys;
  for (const auto& [key, value] : scenario["runs"][0].items()) keys.push_back(key);
  REQUIRE(keys.size() >= contract.size());
  keys.resize(contract.size());
  CHECK(keys == contract);

  std::vector<std::string> causes;
  for (const auto& [key, value] : scenario["runs"][0]["idle_us"].items()) causes.push_back(key);
  CHECK(causes ==
        std::vector<std::string>{"event", "synchronization", "launch_latency", "gap", "dispatch", "input"});
  std::vector<std::string> window;
  for (const auto& [key, value] : scenario["runs"][0]["window"].items()) window.push_back(key);
  CHECK(window == std::vector<std::string>{"steps", "wall_us", "busy_us", "idle_us"});
  CHECK(scenario["runs"][0]["mfu"].is_null());
  CHECK(scenario["runs"][0]["kernels"].is_number_integer());
  CHECK(scenario["expectations"][0]["path"] == "eager.step_time");
  CHECK(scenario["expectations"][0]["expected"] == 1800.0);
  CHECK(scenario["expectations"][0]["pass"] == true);
  CHECK(scenario["expectations"][1]["actual"] == "mixed");
}

TEST_CASE("microseconds in JSON carry six decimals") {
  const std::string json = to_json({two_variants()}, "0");
  CHECK_THAT(json, test::ContainsSubstring("\"makespan_us\": 1803.000000,"));
  CHECK_THAT(json, test::ContainsSubstring("\"step_time_us\": 1800.000000,"));
}

TEST_CASE("JSON of nothing is valid") {
  CHECK(ordered_json::parse(to_json({}, "0"))["scenarios"].empty());
  CHECK(ordered_json::parse(to_json({ScenarioReport{}}, "0"))["scenarios"][0]["runs"].empty());
  ScenarioReport report;
  report.variants.emplace_back();
  CHECK(ordered_json::parse(to_json({report}, "0"))["scenarios"][0]["runs"][0]["gpu_ops"] == 0);
}

TEST_CASE("CSV has one row per variant, as many cells as columns, and quotes where needed") {
  const auto lines = lines_of(to_csv({two_variants()}, "0"));
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].starts_with(
      "scenario,file,variant,step_time_us,makespan_us,steady,gpu_busy_us,gpu_utilization,"
      "idle_us.event,"));
  CHECK(lines[1].starts_with(
      "300 small kernels,\"scenarios/small, kernels.yaml\",eager,1800.000000,1803.000000,true,"));
  const auto commas = [](const std::string& line) { return std::count(line.begin(), line.end(), ','); };
  CHECK(commas(lines[1]) == commas(lines[0]) + 1);  // the one in quotes
  CHECK(commas(lines[2]) == commas(lines[0]) + 1);
}

TEST_CASE("the text report stays within 80 columns with hostile names") {
  ScenarioReport report = two_variants();
  report.scenario = std::string(200, 'x') + " " + std::string(50, 'y');
  report.description = "\x1b[2J" + std::string(30, 'a') + " " + std::string(70, 'b');
  for (int i = 0; i < 6; ++i) {
    report.variants.push_back(test::near_the_roofs());
    report.variants.back().variant = "variant_with_a_rather_long_name_" + std::to_string(i);
    for (std::string& name : report.variants.back().program.names)
      name = "void at::native::" + name + std::string(300, 'k');
  }
  for (const std::string& line : lines_of(to_text(report))) {
    CAPTURE(line);
    CHECK(width_of(line) <= 80);
    CHECK(line.find('\x1b') == std::string::npos);
    CHECK((line.empty() || line.back() != ' '));
  }
}

TEST_CASE("the text report puts the variants side by side") {
  const std::string text = to_text(two_variants());
  CHECK_THAT(text, test::ContainsSubstring("1800.00 us"));
  CHECK_THAT(text, test::ContainsSubstring("906.00 us"));
  CHECK_THAT(text, test::ContainsSubstring("1.99x"));
  CHECK_THAT(text, test::ContainsSubstring("expectations: 1 of 2 hold"));
  CHECK_THAT(text, test::ContainsSubstring("FAILED cuda_graph.regime is mixed, expected memory"));
}

TEST_CASE("advice for a launch-bound step names dispatch, its amount and what a CUDA graph brings") {
  const std::string text = advice(two_variants());
  CHECK_THAT(text, test::ContainsSubstring("largest cause is dispatch, 900.00 us or 50.0 % of the step"));
  CHECK_THAT(text, test::ContainsSubstring("As one CUDA graph the step would take 906.00 us, 1.99x as fast"));
  CHECK_THAT(text, test::ContainsSubstring("cuda_graph is the fastest"));
}

TEST_CASE("advice does not recommend a CUDA graph to a busy GPU") {
  ScenarioReport report;
  report.variants = {test::near_the_roofs()};
  report.variants[0].one_cuda_graph = WhatIf{515_us, 1.0};
  const std::string text = advice(report);
  CAPTURE(text);
  CHECK(text.find("Idle time comes first") == std::string::npos);
  CHECK(text.find("As one CUDA graph the step would take") == std::string::npos);
  CHECK_THAT(text, test::ContainsSubstring("of the compute roof"));
  CHECK_THAT(text, test::ContainsSubstring("matrix products take 76.9 %"));
}

TEST_CASE("a quote in a name is doubled in CSV") {
  ScenarioReport report;
  report.scenario = "the \"fast\" one";
  report.variants.emplace_back();
  CHECK_THAT(to_csv({report}, "0"), test::ContainsSubstring("\n\"the \"\"fast\"\" one\",,default,"));
}

TEST_CASE("a little idle time is bounded by what it could win, not made the first task") {
  ScenarioReport report;
  report.variants.emplace_back();
  engine::Totals& totals = report.variants[0].steady.period;
  totals.steps = 1;
  totals.busy = 95_us;
  totals.idle[static_cast<std::size_t>(engine::IdleCause::Dispatch)] = 5_us;
  totals.wall = 100_us;
  totals.counts.kernels = 10;
  report.variants[0].one_cuda_graph = WhatIf{98_us, 0.97};
  const std::string text = advice(report);
  CHECK_THAT(text, test::ContainsSubstring("without any of it (5.00 us) the step would be 5.0 % shorter"));
  CHECK_THAT(text,
             test::ContainsSubstring("one CUDA graph would take 2.0 % off the step: not worth a change"));
  CHECK(text.find("Idle time comes first") == std::string::npos);
  report.variants[0].one_cuda_graph = WhatIf{101_us, 0.94};
  CHECK_THAT(advice(report), test::ContainsSubstring("would not shorten it"));
  report.variants[0].one_cuda_graph = WhatIf{96_us, 0.99};
  CHECK_THAT(advice(report), test::ContainsSubstring("As one CUDA graph the step would take 96.00 us"));
}

TEST_CASE("an isolated run of several steps says of how many") {
  ScenarioReport report;
  report.variants.emplace_back();
  report.variants[0].isolated.totals.steps = 3;
  CHECK_THAT(to_text(report), test::ContainsSubstring("makespan, 3 steps"));
  CHECK_THAT(to_text(report), test::ContainsSubstring("step time is the mean of 3 simulated steps"));
  report.variants.push_back(test::one_cuda_graph());
  CHECK_THAT(to_text(report), test::ContainsSubstring("makespan, all steps"));
}

TEST_CASE("variants with the same kernels share one list of them") {
  const std::string text = to_text(two_variants());
  CHECK_THAT(text, test::ContainsSubstring("kernels of eager"));
  CHECK(text.find("kernels of cuda_graph") == std::string::npos);
}

TEST_CASE("advice doubts an MFU above the peak") {
  ScenarioReport report;
  report.variants = {test::near_the_roofs()};
  report.variants[0].model_flops = Flops(1e13);
  CHECK_THAT(advice(report), test::ContainsSubstring("check the model's FLOPs"));
}

TEST_CASE("advice on a memory peak above the device's capacity says that the step does not run") {
  ScenarioReport report;
  report.variants = {test::near_the_roofs()};
  report.variants[0].device.capacity = Bytes(2'000'000'000);
  CHECK_THAT(to_text(report), test::ContainsSubstring("its peak of 3 GiB exceeds the device's 1.9 GiB"));
  report.variants[0].device.capacity = Bytes(4'000'000'000);
  CHECK(to_text(report).find("exceeds") == std::string::npos);
}

TEST_CASE("advice on a step without GPU work says so") {
  ScenarioReport report;
  report.variants.emplace_back();
  CHECK_THAT(advice(report), test::ContainsSubstring("No GPU op runs"));
  CHECK(advice(ScenarioReport{}).empty());
}

TEST_CASE("each idle cause has its own remedy") {
  const auto with = [](engine::IdleCause cause) {
    ScenarioReport report;
    report.variants.emplace_back();
    engine::Totals& totals = report.variants[0].steady.period;
    totals.steps = 1;
    totals.busy = 50_us;
    totals.idle[static_cast<std::size_t>(cause)] = 50_us;
    totals.wall = 100_us;
    totals.counts.kernels = 10;
    totals.counts.synchronizations = 1;
    return advice(report);
  };
  CHECK_THAT(with(engine::IdleCause::Input), test::ContainsSubstring("prefetch"));
  CHECK_THAT(with(engine::IdleCause::Synchronization), test::ContainsSubstring(".item()"));
  CHECK_THAT(with(engine::IdleCause::Gap), test::ContainsSubstring("fusion"));
  CHECK_THAT(with(engine::IdleCause::Event), test::ContainsSubstring("stream"));
  CHECK_THAT(with(engine::IdleCause::LaunchLatency), test::ContainsSubstring("run dry"));
  CHECK_THAT(with(engine::IdleCause::Dispatch), test::ContainsSubstring("CUDA graph"));
}

TEST_CASE("two reports of one result are equal byte for byte") {
  CHECK(to_text(two_variants()) == to_text(two_variants()));
  CHECK(to_json({two_variants()}, "0") == to_json({two_variants()}, "0"));
}

}  // namespace
}  // namespace gpusim::report
