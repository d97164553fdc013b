// SPDX-License-Identifier: Apache-2.0
// The same as trace_reader by a plain reader: nlohmann-json's tree of the whole text, of which the GPU ops
// are taken.
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

struct Op {
  std::string name;
  double start;
  double duration;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: plain_trace_reader FILE.json\n", stderr);
    return 2;
  }
  const std::string path = argv[1];
  const auto size = static_cast<double>(std::filesystem::file_size(path));
  const auto start = std::chrono::steady_clock::now();
  std::ifstream file(path, std::ios::binary);
  const nlohmann::json trace = nlohmann::json::parse(file);
  std::vector<Op> ops;
  std::size_t events = 0;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    ++events;
    const std::string category = event.value("cat", "");
    if (category != "kernel" && category != "gpu_memcpy" && category != "gpu_memset") continue;
    ops.push_back({event.at("name"), event.at("ts"), event.value("dur", 0.0)});
  }
  const double read = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print(
      "RESULT plain events={} gpu_ops={} read_s={:.2f} MB_per_s={:.0f} peak_MB={:.0f} text_MB={:.0f}\n",
      events, ops.size(), read, size * 1e-6 / read, static_cast<double>(usage.ru_maxrss) * 1024e-6,
      size * 1e-6);
}
