// SPDX-License-Identifier: Apache-2.0
// Reports as a person sees them, beside the code that makes them. `cmake --build BUILD --target approve`
// rewrites the files after an intended change; read the difference before committing it.
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "sim/report/chrome_trace.hpp"
#include "sim/report/report.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/report_examples.hpp"

namespace gpusim::report {
namespace {

using namespace gpusim::literals;

void check_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(GPUSIM_SOURCE_DIR) + "/tests/golden/" + name;
  if (std::getenv("GPUSIM_APPROVE") != nullptr) {
    std::ofstream(path, std::ios::binary) << text;
    SUCCEED("approved " << path);
    return;
  }
  std::ifstream file(path, std::ios::binary);
  std::ostringstream expected;
  expected << file.rdbuf();
  CHECK(text == expected.str());
}

ScenarioReport launch_bound() {
  ScenarioReport report;
  report.scenario = "300 small kernels, eager and as one CUDA graph";
  report.description =
      "Every kernel runs for 3 us, every launch takes the host 6 us: the GPU waits half of the time.";
  report.file = "scenarios/small_kernels.yaml";
  report.variants = {test::many_small_kernels(), test::one_cuda_graph()};
  report.expectations = {{.path = "eager.step_time",
                          .relation = "equals",
                          .expected = 1800_us,
                          .actual = 1800_us,
                          .within = "",
                          .relative_to = "",
                          .where = "scenarios/small_kernels.yaml:14:5",
                          .pass = true}};
  return report;
}

ScenarioReport roof_bound() {
  ScenarioReport report;
  report.scenario = "A compiled step near its roofs";
  report.file = "scenarios/roofs.yaml";
  report.variants = {test::near_the_roofs()};
  return report;
}

ScenarioReport replay() {
  ScenarioReport report;
  report.scenario = "Replay of a trace";
  report.file = "scenarios/replay.yaml";
  report.variants = {test::many_small_kernels()};
  report.variants[0].trace = TraceComparison{.traced_wall = 1810_us,
                                             .traced_busy = 900_us,
                                             .start_error_median = 800_ns,
                                             .start_error_p90 = 2'100_ns,
                                             .start_error_max = 9_us,
                                             .kernels = 300,
                                             .unlinked_ops = 2};
  return report;
}

TEST_CASE("report of a launch-bound step") {
  check_golden("launch_bound.txt", to_text(launch_bound()));
}
TEST_CASE("report of a step near its roofs") {
  check_golden("near_the_roofs.txt", to_text(roof_bound()));
}
TEST_CASE("report of a replayed trace") {
  check_golden("replay.txt", to_text(replay()));
}
TEST_CASE("JSON of a step near its roofs") {
  check_golden("near_the_roofs.json", to_json({roof_bound()}, "0.0.0"));
}
TEST_CASE("CSV of a launch-bound step") {
  check_golden("launch_bound.csv", to_csv({launch_bound()}, "0"));
}

TEST_CASE("Chrome trace of a step near its roofs") {
  const VariantResult result = test::near_the_roofs();
  std::ostringstream out;
  write_chrome_trace(out, result.program, *result.timeline,
                     {.title = "near the roofs", .device_name = "example"});
  check_golden("near_the_roofs.trace.json", out.str());
}

}  // namespace
}  // namespace gpusim::report
