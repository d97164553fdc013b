// SPDX-License-Identifier: Apache-2.0
// In which order the kernels of a region run, so that little memory is needed at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpusim {

/// What a kernel does to memory, as the ordering sees it. Buffers are numbered from 0.
struct MemoryStep {
  std::vector<std::uint32_t> reads;   ///< Each once.
  std::vector<std::uint32_t> writes;  ///< Each once.
};

struct MemoryBuffer {
  std::int64_t bytes = 0;
  bool given = false;     ///< There before the first step.
  bool freeable = false;  ///< Of a given one: goes away behind its last reader.
  bool needed = false;    ///< Stays behind the last step.
};

/// Largest number of bytes at once: of given buffers only those that are freeable count.
std::int64_t peak_of(const std::vector<MemoryStep>& steps, const std::vector<MemoryBuffer>& buffers,
                     const std::vector<std::uint32_t>& order);

/// The best of four orders by peak_of(); of equals the first. As torch/_inductor/memory.py
/// (reorder_for_peak_memory) has them:
/// - the given one;
/// - greedily the step that raises the peak least, then the one that leaves least memory behind;
/// - by when what it needs was run: first come, first served;
/// - from the step with the fewest bytes on, each behind what it needs.
/// A buffer that is changed keeps all steps that touch it in the given order.
///
/// The greedy order takes time in proportion to the steps times those that could run next; above
/// `greedy_steps_max` steps it is not tried.
std::vector<std::uint32_t> order_for_memory(const std::vector<MemoryStep>& steps,
                                            const std::vector<MemoryBuffer>& buffers);
inline constexpr std::size_t greedy_steps_max = 20'000;

}  // namespace gpusim
