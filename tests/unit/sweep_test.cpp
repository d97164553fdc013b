// SPDX-License-Identifier: Apache-2.0
// The parts of a sweep: axes, points, rows, files, order.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>
#include <thread>

#include "sim/config/error.hpp"
#include "sim/sweep/axis.hpp"
#include "sim/sweep/in_order.hpp"
#include "sim/sweep/points.hpp"
#include "sim/sweep/rows.hpp"
#include "sim/sweep/table.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/message_of.hpp"

namespace fs = std::filesystem;
using namespace gpusim;
using namespace gpusim::sweep;
using gpusim::test::ContainsSubstring;
using gpusim::test::content;
using gpusim::test::Folder;
using gpusim::test::message_of;

namespace {

using Strings = std::vector<std::string>;

Strings values(const std::string& text) {
  return parse_axis("a.b=" + text).values;
}

/// Two variants, one result column that is the number of the point.
std::string rows_of(const RowEncoder& encoder, const Stretch& points) {
  std::string out;
  for (std::int64_t point = points.first; point < points.end; ++point)
    for (const char* variant : {"one", "two"}) {
      encoder.begin(out, point);
      encoder.add_encoded(out, encoder.variant_cell(variant));
      encoder.add_encoded(out, encoder.axis_cell(0, "4 us"));
      encoder.add(out, 0, report::Value(point));
      encoder.end(out);
    }
  return out;
}

RowEncoder encoder_of(Format format) {
  return RowEncoder(format, {.axes = {"a.b"}, .results = {"count"}});
}

TableOptions options_of(const std::string& path, bool resume) {
  return {.path = path,
          .identity = {.digest = "d1", .description = "a sweep\n"},
          .points = {10, 20},
          .rows_per_point = 2,
          .resume = resume};
}

}  // namespace

TEST_CASE("An axis takes a list, in which brackets and quotes keep commas and colons together") {
  CHECK(values("h200,a100_80gb") == Strings{"h200", "a100_80gb"});
  CHECK(values("2 us, 4 us") == Strings{"2 us", "4 us"});
  CHECK(values("{base: h200, sms: 64},h200") == Strings{"{base: h200, sms: 64}", "h200"});
  CHECK(values("[1, 2],'x,y:z'") == Strings{"[1, 2]", "'x,y:z'"});
  CHECK(parse_axis("variants.'a=b'.seed=1,2").path == "variants.'a=b'.seed");
}

TEST_CASE("A range with a step includes its end where the steps meet it") {
  CHECK(values("2 us:4 us:1 us") == Strings{"2 us", "3 us", "4 us"});
  CHECK(values("1:10:4") == Strings{"1", "5", "9"});
  CHECK(values("0.1:0.5:0.1") == Strings{"0.1", "0.2", "0.3", "0.4", "0.5"});
  CHECK(values("500 ns:2 us:0.5 us") == Strings{"500 ns", "1000 ns", "1500 ns", "2000 ns"});
  CHECK(values("1 GiB:2 GiB:512 MiB") == Strings{"1 GiB", "1.5 GiB", "2 GiB"});
  CHECK(values("3:3:1") == Strings{"3"});
  CHECK(values("1,4:8:2") == Strings{"1", "4", "6", "8"});
}

TEST_CASE("A logarithmic range has equal ratios between its ends") {
  CHECK(values("1:64:log:7") == Strings{"1", "2", "4", "8", "16", "32", "64"});
  CHECK(values("1 us:100 us:log:3") == Strings{"1 us", "10 us", "100 us"});
  CHECK(values("1 us:10 us:log:3") == Strings{"1 us", "3.16228 us", "10 us"});
  // Whole numbers stay whole, and each comes once: 1, 1.4, 2, 2.8, 4.
  CHECK(values("1:4:log:5") == Strings{"1", "2", "3", "4"});
}

TEST_CASE("What is wrong with an axis is said with its place and a way out") {
  const auto message = [](const std::string& text) { return message_of([&] { parse_axis(text); }); };
  CHECK_THAT(message("x"), ContainsSubstring("--vary x: error: is not an assignment"));
  CHECK_THAT(message("x="), ContainsSubstring("no value after '='"));
  CHECK_THAT(message("x=1,,2"), ContainsSubstring("a value is missing between two commas"));
  CHECK_THAT(message("x=8 us:2 us:1 us"),
             ContainsSubstring("the range begins at '8 us', above its end '2 us'"));
  CHECK_THAT(message("x=1:2:0"), ContainsSubstring("the step must be above 0"));
  CHECK_THAT(message("x=1:2:-1"), ContainsSubstring("the step must be above 0"));
  CHECK_THAT(message("x=1 us:2:1 us"), ContainsSubstring("2 has no unit"));
  CHECK_THAT(message("x=1 us:2 GB:1 us"), ContainsSubstring("'us' and 'GB' measure different things"));
  CHECK_THAT(message("x=1 us:2 use:1 us"), ContainsSubstring("unknown unit 'use'"));
  CHECK_THAT(message("x=1:2"), ContainsSubstring("a range without a step"));
  CHECK_THAT(message("x=0:2:log:3"), ContainsSubstring("begins above 0"));
  CHECK_THAT(message("x=1:2:log:1"), ContainsSubstring("not a count of values from 2 on"));
  CHECK_THAT(message("x=1:10000000:1"), ContainsSubstring("more than 1000000 values (axis_values_max)"));
}

TEST_CASE("In a grid the last axis changes fastest; zipped axes go side by side") {
  const std::vector<Axis> axes{{"a", {"0", "1"}}, {"b", {"0", "1", "2"}}};
  const Points grid(axes, {});
  REQUIRE(grid.count() == 6);
  std::vector<std::uint32_t> at(2);
  grid.at(4, at);
  CHECK(at == std::vector<std::uint32_t>{1, 1});  // 4 = 1 x 3 + 1
  const Points zip({{"a", {"0", "1"}}, {"b", {"0", "1"}}}, {.combine = Combine::Zip});
  REQUIRE(zip.count() == 2);
  zip.at(1, at);
  CHECK(at == std::vector<std::uint32_t>{1, 1});
  CHECK_THAT(message_of([&] { Points(axes, {.combine = Combine::Zip}); }),
             ContainsSubstring("--zip: error: a has 2 values, b has 3"));
  CHECK_THAT(message_of([] {
               Points({{"a", {"0"}}, {"a", {"1"}}}, {});
             }),
             ContainsSubstring("is varied twice"));
}

TEST_CASE("A grid of more points than points_max is refused, and may be drawn from") {
  const std::vector<Axis> axes{{"a", Strings(100'000, "1")}, {"b", Strings(100'000, "1")}};
  CHECK_THAT(message_of([&] { Points(axes, {}); }), ContainsSubstring("points_max"));
  CHECK(Points(axes, {.combine = Combine::Random, .count = 5}).count() == 5);
}

TEST_CASE("Random points are points of the grid, each once, and the same for the same seed") {
  const std::vector<Axis> axes{{"a", Strings(7, "x")}, {"b", Strings(11, "x")}};
  const auto drawn = [&](std::int64_t count, std::uint64_t seed) {
    const Points points(axes, {.combine = Combine::Random, .count = count, .seed = seed});
    std::vector<std::pair<std::uint32_t, std::uint32_t>> all;
    std::vector<std::uint32_t> at(2);
    for (std::int64_t i = 0; i < points.count(); ++i) {
      points.at(i, at);
      CHECK((at[0] < 7 && at[1] < 11));
      all.emplace_back(at[0], at[1]);
    }
    return all;
  };
  const auto all = drawn(1000, 3);  // No more than there are: 77.
  CHECK(all.size() == 77);
  CHECK(std::set(all.begin(), all.end()).size() == 77);
  CHECK(drawn(20, 3) == std::vector(all.begin(), all.begin() + 20));
  CHECK(drawn(20, 4) != drawn(20, 3));
}

TEST_CASE("Shards are stretches that together are all points, each once") {
  for (const std::int64_t points : {0, 1, 5, 100, 1'000'000'000})
    for (const std::int64_t n : {1, 3, 7, 1000}) {
      std::int64_t next = 0;
      for (std::int64_t k = 1; k <= n; ++k) {
        const Stretch part = Shard{k, n}.of(points);
        CHECK(part.first == next);
        CHECK(part.count() >= points / n);
        CHECK(part.count() <= points / n + 1);
        next = part.end;
      }
      CHECK(next == points);
    }
  CHECK(parse_shard("2/8").k == 2);
  CHECK_THAT(message_of([] { parse_shard("0/8"); }), ContainsSubstring("parts are counted from 1 to 8"));
  CHECK_THAT(message_of([] { parse_shard("9/8"); }), ContainsSubstring("--shard 9/8: error"));
  CHECK_THAT(message_of([] { parse_shard("2"); }), ContainsSubstring("write k/n"));
}

TEST_CASE("A row of CSV quotes what needs it, a row of JSON is an object, and neither breaks its line") {
  const RowEncoder csv(Format::Csv, {.axes = {"a.b", "n"}, .results = {"t_us", "regime"}});
  CHECK(csv.header() == "point,variant,a.b,n,t_us,regime,error\n");
  const RowEncoder json(Format::JsonLines, csv.columns());
  CHECK(json.header().empty());
  const auto row = [](const RowEncoder& encoder, bool error) {
    std::string out;
    encoder.begin(out, 7);
    encoder.add_encoded(out, encoder.variant_cell("eager"));
    encoder.add_encoded(out, encoder.axis_cell(0, "{sms: 1, x: 2}"));
    encoder.add_encoded(out, encoder.axis_cell(1, "8"));
    if (error) {
      encoder.end_with_error(out, "f.yaml:1:2: error: \"x\"\n  hint: y");
      return out;
    }
    encoder.add(out, 0, Picoseconds(1'803'000'001));
    encoder.add(out, 1, report::Value(std::string("memory")));
    encoder.end(out);
    return out;
  };
  CHECK(row(csv, false) == "7,eager,\"{sms: 1, x: 2}\",8,1803.000001,memory,\n");
  CHECK(row(csv, true) == "7,eager,\"{sms: 1, x: 2}\",8,,,\"f.yaml:1:2: error: \"\"x\"\" hint: y\"\n");
  CHECK(row(json, false) ==
        "{\"point\":7,\"variant\":\"eager\",\"a.b\":\"{sms: 1, x: 2}\",\"n\":8,\"t_us\":1803.000001,"
        "\"regime\":\"memory\",\"error\":null}\n");
  CHECK(row(json, true) ==
        "{\"point\":7,\"variant\":\"eager\",\"a.b\":\"{sms: 1, x: 2}\",\"n\":8,\"t_us\":null,\"regime\":null,"
        "\"error\":\"f.yaml:1:2: error: \\\"x\\\" hint: y\"}\n");
}

TEST_CASE("Only what JSON takes as a number is written as one") {
  const RowEncoder json(Format::JsonLines, {.axes = {"n"}, .results = {}});
  const auto cell = [&](const std::string& text) { return json.axis_cell(0, text).substr(5); };
  for (const char* number : {"8", "-3", "0.5", "1e-5", "0"}) CHECK(cell(number) == number);
  for (const char* text : {"08", ".5", "5.", "4 us", "h200", "nan", "inf", "-", "1e", "0x10"})
    CHECK(cell(text) == "\"" + std::string(text) + "\"");
}

TEST_CASE("The cells of a row survive the way to a database") {
  const RowEncoder encoder = encoder_of(Format::Cells);
  const std::string bytes = rows_of(encoder, {5, 6});
  std::string_view rest = bytes;
  const std::vector<report::Value> first = read_cells(rest, encoder.columns().all().size());
  const std::vector<report::Value> second = read_cells(rest, encoder.columns().all().size());
  CHECK(rest.empty());
  CHECK(first == std::vector<report::Value>{std::int64_t{5}, std::string("one"), std::string("4 us"),
                                            std::int64_t{5}, std::monostate()});
  CHECK(second[1] == report::Value(std::string("two")));
}

TEST_CASE("A file that ends anywhere is gone on with from the last whole point") {
  for (const Format format : {Format::Csv, Format::JsonLines}) {
    const Folder folder;
    const std::string path = folder / (format == Format::Csv ? "a.csv" : "a.jsonl");
    const RowEncoder encoder = encoder_of(format);
    open_table(options_of(path, false), encoder)->append(rows_of(encoder, {10, 20}), 10);
    const std::string whole = content(path);
    // Every length, torn lines and half points among them.
    for (std::size_t length = 0; length <= whole.size(); length += 7) {
      std::ofstream(path, std::ios::binary) << whole.substr(0, length);
      {
        const auto table = open_table(options_of(path, true), encoder);
        const std::int64_t done = table->finished();
        CHECK(content(path) == encoder.header() + rows_of(encoder, {10, 10 + done}));
        table->append(rows_of(encoder, {10 + done, 20}), 10 - done);
      }
      REQUIRE(content(path) == whole);
    }
    const auto table = open_table(options_of(path, true), encoder);
    CHECK(table->finished() == 10);
  }
}

TEST_CASE("Only the sweep that a file belongs to goes on with it") {
  const Folder folder;
  const RowEncoder encoder = encoder_of(Format::Csv);
  const std::string path = folder / "a.csv";
  open_table(options_of(path, false), encoder)->append(rows_of(encoder, {10, 12}), 2);
  TableOptions other = options_of(path, true);
  other.identity.digest = "d2";
  CHECK_THAT(message_of([&] { open_table(other, encoder); }),
             ContainsSubstring("a.csv: error: belongs to another sweep"));
  fs::remove(path + ".sweep");
  CHECK_THAT(message_of([&] { open_table(options_of(path, true), encoder); }),
             ContainsSubstring("that says which sweep it belongs to"));
  // Without --resume it is overwritten.
  other.resume = false;
  CHECK(open_table(other, encoder)->finished() == 0);
  CHECK(content(path) == encoder.header());
  // Nothing there yet: a job script can always say --resume.
  CHECK(open_table(options_of(folder / "new.csv", true), encoder)->finished() == 0);
}

TEST_CASE("Two sweeps do not write into one file at once") {
  const Folder folder;
  for (const char* name : {"a.csv", "a.sqlite"}) {
    const RowEncoder encoder = encoder_of(format_of(name));
    const auto first = open_table(options_of(folder / name, true), encoder);
    CHECK_THAT(message_of([&] { open_table(options_of(folder / name, true), encoder); }),
               ContainsSubstring("is being written by another sweep"));
  }
}

TEST_CASE("A database holds the rows, goes on where it was, and refuses another sweep") {
  const Folder folder;
  const RowEncoder encoder = encoder_of(Format::Cells);
  const std::string path = folder / "a.sqlite";
  open_table(options_of(path, false), encoder)->append(rows_of(encoder, {10, 13}), 3);
  {
    const auto table = open_table(options_of(path, true), encoder);
    CHECK(table->finished() == 3);
    table->append(rows_of(encoder, {13, 20}), 7);
  }
  CHECK(open_table(options_of(path, true), encoder)->finished() == 10);
  TableOptions other = options_of(path, true);
  other.identity.digest = "d2";
  CHECK_THAT(message_of([&] { open_table(other, encoder); }), ContainsSubstring("belongs to another sweep"));
  other.resume = false;
  CHECK(open_table(other, encoder)->finished() == 0);
}

TEST_CASE("The ending of a file says its format") {
  CHECK(format_of("a.csv") == Format::Csv);
  CHECK(format_of("dir.x/a.jsonl") == Format::JsonLines);
  CHECK(format_of("a.sqlite") == Format::Cells);
  CHECK_THAT(message_of([] { format_of("a.xlsx"); }), ContainsSubstring("unknown ending '.xlsx'"));
  CHECK_THAT(message_of([] { format_of("a"); }), ContainsSubstring("no ending"));
}

namespace {

class SlowWorker : public Worker {
 public:
  /// Points take very different times.
  std::string rows(const Stretch& points) override {
    std::string out;
    for (std::int64_t point = points.first; point < points.end; ++point) {
      std::this_thread::sleep_for(std::chrono::microseconds(point % 7 == 0 ? 900 : 30));
      out += std::to_string(point) + "\n";
    }
    return out;
  }
};

}  // namespace

TEST_CASE("Rows come in the order of points whatever the number of threads") {
  std::string expected;
  for (int point = 3; point < 400; ++point) expected += std::to_string(point) + "\n";
  for (const int jobs : {1, 2, 5}) {
    std::string written;
    std::int64_t next = 3;
    run_in_order({.points = {3, 400},
                  .jobs = jobs,
                  .make_worker = [] { return std::make_unique<SlowWorker>(); },
                  .write =
                      [&](const Stretch& points, std::string_view rows) {
                        CHECK(points.first == next);
                        next = points.end;
                        written += rows;
                      },
                  .stop = {}});
    CHECK(written == expected);
  }
}

TEST_CASE("A stop finishes what has begun and leaves the rest") {
  for (const int jobs : {1, 3}) {
    std::atomic<bool> stop{false};
    std::int64_t next = 0;
    run_in_order({.points = {0, 100'000},
                  .jobs = jobs,
                  .make_worker = [] { return std::make_unique<SlowWorker>(); },
                  .write =
                      [&](const Stretch& points, std::string_view) {
                        CHECK(points.first == next);
                        next = points.end;
                        if (next > 50) stop = true;
                      },
                  .stop = [&] { return stop.load(); }});
    CHECK(next > 50);
    CHECK(next < 50'000);
  }
}

TEST_CASE("What a worker throws ends the sweep and reaches its caller") {
  class Broken : public Worker {
   public:
    std::string rows(const Stretch&) override { throw std::runtime_error("broken"); }
  };
  for (const int jobs : {1, 3})
    CHECK_THROWS_WITH(run_in_order({.points = {0, 10},
                                    .jobs = jobs,
                                    .make_worker = [] { return std::make_unique<Broken>(); },
                                    .write = [](const Stretch&, std::string_view) {},
                                    .stop = {}}),
                      "broken");
}

TEST_CASE("Stretches are as long as 20 ms of points, and short where points are slow") {
  StretchLength length;
  CHECK(length.next() == 1);
  length.took(1, 0.001);
  CHECK(length.next() == 20);
  length.took(20, 20 * 0.00001);  // Faster: not believed at once.
  CHECK(length.next() < 100);
  length.took(1, 5);
  CHECK(length.next() == 1);
}
