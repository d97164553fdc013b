// SPDX-License-Identifier: Apache-2.0
// Why the GPU was idle, and what launches, waits, steps and ops cost, in traces worked out by hand.
#include "sim/trace/detail.hpp"

#include <filesystem>
#include <string>
#include <vector>

#include "sim/trace/ranks.hpp"
#include "sim/trace/summary.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/trace_text.hpp"

using namespace gpusim;
using gpusim::test::call;
using gpusim::test::gpu_op;
using gpusim::test::kernel;
using gpusim::test::span;
using gpusim::test::trace_text;

namespace {

constexpr std::int64_t ps = 1'000'000;  // of a microsecond
Picoseconds us(std::int64_t microseconds) {
  return Picoseconds(microseconds * ps);
}

Trace trace_of(const std::vector<std::string>& events) {
  return read_trace_bytes(trace_text(events));
}

Picoseconds idle(const TraceDetail& detail, TraceIdleCause cause) {
  return detail.idle[static_cast<std::size_t>(cause)];
}

std::string cpu_op(const std::string& name, const std::string& ts, const std::string& dur,
                   const std::string& args) {
  return R"({"ph":"X","cat":"cpu_op","name":")" + name + R"(","pid":100,"tid":100,"ts":)" + ts +
         R"(,"dur":)" + dur + R"(,"args":{)" + args + "}}";
}

std::vector<TraceInput> inputs(const std::vector<std::vector<std::int64_t>>& shapes) {
  std::vector<TraceInput> result;
  for (const auto& shape : shapes) result.push_back({"float", {shape}, {}, ""});
  return result;
}

}  // namespace

TEST_CASE("Idle time has causes that fill it, each gap the one with the most time") {
  // a 5..15. The wait returns at 17, aten::mm from 21, its launch 25..29, b 30..32, c 33..36 was queued long
  // before.
  const TraceDetail detail = trace_detail(
      trace_of({call("cudaLaunchKernel", "0", "4", 1), kernel("5", "10", 1, 7, "a"),
                call("cudaStreamSynchronize", "6", "11", 2), span("cpu_op", "aten::mm", "21", "8.5"),
                call("cudaLaunchKernel", "25", "4", 3), kernel("30", "2", 3, 7, "b"),
                call("cudaLaunchKernel", "29", "1", 4), kernel("33", "3", 4, 7, "c")}));
  CHECK(detail.wall == us(31));
  CHECK(detail.busy == us(15));
  REQUIRE(detail.gaps.size() == 2);
  const TraceGap& gap = detail.gaps[0];
  CHECK(gap.from == us(10));
  CHECK(gap.duration() == us(15));
  CHECK(gap.cause == TraceIdleCause::Dispatch);
  CHECK(gap.by_cause[static_cast<std::size_t>(TraceIdleCause::Synchronization)] == us(2));
  CHECK(gap.by_cause[static_cast<std::size_t>(TraceIdleCause::Dispatch)] == us(12));
  CHECK(gap.by_cause[static_cast<std::size_t>(TraceIdleCause::LaunchLatency)] == us(1));
  CHECK(gap.sync_call == 1);
  CHECK(gap.host_call == 2);  // Of three pieces of 4 us the last.
  CHECK(detail.gaps[1].cause == TraceIdleCause::Gap);
  CHECK(idle(detail, TraceIdleCause::Gap) == us(1));
  // Of the 12 us: 4 us each between ops, in aten::mm before its launch, in the launch call.
  REQUIRE(detail.dispatch.size() == 3);
  for (const TraceDispatch& one : detail.dispatch) CHECK(one.idle == us(4));
  REQUIRE(detail.syncs.size() == 1);
  CHECK(detail.syncs[0].waited == 1);
  CHECK(detail.syncs[0].calls.total == us(11));
  CHECK(detail.syncs[0].idle == us(15));
}

TEST_CASE("Waiting for the data loader is not the launching host's") {
  const TraceDetail detail = trace_detail(
      trace_of({call("cudaLaunchKernel", "0", "2", 1), kernel("3", "2", 1),
                span("cpu_op", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "5", "40"),
                call("cudaLaunchKernel", "46", "2", 2), kernel("49", "2", 2)}));
  // 5..49 is idle: the loader 40, 1 until the call, 2 in it, 1 on the way.
  CHECK(idle(detail, TraceIdleCause::Input) == us(40));
  CHECK(idle(detail, TraceIdleCause::Dispatch) == us(3));
  CHECK(idle(detail, TraceIdleCause::LaunchLatency) == us(1));
  CHECK(detail.gaps[0].cause == TraceIdleCause::Input);
}

TEST_CASE("The queue holds what was launched and has not started when a launch call returns") {
  // Three launches at 0, 2, 4 of 1 us; kernels start at 3, 13, 23.
  const TraceDetail detail = trace_detail(trace_of(
      {call("cudaLaunchKernel", "0", "1", 1), kernel("3", "10", 1), call("cudaLaunchKernel", "2", "1.5", 2),
       kernel("13", "10", 2), call("cudaLaunchKernel", "4", "1", 3), kernel("23", "0.5", 3)}));
  CHECK(detail.queue.at_call == std::vector<std::uint32_t>{1, 1, 2});
  CHECK(detail.queue.median == 1);
  CHECK(detail.queue.longest == 2);
  CHECK(detail.launches.count == 3);
  CHECK(detail.launches.total == Picoseconds(3'500'000));
  CHECK(detail.launches.longest == Picoseconds(1'500'000));
  CHECK(detail.short_kernels == 1);
}

TEST_CASE("A GPU op belongs to the step that launched it, whenever it runs") {
  const TraceDetail detail = trace_detail(
      trace_of({span("user_annotation", "ProfilerStep#4", "0", "10"),
                span("user_annotation", "ProfilerStep#5", "10", "10"), call("cudaLaunchKernel", "1", "2", 1),
                kernel("5", "10", 1), call("cudaLaunchKernel", "4", "2", 2), kernel("16", "4", 2),
                call("cudaLaunchKernel", "12", "2", 3), kernel("21", "4", 3)}));
  REQUIRE(detail.steps.size() == 2);
  CHECK(detail.steps[0].number == 4);
  CHECK(detail.steps[0].kernels == 2);
  CHECK(detail.steps[0].launches == 2);
  CHECK(detail.steps[0].span == us(15));
  CHECK(detail.steps[0].busy == us(14));
  CHECK(detail.steps[1].kernels == 1);
  CHECK(detail.steps[1].span == us(4));
}

TEST_CASE("Launches of one CUDA graph are one line, with its ops and its time on the GPU") {
  const TraceDetail detail = trace_detail(trace_of(
      {call("cudaGraphLaunch", "0", "4", 1), kernel("5", "2", 1, 7, "a"), kernel("8", "2", 1, 7, "b"),
       call("cudaGraphLaunch", "20", "6", 2), kernel("27", "2", 2, 7, "a"), kernel("31", "2", 2, 7, "b")}));
  REQUIRE(detail.graphs.size() == 1);
  CHECK(detail.graphs[0].nodes == 2);
  CHECK(detail.graphs[0].calls.count == 2);
  CHECK(detail.graphs[0].spans.total == us(5 + 6));
}

TEST_CASE("FLOPs of products, convolutions and attention follow from their shapes") {
  CHECK(op_flops("aten::mm", inputs({{3, 5}, {5, 7}})) == 2. * 3 * 5 * 7);
  CHECK(op_flops("aten::addmm", inputs({{7}, {3, 5}, {5, 7}})) == 2. * 3 * 5 * 7);
  CHECK(op_flops("aten::bmm", inputs({{4, 3, 5}, {4, 5, 7}})) == 2. * 4 * 3 * 5 * 7);
  CHECK_FALSE(op_flops("aten::mm", inputs({{3, 5}, {6, 7}})));
  CHECK_FALSE(op_flops("aten::mm", inputs({{3, 5}})));
  CHECK_FALSE(op_flops("aten::add", inputs({{3, 5}, {3, 5}})));
  // 2 heads of 5, 7 queries, 11 keys, batch 3: two products of 2 * 7 * 11 * 5 each.
  CHECK(op_flops("aten::_scaled_dot_product_flash_attention",
                 inputs({{3, 2, 7, 5}, {3, 2, 11, 5}, {3, 2, 11, 5}})) == 2. * 2 * 7 * 11 * 5 * 2 * 3);
  CHECK(op_flops("aten::_flash_attention_forward", inputs({{3, 7, 2, 5}, {3, 11, 2, 5}, {3, 11, 2, 5}})) ==
        2. * 2 * 7 * 11 * 5 * 2 * 3);
  // 3 images of 4 x 10 x 10, 6 filters of 3 x 3, stride 2, padding 1: 5 x 5 outputs.
  std::vector<TraceInput> conv = inputs({{3, 4, 10, 10}, {6, 4, 3, 3}, {6}});
  for (const std::string value : {"[2, 2]", "[1, 1]", "[1, 1]", "False"})
    conv.push_back({"ScalarList", {}, {}, value});
  CHECK(op_flops("aten::convolution", conv) == 2. * 3 * 6 * 5 * 5 * 4 * 3 * 3);
}

TEST_CASE("Bytes count each input once and an output like the largest; broadcast inputs are small") {
  CHECK(op_bytes(inputs({{10, 10}, {10}})) == 4. * (100 + 10 + 100));
  std::vector<TraceInput> expanded = inputs({{10, 10}, {10, 10}});
  expanded[1].strides = {{0, 1}};
  CHECK(op_bytes(expanded) == 4. * (100 + 10 + 100));
  std::vector<TraceInput> unknown = inputs({{10}});
  unknown[0].type = "c10::Whatever";
  CHECK_FALSE(op_bytes(unknown));
  CHECK(element_bytes("c10::BFloat16") == 2);
  CHECK(element_bytes("long int") == 8);
}

TEST_CASE("Kernels count for the innermost op around their launch whose shapes are known") {
  const std::string shapes = R"("Input Dims": [[3, 5], [5, 7]], "Input type": ["float", "float"])";
  const TraceDetail detail = trace_detail(
      trace_of({cpu_op("aten::linear", "0", "20", R"("Input Dims": [[1]], "Input type": ["float"])"),
                cpu_op("aten::mm", "1", "18", shapes), cpu_op("inner", "2", "10", ""),
                call("cudaLaunchKernel", "3", "2", 1), kernel("6", "1", 1),
                call("cudaLaunchKernel", "8", "2", 2), kernel("11", "1", 2)}));
  REQUIRE(detail.ops.size() == 1);
  CHECK(detail.ops[0].count == 1);
  CHECK(detail.ops[0].gpu == us(2));
  CHECK(detail.ops[0].flops == 210.);
  CHECK(detail.ops[0].flops_per_second() == 105e6);
}

TEST_CASE("GPU ops that are listed twice are counted") {
  CHECK(trace_detail(trace_of({kernel("0", "5", 1), kernel("0", "5", 1), kernel("9", "5", 2)})).twice == 1);
  CHECK(trace_detail(trace_of({kernel("0", "5", 1), kernel("0", "5", 2), kernel("9", "5", 2)})).twice == 0);
}

TEST_CASE("The rank that comes last to a collective has the shortest of it, the others wait") {
  const auto rank = [](int number, const std::string& first, const std::string& second) {
    std::string text =
        trace_text({kernel("0", "10", {}, 7, "gemm"), kernel("5", first, {}, 9, "ncclAllReduce"),
                    kernel("50", second, {}, 9, "ncclAllReduce")});
    text.pop_back();
    text += R"(, "distributedInfo": {"rank": )" + std::to_string(number) + R"(, "world_size": 2}})";
    return RankTrace(read_trace_bytes(text));
  };
  const std::vector<RankTrace> ranks = {rank(0, "20", "8"), rank(1, "6", "9")};
  CHECK(are_ranks_of_one_run(ranks));
  // Rank 0: 0..25 and 50..58; the collective alone from 10 to 25 and 50 to 58.
  CHECK(ranks[0].busy == us(33));
  CHECK(ranks[0].computing == us(10));
  CHECK(ranks[0].communicating == us(28));
  CHECK(ranks[0].exposed() == us(23));
  const RankSkew skew = compare_ranks(ranks);
  CHECK(skew.matched == 2);
  CHECK(skew.ranks[0].waited == us(14));
  CHECK(skew.ranks[0].last == 1);
  CHECK(skew.ranks[1].waited == us(1));
  CHECK(skew.ranks[1].last == 1);
  CHECK_FALSE(are_ranks_of_one_run(std::vector<RankTrace>{ranks[0], ranks[0]}));
}

TEST_CASE("Busy time and the causes of idle time make up the wall of every public and measured trace") {
  const std::string shared = GPUSIM_SHARED_DIR;
  std::vector<std::string> folders = {std::string(GPUSIM_SOURCE_DIR) + "/tests/data/traces"};
  for (const std::string folder : {"/traces/public", "/measured/h200/traces", "/measured/h200x2/traces"}) {
    if (!shared.empty()) folders.push_back(shared + folder);
  }
  for (const std::string& folder : folders) {
    if (!std::filesystem::exists(folder)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string path = entry.path().string();
      if (path.find(".json") == std::string::npos) continue;
      INFO(path);
      const Trace trace = read_trace(path);
      const TraceDetail detail = trace_detail(trace);
      const Summary summary = summarize(trace);
      Picoseconds idle_sum{0};
      for (const Picoseconds time : detail.idle) idle_sum += time;
      CHECK(idle_sum + detail.busy == detail.wall);
      CHECK(static_cast<double>(detail.busy.count()) * 1e-6 == Approx(summary.busy_us));
      CHECK(static_cast<std::int64_t>(detail.gaps.size()) == summary.gaps);
      CHECK(detail.twice == 0);
    }
  }
}
