// SPDX-License-Identifier: Apache-2.0
// Matrix products: tiles of the result in waves over the SMs, each as fast as the tensor cores or as the
// memory lets them, with the tile (and the number of parts along k) for which that is least. The libraries
// choose near that minimum; which tile they take makes little difference to the time.
#include <array>
#include <limits>
#include <utility>

#include "models/cost/kernel_terms.hpp"

namespace gpusim::cost {
namespace {

struct Tile {
  double n, m;
};

/// Tiles that the libraries have kernels for: the long side along n for few rows.
constexpr std::array<double, 13> tile_columns = {48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 256, 320, 512};
constexpr std::array<double, 8> tile_rows = {8, 16, 32, 48, 64, 128, 192, 256};
constexpr double full_tile = 256 * 128;
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
};

struct Choice {
  double seconds = std::numeric_limits<double>::infinity();
  double tiles = 1;
  double splits = 1;
  KernelLimit limit = KernelLimit::Overhead;
};

Choice best_tile(const Pricing& p, const Problem& q) {
  const ProductCalibration& c = p.calibration.product;
  Choice best;
  for (const double tn : tile_columns) {
    for (const double tm : tile_rows) {
      if (tn * tm > largest_tile) continue;
      const double tiles = q.batch * std::ceil(q.n / tn) * std::ceil(q.m / tm);
      for (const double splits : {1.0, 2.0, 3.0, 4.0}) {
        if (splits > 1 && !q.splits) break;
        if (q.splits && splits == 1) continue;
        // At least two parts, and more only while they find free SMs.
        if (splits > 2 && tiles > p.sms() / 2) break;
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
            splits > 1 ? c.split_reduce + p.memory(q.written * 2 * splits, c.reduce_bytes) : 0;
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

/// Rows of all operands start at multiples of 16 bytes: else the libraries fall back to old kernels.
bool aligned(Dtype dtype, std::int64_t n, std::int64_t k) {
  const std::int64_t elements = std::max<std::int64_t>(1, 16 * 8 / bits(dtype));
  return n % elements == 0 && k % elements == 0;
}

bool on_vector_units(Dtype dtype) {
  return dtype == Dtype::Fp32 || dtype == Dtype::Fp64;
}

struct Product {
  double batch, m, n, k;
  double read, written;
  Dtype dtype;
  bool aligned = true;
  double speed = 1;  ///< Relative to a plain product.
  bool may_split = true;
  bool bias = false;
  bool gradient = false;    ///< The right operand lies as [k, n].
  bool of_weight = false;   ///< And the left one as [k, m].
  double memory_share = 0;  ///< Of the memory's bandwidth.
};

struct ProductOps {
  GpuOps ops;
  double tiles;
};

/// The product kernel, and the one that adds up its parts where it is split along k.
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
  q.splits =
      w.may_split && w.batch == 1 &&
      (w.gradient ? splits_k_of_gradient(p, w.m, w.n, w.k, w.of_weight) : splits_k(w.m, w.n, w.k, w.bias));
  const Choice choice = best_tile(p, q);

  const double reduce =
      choice.splits > 1 ? c.split_reduce + p.memory(w.written * 2 * choice.splits, c.reduce_bytes) : 0;
  KernelFigures figures;
  figures.seconds = c.start + (w.bias ? c.bias : 0) +
                    p.latency(c.latency, p.cache.cold_reads, w.read + w.written) + (choice.seconds - reduce);
  figures.limit = choice.limit;
  figures.hbm_bytes = q.cold_bytes;
  figures.flops = 2 * w.batch * w.m * w.n * w.k;
  figures.blocks = std::min(choice.tiles * choice.splits, p.sms());
  figures.threads = 384;
  ProductOps result{{kernel(name, figures)}, choice.tiles};
  if (choice.splits > 1) {
    KernelFigures sum;
    sum.seconds = reduce;
    sum.flops = w.batch * w.m * w.n * choice.splits;
    sum.blocks = std::ceil(w.m * w.n / 512);
    result.ops.push_back(kernel("split_k_reduce", sum));
  }
  return result;
}

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

/// A convolution of fewer than eight channels. They are padded to eight, and the kernels for them keep one
/// old tensor core instruction busy: a tile of 128 x 128 takes its time however few there are, and two of
/// them share an SM once there are more than SMs. fp16 has a kernel of its own
/// (sm90_xmma_fprop_image_first_layer), 3.2 times as fast.
GpuOpEstimate few_channel_convolution(const Pricing& p, const Product& w, double window) {
  constexpr double tile = 128;
  constexpr double shared = 0.85;  ///< Time of a tile when two of them share an SM.
  constexpr double fp16_kernel = 0.31;
  const double depth = 8 * window;
  const double tiles = w.m * w.n / (tile * tile);
  const double rate = p.calibration.product.first_layer * peak(p.gpu, w.dtype).value() / p.sms();
  const double one = 2 * tile * tile * depth / rate * (w.dtype == Dtype::Fp16 ? fp16_kernel : 1);
  KernelFigures figures;
  figures.seconds = p.calibration.product.start + one * std::max(1.0, shared * tiles / p.sms());
  figures.limit = KernelLimit::Compute;
  figures.hbm_bytes = w.read * p.cache.cold_reads + w.written * p.cache.cold_writes;
  figures.flops = 2 * w.batch * w.m * w.n * w.k;
  figures.blocks = std::ceil(tiles);
  figures.threads = 128;
  return kernel("convolution", figures);
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
  ProductOps result = product(p, w, work.batch > 1 ? "batched_product" : "product");
  if (w.aligned && !on_vector_units(work.dtype) && hands_out_tiles(p, w))
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

std::int64_t convolution_out(std::int64_t in, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                             std::int64_t dilation) {
  const std::int64_t room = in + 2 * padding - dilation * (kernel - 1) - 1;
  return room < 0 || stride < 1 ? 0 : room / stride + 1;
}

GpuOps price(const Pricing& p, const Convolution& work) {
  const double outputs = static_cast<double>(work.batch * work.out_height() * work.out_width());
  if (outputs == 0 || work.out_channels == 0 || work.groups == 0) return {};
  const double window = static_cast<double>(work.kernel_height * work.kernel_width);
  const double groups = static_cast<double>(work.groups);
  const double channels = static_cast<double>(work.channels) / groups;
  const double out_channels = static_cast<double>(work.out_channels) / groups;
  const double size = bytes_of(work.dtype);
  // A stride wider than the window leaves out pixels.
  const double seen =
      std::min(1.0, static_cast<double>(work.kernel_height) / static_cast<double>(work.stride)) *
      std::min(1.0, static_cast<double>(work.kernel_width) / static_cast<double>(work.stride));
  const double input =
      seen * static_cast<double>(work.batch * work.channels * work.height * work.width) * size;
  const double weights = static_cast<double>(work.out_channels) * channels * window * size;
  const double output = outputs * static_cast<double>(work.out_channels) * size;

  Product w{};
  w.batch = groups;
  w.dtype = work.dtype;
  switch (work.pass) {
    case Convolution::Pass::Forward:
      w.m = outputs, w.n = out_channels, w.k = channels * window;
      w.read = input + weights, w.written = output;
      break;
    case Convolution::Pass::InputGradient:
      w.m = static_cast<double>(work.batch * work.height * work.width), w.n = channels;
      w.k = out_channels * window / static_cast<double>(work.stride * work.stride);
      w.read = output + weights, w.written = input;
      break;
    case Convolution::Pass::WeightGradient:
      w.m = channels * window, w.n = out_channels, w.k = outputs;
      w.read = input + output, w.written = weights;
      break;
  }
  const bool plain =
      work.kernel_height == 1 && work.kernel_width == 1 && work.stride == 1 && work.padding == 0;
  // Fewer than eight channels are padded to eight by kernels of their own.
  const bool few_channels = work.groups == 1 && work.channels < 8 && work.pass == Convolution::Pass::Forward;
  if (!plain) w.speed = p.calibration.product.convolution;
  w.may_split = work.pass == Convolution::Pass::WeightGradient;
  GpuOps ops = few_channels && !plain ? GpuOps{few_channel_convolution(p, w, window)}
                                      : product(p, w, "convolution").ops;
  // Implicit products with more tiles than SMs hand them out by a counter.
  if (!plain && !few_channels && w.m * w.n * w.batch / full_tile > p.sms())
    ops.insert(ops.begin(), memset_op(p, 4));
  if (few_channels && work.channels_last && work.batch > 1) {
    const double pixels = static_cast<double>(work.batch * work.height * work.width);
    Pointwise pad;
    pad.elements = std::llround(pixels * 8);
    pad.read = Bytes(std::llround(input));
    pad.written = Bytes(std::llround(pixels * 8 * size));
    Pointwise pad_weights;
    pad_weights.elements = work.out_channels * work.kernel_height * work.kernel_width * 8;
    pad_weights.read = Bytes(std::llround(weights));
    pad_weights.written = Bytes(std::llround(static_cast<double>(pad_weights.elements) * size));
    const GpuOps before = {memset_op(p, pixels * 8 * size), price(p, pad).front(),
                           memset_op(p, static_cast<double>(pad_weights.elements) * size),
                           price(p, pad_weights).front()};
    ops.insert(ops.begin(), before.begin(), before.end());
  }
  if (!work.channels_last && !plain) {
    // The kernels want the channels last: input and result change their layout, weights as well unless 1 x 1.
    const auto layout = [&](double bytes) {
      if (few_channels && bytes != output) {
        // Every element of the padded copy is fetched on its own.
        GpuOpEstimate op = price(p, TransposedCopy{.elements = std::llround(bytes / size * 8 / channels),
                                                   .element_bytes = 2})
                               .front();
        op.name = "convolution_layout";
        return op;
      }
      Pointwise copy;
      copy.elements = std::llround(bytes / size);
      copy.read = copy.written = Bytes(std::llround(bytes));
      copy.access = Pointwise::Access::Strided;
      GpuOpEstimate op = price(p, copy).front();
      op.name = "convolution_layout";
      return op;
    };
    // Channels that are padded to eight leave zeros behind: cleared before.
    const auto prepend = [&](double bytes) {
      ops.insert(ops.begin(), layout(bytes));
      if (few_channels) ops.insert(ops.begin(), memset_op(p, bytes));
    };
    if (work.kernel_height * work.kernel_width > 1) prepend(weights);
    prepend(input);
    ops.push_back(layout(output));
  }
  return ops;
}

}  // namespace gpusim::cost

namespace gpusim {

std::int64_t Convolution::out_height() const {
  return cost::convolution_out(height, kernel_height, stride, padding, dilation);
}
std::int64_t Convolution::out_width() const {
  return cost::convolution_out(width, kernel_width, stride, padding, dilation);
}

}  // namespace gpusim
