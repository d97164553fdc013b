// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/in_order.hpp"

#include <tbb/enumerable_thread_specific.h>
#include <tbb/global_control.h>
#include <tbb/parallel_pipeline.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

namespace gpusim::sweep {
namespace {

double now_in_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Piece {
  Stretch points;
  std::string rows;
};

/// Gives the next stretch until all are out or somebody wants to stop.
class Source {
 public:
  explicit Source(const InOrder& order) : order_(order), next_(order.points.first) {}

  bool take(Stretch& into) {
    if (next_ >= order_.points.end || (order_.stop && order_.stop())) return false;
    const std::lock_guard lock(mutex_);
    into = {next_, std::min(next_ + length_.next(), order_.points.end)};
    next_ = into.end;
    return true;
  }
  void took(std::int64_t points, double seconds) {
    const std::lock_guard lock(mutex_);
    length_.took(points, seconds);
  }

 private:
  const InOrder& order_;
  std::int64_t next_;
  std::mutex mutex_;  ///< For `length_`, which all threads tell how long they took.
  StretchLength length_;
};

Piece evaluate(Worker& worker, const Stretch& points, Source& source) {
  const double begin = now_in_seconds();
  Piece piece{points, worker.rows(points)};
  source.took(points.count(), now_in_seconds() - begin);
  return piece;
}

}  // namespace

void StretchLength::took(std::int64_t points, double seconds) {
  const double each = seconds / static_cast<double>(std::max<std::int64_t>(points, 1));
  // What takes longer counts at once, what is faster step by step.
  seconds_per_point_ = std::max(each, seconds_per_point_ == 0 ? each : (seconds_per_point_ + each) / 2);
}

std::int64_t StretchLength::next() const {
  constexpr double wanted_seconds = 0.02;
  constexpr double most = 8192;
  if (seconds_per_point_ <= 0) return 1;
  return static_cast<std::int64_t>(std::clamp(wanted_seconds / seconds_per_point_, 1.0, most));
}

void run_in_order(const InOrder& order) {
  Source source(order);
  if (order.jobs <= 1) {
    const std::unique_ptr<Worker> worker = order.make_worker();
    for (Stretch points; source.take(points);) {
      const Piece piece = evaluate(*worker, points, source);
      order.write(piece.points, piece.rows);
    }
    return;
  }
  const auto jobs = static_cast<std::size_t>(order.jobs);
  // More threads than cores if the user says so.
  const tbb::global_control threads(tbb::global_control::max_allowed_parallelism, jobs);
  tbb::task_arena arena(order.jobs);
  tbb::enumerable_thread_specific<std::unique_ptr<Worker>> workers;
  arena.execute([&] {
    tbb::parallel_pipeline(
        4 * jobs, tbb::make_filter<void, Stretch>(tbb::filter_mode::serial_in_order,
                                                  [&](tbb::flow_control& flow) {
                                                    Stretch points;
                                                    if (!source.take(points)) flow.stop();
                                                    return points;
                                                  }) &
                      tbb::make_filter<Stretch, std::shared_ptr<Piece>>(
                          tbb::filter_mode::parallel,
                          [&](const Stretch& points) {
                            std::unique_ptr<Worker>& worker = workers.local();
                            if (!worker) worker = order.make_worker();
                            return std::make_shared<Piece>(evaluate(*worker, points, source));
                          }) &
                      tbb::make_filter<std::shared_ptr<Piece>, void>(
                          tbb::filter_mode::serial_in_order, [&](const std::shared_ptr<Piece>& piece) {
                            order.write(piece->points, piece->rows);
                          }));
  });
}

}  // namespace gpusim::sweep
