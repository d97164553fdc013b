// SPDX-License-Identifier: Apache-2.0
// What people and programs are shown of traces.
#include "sim/report/trace_report.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "sim/report/format.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/trace_text.hpp"

using namespace gpusim;
using gpusim::test::call;
using gpusim::test::ContainsSubstring;
using gpusim::test::kernel;
using gpusim::test::span;
using gpusim::test::trace_text;

namespace {

void check_width(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(report::width_of(line) <= 80);
    CHECK((line.empty() || line.back() != ' '));
  }
}

}  // namespace

TEST_CASE("What is shown of every trace fits 80 columns and is valid JSON whose parts add up") {
  const std::string shared = GPUSIM_SHARED_DIR;
  std::vector<std::string> folders = {std::string(GPUSIM_SOURCE_DIR) + "/tests/data/traces"};
  for (const std::string folder : {"/traces/public", "/measured/h200/traces", "/measured/h200x2/traces"}) {
    if (!shared.empty()) folders.push_back(shared + folder);
  }
  for (const std::string& folder : folders) {
    if (!std::filesystem::exists(folder)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string file = entry.path().string();
      if (file.find(".json") == std::string::npos) continue;
      INFO(file);
      Trace trace = read_trace(file);
      trace.file = entry.path().filename().string();
      const report::TraceAnalysis analysis(trace);
      check_width(report::trace_summary_text(trace, analysis));
      check_width(report::trace_path_text(trace, analysis.path, 10));
      const auto json = nlohmann::json::parse(report::trace_summary_json(trace, analysis));
      double sum = json.at("busy_us");
      for (const auto& [cause, time] : json.at("idle_us").items()) sum += time.get<double>();
      CHECK(sum == Approx(json.at("wall_us").get<double>()));
      CHECK(json.at("largest_gaps").size() == std::min<std::size_t>(100, analysis.detail.gaps.size()));
      const auto path = nlohmann::json::parse(report::trace_path_json(trace, analysis.path, 10));
      double pieces = 0;
      for (const auto& piece : path.at("pieces")) pieces += piece.at("length_us").get<double>();
      CHECK(pieces == Approx(path.at("span_us").get<double>()));
    }
  }
}

TEST_CASE("The advice names the cause of idle time, the kernels worth fusing and the largest gains") {
  std::vector<std::string> events;
  for (int i = 0; i < 5; ++i) {
    events.push_back(call("cudaLaunchKernel", std::to_string(100 * i), "10", i));
    events.push_back(kernel(std::to_string(100 * i + 12), "8", i, 7, "vectorized_elementwise_kernel"));
  }
  const Trace trace = read_trace_bytes(trace_text(events));
  const std::vector<std::string> advice = report::trace_advice(trace, report::TraceAnalysis(trace));
  REQUIRE(advice.size() == 5);
  // First kernel 12..20, last 412..420: 40 of 408 us.
  CHECK_THAT(advice[0], ContainsSubstring("9.8 % of 408.00 us, 40.00 us"));
  // Gaps of 92 us: 2 of them on the way to the device.
  CHECK_THAT(advice[1],
             ContainsSubstring("368.00 us, 90.2 % of the wall, in 4 gaps; 97.8 % of it is dispatch"));
  CHECK_THAT(advice[1], ContainsSubstring("5 launches of 10.00 us"));
  CHECK_THAT(advice[2], ContainsSubstring("elementwise & other 100.0 %"));
  CHECK_THAT(advice[3], ContainsSubstring("record_shapes"));
  // From 0 to 420, 4 times 90 us between the calls.
  CHECK_THAT(advice[4], ContainsSubstring("420.00 us would be shorter by at most 360.00 us if host work"));
}

TEST_CASE("Without GPU ops the advice says how to get some") {
  const Trace trace = read_trace_bytes(trace_text({span("cpu_op", "aten::mm", "1", "2")}));
  const report::TraceAnalysis analysis(trace);
  CHECK_THAT(report::trace_summary_text(trace, analysis), ContainsSubstring("ProfilerActivity.CUDA"));
  CHECK_THAT(report::trace_path_text(trace, analysis.path, 10), ContainsSubstring("no call and no GPU op"));
}

TEST_CASE("A kernel's label leaves out the types of its parameters and keeps both ends of its name") {
  CHECK(report::trace_label("void at::native::fill<int>(int, char)", 40) == "fill<int>");
  CHECK(report::trace_label("autograd::engine::evaluate_function: MulBackward0", 40) == "MulBackward0");
  const std::string label = report::trace_label("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", 24);
  CHECK(label == "nvjet_sm90_tst_2..pA_NNT");
  CHECK(report::width_of(label) == 24);
  CHECK(report::trace_label("(((", 40) == "(((");
  CHECK(report::trace_label("()", 40) == "()");
}
