// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/table.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include "sim/config/error.hpp"
#include "sim/config/whole.hpp"

namespace gpusim::sweep {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& path, std::string what, std::string hint = {}) {
  throw ConfigError(
      Diagnostic{.where = whole(path), .path = {}, .what = std::move(what), .hint = std::move(hint)});
}

std::string reason() {
  return std::generic_category().message(errno);
}

class File {
 public:
  File() = default;
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

/// The lines of a text file, whole ones only, with the place behind each.
class Lines {
 public:
  explicit Lines(int descriptor) : descriptor_(descriptor), buffer_(1 << 20) {}

  /// False at the end, or where the rest has no line break.
  bool next(std::string& line) {
    line.clear();
    for (;;) {
      for (; at_ < size_; ++at_) {
        const char c = buffer_[at_];
        ++offset_;
        if (c == '\n') {
          ++at_;
          return true;
        }
        line += c;
      }
      const ssize_t got = ::read(descriptor_, buffer_.data(), buffer_.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      at_ = 0;
      size_ = static_cast<std::size_t>(got);
    }
  }
  /// Bytes up to and with the line break of the last line.
  std::int64_t offset() const { return offset_; }

 private:
  int descriptor_;
  std::vector<char> buffer_;
  std::size_t at_ = 0;
  std::size_t size_ = 0;
  std::int64_t offset_ = 0;
};

constexpr std::string_view first_line = "gpusim sweep, digest ";

class TextTable : public Table {
 public:
  TextTable(const TableOptions& options, const RowEncoder& encoder)
      : path_(options.path), file_(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    if (file_.descriptor() < 0) fail(path_, "cannot be written: " + reason());
    if (::flock(file_.descriptor(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
      fail(path_, "is being written by another sweep");
    const bool goes_on = options.resume && is_known(options.identity);
    const std::int64_t keep = goes_on ? scan(options, encoder) : 0;
    if (::ftruncate(file_.descriptor(), keep) != 0) fail(path_, "cannot be written: " + reason());
    if (::lseek(file_.descriptor(), keep, SEEK_SET) < 0) fail(path_, "cannot be written: " + reason());
    if (!goes_on) write_identity(options.identity);
    if (keep == 0) write(encoder.header());
  }

  std::int64_t finished() const override { return finished_; }
  void append(std::string_view rows, std::int64_t points) override {
    write(rows);
    finished_ += points;
  }

 private:
  std::string side_path() const { return path_ + ".sweep"; }

  /// Whether there is something to go on with. Throws if it belongs to another sweep.
  bool is_known(const Identity& identity) {
    std::ifstream side(side_path());
    std::string line;
    const bool has_side = static_cast<bool>(std::getline(side, line));
    std::error_code ignored;
    if (!has_side) {
      if (fs::file_size(path_, ignored) == 0) return false;
      fail(path_, fmt::format("there is no {} that says which sweep it belongs to", side_path()),
           "without --resume the file is overwritten");
    }
    if (line != std::string(first_line) + identity.digest)
      fail(path_, fmt::format("belongs to another sweep: see {}", side_path()),
           "a sweep goes on with the same scenario, options and version; without --resume the file is "
           "overwritten");
    return true;
  }

  void write_identity(const Identity& identity) {
    // Renamed into place: it is there as a whole or not at all.
    const std::string unfinished = side_path() + ".new";
    {
      std::ofstream side(unfinished, std::ios::binary);
      side << first_line << identity.digest << '\n' << identity.description;
      side.flush();
      if (!side) fail(unfinished, "cannot be written: " + reason());
    }
    std::error_code error;
    fs::rename(unfinished, side_path(), error);
    if (error) fail(side_path(), "cannot be written: " + error.message());
  }

  /// How many bytes hold whole points; counts them.
  std::int64_t scan(const TableOptions& options, const RowEncoder& encoder) {
    Lines lines(file_.descriptor());
    std::string line;
    std::int64_t keep = 0;
    if (const std::string header = encoder.header(); !header.empty()) {
      if (!lines.next(line)) return 0;
      if (line + '\n' != header) fail(path_, "its first line is not that of this sweep");
      keep = lines.offset();
    }
    std::string begin;
    for (std::int64_t point = options.points.first; point < options.points.end; ++point) {
      begin.clear();
      encoder.begin(begin, point);
      begin += ',';
      for (std::size_t row = 0; row < options.rows_per_point; ++row)
        if (!lines.next(line) || !line.starts_with(begin)) return keep;
      keep = lines.offset();
      ++finished_;
    }
    return keep;
  }

  void write(std::string_view text) {
    while (!text.empty()) {
      const ssize_t written = ::write(file_.descriptor(), text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) fail(path_, "cannot be written: " + reason());
      text.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  std::string path_;
  File file_;
  std::int64_t finished_ = 0;
};

class StreamTable : public Table {
 public:
  StreamTable(std::function<void(std::string_view)> out, const RowEncoder& encoder) : out_(std::move(out)) {
    const std::string header = encoder.header();
    if (!header.empty()) out_(header);
  }
  std::int64_t finished() const override { return finished_; }
  void append(std::string_view rows, std::int64_t points) override {
    out_(rows);
    finished_ += points;
  }

 private:
  std::function<void(std::string_view)> out_;
  std::int64_t finished_ = 0;
};

}  // namespace

Format format_of(const std::string& path) {
  const std::string ending = fs::path(path).extension().string();
  if (ending == ".csv") return Format::Csv;
  if (ending == ".jsonl" || ending == ".ndjson") return Format::JsonLines;
  if (ending == ".sqlite" || ending == ".db") return Format::Cells;
  fail("--out " + path,
       ending.empty() ? "the file has no ending that says its format"
                      : fmt::format("unknown ending '{}'", ending),
       "known: .csv, .jsonl, .ndjson, .sqlite, .db");
}

std::unique_ptr<Table> open_table(const TableOptions& options, const RowEncoder& encoder) {
  if (encoder.format() == Format::Cells) return open_database(options, encoder);
  return std::make_unique<TextTable>(options, encoder);
}

std::unique_ptr<Table> stream_table(std::function<void(std::string_view)> out, const RowEncoder& encoder) {
  return std::make_unique<StreamTable>(std::move(out), encoder);
}

}  // namespace gpusim::sweep
