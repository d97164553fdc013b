// SPDX-License-Identifier: Apache-2.0
// Small simulated steps for the tests of reports.
#pragma once

#include <string>
#include <utility>

#include "models/units/quantity.hpp"
#include "sim/engine/engine.hpp"
#include "sim/report/result.hpp"

namespace gpusim::test {

using namespace gpusim::literals;

/// A program with one host thread and one stream, grown call by call.
struct ProgramBuilder {
  engine::Program program;

  ProgramBuilder() {
    program.streams.push_back({"default", 0});
    program.threads.push_back({"main", {}, {}});
  }
  engine::Index op(const std::string& name, Picoseconds duration, std::int64_t bytes = 0, double flops = 0,
                   engine::OpKind kind = engine::OpKind::Kernel) {
    engine::GpuOp op;
    op.duration = duration;
    op.kind = kind;
    op.gap_before = Picoseconds(0);
    return program.add(op, {.name = program.intern(name), .bytes = bytes, .flops = flops});
  }
  engine::Instruction& call(engine::Call what, Picoseconds duration,
                            engine::Index object = engine::no_index) {
    engine::Instruction instruction;
    instruction.call = what;
    instruction.object = object;
    instruction.duration = duration;
    instruction.latency = duration;
    program.threads.front().instructions.push_back(instruction);
    return program.threads.front().instructions.back();
  }
  void launch(engine::Index object, int times, Picoseconds call_time) {
    for (int i = 0; i < times; ++i) call(engine::Call::Launch, call_time, object);
  }
};

inline report::VariantResult simulated(std::string name, engine::Program program) {
  report::VariantResult result;
  result.variant = std::move(name);
  const engine::Machine machine;
  engine::Timeline timeline;
  result.isolated = engine::run(program, machine, 1, &timeline);
  result.steady = engine::run_steady(program, machine);
  result.timeline = std::move(timeline);
  result.program = std::move(program);
  return result;
}

/// 300 kernels of 3 us, each launched by a call of 6 us.
inline report::VariantResult many_small_kernels() {
  ProgramBuilder builder;
  builder.launch(builder.op("vectorized_elementwise_kernel", 3_us), 300, 6_us);
  report::VariantResult result = simulated("eager", std::move(builder.program));
  result.one_cuda_graph = report::WhatIf{906_us, 900.0 / 906.0};
  return result;
}

/// The same kernels replayed by one launch.
inline report::VariantResult one_cuda_graph() {
  ProgramBuilder builder;
  const engine::Index op = builder.op("vectorized_elementwise_kernel", 3_us);
  engine::CudaGraph graph;
  graph.name = builder.program.intern("step");
  for (engine::Index i = 0; i < 300; ++i)
    graph.nodes.push_back({op, i == 0 ? std::vector<engine::Index>{} : std::vector<engine::Index>{i - 1}});
  builder.program.graphs.push_back(std::move(graph));
  builder.call(engine::Call::LaunchGraph, 6_us, 0);
  builder.call(engine::Call::SynchronizeDevice, 0_us, 0);
  return simulated("cuda_graph", std::move(builder.program));
}

/// Two large kernels near their roofs and a small one, on a device with 1 PFLOP/s and 4 TB/s.
inline report::VariantResult near_the_roofs() {
  ProgramBuilder builder;
  builder.launch(builder.op("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NTT", 100_us, 40'000'000, 75e9), 4, 5_us);
  builder.launch(builder.op("triton_poi_fused_add_gelu_0", 50_us, 190'000'000, 1e8), 2, 5_us);
  builder.launch(builder.op("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 20_us, 1'000'000), 1, 5_us);
  builder.program.sizes = {std::int64_t{3} << 30};
  builder.call(engine::Call::Allocate, 0_us, 0);
  builder.call(engine::Call::Free, 0_us, 0);
  report::VariantResult result = simulated("compiled", std::move(builder.program));
  result.device = {.name = "example",
                   .dtype = "bf16",
                   .peak = FlopsPerSecond(1e15),
                   .bandwidth = BytesPerSecond(4e12),
                   .capacity = {},
                   .sms = 0};
  result.model_flops = Flops(2.6e11);
  result.notes = {"launch parameters transferred from h200"};
  return result;
}

}  // namespace gpusim::test
