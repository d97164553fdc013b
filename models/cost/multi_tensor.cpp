// SPDX-License-Identifier: Apache-2.0
// Lists of tensors in few kernels, as optimizers run them (ATen/native/cuda/MultiTensorApply.cuh).
#include <array>

#include "models/cost/kernel_terms.hpp"
#include "models/units/time_range.hpp"

namespace gpusim::cost {
namespace {

constexpr std::int64_t chunk = 65536;      ///< Elements that a block takes at most,
constexpr std::int64_t block_step = 2048;  ///< and at once: 512 threads with four each.
constexpr std::int64_t blocks_most = 320;  ///< Of one kernel.
/// Of one list: 200,000 kernels.
constexpr std::int64_t elements_most = std::int64_t{1} << 42;
/// Tensors whose addresses fit into a kernel's arguments, by the lists; with a number for each fewer.
constexpr std::array<std::int64_t, 5> tensors_most = {110, 64, 48, 36, 30};
constexpr std::array<std::int64_t, 5> tensors_most_scalars = {96, 64, 48, 36, 30};

struct Launch {
  std::int64_t blocks = 0;
  std::int64_t elements = 0;
  std::int64_t vectors = 0;  ///< Elements of tensors that are read four at a time.
  std::int64_t longest = 0;  ///< Elements of its largest chunk.
};

std::vector<Launch> launches_of(const MultiTensor& work) {
  const std::size_t depth = static_cast<std::size_t>(std::clamp(work.lists, 1, 5)) - 1;
  const std::int64_t most = (work.scalars ? tensors_most_scalars : tensors_most)[depth];
  std::int64_t elements = 0;
  for (const std::int64_t size : work.sizes) {
    if (size > elements_most - elements)
      throw TimeRangeError(
          "an optimizer would go over more than 2^42 elements, which is the most (optimizer_elements_max)");
    elements += size;
  }
  std::vector<Launch> launches;
  Launch open;
  std::int64_t tensors = 0;
  for (const std::int64_t size : work.sizes) {
    if (size == 0) continue;
    ++tensors;
    for (std::int64_t begin = 0; begin < size; begin += chunk) {
      const std::int64_t part = std::min(chunk, size - begin);
      open.elements += part;
      if (size % 4 == 0) open.vectors += part;
      open.longest = std::max(open.longest, part);
      const bool last = begin + chunk >= size;
      if (++open.blocks < blocks_most && !(last && tensors == most)) continue;
      launches.push_back(open);
      open = {};
      tensors = last ? 0 : 1;  // A tensor that is not done goes on in the next one.
    }
  }
  if (open.blocks > 0) launches.push_back(open);
  return launches;
}

}  // namespace

GpuOps price(const Pricing& p, const MultiTensor& work) {
  const OptimizerCalibration& c = p.calibration.optimizer;
  GpuOps ops;
  for (const Launch& launch : launches_of(work)) {
    const double bytes = static_cast<double>(launch.elements * work.moves) * bytes_of(work.dtype);
    const double steps = std::ceil(static_cast<double>(launch.longest) / static_cast<double>(block_step));
    const double vectors = bytes * static_cast<double>(launch.vectors) / static_cast<double>(launch.elements);
    const double transfer =
        work.fused ? p.memory(vectors, c.fused_vector_share) + p.memory(bytes - vectors, c.fused_share)
                   : p.memory(bytes, c.foreach_share);
    const std::initializer_list<Term> terms = {
        {transfer, KernelLimit::Memory},
        {work.fused ? p.lane_cycles(static_cast<double>(launch.elements) * c.fused_element) : 0,
         KernelLimit::Compute},
        {steps * (work.fused ? c.fused_step : c.foreach_step), KernelLimit::Overhead}};
    KernelFigures figures;
    figures.seconds = c.start + soft_maximum(p.calibration.pointwise.sharpness, terms);
    figures.limit = limit_of(c.start, terms);
    figures.hbm_bytes = bytes;
    figures.flops = static_cast<double>(launch.elements) * (work.fused ? 12 : 1.5);
    figures.blocks = static_cast<double>(launch.blocks);
    figures.threads = 512;
    ops.push_back(kernel("multi_tensor", figures));
  }
  return ops;
}

}  // namespace gpusim::cost
