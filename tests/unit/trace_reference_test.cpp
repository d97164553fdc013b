// SPDX-License-Identifier: Apache-2.0
// Every column of the table of reference figures, for every trace listed in it. Needs the measured data.
#include <fstream>
#include <string>
#include <vector>

#include "sim/trace/summary.hpp"
#include "tests/support/catch.hpp"

using namespace gpusim;

namespace {

std::vector<std::string> fields_of(const std::string& row) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (row[i] == '"') {
      if (quoted && i + 1 < row.size() && row[i + 1] == '"')
        fields.back() += row[i++];
      else
        quoted = !quoted;
    } else if (row[i] == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += row[i];
    }
  }
  return fields;
}

}  // namespace

TEST_CASE("every figure of the reference table is met to the last digit") {
  const std::string shared = GPUSIM_SHARED_DIR;
  std::ifstream table(shared + "/traces/reference.csv");
  if (shared.empty() || !table) {
    SUCCEED("skipped: no measured data");
    return;
  }
  std::string line;
  REQUIRE(std::getline(table, line));
  CHECK(summary_csv_header() == line);
  const std::vector<std::string> columns = fields_of(line);
  int rows = 0;
  while (std::getline(table, line)) {
    const std::vector<std::string> expected = fields_of(line);
    const std::vector<std::string> actual =
        fields_of(summary_csv_row(summarize(read_trace(shared + "/" + expected[0]))));
    REQUIRE(actual.size() == expected.size());
    for (std::size_t i = 1; i < expected.size(); ++i) {
      INFO(expected[0] << ": " << columns[i]);
      CHECK(actual[i] == expected[i]);
    }
    ++rows;
  }
  CHECK(rows >= 18);
}
