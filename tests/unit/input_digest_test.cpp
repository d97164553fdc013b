// SPDX-License-Identifier: Apache-2.0
#include "sim/config/input_digest.hpp"

#include <memory>

#include "sim/config/load.hpp"
#include "sim/config/names.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/folder.hpp"

using gpusim::config::find_config;
using gpusim::config::InputDigest;
using gpusim::config::load_config;
using gpusim::config::load_text;
using gpusim::config::Node;
using gpusim::config::origin_line;
using gpusim::config::SearchPath;
using gpusim::config::sha256;

namespace {

std::string digest_of_scenario(const std::string& yaml, bool from_trace = false) {
  InputDigest input;
  input.add_scenario(load_text(yaml, "a scenario"), from_trace);
  return input.text();
}

}  // namespace

TEST_CASE("SHA-256 is that of the standard's examples") {
  // FIPS 180-2, appendix B.1, and the empty message.
  CHECK(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_CASE("An input's digest is that of its sorted lines, each once") {
  InputDigest input;
  input.add("steps", "4");
  input.add_tree(load_text("a: 1", "first"));
  input.add_tree(load_text("a:   1  # the same", "second"));
  // A map's entries go with the lengths of their texts: {1:a1:1}.
  CHECK(input.text() == "sha256:" + sha256("file " + sha256("{1:a1:1}") + "\nsteps 4\n"));
}

TEST_CASE("Comments, spaces and quotes do not change an input's digest; a value, a key and the order do") {
  const std::string digest = digest_of_scenario("workload: {kernels: [a, b]}\nhardware: h200\n");
  CHECK(digest == digest_of_scenario("# Why\nworkload:\n  kernels:\n    - 'a'\n    - b\r\nhardware: h200"));
  CHECK(digest != digest_of_scenario("workload: {kernels: [a, c]}\nhardware: h200\n"));
  CHECK(digest != digest_of_scenario("workload: {kernels: [b, a]}\nhardware: h200\n"));
  CHECK(digest != digest_of_scenario("workload: {kernels: [a, b]}\nhardwarf: h200\n"));
}

TEST_CASE("An input's digest knows a trace by its bytes, not by its path") {
  const gpusim::test::Folder folder;
  const auto digest = [&](const std::string& file, const std::string& bytes) {
    InputDigest input;
    input.add_trace(folder.write(file, bytes));
    return input.text();
  };
  CHECK(digest("one.json", "[]") == "sha256:" + sha256("trace " + sha256("[]") + "\n"));
  CHECK(digest("one.json", "[]") == digest("folder/two.json", "[]"));
  CHECK(digest("one.json", "[]") != digest("one.json", "{}"));

  const std::string here = "name: a\nworkload: {trace: here.json, host_time: traced}\n";
  const std::string there = "name: b\nworkload: {trace: there.json, host_time: traced}\n";
  CHECK(digest_of_scenario(here, true) == digest_of_scenario(there, true));
  CHECK(digest_of_scenario(here) != digest_of_scenario(there));  // A scenario's name is its author's.
  CHECK(digest_of_scenario("variants: {v: {workload: {trace: here.json}}}") ==
        digest_of_scenario("variants: {v: {workload: {trace: there.json}}}"));
}

TEST_CASE("What cannot be read a second time is said to be unknown") {
  InputDigest input;
  input.add_trace("/dev/null");
  CHECK(input.text() == "sha256:" + sha256("trace unknown\n"));
}

TEST_CASE("A configuration that is looked up belongs to the input, wherever it lies") {
  const gpusim::test::Folder folder;
  folder.write("a/hardware/gpu.yaml", "name: GPU\n");
  folder.write("b/gpu.yaml", "name: GPU   # moved\n");
  folder.write("c/gpu.yaml", "name: another GPU\n");
  const auto digest = [&](const char* beside) {
    const SearchPath search{.beside = folder / beside, .inputs = std::make_shared<InputDigest>()};
    load_config(find_config("hardware", load_text("gpu", "name"), search), search);
    return search.inputs->text();
  };
  CHECK(digest("a") == digest("b"));
  CHECK(digest("a") != digest("c"));
}

TEST_CASE("People see the version and the first 16 digits") {
  CHECK(origin_line("1.2.3", "sha256:0123456789abcdef0123456789abcdef") ==
        "gpusim 1.2.3, input sha256:0123456789abcdef\n");
}
