// SPDX-License-Identifier: Apache-2.0
// What a user may get wrong in any YAML file, and the exact answer.
#include <string>

#include "sim/config/load.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/message_of.hpp"

namespace gpusim::config {
namespace {

using namespace std::string_literals;
using test::message_of;

struct Case {
  std::string text;
  std::string message;
};

TEST_CASE("Text that is no YAML document is refused at the place where it goes wrong",
          "[bad_input][config]") {
  const auto bad = GENERATE(values<Case>({
      // Nothing there.
      {"", "f.yaml: error: the file is empty"},
      {"# only a comment\n", "f.yaml: error: the file is empty"},
      {"---\n", "f.yaml: error: the file is empty"},
      {"~\n", "f.yaml: error: the file is empty"},
      // Not text.
      {"\xFF\xFE"
       "a\0"s,
       "f.yaml:1:1: error: byte 0xff is not text\n  hint: a YAML file is UTF-8 text"},
      {"a: 1\nb: \0"s, "f.yaml:2:4: error: byte 0x00 is not text\n  hint: a YAML file is UTF-8 text"},
      {"a: \x04\n", "f.yaml:1:4: error: byte 0x04 is not text\n  hint: a YAML file is UTF-8 text"},
      {"a: 3 \xB5s\n", "f.yaml:1:6: error: byte 0xb5 is not text\n  hint: a YAML file is UTF-8 text"},
      {"a: \xC0\x80\n", "f.yaml:1:4: error: byte 0xc0 is not text\n  hint: a YAML file is UTF-8 text"},
      {"a: \xED\xA0\x80\n", "f.yaml:1:4: error: byte 0xed is not text\n  hint: a YAML file is UTF-8 text"},
      {"\x1f\x8b\x08", "f.yaml:1:1: error: byte 0x1f is not text\n  hint: a YAML file is UTF-8 text"},
      // Indentation.
      {"a:\n\tb: 1\n",
       "f.yaml:2:3: error: bad YAML: illegal map value\n"
       "  hint: this line is indented with a tab: use spaces"},
      {"a:\n  b: 1\n\tc: 2\n",
       "f.yaml:3:1: error: bad YAML: illegal tab when looking for indentation\n"
       "  hint: this line is indented with a tab: use spaces"},
      {"a: 1\n  b: 2\n",
       "f.yaml:2:4: error: bad YAML: illegal map value\n"
       "  hint: check the indentation; a value with ': ' inside needs quotes"},
      {"a:\n  b: 1\n c: 2\n",
       "f.yaml:3:2: error: bad YAML: end of map not found\n"
       "  hint: check the indentation of this line"},
      {"- a\nb: 1\n",
       "f.yaml:2:1: error: bad YAML: this does not belong to what is above\n"
       "  hint: check the indentation and the quotes"},
      // Brackets and quotes.
      {"a: [1, 2\nb: 3\n",
       "f.yaml:2:2: error: bad YAML: end of sequence flow not found\n"
       "  hint: check that every { and [ is closed, and opened; text with brackets in it needs quotes"},
      {"a: {x: 1\n",
       "f.yaml:2:1: error: bad YAML: end of map flow not found\n"
       "  hint: check that every { and [ is closed, and opened; text with brackets in it needs quotes"},
      {"a: ]\n",
       "f.yaml:1:4: error: bad YAML: illegal flow end\n"
       "  hint: check that every { and [ is closed, and opened; text with brackets in it needs quotes"},
      {"a: 'x\nb: 1\n", "f.yaml:3:1: error: bad YAML: a quoted text is not closed"},
      {"a: \"x", "f.yaml:2:1: error: bad YAML: a quoted text is not closed"},
      {"a: \"\\q\"\n", "f.yaml:1:7: error: bad YAML: unknown escape character: q"},
      {"a: @x\n",
       "f.yaml:1:4: error: bad YAML: unknown token\n"
       "  hint: a value that begins with a special character needs quotes"},
      {"a: b: c\n",
       "f.yaml:1:5: error: bad YAML: illegal map value\n"
       "  hint: check the indentation; a value with ': ' inside needs quotes"},
      // Keys.
      {"a: 1\nb: 2\na: 3\n", "f.yaml:3:1: error: a: duplicate key\n  hint: it is first given on line 1"},
      {"gpus:\n  - {x: 1}\n  - {sms: 1,\n     sms: 2, sms: 3}\n",
       "f.yaml:4:6: error: gpus[1].sms: duplicate key\n  hint: it is first given on line 3\n"
       "f.yaml:4:14: error: gpus[1].sms: duplicate key\n  hint: it is first given on line 3"},
      {"[a, b]: 1\n",
       "f.yaml:1:1: error: a key must be a word, not a list\n"
       "  hint: a value that contains { or [ needs quotes"},
      {"a: {{ x }}\n",
       "f.yaml:1:5: error: a key must be a word, not a map\n"
       "  hint: a value that contains { or [ needs quotes"},
      {": 1\n", "f.yaml:1:1: error: a key must be a word, not empty or null"},
      {"null: 1\n", "f.yaml:1:1: error: a key must be a word, not empty or null"},
      {"a: &x k\n*x : 3\n", "f.yaml:2:1: error: a key must be a word, not an alias"},
      // Documents, tags, anchors.
      {"a: 1\n---\nb: 2\n",
       "f.yaml:2:1: error: a second document begins here\n"
       "  hint: a file holds one document: remove the '---'"},
      {"a: !gpu 3\n",
       "f.yaml:1:4: error: tag '!gpu' is not supported\n  hint: write the value without a tag"},
      {"a: *nowhere\n",
       "f.yaml:1:4: error: bad YAML: this alias has no anchor above it\n"
       "  hint: mark the value it stands for: '&name'"},
      {"a: &x [*x]\n", "f.yaml:1:8: error: an alias inside the value it stands for would never end"},
      {"a: {<<: 3}\n",
       "f.yaml:1:5: error: '<<' takes a map or a list of maps\n"
       "  hint: as in '<<: *base', where '&base' marks a map"},
  }));
  CHECK(message_of([&] { load_text(bad.text, "f.yaml"); }) == bad.message);
}

/// Reads `{memory: {capacity, bandwidth, latency?}, sms, name, tied?}` as any reader of this project would.
void read_device(const Node& node) {
  Fields fields(node);
  std::string name;
  std::int64_t sms = 0;
  bool tied = false;
  fields.required("name", name);
  fields.required("sms", sms, positive);
  fields.optional("tied", tied);
  fields.required_with("memory", [](const Node& memory_node) {
    Fields memory(memory_node);
    Bytes capacity;
    BytesPerSecond bandwidth;
    Picoseconds latency{};
    memory.required("capacity", capacity, positive);
    memory.required("bandwidth", bandwidth, positive);
    memory.optional("latency", latency, non_negative);
    memory.done();
  });
  fields.done();
}

TEST_CASE("A good device is read without complaint", "[bad_input][config]") {
  CHECK(message_of([] {
          read_device(load_text("{name: x, sms: 1, memory: {capacity: 1 GB, bandwidth: 1 TB/s}}", "f.yaml"));
        }) == "no error");
}

TEST_CASE("A value of the wrong kind is refused with its place, its path and what is accepted",
          "[bad_input][config]") {
  const auto bad = GENERATE(values<Case>({
      {"0", "must be positive, not 0"},
      {"-4", "must be positive, not -4"},
      {"1.5", "'1.5' is not a whole number\n  hint: write a whole number such as '12', without a unit"},
      {"0132", "'0132' has a leading zero\n  hint: numbers are decimal, never octal: drop the zero"},
      {"0x84", "'0x84' is not a decimal number\n  hint: write a whole number such as '12', without a unit"},
      {"132 sms", "unknown unit 'sms'\n  hint: write a whole number such as '12', without a unit"},
      {"many", "'many' is not a whole number\n  hint: write a whole number such as '12', without a unit"},
      {"''", "the value is empty\n  hint: write a whole number such as '12', without a unit"},
      {".nan", "'.nan' is not a finite number\n  hint: write a whole number such as '12', without a unit"},
      {"1e19", "'1e19' is out of range\n  hint: a whole number is at most 9223372036854775807"},
      {"[132]", "must be a whole number, not a list"},
      {"{n: 132}", "must be a whole number, not a map"},
      {"null",
       "has no value; a whole number is needed\n  hint: write a value after the colon, or remove the key"},
  }));
  const std::string place = bad.text == "null" ? "f.yaml:2:1" : "f.yaml:2:6";
  CHECK(message_of([&] {
          read_device(load_text(
              "name: x\nsms: " + bad.text + "\nmemory: {capacity: 1 GB, bandwidth: 1 TB/s}\n", "f.yaml"));
        }) == place + ": error: sms: " + bad.message);
}

TEST_CASE("Five mistakes in one file are reported at once, from top to bottom", "[bad_input][config]") {
  const std::string text =
      "nmae: lab\n"
      "sms: -1\n"
      "memory:\n"
      "  capacity: 141\n"
      "  bandwidth: 4.8 GBs\n"
      "tied: yes\n";
  CHECK(message_of([&] { read_device(load_text(text, "f.yaml")); }) ==
        "f.yaml:1:1: error: missing key 'name'\n"
        "  hint: keys given here: nmae, sms, memory, tied\n"
        "f.yaml:1:1: error: nmae: unknown key\n"
        "  hint: did you mean 'name'?\n"
        "f.yaml:2:6: error: sms: must be positive, not -1\n"
        "f.yaml:4:13: error: memory.capacity: '141' has no unit\n"
        "  hint: write a size such as '128 MiB' (B, kB, MB, GB, TB, KiB, MiB, GiB, TiB)\n"
        "f.yaml:5:14: error: memory.bandwidth: unknown unit 'GBs'\n"
        "  hint: write a rate such as '4.8 TB/s' (B/s ... PB/s, KiB/s ... TiB/s, bit/s ... Tbit/s)\n"
        "f.yaml:6:7: error: tied: 'yes' is neither true nor false");
}

TEST_CASE("A map is needed where a reader asks for keys", "[bad_input][config]") {
  CHECK(message_of([] {
          read_device(load_text("[1, 2]", "f.yaml"));
        }).starts_with("f.yaml:1:1: error: must be a map, not a list"));
  CHECK(message_of([] { load_text("memory:\n", "f.yaml").at("memory").at("capacity"); }) ==
        "f.yaml:1:1: error: memory: has no value; a map is needed\n"
        "  hint: write a value after the colon, or remove the key");
  CHECK(message_of([] { load_text("kernels: gemm\n", "f.yaml").at("kernels").items(); }) ==
        "f.yaml:1:10: error: kernels: must be a list, not a single value");
  CHECK(message_of([] { load_text("{}", "f.yaml").at("name"); }) ==
        "f.yaml:1:1: error: missing key 'name'\n  hint: the map is empty");
}

}  // namespace
}  // namespace gpusim::config
