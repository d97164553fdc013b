// SPDX-License-Identifier: Apache-2.0
// What must hold for every program, tried on random ones. A failing case is reproduced by its seed alone.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>

#include "sim/engine/idle_interval.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random_program.hpp"
#include "tests/support/timeline.hpp"

namespace {

using gpusim::Picoseconds;
using gpusim::test::random_program;
using gpusim::test::RandomProgram;
using gpusim::test::RandomProgramOptions;
using namespace gpusim::engine;

/// Catch counts and formats every REQUIRE; millions of them take longer than the simulations they check.
void must(bool holds, const char* claim) {
  if (!holds) FAIL(claim);
}

/// Busy time the slow way: sort, then sweep.
Picoseconds union_of(const LargeVector<OpRecord>& ops) {
  std::vector<std::pair<Picoseconds, Picoseconds>> intervals;
  for (const OpRecord& op : ops) intervals.emplace_back(op.start, op.end);
  std::sort(intervals.begin(), intervals.end());
  Picoseconds busy{0};
  Picoseconds until{0};
  for (const auto& [start, end] : intervals) {
    if (end > until) busy += end - std::max(start, until);
    until = std::max(until, end);
  }
  return busy;
}

/// Everything one after the other: no program can take longer.
Picoseconds upper_bound(const Program& program, const Machine& machine, const Timeline& timeline) {
  Picoseconds largest_gap{0};
  for (int i = 0; i < gap_class_limit; ++i)
    for (int j = 0; j < gap_class_limit; ++j)
      largest_gap = std::max({largest_gap, machine.gap[i][j], machine.graph_gap[i][j]});
  for (const GpuOp& op : program.ops) largest_gap = std::max({largest_gap, op.gap_before, op.min_period});
  for (const OpInfo& info : program.info) largest_gap = std::max(largest_gap, info.min_period_in_graph);
  Picoseconds sum{0};
  for (const CallRecord& call : gpusim::test::calls_of(timeline)) {
    const Instruction& in = instruction_of(program, call);
    sum += in.duration + in.latency + in.return_latency + machine.event_latency;
  }
  for (const OpRecord& op : timeline.ops) sum += op.end - op.start + largest_gap;
  return sum;
}

void check_invariants(std::uint64_t seed, const RandomProgramOptions& options, std::int64_t steps) {
  const RandomProgram random = random_program(seed, options);
  const Program& program = random.program;
  const Machine& machine = random.machine;
  INFO("seed " << seed << ", steps " << steps);
  Timeline timeline;
  const Run run = gpusim::engine::run(program, machine, steps, &timeline);
  const std::vector<CallRecord> calls = gpusim::test::calls_of(timeline);

  // Accounting.
  REQUIRE(run.totals.busy + run.totals.idle_total() == run.totals.wall);
  must(run.totals.wall >= run.totals.busy, "run.totals.busy + run.totals.idle_total() == run.totals.wall");
  must(run.window.busy + run.window.idle_total() == run.window.wall,
       "run.window.busy + run.window.idle_total() == run.window.wall");
  must(run.totals.busy == union_of(timeline.ops), "run.totals.busy == union_of(timeline.ops)");
  for (const Picoseconds cause : run.totals.idle) must(cause >= Picoseconds(0), "cause >= Picoseconds(0)");
  must(run.queue_length_max <= machine.launch_queue_depth,
       "run.queue_length_max <= machine.launch_queue_depth");
  must(static_cast<std::size_t>(run.totals.counts.gpu_ops()) == timeline.ops.size(),
       "static_cast<std::size_t>(run.totals.counts.gpu_ops()) == timeline.ops.size()");

  // Idle time piece by piece: together with the busy time it covers the run once, and its sums are the
  // totals.
  std::array<Picoseconds, idle_cause_count> idle{};
  Picoseconds idle_until{0};
  std::vector<std::pair<Picoseconds, Picoseconds>> pieces;
  for (const IdleInterval& piece : idle_intervals(program, machine, steps)) {
    must(piece.from >= idle_until && piece.to > piece.from, "idle pieces come in order and do not overlap");
    idle_until = piece.to;
    idle[static_cast<std::size_t>(piece.cause)] += piece.to - piece.from;
    pieces.emplace_back(piece.from, piece.to);
  }
  must(idle == run.totals.idle, "idle pieces add up to the totals");
  for (const OpRecord& op : timeline.ops) {
    const auto after = std::upper_bound(pieces.begin(), pieces.end(), op.start,
                                        [](Picoseconds at, const auto& piece) { return at < piece.second; });
    must(after == pieces.end() || op.end <= after->first || op.start == op.end,
         "no op runs in an idle piece");
  }

  // Bounds.
  Picoseconds latest{0};
  for (const OpRecord& op : timeline.ops) latest = std::max(latest, op.end);
  for (const CallRecord& call : calls) latest = std::max(latest, call.end);
  must(run.totals.wall == latest, "run.totals.wall == latest");
  must(run.totals.wall <= upper_bound(program, machine, timeline),
       "run.totals.wall <= upper_bound(program, machine, timeline)");
  std::map<std::size_t, Picoseconds> host_sum;
  for (const CallRecord& call : calls) host_sum[call.thread] += instruction_of(program, call).duration;
  for (const auto& [thread, sum] : host_sum) must(run.totals.wall >= sum, "run.totals.wall >= sum");

  // Host threads: one thing at a time, in program order.
  std::map<std::size_t, const CallRecord*> last_call;
  for (const CallRecord& call : calls) {
    must(call.end >= call.start + instruction_of(program, call).duration,
         "call.end >= call.start + instruction_of(program, call).duration");
    if (const CallRecord* last = last_call[call.thread]) {
      // Between two steps a thread may wait for slower ones.
      must(call.step == last->step ? call.start == last->end : call.start >= last->end,
           "a call starts where the one before it ended");
      must((call.step == last->step ? call.instruction == last->instruction + 1
                                    : call.step == last->step + 1 && call.instruction == 0),
           "(call.step == last->step ? call.instruction == last->instruction + 1 : call.step == last->step + "
           "1 && call.instruction == 0)");
    }
    last_call[call.thread] = &call;
  }

  // Streams: never reordered, overlapping only where programmatic, nothing before its launch arrived.
  std::map<std::size_t, std::vector<const OpRecord*>> by_stream;
  for (const OpRecord& op : timeline.ops) by_stream[launch_of(program, timeline, op).stream].push_back(&op);
  for (const auto& [stream, ops] : by_stream) {
    Index last_launch = no_index;
    Picoseconds done{0};        // end of all earlier launches
    Picoseconds launch_end{0};  // of the current launch
    std::set<Index> seen;
    for (const OpRecord* op : ops) {
      const CallRecord call = timeline.call(op->call);
      must(instruction_of(program, call).stream == stream, "instruction_of(program, call).stream == stream");
      must(op->start >= call.start + instruction_of(program, call).latency,
           "op->start >= call.start + instruction_of(program, call).latency");
      if (op->call != last_launch) {
        must(seen.insert(op->call).second,
             "seen.insert(op->call).second");  // no launch is torn apart by another
        done = std::max(done, launch_end);
        launch_end = Picoseconds(0);
        const bool programmatic =
            op->node == no_index && program.ops[op_of(program, timeline, *op)].gap_class == 2;
        if (!programmatic) must(op->start >= done, "op->start >= done");
        last_launch = op->call;
      }
      launch_end = std::max(launch_end, op->end);
    }
    // The launch queue: the launch `depth` places before one has been taken when the call of that one ends.
    std::vector<Index> launches;
    for (const OpRecord* op : ops)
      if (launches.empty() || launches.back() != op->call) launches.push_back(op->call);
    std::vector<Index> in_call_order = launches;
    std::sort(in_call_order.begin(), in_call_order.end());
    if (program.threads.size() == 1) must(launches == in_call_order, "launches == in_call_order");
  }

  // The same again: the same bytes.
  Timeline again;
  const Run second = gpusim::engine::run(program, machine, steps, &again);
  must(second.totals == run.totals, "second.totals == run.totals");
  must(again.ops.size() == timeline.ops.size(), "again.ops.size() == timeline.ops.size()");
  for (std::size_t i = 0; i < again.ops.size(); ++i) {
    must(again.ops[i].start == timeline.ops[i].start, "again.ops[i].start == timeline.ops[i].start");
    must(again.ops[i].end == timeline.ops[i].end, "again.ops[i].end == timeline.ops[i].end");
    must(again.ops[i].call == timeline.ops[i].call, "again.ops[i].call == timeline.ops[i].call");
  }
  // Without a timeline: the same totals.
  must(gpusim::engine::run(program, machine, steps).totals == run.totals,
       "gpusim::engine::run(program, machine, steps).totals == run.totals");
}

}  // namespace

TEST_CASE("Random programs keep order, launches, queues and the books", "[engine][property]") {
  for (std::uint64_t seed = 1; seed <= 1500; ++seed)
    check_invariants(seed, {}, 1 + static_cast<std::int64_t>(seed % 3));
}

TEST_CASE("Streams that share devices keep them too", "[engine][property][sharing]") {
  for (std::uint64_t seed = 1; seed <= 1500; ++seed)
    check_invariants(seed, {.sharing = true}, 1 + static_cast<std::int64_t>(seed % 3));
}

TEST_CASE("A steady step of streams that share devices equals the plain simulation of its periods",
          "[engine][property][sharing]") {
  int exact = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    INFO("seed " << seed);
    const RandomProgram random =
        random_program(seed, {.sharing = true, .threads_max = 1, .instructions_max = 12});
    const Steady steady = run_steady(random.program, random.machine, {.instructions_max = 50'000});
    if (!steady.exact) continue;
    ++exact;
    const std::int64_t first = steady.warmup_steps + steady.period.steps;
    const Totals early = run_event_by_event(random.program, random.machine, first).totals;
    const Totals late =
        run_event_by_event(random.program, random.machine, first + 1000 * steady.period.steps).totals;
    REQUIRE(late - early == add(Totals{}, steady.period, 1000));
  }
  CHECK(exact > 200);
}

TEST_CASE("Random durations keep them too, and are the same for the same seed", "[engine][property]") {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) check_invariants(seed, {.distributions = true}, 3);
}

TEST_CASE("A steady step equals the plain simulation of up to a thousand of its periods",
          "[engine][property]") {
  int exact = 0;
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    INFO("seed " << seed);
    const RandomProgram random = random_program(seed);
    const Steady steady =
        run_steady(random.program, random.machine, {.steps_max = 3000, .instructions_max = 200'000});
    REQUIRE(steady.period.busy + steady.period.idle_total() == steady.period.wall);
    if (!steady.exact) continue;
    ++exact;
    // From the same phase of the period, ten periods apart, the makespans differ by exactly ten periods.
    const std::int64_t first = steady.warmup_steps + steady.period.steps;
    const std::int64_t periods = seed <= 300 ? 1000 : 10;
    const std::int64_t apart = periods * steady.period.steps;
    const Run early = run_event_by_event(random.program, random.machine, first);
    const Run late = run_event_by_event(random.program, random.machine, first + apart);
    // Threads that nothing couples to the first may need longer for their steps than it: then the makespan is
    // theirs.
    if (random.program.threads.size() > 1) continue;
    REQUIRE(late.totals.wall - early.totals.wall == periods * steady.period.wall);
    REQUIRE(late.totals.busy - early.totals.busy == periods * steady.period.busy);
    REQUIRE(late.totals.counts.gpu_ops() - early.totals.counts.gpu_ops() ==
            periods * steady.period.counts.gpu_ops());
    for (std::size_t cause = 0; cause < steady.period.idle.size(); ++cause)
      REQUIRE(late.totals.idle[cause] - early.totals.idle[cause] == periods * steady.period.idle[cause]);
  }
  CHECK(exact > 1000);
}

TEST_CASE("A steady step proven with a short launch queue is that of the real queue", "[engine][property]") {
  // Plain simulation of the real queue, far enough that it is full if it ever will be.
  int compared = 0;
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    INFO("seed " << seed);
    RandomProgram random = random_program(seed, {.copies = false, .threads_max = 1, .instructions_max = 12});
    random.machine.launch_queue_depth = 100;
    const Steady steady = run_steady(random.program, random.machine);
    if (!steady.exact) continue;
    const std::int64_t early = 600 - 600 % steady.period.steps;
    const std::int64_t late = early + 60 * steady.period.steps;
    const Run first = gpusim::engine::run(random.program, random.machine, early);
    const Run second = gpusim::engine::run(random.program, random.machine, late);
    const Totals difference = second.totals - first.totals;
    // A drift so slow that the queue is not full after 600 steps is not yet in its steady state.
    if (first.queue_length_max < random.machine.launch_queue_depth &&
        first.totals.host_blocked_queue.count() == 0 && steady.period.host_blocked_queue.count() > 0)
      continue;
    ++compared;
    REQUIRE(difference.wall == 60 * steady.period.wall);
    REQUIRE(difference.busy == 60 * steady.period.busy);
    for (std::size_t cause = 0; cause < difference.idle.size(); ++cause)
      REQUIRE(difference.idle[cause] == 60 * steady.period.idle[cause]);
    REQUIRE(difference.host_blocked_queue == 60 * steady.period.host_blocked_queue);
  }
  CHECK(compared > 400);
}
