// SPDX-License-Identifier: Apache-2.0
// Where a sweep's rows go: a file that can be gone on with after an interruption, or a stream.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "sim/sweep/points.hpp"
#include "sim/sweep/rows.hpp"

namespace gpusim::sweep {

/// What a file belongs to: only the same sweep may go on with it.
struct Identity {
  std::string digest;       ///< Of all that its rows depend on.
  std::string description;  ///< For people, in lines: scenario, axes, columns.
  std::string version{};    ///< Of gpusim.
  std::string input{};      ///< Digest of what was read.
};

class Table {
 public:
  Table() = default;
  virtual ~Table() = default;
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  /// Points whose rows are all there already, from the first of the stretch on.
  virtual std::int64_t finished() const = 0;
  /// Rows of the next `points` points. They survive the end of the process, however it ends.
  virtual void append(std::string_view rows, std::int64_t points) = 0;
};

struct TableOptions {
  std::string path;
  Identity identity;
  Stretch points;
  std::size_t rows_per_point = 1;  ///< Variants.
  bool resume = false;             ///< Go on with what is there; else it is overwritten.
};

/// By the ending of the file: .csv, .jsonl, .ndjson, .sqlite, .db. Throws ConfigError for others.
Format format_of(const std::string& path);

/// Beside PATH lies PATH.sweep, which says what sweep it belongs to; a database says it in its table `sweep`.
/// Resuming, what a kill has left of an unfinished point is cut off. Throws ConfigError, located at the file:
/// it cannot be written, belongs to another sweep, or is being written by somebody else.
std::unique_ptr<Table> open_table(const TableOptions& options, const RowEncoder& encoder);

/// Rows go to `out` as they come.
std::unique_ptr<Table> stream_table(std::function<void(std::string_view)> out, const RowEncoder& encoder);

/// A file that does as a database; see open_table().
std::unique_ptr<Table> open_database(const TableOptions& options, const RowEncoder& encoder);

}  // namespace gpusim::sweep
