// SPDX-License-Identifier: Apache-2.0
#include "models/units/quantity.hpp"

#include "tests/support/catch.hpp"

namespace gpusim {
namespace {

template <class A, class B>
concept Addable = requires(A a, B b) {
  a + b;
};
template <class A, class B>
concept Comparable = requires(A a, B b) {
  a < b;
};

// Quantities of different units do not mix, and no bare number slips in.
static_assert(Addable<Bytes, Bytes>);
static_assert(!Addable<Bytes, Flops>);
static_assert(!Addable<Bytes, std::int64_t>);
static_assert(!Comparable<BytesPerSecond, FlopsPerSecond>);
static_assert(!std::is_convertible_v<double, Ratio>);
static_assert(!std::is_convertible_v<Bytes, std::int64_t>);

using namespace literals;

TEST_CASE("A transfer time is rounded once, to the nearest picosecond", "[unit][units]") {
  // 32 B / 4.8 TB/s = 6.67 ps; 64 KiB / 4.8 TB/s = 13653.33 ps.
  CHECK(transfer_time(32_B, BytesPerSecond(4.8e12)) == 7_ps);
  CHECK(transfer_time(64_KiB, BytesPerSecond(4.8e12)) == 13653_ps);
  CHECK(transfer_time(0_B, BytesPerSecond(4.8e12)) == 0_ps);
}

TEST_CASE("The time of work is its FLOPs over the rate", "[unit][units]") {
  // 2 * 4096^3 / 989.4 TFLOP/s = 138.911414... us
  CHECK(compute_time(Flops(2.0 * 4096 * 4096 * 4096), FlopsPerSecond(989.4e12)) == 138911414_ps);
}

TEST_CASE("Seconds become picoseconds to the nearest, in both directions of zero", "[unit][units]") {
  CHECK(from_seconds(1e-6) == 1_us);
  CHECK(from_seconds(1.4e-12) == 1_ps);
  CHECK(from_seconds(1.6e-12) == 2_ps);
  CHECK(from_seconds(-1.6e-12) == -2_ps);
  CHECK(microseconds(1500_ns) == 1.5);
  CHECK(seconds(2_ms) == test::Approx(0.002));
}

TEST_CASE("Dividing two quantities of one unit gives a bare number", "[unit][units]") {
  CHECK(3_MiB / 2_MiB == 1.5);
  CHECK(2_KiB + 1_KiB == 3_KiB);
  CHECK(3 * 1_KiB == 3_KiB);
  CHECK(-(1_KiB) < 0_B);
}

}  // namespace
}  // namespace gpusim
