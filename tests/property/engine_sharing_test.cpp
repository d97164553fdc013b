// SPDX-License-Identifier: Apache-2.0
// Random kernels that arrive at random times at a shared device: what must hold whatever they are.
#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/sharing_run.hpp"

using namespace gpusim;
using engine::Footprint;
using engine::SharedDevice;
using engine::SharingMachine;
using test::Arrival;
using test::Stay;
using Change = SharedDevice::Change;

namespace {

/// A generator whose numbers are the same everywhere.
class Numbers {
 public:
  explicit Numbers(std::uint32_t seed) : engine_(seed) {}
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(most - least + 1));
  }
  bool one_in(std::int64_t n) { return between(1, n) == 1; }
  double share() { return static_cast<double>(between(0, 1000)) / 1000; }

 private:
  std::mt19937_64 engine_;
};

Footprint random_footprint(Numbers& numbers, double alone_ps) {
  Footprint f;
  const std::int64_t most[] = {4, 132, 2000, 100'000, 10'000'000};
  f.blocks = numbers.between(1, most[numbers.between(0, 4)]);
  f.threads_per_block = static_cast<std::int32_t>(32 * numbers.between(1, 32));
  f.registers_per_thread = static_cast<std::int32_t>(8 * numbers.between(1, 32));
  if (numbers.one_in(3)) f.shared_memory_per_block = numbers.between(1, 240'000);
  if (numbers.one_in(2)) f.bytes = static_cast<std::int64_t>(alone_ps * 5 * numbers.share());  // up to 5 TB/s
  if (numbers.one_in(2)) f.arithmetic = numbers.share();
  if (numbers.one_in(4)) f.arithmetic = 1;
  f.memory_hidden = numbers.one_in(5);
  return f;
}

std::vector<Arrival> random_arrivals(Numbers& numbers) {
  std::vector<Arrival> arrivals;
  Picoseconds at{0};
  const std::int64_t count = numbers.between(1, 8);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t longest[] = {0, 1, 1000, 1'000'000, 1'000'000'000};
    const Picoseconds alone(numbers.between(0, longest[numbers.between(numbers.one_in(10) ? 0 : 3, 4)]));
    arrivals.push_back({random_footprint(numbers, static_cast<double>(alone.count())), alone, at});
    if (!numbers.one_in(4)) at += Picoseconds(numbers.between(0, std::max<std::int64_t>(1, alone.count())));
  }
  return arrivals;
}

SharingMachine random_machine(Numbers& numbers) {
  SharingMachine machine = test::h200();
  if (numbers.one_in(3)) machine.sms = static_cast<std::int32_t>(numbers.between(1, 8));
  if (numbers.one_in(4)) machine.bandwidth_per_sm = 0;
  if (numbers.one_in(8)) machine.bandwidth_top = 0;
  return machine;
}

struct Told {
  Picoseconds when;
  Change change;

  friend bool operator==(const Told&, const Told&) = default;
};

/// Runs them, goes on to `steps` random moments before each change, and keeps all that was told.
std::vector<Told> told(const SharingMachine& machine, const std::vector<Arrival>& arrivals, Numbers* steps) {
  SharedDevice device(machine);
  std::vector<Told> all;
  std::vector<Change> changes;
  Picoseconds now{0};
  std::size_t next = 0;
  int calls = 0;
  while (next < arrivals.size() || !device.idle()) {
    REQUIRE(++calls < 100'000);
    const bool arrives = next < arrivals.size() && arrivals[next].at <= device.next_change();
    const Picoseconds then = arrives ? arrivals[next].at : device.next_change();
    REQUIRE(then >= now);
    if (steps != nullptr && then > now) {
      for (std::int64_t i = steps->between(0, 3); i > 0 && then - now > Picoseconds(1); --i) {
        now += Picoseconds(steps->between(0, (then - now).count() - 1));
        changes.clear();
        device.advance(now, changes);
        CHECK(changes.empty());
      }
    }
    now = then;
    changes.clear();
    if (arrives) {
      device.submit(static_cast<std::uint32_t>(next), arrivals[next].footprint, arrivals[next].alone, now,
                    changes);
      ++next;
    } else {
      device.advance(now, changes);
    }
    for (const Change& change : changes) all.push_back({now, change});
  }
  return all;
}

std::vector<Stay> stays_of(const std::vector<Told>& all, std::size_t count) {
  std::vector<Stay> stays(count);
  for (const Told& t : all) test::note({t.change}, t.when, stays);
  return stays;
}

}  // namespace

TEST_CASE("Every kernel starts once and ends once, in order, and no sooner than it would alone",
          "[sharing]") {
  for (std::uint32_t seed = 0; seed < 3000; ++seed) {
    INFO("seed " << seed);
    Numbers numbers(seed);
    const SharingMachine machine = random_machine(numbers);
    const std::vector<Arrival> arrivals = random_arrivals(numbers);
    const std::vector<Stay> stays = stays_of(told(machine, arrivals, nullptr), arrivals.size());
    Picoseconds total{0};
    Picoseconds last_start{0};
    for (std::size_t i = 0; i < stays.size(); ++i) {
      INFO("kernel " << i);
      REQUIRE(stays[i].start >= arrivals[i].at);
      REQUIRE(stays[i].start >= last_start);  // first come, first served
      last_start = stays[i].start;
      // Not sooner than alone, but for the rounding of what is left of a block.
      REQUIRE(stays[i].end - stays[i].start + Picoseconds(1000) >= arrivals[i].alone);
      total += arrivals[i].alone;
    }
    if (stays.size() == 1) CHECK(stays[0].end == arrivals[0].at + arrivals[0].alone);
  }
}

TEST_CASE("The same kernels give the same changes, also when the clock stops between them", "[sharing]") {
  for (std::uint32_t seed = 0; seed < 1000; ++seed) {
    INFO("seed " << seed);
    Numbers numbers(seed);
    const SharingMachine machine = random_machine(numbers);
    const std::vector<Arrival> arrivals = random_arrivals(numbers);
    const std::vector<Told> once = told(machine, arrivals, nullptr);
    CHECK((once == told(machine, arrivals, nullptr)));
    CHECK((once == told(machine, arrivals, &numbers)));
  }
}

TEST_CASE("A device that has been used behaves as a new one, later by the same time", "[sharing]") {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    INFO("seed " << seed);
    Numbers numbers(seed);
    const SharingMachine machine = random_machine(numbers);
    const std::vector<Arrival> before = random_arrivals(numbers);
    const std::vector<Arrival> arrivals = random_arrivals(numbers);
    SharedDevice fresh(machine), used(machine);
    test::run_shared(used, before);
    CHECK((test::run_shared(fresh, arrivals) ==
           test::run_shared(used, arrivals, Picoseconds(1'000'000'000'000))));
  }
}

TEST_CASE("A kernel alone takes what it takes alone even when its SMs are followed", "[sharing]") {
  // The second needs nothing but comes in the middle, so that the first's state is derived; its end stays the
  // same.
  for (std::uint32_t seed = 0; seed < 2000; ++seed) {
    INFO("seed " << seed);
    Numbers numbers(seed);
    const Picoseconds alone(numbers.between(2, 1'000'000'000));
    const Footprint footprint = random_footprint(numbers, static_cast<double>(alone.count()));
    const Picoseconds at(numbers.between(0, alone.count() - 1));
    SharedDevice device(random_machine(numbers));
    const std::vector<Stay> stays =
        test::run_shared(device, {{footprint, alone, Picoseconds(0)}, {Footprint(), Picoseconds(0), at}});
    CHECK(stays[0].end >= alone - Picoseconds(1000));
    CHECK(stays[0].end <= alone + Picoseconds(1000));
  }
}
