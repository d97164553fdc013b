// SPDX-License-Identifier: Apache-2.0
// Figures and names as text. Nothing here asks the locale; times are rounded from whole picoseconds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/units/quantity.hpp"

namespace gpusim::report {

/// Microseconds with `decimals_min` to six decimals, exact: "1803.000000" with 6, "1803.000" or "1803.0005"
/// with 3.
std::string exact_microseconds(Picoseconds time, int decimals_min = 6);

/// Shortest text that reads back as the same double; "null" for NaN and infinities.
std::string exact_number(double value);

/// For people: "750 ns", "1803.00 us", "43.712 ms", "12.345 s".
std::string time_text(Picoseconds time);
/// The same, but in milliseconds where `largest` is and `time` is at least 0.1 of one: figures to compare
/// share a unit.
std::string time_text(Picoseconds time, Picoseconds largest);
/// "256 MiB", "141.0 GiB", "512 B".
std::string bytes_text(double bytes);
/// With a decimal prefix: "1.20 TFLOP", "3.35 TB/s", given the unit without one.
std::string scaled_text(double value, std::string_view unit);
/// "49.9 %"; a share that is not quite 0 or 1 never prints as "0.0 %" or "100.0 %".
std::string percent_text(double share);
/// "300", "361.33".
std::string count_text(double count);

/// Columns that `text` takes on a terminal: code points of UTF-8.
std::size_t width_of(std::string_view text);
/// A kernel's name without what tells nothing in a table: "void ", "at::native::", "(anonymous namespace)::".
std::string kernel_label(std::string_view name);
/// `text` in at most `width` columns, the middle replaced by "..": both ends of a kernel's name tell
/// something.
std::string shorten(std::string_view text, std::size_t width);
/// `text` in `width` columns, spaces after or before it. Longer text stays as it is.
std::string left(std::string_view text, std::size_t width);
std::string right(std::string_view text, std::size_t width);
/// One line: control characters, which could steer the terminal, become '?'.
std::string printable(std::string_view text);
/// Broken at spaces into lines of at most `width` columns. A number stays with its unit; words longer than a
/// line are cut.
std::vector<std::string> wrap(std::string_view text, std::size_t width);

/// `text` as a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

}  // namespace gpusim::report
