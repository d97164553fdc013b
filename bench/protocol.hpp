// SPDX-License-Identifier: Apache-2.0
// How programs that run one of the launch workloads are called, and the RESULT line that they print.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "bench/workloads.hpp"

namespace gpusim::bench {

struct Workload {
  std::string name;  ///< Empty: not as it must be called.
  std::int64_t n = 0;
  std::int64_t call_ns = 0;
  engine::Program program;
  engine::Machine machine;
};

/// PROGRAM lq|2s|sg N [CALL_NS]; a launch takes 6 us if nothing is said, in sg 5 us.
inline Workload workload(int argc, char** argv) {
  Workload w;
  if (argc < 3) return w;
  const std::string name = argv[1];
  if (name != "lq" && name != "2s" && name != "sg") return w;
  w.name = name;
  w.n = std::atoll(argv[2]);
  w.call_ns = argc > 3 ? std::atoll(argv[3]) : name == "sg" ? 5000 : 6000;
  const Picoseconds call(w.call_ns * 1000);
  w.program = name == "sg" ? sharing_graphs(w.n, call) : launches(w.n, call, name == "2s");
  if (name == "sg") w.machine = sharing_machine();
  return w;
}

struct Outcome {
  std::int64_t finish_ns = 0;
  std::int64_t busy_ns = 0;      ///< Sum of the durations of all kernels, as they ran.
  std::uint64_t sum_end_ns = 0;  ///< Of all kernel ends, each cut to whole ns: a checksum.
  std::int64_t host_end_ns = 0;  ///< The end of the last call.
};

inline long peak_resident_kb() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("VmHWM:", 0) == 0) return std::atol(line.c_str() + 6);
  return -1;
}

inline void print_result(const char* engine, const Workload& w, const Outcome& out, double seconds,
                         long resident_kb) {
  const double streams = static_cast<double>(w.program.streams.size());
  std::printf(
      "RESULT engine=%s wl=%s n=%lld c=%lld finish_ns=%lld busy_ns=%lld busy_frac=%.6f sum_end=%llu "
      "cpu_end_ns=%lld sim_s=%.9f hwm_kb=%ld\n",
      engine, w.name.c_str(), static_cast<long long>(w.n), static_cast<long long>(w.call_ns),
      static_cast<long long>(out.finish_ns), static_cast<long long>(out.busy_ns),
      static_cast<double>(out.busy_ns) / (static_cast<double>(out.finish_ns) * streams),
      static_cast<unsigned long long>(out.sum_end_ns), static_cast<long long>(out.host_end_ns), seconds,
      resident_kb);
}

}  // namespace gpusim::bench
