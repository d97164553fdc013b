// SPDX-License-Identifier: Apache-2.0
// Kernels that share a GPU, with arithmetic that can be followed by hand. Random kernels:
// property/engine_sharing_test.
#include <cmath>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/sharing_run.hpp"

using namespace gpusim;
using engine::Footprint;
using engine::SharedDevice;
using engine::SharingMachine;
using test::Arrival;
using test::run_shared;
using test::Stay;
using Change = SharedDevice::Change;
using Kind = SharedDevice::Change::Kind;

namespace {

constexpr Picoseconds us{1'000'000};

/// 4 SMs of 2048 threads, for two blocks of 1024 each; memory is free.
SharingMachine small() {
  SharingMachine machine;
  machine.sms = 4;
  return machine;
}

/// The memory gives 1 byte per ps to a kernel that asks for 3: the cap is 1 / sqrt(1 - 1/9) bytes per ps.
SharingMachine small_with_memory() {
  SharingMachine machine = small();
  machine.bandwidth_top = 1e12;
  return machine;
}

Footprint blocks(std::int64_t count, std::int32_t threads = 1024) {
  Footprint f;
  f.blocks = count;
  f.threads_per_block = threads;
  f.registers_per_thread = 16;
  return f;
}

Footprint computing(std::int64_t count, double share = 1, std::int32_t threads = 1024) {
  Footprint f = blocks(count, threads);
  f.arithmetic = share;
  return f;
}

Footprint moving(std::int64_t count, double bytes, std::int32_t threads = 1024) {
  Footprint f = blocks(count, threads);
  f.bytes = std::llround(bytes);
  return f;
}

std::vector<Stay> run(const SharingMachine& machine, const std::vector<Arrival>& arrivals) {
  SharedDevice device(machine);
  return run_shared(device, arrivals);
}

/// To a picosecond for every event on the way.
bool near(Picoseconds a, Picoseconds b) {
  return a - b < Picoseconds(10) && b - a < Picoseconds(10);
}

/// To a millionth.
bool near(Picoseconds a, double microseconds) {
  return std::abs(static_cast<double>(a.count()) - microseconds * 1e6) < microseconds;
}

}  // namespace

TEST_CASE("A kernel alone starts at once and takes exactly what it takes alone", "[sharing]") {
  const Footprint footprint =
      GENERATE(blocks(1), blocks(1000), computing(7), computing(100000), moving(4, 5e7));
  const Picoseconds alone{123'456'789};
  SharedDevice device(small_with_memory());
  CHECK(device.idle());
  CHECK(device.next_change() == Picoseconds::max());
  std::vector<Change> changes;
  device.submit(7, footprint, alone, us, changes);
  CHECK(changes == std::vector<Change>{{Kind::Started, 7}});
  CHECK_FALSE(device.idle());
  CHECK(device.next_change() == us + alone);
  CHECK(device.predicted_end(7) == us + alone);
  changes.clear();
  device.advance(2 * us, changes);
  CHECK(changes.empty());
  device.advance(us + alone, changes);
  CHECK(changes == std::vector<Change>{{Kind::Ended, 7}});
  CHECK(device.idle());
  CHECK(device.next_change() == Picoseconds::max());
}

TEST_CASE("A kernel of no duration ends at once, alone or beside others", "[sharing]") {
  const Picoseconds none{0};
  CHECK(run(small(), {{blocks(1), none, us}}) == std::vector<Stay>{{us, us}});
  CHECK(run(small(), {{blocks(4), 10 * us, none}, {blocks(4), none, us}, {blocks(4), none, us}}) ==
        std::vector<Stay>{{none, 10 * us}, {us, us}, {us, us}});
  // It waits for its turn like any other.
  CHECK(run(small(), {{blocks(8), 10 * us, none}, {blocks(8), us, us}, {blocks(8), none, us}}) ==
        std::vector<Stay>{{none, 10 * us}, {10 * us, 11 * us}, {10 * us, 10 * us}});
}

TEST_CASE("Without SMs kernels overlap freely", "[sharing]") {
  CHECK(run(SharingMachine(), {{computing(1000), 10 * us, Picoseconds(0)},
                               {computing(1000), 3 * us, us},
                               {computing(1000), 9 * us, us}}) ==
        std::vector<Stay>{{Picoseconds(0), 10 * us}, {us, 4 * us}, {us, 10 * us}});
}

TEST_CASE("Two kernels that fit and need neither arithmetic nor memory do not slow each other down",
          "[sharing]") {
  const std::vector<Stay> stays =
      run(small(), {{blocks(4), 100 * us, Picoseconds(0)}, {blocks(4), 100 * us, 30 * us}});
  CHECK(stays[0] == Stay{Picoseconds(0), 100 * us});
  CHECK(stays[1].start == 30 * us);
  CHECK(near(stays[1].end, 130 * us));
}

TEST_CASE("Two kernels share the memory in proportion to what they ask for", "[sharing]") {
  // Alone a draws 1 byte per ps: it asks for 3. b, on the same SMs, asks for 1 and draws 1 / sqrt(1 +
  // 1/cap^2), with cap^2 = 9/8. Together they ask for 4 and get 4 / sqrt(1 + 16/cap^2), a three quarters of
  // it.
  const double b_alone = 1 / std::sqrt(1 + 8.0 / 9);
  const double together = 4 / std::sqrt(1 + 16 * 8.0 / 9);
  const double a_end = 1000 / (0.75 * together);
  const double b_end = a_end + (2000 * b_alone - a_end * 0.25 * together) / b_alone;
  const std::vector<Stay> stays = run(
      small_with_memory(),
      {{moving(4, 1e9), 1000 * us, Picoseconds(0)}, {moving(4, 2e9 * b_alone), 2000 * us, Picoseconds(0)}});
  CHECK(near(stays[0].end, a_end));
  CHECK(near(stays[1].end, b_end));
}

TEST_CASE("Traffic that hides behind other work is served first and not slowed", "[sharing]") {
  Footprint hidden = moving(4, 0.5e9);
  hidden.memory_hidden = true;
  // It draws 0.5, as a demand of 0.5 / sqrt(1 - 0.25 / cap^2) would. The other adds 3 to that and gets what
  // then is given beyond the 0.5.
  const double demand = 0.5 / std::sqrt(1 - 0.25 * 8 / 9) + 3;
  const double rate = demand / std::sqrt(1 + demand * demand * 8 / 9) - 0.5;
  const std::vector<Stay> stays = run(small_with_memory(), {{hidden, 1000 * us, Picoseconds(0)},
                                                            {moving(4, 0.1e9), 100 * us, Picoseconds(0)}});
  CHECK(near(stays[0].end, 1000 * us));
  CHECK(near(stays[1].end, 100 / rate));
}

TEST_CASE("An SM asks for no more than its limit", "[sharing]") {
  SharingMachine machine = small();
  machine.bandwidth_top = 1e18;  // never the limit here
  machine.bandwidth_per_sm = 1e11;
  // Each draws 0.08 bytes per ps on each of four SMs; two of them get 0.1: five eighths.
  const Footprint copy = moving(4, 4 * 0.08 * 1e8);
  const std::vector<Stay> stays =
      run(machine, {{copy, 100 * us, Picoseconds(0)}, {copy, 100 * us, Picoseconds(0)}});
  CHECK(near(stays[0].end, 160));
  CHECK(near(stays[1].end, 160));
  // On SMs of their own they do not meet.
  const Footprint half = moving(2, 2 * 0.08 * 1e8);
  const std::vector<Stay> apart =
      run(machine, {{half, 100 * us, Picoseconds(0)}, {half, 100 * us, Picoseconds(0)}});
  CHECK(near(apart[0].end, 100));
  CHECK(near(apart[1].end, 100));
}

TEST_CASE("The head of the line makes the next kernels wait, even those that would fit", "[sharing]") {
  // 2 x 768 threads on each SM leave room for 512: too little for b, enough for c.
  const std::vector<Stay> stays = run(small(), {{blocks(8, 768), 100 * us, Picoseconds(0)},
                                                {blocks(4, 1024), 50 * us, 10 * us},
                                                {blocks(1, 128), 5 * us, 20 * us}});
  CHECK(near(stays[0].end, 100 * us));
  CHECK(stays[1].start == stays[0].end);
  CHECK(stays[2].start == stays[0].end);
  CHECK(near(stays[1].end, 150 * us));
  CHECK(near(stays[2].end, 105 * us));
}

TEST_CASE("A waiting kernel starts as blocks come free, not at the end of the one before", "[sharing]") {
  // a: two blocks on each SM, bound by arithmetic, so that the first layer ends at 50 us and the second at
  // 100. b: as many blocks; its first four come at 50 and wait for arithmetic until 100, the others come
  // then.
  const std::vector<Stay> stays =
      run(small(), {{computing(8), 100 * us, Picoseconds(0)}, {computing(8), 100 * us, 20 * us}});
  CHECK(near(stays[0].end, 100 * us));
  CHECK(near(stays[1].start, 50 * us));
  CHECK(near(stays[1].end, 200 * us));
}

TEST_CASE("The issue slots of an SM go to its oldest block", "[sharing]") {
  const Picoseconds zero{0};
  SECTION("a kernel bound by arithmetic stops the next") {
    const double share = GENERATE(1.0, 0.5);
    const auto stays =
        run(small(), {{computing(4), 100 * us, zero}, {computing(4, share), 100 * us, 10 * us}});
    CHECK(near(stays[0].end, 100 * us));
    CHECK(stays[1].start == 10 * us);
    CHECK(near(stays[1].end, 200 * us));
  }
  SECTION("the next takes what is left") {
    // Half of the slots until 100 us: half of its work is done then.
    const auto stays = run(small(), {{computing(4, 0.5), 100 * us, zero}, {computing(4), 100 * us, zero}});
    CHECK(near(stays[0].end, 100 * us));
    CHECK(near(stays[1].end, 150 * us));
  }
  SECTION("those that need little take what they need") {
    const auto stays =
        run(small(), {{computing(4, 0.3), 100 * us, zero}, {computing(4, 0.7), 100 * us, zero}});
    CHECK(near(stays[0].end, 100 * us));
    CHECK(near(stays[1].end, 100 * us));
  }
}

TEST_CASE("Only kernels on the same SMs slow each other down", "[sharing]") {
  const Picoseconds zero{0};
  // Two of four SMs each.
  const auto apart = run(small(), {{computing(2), 100 * us, zero}, {computing(2), 100 * us, zero}});
  CHECK(near(apart[1].end, 100 * us));
  // The second has a block on every SM: two of them wait.
  const auto half = run(small(), {{computing(2), 100 * us, zero}, {computing(4), 100 * us, zero}});
  CHECK(near(half[0].end, 100 * us));
  CHECK(half[1].start == zero);
  CHECK(near(half[1].end, 200 * us));
}

TEST_CASE("Blocks go where most of them fit, not where it is emptiest", "[sharing]") {
  // 40960 registers of 65536: one block of b fits on an SM, whether a block of a (16384) is there or not. So
  // both go to the fuller SMs, those of a, and wait there, though two SMs are idle.
  Footprint b = computing(2);
  b.registers_per_thread = 40;
  const auto stays = run(small(), {{computing(2), 100 * us, Picoseconds(0)}, {b, 100 * us, Picoseconds(0)}});
  CHECK(near(stays[1].end, 200 * us));
}

TEST_CASE("A block with shared memory cannot join an SM on which the first kernel set none aside",
          "[sharing]") {
  Footprint with = blocks(4);
  with.shared_memory_per_block = 100 * 1024;
  const Footprint without = blocks(4);
  const auto waits = run(small(), {{without, 100 * us, Picoseconds(0)}, {with, 50 * us, us}});
  CHECK(near(waits[1].start, 100 * us));
  const auto joins = run(small(), {{with, 100 * us, Picoseconds(0)}, {without, 50 * us, us}});
  CHECK(joins[1].start == us);
}

TEST_CASE("Late blocks fill up the SMs that come free one by one", "[sharing]") {
  // a fills all slots for 100 us. b's two blocks, bound by arithmetic, then lie on one SM and run one after
  // the other.
  const std::vector<Arrival> arrivals{{blocks(8), 100 * us, Picoseconds(0)},
                                      {computing(2), 100 * us, 10 * us}};
  const auto packed = run(small(), arrivals);
  CHECK(near(packed[1].start, 100 * us));
  CHECK(near(packed[1].end, 300 * us));
  SharingMachine machine = small();
  machine.long_block = 200 * us;  // blocks of 100 us end at once: b spreads
  const auto spread = run(machine, arrivals);
  CHECK(near(spread[1].end, 200 * us));
}

TEST_CASE("What happens at the same time comes in order: ends by start, then starts by submission",
          "[sharing]") {
  SharedDevice device(small());
  std::vector<Change> changes;
  device.submit(5, blocks(4), 100 * us, Picoseconds(0), changes);
  device.submit(9, blocks(4), 100 * us, Picoseconds(0), changes);
  device.submit(2, blocks(4), 100 * us, Picoseconds(0), changes);
  device.submit(1, blocks(4), 100 * us, Picoseconds(0), changes);
  CHECK(changes == std::vector<Change>{{Kind::Started, 5}, {Kind::Started, 9}});
  changes.clear();
  CHECK(device.next_change() == 100 * us);
  device.advance(100 * us, changes);
  CHECK(changes ==
        std::vector<Change>{{Kind::Ended, 5}, {Kind::Ended, 9}, {Kind::Started, 2}, {Kind::Started, 1}});
}

TEST_CASE("A kernel submitted at the end of another finds it gone", "[sharing]") {
  SharedDevice device(small());
  std::vector<Change> changes;
  device.submit(0, computing(8), 100 * us, Picoseconds(0), changes);
  changes.clear();
  device.submit(1, computing(8), 100 * us, 100 * us, changes);
  CHECK(changes.empty());
  CHECK(device.next_change() == 100 * us);
  device.advance(100 * us, changes);
  CHECK(changes == std::vector<Change>{{Kind::Ended, 0}, {Kind::Started, 1}});
  CHECK(device.next_change() == 200 * us);
}

TEST_CASE("A kernel that fills the device after another takes exactly what it takes alone", "[sharing]") {
  const Picoseconds odd{33'333'331};
  const auto stays = run(small(), {{blocks(8), odd, Picoseconds(0)}, {blocks(8), odd, us}});
  CHECK(stays[1].end - stays[1].start == odd);
}

TEST_CASE("A block that needs more than an SM has takes a whole one", "[sharing]") {
  Footprint huge = blocks(4, 1 << 20);
  huge.shared_memory_per_block = std::int64_t{1} << 50;
  huge.registers_per_thread = 1 << 30;
  const auto stays =
      run(small(), {{huge, 100 * us, Picoseconds(0)}, {huge, 100 * us, us}, {blocks(1), us, us}});
  CHECK(near(stays[0].end, 100 * us));
  CHECK(near(stays[1].end, 200 * us));
  CHECK(near(stays[2].end, 201 * us));
}

TEST_CASE("The predicted end of a kernel that shares follows its present rate", "[sharing]") {
  SharedDevice device(small());
  std::vector<Change> changes;
  device.submit(0, computing(4, 0.5), 100 * us, Picoseconds(0), changes);
  device.submit(1, computing(4), 100 * us, Picoseconds(0), changes);
  device.submit(2, computing(4), 100 * us, Picoseconds(0), changes);
  CHECK(device.predicted_end(0) == 100 * us);
  CHECK(device.predicted_end(1) == 200 * us);            // at half its speed
  CHECK(device.predicted_end(2) == Picoseconds::max());  // waits
  device.advance(device.next_change(), changes);
  CHECK(near(device.predicted_end(1), 150 * us));        // now alone in front
  CHECK(device.predicted_end(2) == Picoseconds::max());  // has started, and stands still
}

TEST_CASE("Staggered kernels end where the reference implementation of the rule says", "[sharing]") {
  // validation/h200/concurrency/cases.py wrote the file; that program runs the first kernel from its start
  // instead of deriving its state when the second comes.
  std::ifstream in(std::string(GPUSIM_SOURCE_DIR) + "/tests/data/sharing_cases.csv");
  std::string line;
  std::getline(in, line);
  std::vector<std::vector<Arrival>> cases;
  std::vector<std::vector<Stay>> expected;
  while (std::getline(in, line)) {
    for (char& c : line) c = c == ',' ? ' ' : c;
    std::istringstream row(line);
    std::size_t number = 0;
    double at = 0, alone = 0, start = 0, end = 0;
    int hidden = 0;
    Footprint f;
    row >> number >> at >> f.blocks >> f.threads_per_block >> f.registers_per_thread >>
        f.shared_memory_per_block >> f.bytes >> f.arithmetic >> hidden >> alone >> start >> end;
    f.memory_hidden = hidden != 0;
    const auto picoseconds = [](double micro) { return Picoseconds(std::llround(micro * 1e6)); };
    cases.resize(number + 1);
    expected.resize(number + 1);
    cases[number].push_back({f, picoseconds(alone), picoseconds(at)});
    expected[number].push_back({picoseconds(start), picoseconds(end)});
  }
  REQUIRE(cases.size() == 40);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::vector<Stay> stays = run(test::h200(), cases[i]);
    for (std::size_t k = 0; k < stays.size(); ++k) {
      INFO("case " << i << ", kernel " << k);
      const auto picoseconds = [](Picoseconds p) { return static_cast<double>(p.count()); };
      CHECK(picoseconds(stays[k].start) ==
            test::Approx(picoseconds(expected[i][k].start)).epsilon(1e-3).margin(1e3));
      CHECK(picoseconds(stays[k].end) == test::Approx(picoseconds(expected[i][k].end)).epsilon(1e-3));
    }
  }
}

TEST_CASE("A pattern that repeats repeats the state of the device to the bit", "[sharing]") {
  // Every 97 us a copy and a product; each kernel reaches into the next period, so that the device is never
  // idle.
  SharedDevice device(test::h200());
  const Footprint copy = moving(132, 1e8, 512);
  const Footprint other = moving(132, 5e7, 256);
  std::vector<Change> changes;
  std::vector<std::vector<std::int64_t>> states;
  const auto go_to = [&](Picoseconds now) {
    while (device.next_change() <= now) device.advance(device.next_change(), changes);
    device.advance(now, changes);
  };
  for (int i = 0; i < 20; ++i) {
    const Picoseconds begin = 97 * i * us;
    go_to(begin);
    states.emplace_back();
    device.append_state(begin, states.back());
    const auto name = static_cast<std::uint32_t>(2 * (i % 2));  // that of two periods ago is gone
    device.submit(name, copy, 80 * us, begin, changes);
    go_to(begin + 41 * us);
    CHECK_FALSE(device.idle());
    device.submit(name + 1, other, Picoseconds(60'123'457), begin + 41 * us, changes);
  }
  for (std::size_t i = 10; i < states.size(); ++i) CHECK((states[i] == states[i - 2]));  // it has settled
  CHECK((states[19] != states[18]));                                                     // other names
  SharedDevice fresh(test::h200());
  std::vector<std::int64_t> idle, a, b;
  fresh.append_state(us, idle);
  fresh.submit(0, copy, 80 * us, us, changes);
  fresh.append_state(2 * us, a);
  fresh.append_state(3 * us, b);
  CHECK((a != b));
  CHECK((a != idle));
}
