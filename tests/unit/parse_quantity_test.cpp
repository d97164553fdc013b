// SPDX-License-Identifier: Apache-2.0
#include <clocale>
#include <limits>
#include <string>
#include <tuple>

#include "models/units/text.hpp"
#include "tests/support/catch.hpp"

namespace gpusim {
namespace {

using namespace literals;

/// The value as a bare number in base units.
template <class Q>
auto read(std::string_view text) {
  const auto parsed = parse_quantity<Q>(text);
  INFO(text << ": " << (parsed ? "" : parsed.error().what));
  REQUIRE(parsed);
  if constexpr (requires { parsed.value().value(); }) {
    return parsed.value().value();
  } else {
    return parsed.value();
  }
}

template <class Q>
std::string complaint(std::string_view text) {
  const auto parsed = parse_quantity<Q>(text);
  return parsed ? "no error" : parsed.error().what;
}

template <class Q>
std::string advice(std::string_view text) {
  const auto parsed = parse_quantity<Q>(text);
  return parsed ? "no error" : parsed.error().hint;
}

TEST_CASE("Every unit of time is read, and both spellings of micro", "[unit][units]") {
  CHECK(read<Picoseconds>("7 ps") == 7_ps);
  CHECK(read<Picoseconds>("7 ns") == 7_ns);
  CHECK(read<Picoseconds>("7 us") == 7_us);
  CHECK(read<Picoseconds>("7 \u00b5s") == 7_us);
  CHECK(read<Picoseconds>("7 \u03bcs") == 7_us);
  CHECK(read<Picoseconds>("7 ms") == 7_ms);
  CHECK(read<Picoseconds>("7 s") == 7000_ms);
}

TEST_CASE("Numbers may have a sign, a point, an exponent, and space or none before the unit",
          "[unit][units]") {
  CHECK(read<Picoseconds>("1.5us") == 1500_ns);
  CHECK(read<Picoseconds>("  1.5   us  ") == 1500_ns);
  CHECK(read<Picoseconds>(".5 us") == 500_ns);
  CHECK(read<Picoseconds>("5. us") == 5_us);
  CHECK(read<Picoseconds>("1e3 ns") == 1_us);
  CHECK(read<Picoseconds>("1E+3 ns") == 1_us);
  CHECK(read<Picoseconds>("1500e-3us") == 1500_ns);
  CHECK(read<Picoseconds>("-2 us") == -2_us);
  CHECK(read<Picoseconds>("0 us") == 0_us);
  CHECK(read<Picoseconds>("0.000 us") == 0_us);
  CHECK(read<Picoseconds>("-0 us") == 0_us);
}

TEST_CASE("A duration is rounded once from its decimal text, halves away from zero", "[unit][units]") {
  CHECK(read<Picoseconds>("0.4999999999999999999 ps") == 0_ps);
  CHECK(read<Picoseconds>("0.5 ps") == 1_ps);
  CHECK(read<Picoseconds>("-0.5 ps") == -1_ps);
  CHECK(read<Picoseconds>("1.4999 ps") == 1_ps);
  CHECK(read<Picoseconds>("3.857 us") == 3857000_ps);
  CHECK(read<Picoseconds>("1e-400000 s") == 0_ps);
  // A double would make 9007199254740992 of it.
  CHECK(read<Picoseconds>("9007199254740993 ps") == Picoseconds(9007199254740993));
  CHECK(read<Picoseconds>("0.0000000000000000000000000000000000001 s") == 0_ps);
  CHECK(read<Picoseconds>("1000000000000000000000e-12 ps") == Picoseconds(1000000000));
}

TEST_CASE("The longest duration is accepted, one picosecond more is not", "[unit][units]") {
  CHECK(read<Picoseconds>("9223372036854775807 ps") == Picoseconds::max());
  CHECK(read<Picoseconds>("9223372.036854775807 s") == Picoseconds::max());
  CHECK(complaint<Picoseconds>("9223372036854775808 ps") == "'9223372036854775808 ps' is out of range");
  CHECK(complaint<Picoseconds>("1e30 s") == "'1e30 s' is out of range");
  CHECK(complaint<Picoseconds>("1e999999999999 s") == "'1e999999999999 s' is out of range");
  CHECK(complaint<Picoseconds>("12345678901234567890 ps") == "'12345678901234567890 ps' is out of range");
  CHECK(complaint<Picoseconds>("0.12345678901234567891 s") ==
        "'0.12345678901234567891 s' has more than 19 significant digits");
}

TEST_CASE("Sizes are decimal or binary as written", "[unit][units]") {
  CHECK(read<Bytes>("141 GB") == 141'000'000'000);
  CHECK(read<Bytes>("128 MiB") == 128 * 1024 * 1024);
  CHECK(read<Bytes>("1.5 KiB") == 1536);
  CHECK(read<Bytes>("1 kB") == 1000);
  CHECK(read<Bytes>("2 TiB") == std::int64_t{2} << 40);
  CHECK(read<Bytes>("0.3 B") == 0);
}

TEST_CASE("Rates, work and frequencies are the nearest double to their decimal text", "[unit][units]") {
  CHECK(read<BytesPerSecond>("4.8 TB/s") == 4.8e12);
  CHECK(read<BytesPerSecond>("1 GiB/s") == 1073741824.0);
  CHECK(read<BytesPerSecond>("400 Gbit/s") == 50e9);
  CHECK(read<FlopsPerSecond>("989.4 TFLOP/s") == 989.4e12);
  CHECK(read<FlopsPerSecond>("1978.9 TOP/s") == 1978.9e12);
  CHECK(read<Flops>("2 TFLOP") == 2e12);
  CHECK(read<Hertz>("1.98 GHz") == 1.98e9);
  CHECK(read<Hertz>("1980 MHz") == 1.98e9);
  CHECK(complaint<BytesPerSecond>("1e400 B/s") == "'1e400 B/s' is out of range");
  CHECK(complaint<double>("1e309") == "'1e309' is out of range");
}

TEST_CASE("Every unit has its factor", "[unit][units]") {
  const auto [text, value] = GENERATE(table<std::string, double>({
      {"1 B/s", 1},
      {"1 kB/s", 1e3},
      {"1 MB/s", 1e6},
      {"1 GB/s", 1e9},
      {"1 TB/s", 1e12},
      {"1 PB/s", 1e15},
      {"1 KiB/s", 1024},
      {"1 MiB/s", 1048576},
      {"1 GiB/s", 1073741824},
      {"1 TiB/s", 1099511627776},
      {"8 bit/s", 1},
      {"8 kbit/s", 1e3},
      {"8 Mbit/s", 1e6},
      {"8 Gbit/s", 1e9},
      {"8 Tbit/s", 1e12},
  }));
  CHECK(read<BytesPerSecond>(text) == value);
  if (text.ends_with("B/s") && !text.starts_with("1 P")) {
    CHECK(static_cast<double>(read<Bytes>(text.substr(0, text.size() - 2))) == value);
  }
  const auto [prefix, power] = GENERATE(
      table<std::string, double>({{"", 1}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}}));
  CHECK(read<Flops>("1 " + prefix + "FLOP") == power);
  CHECK(read<FlopsPerSecond>("1 " + prefix + "FLOP/s") == power);
  if (prefix != "k") CHECK(read<FlopsPerSecond>("1 " + prefix + "OP/s") == power);
  if (prefix != "P") CHECK(read<Hertz>("1 " + prefix + "Hz") == power);
}

TEST_CASE("A ratio is a bare number or per cent", "[unit][units]") {
  CHECK(read<Ratio>("5 %") == 0.05);
  CHECK(read<Ratio>("5%") == 0.05);
  CHECK(read<Ratio>("0.05") == 0.05);
}

TEST_CASE("Bare numbers take no unit, and whole numbers no fraction", "[unit][units]") {
  CHECK(read<std::int64_t>("12") == 12);
  CHECK(read<std::int64_t>("-3") == -3);
  CHECK(read<std::int64_t>("1e6") == 1'000'000);
  CHECK(read<std::int64_t>("12.0") == 12);
  CHECK(read<double>("0.55") == 0.55);
  CHECK(complaint<std::int64_t>("1.5") == "'1.5' is not a whole number");
  CHECK(complaint<std::int64_t>("1e-60") == "'1e-60' is not a whole number");
  CHECK(complaint<std::int64_t>("3 us") == "unit 'us' makes a duration, but a whole number is needed");
  CHECK(complaint<double>("3 apples") == "unknown unit 'apples'");
}

TEST_CASE("What is not a number with a known unit is refused, and the message says why",
          "[unit][units][bad_input]") {
  const auto [text, what] = GENERATE(table<std::string, std::string>({
      {"", "the value is empty"},
      {"   ", "the value is empty"},
      {"3", "'3' has no unit"},
      {"0", "'0' has no unit"},
      {"us", "'us' is not a duration"},
      {"-", "'-' is not a duration"},
      {".", "'.' is not a duration"},
      {"--3 us", "'--3 us' is not a duration"},
      {"+3 us", "'+3 us' is not a duration"},
      {"three us", "'three us' is not a duration"},
      {"12abc", "unknown unit 'abc'"},
      {"3 us 4", "unknown unit 'us 4'"},
      {"1e us", "unknown unit 'e us'"},
      {"1..5 us", "unknown unit '.5 us'"},
      {"3 usec", "unknown unit 'usec'"},
      {"3 US", "unknown unit 'US'"},
      {"3 GB", "unit 'GB' makes a size, but a duration is needed"},
      {"5 %", "unit '%' makes a ratio, but a duration is needed"},
      {"010 us", "'010 us' has a leading zero"},
      {"00 us", "'00 us' has a leading zero"},
      {"0x10 us", "'0x10 us' is not a decimal number"},
      {"0b11 us", "'0b11 us' is not a decimal number"},
      {"0o17 us", "'0o17 us' is not a decimal number"},
      {"nan us", "'nan us' is not a finite number"},
      {".nan", "'.nan' is not a finite number"},
      {"NaN", "'NaN' is not a finite number"},
      {"inf us", "'inf us' is not a finite number"},
      {"-.inf", "'-.inf' is not a finite number"},
      {"Infinity s", "'Infinity s' is not a finite number"},
      {"1,5 us", "'1,5 us' is not a duration"},
      {"1_000 us", "'1_000 us' is not a duration"},
      {"3\n us", "unknown unit '\\n us'"},
      {"\x1b[31m", "'\\x1b[31m' is not a duration"},
  }));
  CHECK(complaint<Picoseconds>(text) == what);
}

TEST_CASE("Hints name what is accepted, or the unit that was meant", "[unit][units][bad_input]") {
  CHECK(advice<Picoseconds>("3") == "write a duration such as '3 us' (ps, ns, us, ms, s)");
  CHECK(advice<Picoseconds>("3 US") == "did you mean 'us'?");
  CHECK(advice<BytesPerSecond>("4.8 TBs") ==
        "write a rate such as '4.8 TB/s' (B/s ... PB/s, KiB/s ... TiB/s, bit/s ... Tbit/s)");
  CHECK(advice<BytesPerSecond>("4.8 Tb/s") ==
        "'b' may mean bytes or bits: write 'B' or 'bit', as in 'GB/s' or 'Gbit/s'");
  CHECK(advice<Bytes>("3 Gb") == "'b' may mean bytes or bits: write 'B' for bytes, as in 'GB' or 'GiB'");
  CHECK(advice<Bytes>("3 b") == "'b' may mean bytes or bits: write 'B' for bytes, as in 'GB' or 'GiB'");
  CHECK(advice<Bytes>("3 KB") == "did you mean 'kB'?");
  CHECK(advice<Hertz>("3 mhz") == "did you mean 'MHz'?");
  CHECK(advice<Picoseconds>("1,5 us") == "write a point before decimals and nothing between thousands");
  CHECK(advice<std::int64_t>("010") == "numbers are decimal, never octal: drop the zero");
}

TEST_CASE("A long text is shortened in messages, between two characters", "[unit][units][bad_input]") {
  CHECK(in_quotes(std::string(60, 'x')) == "'" + std::string(60, 'x') + "'");
  CHECK(in_quotes(std::string(61, 'x')) == "'" + std::string(60, 'x') + "...'");
  CHECK(in_quotes(std::string(59, 'x') + "\u00b5\u00b5") == "'" + std::string(59, 'x') + "\u00b5...'");
}

TEST_CASE("Times are written with three digits that count", "[unit][units]") {
  const auto [t, text] = GENERATE(table<std::int64_t, std::string>({
      {0, "0 us"},
      {7, "7 ps"},
      {999, "999 ps"},
      {1000, "1.00 ns"},
      {999'499, "999 ns"},
      {999'600, "1.00 us"},
      {6'000'000, "6.00 us"},
      {34'600'000'000, "34.6 ms"},
      {1'800'000'000, "1.80 ms"},
      {-1'800'000'000, "-1.80 ms"},
      {1'000'000'000'000, "1.00 s"},
      {999'000'000'000'000, "999 s"},
      {86'400'000'000'000'000, "86400 s"},
  }));
  CHECK(format_quantity(Picoseconds(t)) == text);
}

TEST_CASE("Sizes are written binary where that is exact, else decimal", "[unit][units]") {
  const auto [bytes, text] = GENERATE(table<std::int64_t, std::string>({
      {0, "0 B"},
      {512, "512 B"},
      {1024, "1 KiB"},
      {1000, "1 kB"},
      {128 << 20, "128 MiB"},
      {1536 << 20, "1536 MiB"},
      {141'000'000'000, "141 GB"},
      {85'899'345'920, "80 GiB"},
      {123'456'789, "123.5 MB"},
      {-(128 << 20), "-128 MiB"},
  }));
  CHECK(format_quantity(Bytes(bytes)) == text);
  CHECK(format_quantity(Bytes(std::numeric_limits<std::int64_t>::min())) == "-9223 PB");
}

TEST_CASE("Other quantities have up to four digits that count and a prefix", "[unit][units]") {
  CHECK(format_quantity(BytesPerSecond(4.8e12)) == "4.8 TB/s");
  CHECK(format_quantity(BytesPerSecond(0)) == "0 B/s");
  CHECK(format_quantity(BytesPerSecond(0.25)) == "0.25 B/s");
  CHECK(format_quantity(BytesPerSecond(999.96e9)) == "1 TB/s");
  CHECK(format_quantity(FlopsPerSecond(989.4e12)) == "989.4 TFLOP/s");
  CHECK(format_quantity(Flops(1.2e12)) == "1.2 TFLOP");
  CHECK(format_quantity(Flops(3e20)) == "300000 PFLOP");
  CHECK(format_quantity(Hertz(1.98e9)) == "1.98 GHz");
  CHECK(format_quantity(Ratio(0.05)) == "5 %");
  CHECK(format_quantity(Ratio(0.98765)) == "98.77 %");
  CHECK(format_quantity(0.1) == "0.1");
  CHECK(format_quantity(std::int64_t{-12}) == "-12");
}

TEST_CASE("What is written is read back", "[unit][units]") {
  const auto bytes = GENERATE(as<std::int64_t>(), 1, 1000, 1024, 128 << 20, 141'000'000'000);
  CHECK(read<Bytes>(format_quantity(Bytes(bytes))) == bytes);
  CHECK(read<Picoseconds>(format_quantity(1800_us)) == 1800_us);
  CHECK(read<BytesPerSecond>(format_quantity(BytesPerSecond(4.8e12))) == 4.8e12);
}

TEST_CASE("A locale with a decimal comma changes nothing", "[unit][units][determinism]") {
  const std::string before = std::setlocale(LC_ALL, nullptr);
  // Where no such locale is installed this only repeats the claim for the one that is.
  std::setlocale(LC_ALL, "de_DE.UTF-8");
  const auto rate = read<BytesPerSecond>("4.8 TB/s");
  const auto text = format_quantity(1800_us);
  std::setlocale(LC_ALL, before.c_str());
  CHECK(rate == 4.8e12);
  CHECK(text == "1.80 ms");
}

}  // namespace
}  // namespace gpusim
