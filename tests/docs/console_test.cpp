// SPDX-License-Identifier: Apache-2.0
// What the documentation shows is what the program prints. Every fenced block marked `console` in README.md
// and docs/ is a command after `$ ` and its output; `...` alone on a line stands for lines left out.
// GPUSIM_APPROVE=1 rewrites the blocks that have no such line. Digests of inputs stand there as `sha256:...`.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace {

namespace fs = std::filesystem;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The text without the digits of input digests: each change of a configuration would change them.
std::string without_digests(std::string text) {
  const std::string before = "input sha256:";
  for (std::size_t at = text.find(before); at != std::string::npos; at = text.find(before, at)) {
    at += before.size();
    const std::size_t end = std::min(text.find_first_not_of("0123456789abcdef", at), text.size());
    text.replace(at, end - at, "...");
  }
  return text;
}

/// Output of `command` (stdout and stderr), with gpusim replaced by the program under test, digests by "...".
std::string output_of(const std::string& command) {
  const std::string shell = "cd '" GPUSIM_SOURCE_DIR "' && " + command + " 2>&1";
  const std::string path = std::string("PATH='") + GPUSIM_BINARY_DIR + "':\"$PATH\" && export PATH && ";
  FILE* pipe = popen((path + shell).c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string output;
  std::array<char, 4096> buffer{};
  for (std::size_t n = 0; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    output.append(buffer.data(), n);
  pclose(pipe);
  return without_digests(output);
}

/// Whether `actual` is `expected`, where "..." in `expected` stands for any number of lines.
bool matches(const std::vector<std::string>& expected, std::size_t e, const std::vector<std::string>& actual,
             std::size_t a) {
  if (e == expected.size()) return a == actual.size();
  if (expected[e] == "...") {
    for (std::size_t next = a; next <= actual.size(); ++next)
      if (matches(expected, e + 1, actual, next)) return true;
    return false;
  }
  return a < actual.size() && expected[e] == actual[a] && matches(expected, e + 1, actual, a + 1);
}

}  // namespace

TEST_CASE("Every console block of the documentation shows what the program prints", "[docs]") {
  std::vector<fs::path> pages{fs::path(GPUSIM_SOURCE_DIR) / "README.md"};
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(GPUSIM_SOURCE_DIR) / "docs"))
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  const bool approve = std::getenv("GPUSIM_APPROVE") != nullptr;
  int blocks = 0;
  for (const fs::path& page : pages) {
    const std::vector<std::string> lines = lines_of(contents(page));
    std::string rewritten;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      rewritten += lines[i] + "\n";
      if (lines[i] != "```console") continue;
      std::vector<std::string> block;
      std::size_t end = i + 1;
      while (end < lines.size() && lines[end] != "```") block.push_back(lines[end++]);
      REQUIRE(end < lines.size());
      REQUIRE(!block.empty());
      REQUIRE(block.front().rfind("$ ", 0) == 0);
      ++blocks;
      const std::string output = output_of(block.front().substr(2));
      const std::vector<std::string> expected(block.begin() + 1, block.end());
      const bool elided = std::find(expected.begin(), expected.end(), "...") != expected.end();
      INFO(page.filename().string() << ":" << i + 2 << ": " << block.front() << "\n" << output);
      if (approve && !elided) {
        rewritten += block.front() + "\n" + output + "```\n";
        i = end;
        continue;
      }
      CHECK(matches(expected, 0, lines_of(output), 0));
    }
    if (approve) {
      std::ofstream out(page, std::ios::binary);
      out << rewritten;
    }
  }
  CHECK(blocks > 0);
}

TEST_CASE("Links between pages of the documentation lead somewhere", "[docs]") {
  std::vector<fs::path> pages{fs::path(GPUSIM_SOURCE_DIR) / "README.md"};
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(GPUSIM_SOURCE_DIR) / "docs"))
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  int links = 0;
  for (const fs::path& page : pages) {
    const std::string text = contents(page);
    for (std::size_t at = text.find("]("); at != std::string::npos; at = text.find("](", at + 1)) {
      std::string target = text.substr(at + 2, text.find(')', at) - at - 2);
      if (target.find("://") != std::string::npos || target.empty() || target[0] == '#') continue;
      target = target.substr(0, target.find('#'));
      INFO(page.filename().string() << " links to " << target);
      CHECK(fs::exists(page.parent_path() / target));
      ++links;
    }
  }
  CHECK(links > 0);
}
