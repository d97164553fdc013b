// SPDX-License-Identifier: Apache-2.0
// Matrix products: tiles of the result in waves over the SMs, each as fast as the tensor cores or as the
// memory lets them, with the tile (and the number of parts along k) for which that is least. The libraries
// choose near that minimum; which tile they take makes little difference to the time.
#include <array>
#include <limits>
#include <utility>

#include "models/cost/kernel_terms.hpp"
#include "models/cost/product_terms.hpp"

namespace gpusim::cost {
namespace {

struct Tile {
  double n, m;
};

/// Tiles that the libraries have kernels for: the long side along n for few rows.
constexpr std::array<double, 13> tile_columns = {48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 256, 320, 512};
constexpr std::array<double, 8> tile_rows = {8, 16, 32, 48, 64, 128, 192, 256};
constexpr double largest_tile = 320 * 128;

/// Whether the library splits a product along k, as it does where few tiles are deep: right in 484 of 485
/// products without and with a bias (validation/h200; the other two are 256 x 4096 x 14336 and 64 x 4096 x
/// 16384).
bool splits_k(double m, double n, double k, bool bias) {
  return k >= 3072 && n <= 4096 && m <= 192 && 64 * k > n * m && (!bias || n * m <= 131072);
}

/// The same where the right operand lies as [k, n], as in gradients: deep products whose tiles leave many SMs
/// idle in their last wave, whichever of three sizes they take; the smallest reads its operands most often.
/// The gradient of a weight (the left operand lies as [k, m]) is split from about 12,000 tokens on: 768 x 768
/// and 3072 x 768 are at 12,608 and 16,384 and are not at 8,192; 2304 x 768 and 2048 x 768 never are. That of
/// an input is split for a deep vocabulary (50,304 x 768 from 256 to 2,048 rows, not from 4,096 on), and for
/// few rows earlier (256 x 1024 x 4096). Right in 127 of 130 products of validation/h200/kernels-training.csv
/// and in all training steps beside it; 1024 x 1024 x 16384 and two of few rows are split as well.
bool splits_k_of_gradient(const Pricing& p, double m, double n, double k, bool of_weight) {
  const auto filled = [&](double tm, double tn) {
    const double tiles = std::ceil(m / tm) * std::ceil(n / tn);
    return tiles / (std::ceil(tiles / p.sms()) * p.sms());
  };
  constexpr double small_tile = 0.85;
  const double best = std::max({filled(256, 128), filled(128, 128), small_tile * filled(128, 64)});
  if (of_weight) return k >= 12288 && best < 0.7;
  return (k >= 8192 && best < 0.74) || (k >= 4096 && best < 0.25);
}

/// The part of the peak that products of `dtype` reach, relative to 16-bit ones in bf16.
double dtype_share(const ProductCalibration& c, Dtype dtype) {
  switch (dtype) {
    case Dtype::Fp8:
    case Dtype::Fp4:
    case Dtype::Int8:
    case Dtype::Int4:
      return c.fp8;
    case Dtype::Fp16:
      return c.fp16;
    case Dtype::Fp32:
    case Dtype::Fp64:
      return c.fp32;
    case Dtype::Tf32:
      return c.tf32;
    case Dtype::Bf16:
      return 1;
  }
  return 1;
}

/// What all tiles of one launch have in common.
struct Problem {
  double batch, m, n, k;
  double rate;        ///< FLOP/s of one SM inside a tile.
  double step;        ///< s that a tile needs for each k at least.
  double tile_start;  ///< s of a full tile.
  double cold_bytes;
  double memory_share;
  double written;
  bool splits;
  bool any_splits;     ///< As many parts as fill the SMs, if that is faster.
  double split_setup;  ///< s before a product in parts.
  bool coarse;         ///< Tiles of powers of two from 64 on.
};

struct Choice {
  double seconds = std::numeric_limits<double>::infinity();
  double tiles = 1;
  double splits = 1;
  KernelLimit limit = KernelLimit::Overhead;
};

/// Sides of the tiles that the older kernels have.
bool is_coarse(double side) {
  return side == 64 || side == 128 || side == 256;
}

/// Into how many parts along k a product of so many tiles may be cut.
std::array<double, 6> splits_to_try(const Pricing& p, const Problem& q, double tiles) {
  if (!q.any_splits) return q.splits ? std::array<double, 6>{0, 2, 3, 4} : std::array<double, 6>{1};
  const double most = std::max(1.0, std::floor(p.sms() / tiles));
  return {1, 2, 3, 4, std::floor(most / 2), most};
}

Choice best_tile(const Pricing& p, const Problem& q) {
  const ProductCalibration& c = p.calibration.product;
  Choice best;
  for (const double tn : tile_columns) {
    for (const double tm : tile_rows) {
      if (tn * tm > largest_tile) continue;
      if (q.coarse && !(is_coarse(tn) && is_coarse(tm))) continue;
      const double tiles = q.batch * std::ceil(q.n / tn) * std::ceil(q.m / tm);
      for (const double splits : splits_to_try(p, q, tiles)) {
        if (splits < (q.splits ? 2 : 1)) continue;
        // At least two parts, and more only while they find free SMs.
        if (splits > 2 && tiles > p.sms() / 2) continue;
        if (q.any_splits && splits > 1 && tiles * splits > p.sms()) continue;
        const double blocks = tiles * splits;
        const double waves = std::ceil(blocks / p.sms());
        const double depth = q.k / splits;
        const double tile = std::max(2 * tn * tm * depth / q.rate, q.step * depth) +
                            q.tile_start * std::min(1.0, tn * tm / full_tile);
        const double drawn = std::min(1.0, blocks / (c.memory_blocks * p.sms()));
        const std::initializer_list<Term> terms = {
            {p.memory(q.cold_bytes, q.memory_share) / drawn, KernelLimit::Memory},
            {waves * tile, KernelLimit::Compute}};
        const double seconds = soft_maximum(c.sharpness, terms);
        const double reduce =
            splits > 1 ? q.split_setup + c.split_reduce + p.memory(q.written * 2 * splits, c.reduce_bytes)
                       : 0;
        if (seconds + reduce < best.seconds) {
          best.seconds = seconds + reduce;
          best.tiles = tiles;
          best.splits = splits;
          best.limit = limit_of(c.start, terms);
        }
      }
    }
  }
  return best;
}

/// tf32 runs in older kernels, which start later, and the slower the more operands lie the other way round.
void set_tf32(const Pricing& p, const MatrixProduct& work, Product& w) {
  const ProductCalibration& c = p.calibration.product;
  w.coarse = true;
  w.start = c.tf32_start;
  if (work.right_transposed) return;
  w.speed = work.left_transposed ? c.tf32_weight_gradient : c.tf32_input_gradient;
  w.start = work.left_transposed ? c.tf32_weight_gradient_start : c.tf32_input_gradient_start;
}

/// Tiles of the size that tf32 kernels take most.
double tf32_tiles(const Product& w) {
  return w.batch * std::ceil(w.m / 128) * std::ceil(w.n / 128);
}

/// Rows of all operands start at multiples of 16 bytes: else the libraries fall back to old kernels.
bool aligned(Dtype dtype, std::int64_t n, std::int64_t k) {
  const std::int64_t elements = std::max<std::int64_t>(1, 16 * 8 / bits(dtype));
  return n % elements == 0 && k % elements == 0;
}

}  // namespace

ProductOps product(const Pricing& p, const Product& w, std::string_view name) {
  const ProductCalibration& c = p.calibration.product;
  // 16384 x 768 x 50257 in bf16 takes 13.3 ms, its two gradients 8.65 ms each, all of them in kernels of old
  // (gpt2_unfused_V50257_B16_T1024 in training-networks.csv).
  constexpr double misaligned_gradient = 1.54;
  const double misaligned = c.misaligned * (w.gradient ? misaligned_gradient : 1);
  const double share = c.peak_share * dtype_share(c, w.dtype) * w.speed *
                       (w.aligned || on_vector_units(w.dtype) ? 1 : misaligned);
  Problem q{};
  q.batch = w.batch;
  q.m = w.m;
  q.n = w.n;
  q.k = w.k;
  q.rate = share * peak(p.gpu, w.dtype).value() / p.sms();
  q.step = p.cycles(c.step) / w.speed;
  q.tile_start = c.tile;
  q.cold_bytes = w.read * p.cache.cold_reads + w.written * p.cache.cold_writes;
  q.memory_share = w.memory_share > 0 ? w.memory_share : c.memory_share;
  q.written = w.written;
  q.any_splits = w.any_splits;
  q.split_setup = w.split_setup;
  q.coarse = w.coarse;
  q.splits =
      w.must_split ||
      (!w.any_splits && w.may_split && w.batch == 1 &&
       (w.gradient ? splits_k_of_gradient(p, w.m, w.n, w.k, w.of_weight) : splits_k(w.m, w.n, w.k, w.bias)));
  const Choice choice = best_tile(p, q);

  const double reduce =
      choice.splits > 1 ? c.split_reduce + p.memory(w.written * 2 * choice.splits, c.reduce_bytes) : 0;
  const double setup = choice.splits > 1 ? w.split_setup : 0;
  KernelFigures figures;
  figures.seconds = c.start + w.start + (w.bias ? c.bias : 0) +
                    p.latency(c.latency, p.cache.cold_reads, w.read + w.written) +
                    (choice.seconds - reduce - setup);
  figures.limit = choice.limit;
  figures.hbm_bytes = q.cold_bytes;
  figures.flops = 2 * w.batch * w.m * w.n * w.k;
  figures.blocks = std::min(choice.tiles * choice.splits, p.sms());
  figures.threads = 384;
  ProductOps result{{kernel(name, figures)}, choice.tiles, choice.splits};
  if (choice.splits > 1) {
    KernelFigures sum;
    sum.seconds = reduce;
    sum.flops = w.batch * w.m * w.n * choice.splits;
    sum.blocks = std::ceil(w.m * w.n / 512);
    result.ops.push_back(kernel("split_k_reduce", sum));
  }
  return result;
}

namespace {

/// Kernels with more tiles than two per SM hand them out as SMs get free, by a counter that a memset clears
/// before. The tiles are those that the libraries take most: long along n for few rows, near square for many.
bool hands_out_tiles(const Pricing& p, const Product& w) {
  const auto tiles = [&](double tn, double tm) {
    return w.batch * std::ceil(w.n / tn) * std::ceil(w.m / tm);
  };
  double count = 0;
  if (w.m <= 16)
    count = tiles(256, 16);
  else if (w.m <= 64)
    count = tiles(512, 64);
  else
    count = std::min(tiles(256, 128), tiles(192, 192));
  return count > 2 * p.sms();
}

}  // namespace

GpuOps price(const Pricing& p, const MatrixProduct& work) {
  if (work.batch == 0 || work.m == 0 || work.n == 0) return {};
  Product w{};
  w.batch = static_cast<double>(work.batch);
  w.m = static_cast<double>(work.m);
  w.n = static_cast<double>(work.n);
  w.k = static_cast<double>(work.k);
  w.read = w.batch * (w.m + w.n) * w.k * bytes_of(work.dtype);
  w.written = w.batch * w.m * w.n * bytes_of(work.output);
  w.dtype = work.dtype;
  w.aligned = aligned(work.dtype, work.n, work.left_transposed ? work.m : work.k);
  w.gradient = !work.right_transposed;
  w.of_weight = work.left_transposed;
  w.bias = work.epilogue != Epilogue::None;
  const bool tf32 = work.dtype == Dtype::Tf32;
  if (tf32) {
    set_tf32(p, work, w);
    // The gradient of a weight whose tiles leave most SMs idle is split (768 x 768 of 2048 rows and more).
    constexpr double deep = 2048;
    w.any_splits = w.of_weight && w.k >= deep && tf32_tiles(w) <= p.sms() / 3;
    w.must_split = w.any_splits;
    if (w.gradient) w.may_split = w.any_splits;
  }
  ProductOps result = product(p, w, work.batch > 1 ? "batched_product" : "product");
  if (w.aligned && !on_vector_units(work.dtype) && (tf32 ? tf32_tiles(w) > p.sms() : hands_out_tiles(p, w)))
    result.ops.insert(result.ops.begin(), memset_op(p, 4));
  return result.ops;
}

GpuOps price(const Pricing& p, const GroupedProduct& work) {
  if (work.rows == 0 || work.n == 0 || work.groups == 0) return {};
  const double active =
      static_cast<double>(work.active_groups > 0 ? work.active_groups : std::min(work.groups, work.rows));
  Product w{};
  w.batch = active;
  w.m = static_cast<double>(work.rows) / active;
  w.n = static_cast<double>(work.n);
  w.k = static_cast<double>(work.k);
  const double size = bytes_of(work.dtype);
  w.read = (static_cast<double>(work.rows) + active * w.n) * w.k * size;
  w.written = static_cast<double>(work.rows) * w.n * size;
  w.dtype = work.dtype;
  w.aligned = aligned(work.dtype, work.n, work.k);
  w.may_split = false;
  w.speed = p.calibration.product.grouped;
  w.memory_share = p.calibration.product.grouped_memory;
  KernelFigures setup;
  setup.seconds = p.calibration.product.grouped_setup;
  GpuOps ops = {kernel("grouped_product_setup", setup)};
  const GpuOps main = product(p, w, "grouped_product").ops;
  ops.insert(ops.end(), main.begin(), main.end());
  return ops;
}

}  // namespace gpusim::cost
