// SPDX-License-Identifier: Apache-2.0
// docs/seed-coverage.md is complete, and everything it refers to exists.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.hpp"

namespace gpusim::test {
namespace {

namespace fs = std::filesystem;

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

struct Row {
  std::string id;
  std::string shown_by;
  std::string note;
};

const std::string root = GPUSIM_SOURCE_DIR;

std::vector<Row> rows() {
  std::vector<Row> result;
  std::ifstream in(root + "/docs/seed-coverage.md");
  const std::regex row(R"(\| ([A-Z]\S*) \| (.*) \| ?(.*?) ?\|)");
  for (std::string line; std::getline(in, line);) {
    std::smatch match;
    if (std::regex_match(line, match, row)) result.push_back({match[1], match[2], match[3]});
  }
  return result;
}

void add_series(std::vector<std::string>& ids, const std::string& prefix, int first, int last,
                bool two_digits) {
  for (int i = first; i <= last; ++i) {
    ids.push_back(prefix + (two_digits && i < 10 ? "0" : "") + std::to_string(i));
  }
}

std::vector<std::string> all_ids() {
  std::vector<std::string> ids;
  add_series(ids, "S0-", 1, 22, true);
  add_series(ids, "S1-", 1, 39, true);
  add_series(ids, "S4-", 1, 115, true);
  add_series(ids, "R-", 1, 126, true);
  add_series(ids, "Y-", 1, 38, true);
  add_series(ids, "D1-", 1, 6, false);
  for (const char* prefix : {"D4-F", "D4-I", "D4-P"}) add_series(ids, prefix, 1, 3, false);
  add_series(ids, "T", 1, 16, false);
  for (const char* id : {"M0", "M5", "M6", "M8", "M20"}) ids.emplace_back(id);
  add_series(ids, "Z", 1, 10, false);
  add_series(ids, "P", 1, 20, false);
  return ids;
}

struct Reference {
  std::string path;  ///< From the root.
  std::string test;  ///< What the name of a test begins with.
};

/// Between backticks: a source with the id of the test behind '#', a source followed by the test's name in
/// quotes, a source alone (then the row's own id), or a scenario.
std::vector<Reference> references(const Row& row) {
  std::vector<Reference> result;
  const std::regex quoted(R"re(`([^`#]+)(#[^`]+)?`(?: "([^"]+)")?)re");
  for (std::sregex_iterator it(row.shown_by.begin(), row.shown_by.end(), quoted), end; it != end; ++it) {
    const std::smatch& match = *it;
    std::string path = match[1];
    const bool scenario = fs::path(path).extension() == ".yaml";
    if (path.find('/') == std::string::npos) path.insert(0, scenario ? "scenarios/seeds/" : "tests/formula/");
    std::string test;
    if (match[3].matched) {
      test = match[3];
    } else if (!scenario) {
      test = (match[2].matched ? match[2].str().substr(1) : row.id) + ":";
    }
    result.push_back({path, test});
  }
  return result;
}

/// The source with test names in one piece on one line, however they were broken.
std::string source_text(const fs::path& path) {
  static const std::regex broken_literal(R"re("\s*\n\s*")re");
  static const std::regex broken_call(R"re(TEST_CASE\(\s+")re");
  return std::regex_replace(std::regex_replace(read_text(path), broken_literal, ""), broken_call,
                            "TEST_CASE(\"");
}

TEST_CASE("The coverage page has every figure, rule, system, exercise and case exactly once") {
  std::map<std::string, int> counts;
  for (const Row& row : rows()) ++counts[row.id];
  const std::vector<std::string> ids = all_ids();
  CHECK(counts.size() == ids.size());
  for (const std::string& id : ids) {
    CAPTURE(id);
    CHECK(counts[id] == 1);
  }
}

TEST_CASE("Each row of the coverage page names a test, a scenario, a later topic or a reason") {
  for (const Row& row : rows()) {
    CAPTURE(row.id, row.shown_by);
    const bool later = std::regex_match(row.shown_by, std::regex("later: (concurrency|multi-GPU)"));
    const bool outside = row.shown_by.rfind("outside: ", 0) == 0 && row.shown_by.size() > 12;
    CHECK((later || outside || !references(row).empty()));
  }
}

TEST_CASE("Everything that the coverage page refers to exists") {
  std::map<std::string, std::string> sources;
  for (const Row& row : rows()) {
    for (const Reference& reference : references(row)) {
      CAPTURE(row.id, reference.path, reference.test);
      const fs::path path = fs::path(root) / reference.path;
      REQUIRE(fs::is_regular_file(path));
      if (reference.test.empty()) continue;
      const auto [source, added] = sources.try_emplace(reference.path);
      if (added) source->second = source_text(path);
      CHECK(source->second.find("TEST_CASE(\"" + reference.test) != std::string::npos);
    }
  }
}

TEST_CASE("The coverage page mentions every seed scenario and every seed test") {
  std::set<std::string> referred;
  std::set<std::string> tests;
  for (const Row& row : rows()) {
    for (const Reference& reference : references(row)) {
      referred.insert(reference.path);
      tests.insert(reference.test);
    }
  }
  for (const auto& entry : fs::directory_iterator(root + "/scenarios/seeds")) {
    if (entry.path().extension() != ".yaml") continue;
    CAPTURE(entry.path());
    CHECK(referred.count("scenarios/seeds/" + entry.path().filename().string()) == 1);
  }
  const std::regex id_of_test(R"re(TEST_CASE\("([A-Z][A-Z0-9-]*:))re");
  for (const auto& entry : fs::directory_iterator(root + "/tests/formula")) {
    if (entry.path().extension() != ".cpp") continue;
    const std::string source = source_text(entry.path());
    for (std::sregex_iterator it(source.begin(), source.end(), id_of_test), end; it != end; ++it) {
      const std::string id = (*it)[1];
      CAPTURE(id);
      CHECK(tests.count(id) == 1);
    }
  }
}

TEST_CASE("The coverage page follows the collection of figures where it is at hand") {
  const std::string shared = GPUSIM_SHARED_DIR;
  const fs::path collection = fs::path(shared) / "seed-figures.md";
  if (shared.empty() || !fs::exists(collection)) {
    SUCCEED("not here");
    return;
  }
  std::map<std::string, std::string> notes;
  for (const Row& row : rows()) notes[row.id] = row.note;
  std::ifstream in(collection);
  const std::regex figure(R"(\| ((?:S\d|R|Y)-\d+) \|.*)");
  const std::regex verdict(R"(\| (exact|rounded|claim|inconsistent) \|)");
  for (std::string line; std::getline(in, line);) {
    std::smatch match;
    if (!std::regex_match(line, match, figure)) continue;
    const std::string id = match[1];
    CAPTURE(id);
    REQUIRE(notes.count(id) == 1);
    if (id[0] != 'S') continue;
    std::smatch says;
    REQUIRE(std::regex_search(line, says, verdict));
    CHECK(notes[id].rfind(says[1].str(), 0) == 0);
  }
}

}  // namespace
}  // namespace gpusim::test
