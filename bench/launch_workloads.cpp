// SPDX-License-Identifier: Apache-2.0
// launch_workloads lq|2s|sg N [CALL_NS] [timeline]: runs one of the launch workloads (workloads.hpp) and
// prints one RESULT line: finish and busy time, the sum of all kernel end times as a checksum, the time at
// which the host had launched the last kernel, and the seconds that the simulation took. The checksum needs
// the timeline; it is made in a second run, outside the time, unless `timeline` asks to keep it in the timed
// one.
#include <chrono>
#include <cstdio>
#include <cstring>

#include "bench/protocol.hpp"

int main(int argc, char** argv) {
  using namespace gpusim::engine;
  const gpusim::bench::Workload workload = gpusim::bench::workload(argc, argv);
  if (workload.name.empty()) {
    std::fprintf(stderr, "usage: launch_workloads lq|2s|sg N [CALL_NS] [timeline]\n");
    return 2;
  }
  const bool keep = argc > 4 && std::strcmp(argv[4], "timeline") == 0;

  Timeline timeline;
  const auto begin = std::chrono::steady_clock::now();
  const Run result = run(workload.program, workload.machine, 1, keep ? &timeline : nullptr);
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const long resident = gpusim::bench::peak_resident_kb();
  if (!keep) run(workload.program, workload.machine, 1, &timeline);

  gpusim::bench::Outcome out{.finish_ns = result.last_op_end.count() / 1000,
                             .busy_ns = result.totals.op_sum.count() / 1000};
  for (const OpRecord& op : timeline.ops) out.sum_end_ns += static_cast<std::uint64_t>(op.end.count() / 1000);
  if (!timeline.threads[0].call_end.empty())
    out.host_end_ns = timeline.threads[0].call_end.back().count() / 1000;
  gpusim::bench::print_result("gpusim", workload, out, elapsed, resident);
  return 0;
}
