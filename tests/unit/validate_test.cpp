// SPDX-License-Identifier: Apache-2.0
// Tables of measured cases and how predictions are scored.
#include <cstdlib>
#include <string>

#include "sim/validate/score.hpp"
#include "sim/validate/validation_table.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/message_of.hpp"

namespace {

using namespace gpusim;
using namespace gpusim::validate;

Table table(const std::string& text) {
  return read_table_text(text, "t.csv");
}

TEST_CASE("a table holds cases, limits and what hosts are calibrated on") {
  const Table t = table(
      "# limit: host-bound mean=25% worst=60%\n"
      "# calibrate: run2 on a\n"
      "# for people\n"
      "case,scenario,set,machine,steps,step_us,step_us_low,step_us_high,gpu_ops\n"
      "a,n.yaml,workload.batch=1;workload.sequence=2,run2,5,10,9,12,3\n"
      "\"b, quoted\",n.yaml,,,,7,,,\n");
  REQUIRE(t.cases.size() == 2);
  CHECK(t.cases[0].sets == std::vector<std::string>{"workload.batch=1", "workload.sequence=2"});
  CHECK(t.cases[0].steps == 5);
  CHECK(t.cases[0].step_us->low == 9);
  CHECK(t.cases[0].gpu_ops == 3);
  CHECK(t.cases[1].name == "b, quoted");
  CHECK(t.cases[1].step_us->high == 7);
  CHECK_FALSE(t.cases[1].gpu_ops);
  REQUIRE(t.limits.size() == 1);
  CHECK(t.limits[0].group == "host-bound");
  CHECK(t.limits[0].mean == 0.25);
  CHECK(t.calibrations.at("run2") == "a");
}

TEST_CASE("mistakes in a table are located and reported together") {
  const std::string message = test::message_of([] {
    table(
        "case,scenario,stp_us\n"
        "a,n.yaml,1\n"
        "a,n.yaml\n");
  });
  CHECK(message.find("t.csv:1:15: error: stp_us: unknown column") != std::string::npos);
  CHECK(message.find("did you mean 'step_us'?") != std::string::npos);
  CHECK(message.find("t.csv:3:1: error: 2 cells, but the header names 3 columns") != std::string::npos);
  CHECK(test::message_of([] {
          table("case,scenario,step_us\na,n.yaml,fast\n");
        }).find("t.csv:2:10: error: step_us: 'fast' is no number") != std::string::npos);
  CHECK(test::message_of([] { table("case,scenario\na,n.yaml\na,n.yaml\n"); }).find("'a' is there twice") !=
        std::string::npos);
  CHECK(test::message_of([] {
          table("# calibrate: m on z\ncase,scenario\na,n.yaml\n");
        }).find("there is no case 'z'") != std::string::npos);
  CHECK(test::message_of([] { table(""); }).find("has no header") != std::string::npos);
}

TEST_CASE("a prediction inside the measured spread is not outside of it") {
  const Table t = table("case,scenario,step_us,step_us_low,step_us_high,busy_us\na,n,100,90,120,95\n");
  const Result inside = score(t, {{.step_us = 118, .busy_us = 95}});
  CHECK(inside.groups[0].name == "device-bound");
  CHECK(inside.groups[0].scores[0].outside == 0);
  CHECK(inside.groups[0].scores[0].error == Approx(0.18));
  const Result above = score(t, {{.step_us = 132, .busy_us = 95}});
  CHECK(above.groups[0].scores[0].outside == Approx(0.1));
  const Result below = score(t, {{.step_us = 81, .busy_us = 95}});
  CHECK(below.groups[0].scores[0].outside == Approx(-0.1));
}

TEST_CASE("a rule, not a column, says what bounds a step") {
  const Table t = table("case,scenario,step_us,busy_us\na,n,100,79\nb,n,100,80\nc,n,100,\n");
  CHECK(step_group(t.cases[0], {}) == "host-bound");
  CHECK(step_group(t.cases[1], {}) == "device-bound");
  CHECK(step_group(t.cases[2], {}) == "step");
  CHECK(step_group(t.cases[0], {.cuda_graph = true}) == "CUDA graph");
}

TEST_CASE("the row that a host is calibrated on does not count") {
  const Table t = table(
      "# calibrate: m on a\n# limit: host-bound mean=10%\n"
      "case,scenario,machine,step_us,busy_us\na,n,m,100,10\nb,n,m,100,10\n");
  const Result result = score(t, {{.step_us = 100}, {.step_us = 115}});
  CHECK(result.groups[0].counted == 1);
  CHECK(result.groups[0].mean == Approx(0.15));
  REQUIRE(result.failures.size() == 1);
  CHECK(to_text(result).find("past the limit: host-bound: mean 15.0 %, allowed 10.0 %") != std::string::npos);
}

TEST_CASE("cases are listed worst first, and in no more than 80 columns") {
  const Table t = table(
      "case,scenario,step_us,gpu_ops\n"
      "good,n,100,3\n"
      "a_case_with_a_name_that_is_longer_than_its_column,n,100,3\n");
  const Result result = score(t, {{.step_us = 101, .gpu_ops = 3}, {.step_us = 50, .gpu_ops = 4}});
  CHECK(result.groups[0].scores[0].name.substr(0, 6) == "a_case");
  CHECK(result.groups[1].exact == 0.5);
  const std::string text = to_text(result);
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = text.find('\n', begin);
    CHECK(end - begin <= 80);
    begin = end + 1;
  }
}

TEST_CASE("a limit for a group without cases is past") {
  const Table t = table("# limit: CUDA graph mean=5%\ncase,scenario,gpu_ops\na,n,1\n");
  CHECK(score(t, {{.gpu_ops = 1}}).failures.size() == 1);
}

}  // namespace
