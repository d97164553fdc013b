// SPDX-License-Identifier: Apache-2.0
// A name for all that an answer was worked out from, so that two outputs can be told to answer the same
// question: on other machines, from other folders, years later.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "sim/config/node.hpp"

namespace gpusim::config {

/// SHA-256 (FIPS 180-4) of the bytes, as 64 hexadecimal digits.
std::string sha256(std::string_view bytes);

/// What was read for one answer. What counts is what the files say, each once, in whatever order they were
/// read: not their names, folders, comments and spaces. Of a profiler trace its bytes count. Two versions of
/// gpusim give one input the same digest as long as they read the same files for it.
class InputDigest {
 public:
  /// A configuration, or the scenario itself, as read.
  void add_tree(const Node& tree);
  /// A scenario after `--set`. Left out are paths that lead to files which add_trace() and add_tree() get:
  /// `workload.trace` and `workload.hf_config`, of variants too; and where it comes from a trace, its name,
  /// which is then the path.
  void add_scenario(const Node& tree, bool from_trace);
  /// A file by its bytes. A pipe or a file that has gone counts as "unknown": it cannot be read twice.
  void add_trace(const std::string& path);
  /// Anything else: "steps", "4".
  void add(std::string_view what, std::string_view value);

  /// "sha256:" and the SHA-256 of the sorted lines "WHAT DIGEST-OR-VALUE", each with a line break.
  std::string text() const;

 private:
  std::set<std::string> lines_;
};

/// "gpusim 0.1.0, input sha256:0123456789abcdef" with a line break: the first 16 digits, for people.
std::string origin_line(std::string_view version, std::string_view input);

}  // namespace gpusim::config
