// SPDX-License-Identifier: Apache-2.0
// The launch workloads on which event engines are compared, against their closed form:
//   E[i] = max(E[i-1] + c, Q[i - depth])   launched (the queue takes 1024 kernels of one stream)
//   Q[i] = max(E[i], end of the previous kernel of the stream)   taken: its place is free again
//   S[i] = max(Q[i], end[i-1] if i mod 10 == 9)   start; the wait is on the other stream
#include <algorithm>
#include <array>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/program_builder.hpp"
#include "tests/support/timeline.hpp"

namespace {

using gpusim::Picoseconds;
using gpusim::test::ProgramBuilder;
using namespace gpusim::engine;

constexpr std::int64_t nanosecond = 1000;

std::vector<std::int64_t> durations(std::int64_t n) {
  std::vector<std::int64_t> g;
  std::uint64_t x = 12345;
  for (std::int64_t i = 0; i < n; ++i) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    g.push_back(1000 + static_cast<std::int64_t>((x >> 33) % 4001));
  }
  return g;
}

struct Reference {
  std::int64_t finish = 0, busy_sum = 0, sum_end = 0, host_end = 0;
};

Reference closed_form(bool two_streams, const std::vector<std::int64_t>& g, std::int64_t c) {
  Reference r;
  std::array<std::vector<std::int64_t>, 2> taken;
  std::array<std::int64_t, 2> end{0, 0};
  for (std::size_t i = 0; i < g.size(); ++i) {
    const std::size_t s = two_streams ? i % 2 : 0;
    r.host_end += c;
    if (taken[s].size() >= 1024) r.host_end = std::max(r.host_end, taken[s][taken[s].size() - 1024]);
    const std::int64_t q = std::max(r.host_end, end[s]);
    taken[s].push_back(q);
    const std::int64_t start = two_streams && i % 10 == 9 ? std::max(q, end[0]) : q;
    end[s] = start + g[i];
    r.busy_sum += g[i];
    r.sum_end += end[s];
    r.finish = std::max(r.finish, end[s]);
  }
  return r;
}

}  // namespace

TEST_CASE("The engine equals the closed form of the launch-queue and two-stream workloads", "[engine]") {
  const bool two_streams = GENERATE(false, true);
  const std::int64_t n = GENERATE(1, 10, 1025, 5003, 20000);
  const std::int64_t c = GENERATE(6000, 3000, 2000, 1000, 200);

  const std::vector<std::int64_t> g = durations(n);
  ProgramBuilder b(1, 2);
  const Index done = b.event("previous kernel done");
  for (std::int64_t i = 0; i < n; ++i) {
    const auto stream = static_cast<std::uint16_t>(two_streams ? i % 2 : 0);
    if (two_streams && i % 10 == 9) b.wait(done, stream, true);
    GpuOp op;
    op.duration = Picoseconds(g[static_cast<std::size_t>(i)] * nanosecond);
    b.program.add(op, {.name = 0});
    b.launch(static_cast<Index>(i), Picoseconds(c * nanosecond), stream);
    if (two_streams && i % 10 == 8) b.record(done, stream);
  }
  b.program.names = {"k"};

  Timeline timeline;
  const Run run = gpusim::engine::run(b.program, Machine{}, 1, &timeline);
  const Reference expected = closed_form(two_streams, g, c);

  std::int64_t sum_end = 0;
  for (const OpRecord& op : timeline.ops) sum_end += op.end.count();
  CHECK(run.last_op_end.count() == expected.finish * nanosecond);
  CHECK(run.totals.op_sum.count() == expected.busy_sum * nanosecond);
  CHECK(sum_end == expected.sum_end * nanosecond);
  CHECK(gpusim::test::calls_of(timeline).back().end.count() == expected.host_end * nanosecond);
  CHECK(run.totals.busy + run.totals.idle_total() == run.totals.wall);
}
