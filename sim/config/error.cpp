// SPDX-License-Identifier: Apache-2.0
#include "sim/config/error.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <tuple>

#include "models/units/text.hpp"
#include "sim/config/whole.hpp"

namespace gpusim {
namespace {

std::string joined(const std::vector<Diagnostic>& diagnostics) {
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics) {
    if (!text.empty()) text += '\n';
    text += to_string(diagnostic);
  }
  return text;
}

/// Nothing that a terminal would take for a command, and one line.
std::string printable(std::string_view text) {
  constexpr std::string_view hex = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      out += c;
      continue;
    }
    out += "\\x";
    out += hex[byte >> 4U];
    out += hex[byte & 15U];
  }
  return out;
}

char folded(char c) {
  if (c == '-') return '_';
  return (c >= 'A' && c <= 'Z') ? static_cast<char>(c - 'A' + 'a') : c;
}

/// Edit distance (insert, delete, replace, swap of neighbours), where a letter's case or '-' for '_' cost
/// nothing.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = folded(a[i - 1]) == folded(b[j - 1]);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (same ? 0U : 1U)});
      if (i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) && folded(a[i - 2]) == folded(b[j - 1])) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

}  // namespace

Location whole(std::string name) {
  return {.file = std::move(name), .line = 0, .column = 0};
}

std::string to_string(const Location& where) {
  if (where.line == 0) return where.file;
  return where.file + ':' + std::to_string(where.line) + ':' + std::to_string(where.column);
}

std::string to_string(const Diagnostic& diagnostic) {
  std::string text = printable(to_string(diagnostic.where));
  if (!text.empty()) text += ": ";
  text += "error: ";
  if (!diagnostic.path.empty()) text += printable(diagnostic.path) + ": ";
  text += printable(diagnostic.what);
  if (!diagnostic.hint.empty()) text += "\n  hint: " + printable(diagnostic.hint);
  return text;
}

ConfigError::ConfigError(Diagnostic diagnostic) : ConfigError(std::vector{std::move(diagnostic)}) {}

ConfigError::ConfigError(std::vector<Diagnostic> diagnostics)
    : std::runtime_error(joined(diagnostics)), diagnostics_(std::move(diagnostics)) {}

ConfigError::ConfigError(std::string path, std::string what, std::string hint)
    : ConfigError(Diagnostic{
          .where = {}, .path = std::move(path), .what = std::move(what), .hint = std::move(hint)}) {}

void Errors::add(const ConfigError& error) {
  diagnostics_.insert(diagnostics_.end(), error.diagnostics().begin(), error.diagnostics().end());
}

void Errors::throw_if_any() const {
  if (diagnostics_.empty()) return;
  // Files in the order in which they first appear; within a file from top to bottom.
  std::vector<std::string> files;
  for (const Diagnostic& diagnostic : diagnostics_) {
    if (std::ranges::find(files, diagnostic.where.file) == files.end())
      files.push_back(diagnostic.where.file);
  }
  auto sorted = diagnostics_;
  std::ranges::stable_sort(sorted, {}, [&](const Diagnostic& diagnostic) {
    return std::tuple(std::ranges::find(files, diagnostic.where.file) - files.begin(), diagnostic.where.line,
                      diagnostic.where.column);
  });
  throw ConfigError(std::move(sorted));
}

std::optional<std::string> nearest_name(std::string_view name, std::span<const std::string> known) {
  // Names are short. A long one is not a typo, and would make the distance expensive.
  constexpr std::size_t longest = 100;
  if (name.size() > longest) return std::nullopt;
  const std::string* best = nullptr;
  std::size_t best_distance = 0;
  for (const std::string& candidate : known) {
    if (candidate.size() > longest) continue;
    const std::size_t distance = edit_distance(name, candidate);
    // A third of the letters may be wrong, so that "sm" is not taken for "l2".
    if (distance > std::max(name.size(), candidate.size()) / 3) continue;
    if (best == nullptr || distance < best_distance) {
      best = &candidate;
      best_distance = distance;
    }
  }
  return best == nullptr ? std::nullopt : std::optional(*best);
}

std::string name_hint(std::string_view name, std::span<const std::string> known, std::string_view plural) {
  if (const auto nearest = nearest_name(name, known)) return "did you mean " + in_quotes(*nearest) + "?";
  if (known.empty()) return "there are no known " + std::string(plural);
  std::string list;
  for (const std::string& candidate : known) {
    if (!list.empty()) list += ", ";
    list += candidate;
  }
  return "known " + std::string(plural) + ": " + list;
}

}  // namespace gpusim
