// SPDX-License-Identifier: Apache-2.0
// YAML text to a tree. The only place that knows the YAML library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/node.hpp"

namespace gpusim::config {

class InputDigest;

/// What a file may cost. Each error that a limit causes names it.
struct Limits {
  std::size_t file_bytes = 16 << 20;
  int depth = 64;                  ///< Nested lists and maps; at most 400.
  std::size_t values = 1'000'000;  ///< Values in the tree, with every alias counted as often as it is used.
  std::size_t scalar_bytes = 1 << 16;  ///< Length of one key or value.
};

/// The file's one YAML document. Throws ConfigError: missing or unreadable file, a directory, an empty file,
/// not text, bad YAML, duplicate keys, keys that are not plain words, more than one document, a limit.
/// Messages name the file as `file` is written.
Node load_file(const std::filesystem::path& file, const Limits& limits = {});

/// The same for text that came from elsewhere; `name` stands for the file in messages.
Node load_text(std::string_view text, const std::string& name, const Limits& limits = {});

/// Trees of files, for a process that reads the same files again and again. A file is read anew once its size
/// or the time of its last change is another one. Not for several threads at once.
class FileStore {
 public:
  /// As load_file().
  Node load(const std::filesystem::path& file);
  /// Tells `inputs` all that has been read.
  void note(InputDigest& inputs) const;

 private:
  struct Known {
    std::uintmax_t bytes = 0;
    std::filesystem::file_time_type changed;
    Node tree;
  };
  std::map<std::string, Known> known_;
};

}  // namespace gpusim::config
