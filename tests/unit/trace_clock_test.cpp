// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/clock.hpp"

#include <string>

#include "tests/support/catch.hpp"

using namespace gpusim;

namespace {

/// Microseconds and picoseconds, or "none".
std::string shown(std::optional<TraceClock> clock) {
  if (!clock) return "none";
  return std::to_string(clock->microseconds) + " us " + std::to_string(clock->picoseconds) + " ps";
}

}  // namespace

TEST_CASE("a time keeps digits that a double would lose") {
  CHECK(shown(clock_from_number("1712195495505583.011")) == "1712195495505583 us 11000 ps");
  CHECK(shown(clock_from_number("1712195495505583.011001")) == "1712195495505583 us 11001 ps");
  CHECK(shown(clock_from_number("999999999999999999.999999")) == "999999999999999999 us 999999 ps");
}

TEST_CASE("a time may be whole, short, zero or negative") {
  CHECK(shown(clock_from_number("1695835543008415")) == "1695835543008415 us 0 ps");
  CHECK(shown(clock_from_number("0")) == "0 us 0 ps");
  CHECK(shown(clock_from_number("0.5")) == "0 us 500000 ps");
  CHECK(shown(clock_from_number("-0.25")) == "-1 us 750000 ps");
  CHECK(shown(clock_from_number("-3")) == "-3 us 0 ps");
}

TEST_CASE("an exponent moves the point exactly") {
  CHECK(shown(clock_from_number("1.5e3")) == "1500 us 0 ps");
  CHECK(shown(clock_from_number("1.712195495505583011E15")) == "1712195495505583 us 11000 ps");
  CHECK(shown(clock_from_number("25e-1")) == "2 us 500000 ps");
  CHECK(shown(clock_from_number("1e-6")) == "0 us 1 ps");
  CHECK(shown(clock_from_number("0e999999999999")) == "0 us 0 ps");
  CHECK(shown(clock_from_number("7e-999999999999")) == "0 us 0 ps");
}

TEST_CASE("what lies below a picosecond is rounded half to even") {
  CHECK(shown(clock_from_number("0.0000005")) == "0 us 0 ps");
  CHECK(shown(clock_from_number("0.0000015")) == "0 us 2 ps");
  CHECK(shown(clock_from_number("0.0000025")) == "0 us 2 ps");
  CHECK(shown(clock_from_number("0.00000250000001")) == "0 us 3 ps");
  CHECK(shown(clock_from_number("0.0000024999999")) == "0 us 2 ps");
  CHECK(shown(clock_from_number("4.9999995")) == "5 us 0 ps");
  CHECK(shown(clock_from_number("-0.0000015")) == "-1 us 999998 ps");
}

TEST_CASE("a time beyond the range of the clock is none") {
  CHECK(shown(clock_from_number("1000000000000000000")) == "none");
  CHECK(shown(clock_from_number("1e400")) == "none");
  CHECK(shown(clock_from_number("12345678901234567890123")) == "none");
}

TEST_CASE("text may carry a unit") {
  CHECK(shown(clock_from_text("1000ns")) == "1 us 0 ps");
  CHECK(shown(clock_from_text("2.25")) == "2 us 250000 ps");
  CHECK(shown(clock_from_text(" 1 ms ")) == "1000 us 0 ps");
  CHECK(shown(clock_from_text("0.001ms")) == "1 us 0 ps");
  CHECK(shown(clock_from_text("1.5s")) == "1500000 us 0 ps");
  CHECK(shown(clock_from_text("1234567ps")) == "1 us 234567 ps");
  CHECK(shown(clock_from_text("+.5us")) == "0 us 500000 ps");
  CHECK(shown(clock_from_text("5.\xc2\xb5s")) == "5 us 0 ps");
  CHECK(shown(clock_from_text("5\xce\xbcs")) == "5 us 0 ps");
  CHECK(shown(clock_from_text("2.5ps")) == "0 us 2 ps");
}

TEST_CASE("text that is no time is none") {
  for (const char* text : {"soon", "", " ", ".", "-", "1 minute", "1e", "1us2", "NaN", "0x10", "1,5"}) {
    INFO(text);
    CHECK(shown(clock_from_text(text)) == "none");
  }
}

TEST_CASE("a difference of clocks is exact up to 53 days") {
  const TraceClock late{1712195495505587, 940'000};
  const TraceClock early{1712195495505583, 11'000};
  CHECK(clock_difference(late, early) == Picoseconds(4'929'000));
  CHECK(clock_difference(early, late) == Picoseconds(-4'929'000));
  CHECK(clock_difference({4'000'000'000'000, 0}, {0, 0}) == Picoseconds(4'000'000'000'000'000'000));
  CHECK_FALSE(clock_difference({5'000'000'000'000, 0}, {0, 0}).has_value());
  CHECK_FALSE(clock_difference({0, 0}, {1'712'195'495'505'583, 0}).has_value());
}
