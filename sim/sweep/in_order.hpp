// SPDX-License-Identifier: Apache-2.0
// Points evaluated by several threads, their rows written in order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "sim/sweep/points.hpp"

namespace gpusim::sweep {

/// Evaluates points; used by one thread at a time.
class Worker {
 public:
  Worker() = default;
  virtual ~Worker() = default;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// The encoded rows of the points, in order. Rows depend on the point alone, not on what was asked before.
  virtual std::string rows(const Stretch& points) = 0;
};

struct InOrder {
  Stretch points;
  int jobs = 1;
  std::function<std::unique_ptr<Worker>()> make_worker;         ///< Called once per thread, by it.
  std::function<void(const Stretch&, std::string_view)> write;  ///< In the order of points, never at once.
  std::function<bool()> stop;  ///< Asked before each stretch: what has begun is finished and written.
};

/// Hands out stretches of points, short ones while points take long: a killed process loses the work of some
/// 20 ms for each thread, or one point. Passes on what workers and `write` throw.
void run_in_order(const InOrder& order);

/// How many points to hand out at once, by how long those before took.
class StretchLength {
 public:
  void took(std::int64_t points, double seconds);
  std::int64_t next() const;

 private:
  double seconds_per_point_ = 0;  ///< 0: not known.
};

}  // namespace gpusim::sweep
