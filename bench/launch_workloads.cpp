// SPDX-License-Identifier: Apache-2.0
// launch_workloads lq|2s N [CALL_NS] [timeline]: runs one of the launch workloads (workloads.hpp) on a
// generic program and prints one RESULT line: finish and busy time, the sum of all kernel end times as a
// checksum, the time at which the host had launched the last kernel, and the seconds that the simulation
// took. The checksum needs the timeline; it is made in a second run, outside the time, unless `timeline` asks
// to keep it in the timed one.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "bench/workloads.hpp"

namespace {

long peak_resident_kb() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("VmHWM:", 0) == 0) return std::atol(line.c_str() + 6);
  return -1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: launch_workloads lq|2s N [CALL_NS] [timeline]\n");
    return 2;
  }
  using namespace gpusim::engine;
  const bool two = std::strcmp(argv[1], "2s") == 0;
  const long long n = std::atoll(argv[2]);
  const long long call_ns = argc > 3 ? std::atoll(argv[3]) : 6000;
  const bool keep = argc > 4 && std::strcmp(argv[4], "timeline") == 0;
  const Program program = gpusim::bench::launches(n, gpusim::Picoseconds(call_ns * 1000), two);
  const Machine machine;

  Timeline timeline;
  const auto begin = std::chrono::steady_clock::now();
  const Run result = run(program, machine, 1, keep ? &timeline : nullptr);
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const long resident = peak_resident_kb();
  if (!keep) run(program, machine, 1, &timeline);

  unsigned long long sum_end = 0;
  for (const OpRecord& op : timeline.ops) sum_end += static_cast<unsigned long long>(op.end.count() / 1000);
  const long long host_end =
      timeline.threads[0].call_end.empty() ? 0 : timeline.threads[0].call_end.back().count() / 1000;
  const long long finish = result.last_op_end.count() / 1000;
  const long long busy = result.totals.op_sum.count() / 1000;
  std::printf(
      "RESULT engine=gpusim wl=%s n=%lld c=%lld finish_ns=%lld busy_ns=%lld busy_frac=%.6f sum_end=%llu "
      "cpu_end_ns=%lld sim_s=%.9f hwm_kb=%ld\n",
      two ? "2s" : "lq", n, call_ns, finish, busy,
      static_cast<double>(busy) / (static_cast<double>(finish) * (two ? 2 : 1)), sum_end, host_end, elapsed,
      resident);
  return 0;
}
