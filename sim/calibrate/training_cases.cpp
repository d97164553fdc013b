// SPDX-License-Identifier: Apache-2.0
#include "sim/calibrate/training_cases.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/calibrate/rotation.hpp"

namespace gpusim::calibrate {
namespace {

using Names = std::span<const std::string>;
using Shape = std::span<const std::int64_t>;

double product_of(Shape shape) {
  double product = 1;
  for (const std::int64_t size : shape) product *= static_cast<double>(size);
  return product;
}

double size_of(Dtype dtype) {
  return bits(dtype) / 8.0;
}

/// What a run of the case meets that reads `in` bytes of its own set and writes `out`.
Reuse met(const KernelCase& c, double in, double out) {
  return reuse({.sets = static_cast<double>(std::max(c.sets, 1)), .in = in, .out = out, .runs = 7});
}

void set_works(KernelCase& c, std::vector<std::pair<KernelWork, Reuse>> works) {
  c.works = [works = std::move(works)](const GpuSpec& gpu) {
    std::vector<CachedWork> cached;
    for (const auto& [work, reuse] : works) cached.push_back({work, cache_state(reuse, gpu)});
    return cached;
  };
}

/// "gemm_dw/bf16/512x768x3072": of 512 rows, 768 outputs, 3072 inputs.
bool product_gradient(KernelCase& c, Names name, Shape s) {
  const auto dtype = name.size() > 1 ? find_dtype(name[1]) : std::nullopt;
  if (!dtype || s.size() != 3) return false;
  MatrixProduct work{.dtype = *dtype, .output = *dtype};
  if (name[0] == "gemm_dw") {
    work.m = s[1], work.n = s[2], work.k = s[0];
    work.left_transposed = true;
    work.right_transposed = false;
  } else if (name[0] == "gemm_dx") {
    work.m = s[0], work.n = s[2], work.k = s[1];
    work.right_transposed = false;
  } else {
    work.m = s[0], work.n = s[1], work.k = s[2];
  }
  c.family = *dtype == Dtype::Tf32 ? "tf32 product" : "product gradient";
  c.group = std::to_string(s[1]) + "x" + std::to_string(s[2]);
  const auto bytes = [&](std::int64_t a, std::int64_t b) {
    return static_cast<double>(a) * static_cast<double>(b) * size_of(*dtype);
  };
  set_works(c, {{work, met(c, bytes(work.m, work.k) + bytes(work.n, work.k), bytes(work.m, work.n))}});
  return true;
}

/// "sdpa/fp32/fwd+bwd/causal/4x12x512x64"
bool attention(KernelCase& c, Names name, Shape s) {
  if (s.size() != 4 || name.size() != 5) return false;
  const Attention work{.batch = s[0],
                       .heads = s[1],
                       .query_length = s[2],
                       .head_dim = s[3],
                       .causal = name[3] == "causal",
                       .dtype = name[1] == "fp32" ? Dtype::Tf32 : Dtype::Bf16};
  c.family = name[1] == "fp32" ? "fp32 attention" : "attention";
  c.group = name[4];
  const double one = product_of(s) * size_of(work.dtype);
  // Each set has queries, keys, values and the result's gradient.
  const bool backward = name[2] == "fwd+bwd";
  std::vector<std::pair<KernelWork, Reuse>> works = {{work, met(c, (backward ? 4 : 3) * one, one)}};
  if (backward) works.push_back({AttentionBackward{work}, met(c, 4 * one, 4 * one)});
  set_works(c, std::move(works));
  return true;
}

/// "batch_norm_train/fwd/N8C64H112"
bool batch_norm(KernelCase& c, Names name, Shape s) {
  if (s.size() != 3 || name.size() != 3) return false;
  BatchNorm work{.batch = s[0],
                 .channels = s[1],
                 .spatial = s[2] * s[2],
                 .dtype = Dtype::Bf16,
                 .training = true,
                 .channels_last = true};
  c.family = "batch norm in training";
  c.group = name[2];
  const double one = product_of(s) * static_cast<double>(s[2]) * size_of(work.dtype);
  const bool backward = name[1] == "fwd+bwd";
  std::vector<std::pair<KernelWork, Reuse>> works = {{work, met(c, (backward ? 2 : 1) * one, one)}};
  if (backward) {
    // Of what it reads, the input was there a moment ago and the gradient a round ago.
    work.backward = true;
    const Reuse gradient = met(c, 2 * one, 2 * one);
    const Reuse input{2 * one, gradient.writes};
    c.works = [works, work, gradient, input](const GpuSpec& gpu) {
      const CacheState far = cache_state(gradient, gpu);
      const CacheState near = cache_state(input, gpu);
      return std::vector<CachedWork>{{works.front().first, cache_state(works.front().second, gpu)},
                                     {work, {(far.cold_reads + near.cold_reads) / 2, far.cold_writes}}};
    };
    return true;
  }
  set_works(c, std::move(works));
  return true;
}

/// "conv_dx/N8C64H56K64k3s1"
bool convolution(KernelCase& c, Names name, Shape s) {
  if (s.size() != 6) return false;
  Convolution work{.batch = s[0],
                   .channels = s[1],
                   .height = s[2],
                   .width = s[2],
                   .out_channels = s[3],
                   .kernel_height = s[4],
                   .kernel_width = s[4],
                   .stride = s[5],
                   .padding = s[4] / 2,
                   .dtype = Dtype::Bf16};
  work.pass = name[0] == "conv_dx" ? Convolution::Pass::InputGradient : Convolution::Pass::WeightGradient;
  c.family = "convolution gradient";
  c.group = name[1];
  const double size = size_of(work.dtype);
  const double image = static_cast<double>(s[0] * s[1] * s[2] * s[2]) * size;
  const double weight = static_cast<double>(s[1] * s[3] * s[4] * s[4]) * size;
  const double grad = static_cast<double>(s[0] * s[3] * work.out_height() * work.out_width()) * size;
  set_works(c, {{work, work.pass == Convolution::Pass::InputGradient ? met(c, grad + weight, image)
                                                                     : met(c, grad + image, weight)}});
  return true;
}

/// "red/sum_rows/bf16/512x768"
bool column_sum(KernelCase& c, Names name, Shape s) {
  if (s.size() != 2 || name.size() != 4) return false;
  const Dtype dtype = name[2] == "fp32" ? Dtype::Fp32 : Dtype::Bf16;
  c.family = "column_sum";
  c.group = name[3];
  set_works(c, {{ColumnReduction{s[0], s[1], dtype, dtype},
                 met(c, product_of(s) * size_of(dtype), static_cast<double>(s[1]) * size_of(dtype))}});
  return true;
}

}  // namespace

bool understand_training(KernelCase& c, Names name, Shape shape) {
  if (name.empty()) return false;
  if (name[0] == "gemm_dw" || name[0] == "gemm_dx" || name[0] == "gemm")
    return product_gradient(c, name, shape);
  if (name[0] == "sdpa") return attention(c, name, shape);
  if (name[0] == "batch_norm_train") return batch_norm(c, name, shape);
  if (name[0] == "conv_dx" || name[0] == "conv_dw") return convolution(c, name, shape);
  if (name[0] == "red" && name.size() > 1 && name[1] == "sum_rows") return column_sum(c, name, shape);
  return false;
}

}  // namespace gpusim::calibrate
