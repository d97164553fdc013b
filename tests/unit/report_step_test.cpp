// SPDX-License-Identifier: Apache-2.0
// What a report says of a training step: phases, memory, and what would fit.
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "sim/report/chrome_trace.hpp"
#include "sim/report/metrics.hpp"
#include "sim/report/report.hpp"
#include "sim/report/text_parts.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/report_examples.hpp"

namespace gpusim::report {
namespace {

using namespace gpusim::literals;
using nlohmann::ordered_json;
using test::ContainsSubstring;

/// 1 ms of forward, 2 ms of backward, 0.5 ms of optimizer; 8 GiB at most, of a device that has 6.
VariantResult training_step() {
  VariantResult result = test::near_the_roofs();
  result.phases = {PhaseTime{900_us, 1_ms, 100}, PhaseTime{1900_us, 2_ms, 200}, PhaseTime{400_us, 500_us, 9}};
  MemorySummary memory;
  memory.at_peak[MemoryKind::Parameters] = 2_GiB;
  memory.at_peak[MemoryKind::Activations] = 5_GiB;
  memory.at_peak[MemoryKind::ActivationGradients] = 1_GiB;
  memory.peak_at = "loss.backward";
  memory.saved = 4_GiB;
  memory.allocated = 8_GiB;
  result.memory = memory;
  result.peak_memory = 8_GiB;
  result.hardware_flops = Flops(2.8e11);
  result.out_of_memory =
      OutOfMemory{.over = 2_GiB,
                  .way = OutOfMemory::Way{.changes = {"workload.checkpointing=blocks", "workload.batch=4"},
                                          .step_time = 4_ms,
                                          .peak = 3_GiB,
                                          .tokens_per_second = 1e6},
                  .tried = 5};
  return result;
}

TEST_CASE("the phases of a training step have their share of it") {
  CHECK(phases_text(metrics(training_step()), "") ==
        "phases                           GPU busy         span    share  GPU ops\n"
        "  forward                       900.00 us   1000.00 us   28.6 %      100\n"
        "  backward                     1900.00 us   2000.00 us   57.1 %      200\n"
        "  optimizer                     400.00 us    500.00 us   14.3 %        9\n\n");
  CHECK(phases_text(metrics(test::near_the_roofs()), "").empty());
}

TEST_CASE("memory at the peak is listed by what it is taken for") {
  CHECK(memory_text(metrics(training_step()), "") ==
        "memory: 8 GiB at most, while loss.backward runs\n"
        "  parameters                        2 GiB   25.0 %\n"
        "  activations                       5 GiB   62.5 %\n"
        "  activation gradients              1 GiB   12.5 %\n"
        "  saved for backward                4 GiB\n\n");
  CHECK(memory_text(metrics(test::near_the_roofs()), "").empty());
  VariantResult pooled = training_step();
  pooled.memory->cuda_graph_pool = 6_GiB;
  pooled.memory->allocated = 2_GiB;
  CHECK_THAT(memory_text(metrics(pooled), ""),
             ContainsSubstring("CUDA graphs hold 6 GiB in a pool of their own"));
  CHECK_THAT(memory_text(metrics(pooled), ""), ContainsSubstring("says 2 GiB"));
}

TEST_CASE("a step that does not fit says by how much, and what would fit") {
  CHECK(fit_text(metrics(training_step()), "") ==
        "out of memory: 2 GiB more than the device has. It fits with\n"
        "  workload.checkpointing=blocks and workload.batch=4: 4000.00 us a step, a peak\n"
        "  of 3 GiB, 1.00 M tokens/s.\n\n");
  VariantResult hopeless = training_step();
  hopeless.out_of_memory->way.reset();
  CHECK_THAT(fit_text(metrics(hopeless), "a"),
             ContainsSubstring("out of memory of a: 2 GiB more than the device has. None of 5"));
  CHECK(fit_text(metrics(test::near_the_roofs()), "").empty());
}

TEST_CASE("the text report of a training step stays within 80 columns") {
  VariantResult step = training_step();
  step.variant = std::string(60, 'v');
  step.memory->peak_at = std::string(120, 'k');
  step.out_of_memory->way->changes.push_back("workload.parameters." + std::string(40, 'p') + "=1");
  ScenarioReport report;
  report.variants = {step, test::one_cuda_graph()};
  std::istringstream text(to_text(report));
  for (std::string line; std::getline(text, line);) {
    INFO(line);
    CHECK(line.size() <= 80);
  }
}

TEST_CASE("JSON and CSV tell phases, memory and what fits; null where there is nothing to tell") {
  ScenarioReport report;
  report.variants = {training_step(), test::one_cuda_graph()};
  const auto runs = ordered_json::parse(to_json({report}, "0"))["scenarios"][0]["runs"];
  CHECK(runs[0]["phases"]["forward_busy_us"] == 900.0);
  CHECK(runs[0]["phases"]["backward_span_us"] == 2000.0);
  CHECK(runs[0]["phases"]["optimizer_gpu_ops"] == 9);
  CHECK(runs[0]["memory"]["activations_bytes"] == std::int64_t{5} << 30);
  CHECK(runs[0]["memory"]["optimizer_states_bytes"] == 0);
  CHECK(runs[0]["memory"]["saved_activations_bytes"] == std::int64_t{4} << 30);
  CHECK(runs[0]["memory"]["peak_at"] == "loss.backward");
  CHECK(runs[0]["out_of_memory"]["over_bytes"] == std::int64_t{2} << 30);
  CHECK(runs[0]["out_of_memory"]["fits_with"] == "workload.checkpointing=blocks workload.batch=4");
  CHECK(runs[0]["out_of_memory"]["fits_step_time_us"] == 4000.0);
  CHECK(runs[0]["hardware_flops"] == 2.8e11);
  CHECK(runs[1]["phases"]["forward_busy_us"].is_null());
  CHECK(runs[1]["memory"]["activations_bytes"].is_null());
  CHECK(runs[1]["out_of_memory"]["over_bytes"].is_null());
  CHECK_THAT(to_csv({report}, "0"), ContainsSubstring(",phases.forward_busy_us,"));
}

TEST_CASE("HFU counts what runs, MFU what the model needs") {
  const VariantResult step = training_step();
  const Metrics m = metrics(step);
  REQUIRE(m.mfu);
  REQUIRE(m.hfu);
  CHECK(*m.hfu / *m.mfu == test::Approx(2.8 / 2.6));
}

TEST_CASE("the chrome trace follows memory by what it is taken for") {
  VariantResult step = training_step();
  MemoryShares first;
  first[MemoryKind::Parameters] = Bytes(100);
  MemoryShares second = first;
  second[MemoryKind::Activations] = Bytes(50);
  MemoryShares third = first;
  third[MemoryKind::Activations] = Bytes(20);
  // Two pieces begin at the second instruction: the one that needs more counts.
  step.memory_marks = {{0, 0, first}, {0, 1, third}, {0, 1, second}};
  std::ostringstream out;
  write_chrome_trace(out, step.program, *step.timeline, {.title = "t", .memory = step.memory_marks});
  const ordered_json trace = ordered_json::parse(out.str());
  std::vector<ordered_json> counters;
  for (const ordered_json& event : trace["traceEvents"])
    if (event.value("name", "") == "device memory") counters.push_back(event);
  REQUIRE(counters.size() == 2);
  CHECK(counters[0]["ph"] == "C");
  CHECK(counters[0]["args"]["parameters"] == 100);
  CHECK(counters[0]["args"]["activations"] == 0);
  CHECK(counters[1]["args"]["activations"] == 50);
  CHECK(counters[1]["ts"] > counters[0]["ts"]);
}

}  // namespace
}  // namespace gpusim::report
