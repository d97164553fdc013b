// SPDX-License-Identifier: Apache-2.0
#include "models/hardware/launch_model.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace gpusim {

Picoseconds TimeTable::at(std::int64_t count) const {
  if (points.empty()) return Picoseconds{0};
  if (count <= points.front().count || points.size() == 1) return points.front().time;
  // The first point at or beyond `count`; beyond the last one, the last segment is continued.
  auto upper = std::lower_bound(points.begin(), points.end(), count,
                                [](const Point& point, std::int64_t value) { return point.count < value; });
  if (upper == points.end()) --upper;
  const Point& a = *(upper - 1);
  const Point& b = *upper;
  const double slope =
      static_cast<double>((b.time - a.time).count()) / static_cast<double>(b.count - a.count);
  // From the nearer known end, so that the points themselves are met exactly.
  if (count == b.count) return b.time;
  const double rise = slope * static_cast<double>(count - a.count);
  return std::max(a.time + Picoseconds(std::llround(rise)), Picoseconds{0});
}

std::string_view name(GapClass gap_class) {
  switch (gap_class) {
    case GapClass::ShortKernel:
      return "short_kernel";
    case GapClass::LongKernel:
      return "long_kernel";
    case GapClass::Memset:
      return "memset";
    case GapClass::Memcpy:
      return "memcpy";
    case GapClass::Programmatic:
      return "programmatic";
    case GapClass::CudaGraph:
      return "cuda_graph";
  }
  return "?";
}

GapClass gap_class(LaunchedOp op, Picoseconds duration, bool programmatic) {
  switch (op) {
    case LaunchedOp::Memset:
      return GapClass::Memset;
    case LaunchedOp::HostCopy:
      return GapClass::Memcpy;
    case LaunchedOp::CudaGraph:
      return GapClass::CudaGraph;
    case LaunchedOp::Kernel:
      if (programmatic) return GapClass::Programmatic;
      break;
    case LaunchedOp::DeviceCopy:
      break;
  }
  return duration < short_kernel_limit ? GapClass::ShortKernel : GapClass::LongKernel;
}

namespace {

class Checker {
 public:
  void not_negative(const std::string& path, Picoseconds time) {
    if (time < Picoseconds{0}) found_.push_back({path, "must not be negative"});
  }
  void table(const std::string& path, const TimeTable& table) {
    for (std::size_t i = 0; i < table.points.size(); ++i) {
      not_negative(path, table.points[i].time);
      if (table.points[i].count < 0) found_.push_back({path, "counts must not be negative"});
      if (i > 0 && table.points[i].count <= table.points[i - 1].count)
        found_.push_back({path, "counts must rise from point to point"});
    }
  }
  void gaps(const std::string& path, const GapTable& table) {
    for (int before = 0; before < gap_class_count; ++before) {
      for (int after = 0; after < gap_class_count; ++after) {
        const auto a = static_cast<GapClass>(before);
        const auto b = static_cast<GapClass>(after);
        // Only a programmatic kernel may start before its predecessor has ended.
        if (b != GapClass::Programmatic)
          not_negative(path + "." + std::string(name(a)) + "." + std::string(name(b)), table.at(a, b));
      }
    }
  }
  void at_least_one(const std::string& path, std::int64_t value) {
    if (value < 1) found_.push_back({path, "must be at least 1"});
  }
  std::vector<SpecProblem> found() && { return std::move(found_); }

 private:
  std::vector<SpecProblem> found_;
};

}  // namespace

std::vector<SpecProblem> problems(const LaunchSpec& launch) {
  Checker check;
  check.not_negative("call", launch.call);
  check.not_negative("copy_call", launch.copy_call);
  check.not_negative("memset_call", launch.memset_call);
  check.not_negative("arrival_after_call", launch.arrival_after_call);
  check.at_least_one("queue_depth", launch.queue_depth);
  check.not_negative("event_record", launch.event_record);
  check.not_negative("stream_wait", launch.stream_wait);
  check.not_negative("event_latency", launch.event_latency);
  check.not_negative("sync_call", launch.sync_call);
  check.not_negative("sync_return", launch.sync_return);
  check.gaps("gap", launch.gap);
  check.gaps("graph_gap", launch.graph_gap);
  check.table("min_period", launch.min_period);
  check.table("graph_min_period", launch.graph_min_period);
  check.not_negative("pdl_overlap", launch.pdl_overlap);
  check.not_negative("code_fetch", launch.code_fetch);
  check.table("cuda_graph.call", launch.cuda_graph.call);
  check.not_negative("cuda_graph.arrival_after_call", launch.cuda_graph.arrival_after_call);
  check.not_negative("cuda_graph.replay_work", launch.cuda_graph.replay_work);
  return std::move(check).found();
}

}  // namespace gpusim
