// SPDX-License-Identifier: Apache-2.0
// Convolutions as products, and the two products of their backward. A window of one pixel without a stride is
// a plain product; the others are implicit ones, in the libraries' older kernels.
#include <utility>

#include "models/cost/kernel_terms.hpp"
#include "models/cost/product_terms.hpp"

namespace gpusim::cost {
namespace {

/// A convolution of fewer than eight channels. They are padded to eight, and the kernels for them keep one
/// old tensor core instruction busy: a tile of 128 x 128 takes its time however few there are, and two of
/// them share an SM once there are more than SMs. fp16 has a kernel of its own
/// (sm90_xmma_fprop_image_first_layer), 3.2 times as fast.
GpuOpEstimate few_channel_convolution(const Pricing& p, const Product& w, double window) {
  constexpr double tile = 128;
  constexpr double pair = 1.7;     ///< Time of two tiles that share an SM.
  constexpr double narrow = 1.15;  ///< Up to 64 columns: tiles of 256 x 64, which read more for as much work.
  constexpr double fp16_kernel = 0.31;
  const double depth = 8 * window;
  const double tiles = w.m * w.n / (tile * tile);
  const double rate = p.calibration.product.first_layer * peak(p.gpu, w.dtype).value() / p.sms();
  const double one = 2 * tile * tile * depth / rate * (w.dtype == Dtype::Fp16 ? fp16_kernel : 1);
  KernelFigures figures;
  // Rounds of two tiles for each SM; the last one is shorter where one is enough.
  const double rounds = std::floor(tiles / (2 * p.sms()));
  const double rest = tiles - rounds * 2 * p.sms();
  const double last = rest > p.sms() ? pair : rest > 0 ? 1 : 0;
  figures.seconds =
      p.calibration.product.start + one * (w.n <= 64 && rounds > 0 ? narrow : 1) * (pair * rounds + last);
  figures.limit = KernelLimit::Compute;
  figures.hbm_bytes = w.read * p.cache.cold_reads + w.written * p.cache.cold_writes;
  figures.flops = 2 * w.batch * w.m * w.n * w.k;
  figures.blocks = std::ceil(tiles);
  figures.threads = 128;
  return kernel("convolution", figures);
}

/// The gradient of such a convolution's weight: a kernel that goes over all pixels in parts, and one that
/// adds the parts up.
GpuOps few_channel_weight_gradient(const Pricing& p, const Product& w, double window) {
  const ProductCalibration& c = p.calibration.product;
  const double padded = 2 * 8 * window * w.n * w.k;
  const double compute = padded / (c.first_layer_weight_gradient * peak(p.gpu, w.dtype).value());
  KernelFigures figures;
  figures.seconds = c.start + c.first_layer_weight_gradient_start + compute;
  figures.limit = limit_of(c.start + c.first_layer_weight_gradient_start, {{compute, KernelLimit::Compute}});
  figures.hbm_bytes = w.read * p.cache.cold_reads;
  figures.flops = 2 * w.m * w.n * w.k;
  figures.blocks = p.sms();
  KernelFigures sum;
  sum.seconds = 2 * c.split_reduce;
  sum.blocks = std::ceil(w.n * window * 8 / 1024);
  return {kernel("convolution_weight_gradient", figures), kernel("split_k_reduce", sum)};
}

/// The gradients of windows and strides: slower than plain products, the more so with few channels, and with
/// a later start.
void set_gradient(const Pricing& p, const Convolution& work, Product& w) {
  const ProductCalibration& c = p.calibration.product;
  if (work.pass == Convolution::Pass::WeightGradient) {
    w.speed = c.weight_gradient;
    w.start = c.weight_gradient_start;
    w.split_setup = c.weight_gradient_split;
    // Split are those of many pixels: of 25,088 and more, of 12,544 none (kernels-training.csv and steps).
    constexpr double many_pixels = 20000;
    w.any_splits = w.any_splits && w.k >= many_pixels;
  } else {
    w.speed = work.stride > 1 ? c.strided_gradient : c.input_gradient;
    w.start = work.stride > 1 ? c.strided_gradient_start : c.input_gradient_start;
  }
  constexpr double narrow = 64;
  if (w.n <= narrow) w.speed *= c.narrow_gradient;
}

/// The ops of an implicit weight gradient: where it is split, a kernel before prepares for that; up to a
/// dozen parts are then added up where they are made.
GpuOps weight_gradient_ops(const Pricing& p, ProductOps made) {
  constexpr double added_in_place = 12;
  if (made.splits <= 1) return std::move(made.ops);
  KernelFigures setup;
  setup.seconds = p.calibration.product.weight_gradient_split;
  if (made.splits <= added_in_place && made.ops.size() > 1) {
    made.ops.front().cost.duration += made.ops.back().cost.duration;
    made.ops.pop_back();
  }
  made.ops.insert(made.ops.begin(), kernel("convolution_split", setup));
  return std::move(made.ops);
}

std::string_view name_of(Convolution::Pass pass) {
  switch (pass) {
    case Convolution::Pass::Forward:
      return "convolution";
    case Convolution::Pass::InputGradient:
      return "convolution_input_gradient";
    case Convolution::Pass::WeightGradient:
      return "convolution_weight_gradient";
  }
  return "convolution";
}

/// Fewer than eight channels padded to eight: zeros, then a copy an element at a time.
void pad(const Pricing& p, double pixels, double channels, double size, GpuOps& ops) {
  constexpr double padding_cycles = 42;  ///< Lane-cycles per element: 39.9 us for 25.7 M on an H200.
  Pointwise copy;
  copy.elements = std::llround(pixels * 8);
  copy.read = Bytes(std::llround(pixels * channels * size));
  copy.written = Bytes(std::llround(pixels * 8 * size));
  copy.lane_cycles = padding_cycles;
  ops.push_back(memset_op(p, pixels * 8 * size));
  ops.push_back(price(p, copy).front());
  ops.back().name = "convolution_padding";
}

}  // namespace

std::int64_t convolution_out(std::int64_t in, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                             std::int64_t dilation) {
  const std::int64_t room = in + 2 * padding - dilation * (kernel - 1) - 1;
  return room < 0 || stride < 1 ? 0 : room / stride + 1;
}

GpuOps price(const Pricing& p, const Convolution& work) {
  using Pass = Convolution::Pass;
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
  const double pixels = static_cast<double>(work.batch * work.height * work.width);
  const double whole_input = pixels * static_cast<double>(work.channels) * size;
  const double input = seen * whole_input;
  const double weights = static_cast<double>(work.out_channels) * channels * window * size;
  const double output = outputs * static_cast<double>(work.out_channels) * size;

  Product w{};
  w.batch = groups;
  w.dtype = work.dtype;
  switch (work.pass) {
    case Pass::Forward:
      w.m = outputs, w.n = out_channels, w.k = channels * window;
      w.read = input + weights, w.written = output;
      break;
    case Pass::InputGradient:
      w.m = pixels, w.n = channels;
      w.k = out_channels * window / static_cast<double>(work.stride * work.stride);
      w.read = output + weights, w.written = whole_input;
      break;
    case Pass::WeightGradient:
      w.m = channels * window, w.n = out_channels, w.k = outputs;
      w.read = input + output, w.written = weights;
      w.any_splits = work.groups == 1;
      break;
  }
  const bool forward = work.pass == Pass::Forward;
  const bool plain =
      work.kernel_height == 1 && work.kernel_width == 1 && work.stride == 1 && work.padding == 0;
  // Fewer than eight channels are padded to eight by kernels of their own.
  const bool few_channels = work.groups == 1 && work.channels < 8 && work.pass != Pass::InputGradient;
  if (!plain && forward) {
    w.speed = p.calibration.product.convolution;
    // What their kernels start later than those of plain products: 1 to 1.9 us in batches of one image.
    constexpr double later = 1.4e-6;
    w.start = later;
    w.coarse = true;
  }
  if (!plain && !forward) set_gradient(p, work, w);
  w.may_split = work.pass == Pass::WeightGradient;
  GpuOps ops;
  if (few_channels && !plain) {
    ops = forward ? GpuOps{few_channel_convolution(p, w, window)} : few_channel_weight_gradient(p, w, window);
  } else {
    ProductOps made = product(p, w, name_of(work.pass));
    ops = work.pass == Pass::WeightGradient && !plain ? weight_gradient_ops(p, std::move(made))
                                                      : std::move(made.ops);
  }
  // Implicit products with more tiles than SMs hand them out by a counter; input gradients with a stride
  // always begin with zeros.
  const bool strided = work.pass == Pass::InputGradient && work.stride > 1;
  if (!plain && !few_channels && work.pass != Pass::WeightGradient &&
      (strided || w.m * w.n * w.batch / full_tile > p.sms()))
    ops.insert(ops.begin(), memset_op(p, 4));
  if (few_channels && work.channels_last && (work.batch > 1 || !forward)) {
    GpuOps before;
    pad(p, pixels, static_cast<double>(work.channels), size, before);
    const double weight_pixels = static_cast<double>(work.out_channels) * window;
    if (forward)
      pad(p, weight_pixels, static_cast<double>(work.channels), size, before);
    else {
      // The weight's gradient is made with eight channels, and those that exist are copied out.
      before.push_back(memset_op(p, weight_pixels * 8 * 4));
      Pointwise copy;
      copy.elements = std::llround(weight_pixels * static_cast<double>(work.channels));
      copy.read = copy.written = Bytes(std::llround(weights));
      copy.access = Pointwise::Access::Strided;
      ops.push_back(price(p, copy).front());
      ops.back().name = "convolution_padding";
    }
    ops.insert(ops.begin(), before.begin(), before.end());
  }
  if (!work.channels_last && !plain) {
    // The kernels want the channels last: input and result change their layout, weights as well unless 1 x 1.
    const auto layout = [&](double bytes, bool padded) {
      if (padded) {
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
      ops.insert(ops.begin(), layout(bytes, few_channels));
      if (few_channels) ops.insert(ops.begin(), memset_op(p, bytes));
    };
    if (work.kernel_height * work.kernel_width > 1) prepend(weights);
    prepend(input);
    ops.push_back(layout(output, false));
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
