// SPDX-License-Identifier: Apache-2.0
// plain_workloads lq|2s|sg N [CALL_NS]: the protocol of launch_workloads, run by the plain event queue
// (plain_event_queue.hpp).
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bench/plain_event_queue.hpp"
#include "bench/protocol.hpp"

int main(int argc, char** argv) {
  const gpusim::bench::Workload workload = gpusim::bench::workload(argc, argv);
  if (workload.name.empty()) {
    std::fprintf(stderr, "usage: plain_workloads lq|2s|sg N [CALL_NS]\n");
    return 2;
  }
  const auto begin = std::chrono::steady_clock::now();
  const gpusim::bench::PlainResult result = gpusim::bench::run_plain(workload.program, workload.machine);
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  gpusim::bench::print_result("plain", workload,
                              {.finish_ns = result.finish / 1000,
                               .busy_ns = result.op_sum / 1000,
                               .sum_end_ns = result.sum_end_ns,
                               .host_end_ns = result.host_end / 1000},
                              elapsed, gpusim::bench::peak_resident_kb());
  return 0;
}
