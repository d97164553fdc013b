// SPDX-License-Identifier: Apache-2.0
// Host threads that take turns, and steps that repeat: the fast path and the event loop are two programs for
// one semantics.
#include <random>

#include "sim/engine/engine.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/engine_compare.hpp"
#include "tests/support/program_builder.hpp"
#include "tests/support/random_program.hpp"

namespace {

using namespace gpusim::engine;
using gpusim::test::difference;
using gpusim::test::ProgramBuilder;
using gpusim::test::random_program;
using gpusim::test::RandomProgram;
using gpusim::test::RandomProgramOptions;
using gpusim::test::us;

/// The one thread of a random program cut into pieces that `threads` threads run in turn: each signals to the
/// next one and awaits its own turn.
RandomProgram in_turns(std::uint64_t seed, const RandomProgramOptions& options, std::size_t threads) {
  RandomProgram random = random_program(seed, options);
  std::mt19937_64 generator(seed);
  Program& p = random.program;
  const auto whole = p.threads.front().instructions;
  const auto first_signal = static_cast<Index>(p.signals.size());
  for (std::size_t t = 0; t < threads; ++t) p.signals.push_back("turn of " + std::to_string(t));
  p.threads.assign(threads, {"t", {}, {}});
  std::size_t turn = 0;
  const auto pass_on = [&] {
    const auto call = [&](Call what, std::size_t of, std::int64_t duration) {
      p.threads[turn].instructions.push_back({.call = what,
                                              .object = first_signal + static_cast<Index>(of),
                                              .duration = gpusim::Picoseconds(duration)});
    };
    const std::size_t next = (turn + 1) % threads;
    call(Call::Signal, next, static_cast<std::int64_t>(generator() % 2 * 700'000));
    // The first thread begins, the others wait for their turn at the begin of each round.
    if (turn == 0) call(Call::Await, 0, static_cast<std::int64_t>(generator() % 2 * 300'000));
    turn = next;
    if (turn != 0) call(Call::Await, turn, static_cast<std::int64_t>(generator() % 2 * 500'000));
  };
  for (std::size_t i = 0; i < whole.size(); ++i) {
    p.threads[turn].instructions.push_back(whole[i]);
    if (!whole[i].attached && generator() % 4 == 0) pass_on();
  }
  do pass_on();
  while (turn != 0);
  return random;
}

/// Sums over a period as they are over `steps` times as many steps.
Totals over(const Totals& period, std::int64_t steps) {
  return add(Totals{}, period, steps);
}

}  // namespace

TEST_CASE("Threads that take turns give the same bytes by the fast path and by the event loop",
          "[engine][one_pass]") {
  std::uint64_t fast = 0;
  constexpr std::uint64_t count = 20'000;
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    const RandomProgramOptions options{
        .copies = seed % 3 == 0, .threads_max = 1, .streams_max = seed % 2 == 0 ? 1 : 3};
    const RandomProgram random = in_turns(seed, options, 2 + seed % 5 / 4);
    if (const char* what = difference(random, static_cast<std::int64_t>(1 + seed % 3)))
      FAIL("seed " << seed << ": " << what << " differ");
    if (takes_fast_path(random.program, random.machine)) ++fast;
  }
  CHECK(fast > count * 3 / 4);
}

TEST_CASE("Threads whose work goes on beside each other are left to the event loop", "[engine][one_pass]") {
  // Thread 0 signals and launches on; thread 1 launches, too.
  ProgramBuilder b(2);
  const Index k = b.op("k", us(3));
  const Index go = b.signal("go");
  b.signal_to(go);
  b.launch(k, us(1));
  b.thread = 1;
  b.await(go);
  b.launch(k, us(1));
  CHECK_FALSE(takes_fast_path(b.program, Machine{}));
  CHECK(difference({b.program, Machine{}}, 3) == nullptr);
}

TEST_CASE("A thread that runs far ahead of the others is left to the event loop", "[engine][one_pass]") {
  // Thread 1 is signalled ten times in a step of thread 0, and takes a step of its own each time.
  ProgramBuilder b(2);
  const Index k = b.op("k", us(3));
  const Index go = b.signal("go");
  const Index back = b.signal("back");
  for (int i = 0; i < 10; ++i) {
    b.thread = 0;
    b.signal_to(go);
    b.await(back);
  }
  b.thread = 1;
  b.await(go);
  b.launch(k, us(1));
  b.signal_to(back);
  const auto outcome = [&](const auto& run) {
    try {
      return run(b.program, Machine{}, std::int64_t{20}, nullptr).totals.wall;
    } catch (const DeadlockError&) {
      return gpusim::Picoseconds(-1);
    }
  };
  CHECK(outcome(run) == outcome(run_event_by_event));
}

TEST_CASE("The step that repeats is the same by the fast path and by the event loop", "[engine][one_pass]") {
  int exact = 0;
  for (std::uint64_t seed = 1; seed <= 3'000; ++seed) {
    const RandomProgramOptions options{.copies = seed % 4 == 0, .threads_max = 1, .streams_max = 1};
    RandomProgram random = seed % 2 == 0 ? in_turns(seed, options, 2) : random_program(seed, options);
    // Memory that is taken and given back is not for the fast path to follow.
    if (seed % 8 != 0) {
      for (HostThread& thread : random.program.threads)
        for (Instruction& in : thread.instructions)
          if (in.call == Call::Allocate || in.call == Call::Free) in.call = Call::Work;
      random.program.sizes.clear();
    }
    const SteadyOptions limits{.steps_max = 400, .instructions_max = 20'000};
    const Steady a = run_steady(random.program, random.machine, limits);
    const Steady b = run_steady_event_by_event(random.program, random.machine, limits);
    INFO("seed " << seed);
    if (!a.exact || !b.exact) continue;
    ++exact;
    if (!(over(a.period, b.period.steps) == over(b.period, a.period.steps))) FAIL("periods differ");
    // Plain simulation agrees: what so many more steps add.
    const std::int64_t before = a.warmup_steps + b.warmup_steps + 20;
    const auto wall = [&](std::int64_t steps) {
      return run_event_by_event(random.program, random.machine, steps).totals.wall;
    };
    if (seed % 10 == 0 && wall(before + a.period.steps) - wall(before) != a.period.wall)
      FAIL("not the period of the plain simulation");
  }
  CHECK(exact > 2'500);
}

TEST_CASE("A steady step of threads in turn that is proven with a short queue is that of the real queue",
          "[engine][one_pass]") {
  // The event loop fills the real queue, step by step.
  int compared = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    RandomProgram random = in_turns(
        seed, {.copies = false, .threads_max = 1, .streams_max = 1, .instructions_max = 12}, 2 + seed % 2);
    // Nothing but a full queue holds the host up in most of them.
    if (seed % 4 != 0)
      for (HostThread& thread : random.program.threads)
        for (Instruction& in : thread.instructions) {
          const bool synchronizes = in.call == Call::SynchronizeStream ||
                                    in.call == Call::SynchronizeDevice || in.call == Call::SynchronizeEvent;
          if (synchronizes || in.call == Call::Allocate || in.call == Call::Free) in.call = Call::Work;
          in.blocking = false;
        }
    if (seed % 4 != 0) random.program.sizes.clear();
    random.machine.launch_queue_depth = static_cast<std::int32_t>(60 + seed % 37);
    const SteadyOptions limits{.steps_max = 4'000, .instructions_max = 200'000};
    const Steady a = run_steady(random.program, random.machine, limits);
    const Steady b = run_steady_event_by_event(random.program, random.machine, limits);
    INFO("seed " << seed);
    if (!a.exact || !b.exact) continue;
    ++compared;
    REQUIRE(over(a.period, b.period.steps) == over(b.period, a.period.steps));
  }
  CHECK(compared > 350);
}
