// SPDX-License-Identifier: Apache-2.0
// Quantities: a number that knows its unit. Time is std::chrono, everything else one small template.
//
// Raw numbers enter by an explicit constructor or a literal (64_KiB) and leave by .value(), rarely: at
// printing and in the few named conversions below. Conversions across units round once.
#pragma once

#include <chrono>
#include <cmath>
#include <compare>
#include <cstdint>

namespace gpusim {

/// Simulated time. A signed 64-bit count of picoseconds lasts 106 days.
using Picoseconds = std::chrono::duration<std::int64_t, std::pico>;

template <class Tag, class Rep>
class Quantity {
 public:
  using rep = Rep;
  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity operator-() const { return Quantity(-value_); }
  constexpr Quantity& operator+=(Quantity other) {
    value_ += other.value_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value_ -= other.value_;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.value_ + b.value_); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.value_ - b.value_); }
  friend constexpr Quantity operator*(Quantity a, Rep k) { return Quantity(a.value_ * k); }
  friend constexpr Quantity operator*(Rep k, Quantity a) { return Quantity(k * a.value_); }
  friend constexpr double operator/(Quantity a, Quantity b) {
    return static_cast<double>(a.value_) / static_cast<double>(b.value_);
  }

 private:
  Rep value_{};
};

using Bytes = Quantity<struct BytesTag, std::int64_t>;
using Flops = Quantity<struct FlopsTag, double>;  ///< A number of floating-point operations.
using BytesPerSecond = Quantity<struct BytesPerSecondTag, double>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag, double>;
using Hertz = Quantity<struct HertzTag, double>;
using Watts = Quantity<struct WattsTag, double>;
using JoulesPerFlop = Quantity<struct JoulesPerFlopTag, double>;
using JoulesPerByte = Quantity<struct JoulesPerByteTag, double>;
using Ratio = Quantity<struct RatioTag, double>;  ///< A share or a tolerance; "5 %" is 0.05.

/// Nearest picosecond to `seconds`; the only place where floating-point time becomes simulated time.
inline Picoseconds from_seconds(double seconds) {
  return Picoseconds(static_cast<std::int64_t>(std::llround(seconds * 1e12)));
}
inline double seconds(Picoseconds t) {
  return static_cast<double>(t.count()) * 1e-12;
}
inline double microseconds(Picoseconds t) {
  return static_cast<double>(t.count()) * 1e-6;
}

/// Time to move `bytes` at `rate`, rounded once. Convert totals: rounded pieces do not add up.
inline Picoseconds transfer_time(Bytes bytes, BytesPerSecond rate) {
  return from_seconds(static_cast<double>(bytes.value()) / rate.value());
}
inline Picoseconds compute_time(Flops flops, FlopsPerSecond rate) {
  return from_seconds(flops.value() / rate.value());
}

namespace literals {
constexpr Bytes operator""_B(unsigned long long n) {
  return Bytes(static_cast<std::int64_t>(n));
}
constexpr Bytes operator""_KiB(unsigned long long n) {
  return Bytes(static_cast<std::int64_t>(n) << 10);
}
constexpr Bytes operator""_MiB(unsigned long long n) {
  return Bytes(static_cast<std::int64_t>(n) << 20);
}
constexpr Bytes operator""_GiB(unsigned long long n) {
  return Bytes(static_cast<std::int64_t>(n) << 30);
}
constexpr Picoseconds operator""_ps(unsigned long long n) {
  return Picoseconds(static_cast<std::int64_t>(n));
}
constexpr Picoseconds operator""_ns(unsigned long long n) {
  return Picoseconds(static_cast<std::int64_t>(n) * 1'000);
}
constexpr Picoseconds operator""_us(unsigned long long n) {
  return Picoseconds(static_cast<std::int64_t>(n) * 1'000'000);
}
constexpr Picoseconds operator""_ms(unsigned long long n) {
  return Picoseconds(static_cast<std::int64_t>(n) * 1'000'000'000);
}
}  // namespace literals

}  // namespace gpusim
