// SPDX-License-Identifier: Apache-2.0
// YAML text to a tree. The only place that knows the YAML library.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/limits.hpp"
#include "sim/config/node.hpp"

namespace gpusim::config {

class InputDigest;

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
  explicit FileStore(const Limits& limits = {}) : limits_(limits) {}
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
  Limits limits_;
  std::map<std::string, Known> known_;
};

}  // namespace gpusim::config
