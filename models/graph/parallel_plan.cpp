// SPDX-License-Identifier: Apache-2.0
#include "models/graph/parallel_plan.hpp"

#include <algorithm>
#include <cmath>

namespace gpusim {

std::string_view name(DataKind kind) {
  switch (kind) {
    case DataKind::Ddp:
      return "ddp";
    case DataKind::Fsdp:
      return "fsdp";
    case DataKind::Zero1:
      return "zero1";
    case DataKind::Zero2:
      return "zero2";
    case DataKind::Zero3:
      return "zero3";
  }
  return "?";
}

std::string_view name(PipelineSchedule schedule) {
  switch (schedule) {
    case PipelineSchedule::Gpipe:
      return "gpipe";
    case PipelineSchedule::OneF1b:
      return "1f1b";
    case PipelineSchedule::Interleaved:
      return "interleaved";
  }
  return "?";
}

std::int64_t ParallelPlan::tensor_per_node() const {
  return std::clamp<std::int64_t>(tensor, 1, std::max<std::int64_t>(ranks_per_node, 1));
}
std::int64_t ParallelPlan::data_per_node() const {
  return std::clamp<std::int64_t>(ranks_per_node / std::max<std::int64_t>(tensor, 1), 1,
                                  std::max<std::int64_t>(data, 1));
}

double bubble_share(PipelineSchedule schedule, std::int64_t stages, std::int64_t microbatches,
                    std::int64_t chunks) {
  const auto idle = static_cast<double>(stages - 1);
  const auto rounds =
      static_cast<double>(schedule == PipelineSchedule::Interleaved ? chunks * microbatches : microbatches);
  return idle / (rounds + idle);
}

double expected_maximum(std::int64_t count) {
  if (count <= 1) return 0;
  const double share = (static_cast<double>(count) - 0.375) / (static_cast<double>(count) + 0.25);
  // The quantile by bisection: the distribution function is monotonous.
  double low = 0;
  double high = 10;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < share ? low : high) = middle;
  }
  return (low + high) / 2;
}

ShardedBytes sharded_bytes(DataKind kind, std::int64_t ranks, const ShardedBytes& whole) {
  const auto n = static_cast<double>(ranks);
  ShardedBytes rank = whole;
  if (kind == DataKind::Ddp) return rank;
  rank.states /= n;
  if (kind == DataKind::Zero1) return rank;
  rank.gradients /= n;
  if (kind == DataKind::Zero2) return rank;
  rank.parameters /= n;
  return rank;
}

}  // namespace gpusim
