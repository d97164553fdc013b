// SPDX-License-Identifier: Apache-2.0
// What the report says of a critical path: names, tables, JSON.
#include <sstream>

#include <nlohmann/json.hpp>

#include "sim/report/format.hpp"
#include "sim/report/path_summary.hpp"
#include "sim/report/report.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/program_builder.hpp"

namespace gpusim::report {
namespace {

using test::ContainsSubstring;
using test::ProgramBuilder;
using test::us;

PathSummary summary_of(const engine::Program& program, const engine::Machine& machine = {}) {
  engine::Timeline timeline;
  engine::run(program, machine, 1, &timeline);
  const CriticalPath path = critical_path(program, machine, timeline);
  return summarize_path(program, timeline, path, counterfactuals(program, machine, timeline, path), 1);
}

/// Work that leads to a launch, three launches of a short kernel, one of a long one, and a synchronisation.
PathSummary launch_bound() {
  ProgramBuilder b;
  b.work(us(5));
  const engine::Index small = b.op("small", us(1));
  for (int i = 0; i < 3; ++i) b.launch(small, us(4));
  b.launch(b.op("void large<int>", us(20)), us(4), us(6), 0);
  b.synchronize_stream(0).return_latency = us(2);
  return summary_of(b.program);
}

TEST_CASE("a summary adds up pieces by subject and resource, longest first") {
  const PathSummary summary = launch_bound();
  REQUIRE(summary.makespan == us(45));
  std::vector<std::pair<std::string, Picoseconds>> found;
  for (const PathSummary::Item& item : summary.items)
    found.emplace_back(
        std::string(gpusim::name(item.resource)) + ": " + item.subject.action + " " + item.subject.name,
        item.time);
  CHECK(found == std::vector<std::pair<std::string, Picoseconds>>{
                     {"kernel:  void large<int>", us(20)},
                     {"host: launch of small", us(12)},
                     {"host: work for small", us(5)},
                     {"host: launch of void large<int>", us(4)},
                     {"launch_latency: launch of void large<int>", us(2)},
                     {"synchronization: return of synchronize ", us(2)},
                 });
  CHECK(summary.items[1].count == 3);
  REQUIRE(summary.longest.size() == 4);
  CHECK(summary.longest[0].duration() == us(21));
  CHECK(summary.longest[0].pieces == 5);
  CHECK(summary.longest[0].subject == PathSubject{"work for", "small"});
  CHECK(summary.longest[1].resource == PathResource::Kernel);
  CHECK(summary.ops == 4);
  CHECK(summary.ops_with_slack == 3);
  CHECK(summary.time_with_slack == us(3));
  // They end at 10, 14 and 18; to start the long one at 23 they may end at 21, 22 and 23.
  CHECK(summary.slack_sum == us(11 + 8 + 5));
  CHECK(summary.slack_median == us(8));
}

TEST_CASE("the text of a path has its tables, its slack and what infinite speed would give") {
  const std::string text = path_text(launch_bound(), "critical path of eager");
  CHECK_THAT(text, ContainsSubstring("critical path of eager                                   time   share  "
                                     "stretches\n"));
  CHECK_THAT(text, ContainsSubstring(
                       "host                                                 21.00 us  46.7 %          1\n"));
  CHECK_THAT(text, ContainsSubstring(
                       "launch of small                  host               12.00 us       3      26.7 %\n"));
  CHECK_THAT(text, ContainsSubstring(
                       "large<int>                       kernel             20.00 us       1      44.4 %\n"));
  CHECK_THAT(text, ContainsSubstring(
                       "work for small and more          host               21.00 us       5        0 us\n"));
  CHECK_THAT(text, ContainsSubstring(
                       "3 of 4 GPU ops, 3.00 us of run time, could each end later without lengthening\n"
                       "the run: half of them by 8.00 us or more.\n"));
  CHECK_THAT(text, ContainsSubstring("if the host were infinitely fast:       25.00 us    1.80x\n"));
  CHECK_THAT(text, ContainsSubstring("if kernels and copies took no time:     25.00 us    1.80x\n"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(width_of(line) <= 80);
  }
}

TEST_CASE("an empty path is said in one table") {
  const std::string text = path_text(summary_of(ProgramBuilder().program), "critical path");
  CHECK_THAT(text, ContainsSubstring("makespan"));
  CHECK(text.find("on the path") == std::string::npos);
}

TEST_CASE("the critical path is in the reports only where it was asked for") {
  ScenarioReport report;
  report.variants.emplace_back();
  CHECK(to_text(report).find("critical path") == std::string::npos);
  CHECK(nlohmann::json::parse(to_json({report}, "0"))["scenarios"][0]["runs"][0].count("critical_path") == 0);

  report.variants[0].critical_path = launch_bound();
  CHECK_THAT(to_text(report), ContainsSubstring("\ncritical path  "));
  const auto json = nlohmann::json::parse(to_json({report}, "0"))["scenarios"][0]["runs"][0]["critical_path"];
  CHECK(json["makespan_us"] == 45.0);
  CHECK(json["steps"] == 1);
  CHECK(json["by_resource_us"].size() == path_resource_count);
  CHECK(json["by_resource_us"]["launch_latency"] == 2.0);
  CHECK(json["items"][1]["action"] == "launch of");
  CHECK(json["items"][1]["name"] == "small");
  CHECK(json["items"][1]["count"] == 3);
  CHECK(json["longest_stretches"][0]["to_us"] == 21.0);
  CHECK(json["slack"]["ops_with_slack"] == 3);
  CHECK(json["infinitely_fast"]["host"]["makespan_us"] == 25.0);
  CHECK(json["infinitely_fast"]["launches"]["order_kept_us"] == 30.0);

  report.variants.push_back(report.variants[0]);
  report.variants[0].variant = "eager";
  report.variants[1].variant = "compiled";
  CHECK_THAT(to_text(report), ContainsSubstring("\ncritical path of compiled  "));
}

}  // namespace
}  // namespace gpusim::report
