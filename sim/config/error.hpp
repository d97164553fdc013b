// SPDX-License-Identifier: Apache-2.0
// What the user did wrong, where, and the way out. Printed as a compiler does, so that editors jump to the
// place:
//
//   scenarios/two_gpus.yaml:14:16: error: hardware.memory.bandwidth: unknown unit 'GBs'
//     hint: write a rate such as '4.8 TB/s'
#pragma once

#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace gpusim {

/// A place in the user's input. Lines and columns count from 1; line 0 means the file (or `--set` argument)
/// as a whole.
struct Location {
  std::string file;
  int line = 0;
  int column = 0;

  bool operator==(const Location&) const = default;
};

/// "file:line:column", "file" without a line, "" without a file.
std::string to_string(const Location& where);

/// One mistake. `path` is the key path ("workload.kernels[2].duration"), empty if the mistake concerns no
/// key.
struct Diagnostic {
  Location where;
  std::string path;
  std::string what;
  std::string hint;

  bool operator==(const Diagnostic&) const = default;
};

/// "file:line:column: error: path: what" and, on a second line, "  hint: ...". No newline at the end.
std::string to_string(const Diagnostic& diagnostic);

/// The user is wrong (scenario, flags, files). Holds at least one diagnostic; what() prints all of them.
class ConfigError : public std::runtime_error {
 public:
  explicit ConfigError(Diagnostic diagnostic);
  explicit ConfigError(std::vector<Diagnostic> diagnostics);
  /// A mistake that no one line of a file shows, such as a sum that overflows.
  ConfigError(std::string path, std::string what, std::string hint);

  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

/// Gathers several mistakes, so that a user can mend five typos at once.
///
///   Errors errors;
///   errors.collect([&] { spec.capacity = node.at("capacity").as<Bytes>(); });
///   errors.collect([&] { spec.bandwidth = node.at("bandwidth").as<BytesPerSecond>(positive); });
///   errors.throw_if_any();
class Errors {
 public:
  void add(Diagnostic diagnostic) { diagnostics_.push_back(std::move(diagnostic)); }
  void add(const ConfigError& error);

  /// Runs `read` and keeps the ConfigError it may throw. Returns what `read` returns as an optional (empty
  /// after an error), or whether it succeeded if it returns nothing.
  template <class Read>
  auto collect(Read&& read) {
    using Result = std::invoke_result_t<Read>;
    if constexpr (std::is_void_v<Result>) {
      try {
        std::forward<Read>(read)();
        return true;
      } catch (const ConfigError& error) {
        add(error);
        return false;
      }
    } else {
      try {
        return std::optional<Result>(std::forward<Read>(read)());
      } catch (const ConfigError& error) {
        add(error);
        return std::optional<Result>();
      }
    }
  }

  bool empty() const { return diagnostics_.empty(); }
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }
  /// Throws one ConfigError with everything gathered, in the order of the places in the file.
  void throw_if_any() const;

 private:
  std::vector<Diagnostic> diagnostics_;
};

/// The name in `known` nearest to `name` by edit distance, if it is near enough to be a typo of it. Upper and
/// lower case, '-' and '_' count as nearly equal. The first of equally near names.
std::optional<std::string> nearest_name(std::string_view name, std::span<const std::string> known);

/// A hint for an unknown name: "did you mean 'h200'?" if one is near, and else "known <plural>: a, b, c".
std::string name_hint(std::string_view name, std::span<const std::string> known, std::string_view plural);

}  // namespace gpusim
