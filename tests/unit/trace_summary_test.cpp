// SPDX-License-Identifier: Apache-2.0
// Figures of traces small enough to work out by hand, and the formats they are shown in.
#include "sim/trace/summary.hpp"

#include <sstream>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/trace_text.hpp"

using namespace gpusim;
using gpusim::test::call;
using gpusim::test::ContainsSubstring;
using gpusim::test::gpu_op;
using gpusim::test::kernel;
using gpusim::test::span;
using gpusim::test::trace_text;

namespace {

Summary summary_of(const std::string& json) {
  return summarize(read_trace_bytes(json));
}
Summary summary_of(const std::vector<std::string>& events) {
  return summary_of(trace_text(events));
}

}  // namespace

TEST_CASE("a trace without GPU work is all zeros") {
  const std::string host = trace_text({span("cpu_op", "aten::add", "1.5", "3")});
  for (const std::string& json : {std::string(R"({"traceEvents": []})"), std::string("[]"), std::string("{}"),
                                  std::string(R"({"schemaVersion": 1, "deviceProperties": []})"), host}) {
    INFO(json);
    Summary s = summary_of(json);
    s.events = 0;
    CHECK(summary_csv_row(s) ==
          "<memory>,0,0.0,0.0,0.0,0.0,0.0,0.0,0,0,0,0,0,0.0,0.0,0.0,0,0,0,0,0,0,0,0,0,0,0.0,0.0,0.0,0.0,0.0,"
          "0,0.0,0,0,0,"
          "0,0,0.0,0,");
  }
}

TEST_CASE("gaps of one stream lie between ops that do not touch") {
  // 0..10   gap 5   15..17 17..20   gap 30   50..60
  const Summary s = summary_of(std::vector<std::string>{
      kernel("100", "10", {}, 7, "a"),
      gpu_op({.cat = "gpu_memcpy", .name = "Memcpy HtoD", .ts = "115", .dur = "2", .more = R"(,"bytes":64)"}),
      gpu_op({.cat = "gpu_memset", .name = "Memset", .ts = "117", .dur = "3", .more = R"(,"bytes":8)"}),
      kernel("150", "10", {}, 7, "a")});
  CHECK(s.wall_us == 60);
  CHECK(s.busy_us == 25);
  CHECK(s.sum_us == 25);
  CHECK(s.overlap_us == 0);
  CHECK(s.utilization == 0.416666667);
  CHECK(s.largest_gap_us == 30);
  CHECK(s.largest_gap_at_us == 20);
  CHECK(s.gaps == 2);
  CHECK(s.gpu_ops == 4);
  CHECK(s.kernels == 2);
  CHECK(s.memcpys == 1);
  CHECK(s.memsets == 1);
  CHECK(s.kernel_us == 20);
  CHECK(s.memcpy_us == 2);
  CHECK(s.memset_us == 3);
  CHECK(s.memcpy_bytes == 64);
  CHECK(s.streams == 1);
  CHECK(s.overlapping_ops == 0);
  CHECK(s.nested_ops == 0);
  CHECK(s.same_stream_overlaps == 0);
  CHECK(s.max_concurrent == 1);
  REQUIRE(s.kernel_totals.size() == 1);
  CHECK(s.kernel_totals[0].name == "a");
  CHECK(s.kernel_totals[0].count == 2);
  CHECK(s.kernel_totals[0].total_us == 20);
}

TEST_CASE("busy time is the union over streams, whatever the order in the file") {
  // stream 7: 0..10, 20..30; stream 9: 5..15, 40..41. Union: 0..15, 20..30, 40..41.
  const Summary s = summary_of(std::vector<std::string>{kernel("40", "1", {}, 9), kernel("5", "10", {}, 9),
                                                        kernel("20", "10"), kernel("0", "10")});
  CHECK(s.wall_us == 41);
  CHECK(s.busy_us == 26);
  CHECK(s.sum_us == 31);
  CHECK(s.overlap_us == 5);
  CHECK(s.utilization == 0.634146341);
  CHECK(s.largest_gap_us == 10);
  CHECK(s.gaps == 2);
  CHECK(s.streams == 2);
  CHECK(s.overlapping_ops == 2);
  CHECK(s.nested_ops == 0);
  CHECK(s.same_stream_overlaps == 0);
  CHECK(s.max_concurrent == 2);
}

TEST_CASE("the wall ends with the latest end, not with the last start") {
  // 0..100 holds 10..20 and 30..40, so only 100..120 is a gap.
  Summary s = summary_of(std::vector<std::string>{kernel("0", "100"), kernel("10", "10", {}, 8),
                                                  kernel("30", "10", {}, 8), kernel("120", "10")});
  CHECK(s.wall_us == 130);
  CHECK(s.busy_us == 110);
  CHECK(s.sum_us == 130);
  CHECK(s.overlap_us == 20);
  CHECK(s.largest_gap_us == 20);
  CHECK(s.gaps == 1);
  CHECK(s.overlapping_ops == 3);
  CHECK(s.nested_ops == 2);
  CHECK(s.same_stream_overlaps == 0);
  CHECK(s.max_concurrent == 2);

  s = summary_of(std::vector<std::string>{kernel("0", "100"), kernel("10", "10", {}, 8)});
  CHECK(s.wall_us == 100);
  CHECK(s.busy_us == 100);
  CHECK(s.utilization == 1);
}

TEST_CASE("of two equal intervals one is nested in the other") {
  const Summary s = summary_of(std::vector<std::string>{kernel("3", "4"), kernel("3", "4", {}, 8)});
  CHECK(s.wall_us == 4);
  CHECK(s.busy_us == 4);
  CHECK(s.overlapping_ops == 2);
  CHECK(s.nested_ops == 1);
  CHECK(s.max_concurrent == 2);
}

TEST_CASE("kernels that overlap within their stream are counted") {
  // As programmatic dependent launch leaves them: the second starts 0.127 us before the first ends.
  const Summary s =
      summary_of(std::vector<std::string>{kernel("10", "5"), kernel("14.873", "2"), kernel("16.873", "1")});
  CHECK(s.wall_us == 7.873);
  CHECK(s.busy_us == 7.873);
  CHECK(s.sum_us == 8);
  CHECK(s.overlap_us == 0.127);
  CHECK(s.utilization == 1);
  CHECK(s.overlapping_ops == 2);
  CHECK(s.same_stream_overlaps == 1);
  CHECK(s.max_concurrent == 2);
  CHECK(s.gaps == 0);
}

TEST_CASE("a stream number on two devices is two streams") {
  const Summary s = summary_of(std::vector<std::string>{
      kernel("0", "10"), gpu_op({.cat = "kernel", .name = "k", .ts = "5", .dur = "10", .device = 1})});
  CHECK(s.streams == 2);
  CHECK(s.devices == 2);
  CHECK(s.same_stream_overlaps == 0);
  CHECK(s.overlapping_ops == 2);
  CHECK(s.busy_us == 15);
}

TEST_CASE("an op without args is told apart by pid and tid") {
  const std::string bare = R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1})";
  const std::string other = R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":8,"ts":5,"dur":1})";
  const Summary s = summary_of(std::vector<std::string>{bare, other});
  CHECK(s.streams == 2);
  CHECK(s.devices == 1);
  CHECK(s.unlinked_gpu_ops == 2);
  CHECK(s.busy_us == 2);
}

TEST_CASE("ops of zero duration part gaps but overlap nothing") {
  Summary s = summary_of(
      std::vector<std::string>{kernel("10", "0"), kernel("12", "4"), kernel("14", "0"), kernel("20", "0")});
  CHECK(s.wall_us == 10);
  CHECK(s.busy_us == 4);
  CHECK(s.largest_gap_us == 4);
  CHECK(s.gaps == 2);
  CHECK(s.zero_duration_ops == 3);
  CHECK(s.overlapping_ops == 0);
  CHECK(s.nested_ops == 0);
  CHECK(s.max_concurrent == 1);

  s = summary_of(std::vector<std::string>{kernel("10", "0")});
  CHECK(s.wall_us == 0);
  CHECK(s.busy_us == 0);
  CHECK(s.utilization == 0);
  CHECK(s.gpu_ops == 1);
}

TEST_CASE("an op without a duration lasts no time") {
  const Summary s = summary_of(std::vector<std::string>{R"({"ph":"X","cat":"kernel","name":"k","ts":4})"});
  CHECK(s.gpu_ops == 1);
  CHECK(s.zero_duration_ops == 1);
}

TEST_CASE("nanoseconds after sixteen digits of microseconds decide gaps") {
  // Doubles near 1.7e15 are 0.25 apart. Exactly: .011 + 4.928 = .939, and the next kernel starts at .940.
  Summary s = summary_of(std::vector<std::string>{
      kernel("1712195495505583.011", "4.928", 1), kernel("1712195495505587.940", "0.060", 2),
      call("cudaLaunchKernel", "1712195495505580.010", "0.750", 1),
      call("cudaLaunchKernel", "1712195495505585.001", "0.251", 2)});
  CHECK(s.wall_us == 4.989);
  CHECK(s.busy_us == 4.988);
  CHECK(s.largest_gap_us == 0.001);
  CHECK(s.gaps == 1);
  CHECK(s.launch_call_us_median == 0.5005);
  CHECK(s.launch_delay_us_median == 2.97);
  CHECK(s.launch_delay_us_min == 2.939);

  s = summary_of(
      std::vector<std::string>{kernel("5142031545655.973", "0.027"), kernel("5142031545656", "1")});
  CHECK(s.busy_us == 1.027);
  CHECK(s.gaps == 0);
  CHECK(s.overlapping_ops == 0);
}

TEST_CASE("times may be text with units") {
  const Summary s = summary_of(std::vector<std::string>{
      kernel("\"1000ns\"", "\"500ns\""), kernel("\"2.25\"", "\"1.75\""), kernel("\"1ms\"", "\"0.001ms\"")});
  CHECK(s.wall_us == 1000);
  CHECK(s.busy_us == 3.25);
  CHECK(s.kernels == 3);
  CHECK(s.largest_gap_us == 996);
}

TEST_CASE("events without a usable time are counted and left out") {
  const Summary s =
      summary_of(std::vector<std::string>{kernel("\"soon\"", "1"), kernel("1", "null"), kernel("2", "-1"),
                                          kernel("NaN", "1"), kernel("true", "1"), kernel("[1]", "1"),
                                          kernel("1", "Infinity"), kernel("1e30", "1"), kernel("5", "1")});
  CHECK(s.kernels == 1);
  CHECK(s.invalid_events == 8);
  CHECK(s.repairs.empty());
}

TEST_CASE("launches are matched with their kernels by correlation id") {
  const Summary s = summary_of(std::vector<std::string>{
      call("cudaLaunchKernel", "0", "4", 1),
      kernel("10", "1", 1),  // 10 after its call
      call("cuLaunchKernelEx", "10", "2", 2, "cuda_driver"),
      kernel("14", "1", 2),  // 4
      call("cudaLaunchKernelExC", "20", "3", 3),
      kernel("26", "1", 3),                            // 6
      call("hipExtModuleLaunchKernel", "30", "9", 4),  // no kernel
      call("cudaMemsetAsync", "40", "1", 5),
      call("cudaLaunchHostFunc", "41", "1", 6),
      call("cudaDeviceSynchronize", "50", "1", 7),
      call("cudaStreamSynchronize", "52", "1", 8),
      call("hipEventSynchronize", "54", "1", 9),
      call("cudaStreamWaitEvent", "56", "1", 10),
      call("cudaEventQuery", "57", "1", 11),
      call("cuCtxSynchronize", "58", "1", 12, "cuda_driver"),
      gpu_op({.cat = "cuda_sync", .name = "Stream Sync", .ts = "52", .dur = "1", .correlation = 8}),
      gpu_op({.cat = "overhead", .name = "Buffer Flush", .ts = "0", .dur = "99"}),
      gpu_op({.cat = "gpu_user_annotation", .name = "ProfilerStep#3", .ts = "10", .dur = "50"}),
      kernel("70", "1", 999),
      kernel("72", "1")});
  CHECK(s.gpu_ops == 5);
  CHECK(s.kernel_launches == 4);
  CHECK(s.launches_without_kernel == 1);
  CHECK(s.graph_launches == 0);
  CHECK(s.unlinked_gpu_ops == 2);
  CHECK(s.sync_calls == 4);
  CHECK(s.launch_call_us_median == 3.5);
  CHECK(s.launch_delay_us_median == 6);
  CHECK(s.launch_delay_us_min == 4);
  CHECK(s.wall_us == 63);
  CHECK(s.busy_us == 5);
  CHECK(s.steps == 0);
  REQUIRE(s.sync_calls_by_name.size() == 4);
  CHECK(s.sync_calls_by_name[0].first == "cuCtxSynchronize");
}

TEST_CASE("a kernel may start before its launch call returns or even begins") {
  const Summary s =
      summary_of(std::vector<std::string>{call("cudaLaunchKernel", "10", "9", 1), kernel("7.5", "1", 1)});
  CHECK(s.launch_delay_us_median == -2.5);
  CHECK(s.launch_delay_us_min == -2.5);
}

TEST_CASE("all nodes of a launched CUDA graph carry the one correlation id") {
  const Summary s = summary_of(std::vector<std::string>{
      call("cudaGraphLaunch", "0", "20", 5), kernel("12", "2", 5),
      gpu_op({.cat = "gpu_memset", .name = "m", .ts = "15", .dur = "1", .correlation = 5}),
      kernel("17", "3", 5), call("cudaLaunchKernel", "21", "1", 6), kernel("30", "1", 6),
      call("hipGraphLaunch", "40", "10", 7), kernel("48", "1", 7)});
  CHECK(s.graph_launches == 2);
  CHECK(s.kernels_from_graphs == 3);
  CHECK(s.gpu_ops_from_graphs == 4);
  CHECK(s.kernel_launches == 1);
  CHECK(s.unlinked_gpu_ops == 0);
  CHECK(s.launches_without_kernel == 0);
  CHECK(s.kernels == 4);
  CHECK(s.launch_delay_us_median == 9);
  CHECK(s.graph_launch_call_us_median == 15);
  CHECK(s.graph_launch_delay_us_median == 10);
}

TEST_CASE("a correlation id may be text, a real number or beyond 63 bits") {
  const auto with_id = [](const std::string& cat, const std::string& name, const std::string& ts,
                          const std::string& id) {
    return R"({"ph":"X","cat":")" + cat + R"(","name":")" + name + R"(","ts":)" + ts +
           R"(,"dur":1,"args":{"correlation":)" + id + "}}";
  };
  for (const auto& [of_call, of_kernel] :
       std::vector<std::pair<std::string, std::string>>{{"\"12\"", "12"},
                                                        {"12.0", "12"},
                                                        {"\" +12 \"", "12"},
                                                        {"18446744073709551615", "18446744073709551615"}}) {
    INFO(of_call);
    const Summary s = summary_of(std::vector<std::string>{
        with_id("cuda_runtime", "cudaLaunchKernel", "1", of_call), with_id("kernel", "k", "4", of_kernel)});
    CHECK(s.launches_without_kernel == 0);
    CHECK(s.launch_delay_us_median == 3);
  }
  const Summary s = summary_of(std::vector<std::string>{
      with_id("cuda_runtime", "cudaLaunchKernel", "1", "\"x\""), with_id("kernel", "k", "4", "null")});
  CHECK(s.launches_without_kernel == 1);
  CHECK(s.unlinked_gpu_ops == 1);
}

TEST_CASE("steps are those of the host") {
  const Summary s = summary_of(std::vector<std::string>{
      span("user_annotation", "ProfilerStep#1", "0", "10"),
      span("user_annotation", "ProfilerStep#2", "10", "30"), span("Operator", "ProfilerStep*", "40", "13"),
      span("gpu_user_annotation", "ProfilerStep#1", "5", "900"),
      span("user_annotation", "Optimizer.step#SGD.step", "20", "5")});
  CHECK(s.steps == 3);
  CHECK(s.step_us_median == 13);
  CHECK(s.gpu_ops == 0);
}

TEST_CASE("the category names of old traces count") {
  const Summary s = summary_of(std::vector<std::string>{
      gpu_op({.cat = "Kernel", .name = "k", .ts = "5", .dur = "1", .correlation = 1}),
      gpu_op({.cat = "Memcpy", .name = "m", .ts = "7", .dur = "1", .correlation = 2}),
      gpu_op({.cat = "Memset", .name = "m", .ts = "9", .dur = "1", .correlation = 3}),
      call("cudaLaunchKernel", "1", "1", 1, "Runtime")});
  CHECK(s.kernels == 1);
  CHECK(s.memcpys == 1);
  CHECK(s.memsets == 1);
  CHECK(s.kernel_launches == 1);
  CHECK(s.launch_delay_us_median == 4);
}

TEST_CASE("kernel names are ranked by their total time, ties by name") {
  std::vector<std::string> events;
  for (int i = 0; i < 12; ++i) {
    const std::string name = (i < 10 ? "k0" : "k") + std::to_string(i);
    events.push_back(kernel(std::to_string(10 * i), std::to_string(1 + i), {}, 7, name));
  }
  events.push_back(kernel("500", "20", {}, 7, "k00"));
  events.push_back(kernel("600", "12", {}, 7, "k05b"));
  const Summary s = summary_of(events);
  REQUIRE(s.kernel_totals.size() == 13);
  CHECK(s.kernel_totals[0].name == "k00");
  CHECK(s.kernel_totals[0].count == 2);
  CHECK(s.kernel_totals[0].total_us == 21);
  CHECK(s.kernel_totals[1].name == "k05b");
  CHECK(s.kernel_totals[2].name == "k11");
  CHECK(s.kernel_totals[12].name == "k01");
  CHECK(s.top_kernel == "k00");
  CHECK(s.top_kernel_count == 2);
  CHECK(s.top_kernel_us == 21);
}

TEST_CASE("kernel groups share out the kernel time") {
  const Summary s = summary_of(std::vector<std::string>{
      kernel("0", "4", {}, 7, "nvjet_a"), kernel("5", "2", {}, 7, "ampere_sgemm"),
      kernel("9", "1", {}, 7, "flash_fwd"), kernel("11", "8", {}, 7, "ncclDevKernel_AllReduce"),
      kernel("20", "0.5", {}, 7, "elementwise_kernel")});
  const auto total = [&](KernelGroup group) { return s.kernel_groups[static_cast<int>(group)]; };
  CHECK(total(KernelGroup::Matmul).total_us == 6);
  CHECK(total(KernelGroup::Matmul).count == 2);
  CHECK(total(KernelGroup::Attention).total_us == 1);
  CHECK(total(KernelGroup::Communication).total_us == 8);
  CHECK(total(KernelGroup::Other).total_us == 0.5);
}

TEST_CASE("a CSV row quotes what needs it and writes numbers as short as they are exact") {
  Summary s;
  s.file = "runs, \"old\"/a.json";
  s.wall_us = 12920244;
  s.busy_us = 0.1;
  s.sum_us = 1e-6;
  s.utilization = 0.0001;
  s.overlap_us = 1e16;
  s.top_kernel = "f<a, b>";
  const std::string row = summary_csv_row(s);
  CHECK(row.starts_with("\"runs, \"\"old\"\"/a.json\",0,12920244.0,0.1,1e-06,1e+16,0.0001,"));
  CHECK(row.ends_with(",\"f<a, b>\""));
  const std::string header = summary_csv_header();
  CHECK(header.starts_with("file,events,wall_us,busy_us,sum_us,overlap_us,utilization,largest_gap_us,gaps,"));
  CHECK(header.ends_with(",top_kernel_us,top_kernel_count,top_kernel"));
}

TEST_CASE("the JSON of a summary escapes names and lists the rest") {
  const std::vector<Summary> one = {summary_of(std::vector<std::string>{
      kernel("0", "2.5", {}, 7, R"(f<\"a\\b\u0001>)"), call("cudaDeviceSynchronize", "3", "1")})};
  const std::string json = summary_json(one[0]);
  CHECK_THAT(json, ContainsSubstring(R"("wall_us": 2.5,)"));
  CHECK_THAT(json, ContainsSubstring(R"("name": "f<\"a\\b\u0001>", "count": 1, "total_us": 2.5)"));
  CHECK_THAT(json, ContainsSubstring(R"("cudaDeviceSynchronize": 1)"));
  CHECK_THAT(json, ContainsSubstring(R"("repairs": [])"));
  CHECK(json.front() == '{');
  CHECK_THAT(summary_json(one[0], ",\n \"more\": 1"), ContainsSubstring("],\n \"more\": 1\n}"));
  CHECK(json_list(std::vector<std::string>{"{}"}) == "{}");
  CHECK(json_list(std::vector<std::string>{"{}", "{}"}) == "[\n{},\n{}\n]");
  CHECK(json_list(std::vector<std::string>()) == "[\n]");
}

TEST_CASE("the text report fits a terminal of 80 columns") {
  std::vector<std::string> events;
  for (int i = 0; i < 20; ++i) {
    events.push_back(
        kernel(std::to_string(20 * i + 1'000'000'000), "30.123", i, i % 3,
               "void at::native::some_quite_long_kernel_name_of_\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4_" +
                   std::to_string(i)));
    events.push_back(call("cudaLaunchKernel", std::to_string(20 * i), "5", i));
    events.push_back(call("cudaVeryLongNameOfSomethingSynchronize" + std::to_string(i), "1", "1"));
  }
  for (const char* name : {"cudaStreamSynchronize", "cudaEventSynchronize", "cudaDeviceSynchronize",
                           "hipStreamSynchronize", "hipDeviceSynchronize"}) {
    events.push_back(call(name, "7", "1"));
  }
  events.push_back(span("user_annotation", "ProfilerStep#1", "0", "10"));
  std::istringstream lines(summary_text(summary_of(events)));
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(line.size() <= 80);
    text += line + "\n";
  }
  for (const char* word : {"wall", "busy", "idle", "overlap", "launches", "sync calls", "steps"}) {
    CHECK_THAT(text, ContainsSubstring(word));
  }
}

TEST_CASE("the text report of a trace without GPU work says so") {
  CHECK_THAT(summary_text(summary_of(std::vector<std::string>{span("cpu_op", "aten::mm", "1", "2")})),
             ContainsSubstring("no GPU op among them"));
}

TEST_CASE("sums of many weeks do not overflow") {
  std::vector<std::string> events;
  for (int i = 0; i < 9; ++i) {
    events.push_back(gpu_op({.cat = "gpu_memcpy",
                             .name = "m",
                             .ts = "0",
                             .dur = "4000000000000",
                             .stream = i,
                             .more = R"(,"bytes":9223372036854775807)"}));
  }
  const Summary s = summary_of(events);
  CHECK(s.sum_us == 36e12);
  CHECK(s.overlap_us == 32e12);
  CHECK(s.utilization == 1);
  CHECK(s.memcpy_bytes == 9223372036854775807);
}
