// SPDX-License-Identifier: Apache-2.0
// Every cause of idle time alone, and next to every other.
#include "sim/engine/engine.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/program_builder.hpp"

namespace {

using namespace gpusim::engine;
using gpusim::Picoseconds;
using gpusim::test::ProgramBuilder;
using gpusim::test::us;

constexpr std::array<IdleCause, idle_cause_count> causes = {
    IdleCause::Event, IdleCause::Synchronization, IdleCause::LaunchLatency,
    IdleCause::Gap,   IdleCause::Dispatch,        IdleCause::Input};

/// Kernels of 20 us one after the other, with idle time of chosen causes between them. The host is always 5
/// us ahead of the end of the kernel that runs.
class Chain {
 public:
  Chain() : builder_(1, 2) {
    done_ = builder_.event("done");
    builder_.launch(builder_.op("first", kernel), us(0), us(0), 0);
    builder_.work(kernel - ahead);
  }

  void idle(IdleCause cause, Picoseconds amount) {
    const Index op = builder_.op("k", kernel);
    switch (cause) {
      case IdleCause::Event:  // The other stream's kernel waits for this one's; `amount` is the event
                              // latency.
        machine.event_latency = amount;
        builder_.record(done_, stream_);
        stream_ = static_cast<std::uint16_t>(1 - stream_);
        builder_.wait(done_, stream_, true);
        builder_.launch(op, us(0), us(0), stream_);
        builder_.work(ahead + amount + kernel - ahead);
        break;
      case IdleCause::Synchronization:  // Returns late.
        builder_.synchronize_stream(stream_).return_latency = amount;
        builder_.launch(op, us(0), us(0), stream_);
        builder_.work(kernel - ahead);
        break;
      case IdleCause::LaunchLatency:
        builder_.work(ahead);
        builder_.launch(op, us(0), amount, stream_);
        builder_.work(amount + kernel - ahead);
        break;
      case IdleCause::Gap:
        builder_.program.ops[op].gap_before = amount;
        builder_.launch(op, us(0), us(0), stream_);
        builder_.work(ahead + amount + kernel - ahead);
        break;
      case IdleCause::Dispatch:
        builder_.work(ahead + amount);
        builder_.launch(op, us(0), us(0), stream_);
        builder_.work(kernel - ahead);
        break;
      case IdleCause::Input:
        builder_.work(ahead);
        builder_.input(amount);
        builder_.launch(op, us(0), us(0), stream_);
        builder_.work(kernel - ahead);
        break;
    }
    expected[static_cast<std::size_t>(cause)] += amount;
    ++kernels;
  }

  void check() const {
    for (const bool fast : {true, false}) {
      INFO((fast ? "fast path" : "event loop"));
      const Run run = fast ? gpusim::engine::run(builder_.program, machine)
                           : run_event_by_event(builder_.program, machine);
      for (const IdleCause cause : causes) {
        INFO(name(cause));
        CHECK(run.totals.idle[static_cast<std::size_t>(cause)] == expected[static_cast<std::size_t>(cause)]);
      }
      CHECK(run.totals.busy == kernels * kernel);
      CHECK(run.window.idle == run.totals.idle);
    }
    CHECK(takes_fast_path(builder_.program, machine));
  }

  Machine machine;
  std::array<Picoseconds, idle_cause_count> expected{};
  std::int64_t kernels = 1;

 private:
  static constexpr Picoseconds kernel{20'000'000};
  static constexpr Picoseconds ahead{5'000'000};
  ProgramBuilder builder_;
  Index done_ = no_index;
  std::uint16_t stream_ = 0;
};

constexpr Picoseconds first_amount{1'234'567};
constexpr Picoseconds second_amount{3'000'001};

}  // namespace

TEST_CASE("Each cause of idle time is found alone", "[engine][idle]") {
  for (const IdleCause cause : causes) {
    INFO(name(cause));
    Chain chain;
    chain.idle(cause, first_amount);
    chain.check();
  }
}

TEST_CASE("Each cause of idle time is told from each other that comes before or after it", "[engine][idle]") {
  for (const IdleCause first : causes)
    for (const IdleCause second : causes) {
      INFO(name(first) << " then " << name(second));
      // There is one event latency for all.
      const bool both_events = first == IdleCause::Event && second == IdleCause::Event;
      Chain chain;
      chain.idle(first, first_amount);
      chain.idle(second, both_events ? first_amount : second_amount);
      chain.check();
    }
}

TEST_CASE("All causes of idle time in one program, three times over, are told apart", "[engine][idle]") {
  Chain chain;
  for (int round = 0; round < 3; ++round)
    for (const IdleCause cause : causes)
      chain.idle(cause, cause == IdleCause::Event ? second_amount : first_amount * (1 + round));
  chain.check();
}
