// SPDX-License-Identifier: Apache-2.0
#include "sim/app/progress.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace gpusim {

std::string progress_line(std::int64_t done, std::int64_t total, std::int64_t this_time, double seconds) {
  constexpr int width = 24;
  const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1;
  const int filled = static_cast<int>(share * width);
  std::string line = fmt::format(
      "[{}{}] {:3.0f} %  {}/{}", std::string(static_cast<std::size_t>(filled), '#'),
      std::string(static_cast<std::size_t>(width - filled), '.'), std::floor(100 * share), done, total);
  if (this_time <= 0 || seconds <= 0) return line;
  const double rate = static_cast<double>(this_time) / seconds;
  line += rate < 10 ? fmt::format("  {:.2f}/s", rate) : fmt::format("  {:.0f}/s", rate);
  const auto left = static_cast<std::int64_t>(std::ceil(static_cast<double>(total - done) / rate));
  if (left >= 3600)
    line += fmt::format("  {}:{:02}:{:02} left", left / 3600, left / 60 % 60, left % 60);
  else
    line += fmt::format("  {}:{:02} left", left / 60, left % 60);
  return line;
}

ProgressBar::ProgressBar(std::function<void(std::string_view)> out, std::int64_t done, std::int64_t total)
    : out_(std::move(out)), before_(done), total_(total) {}

void ProgressBar::update(std::int64_t done) {
  const Clock::time_point now = Clock::now();
  if (now - shown_ < std::chrono::milliseconds(200)) return;
  shown_ = now;
  visible_ = true;
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  out_("\r\x1b[K" + progress_line(done, total_, done - before_, seconds));
}

void ProgressBar::clear() {
  if (visible_) out_("\r\x1b[K");
  visible_ = false;
}

}  // namespace gpusim
