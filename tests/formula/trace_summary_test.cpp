// SPDX-License-Identifier: Apache-2.0
// The trace-summary placeholder of the first chapter: every case through the project's own summary of a
// trace.
#include <string>
#include <utility>
#include <vector>

#include "sim/trace/summary.hpp"
#include "sim/trace/trace.hpp"
#include "tests/support/catch.hpp"

namespace gpusim::test {
namespace {

using Ranking = std::vector<std::pair<std::string, double>>;

struct SummaryCase {
  std::string file;  ///< In scenarios/seeds/traces.
  double wall = 0;
  double busy = 0;
  double utilization = 0;  ///< Six decimals.
  double largest_gap = 0;
  std::size_t top_count = 3;
  Ranking top;
};

void check_summary(const SummaryCase& c) {
  const Summary summary = summarize(read_trace(GPUSIM_SOURCE_DIR "/scenarios/seeds/traces/" + c.file));
  CHECK(summary.wall_us == c.wall);
  CHECK(summary.busy_us == c.busy);
  CHECK(summary.utilization == Approx(c.utilization).margin(0.5e-6));
  CHECK(summary.largest_gap_us == c.largest_gap);
  Ranking top;
  for (const KernelTotal& kernel : summary.kernel_totals) {
    if (top.size() < c.top_count) top.emplace_back(kernel.name, kernel.total_us);
  }
  CHECK(top == c.top);
}

TEST_CASE("Z1: two overlapping kernels count once, 15 us busy") {
  check_summary({.file = "z1_overlap_counted_once.json",
                 .wall = 15,
                 .busy = 15,
                 .utilization = 1.000000,
                 .largest_gap = 0,
                 .top_count = 3,
                 .top = {{"add", 10}, {"gemm", 10}}});
}

TEST_CASE("Z2: a nested kernel adds nothing, 25 of 30 us busy") {
  check_summary({.file = "z2_nested_event.json",
                 .wall = 30,
                 .busy = 25,
                 .utilization = 0.833333,
                 .largest_gap = 5,
                 .top_count = 3,
                 .top = {{"gemm", 20}, {"add", 5}, {"nccl", 5}}});
}

TEST_CASE("Z3: touching kernels leave no gap") {
  check_summary({.file = "z3_touching_kernels_leave_no_gap.json",
                 .wall = 10,
                 .busy = 10,
                 .utilization = 1.000000,
                 .largest_gap = 0,
                 .top_count = 3,
                 .top = {{"a", 5}, {"b", 5}}});
}

TEST_CASE("Z4: kernels out of order leave the gaps they leave in order, 10 us the largest") {
  check_summary({.file = "z4_two_gaps_unsorted_input.json",
                 .wall = 40,
                 .busy = 28,
                 .utilization = 0.700000,
                 .largest_gap = 10,
                 .top_count = 3,
                 .top = {{"a", 10}, {"c", 10}, {"b", 8}}});
}

TEST_CASE("Z5: kernels of one name are summed and ties go by name") {
  check_summary({.file = "z5_same_name_summed.json",
                 .wall = 34,
                 .busy = 20,
                 .utilization = 0.588235,
                 .largest_gap = 6,
                 .top_count = 2,
                 .top = {{"j", 8}, {"k", 8}}});
}

TEST_CASE("Z6: a kernel of another stream hides part of a gap") {
  check_summary({.file = "z6_gap_hidden_by_another_stream.json",
                 .wall = 30,
                 .busy = 25,
                 .utilization = 0.833333,
                 .largest_gap = 5,
                 .top_count = 3,
                 .top = {{"a", 15}, {"b", 12}}});
}

TEST_CASE("Z7: the wall starts with the first kernel, not at zero") {
  check_summary({.file = "z7_wall_from_the_first_start.json",
                 .wall = 30,
                 .busy = 20,
                 .utilization = 0.666667,
                 .largest_gap = 10,
                 .top_count = 3,
                 .top = {{"a", 10}, {"b", 10}}});
}

TEST_CASE("Z8: a trace without GPU work gives zeros and an empty ranking") {
  check_summary({.file = "z8_empty_trace.json",
                 .wall = 0,
                 .busy = 0,
                 .utilization = 0.000000,
                 .largest_gap = 0,
                 .top_count = 3,
                 .top = {}});
}

TEST_CASE("Z9: identical intervals count once, and the first name is the top one") {
  check_summary({.file = "z9_identical_intervals.json",
                 .wall = 10,
                 .busy = 10,
                 .utilization = 1.000000,
                 .largest_gap = 0,
                 .top_count = 1,
                 .top = {{"a", 10}}});
}

TEST_CASE("Z10: a long kernel that spans short ones leaves one gap of 30 us") {
  check_summary({.file = "z10_long_kernel_spans_short_ones.json",
                 .wall = 140,
                 .busy = 110,
                 .utilization = 0.785714,
                 .largest_gap = 30,
                 .top_count = 3,
                 .top = {{"long", 100}, {"u", 10}, {"s", 1}}});
}

}  // namespace
}  // namespace gpusim::test
