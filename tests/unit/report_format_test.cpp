// SPDX-License-Identifier: Apache-2.0
#include "sim/report/format.hpp"

#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "tests/support/catch.hpp"

namespace gpusim::report {
namespace {

using namespace gpusim::literals;

TEST_CASE("microseconds are exact to the picosecond") {
  CHECK(exact_microseconds(1803_us) == "1803.000000");
  CHECK(exact_microseconds(1_ps) == "0.000001");
  CHECK(exact_microseconds(-1_ps) == "-0.000001");
  CHECK(exact_microseconds(Picoseconds(9'223'372'036'854'775'807)) == "9223372036854.775807");
  CHECK(exact_microseconds(Picoseconds::min()) == "-9223372036854.775808");
  CHECK(exact_microseconds(1803_us, 3) == "1803.000");
  CHECK(exact_microseconds(1'000'500_ps, 3) == "1.0005");
}

TEST_CASE("numbers read back as the same double and are valid JSON") {
  for (const double value : {0.0, 1.0, 0.1, 1.0 / 3, 1e300, 2.5e-9, 123456789012345678.0, -0.25})
    CHECK(nlohmann::json::parse(exact_number(value)).get<double>() == value);
  CHECK(exact_number(1.0) == "1.0");
  CHECK(exact_number(std::nan("")) == "null");
  CHECK(exact_number(std::numeric_limits<double>::infinity()) == "null");
}

TEST_CASE("times choose the unit that a person would") {
  CHECK(time_text(0_ps) == "0 us");
  CHECK(time_text(750_ns) == "750 ns");
  CHECK(time_text(1'250_ps) == "1.25 ns");
  CHECK(time_text(1803_us) == "1803.00 us");
  CHECK(time_text(43'712_us) == "43.712 ms");
  CHECK(time_text(12'345_ms) == "12.345 s");
  CHECK(time_text(-1803_us) == "-1803.00 us");
  CHECK(time_text(1'004'999_ps) == "1.00 us");
  CHECK(time_text(1'005'000_ps) == "1.01 us");
}

TEST_CASE("times beside larger ones share their unit where that keeps their digits") {
  CHECK(time_text(8102_us, 65'886_us) == "8.102 ms");
  CHECK(time_text(8102_us, 9000_us) == "8102.00 us");
  CHECK(time_text(62_us, 65'886_us) == "62.00 us");
  CHECK(time_text(65'886_us, 65'886_us) == "65.886 ms");
}

TEST_CASE("labels of kernels lose what tells nothing") {
  CHECK(kernel_label("void at::native::(anonymous namespace)::reduce<at::native::Add>(int)") ==
        "reduce<Add>(int)");
  CHECK(kernel_label("nvjet_tst") == "nvjet_tst");
  CHECK(kernel_label("at::native::") == "at::native::");
}

TEST_CASE("a share that is not quite all or nothing does not print as such") {
  CHECK(percent_text(0) == "0.0 %");
  CHECK(percent_text(1) == "100.0 %");
  CHECK(percent_text(0.0001) == "<0.1 %");
  CHECK(percent_text(0.99999) == ">99.9 %");
  CHECK(percent_text(0.499168) == "49.9 %");
}

TEST_CASE("bytes and rates carry a prefix") {
  CHECK(bytes_text(512) == "512 B");
  CHECK(bytes_text(268435456) == "256 MiB");
  CHECK(bytes_text(1.5 * 1024 * 1024 * 1024) == "1.5 GiB");
  CHECK(scaled_text(3.35e12, "B/s") == "3.35 TB/s");
  CHECK(scaled_text(989.4e12, "FLOP/s") == "989 TFLOP/s");
}

TEST_CASE("long names keep both their ends and stay whole code points") {
  CHECK(shorten("short", 10) == "short");
  CHECK(shorten("triton_red_fused_layer_norm_17", 12) == "trito..rm_17");
  CHECK(width_of(shorten("ääääääääääää", 7)) == 7);
  CHECK(shorten("ääääääääääää", 7) == "äää..ää");
  CHECK(shorten("abcdef", 2) == "ab");
  CHECK(shorten("abcdef", 0).empty());
}

TEST_CASE("control characters and broken UTF-8 cannot reach the terminal") {
  CHECK(printable("a\x1b[31mb\n") == "a?[31mb?");
  CHECK(printable("\xff\xfe") == "??");
  CHECK(printable("\xc2\x9b") == "?");
  CHECK(printable("µs") == "µs");
}

TEST_CASE("text wraps at spaces") {
  CHECK(wrap("one two three", 7) == std::vector<std::string>{"one two", "three"});
  CHECK(wrap("incomprehensible x", 5) == std::vector<std::string>{"incom", "prehe", "nsibl", "e x"});
  CHECK(wrap("about 50.0 %, or 3 us.", 10) == std::vector<std::string>{"about", "50.0 %, or", "3 us."});
  CHECK(wrap("", 5).empty());
}

TEST_CASE("any bytes become a JSON string that parses") {
  for (int a = 0; a < 256; ++a)
    for (const char* tail : {"", "x", "\x80", "\x80\x80", "\xbf\xbf\xbf"}) {
      const std::string text = std::string(1, static_cast<char>(a)) + tail;
      CAPTURE(a);
      REQUIRE(nlohmann::json::parse(json_string(text)).is_string());
    }
  CHECK(json_string("a\"b\\c\n\x01") == "\"a\\\"b\\\\c\\n\\u0001\"");
  CHECK(nlohmann::json::parse(json_string("void k<µ, \"x\">(int)\t")) == "void k<µ, \"x\">(int)\t");
}

}  // namespace
}  // namespace gpusim::report
