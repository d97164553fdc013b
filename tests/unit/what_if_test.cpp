// SPDX-License-Identifier: Apache-2.0
// What-if on traces small enough to work out by hand.
#include "sim/trace_use/what_if.hpp"

#include <string>
#include <vector>

#include "sim/config/error.hpp"
#include "sim/config/hardware_reader.hpp"
#include "sim/trace_use/fusion_groups.hpp"
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

const std::string add_bf16 =
    "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::BFloat16>, "
    "std::array<char*, 3ul> >(int)";
const std::string add_fp32 =
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "std::array<char*, 3ul> >(int)";
const std::string cast_to_bf16 =
    "void at::native::vectorized_elementwise_kernel<8, "
    "at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}, std::array<char*, "
    "2ul> >(int)";

/// Gaps of 1 us, launches of 4 us that arrive 2 us after their call, CUDA graphs of 6 us. No calibration.
GpuSpec hardware() {
  GpuSpec gpu;
  gpu.key = gpu.name = "test";
  gpu.launch.call = us(4);
  gpu.launch.arrival_after_call = us(2);
  gpu.launch.queue_depth = 1024;
  gpu.launch.sync_call = us(1);
  gpu.launch.sync_return = us(3);
  for (auto& row : gpu.launch.gap.gap) row.fill(us(1));
  for (auto& row : gpu.launch.graph_gap.gap) row.fill(us(0.5));
  gpu.launch.cuda_graph.call.points = {{1, us(6)}};
  gpu.launch.cuda_graph.arrival_after_call = us(1);
  return gpu;
}

TraceOp op_of(std::array<std::int64_t, 3> grid, std::array<std::int64_t, 3> block) {
  TraceOp op;
  op.grid = grid;
  op.block = block;
  return op;
}

/// Three kernels, launched every 20 us, that run 2, 5 and 3 us, and a synchronisation behind them.
Trace host_bound() {
  return TraceText()
      .launch(0, 4, 1)
      .kernel("first_kernel", 6, 2, 1)
      .launch(20, 4, 2)
      .kernel("second_kernel", 26, 5, 2)
      .launch(40, 4, 3)
      .kernel("third_kernel", 46, 3, 3)
      .call("cudaDeviceSynchronize", 44, 6)
      .read();
}

WhatIf run(const Trace& trace, const std::vector<std::string>& changes) {
  std::vector<TraceChange> parsed;
  for (const std::string& change : changes) parsed.push_back(parse_change(change));
  WhatIfOptions options;
  options.gpu = hardware();
  options.host_factor = 1;
  options.find_gpu = [](const std::string&, const std::string&) {
    GpuSpec gpu = hardware();
    gpu.name = "other";
    gpu.memory.bandwidth = BytesPerSecond(4e12);
    return gpu;
  };
  options.gpu->memory.bandwidth = BytesPerSecond(2e12);
  return what_if(trace, parsed, options);
}

}  // namespace

TEST_CASE("The names of PyTorch's kernels tell operands, formats and, with the grid, elements") {
  const KernelTraits add = kernel_traits(add_bf16, op_of({8192, 1, 1}, {128, 1, 1}));
  CHECK(add.role == FusionRole::Pointwise);
  CHECK(add.elements == 8192 * 128 * 8);
  CHECK(add.inputs == 2);
  CHECK(add.read_bytes == 2);
  const KernelTraits cast = kernel_traits(cast_to_bf16, op_of({2, 1, 1}, {128, 1, 1}));
  CHECK(cast.read_bytes == 4);
  CHECK(cast.written_bytes == 2);
  const KernelTraits mean = kernel_traits(
      "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float> > >(x)",
      op_of({1024, 1, 1}, {32, 16, 1}));
  CHECK(mean.role == FusionRole::RowReduction);
  CHECK(mean.rows == 16384);
  const KernelTraits bias =
      kernel_traits("void at::native::reduce_kernel<128, 4, at::native::ReduceOp<c10::BFloat16> >(x)",
                    op_of({6, 256, 1}, {32, 4, 1}));
  CHECK(bias.role == FusionRole::ColumnReduction);
  CHECK(kernel_traits("nvjet_sm90_tst_64x8_64x16_2x1_v_bz_TNT", op_of({1, 1, 1}, {1, 1, 1})).role ==
        FusionRole::Fixed);
}

TEST_CASE("Products with a tile of few rows are told from the others by name") {
  CHECK(is_thin_product("nvjet_sm90_tst_64x8_64x16_2x1_v_bz_TNT"));
  CHECK(!is_thin_product("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"));
  CHECK(is_thin_product("void gemv2T_kernel_val<int>"));
}

TEST_CASE("A pattern is a part of the name, in which a star stands for anything") {
  CHECK(matches_pattern("void layer_norm_kernel<float>", "layer_norm"));
  CHECK(matches_pattern("void layer_norm_kernel<float>", "layer*float"));
  CHECK(!matches_pattern("void layer_norm_kernel<float>", "float*layer"));
}

TEST_CASE("The host's gaps bound a step until the host is faster") {
  // As traced from the first call: launches at 0, 20, 40; the third kernel ends at 49 and wakes the host at
  // 50. A host twice as fast launches the third at 20: its call takes 2, it arrives 2 later, ends at 27, and
  // the host returns 1 us after that.
  const WhatIf result = run(host_bound(), {"host=2x"});
  CHECK(result.baseline.step_time == us(50));
  CHECK(result.alone[0].step_time == us(28));
}

TEST_CASE("A kernel twice as fast, and one of a given duration") {
  // Only the last kernel is in the way of the synchronisation: 3 us become 1.5, then 13.
  const WhatIf result = run(host_bound(), {"kernel=third:2x", "kernel=third*kernel:13us", "kernel=first:2x"});
  CHECK(result.alone[0].step_time == us(48.5));
  CHECK(result.alone[1].step_time == us(60));
  CHECK(result.alone[2].step_time == us(50));
  CHECK(result.alone[2].gpu_busy == us(9));
}

TEST_CASE("One CUDA graph takes the place of three launches and of the host's work around them") {
  // Call 6, arrival 1 us after it, kernels 2 + 5 + 3 with 0.5 between; the host returns 1 us after the end.
  const WhatIf result = run(host_bound(), {"cuda_graph"});
  CHECK(result.alone[0].launches == 1);
  CHECK(result.alone[0].step_time == us(6 + 1 + 10 + 2 * 0.5 + 1));
}

TEST_CASE("CUDA graphs around a kernel leave its own launch and the host's work before it") {
  const WhatIf result = run(host_bound(), {"cuda_graph=around:second"});
  CHECK(result.alone[0].launches == 3);
  // Graph of one node at 0 to 6, 16 us of work of the second op as traced, its launch at 22, then a graph.
  // second: arrives 22 + 4 + 2 = 28, ends 33. Third: called at 26, arrives at 33, after the second and a gap.
  CHECK(result.alone[0].step_time == us(33 + 1 + 3 + 1));
}

TEST_CASE("Neighbours joined by name write and read less: the smaller of both between them is saved") {
  // Above the floor of 0.9 us: 1.1, 4.1 and 2.1. Saved are min(1.1, 4.1) and min(4.1, 2.1); left is 4.1.
  const WhatIf result = run(host_bound(), {"fuse=kernel"});
  CHECK(result.alone[0].gpu_ops == 1);
  CHECK(result.alone[0].gpu_busy == us(5));
  // One launch at 0, arriving at 6; the work before the others is gone, that behind them stays (0).
  CHECK(result.alone[0].step_time == us(6 + 5 + 1));
}

TEST_CASE("A synchronisation in the middle can be taken away, the last one stays") {
  const Trace trace = TraceText()
                          .launch(0, 4, 1)
                          .kernel("a", 6, 30, 1)
                          .call("cudaDeviceSynchronize", 4, 33)
                          .launch(40, 4, 2)
                          .kernel("b", 46, 10, 2)
                          .call("cudaDeviceSynchronize", 44, 13)
                          .read();
  const WhatIf result = run(trace, {"no_sync"});
  CHECK(result.baseline.step_time == us(57));
  // b is called at 7 (3 us of work behind the first launch), waits for a (ends at 36) and a gap of 1 us.
  CHECK(result.alone[0].step_time == us(36 + 1 + 10 + 1));
}

TEST_CASE("On a GPU with twice the bandwidth everything but the first 0.9 us of a kernel takes half") {
  const WhatIf result = run(host_bound(), {"gpu=other"});
  // 0.9 + 0.55, 0.9 + 2.05, 0.9 + 1.05.
  CHECK(result.alone[0].gpu_busy == us(2.7 + 3.65));
  CHECK(result.alone[0].error.has_value());
}

TEST_CASE("Twice the batch is twice the time above the floor, in products of few rows not") {
  const Trace trace = TraceText()
                          .launch(0, 4, 1)
                          .kernel("nvjet_sm90_tst_64x8_64x16_2x1_v_bz_TNT", 6, 20, 1)
                          .launch(4, 4, 2)
                          .kernel("relu_kernel", 27, 10.9, 2)
                          .call("cudaDeviceSynchronize", 8, 31)
                          .read();
  CHECK(run(trace, {"batch=2x"}).alone[0].gpu_busy == us(20 + 0.9 + 20));
}

TEST_CASE("All changes together are more than each alone, and their errors add as squares") {
  const WhatIf result = run(host_bound(), {"cuda_graph", "kernel=second:5x"});
  REQUIRE(result.together);
  CHECK(result.together->step_time == us(6 + 1 + 2 + 1 + 3 + 2 * 0.5 + 1));
  const double replay = record_of_baseline().worst;
  const double graph = record_of(TraceChange::Kind::CudaGraph)->worst;
  CHECK(*result.together->error == Approx(std::sqrt(replay * replay + graph * graph)));
}

TEST_CASE("Elementwise neighbours of one size are joined; another size, a product and a step part them") {
  TraceText text;
  const auto elementwise = [&](const std::string& name, double at, int id, int blocks) {
    text.launch(at, 1, id).event("kernel", name, at + 3, 10, 7,
                                 R"("device":0,"stream":7,"correlation":)" + std::to_string(id) +
                                     R"(,"grid":[)" + std::to_string(blocks) + R"(,1,1],"block":[128,1,1])");
  };
  text.step(0, 0, 100);
  elementwise(add_fp32, 0, 1, 4096);
  elementwise(cast_to_bf16, 14, 2, 4096);
  elementwise(cast_to_bf16, 28, 3, 512);
  text.launch(42, 1, 4).kernel("nvjet_sm90_tst_256x128_64x4_TNT", 45, 10, 4);
  elementwise(add_fp32, 56, 5, 4096);
  text.step(1, 100, 100);
  elementwise(cast_to_bf16, 101, 6, 4096);
  const Trace trace = text.read();
  const TraceRules rules = derive_rules(trace, nullptr);
  const std::vector<Picoseconds> durations(trace.ops.size(), us(10));
  const std::vector<FusedGroup> groups = fuse_all({trace, rules, durations, nullptr});
  REQUIRE(groups.size() == 1);
  CHECK(groups[0].members == std::vector<std::uint32_t>{0, 1});
  // By traffic: add 4 + 4 read and 4 written, cast 4 read and 2 written; 8 and 2 of these 18 bytes are left.
  CHECK(groups[0].price == FusedPrice::Traffic);
  CHECK(groups[0].together == us(0.9) + Picoseconds((us(2 * 9.1).count() * 10 + 9) / 18));
}

TEST_CASE("Mistakes in changes say what to write") {
  CHECK(message_of([] { parse_change("fuze"); }) ==
        "--change fuze: error: unknown change 'fuze'\n  hint: did you mean 'fuse'?");
  CHECK_THAT(message_of([] { parse_change("host=fast"); }), ContainsSubstring("'fast' is not a factor"));
  CHECK_THAT(message_of([] { parse_change("host=0x"); }), ContainsSubstring("'0x' is not a factor"));
  CHECK_THAT(message_of([] { parse_change("batch=-1x"); }), ContainsSubstring("'-1x' is not a factor"));
  CHECK_THAT(message_of([] { parse_change("kernel=gemm"); }), ContainsSubstring("how fast the kernel"));
  CHECK_THAT(message_of([] { parse_change("kernel=gemm:30"); }),
             ContainsSubstring("'30' is neither a factor nor a time"));
  CHECK_THAT(message_of([] { parse_change("compile=yes"); }), ContainsSubstring("takes no value"));
  CHECK_THAT(message_of([] { parse_change("cuda_graph=half"); }), ContainsSubstring("unknown kind"));
  CHECK_THAT(message_of([] { parse_change("gpu"); }), ContainsSubstring("a value is missing"));
}

TEST_CASE("A pattern that no kernel has names the nearest kernels") {
  CHECK(message_of([] { run(host_bound(), {"kernel=secund_kernel:2x"}); }) ==
        "--change kernel=secund_kernel:2x: error: no kernel of the trace matches 'secund_kernel'\n"
        "  hint: nearest kernels: 'second_kernel', 'third_kernel', 'first_kernel'");
}

TEST_CASE("A trace without GPU work, and compiling without a host, are refused") {
  CHECK_THAT(message_of([] { run(TraceText().cpu_op("aten::mm", 0, 5).read(), {"cuda_graph"}); }),
             ContainsSubstring("the trace has no GPU op"));
  CHECK_THAT(message_of([] { run(host_bound(), {"compile"}); }),
             ContainsSubstring("a host to price compiled"));
  CHECK_THAT(message_of([] { run(host_bound(), {"cuda_graph=piecewise"}); }),
             ContainsSubstring("no attention kernel to cut at"));
}
