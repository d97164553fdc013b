// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/answer.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace gpusim::fuzz {
namespace {

bool is_one_line(const std::string& text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

}  // namespace

void require(bool holds, std::string_view what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

void check(const ConfigError& error) {
  require(!error.diagnostics().empty(), "an error without a diagnostic");
  for (const Diagnostic& diagnostic : error.diagnostics()) {
    const std::string text = to_string(diagnostic);
    require(!diagnostic.what.empty(), "an error that says nothing: " + text);
    require(!diagnostic.where.file.empty(), "an error without a place: " + text);
    require(diagnostic.where.line >= 0 && (diagnostic.where.line == 0 || diagnostic.where.column >= 1),
            "an error at a place that is none: " + text);
    const std::size_t hint = text.find("\n  hint: ");
    require(is_one_line(text.substr(0, hint)) &&
                (hint == std::string::npos || is_one_line(text.substr(hint + 1))),
            "an error with control characters: " + text);
  }
}

void check(const TraceError& error) {
  require(!error.message().empty() && is_one_line(error.message()), error.what());
  require(!error.path().empty(), error.what());
}

void check_json(std::string_view text) {
  require(nlohmann::json::accept(text),
          "what is written as JSON is none: " + std::string(text.substr(0, 2000)));
}

}  // namespace gpusim::fuzz
