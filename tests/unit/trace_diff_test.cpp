// SPDX-License-Identifier: Apache-2.0
// Differences of traces, on traces small enough to work out by hand, and on real ones.
#include "sim/trace_use/diff.hpp"

#include <filesystem>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "sim/config/error.hpp"
#include "sim/trace_use/align.hpp"
#include "sim/trace_use/kernel_traits.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/program_builder.hpp"
#include "tests/support/written_trace.hpp"

using namespace gpusim;
using gpusim::test::ContainsSubstring;
using gpusim::test::message_of;
using gpusim::test::TraceText;
using gpusim::test::us;

namespace {

using Pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

const DiffRow& row(const TraceDiff& diff, DiffRow::Change change, const std::string& name) {
  for (const DiffRow& r : diff.rows)
    if (r.change == change && (r.name_a == name || r.name_b == name)) return r;
  throw std::runtime_error("no row for " + name);
}

/// The sum of all rows, busy and idle.
Picoseconds sum_of_rows(const TraceDiff& diff) {
  Picoseconds sum = diff.a.overlap - diff.b.overlap;
  for (const DiffRow& r : diff.rows) sum += r.difference();
  for (std::size_t c = 0; c < trace_idle_count; ++c) sum += diff.b.idle[c] - diff.a.idle[c];
  return sum;
}

Picoseconds idle(const DiffSide& side, TraceIdle cause) {
  return side.idle[static_cast<std::size_t>(cause)];
}

/// Length of a longest common subsequence, by the definition.
std::size_t longest(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b,
                    std::size_t i = 0, std::size_t j = 0) {
  if (i == a.size() || j == b.size()) return 0;
  if (a[i] == b[j]) return 1 + longest(a, b, i + 1, j + 1);
  return std::max(longest(a, b, i + 1, j), longest(a, b, i, j + 1));
}

}  // namespace

TEST_CASE("Alignment finds a longest common subsequence of equal tokens, rising on both sides") {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::uint32_t> a(random() % 9);
    std::vector<std::uint32_t> b(random() % 9);
    for (std::uint32_t& token : a) token = random() % 4;
    for (std::uint32_t& token : b) token = random() % 4;
    const Pairs pairs = align(a, b);
    CHECK(pairs.size() == longest(a, b));
    for (std::size_t k = 0; k < pairs.size(); ++k) {
      CHECK(a[pairs[k].first] == b[pairs[k].second]);
      if (k > 0) CHECK(pairs[k].first > pairs[k - 1].first);
      if (k > 0) CHECK(pairs[k].second > pairs[k - 1].second);
    }
  }
}

TEST_CASE("Without room for a table, unique tokens hold long sequences together, then n-th appearances") {
  // 1 9 2 against 2 9 1: 9 is unique in both; with a table of no cells nothing else is found around it.
  CHECK(align({7, 1, 9, 2, 8}, {7, 2, 9, 1, 8}, 0).size() == 3);
  // 1 2 1 2 1 against 2 1 2 1: no token is unique; the n-th appearances of both rise.
  const Pairs pairs = align({3, 1, 2, 1, 2, 4}, {5, 1, 2, 1, 2, 6}, 0);
  CHECK(pairs == Pairs{{1, 1}, {2, 2}, {3, 3}, {4, 4}});
}

TEST_CASE("What appeared, vanished and got slower is told apart, and the rows add up") {
  TraceText a;
  a.launch(0, 4, 1).kernel("x", 6, 10, 1).launch(5, 4, 2).kernel("old", 17, 5, 2);
  a.launch(10, 4, 3).kernel("y", 23, 4, 3);
  TraceText b;
  b.launch(0, 4, 1).kernel("x", 6, 12, 1).launch(10, 4, 3).kernel("y", 19, 4, 3);
  b.launch(18, 4, 4).kernel("new", 24, 1, 4).launch(19, 4, 5).kernel("newer", 25, 1, 5);
  const TraceDiff diff = diff_traces(a.read(), b.read());
  CHECK(row(diff, DiffRow::Change::Matched, "x").difference() == us(2));
  CHECK(row(diff, DiffRow::Change::Matched, "y").difference() == us(0));
  CHECK(row(diff, DiffRow::Change::Vanished, "old").difference() == us(-5));
  CHECK(row(diff, DiffRow::Change::Appeared, "new").difference() == us(1));
  CHECK(diff.a.wall == us(21));
  CHECK(diff.b.wall == us(20));
  CHECK(sum_of_rows(diff) == us(-1));
}

TEST_CASE(
    "Products with other names are the same product; an elementwise kernel only if it is the only one") {
  TraceText a;
  a.launch(0, 1, 1).kernel("nvjet_a", 6, 10, 1).launch(2, 1, 2).kernel("p", 17, 5, 2);
  TraceText b;
  b.launch(0, 1, 1).kernel("nvjet_b", 6, 8, 1).launch(2, 1, 2).kernel("q", 15, 5, 2);
  CHECK(row(diff_traces(a.read(), b.read()), DiffRow::Change::Renamed, "nvjet_a").difference() == us(-2));
  CHECK(row(diff_traces(a.read(), b.read()), DiffRow::Change::Renamed, "p").name_b == "q");
  b.launch(4, 1, 3).kernel("r", 21, 5, 3);
  CHECK(row(diff_traces(a.read(), b.read()), DiffRow::Change::Vanished, "p").count_a == 1);
  CHECK(row(diff_traces(a.read(), b.read()), DiffRow::Change::Appeared, "r").count_b == 1);
}

TEST_CASE("A kernel is matched with a simulated one by the framework's op behind it") {
  TraceText a;
  a.cpu_op("aten::mul", 0, 5).launch(1, 2, 1).kernel("loop<f>", 6, 10, 1);
  a.cpu_op("aten::add", 10, 5).launch(11, 2, 2).kernel("loop<g>", 17, 10, 2);
  TraceText b;
  b.launch(1, 2, 1).kernel("add: elementwise", 6, 9, 1);
  const TraceDiff diff = diff_traces(a.read(), b.read());
  CHECK(row(diff, DiffRow::Change::Renamed, "add: elementwise").name_a == "loop<g>");
  CHECK(row(diff, DiffRow::Change::Vanished, "loop<f>").count_a == 1);
}

TEST_CASE("Time without a GPU op has a cause: the host, a synchronisation, the way to the device, a gap") {
  // Kernel 1 ends at 16. Kernel 2 was launched long before and starts a gap of 1 us later. The host waits
  // from 18 to 32 for kernel 2 (ends 27), works until its launch call returns at 44, and kernel 3 starts
  // at 46.
  TraceText text;
  text.launch(0, 4, 1).kernel("a", 6, 10, 1).launch(4, 4, 2).kernel("b", 17, 10, 2);
  text.call("cudaDeviceSynchronize", 18, 14).launch(40, 4, 3).kernel("c", 46, 4, 3);
  const Trace trace = text.read();
  const TraceDiff diff = diff_traces(trace, trace);
  CHECK(idle(diff.a, TraceIdle::Gap) == us(1));
  CHECK(idle(diff.a, TraceIdle::Synchronization) == us(32 - 27));
  CHECK(idle(diff.a, TraceIdle::Dispatch) == us(44 - 32));
  CHECK(idle(diff.a, TraceIdle::LaunchLatency) == us(2));
  CHECK(diff.a.wall == us(44));
  CHECK(diff.difference() == us(0));
}

TEST_CASE("Kernels at the same time count once, and the rest is overlap") {
  TraceText text;
  text.launch(0, 1, 1).kernel("a", 6, 10, 1, 7).launch(1, 1, 2).kernel("b", 8, 10, 2, 20);
  const Trace trace = text.read();
  const TraceDiff diff = diff_traces(trace, trace);
  CHECK(diff.a.wall == us(12));
  CHECK(diff.a.sum == us(20));
  CHECK(diff.a.overlap == us(8));
}

TEST_CASE(
    "With as many steps all are compared, else one step of each: from its first op to the next step's") {
  TraceText two;
  two.step(0, 0, 20).launch(1, 1, 1).kernel("a", 4, 10, 1);
  two.step(1, 20, 20).launch(21, 1, 2).kernel("a", 24, 12, 2);
  TraceText three = two;
  three.step(2, 40, 20).launch(41, 1, 3).kernel("a", 44, 13, 3);
  const TraceDiff same = diff_traces(two.read(), two.read());
  CHECK(same.a.step == -1);
  CHECK(same.a.wall == us(32));
  const TraceDiff one = diff_traces(two.read(), three.read());
  CHECK(one.a.step == 0);
  CHECK(one.a.wall == us(20));
  // Both periods of the three are 20; the later of the two.
  CHECK(one.b.step == 1);
  CHECK(row(one, DiffRow::Change::Matched, "a").difference() == us(2));
  CHECK(sum_of_rows(one) == one.difference());
}

TEST_CASE("A trace without GPU ops cannot be compared") {
  CHECK_THAT(message_of([] { diff_traces(TraceText().cpu_op("aten::mm", 0, 1).read(), TraceText().read()); }),
             ContainsSubstring("the trace has no GPU op: there is nothing to compare"));
}

TEST_CASE("Elementwise kernels are called by what they compute") {
  CHECK(telling_name(
            "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::BFloat16>, "
            "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>)") ==
        "elementwise CUDAFunctor_add<BFloat16>");
  CHECK(telling_name("void at::native::elementwise_kernel<128, 4, "
                     "at::native::gpu_kernel_impl_nocast<at::native::CUDAFunctor_add<float> "
                     ">(at::TensorIteratorBase&, float const&)::{lambda(int)#1}>(int)") ==
        "elementwise CUDAFunctor_add<float>");
  CHECK(telling_name("void flash<int>(float*, int)") == "flash<int>");
  CHECK(telling_name("nvjet_sm90") == "nvjet_sm90");
}

TEST_CASE("The rows of any two traces add up to the difference, to the picosecond") {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  for (const std::string& folder : {std::string(GPUSIM_SHARED_DIR) + "/traces/public",
                                    std::string(GPUSIM_SHARED_DIR) + "/measured/h200/traces",
                                    std::string(GPUSIM_SOURCE_DIR) + "/tests/data/traces"})
    if (fs::exists(folder))
      for (const auto& entry : fs::directory_iterator(folder))
        if (entry.path().extension() == ".gz") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  std::vector<Trace> traces;
  for (const std::string& file : files) {
    Trace trace = read_trace(file);
    if (!trace.ops.empty()) traces.push_back(std::move(trace));
  }
  REQUIRE(traces.size() >= 2);
  for (std::size_t i = 0; i < traces.size(); ++i)
    for (const bool one_step : {false, true}) {
      const Trace& a = traces[i];
      const Trace& b = traces[(i + 1) % traces.size()];
      const TraceDiff diff = diff_traces(a, b, {.one_step = one_step});
      INFO(a.file << " and " << b.file);
      CHECK(sum_of_rows(diff) == diff.difference());
      const TraceDiff same = diff_traces(a, a, {.one_step = one_step});
      for (const DiffRow& r : same.rows) {
        CHECK(r.change == DiffRow::Change::Matched);
        CHECK(r.difference() == us(0));
      }
    }
}
