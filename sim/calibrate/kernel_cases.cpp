// SPDX-License-Identifier: Apache-2.0
#include "sim/calibrate/kernel_cases.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "models/cost/measurement_formulas.hpp"
#include "models/cost/optimizer_functions.hpp"
#include "sim/calibrate/rotation.hpp"
#include "sim/calibrate/training_cases.hpp"

namespace gpusim::calibrate {
namespace {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

/// All whole numbers in a text, in order: "B1H32T128D64" gives 1, 32, 128, 64.
std::vector<std::int64_t> numbers(std::string_view text) {
  std::vector<std::int64_t> found;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] < '0' || text[i] > '9') {
      ++i;
      continue;
    }
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), value);
    if (error != std::errc()) return {};
    found.push_back(value);
    i = static_cast<std::size_t>(end - text.data());
  }
  return found;
}

/// A name cut at its slashes, and what is read off it.
struct Name {
  std::vector<std::string> parts;
  std::string shape_text;           ///< The part that is the shape,
  std::vector<std::int64_t> shape;  ///< and its numbers.

  std::string_view at(std::size_t i) const { return i < parts.size() ? std::string_view(parts[i]) : ""; }
  bool last_is(std::string_view word) const { return !parts.empty() && parts.back() == word; }
};

Bytes bytes(double value) {
  return Bytes(std::llround(value));
}

KernelWork pointwise(std::int64_t elements, double read, double written, double cycles,
                     Pointwise::Access access = Pointwise::Access::Vectorized) {
  return Pointwise{elements, bytes(read), bytes(written), cycles, access};
}

/// A rotation with the number of sets that the table gives, where it gives one.
Rotation rotated(const KernelCase& c, Rotation rotation) {
  if (c.sets > 0) {
    rotation.sets = c.sets;
    rotation.own_out = false;
    rotation.runs = 7;
  }
  return rotation;
}

/// A case of a single work whose cache state follows from one rotation.
CaseWorks single(KernelWork work, const Rotation& rotation) {
  return [work = std::move(work), met = reuse(rotation)](const GpuSpec& gpu) {
    return std::vector<CachedWork>{{work, cache_state(met, gpu)}};
  };
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

/// Elements of a shape as names have it: "1048576", "2048x4096", "N64C64H56" (square), "scoresB8H12T1024D64".
double elements_of(const Name& name) {
  double product = 1;
  for (const std::int64_t size : name.shape) product *= static_cast<double>(size);
  if (name.shape_text.rfind('N', 0) == 0 && name.shape.size() == 3)
    product *= static_cast<double>(name.shape[2]);
  if (name.shape_text.rfind("scores", 0) == 0 && name.shape.size() == 4)
    product *= static_cast<double>(name.shape[2]) / static_cast<double>(name.shape[3]);
  return product;
}

struct ElementwiseOp {
  std::string_view name;
  double inputs;  ///< Tensors of full size that are read.
  std::optional<AluFunction> function = {};
  bool in_place = false;
};

constexpr std::array<ElementwiseOp, 21> vectorized_ops = {{
    {"relu", 1},
    {"gelu", 1, AluFunction::Gelu},
    {"gelu_exact", 1, AluFunction::Gelu},
    {"gelu_tanh", 1, AluFunction::GeluTanh},
    {"silu", 1, AluFunction::Silu},
    {"neg", 1},
    {"exp", 1, AluFunction::Exp},
    {"tanh", 1, AluFunction::Tanh},
    {"sigmoid", 1, AluFunction::Sigmoid},
    {"mul_scalar", 1},
    {"add_scalar", 1},
    {"pow2", 1},
    {"rsqrt", 1, AluFunction::Rsqrt},
    {"mul_self", 1},
    {"add", 2},
    {"mul", 2},
    {"addcmul", 3},
    {"relu_inplace", 1, std::nullopt, true},
    {"add_inplace", 2, std::nullopt, true},
    {"sub", 2},
    {"floor_divide", 1},
}};

/// One op of strided access: `read` bytes of `elements`, written with `size` bytes each.
void strided(KernelCase& c, double elements, double read, double size,
             Pointwise::Access access = Pointwise::Access::Strided) {
  Rotation r;
  r.in = read;
  r.out = elements * size;
  c.family = "strided";
  c.works = single(pointwise(std::llround(elements), r.in, r.out, 0, access), rotated(c, r));
}

bool elementwise(KernelCase& c, const Name& name) {
  if (name.shape.empty()) return false;
  const double elements = elements_of(name);
  const std::int64_t n = std::llround(elements);
  const std::string_view op = name.at(1);
  const double size = name.at(2) == "fp32" ? 4 : name.at(2) == "int64" ? 8 : 2;
  c.family = "elementwise";
  c.group = std::to_string(n);
  Rotation r;
  r.runs = 7;
  if (op == "cast_fp32_bf16") {
    r.sets = rotated_sets(elements * 6);
    r.in = elements * 4;
    r.out = elements * 2;
    c.works = single(pointwise(n, r.in, r.out, 0), rotated(c, r));
    return true;
  }
  if (op == "cast_bf16_fp32") {
    c.family = "unrolled";
    r.in = elements * 2;
    r.out = elements * 4;
    c.works = single(pointwise(n, r.in, r.out, 0, Pointwise::Access::Unrolled), rotated(c, r));
    return true;
  }
  if (op == "eq_scalar") {
    r.in = elements * size;
    r.out = elements;
    c.works = single(pointwise(n, r.in, r.out, 0), rotated(c, r));
    return true;
  }
  if (op == "masked_fill") {
    c.family = "strided";
    r.in = elements * size;
    r.out = elements * size;
    c.works = [=, met = reuse(rotated(c, r))](const GpuSpec& gpu) {
      const CacheState state_of_copy = cache_state(met, gpu);
      return std::vector<CachedWork>{{pointwise(n, r.in, r.out, 0), state_of_copy},
                                     {pointwise(n, r.in, r.out, 0, Pointwise::Access::Strided),
                                      {state_of_copy.cold_writes, state_of_copy.cold_writes}}};
    };
    return true;
  }
  const bool one_row = name.shape.size() == 2 && name.shape[0] == 1 && op == "mul_cols";
  if ((op == "mul_rows" || op == "sub_rows" || op == "add_cols" || op == "mul_cols" || op == "add_position" ||
       op == "silu_chunk" || op == "mul_chunk") &&
      !one_row) {
    strided(c, elements, elements * size * (op == "mul_chunk" ? 2 : 1), size);
    return true;
  }
  for (const ElementwiseOp& known : vectorized_ops) {
    if (known.name != op && !(one_row && known.name == "mul_self")) continue;
    r.in = elements * size * known.inputs;
    r.out = known.in_place ? 0 : elements * size;
    r.own_out = true;
    r.sets = name.last_is("hot") ? 1 : rotated_sets(r.in + r.out);
    c.works = [=, f = known.function, in_place = known.in_place, written = elements * size,
               met = reuse(rotated(c, r))](const GpuSpec& gpu) {
      CacheState cache = cache_state(met, gpu);
      if (in_place) cache.cold_writes = cache.cold_reads;
      Pointwise work;
      work.elements = n;
      work.read = bytes(r.in);
      work.written = bytes(written);
      work.lane_cycles = f ? lane_cycles(*f, gpu) : 0;
      work.divisions = f == AluFunction::Silu || f == AluFunction::Sigmoid ? 1 : 0;
      return std::vector<CachedWork>{{work, cache}};
    };
    return true;
  }
  return false;
}

bool reduction(KernelCase& c, const Name& name) {
  if (name.shape.size() != 2) return false;
  const std::int64_t rows = name.shape[0];
  const std::int64_t columns = name.shape[1];
  const double elements = static_cast<double>(rows) * static_cast<double>(columns);
  const std::string_view op = name.at(1);
  c.group = shape_text(name.shape);
  Rotation r;
  const Dtype dtype = name.at(2) == "fp32" ? Dtype::Fp32 : Dtype::Bf16;
  r.sets = rotated_sets(elements * 4);
  r.in = elements * bits(dtype) / 8;
  r.out = elements * bits(dtype) / 8;
  using Kind = RowReduction::Kind;
  const auto row = [&](Kind kind) { return RowReduction{kind, rows, columns, dtype, dtype}; };
  if (op == "layer_norm" || op == "rms_norm") {
    c.family = "norm";
    c.works = single(row(op == "rms_norm" ? Kind::RmsNorm : Kind::LayerNorm), rotated(c, r));
  } else if (op == "softmax") {
    c.family = "softmax";
    c.works = single(row(Kind::Softmax), rotated(c, r));
  } else if (op == "sum_last" || op == "mean_last" || op == "argmax") {
    c.family = op == "argmax" ? "argmax" : "row_sum";
    r.out = 8 * static_cast<double>(rows);
    c.works = single(row(op == "argmax" ? Kind::ArgMax : Kind::Sum), rotated(c, r));
  } else if (op == "sum_first") {
    c.family = "column_sum";
    r.out = 2 * static_cast<double>(columns);
    c.works = single(ColumnReduction{rows, columns, Dtype::Bf16, Dtype::Bf16}, rotated(c, r));
  } else if (op == "sum_all") {
    c.family = "full_sum";
    r.out = 2;
    c.works = single(FullReduction{rows * columns, Dtype::Bf16}, rotated(c, r));
  } else if (op == "layer_norm_bwd") {
    c.family = "norm_backward";
    r.sets = std::min(4.0, rotated_sets(elements * 6));
    r.in = elements * 4;
    c.works = single(row(Kind::LayerNormBackward), rotated(c, r));
  } else {
    return false;
  }
  return true;
}

bool product(KernelCase& c, const Name& name) {
  const auto dtype = find_dtype(name.at(1));
  if (!dtype || name.shape.size() != 3) return false;
  MatrixProduct work;
  work.m = name.shape[0];
  work.n = name.shape[1];
  work.k = name.shape[2];
  work.dtype = *dtype;
  work.output = *dtype == Dtype::Fp8 ? Dtype::Bf16 : *dtype;
  if (name.at(0) == "gemm_bias") work.epilogue = Epilogue::Bias;
  const double size = bits(*dtype) / 8.0;
  const double m = static_cast<double>(work.m);
  const double n = static_cast<double>(work.n);
  const double k = static_cast<double>(work.k);
  c.family = "product";
  c.group = std::to_string(work.n) + "x" + std::to_string(work.k);
  Rotation r;
  r.sets = std::min(8.0, rotated_sets((m * k + n * k + m * n) * size));
  r.in = (m + n) * k * size;
  r.out = m * n * bits(work.output) / 8.0;
  c.works = single(work, rotated(c, r));
  return true;
}

bool batched_product(KernelCase& c, const Name& name) {
  const auto dtype = find_dtype(name.at(1));
  if (!dtype || name.shape.size() != 4) return false;
  MatrixProduct work{name.shape[0], name.shape[1], name.shape[2], name.shape[3],
                     *dtype,        *dtype,        Epilogue::None};
  const double size = bits(*dtype) / 8.0;
  const double batch = static_cast<double>(work.batch);
  const double m = static_cast<double>(work.m);
  const double n = static_cast<double>(work.n);
  const double k = static_cast<double>(work.k);
  c.family = "batched_product";
  c.group = shape_text(name.shape);
  Rotation r;
  r.in = batch * (m + n) * k * size;
  r.out = batch * m * n * size;
  c.works = single(work, rotated(c, r));
  return true;
}

bool attention(KernelCase& c, const Name& name, bool backward) {
  const std::string_view kind = name.at(0);
  const auto& s = name.shape;
  Attention work;
  work.causal = name.at(3) == "causal";
  if (kind == "sdpa_gqa_fwd" && s.size() == 5) {
    work.batch = s[0], work.heads = s[1], work.kv_heads = s[2], work.query_length = s[3],
    work.head_dim = s[4];
  } else if (kind == "sdpa_cross" && s.size() == 5) {
    work.batch = s[0], work.heads = s[1], work.query_length = s[2], work.kv_length = s[3],
    work.head_dim = s[4];
  } else if (s.size() == 4) {
    work.batch = s[0], work.heads = s[1], work.query_length = s[2], work.head_dim = s[3];
    work.masked = kind == "sdpa_mask";
  } else {
    return false;
  }
  c.family = "attention";
  c.group = shape_text(s);
  const double width = 2 * static_cast<double>(work.batch) * static_cast<double>(work.head_dim);
  const double q = width * static_cast<double>(work.heads) * static_cast<double>(work.query_length);
  const double kv = 2 * width * static_cast<double>(work.kv_heads > 0 ? work.kv_heads : work.heads) *
                    static_cast<double>(work.kv_length > 0 ? work.kv_length : work.query_length);
  Rotation r;
  r.in = q + kv;
  r.out = q;
  if (!backward) {
    c.works = single(work, rotated(c, r));
    return true;
  }
  Rotation b;
  b.in = 3 * q + kv;
  b.out = 2 * q + kv;
  c.works = [work, forward = reuse(rotated(c, r)), back = reuse(rotated(c, b))](const GpuSpec& gpu) {
    return std::vector<CachedWork>{{work, cache_state(forward, gpu)},
                                   {AttentionBackward{work}, cache_state(back, gpu)}};
  };
  return true;
}

bool attention_decode(KernelCase& c, const Name& name) {
  if (name.shape.size() != 5) return false;
  AttentionDecode work{name.shape[0],
                       name.shape[1],
                       name.shape[2],
                       name.shape[3],
                       name.shape[4],
                       Dtype::Bf16,
                       name.at(0) == "sdpa_decode_mask"};
  c.family = "attention_decode";
  c.group = shape_text(name.shape);
  Rotation r;
  r.in = 4 * static_cast<double>(work.batch) * static_cast<double>(work.kv_heads) *
         static_cast<double>(work.kv_length) * static_cast<double>(work.head_dim);
  c.works = single(work, rotated(c, r));
  return true;
}

bool cross_entropy(KernelCase& c, const Name& name) {
  if (name.shape.size() != 3) return false;
  const std::int64_t rows = name.shape[0] * name.shape[1];
  const std::int64_t classes = name.shape[2];
  const double n = static_cast<double>(rows) * static_cast<double>(classes);
  c.family = "cross_entropy";
  c.group = shape_text(name.shape);
  c.works = [=](const GpuSpec&) {
    using Kind = RowReduction::Kind;
    auto widen = std::get<Pointwise>(pointwise(rows * classes, 2 * n, 4 * n, 0, Pointwise::Access::Unrolled));
    auto narrow = std::get<Pointwise>(pointwise(rows * classes, 4 * n, 2 * n, 0));
    widen.parts = narrow.parts = pointwise_parts(Bytes(4 * rows * classes));
    return std::vector<CachedWork>{
        {widen, cold},
        {RowReduction{Kind::LogSoftmax, rows, classes, Dtype::Fp32, Dtype::Fp32}, cold},
        {LossGather{rows, classes, Dtype::Fp32, false}, cold},
        {TinyKernel{}, cold},  // The loss's own gradient, 1.
        {LossGather{rows, classes, Dtype::Fp32, true}, cold},
        {RowReduction{Kind::SoftmaxBackward, rows, classes, Dtype::Fp32, Dtype::Fp32}, cold},
        {narrow, cold}};
  };
  return true;
}

bool other(KernelCase& c, const Name& name) {
  const std::string_view op = name.at(0);
  const auto& s = name.shape;
  c.group = shape_text(s);
  if (op == "embedding" && s.size() == 3) {
    const double row = 2 * static_cast<double>(s[1]);
    c.family = "indexed";
    Rotation r;
    r.in = row * static_cast<double>(s[0]);
    r.out = r.in;
    c.works = single(Gather{s[0], bytes(row), bytes(row * static_cast<double>(s[2]))}, rotated(c, r));
    return true;
  }
  if (op == "embedding_bwd" && s.size() == 3) {
    c.family = "indexed";
    Rotation r;
    r.in = 2 * static_cast<double>(s[0]) * static_cast<double>(s[1]);
    r.out = 2 * static_cast<double>(s[2]) * static_cast<double>(s[1]);
    c.works = single(EmbeddingBackward{s[0], s[1], s[2], Dtype::Bf16}, rotated(c, r));
    return true;
  }
  if (op == "transpose_copy" && s.size() == 2) {
    c.family = "copy";
    Rotation r;
    r.sets = 3;
    r.in = r.out = 2 * static_cast<double>(s[0] * s[1]);
    c.works = single(TransposedCopy{s[0] * s[1], 2}, rotated(c, r));
    return true;
  }
  if (op == "cat" && s.size() == 3 && s[0] == 2) {
    c.family = "copy";
    Rotation r;
    r.in = 2 * static_cast<double>(s[1] * s[2]);
    r.out = 2 * r.in;
    c.works = single(Concatenation{2 * s[1] * s[2], 2, 2}, rotated(c, r));
    return true;
  }
  if (op == "dropout" && s.size() == 2) {
    c.family = "copy";
    Rotation r;
    r.in = 2 * static_cast<double>(s[0] * s[1]);
    r.out = 1.5 * r.in;
    c.works = single(Dropout{s[0] * s[1], 2}, rotated(c, r));
    return true;
  }
  if ((op == "adamw_fused" || op == "adamw_foreach") && s.size() == 2) {
    c.family = "optimizer";
    const std::vector<std::int64_t> sizes(static_cast<std::size_t>(s[0]), s[1]);
    const bool fused = op == "adamw_fused";
    std::vector<MultiTensor> passes;
    if (fused) passes.push_back({.sizes = std::vector<std::int64_t>(sizes.size(), 1)});  // Step counters.
    for (const OptimizerFunction& f :
         fused ? std::vector<OptimizerFunction>{fused_adam()} : adam_functions(true))
      passes.push_back(
          {.sizes = sizes, .lists = f.lists, .moves = f.moves, .scalars = f.scalars, .fused = fused});
    c.works = [passes](const GpuSpec&) {
      std::vector<CachedWork> works;
      for (const MultiTensor& pass : passes) works.push_back({pass, cold});
      return works;
    };
    return true;
  }
  const double size = name.at(1) == "fp32" || name.at(2) == "fp32" ? 4 : 2;
  if (op == "copy" && s.size() == 4) {
    const double n = static_cast<double>(s[0] * s[1] * s[2] * s[3]);
    strided(c, n, 2 * n, 2);
    return true;
  }
  if (op == "rope" && s.size() == 4) {
    const double n = static_cast<double>(s[0] * s[1] * s[2] * s[3]);
    const std::string_view what = name.at(1);
    const auto plain = [&](double elements, double bytes_each) {
      Rotation r;
      r.in = 2 * elements * bytes_each;
      r.out = elements * bytes_each;
      c.family = "elementwise";
      c.works = single(pointwise(std::llround(elements), r.in, r.out, 0), rotated(c, r));
    };
    if (what == "sub")
      plain(n / 2, 4);
    else if (what == "add")
      plain(n, 2);
    else if (what == "mul_pairs")
      strided(c, n / 2, 4 * n, 4, Pointwise::Access::StridedCast);
    else if (what == "mul_table")
      strided(c, n, 2 * n, 2);
    else if (what == "neg_half")
      strided(c, n / 2, n, 2);
    else
      return false;
    return true;
  }
  if (op == "moe" && !s.empty()) {
    const std::string_view what = name.at(1);
    const double rows = static_cast<double>(s[0]);
    const double columns = s.size() > 1 ? static_cast<double>(s[1]) : 1;
    Rotation r;
    r.in = rows * columns * size;
    r.out = r.in;
    c.family = "routing";
    if (what == "softmax" || what == "sum_last") {
      c.family = what == "softmax" ? "softmax" : "row_sum";
      c.works = single(RowReduction{what == "softmax" ? RowReduction::Kind::Softmax : RowReduction::Kind::Sum,
                                    s[0], s[1], Dtype::Fp32, Dtype::Fp32},
                       rotated(c, r));
    } else if (what == "topk2") {
      c.works = single(TopK{s[0], s[1], 2, Dtype::Fp32, true}, rotated(c, r));
    } else if (what == "argsort") {
      c.works = single(Sort{1, s[0], Dtype::Fp64}, rotated(c, r));
    } else if (what == "div_rows" || what == "mul_rows") {
      strided(c, rows * columns, r.in, size);
    } else if (what == "index_rows" || what == "index_select") {
      r.in /= 2;
      c.family = "indexed";
      c.works = single(Gather{s[0], bytes(columns * 2), bytes(rows * columns), what == "index_rows"},
                       rotated(c, r));
    } else if (what == "index_add" || what == "index_add_distinct") {
      r.in *= what == "index_add" ? 1.5 : 5;
      r.out = 0;
      c.family = "indexed";
      c.works = single(Scatter{s[0], bytes(columns * 2), true, Dtype::Bf16}, rotated(c, r));
    } else {
      return false;
    }
    return true;
  }
  if (op == "cache" && s.size() == 4) {
    Rotation r;
    r.in = 2 * static_cast<double>(s[0] * s[1] * s[3]);
    c.family = "indexed";
    c.works =
        single(Scatter{s[0] * s[1], bytes(2 * static_cast<double>(s[3])), false, Dtype::Bf16}, rotated(c, r));
    return true;
  }
  if (op == "grouped_mm" && s.size() == 4) {
    GroupedProduct work;
    work.groups = s[0], work.rows = s[1], work.n = s[2], work.k = s[3];
    Rotation r;
    r.in = 2 * static_cast<double>((s[0] * s[2] + s[1]) * s[3]);
    r.out = 2 * static_cast<double>(s[1] * s[2]);
    c.family = "grouped_product";
    c.works = single(work, rotated(c, r));
    return true;
  }
  const bool last = op.size() > 5 && op.substr(op.size() - 4) == "nhwc";
  if ((op == "batch_norm_nhwc" || op == "batch_norm_nchw") && s.size() == 3) {
    Rotation r;
    r.in = r.out = 2 * static_cast<double>(s[0] * s[1] * s[2] * s[2]);
    c.family = "batch_norm";
    c.works = single(BatchNorm{s[0], s[1], s[2] * s[2], Dtype::Bf16, false, last}, rotated(c, r));
    return true;
  }
  if ((op == "group_norm_nhwc" || op == "group_norm_nchw") && s.size() == 4) {
    Rotation r;
    r.in = r.out = 2 * static_cast<double>(s[0] * s[1] * s[2] * s[2]);
    c.family = "group_norm";
    c.works = single(GroupNorm{s[0], s[1], s[2] * s[2], s[3], Dtype::Bf16, last}, rotated(c, r));
    return true;
  }
  if ((op == "max_pool_nhwc" || op == "max_pool_nchw") && s.size() == 5) {
    const std::int64_t side = (s[2] + 2 * (s[3] / 2) - s[3]) / s[4] + 1;
    Pooling work{s[0] * s[1] * side * side, s[0] * s[1] * s[2] * s[2], s[3] * s[3], Dtype::Bf16, last};
    Rotation r;
    r.in = 2 * static_cast<double>(work.inputs);
    r.out = 2 * static_cast<double>(work.outputs);
    c.family = "pooling";
    c.works = single(work, rotated(c, r));
    return true;
  }
  if ((op == "avg_pool_nhwc" || op == "avg_pool_nchw") && s.size() == 3) {
    Rotation r;
    r.in = 2 * static_cast<double>(s[0] * s[1] * s[2] * s[2]);
    c.family = last ? "column_sum" : "row_sum";
    if (last)
      c.works = single(ColumnReduction{s[2] * s[2], s[0] * s[1], Dtype::Bf16, Dtype::Bf16}, rotated(c, r));
    else
      c.works =
          single(RowReduction{RowReduction::Kind::Sum, s[0] * s[1], s[2] * s[2], Dtype::Bf16, Dtype::Bf16},
                 rotated(c, r));
    return true;
  }
  if ((op == "conv_nhwc" || op == "conv_nchw") && s.size() == 6) {
    Convolution work;
    work.batch = s[0];
    work.channels = s[1];
    work.height = work.width = s[2];
    work.out_channels = s[3];
    work.kernel_height = work.kernel_width = s[4];
    work.stride = s[5];
    work.padding = s[4] / 2;
    work.dtype = name.at(1) == "bf16" ? Dtype::Bf16 : Dtype::Fp16;
    work.channels_last = last;
    c.family = "convolution";
    Rotation r;
    r.in = 2 * static_cast<double>(s[0] * s[1] * s[2] * s[2]);
    r.out = 2 * static_cast<double>(s[0] * s[3] * work.out_height() * work.out_width());
    c.works = single(work, rotated(c, r));
    return true;
  }
  return false;
}

bool inductor(KernelCase& c, const Name& name) {
  if (name.shape.size() != 2) return false;
  const std::int64_t rows = name.shape[0];
  const std::int64_t columns = name.shape[1];
  const double n = static_cast<double>(rows) * static_cast<double>(columns);
  const double line = 2 * static_cast<double>(columns);
  const std::string op(name.at(1));
  c.family = "inductor";
  c.group = shape_text(name.shape);
  const double inputs = op == "residual_rms_norm" || op == "swiglu" ? 2 : 1;
  Rotation r;
  r.sets = n > 3e7 ? 1 : std::min(6.0, std::floor(12e7 / (n * 2)) + 2);
  r.in = 2 * n * inputs;
  r.out = 2 * n;
  if (op == "sum_last") r.out = 4 * static_cast<double>(rows);
  if (op == "sum_first") r.out = 4 * static_cast<double>(columns);
  const Reuse met = reuse(rotated(c, r));
  using Reduction = InductorRowReduction::Reduction;
  InductorRowReduction row;
  row.rows = rows;
  row.columns = columns;
  row.read = bytes(r.in);
  row.written = bytes(r.out);
  if (op == "bias_gelu" || op == "swiglu") {
    const bool gelu = op == "bias_gelu";
    c.works = [=](const GpuSpec& gpu) {
      const double cycles = lane_cycles(gelu ? AluFunction::GeluTanh : AluFunction::Silu, gpu);
      return std::vector<CachedWork>{
          {InductorPointwise{rows * columns, bytes(r.in + (gelu ? line : 0)), bytes(r.out), cycles},
           cache_state(met, gpu)}};
    };
  } else if (op == "rms_norm" || op == "residual_rms_norm") {
    row.shared = bytes(line);
    c.works = single(row, rotated(c, r));
  } else if (op == "layer_norm") {
    row.shared = bytes(2 * line);
    row.reduction = Reduction::Welford;
    c.works = single(row, rotated(c, r));
  } else if (op == "softmax") {
    row.reduction = Reduction::OnlineSoftmax;
    c.works = [=](const GpuSpec& gpu) {
      InductorRowReduction softmax = row;
      softmax.lane_cycles = lane_cycles(AluFunction::Exp, gpu);
      return std::vector<CachedWork>{{softmax, cache_state(met, gpu)}};
    };
  } else if (op == "sum_last") {
    row.writes_rows = false;
    c.works = single(row, rotated(c, r));
  } else if (op == "sum_first") {
    c.works = single(InductorColumnReduction{rows, columns, bytes(r.in), bytes(r.out), 0}, rotated(c, r));
  } else {
    return false;
  }
  return true;
}

bool alu(KernelCase& c, const Name& name) {
  if (name.shape.size() != 2) return false;
  std::optional<AluFunction> function;
  for (int i = 0; i < alu_function_count; ++i)
    if (gpusim::name(static_cast<AluFunction>(i)) == name.at(1)) function = static_cast<AluFunction>(i);
  if (!function) return false;
  const double times = static_cast<double>(name.shape[0]);
  const std::int64_t n = name.shape[1];
  const double moved = 4 * static_cast<double>(n);
  c.family = "alu";
  c.group = std::string(name.at(1)) + "x" + std::to_string(name.shape[0]);
  c.works = [=, f = *function](const GpuSpec& gpu) {
    return std::vector<CachedWork>{
        {InductorPointwise{n, bytes(moved), bytes(moved), times * lane_cycles(f, gpu)}, cold}};
  };
  return true;
}

}  // namespace

bool understand(KernelCase& kernel_case) {
  Name name;
  name.parts = split(kernel_case.name, '/');
  std::size_t shape = name.parts.size();
  // The shape is the last part with a number that is no dtype.
  while (shape-- > 1)
    if (!find_dtype(name.parts[shape]) && name.parts[shape].find_first_of("0123456789") != std::string::npos)
      break;
  if (shape == 0 || shape >= name.parts.size()) return false;
  name.shape_text = name.parts[shape];
  name.shape = numbers(name.shape_text);
  const std::string_view family = name.at(0);
  if (family == "ew") return elementwise(kernel_case, name);
  if (family == "gemm_dw" || family == "gemm_dx" || family == "sdpa" || family == "batch_norm_train" ||
      family == "conv_dw" || family == "conv_dx" || name.at(1) == "sum_rows" ||
      (family == "gemm" && name.at(1) == "tf32"))
    return understand_training(kernel_case, name.parts, name.shape);
  if (family == "red") return reduction(kernel_case, name);
  if (family == "gemm" || family == "gemm_bias") return product(kernel_case, name);
  if (family == "bmm" || family == "bmm_nt") return batched_product(kernel_case, name);
  if (family == "sdpa_fwd" || family == "sdpa_gqa_fwd" || family == "sdpa_cross" || family == "sdpa_mask")
    return attention(kernel_case, name, false);
  if (family == "sdpa_fwdbwd") return attention(kernel_case, name, true);
  if (family == "sdpa_decode" || family == "sdpa_decode_mask") return attention_decode(kernel_case, name);
  if (family == "xent_fwdbwd") return cross_entropy(kernel_case, name);
  if (family == "inductor") return inductor(kernel_case, name);
  if (family == "alu") return alu(kernel_case, name);
  return other(kernel_case, name);
}

double predict_us(const KernelCase& kernel_case, const GpuSpec& gpu) {
  double us = 0;
  for (const CachedWork& part : kernel_case.works(gpu))
    us += microseconds(estimate(part.work, gpu, part.cache).duration);
  return us;
}

int predict_gpu_ops(const KernelCase& kernel_case, const GpuSpec& gpu) {
  std::size_t count = 0;
  for (const CachedWork& part : kernel_case.works(gpu)) count += gpu_ops(part.work, gpu, part.cache).size();
  return static_cast<int>(count);
}

}  // namespace gpusim::calibrate
