// SPDX-License-Identifier: Apache-2.0
// Reads traces and says how fast: bytes of JSON text a second, and the most memory that was in use.
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

#include "sim/trace/summary.hpp"
#include "sim/trace/trace.hpp"

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

/// trace_reader FILE TEXT_BYTES [summary]: TEXT_BYTES is the size of the JSON text of a packed file; 0: that
/// of the file.
int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: trace_reader FILE TEXT_BYTES [summary]\n", stderr);
    return 2;
  }
  const std::string path = argv[1];
  double size = std::stod(argv[2]);
  if (size == 0) size = static_cast<double>(std::filesystem::file_size(path));
  const auto start = std::chrono::steady_clock::now();
  const gpusim::Trace trace = gpusim::read_trace(path);
  const double read = seconds_since(start);
  double summarized = 0;
  if (argc > 3 && std::string_view(argv[3]) == "summary") {
    const auto again = std::chrono::steady_clock::now();
    const gpusim::Summary summary = gpusim::summarize(trace);
    summarized = seconds_since(again);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print(
      "RESULT gpusim events={} gpu_ops={} read_s={:.2f} MB_per_s={:.0f} summary_s={:.2f} cpu_s={:.2f} "
      "peak_MB={:.0f} text_MB={:.0f}\n",
      trace.events, trace.ops.size(), read, size * 1e-6 / read, summarized,
      static_cast<double>(usage.ru_utime.tv_sec) + 1e-6 * static_cast<double>(usage.ru_utime.tv_usec),
      static_cast<double>(usage.ru_maxrss) * 1024e-6, size * 1e-6);
}
