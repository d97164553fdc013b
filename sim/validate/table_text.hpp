// SPDX-License-Identifier: Apache-2.0
// What all tables of measurements have in common: a header of known columns, and limits in comments. Internal
// to sim/validate.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gpusim::validate {

/// Where a mistake stands in its line, its key's path, what is wrong and the way out.
using Fail = std::function<void(int column, const std::string& path, const std::string& what,
                                const std::string& hint)>;

/// The columns that a header line names, in its order. Mistakes: a column that is not known, is there twice,
/// or is needed and missing.
std::vector<std::string> read_columns(const std::string& line, std::span<const std::string> known,
                                      std::span<const std::string> needed, const Fail& fail);

/// `KEY=5%` of a limit.
struct LimitWord {
  std::string key;
  double share = 0;  ///< 0.05.
};
/// Nothing for a word without '='. No key, or a value that is no percentage, is a mistake, and `key` is
/// empty.
std::optional<LimitWord> read_limit_word(const std::string& word, const std::string& example,
                                         const Fail& fail);

}  // namespace gpusim::validate
