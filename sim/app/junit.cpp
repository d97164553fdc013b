// SPDX-License-Identifier: Apache-2.0
#include "sim/app/junit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace gpusim {
namespace {

/// Text of an attribute. Control characters have no place in XML.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\n':
        out += "&#10;";
        break;
      case '\t':
        out += "&#9;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
    }
  }
  return out;
}

/// "failures=\"1\" errors=\"0\"" with the number of cases, of the stretch from `begin` to `end`.
template <class Iterator>
std::string counts(Iterator begin, Iterator end) {
  return fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\"", end - begin,
                     std::count_if(begin, end, [](const JunitCase& c) { return !c.failure.empty(); }),
                     std::count_if(begin, end, [](const JunitCase& c) { return !c.error.empty(); }));
}

}  // namespace

std::string to_junit(const std::vector<JunitCase>& cases) {
  std::string xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  xml += fmt::format("<testsuites name=\"gpusim\" {}>\n", counts(cases.begin(), cases.end()));
  for (auto suite = cases.begin(); suite != cases.end();) {
    const auto end =
        std::find_if(suite, cases.end(), [&](const JunitCase& c) { return c.suite != suite->suite; });
    const std::string name = escaped(suite->suite);
    xml += fmt::format("  <testsuite name=\"{}\" {}>\n", name, counts(suite, end));
    for (; suite != end; ++suite) {
      xml += fmt::format("    <testcase classname=\"{}\" name=\"{}\"", name, escaped(suite->name));
      if (suite->failure.empty() && suite->error.empty()) {
        xml += "/>\n";
        continue;
      }
      const bool error = !suite->error.empty();
      xml += fmt::format("><{} message=\"{}\"/></testcase>\n", error ? "error" : "failure",
                         escaped(error ? suite->error : suite->failure));
    }
    xml += "  </testsuite>\n";
  }
  return xml + "</testsuites>\n";
}

}  // namespace gpusim
