// SPDX-License-Identifier: Apache-2.0
// Who may know whom (docs/architecture.md), kept true by reading the #include lines.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace {

namespace fs = std::filesystem;

struct Include {
  std::string file;  ///< Relative to the project.
  std::string target;
};

std::vector<Include> includes_below(const std::string& folder) {
  std::vector<Include> result;
  const fs::path root = GPUSIM_SOURCE_DIR;
  if (!fs::exists(root / folder)) return result;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder)) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".hpp" && extension != ".cpp" && extension != ".inl") continue;
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);) {
      if (line.rfind("#include", 0) != 0) continue;
      const std::size_t open = line.find_first_of("\"<");
      const std::size_t close = line.find_first_of("\">", open + 1);
      if (open == std::string::npos || close == std::string::npos) continue;
      result.push_back(
          {fs::relative(entry.path(), root).generic_string(), line.substr(open + 1, close - open - 1)});
    }
  }
  return result;
}

struct Source {
  std::string file;  ///< Relative to the project.
  std::string text;
};

std::vector<Source> sources_below(const std::string& folder) {
  std::vector<Source> result;
  const fs::path root = GPUSIM_SOURCE_DIR;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder)) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".hpp" && extension != ".cpp" && extension != ".inl") continue;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    result.push_back({fs::relative(entry.path(), root).generic_string(), text.str()});
  }
  return result;
}

bool starts_with(const std::string& text, const std::string& prefix) {
  return text.rfind(prefix, 0) == 0;
}

}  // namespace

TEST_CASE("models/ does not know sim/", "[house]") {
  const auto includes = includes_below("models");
  REQUIRE_FALSE(includes.empty());
  for (const Include& include : includes) {
    INFO(include.file << " includes " << include.target);
    CHECK_FALSE(starts_with(include.target, "sim/"));
  }
}

TEST_CASE("The engine knows nothing but itself and the standard library", "[house]") {
  const auto includes = includes_below("sim/engine");
  REQUIRE_FALSE(includes.empty());
  for (const Include& include : includes) {
    INFO(include.file << " includes " << include.target);
    CHECK((starts_with(include.target, "sim/engine/") || include.target == "sys/mman.h" ||
           include.target.find_first_of("/.") == std::string::npos));
  }
}

TEST_CASE("Each third-party library stays in its folder", "[house]") {
  const std::map<std::string, std::vector<std::string>> allowed = {
      {"yaml-cpp/", {"sim/config/"}},
      {"simdjson", {"sim/trace/"}},
      {"nettle/", {"sim/config/"}},
      {"zlib.h", {"sim/trace/"}},
      {"CLI/", {"sim/app/"}},
      {"boost/graph", {"models/graph/", "models/compiler/", "sim/critical_path/"}},
  };
  for (const std::string folder : {"models", "sim"})
    for (const Include& include : includes_below(folder))
      for (const auto& [library, folders] : allowed)
        if (starts_with(include.target, library)) {
          INFO(include.file << " includes " << include.target);
          CHECK(std::any_of(folders.begin(), folders.end(),
                            [&](const std::string& home) { return starts_with(include.file, home); }));
        }
  SUCCEED("no file outside its folder");
}

TEST_CASE("A later stage never reaches into an earlier one", "[house]") {
  // scenario -> program -> engine -> report: what a folder may include from sim/.
  const std::map<std::string, std::vector<std::string>> may_include = {
      {"sim/config", {"sim/config/"}},
      {"sim/trace", {"sim/trace/"}},
      {"sim/critical_path", {"sim/critical_path/", "sim/engine/"}},
      {"sim/report", {"sim/report/", "sim/critical_path/", "sim/engine/", "sim/trace/"}},
  };
  for (const auto& [folder, targets] : may_include)
    for (const Include& include : includes_below(folder)) {
      if (!starts_with(include.target, "sim/")) continue;
      INFO(include.file << " includes " << include.target);
      CHECK(std::any_of(targets.begin(), targets.end(),
                        [&](const std::string& target) { return starts_with(include.target, target); }));
    }
}

TEST_CASE("No order comes from hashes: what is unordered is never walked through", "[house]") {
  const std::regex declared(R"(unordered_(?:map|set)<[^;{}()]*>\s*&?\s*(\w+)\s*[;={(,)])");
  int containers = 0;
  for (const std::string folder : {"models", "sim"}) {
    std::set<std::string> members;  // A member may be walked through in another file.
    const std::vector<Source> sources = sources_below(folder);
    const auto names_in = [&](const std::string& text) {
      std::set<std::string> names;
      for (std::sregex_iterator at(text.begin(), text.end(), declared), end; at != end; ++at)
        names.insert((*at)[1].str());
      return names;
    };
    for (const Source& source : sources)
      for (const std::string& name : names_in(source.text))
        if (name.back() == '_') members.insert(name);
    for (const Source& source : sources) {
      std::set<std::string> names = names_in(source.text);
      containers += static_cast<int>(names.size());
      names.insert(members.begin(), members.end());
      for (const std::string& name : names) {
        INFO(source.file << " walks through " << name);
        CHECK_FALSE(std::regex_search(source.text, std::regex(":\\s*" + name + "\\)")));
        CHECK_FALSE(std::regex_search(source.text, std::regex("\\b" + name + "\\.(begin|cbegin)\\(")));
      }
    }
  }
  CHECK(containers > 5);
}
