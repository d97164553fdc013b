// SPDX-License-Identifier: Apache-2.0
// How far a long command is, for the person at the terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace gpusim {

/// "[#####.....]  50 %  500/1000  120/s  0:04 left", `done` of `total` after `seconds` in which `this_time`
/// of them were done.
std::string progress_line(std::int64_t done, std::int64_t total, std::int64_t this_time, double seconds);

/// Rewrites one line of the terminal some times a second.
class ProgressBar {
 public:
  /// `done` so far, from an earlier run.
  ProgressBar(std::function<void(std::string_view)> out, std::int64_t done, std::int64_t total);
  void update(std::int64_t done);
  /// Takes the line away.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  std::function<void(std::string_view)> out_;
  std::int64_t before_;
  std::int64_t total_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point shown_{};
  bool visible_ = false;
};

}  // namespace gpusim
