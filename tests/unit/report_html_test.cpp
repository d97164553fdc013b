// SPDX-License-Identifier: Apache-2.0
// What HTML reports are made of. That they open, zoom and answer in a browser: tests/html/report_test.mjs.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/report/html_data.hpp"
#include "sim/report/html_report.hpp"
#include "sim/report/kernel_family.hpp"
#include "sim/report/report.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/report_examples.hpp"

namespace gpusim::report {
namespace {

using namespace gpusim::literals;
using nlohmann::ordered_json;

using Numbers = std::vector<std::int64_t>;

/// Two kernels of 3 and 5 us, each launched by a call of 6 us that takes as long to arrive, behind 4 us of
/// work.
VariantResult two_kernels() {
  test::ProgramBuilder builder;
  const engine::Index first = builder.op("first", 3_us, 1000, 2e6);
  const engine::Index second = builder.op("second", 5_us);
  builder.call(engine::Call::Work, 4_us);
  builder.launch(first, 1, 6_us);
  builder.launch(second, 1, 6_us);
  builder.call(engine::Call::SynchronizeDevice, 0_us, 0);
  const engine::Machine machine;
  VariantResult result = test::simulated("eager", builder.program);
  result.idle_intervals = engine::idle_intervals(result.program, machine);
  return result;
}

TEST_CASE("The timeline has a bar for each call and op, from its start for as long as it takes") {
  const VariantResult result = two_kernels();
  NameTable names;
  const ordered_json data = timeline_json(result, distinct_ops(result), names);
  CHECK(data["end_ns"] == 21'000);  // 4 + 6 + 6 of the host, then 5 of the kernel
  REQUIRE(data["rows"].size() == 2);
  const ordered_json& host = data["rows"][0];
  // Work at 0, launches at 4 and 10, and the wait for the device from 16 on: each start as a difference.
  CHECK(host["kind"] == "host");
  CHECK(host["t"].get<Numbers>() == Numbers{0, 4000, 6000, 6000});
  CHECK(host["d"].get<Numbers>() == Numbers{4000, 6000, 6000, 5000});
  CHECK(host["k"].get<Numbers>() == Numbers{0, 1, 1, 3});
  CHECK(names.all()[host["n"][1].get<std::size_t>()] == "first");
  const ordered_json& stream = data["rows"][1];
  CHECK(stream["kind"] == "stream");
  CHECK(stream["t"].get<Numbers>() == Numbers{10'000, 6000});
  CHECK(stream["d"].get<Numbers>() == Numbers{3000, 5000});
  CHECK(stream["q"].get<Numbers>() == Numbers{6000, 6000});  // since the start of the launch call
}

TEST_CASE("Idle time in the timeline lies where no op runs, and bears its cause") {
  const VariantResult result = two_kernels();
  NameTable names;
  const ordered_json idle = timeline_json(result, distinct_ops(result), names)["idle"];
  const auto dispatch = static_cast<std::int64_t>(engine::IdleCause::Dispatch);
  CHECK(idle["t"].get<Numbers>() == Numbers{0, 13'000});
  CHECK(idle["d"].get<Numbers>() == Numbers{10'000, 3000});
  CHECK(idle["cause"].get<Numbers>() == Numbers{dispatch, dispatch});
}

TEST_CASE("Ops that do the same are told once, with how often and how long they run") {
  const VariantResult result = test::near_the_roofs();
  NameTable names;
  const ordered_json ops = ops_json(result, distinct_ops(result), names);
  CHECK(ops["count"].get<Numbers>() == Numbers{4, 2, 1});
  CHECK(ops["total_ns"].get<std::vector<double>>() == std::vector<double>{400e3, 100e3, 20e3});
  CHECK(ops["flops"].get<std::vector<double>>() == std::vector<double>{75e9, 1e8, 0});
  CHECK(ops["bytes"].get<std::vector<double>>() == std::vector<double>{40e6, 190e6, 1e6});
}

TEST_CASE("A call that finds the launch queue full is a wait and then a call") {
  test::ProgramBuilder builder;
  builder.launch(builder.op("long", 100_us), 3, 1_us);
  engine::Machine machine;
  machine.launch_queue_depth = 1;
  VariantResult result;
  engine::Timeline timeline;
  result.isolated = engine::run(builder.program, machine, 1, &timeline);
  result.timeline = std::move(timeline);
  result.program = std::move(builder.program);
  NameTable names;
  const ordered_json host = timeline_json(result, distinct_ops(result), names)["rows"][0];
  // The third one begins at 2 and ends when the second kernel starts, at 101: its place is free then. Its own
  // 1 us is shown last.
  CHECK(host["k"].get<Numbers>() == Numbers{1, 1, 7, 1});
  CHECK(host["d"].get<Numbers>() == Numbers{1000, 1000, 98'000, 1000});
}

TEST_CASE("Families of kernels are told by their names") {
  const auto family = [](const char* name) { return kernel_family(name, engine::OpKind::Kernel); };
  CHECK(family("matmul: product") == KernelFamily::MatrixProduct);
  CHECK(family("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NTT") == KernelFamily::MatrixProduct);
  CHECK(family("void cublasLt::splitKreduce_kernel<32, 16>") == KernelFamily::MatrixProduct);
  CHECK(family("scaled_dot_product_attention: attention") == KernelFamily::Attention);
  CHECK(family("layer_norm") == KernelFamily::Reduction);
  CHECK(family("log_softmax_backward: softmax_backward") == KernelFamily::Reduction);
  CHECK(family("sum: column_sum") == KernelFamily::Reduction);
  CHECK(family("void at::native::reduce_kernel<512, 1>") == KernelFamily::Reduction);
  CHECK(family("triton_per_fused_add_native_layer_norm_view_3") == KernelFamily::Reduction);
  CHECK(family("triton_poi_fused_gelu_view_1") == KernelFamily::Elementwise);
  CHECK(family("to: elementwise") == KernelFamily::Elementwise);
  CHECK(family("void at::native::vectorized_elementwise_kernel<4>") == KernelFamily::Elementwise);
  CHECK(family("adamw: multi_tensor") == KernelFamily::Optimizer);
  CHECK(family("ncclDevKernel_AllReduce_Sum_bf16_RING_LL") == KernelFamily::Communication);
  CHECK(family("cat") == KernelFamily::Copy);
  CHECK(family("embedding: gather") == KernelFamily::Other);
  CHECK(kernel_family("gemm", engine::OpKind::Memcpy) == KernelFamily::Copy);
}

TEST_CASE("A sentence of advice is there for each variant, and all of them are the advice") {
  ScenarioReport report;
  report.variants = {test::many_small_kernels(), test::one_cuda_graph()};
  std::string joined;
  for (const std::string& sentence : advice_sentences(report))
    joined += (joined.empty() ? "" : " ") + sentence;
  CHECK(joined == advice(report));
  CHECK(advice_sentences(report, 1).front() != advice_sentences(report, 0).front());
  CHECK(advice_sentences(report, 2).empty());
}

TEST_CASE("A page holds its data where no name can end it, and is the same bytes each time") {
  if (!has_plots()) {
    SUCCEED("built without the plotting library: there are no pages");
    return;
  }
  ScenarioReport report;
  report.scenario = "<b>&\"'</script>";
  report.variants = {two_kernels()};
  report.variants.front().variant = "</script><!--";
  const std::string page = to_html(report, {}, "1.2.3");
  CHECK(page == to_html(report, {}, "1.2.3"));
  CHECK_THAT(page, test::ContainsSubstring("<title>&lt;b&gt;&amp;&quot;&#39;&lt;/script&gt;</title>"));
  const std::size_t begin = page.find("id=\"data\">") + 10;
  const std::string data = page.substr(begin, page.find("</script>", begin) - begin);
  CHECK(data.find('<') == std::string::npos);
  const auto json = ordered_json::parse(data);
  CHECK(json["title"] == report.scenario);
  CHECK(json["variants"][0]["variant"] == "</script><!--");
  CHECK_THAT(page, test::ContainsSubstring("Apache ECharts\nCopyright"));  // its notice
  for (const char* mark : {"{{title}}", "{{style}}", "{{data}}", "{{plots}}", "{{script}}", "{{licences}}"})
    CHECK(page.find(mark) == std::string::npos);
}

TEST_CASE("A line of JSON gives its cells by column, unknown ones empty") {
  CHECK(json_cells(R"({"point":3,"variant":"a","x":"1 us","step_time_us":2.5,"mfu":null})",
                   {"point", "variant", "x", "step_time_us", "mfu", "error"}) ==
        std::vector<std::string>{"3", "a", "1 us", "2.5", "", ""});
}

}  // namespace
}  // namespace gpusim::report
