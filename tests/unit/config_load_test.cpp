// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "sim/config/load.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/message_of.hpp"

namespace gpusim::config {
namespace {

using test::message_of;

std::string repeated(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

/// `levels` lists, each holding the one before it `width` times: width^levels values behind a few hundred
/// bytes.
std::string alias_bomb(int levels, int width) {
  std::string text = "a0: &a0 x\n";
  for (int level = 1; level <= levels; ++level) {
    const std::string name = "a" + std::to_string(level);
    const std::string below = "*a" + std::to_string(level - 1);
    text += name + ": &" + name + " [" + below + repeated(", " + below, width - 1) + "]\n";
  }
  return text;
}

TEST_CASE("Columns count characters, not bytes", "[unit][config]") {
  const Node node = load_text("{\u00b5\u00b5: 1, b: 2}", "f.yaml");
  CHECK(to_string(node.at("b").location()) == "f.yaml:1:12");
}

TEST_CASE("Lines end with LF or CRLF, and a byte order mark is no part of the text", "[unit][config]") {
  const Node node = load_text(
      "\xEF\xBB\xBF"
      "a: 1\r\nb: x\r\n",
      "f.yaml");
  CHECK(node.at("a").text() == "1");
  CHECK(node.at("b").text() == "x");
  CHECK(node.at("b").location().line == 2);
}

TEST_CASE("Aliases stand for their anchor's value, at the anchor's place", "[unit][config]") {
  const Node node = load_text("a: &x {p: 1}\nb: *x\n", "f.yaml");
  CHECK(node.at("b").at("p").text() == "1");
  CHECK(node.at("b").at("p").path() == "b.p");
  CHECK(node.at("b").at("p").location().line == 1);
}

TEST_CASE("A merge key fills in what the map itself does not say", "[unit][config]") {
  const Node node =
      load_text("a: &a {p: 1, q: 1}\nb: &b {q: 2, r: 2}\nc: {q: 3, <<: *a}\nd: {<<: [*a, *b]}\n", "f.yaml");
  CHECK(node.at("c").at("p").text() == "1");
  CHECK(node.at("c").at("q").text() == "3");
  CHECK(node.at("d").keys() == std::vector<std::string>{"p", "q", "r"});
  CHECK(node.at("d").at("q").text() == "1");
}

TEST_CASE("A number keeps the spelling of the file until it is read", "[unit][config]") {
  const Node node = load_text("{a: 010, b: '12', c: 1e3}", "f.yaml");
  CHECK(node.at("a").text() == "010");
  CHECK_THROWS_AS(node.at("a").as<std::int64_t>(), ConfigError);
  CHECK(node.at("b").as<std::int64_t>() == 12);
  CHECK(node.at("c").as<std::int64_t>() == 1000);
}

TEST_CASE("JSON is YAML", "[unit][config]") {
  const Node node =
      load_text("{\"layers\": 12,\n\t\"act\": \"gelu\", \"tied\": true, \"bias\": null}\n", "config.json");
  CHECK(node.at("layers").as<std::int64_t>() == 12);
  CHECK(node.at("act").as<std::string>() == "gelu");
  CHECK(node.at("tied").as<bool>());
  CHECK(node.at("bias").is_null());
}

TEST_CASE("Nesting is accepted up to the limit and refused one level deeper", "[unit][config][bad_input]") {
  const Limits limits{.depth = 8};
  CHECK_NOTHROW(load_text(repeated("[", 8) + repeated("]", 8), "f.yaml", limits));
  CHECK(message_of([&] { load_text(repeated("[", 9) + repeated("]", 9), "f.yaml", limits); }) ==
        "f.yaml:1:9: error: lists and maps nested deeper than the limit depth = 8");
  CHECK(message_of([&] { load_text("a: &a [[[[[x]]]]]\nb: [[*a]]\n", "f.yaml", limits); }) == "no error");
  CHECK(message_of([&] { load_text("a: &a [[[[[x]]]]]\nb: [[[*a]]]\n", "f.yaml", limits); }) ==
        "f.yaml:2:7: error: lists and maps nested deeper than the limit depth = 8");
}

TEST_CASE("The depth limit cannot be raised beyond what the parser survives", "[unit][config][bad_input]") {
  const Limits limits{.depth = 1'000'000};
  CHECK_NOTHROW(load_text(repeated("[", 400) + repeated("]", 400), "f.yaml", limits));
  CHECK(message_of([&] { load_text(repeated("[", 600) + repeated("]", 600), "f.yaml", limits); }) ==
        "f.yaml:1:401: error: lists and maps nested deeper than the limit depth = 400");
}

TEST_CASE("Nesting of any kind and depth is refused, not followed to the end of the stack",
          "[unit][config][bad_input]") {
  const auto level =
      GENERATE(as<std::string>(), "[", "{a: ", "- ", "? ", "[a: ", "[\n", "- ? ", "&a [", "!!seq [");
  const std::string message = message_of([&] { load_text(repeated(level, 100'000), "f.yaml"); });
  INFO(message);
  CHECK(message.starts_with("f.yaml:"));
}

TEST_CASE("An alias bomb is refused as soon as it is too large, whatever its shape",
          "[unit][config][bad_input]") {
  CHECK_NOTHROW(load_text(alias_bomb(5, 10), "f.yaml"));
  CHECK(message_of([] { load_text(alias_bomb(40, 10), "f.yaml"); }) ==
        "f.yaml:7:45: error: more values than the limit values = 1000000, aliases expanded");
  CHECK_THROWS_AS(load_text(alias_bomb(60, 2), "f.yaml"), ConfigError);
}

TEST_CASE("Aliases count as often as they are used", "[unit][config][bad_input]") {
  // The map, its three keys, the list of three and its two aliases of four each.
  const std::string text = "a: &a [1, 2, 3]\nb: *a\nc: *a\n";
  CHECK_NOTHROW(load_text(text, "f.yaml", {.values = 1 + 3 + 4 + 4 + 4}));
  CHECK(message_of([&] { load_text(text, "f.yaml", {.values = 1 + 3 + 4 + 4 + 3}); }) ==
        "f.yaml:3:4: error: more values than the limit values = 15, aliases expanded");
}

TEST_CASE("Each limit says its name", "[unit][config][bad_input]") {
  CHECK_NOTHROW(load_text("abcd: 1234", "f.yaml", {.file_bytes = 10, .scalar_bytes = 4}));
  CHECK(message_of([] { load_text("a: 12345\n", "f.yaml", {.file_bytes = 8}); }) ==
        "f.yaml: error: larger than the limit file_bytes = 8");
  CHECK(message_of([] { load_text("a: 12345\n", "f.yaml", {.scalar_bytes = 4}); }) ==
        "f.yaml:1:4: error: a value of 5 bytes is longer than the limit scalar_bytes = 4");
  CHECK(message_of([] { load_text("abcde: 1\n", "f.yaml", {.scalar_bytes = 4}); }) ==
        "f.yaml:1:1: error: a value of 5 bytes is longer than the limit scalar_bytes = 4");
}

/// Asks everything of a tree that can be asked.
std::size_t visited(const Node& node) {
  std::size_t count = 1 + node.path().size() + to_string(node.location()).size();
  if (node.is_list()) {
    for (const Node& item : node.items()) count += visited(item);
  }
  if (node.is_map()) {
    for (const auto& [key, value] : node.entries()) count += key.size() + visited(value);
  }
  return count;
}

TEST_CASE("A damaged file is read or refused, nothing else", "[unit][config][bad_input]") {
  const std::string good =
      "name: lesson\nhardware: {base: &b h200, memory: {bandwidth: 4.8 TB/s}}\n"
      "workload:\n  kernels:\n    - {kernel: 'gemm', duration: 3 us, after: [e1, e2]}\n    - work: \"5 "
      "\\u00b5s\"\n"
      "    -\n      copy: h2d\n      note: |\n        two\n        lines\nvariants:\n  eager: {}\n  other: "
      "*b # why\n";
  const std::string bits = "{}[]:,-?&*!|>'\"%@`#\t \n\r\\~.<0aT\xC2\xB5\xFF\x01";
  std::minstd_rand random(20);  // The same sequence everywhere.
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  std::size_t read = 0;
  std::size_t refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = good;
    for (std::size_t edits = 1 + below(4); edits > 0; --edits) {
      const std::size_t at = below(text.size());
      switch (below(4)) {
        case 0:
          text[at] = bits[below(bits.size())];
          break;
        case 1:
          text.insert(at, 1 + below(3), bits[below(bits.size())]);
          break;
        case 2:
          text.erase(at, 1 + below(8));
          break;
        default:
          text.insert(below(text.size()), text.substr(at, below(20)));
      }
    }
    try {
      read += visited(load_text(text, "f.yaml")) > 0 ? 1U : 0U;
    } catch (const ConfigError& error) {
      ++refused;
      if (!std::string(error.what()).starts_with("f.yaml:")) FAIL(text << "\n" << error.what());
    }
  }
  CHECK(read > 300);
  CHECK(refused > 300);
  CHECK(read + refused == 3000);
}

TEST_CASE("Files that cannot be read are named with the reason", "[unit][config][bad_input]") {
  CHECK(message_of([] { load_file("no/such/scenario.yaml"); }) ==
        "no/such/scenario.yaml: error: no such file");
  CHECK(message_of([] { load_file(GPUSIM_SOURCE_DIR "/tests/data"); }) == GPUSIM_SOURCE_DIR
        "/tests/data: error: is a directory, not a file");
  if (std::filesystem::exists("/dev/zero")) {
    CHECK(message_of([] { load_file("/dev/zero"); }) ==
          "/dev/zero: error: larger than the limit file_bytes = 16777216");
  }
}

TEST_CASE("A file is read as its text is", "[unit][config]") {
  const Node node = load_file(GPUSIM_SOURCE_DIR "/tests/data/names/beside/lab.yaml");
  CHECK(node.at("name").as<std::string>() == "beside");
  CHECK(node.location().file == GPUSIM_SOURCE_DIR "/tests/data/names/beside/lab.yaml");
}

TEST_CASE("A store gives a file's tree again until the file changes", "[unit][config]") {
  namespace fs = std::filesystem;
  const fs::path file =
      fs::temp_directory_path() / ("gpusim-store-" + std::to_string(std::random_device{}()) + ".yaml");
  const auto write = [&](const char* text) { std::ofstream(file) << text; };
  FileStore store;
  write("a: 1\n");
  const Node first = store.load(file);
  CHECK(store.load(file).item() == first.item());  // not read again
  write("a: 12\n");                                // another size
  CHECK(store.load(file).at("a").as<std::int64_t>() == 12);
  write("a: 34\n");
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(2));  // another time
  CHECK(store.load(file).at("a").as<std::int64_t>() == 34);
  CHECK(first.at("a").as<std::int64_t>() == 1);  // trees that were given stay as they are
  fs::remove(file);
  CHECK(message_of([&] { store.load(file); }) == file.string() + ": error: no such file");
}

}  // namespace
}  // namespace gpusim::config
