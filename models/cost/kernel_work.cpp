// SPDX-License-Identifier: Apache-2.0
#include "models/cost/kernel_work.hpp"

#include <array>
#include <cstddef>
#include <limits>
#include <string>

#include "models/cost/kernel_terms.hpp"
#include "models/units/time_range.hpp"

namespace gpusim {
namespace {

constexpr std::array<std::string_view, alu_function_count> function_names = {
    "add", "mul",  "div", "rsqrt",   "exp",  "log",  "sin",
    "cos", "tanh", "erf", "sigmoid", "silu", "gelu", "gelu_tanh"};

const KernelCalibration& calibration_of(const GpuSpec& gpu) {
  if (!gpu.calibration)
    throw NoCalibrationError("'" + gpu.key +
                             "' has no calibration for kernels; 'calibration: {base: h200}' borrows "
                             "that of another device");
  return *gpu.calibration;
}

std::int32_t to_count(double value) {
  return static_cast<std::int32_t>(
      std::clamp(value, 1.0, static_cast<double>(std::numeric_limits<std::int32_t>::max())));
}

/// Linear from 0 at `resident` to 1 at `evicted`, both shares of the L2.
double gone(double bytes, const GpuSpec& gpu, const MemoryCalibration& memory) {
  const double filled = bytes / static_cast<double>(gpu.l2.value());
  return std::clamp((filled - memory.resident) / (memory.evicted - memory.resident), 0.0, 1.0);
}

}  // namespace

std::string_view name(AluFunction function) {
  return function_names[static_cast<std::size_t>(function)];
}

double lane_cycles(AluFunction function, const GpuSpec& gpu) {
  const AluCalibration& alu = calibration_of(gpu).alu;
  switch (function) {
    case AluFunction::Add:
      return alu.add;
    case AluFunction::Mul:
      return alu.mul;
    case AluFunction::Divide:
      return alu.div;
    case AluFunction::Rsqrt:
      return alu.rsqrt;
    case AluFunction::Exp:
      return alu.exp;
    case AluFunction::Log:
      return alu.log;
    case AluFunction::Sin:
      return alu.sin;
    case AluFunction::Cos:
      return alu.cos;
    case AluFunction::Tanh:
      return alu.tanh;
    case AluFunction::Erf:
      return alu.erf;
    case AluFunction::Sigmoid:
      return alu.sigmoid;
    case AluFunction::Silu:
      return alu.silu;
    case AluFunction::Gelu:
      return alu.gelu;
    case AluFunction::GeluTanh:
      return alu.gelu_tanh;
  }
  return 0;
}

std::string_view name(KernelLimit limit) {
  switch (limit) {
    case KernelLimit::Overhead:
      return "overhead";
    case KernelLimit::Memory:
      return "memory";
    case KernelLimit::Cache:
      return "cache";
    case KernelLimit::Compute:
      return "compute";
    case KernelLimit::Blocks:
      return "blocks";
  }
  return "";
}

double cold_share(Bytes touched, const GpuSpec& gpu) {
  return gone(static_cast<double>(touched.value()), gpu, calibration_of(gpu).memory);
}

std::vector<GpuOpEstimate> gpu_ops(const KernelWork& work, const GpuSpec& gpu, CacheState cache) {
  const cost::Pricing pricing{gpu, calibration_of(gpu), cache};
  return std::visit([&](const auto& one) { return cost::price(pricing, one); }, work);
}

KernelEstimate estimate(const KernelWork& work, const GpuSpec& gpu, CacheState cache) {
  KernelEstimate sum;
  Picoseconds longest{-1};
  for (const GpuOpEstimate& op : gpu_ops(work, gpu, cache)) {
    sum.duration += op.cost.duration;
    sum.flops += op.cost.flops;
    sum.hbm_bytes += op.cost.hbm_bytes;
    if (op.cost.duration > longest) {
      longest = op.cost.duration;
      sum.limit = op.cost.limit;
      sum.blocks = op.cost.blocks;
      sum.threads = op.cost.threads;
    }
  }
  return sum;
}

namespace cost {

double Pricing::lanes_per_second() const {
  // Two operations per lane and cycle: the datasheet's fp32 rate, which knows how many lanes an SM has.
  if (const auto fp32 = gpu.peak.find(Dtype::Fp32)) return fp32->value() / 2;
  return sms() * 128 * gpu.clock.value();
}

double Pricing::miss(double working_set) const {
  return gone(working_set, gpu, calibration.memory);
}

KernelLimit limit_of(double fixed, std::initializer_list<Term> terms) {
  KernelLimit limit = KernelLimit::Overhead;
  double largest = fixed;
  for (const Term& term : terms)
    if (term.seconds > largest) {
      largest = term.seconds;
      limit = term.limit;
    }
  return limit;
}

GpuOpEstimate kernel(std::string_view name, const KernelFigures& figures) {
  GpuOpEstimate op;
  op.name = name;
  op.cost.duration = time_in_range(figures.seconds * 1e12);
  op.cost.flops = Flops(figures.flops);
  op.cost.hbm_bytes = Bytes(std::llround(figures.hbm_bytes));
  op.cost.limit = figures.limit;
  op.cost.blocks = to_count(figures.blocks);
  op.cost.threads = figures.threads;
  return op;
}

GpuOpEstimate memset_op(const Pricing& p, double bytes) {
  GpuOpEstimate op;
  op.kind = GpuOpKind::Memset;
  op.name = "memset";
  const double transfer = p.memory(bytes, p.calibration.pointwise.memory_share);
  op.cost.duration = time_in_range((p.calibration.memory.memset + transfer) * 1e12);
  op.cost.hbm_bytes = Bytes(std::llround(bytes));
  op.cost.limit = transfer > p.calibration.memory.memset ? KernelLimit::Memory : KernelLimit::Overhead;
  op.cost.blocks = 1;
  return op;
}

}  // namespace cost
}  // namespace gpusim
