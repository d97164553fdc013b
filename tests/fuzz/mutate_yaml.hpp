// SPDX-License-Identifier: Apache-2.0
// Mutations that keep the form of a YAML or JSON document, or of lines of text, so that what is behind the
// parser is reached. The same seed gives the same mutation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gpusim::fuzz {

/// Keys and values deleted, doubled, swapped, replaced by extremes, by unknown words, and by parts of the
/// project's own scenarios and configurations. Bytes are mutated where the text is no YAML.
std::string mutate_yaml(std::string_view text, std::uint64_t seed);
/// The same, written as JSON.
std::string mutate_json(std::string_view text, std::uint64_t seed);
/// Numbers, words and operators of lines changed, lines deleted, doubled and swapped.
std::string mutate_lines(std::string_view text, std::uint64_t seed);

}  // namespace gpusim::fuzz
