// SPDX-License-Identifier: Apache-2.0
// The figures of a trace that a person looks at first, and that other tools can be compared with.
//
// GPU op: a kernel, copy or memset. Times are exact until they become microseconds. A trace without the
// events concerned has zeros. The median of an even count is the mean of the middle two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/trace/kernel_names.hpp"
#include "sim/trace/trace.hpp"

namespace gpusim {

/// All launches of one kernel name.
struct KernelTotal {
  std::string name;
  std::int64_t count = 0;
  double total_us = 0;
  KernelGroup group = KernelGroup::Other;
};

struct KernelGroupTotal {
  std::int64_t count = 0;
  double total_us = 0;
};

struct Summary {
  std::string file;
  std::int64_t events = 0;    ///< All entries of traceEvents.
  double wall_us = 0;         ///< From the start of the first GPU op to the latest end of one.
  double busy_us = 0;         ///< Length of the union of all GPU ops, over all streams and devices.
  double sum_us = 0;          ///< Sum of their durations.
  double overlap_us = 0;      ///< sum - busy.
  double utilization = 0;     ///< busy / wall, rounded to nine decimals.
  double largest_gap_us = 0;  ///< Longest time within the wall with no GPU op running.
  std::int64_t gaps = 0;      ///< Number of such times. Ops that touch leave none.
  std::int64_t gpu_ops = 0;
  std::int64_t kernels = 0;
  std::int64_t memcpys = 0;
  std::int64_t memsets = 0;
  double kernel_us = 0;  ///< Sums of durations.
  double memcpy_us = 0;
  double memset_us = 0;
  std::int64_t memcpy_bytes = 0;
  std::int64_t devices = 0;          ///< That ran a GPU op.
  std::int64_t streams = 0;          ///< (device, stream) pairs that ran a GPU op.
  std::int64_t kernel_launches = 0;  ///< Calls that launch one kernel, whether or not it is in the trace.
  std::int64_t launches_without_kernel = 0;  ///< Those with no kernel of their correlation id.
  std::int64_t graph_launches = 0;
  std::int64_t kernels_from_graphs = 0;  ///< Kernels with the correlation id of a CUDA graph launch.
  std::int64_t gpu_ops_from_graphs = 0;
  std::int64_t unlinked_gpu_ops = 0;  ///< GPU ops whose correlation id no call has.
  std::int64_t sync_calls = 0;  ///< Host waits for device, stream, event; not StreamWaitEvent, not queries.
  double launch_call_us_median = 0;   ///< Duration of kernel launch calls.
  double launch_delay_us_median = 0;  ///< From the start of the launch call to that of its kernel.
  double launch_delay_us_min = 0;
  double graph_launch_call_us_median = 0;
  double graph_launch_delay_us_median = 0;  ///< To the first op of the launched CUDA graph.
  std::int64_t steps = 0;                   ///< ProfilerStep annotations on the host.
  double step_us_median = 0;
  std::int64_t overlapping_ops = 0;  ///< GPU ops that share time with another. This and the next two skip ops
                                     ///< of zero duration.
  std::int64_t nested_ops = 0;       ///< GPU ops that lie wholly within another (of equal ones, all but one).
  std::int64_t same_stream_overlaps =
      0;  ///< GPU ops that start before an earlier one of their stream has ended.
  std::int64_t max_concurrent = 0;
  std::int64_t zero_duration_ops = 0;
  double top_kernel_us = 0;  ///< Of the kernel name with the largest sum of durations.
  std::int64_t top_kernel_count = 0;
  std::string top_kernel;

  double largest_gap_at_us = 0;  ///< Start of the largest gap, after the start of the first GPU op.
  std::int64_t invalid_events = 0;
  std::vector<std::pair<std::string, std::int64_t>> sync_calls_by_name;  ///< Sorted by name.
  std::vector<KernelTotal> kernel_totals;                                ///< By falling total, then by name.
  KernelGroupTotal kernel_groups[kernel_group_count];
  std::int64_t dropped_spans = 0;
  std::vector<std::string> repairs;
  std::int64_t lost_bytes = 0;  ///< As in Trace, as are the next two.
  std::int64_t lost_at = 0;
  std::int64_t text_bytes = 0;
  std::vector<std::string> device_names;  ///< Of the devices that ran a GPU op, where deviceProperties tells.
};

Summary summarize(const Trace& trace);

/// The figures for people, at most 80 columns wide. Ends with a newline.
std::string summary_text(const Summary& summary);

/// One object with all figures, named as the CSV's columns, and the lists. No newline at the end. `more`:
/// further members, each with a comma before it.
std::string summary_json(const Summary& summary, std::string_view more = {});

/// One object: itself. Several: an array of them.
std::string json_list(std::span<const std::string> objects);

/// Column names, "file" first, without a newline. A row is quoted as RFC 4180 says, also without one.
std::string summary_csv_header();
std::string summary_csv_row(const Summary& summary);

}  // namespace gpusim
