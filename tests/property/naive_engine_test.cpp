// SPDX-License-Identifier: Apache-2.0
// The engine against a second one that was written from docs/engine.md alone, to the picosecond.
#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>

#include "tests/naive/naive_engine.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random_program.hpp"

namespace gpusim::test {
namespace {

using namespace engine;

std::string text(Picoseconds t) {
  return std::to_string(t.count());
}

enum class Compare : std::uint8_t { Everything, AllButCauses };

/// "" if both say the same about everything; otherwise what differs first.
std::string disagreement(const RandomProgram& random, std::int64_t steps, const NaiveRun& naive,
                         Compare compare) {
  Timeline timeline;
  const Run ours = run(random.program, random.machine, steps, &timeline);
  std::vector<NaiveOp> ops;
  for (const OpRecord& op : timeline.ops) {
    const CallRecord call = timeline.call(op.call);
    ops.push_back({op.start.count(), op.end.count(), call.thread, op.call / timeline.threads.size(), op.node,
                   launch_of(random.program, timeline, op).stream});
  }
  std::sort(ops.begin(), ops.end());
  if (ops.size() != naive.ops.size()) return "number of ops";
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (ops[i] != naive.ops[i])
      return "op " + std::to_string(i) + ": thread " + std::to_string(ops[i].thread) + " call " +
             std::to_string(ops[i].call) + " node " + std::to_string(ops[i].node) + " stream " +
             std::to_string(ops[i].stream) + " from " + std::to_string(ops[i].start) + " to " +
             std::to_string(ops[i].end) + ", naive: thread " + std::to_string(naive.ops[i].thread) +
             " call " + std::to_string(naive.ops[i].call) + " node " + std::to_string(naive.ops[i].node) +
             " from " + std::to_string(naive.ops[i].start) + " to " + std::to_string(naive.ops[i].end);
  for (std::size_t t = 0; t < naive.call_end.size(); ++t) {
    const auto& ends = timeline.threads[t].call_end;
    if (ends.size() != naive.call_end[t].size()) return "number of calls";
    for (std::size_t i = 0; i < ends.size(); ++i)
      if (ends[i].count() != naive.call_end[t][i])
        return "call " + std::to_string(i) + " of thread " + std::to_string(t) + ": " + text(ends[i]) +
               ", naive: " + std::to_string(naive.call_end[t][i]);
  }
  const Totals& a = ours.totals;
  const Totals& b = naive.totals;
  if (a.wall != b.wall) return "wall: " + text(a.wall) + ", naive: " + text(b.wall);
  if (a.busy != b.busy) return "busy: " + text(a.busy) + ", naive: " + text(b.busy);
  if (a.op_sum != b.op_sum) return "sum of ops";
  for (std::size_t i = 0; i < a.idle.size(); ++i)
    if (compare == Compare::Everything && a.idle[i] != b.idle[i])
      return std::string("idle ") + name(static_cast<IdleCause>(i)) + ": " + text(a.idle[i]) +
             ", naive: " + text(b.idle[i]);
  if (a.idle_total() != b.idle_total()) return "idle time";
  if (a.host_work != b.host_work) return "host work";
  if (a.host_blocked != b.host_blocked)
    return "host blocked: " + text(a.host_blocked) + ", naive: " + text(b.host_blocked);
  if (a.host_blocked_queue != b.host_blocked_queue)
    return "host blocked by a full queue: " + text(a.host_blocked_queue) +
           ", naive: " + text(b.host_blocked_queue);
  if (!(a.counts == b.counts)) return "counts";
  if (ours.final_bytes != naive.final_bytes) return "bytes at the end";
  if (ours.peak_bytes != naive.peak_bytes) return "most bytes";
  return "";
}

/// Some odd picoseconds for every call, so that hardly ever two threads do something at the same time.
void make_odd(RandomProgram& random, std::uint64_t seed) {
  std::mt19937_64 odd(seed + 1);
  for (HostThread& thread : random.program.threads)
    for (std::size_t i = 0; i < thread.instructions.size(); ++i) {
      Instruction& in = thread.instructions[i];
      const auto more = Picoseconds(static_cast<std::int64_t>(odd() % 10'000));
      in.duration += more;
      in.latency += more;
    }
}

std::uint64_t programs(std::uint64_t usual) {
  const char* text = std::getenv("GPUSIM_NAIVE_PROGRAMS");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : usual;
}

/// The seed to begin with: one that differed can be looked at by itself.
std::uint64_t first_program() {
  const char* text = std::getenv("GPUSIM_NAIVE_FIRST");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 0;
}

struct Agreed {
  int compared = 0;
  int ties = 0;  ///< Left out: see NaiveRun::tie.
};

/// `odd`: see make_odd. Stops at the tenth disagreement.
Agreed agree(const RandomProgramOptions& options, Compare compare, bool odd) {
  Agreed agreed;
  int wrong = 0;
  const std::uint64_t first = first_program();
  for (std::uint64_t seed = first; seed < first + programs(500) && wrong < 10; ++seed) {
    RandomProgram random = random_program(seed, options);
    if (odd) make_odd(random, seed);
    const std::int64_t steps = 1 + static_cast<std::int64_t>(seed % 3);
    const NaiveRun naive = naive_run(random.program, random.machine, steps);
    if (naive.tie) {
      ++agreed.ties;
      continue;
    }
    ++agreed.compared;
    const std::string what = disagreement(random, steps, naive, compare);
    if (what.empty()) continue;
    ++wrong;
    CAPTURE(seed, steps);
    CHECK(what == "");
  }
  return agreed;
}

/// From one period to the next, the naive engine takes as long as the steady step says.
void steps_agree(const RandomProgramOptions& options) {
  int compared = 0;
  for (std::uint64_t seed = 0; seed < programs(500) / 5; ++seed) {
    const RandomProgram random = random_program(seed, options);
    const Steady steady = run_steady(random.program, random.machine);
    const std::int64_t before = steady.warmup_steps + 2 * steady.period.steps;
    if (!steady.exact || before > 20) continue;
    const NaiveRun first = naive_run(random.program, random.machine, before);
    const NaiveRun second = naive_run(random.program, random.machine, before + steady.period.steps);
    if (second.tie) continue;
    ++compared;
    CAPTURE(seed);
    CHECK(text(second.totals.wall - first.totals.wall) == text(steady.period.wall));
    CHECK(text(second.totals.busy - first.totals.busy) == text(steady.period.busy));
  }
  CHECK(compared > static_cast<int>(programs(500) / 10));
}

}  // namespace

TEST_CASE("One thread on one stream runs as the naive engine says") {
  const Agreed agreed =
      agree({.copies = false, .threads_max = 1, .streams_max = 1}, Compare::Everything, false);
  CHECK(agreed.compared > 10 * agreed.ties);
}

TEST_CASE("One thread on several streams, with copies, runs as the naive engine says") {
  const Agreed agreed = agree({.threads_max = 1, .streams_max = 4}, Compare::Everything, false);
  CHECK(agreed.compared > 5 * agreed.ties);
}

TEST_CASE("Several threads with streams of their own run as the naive engine says") {
  const Agreed agreed = agree({.share_streams = false, .graphs_shared = false}, Compare::Everything, true);
  CHECK(agreed.compared > 2 * agreed.ties);
}

TEST_CASE(
    "Several threads that share streams run as the naive engine says, but for the causes of idle time") {
  const Agreed agreed = agree({}, Compare::AllButCauses, true);
  CHECK(agreed.compared > 2 * agreed.ties);
}

TEST_CASE("The steady step is what the naive engine adds for each further period") {
  steps_agree({.copies = false, .threads_max = 1, .streams_max = 1});
  steps_agree({.threads_max = 1, .streams_max = 4});
}

}  // namespace gpusim::test
