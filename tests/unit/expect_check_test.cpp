// SPDX-License-Identifier: Apache-2.0
#include "sim/app/expectations.hpp"
#include "tests/support/catch.hpp"

using namespace gpusim;
using namespace gpusim::literals;
using Relation = Expectation::Relation;

namespace {

std::vector<report::Metrics> metrics() {
  report::Metrics eager;
  eager.variant = "eager";
  eager.step_time = 1000_us;
  eager.steady = true;
  eager.gpu_utilization = 0.5;
  eager.kernels = 300;
  eager.regime = report::Regime::Overhead;
  report::Metrics graph = eager;
  graph.variant = "graph";
  graph.step_time = 500_us;
  return {eager, graph};
}

Expectation expect(const std::string& metric, Relation relation, Expectation::Value value) {
  Expectation e;
  e.path = "eager." + metric;
  e.variant = "eager";
  e.metric = metric;
  e.relation = relation;
  e.value = std::move(value);
  e.where = {"x.yaml", 3, 5};
  return e;
}

report::ExpectationResult check(const Expectation& e) {
  return check_expectations({e}, metrics()).at(0);
}

Expectation within(Expectation e, double value, bool relative, const std::string& text) {
  e.within = Expectation::Tolerance{value, relative, text};
  return e;
}

}  // namespace

TEST_CASE("equals without a tolerance is exact to the picosecond") {
  CHECK(check(expect("step_time_us", Relation::Equals, 1000_us)).pass);
  CHECK_FALSE(check(expect("step_time_us", Relation::Equals, 1000_us + 1_ps)).pass);
  CHECK(check(expect("step_time_us", Relation::Equals, 1000.0)).pass);
}

TEST_CASE("min and max hold at the bound itself") {
  CHECK(check(expect("step_time_us", Relation::Min, 1000_us)).pass);
  CHECK(check(expect("step_time_us", Relation::Max, 1000_us)).pass);
  CHECK_FALSE(check(expect("step_time_us", Relation::Min, 1001_us)).pass);
  CHECK_FALSE(check(expect("step_time_us", Relation::Max, 999_us)).pass);
}

TEST_CASE("within widens what is expected, and keeps not away") {
  CHECK(check(within(expect("step_time_us", Relation::Equals, 960_us), 0.05, true, "5 %")).pass);
  CHECK_FALSE(check(within(expect("step_time_us", Relation::Equals, 950_us), 0.05, true, "5 %")).pass);
  CHECK(check(within(expect("step_time_us", Relation::Equals, 998_us), 2, false, "2 us")).pass);
  CHECK_FALSE(check(within(expect("step_time_us", Relation::Equals, 997_us), 2, false, "2 us")).pass);
  CHECK(check(within(expect("step_time_us", Relation::Max, 990_us), 0.02, true, "2 %")).pass);
  CHECK(check(expect("step_time_us", Relation::Not, 1001_us)).pass);
  CHECK_FALSE(check(within(expect("step_time_us", Relation::Not, 1001_us), 2, false, "2 us")).pass);
}

TEST_CASE("words, truth values and what is unknown can be expected") {
  CHECK(check(expect("regime", Relation::Equals, std::string("overhead"))).pass);
  CHECK_FALSE(check(expect("regime", Relation::Equals, std::string("memory"))).pass);
  CHECK(check(expect("steady", Relation::Equals, true)).pass);
  CHECK(check(expect("mfu", Relation::Equals, std::monostate{})).pass);
  CHECK_FALSE(check(expect("step_time_us", Relation::Equals, std::monostate{})).pass);
}

TEST_CASE("an unknown figure meets no number, not even by differing from it") {
  CHECK_FALSE(check(expect("mfu", Relation::Min, 0.0)).pass);
  CHECK_FALSE(check(expect("mfu", Relation::Equals, 0.0)).pass);
  CHECK_FALSE(check(expect("mfu", Relation::Not, 0.5)).pass);
}

TEST_CASE("relative_to compares the quotient of two variants") {
  Expectation e = expect("step_time_us", Relation::Equals, 2.0);
  e.relative_to = "graph";
  CHECK(check(e).pass);
  CHECK(std::get<double>(check(e).actual) == 2.0);
}

TEST_CASE("a result says path, condition and both values") {
  CHECK(describe(check(expect("step_time_us", Relation::Max, 999_us))) ==
        "eager.step_time_us: expected at most 999 us, but it is 1000 us");
  CHECK(describe(check(within(expect("step_time_us", Relation::Equals, 1000_us + 1_ps), 0, false, "0 us"))) ==
        "eager.step_time_us: expected 1000.000001 us within 0 us, but it is 1000 us");
  CHECK(check(expect("kernels", Relation::Equals, 1.0)).where == "x.yaml:3:5");
  CHECK(check(expect("kernels", Relation::Equals, 300.0)).pass);
}
