// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>

#include "sim/config/load.hpp"
#include "sim/config/overlay.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/message_of.hpp"

namespace gpusim::config {
namespace {

using namespace literals;
using test::message_of;

/// The tree as one line of flow YAML.
std::string flow(const Node& node) {
  if (node.is_null()) return "null";
  if (node.is_scalar()) return node.text();
  std::string text;
  if (node.is_list()) {
    for (const Node& item : node.items()) text += (text.empty() ? "" : ", ") + flow(item);
    return "[" + text + "]";
  }
  for (const auto& [key, value] : node.entries())
    text += (text.empty() ? "" : ", ") + key + ": " + flow(value);
  return "{" + text + "}";
}

std::string merged(const std::string& base, const std::string& overlay) {
  return flow(deep_merge(load_text(base, "base.yaml"), load_text(overlay, "overlay.yaml")));
}

std::string set(const std::string& base, const std::string& assignment) {
  return flow(apply_set(load_text(base, "base.yaml"), assignment));
}

std::string set_error(const std::string& base, const std::string& assignment) {
  return message_of([&] { apply_set(load_text(base, "base.yaml"), assignment); });
}

/// Knows one name, as a hardware file would.
std::optional<Node> expand(const Node& name) {
  if (name.path() != "hardware" || name.text() != "h200") return std::nullopt;
  return load_text("{sms: 132, memory: {bandwidth: 4.8 TB/s}}", "h200.yaml");
}

TEST_CASE("Maps merge, everything else replaces", "[unit][config]") {
  CHECK(merged("{a: 1, b: {c: 2, d: 3}}", "{b: {d: 4, e: 5}}") == "{a: 1, b: {c: 2, d: 4, e: 5}}");
  CHECK(merged("{a: [1, 2, 3]}", "{a: [4]}") == "{a: [4]}");
  CHECK(merged("{a: {b: 1}}", "{a: 2}") == "{a: 2}");
  CHECK(merged("{a: 2}", "{a: {b: 1}}") == "{a: {b: 1}}");
  CHECK(merged("{a: 2}", "{a: null}") == "{a: null}");
  CHECK(merged("{a: 2}", "{}") == "{a: 2}");
}

TEST_CASE("Laying over twice is laying over once", "[unit][config]") {
  const Node base = load_text("{a: 1, b: {c: 2}}", "base.yaml");
  const Node overlay = load_text("{b: {c: 3, d: 4}}", "overlay.yaml");
  const Node once = deep_merge(base, overlay);
  CHECK(flow(deep_merge(once, overlay)) == flow(once));
  CHECK(flow(base) == "{a: 1, b: {c: 2}}");
}

TEST_CASE("Each value keeps the place it came from", "[unit][config]") {
  const Node both =
      deep_merge(load_text("a: 1\nb: {c: 2}\n", "base.yaml"), load_text("\nb: {d: 3}\n", "overlay.yaml"));
  const Node b = both.at("b");
  CHECK(to_string(b.at("c").location()) == "base.yaml:2:8");
  CHECK(to_string(b.at("d").location()) == "overlay.yaml:2:8");
  CHECK(b.at("d").path() == "b.d");
  CHECK(message_of([&] { b.done(); }) == "no error");
  CHECK(message_of([&] { both.at("b").done(); }).starts_with("base.yaml:2:5: error: b.c: unknown key"));
}

TEST_CASE("A map laid over a name changes what the name stands for", "[unit][config]") {
  const Node base = load_text("{hardware: h200, host: h200}", "base.yaml");
  CHECK(flow(deep_merge(base, load_text("{hardware: {memory: {bandwidth: 6 TB/s}}}", "o.yaml"), expand)) ==
        "{hardware: {sms: 132, memory: {bandwidth: 6 TB/s}}, host: h200}");
  CHECK(flow(deep_merge(base, load_text("{hardware: a100}", "o.yaml"), expand)) ==
        "{hardware: a100, host: h200}");
  CHECK(flow(deep_merge(base, load_text("{host: {speed: 2}}", "o.yaml"), expand)) ==
        "{hardware: h200, host: {speed: 2}}");
}

TEST_CASE("--set replaces the value at a path", "[unit][config]") {
  CHECK(set("{a: {b: 1}}", "a.b=2") == "{a: {b: 2}}");
  CHECK(set("{a: {b: 1}}", "a=2") == "{a: 2}");
  CHECK(set("{a: [x, {b: 1}]}", "a.1.b=2") == "{a: [x, {b: 2}]}");
  CHECK(set("{a: [x, {b: 1}]}", "a[1].b=2") == "{a: [x, {b: 2}]}");
  CHECK(set("{a: [[1, 2]]}", "a[0][1]=3") == "{a: [[1, 3]]}");
  CHECK(set("{'a.b': 1}", "'a.b'=2") == "{a.b: 2}");
  CHECK(set("{a: {'b=c': 1}}", "a.\"b=c\"=2") == "{a: {b=c: 2}}");
}

TEST_CASE("--set takes any YAML value, also one with '=' in it", "[unit][config]") {
  CHECK(set("{a: 1}", "a=4.8 TB/s") == "{a: 4.8 TB/s}");
  CHECK(set("{a: 1}", "a={uniform: {min: 1 us, max: 2 us}}") == "{a: {uniform: {min: 1 us, max: 2 us}}}");
  CHECK(set("{a: 1}", "a=[1, 2]") == "{a: [1, 2]}");
  CHECK(set("{a: 1}", "a=x=y") == "{a: x=y}");
  CHECK(set("{a: 1}", "a=null") == "{a: null}");
}

TEST_CASE("--set creates missing keys of maps, also below an empty one", "[unit][config]") {
  CHECK(set("{a: 1}", "b=2") == "{a: 1, b: 2}");
  CHECK(set("{a: 1}", "b.c.d=2") == "{a: 1, b: {c: {d: 2}}}");
  CHECK(set("{a: null}", "a.b=2") == "{a: {b: 2}}");
}

TEST_CASE("--set below a name expands it", "[unit][config]") {
  const Node base = load_text("{hardware: h200}", "base.yaml");
  CHECK(flow(apply_set(base, "hardware.memory.bandwidth=6 TB/s", expand)) ==
        "{hardware: {sms: 132, memory: {bandwidth: 6 TB/s}}}");
  CHECK(flow(apply_set(base, "hardware=a100", expand)) == "{hardware: a100}");
  CHECK(
      message_of([&] { apply_set(base, "hardware.memory.bandwidth=6 TB/s"); }) ==
      "--set hardware.memory.bandwidth=6 TB/s: error: hardware.memory: hardware is 'h200' and has no parts\n"
      "  hint: it is given at base.yaml:1:12");
}

TEST_CASE("A value from --set that a reader refuses is located there", "[unit][config][bad_input]") {
  const Node node =
      apply_set(load_text("{memory: {bandwidth: 1 TB/s}}", "base.yaml"), "memory.bandwidth=4.8 TBs");
  CHECK(message_of([&] { node.at("memory").at("bandwidth").as<BytesPerSecond>(); }) ==
        "--set memory.bandwidth=4.8 TBs: error: memory.bandwidth: unknown unit 'TBs'\n"
        "  hint: write a rate such as '4.8 TB/s' (B/s ... PB/s, KiB/s ... TiB/s, bit/s ... Tbit/s)");
}

TEST_CASE("A misspelt path of --set ends as an unknown key with the nearest name",
          "[unit][config][bad_input]") {
  const Node node =
      apply_set(load_text("{memory: {bandwidth: 1 TB/s}}", "base.yaml"), "memory.bandwith=4.8 TB/s");
  const Node memory = node.at("memory");
  memory.at("bandwidth");
  CHECK(message_of([&] { memory.done(); }) ==
        "--set memory.bandwith=4.8 TB/s: error: memory.bandwith: unknown key\n  hint: did you mean "
        "'bandwidth'?");
}

TEST_CASE("Bad assignments say what is wrong with them", "[unit][config][bad_input]") {
  const std::string base = "{a: {b: 1}, list: [x, y], none: []}";
  CHECK(set_error(base, "a.b") ==
        "--set a.b: error: is not an assignment\n  hint: write --set key.path=value");
  CHECK(set_error(base, "") == "--set : error: is not an assignment\n  hint: write --set key.path=value");
  CHECK(set_error(base, "=1") ==
        "--set =1: error: a key is missing in the path\n  hint: write --set key.path=value");
  CHECK(set_error(base, "a..b=1") ==
        "--set a..b=1: error: a..b: a key is missing in the path\n  hint: write --set key.path=value");
  CHECK(set_error(base, "a.=1") ==
        "--set a.=1: error: a.: a key is missing in the path\n  hint: write --set key.path=value");
  CHECK(set_error(base, "a.b=") == "--set a.b=: error: a.b: no value after '='");
  CHECK(set_error(base, "list[0=1") == "--set list[0=1: error: list[0: ']' is missing");
  CHECK(set_error(base, "'a'b=1") ==
        "--set 'a'b=1: error: 'a'b: a '.' is missing after a key in quotes or brackets");
  CHECK(set_error(base, "'a=1") ==
        "--set 'a=1: error: is not an assignment\n  hint: write --set key.path=value");
  CHECK(set_error(base, "list.2=z") ==
        "--set list.2=z: error: list.2: no such item in a list of 2\n  hint: items are numbered 0 to 1");
  CHECK(set_error(base, "list.-1=z") ==
        "--set list.-1=z: error: list.-1: no such item in a list of 2\n  hint: items are numbered 0 to 1");
  CHECK(set_error(base, "list.first=z") ==
        "--set list.first=z: error: list.first: no such item in a list of 2\n  hint: items are numbered 0 to "
        "1");
  CHECK(set_error(base, "none.0=z") == "--set none.0=z: error: none.0: no such item in a list of 0");
  CHECK(set_error(base, "a.b.c=1") ==
        "--set a.b.c=1: error: a.b.c: a.b is '1' and has no parts\n  hint: it is given at base.yaml:1:9");
  CHECK(set_error(base, "a.b=[1, 2") ==
        "--set a.b=[1, 2: error: a.b: bad YAML: end of sequence flow not found\n"
        "  hint: check that every { and [ is closed, and opened; text with brackets in it needs quotes");
  std::string deep = "a";
  for (int i = 0; i < 100'000; ++i) deep += ".a";
  CHECK(set_error(base, deep + "=1").ends_with("error: the path has more keys than the limit depth = 64"));
}

}  // namespace
}  // namespace gpusim::config
