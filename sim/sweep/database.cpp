// SPDX-License-Identifier: Apache-2.0
// A sweep's rows in an SQLite database: table `results` with a column for each of the sweep's, table `sweep`
// with what the sweep is. Each append() is one transaction.
#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "sim/config/error.hpp"
#include "sim/config/whole.hpp"
#include "sim/sweep/table.hpp"

#ifdef GPUSIM_HAS_SQLITE
#include <sqlite3.h>
#endif

namespace gpusim::sweep {
namespace {

[[noreturn]] void fail(const std::string& path, std::string what, std::string hint = {}) {
  throw ConfigError(
      Diagnostic{.where = whole(path), .path = {}, .what = std::move(what), .hint = std::move(hint)});
}

#ifdef GPUSIM_HAS_SQLITE

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
};
struct FinalizeStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

std::string quoted_name(const std::string& name) {
  std::string out = "\"";
  for (const char c : name) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

class Database : public Table {
 public:
  Database(const TableOptions& options, const RowEncoder& encoder)
      : path_(options.path), columns_(encoder.columns().all()) {
    if (!options.resume) remove_old();
    sqlite3* raw = nullptr;
    const int opened =
        sqlite3_open_v2(path_.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
    database_.reset(raw);
    if (opened != SQLITE_OK) fail_with_reason("cannot be opened");
    // One writer at a time, and none that waits for another; a killed process loses nothing that it has
    // committed.
    execute("PRAGMA locking_mode=EXCLUSIVE");
    execute("PRAGMA journal_mode=WAL");
    execute("PRAGMA synchronous=NORMAL");
    execute("BEGIN IMMEDIATE");
    if (has_table()) {
      check_identity(options.identity);
      keep_whole_points(options);
    } else {
      create(options.identity);
    }
    execute("COMMIT");
    std::string insert = "INSERT INTO results VALUES (";
    for (std::size_t i = 0; i < columns_.size(); ++i) insert += i == 0 ? "?" : ",?";
    insert_ = prepare(insert + ")");
  }

  std::int64_t finished() const override { return finished_; }

  void append(std::string_view rows, std::int64_t points) override {
    execute("BEGIN IMMEDIATE");
    while (!rows.empty()) {
      const std::vector<report::Value> cells = read_cells(rows, columns_.size());
      for (std::size_t i = 0; i < cells.size(); ++i) bind(static_cast<int>(i + 1), cells[i]);
      if (sqlite3_step(insert_.get()) != SQLITE_DONE) fail_with_reason("cannot be written");
      sqlite3_reset(insert_.get());
    }
    execute("COMMIT");
    finished_ += points;
  }

 private:
  void remove_old() {
    std::error_code ignored;
    for (const char* part : {"", "-wal", "-shm", "-journal"}) std::filesystem::remove(path_ + part, ignored);
  }

  void create(const Identity& identity) {
    std::string table = "CREATE TABLE results (";
    for (std::size_t i = 0; i < columns_.size(); ++i)
      table += (i == 0 ? "" : ", ") + quoted_name(columns_[i]);
    execute(table + ")");
    execute("CREATE TABLE sweep (key TEXT PRIMARY KEY, value TEXT)");
    const Statement insert = prepare("INSERT INTO sweep VALUES (?, ?)");
    for (const auto& [key, value] : {std::pair<const char*, const std::string&>("digest", identity.digest),
                                     {"description", identity.description},
                                     {"gpusim", identity.version},
                                     {"input", identity.input}}) {
      sqlite3_bind_text(insert.get(), 1, key, -1, SQLITE_STATIC);
      sqlite3_bind_text(insert.get(), 2, value.c_str(), -1, SQLITE_STATIC);
      if (sqlite3_step(insert.get()) != SQLITE_DONE) fail_with_reason("cannot be written");
      sqlite3_reset(insert.get());
    }
  }

  bool has_table() {
    const Statement tables = prepare("SELECT count(*) FROM sqlite_master WHERE type='table'");
    if (sqlite3_step(tables.get()) != SQLITE_ROW) fail_with_reason("cannot be read");
    return sqlite3_column_int64(tables.get(), 0) > 0;
  }

  void check_identity(const Identity& identity) {
    Statement digest = prepare("SELECT value FROM sweep WHERE key='digest'");
    const bool found = sqlite3_step(digest.get()) == SQLITE_ROW;
    const auto* text = found ? sqlite3_column_text(digest.get(), 0) : nullptr;
    if (text == nullptr || identity.digest != reinterpret_cast<const char*>(text))
      fail(path_, "belongs to another sweep: see its table 'sweep'",
           "a sweep goes on with the same scenario, options and version; without --resume the file is "
           "overwritten");
  }

  /// Transactions hold whole points; what somebody else has put in or taken out is found here.
  void keep_whole_points(const TableOptions& options) {
    Statement rows = prepare("SELECT point, count(*) FROM results GROUP BY point ORDER BY point");
    while (sqlite3_step(rows.get()) == SQLITE_ROW &&
           sqlite3_column_int64(rows.get(), 0) == options.points.first + finished_ &&
           sqlite3_column_int64(rows.get(), 1) == static_cast<std::int64_t>(options.rows_per_point))
      ++finished_;
    rows.reset();
    execute(fmt::format("DELETE FROM results WHERE point >= {}", options.points.first + finished_));
  }

  Statement prepare(const std::string& sql) {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(database_.get(), sql.c_str(), -1, &statement, nullptr) != SQLITE_OK)
      fail_with_reason("cannot be used");
    return Statement(statement);
  }

  void execute(const std::string& sql) {
    if (sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
      fail_with_reason(sqlite3_errcode(database_.get()) == SQLITE_BUSY ? "is being written by another sweep"
                                                                       : "cannot be written");
  }

  void bind(int at, const report::Value& cell) {
    if (const auto* whole = std::get_if<std::int64_t>(&cell)) {
      sqlite3_bind_int64(insert_.get(), at, *whole);
    } else if (const auto* number = std::get_if<double>(&cell)) {
      sqlite3_bind_double(insert_.get(), at, *number);
    } else if (const auto* text = std::get_if<std::string>(&cell)) {
      sqlite3_bind_text(insert_.get(), at, text->data(), static_cast<int>(text->size()), SQLITE_TRANSIENT);
    } else {
      sqlite3_bind_null(insert_.get(), at);
    }
  }

  [[noreturn]] void fail_with_reason(const std::string& what) {
    fail(path_, what + ": " + sqlite3_errmsg(database_.get()));
  }

  std::string path_;
  std::vector<std::string> columns_;
  std::unique_ptr<sqlite3, CloseDatabase> database_;
  Statement insert_;
  std::int64_t finished_ = 0;
};

#endif

}  // namespace

std::unique_ptr<Table> open_database(const TableOptions& options, const RowEncoder& encoder) {
#ifdef GPUSIM_HAS_SQLITE
  return std::make_unique<Database>(options, encoder);
#else
  static_cast<void>(encoder);
  fail("--out " + options.path, "this gpusim was built without SQLite",
       "install libsqlite3-dev and build again, or write .csv or .jsonl");
#endif
}

}  // namespace gpusim::sweep
