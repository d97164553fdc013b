// SPDX-License-Identifier: Apache-2.0
// One number for everything that a thousand random programs did. It stands in the source, so that every build
// type, compiler and machine that runs this test has produced the same timelines, to the picosecond.
#include <cstdint>

#include "tests/support/catch.hpp"
#include "tests/support/random_program.hpp"
#include "tests/support/timeline.hpp"

namespace {

using namespace gpusim::engine;

class Digest {  // FNV-1a over 64-bit words
 public:
  void add(std::int64_t word) { value_ = (value_ ^ static_cast<std::uint64_t>(word)) * 1099511628211u; }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 14695981039346656037u;
};

void add(Digest& digest, const Totals& totals) {
  digest.add(totals.steps);
  digest.add(totals.wall.count());
  digest.add(totals.busy.count());
  digest.add(totals.op_sum.count());
  for (const gpusim::Picoseconds cause : totals.idle) digest.add(cause.count());
  digest.add(totals.host_work.count());
  digest.add(totals.host_blocked.count());
  digest.add(totals.host_blocked_queue.count());
  digest.add(totals.counts.gpu_ops());
}

std::uint64_t digest_of(bool distributions) {
  Digest digest;
  for (std::uint64_t seed = 10'001; seed <= 11'000; ++seed) {
    const gpusim::test::RandomProgram random =
        gpusim::test::random_program(seed, {.distributions = distributions});
    Timeline timeline;
    add(digest, gpusim::engine::run(random.program, random.machine, 2, &timeline).totals);
    for (const OpRecord& op : timeline.ops) {
      digest.add(op.start.count());
      digest.add(op.end.count());
      digest.add(op.call);
      digest.add(op.node);
    }
    for (const CallRecord& call : gpusim::test::calls_of(timeline)) {
      digest.add(call.start.count());
      digest.add(call.end.count());
    }
    for (const MemoryRecord& memory : timeline.memory) digest.add(memory.bytes);
    add(digest,
        run_steady(random.program, random.machine, {.steps_max = 50, .instructions_max = 100}).period);
  }
  return digest.value();
}

}  // namespace

TEST_CASE("A thousand random programs run the same on every build and machine", "[engine][determinism]") {
  CHECK(digest_of(false) == 0x59c903b2da5df9c8u);
}

TEST_CASE("So do a thousand with random durations", "[engine][determinism]") {
  CHECK(digest_of(true) == 0xd645e856c527795du);
}
