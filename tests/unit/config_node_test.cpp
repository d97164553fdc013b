// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "sim/config/load.hpp"
#include "sim/config/node.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/message_of.hpp"

namespace gpusim::config {
namespace {

using namespace literals;
using test::message_of;

TEST_CASE("Values are read with their units", "[unit][config]") {
  const Node node = load_text(
      "{text: a b, flag: true, count: 12, factor: 0.5, time: 3 us, size: 60 MiB, rate: 4.8 TB/s,\n"
      " work: 2 TFLOP, speed: 989.4 TFLOP/s, clock: 1980 MHz, within: 5 %}",
      "f.yaml");
  CHECK(node.at("text").as<std::string>() == "a b");
  CHECK(node.at("flag").as<bool>());
  CHECK(node.at("count").as<std::int64_t>() == 12);
  CHECK(node.at("factor").as<double>() == 0.5);
  CHECK(node.at("time").as<Picoseconds>() == 3_us);
  CHECK(node.at("size").as<Bytes>() == 60_MiB);
  CHECK(node.at("rate").as<BytesPerSecond>() == BytesPerSecond(4.8e12));
  CHECK(node.at("work").as<Flops>() == Flops(2e12));
  CHECK(node.at("speed").as<FlopsPerSecond>() == FlopsPerSecond(989.4e12));
  CHECK(node.at("clock").as<Hertz>() == Hertz(1.98e9));
  CHECK(node.at("within").as<Ratio>() == Ratio(0.05));
  CHECK_NOTHROW(node.done());
}

TEST_CASE("Every value knows its file, line, column and key path", "[unit][config]") {
  const Node node =
      load_text("workload:\n  kernels:\n    - {kernel: gemm}\n    - {kernel: gelu, 'a.b': 1}\n", "f.yaml");
  const auto kernels = node.at("workload").at("kernels").items();
  REQUIRE(kernels.size() == 2);
  CHECK(kernels[1].path() == "workload.kernels[1]");
  CHECK(to_string(kernels[1].location()) == "f.yaml:4:7");
  CHECK(kernels[1].at("kernel").path() == "workload.kernels[1].kernel");
  CHECK(to_string(kernels[1].at("kernel").location()) == "f.yaml:4:16");
  CHECK(kernels[1].at("a.b").path() == "workload.kernels[1].'a.b'");
  CHECK(to_string(kernels[1].at("kernel").key_location()) == "f.yaml:4:8");
  CHECK(to_string(kernels[1].key_location()) == "f.yaml:4:7");
  CHECK(node.path().empty());
  CHECK(node.at("workload").as_root().at("kernels").path() == "kernels");
}

TEST_CASE("A key that is absent gives the fallback, a key without a value does not", "[unit][config]") {
  const Node node = load_text("latency:\n", "f.yaml");
  CHECK(node.value_or("bandwidth", BytesPerSecond(1)) == BytesPerSecond(1));
  CHECK(!node.find("bandwidth"));
  CHECK(!node.get<Bytes>("bandwidth"));
  CHECK(node.has("latency"));
  CHECK(message_of([&] { node.value_or("latency", 0_us); }) ==
        "f.yaml:1:1: error: latency: has no value; a duration is needed\n"
        "  hint: write a value after the colon, or remove the key");
}

TEST_CASE("Entries come in the order of the file", "[unit][config]") {
  const Node node = load_text("{zeta: 1, alpha: 2, mid: 3}", "f.yaml");
  std::vector<std::string> names;
  for (const auto& [name, value] : node.entries()) names.push_back(name + value.text());
  CHECK(names == std::vector<std::string>{"zeta1", "alpha2", "mid3"});
  CHECK(node.keys() == std::vector<std::string>{"zeta", "alpha", "mid"});
}

TEST_CASE("done() accepts what was asked for, by the handle or a copy of it", "[unit][config]") {
  const Node node = load_text("{a: 1, b: 2, c: 3}", "f.yaml");
  node.at("a");
  const Node copy = node;
  copy.find("b");
  copy.find("b");
  CHECK(message_of([&] { node.done(); }) == "f.yaml:1:14: error: c: unknown key\n  hint: known keys: a, b");
  node.value_or("c", std::int64_t{0});
  CHECK_NOTHROW(node.done());
}

TEST_CASE("Asking for all entries leaves no unknown key", "[unit][config]") {
  const Node node = load_text("{a: 1, b: 2}", "f.yaml");
  node.entries();
  CHECK_NOTHROW(node.done());
}

TEST_CASE("A tree read twice reports its unknown keys twice: reading leaves no trace in it",
          "[unit][config]") {
  const Node node = load_text("{memory: {capacity: 1 GB}}", "f.yaml");
  const Node first = node.at("memory");
  first.at("capacity");
  CHECK_NOTHROW(first.done());
  CHECK_THROWS_AS(node.at("memory").done(), ConfigError);
}

TEST_CASE("A handle outlives the root it came from", "[unit][config]") {
  const Node capacity = [] {
    return load_text("{memory: {capacity: 1 GB}}", "f.yaml").at("memory").at("capacity");
  }();
  CHECK(capacity.as<Bytes>() == Bytes(1'000'000'000));
  CHECK(capacity.path() == "memory.capacity");
}

TEST_CASE("Bounds hold from both sides", "[unit][config]") {
  const Node node = load_text("{zero: 0 us, less: -1 ps, more: 1 ps, count: 7}", "f.yaml");
  CHECK(node.at("more").as<Picoseconds>(positive) == 1_ps);
  CHECK(node.at("zero").as<Picoseconds>(non_negative) == 0_ps);
  CHECK(node.at("count").as<std::int64_t>(at_least(7), at_most(7)) == 7);
  CHECK(message_of([&] { node.at("zero").as<Picoseconds>(positive); }) ==
        "f.yaml:1:8: error: zero: must be positive, not 0 us");
  CHECK(message_of([&] { node.at("less").as<Picoseconds>(non_negative); }) ==
        "f.yaml:1:20: error: less: must not be negative, but is -1 ps");
  CHECK(message_of([&] { node.at("count").as<std::int64_t>(at_most(6)); }) ==
        "f.yaml:1:46: error: count: must be at most 6, not 7");
  CHECK(message_of([&] { node.at("count").as<std::int64_t>(at_least(8)); }) ==
        "f.yaml:1:46: error: count: must be at least 8, not 7");
  CHECK(message_of([&] { node.at("more").as<Picoseconds>(at_least(2_us)); }) ==
        "f.yaml:1:33: error: more: must be at least 2.00 us, not 1 ps");
}

TEST_CASE("A word from a fixed set is recognised, another gets the nearest as a hint", "[unit][config]") {
  enum class Mode { None, Full };
  const auto mode = [](const std::string& text) {
    return load_text("{cuda_graph: " + text + "}", "f.yaml")
        .at("cuda_graph")
        .one_of<Mode>({{"none", Mode::None}, {"full", Mode::Full}});
  };
  CHECK(mode("full") == Mode::Full);
  CHECK(message_of([&] { mode("ful"); }) ==
        "f.yaml:1:14: error: cuda_graph: unknown name 'ful'\n  hint: did you mean 'full'?");
  CHECK(message_of([&] { mode("piecewise"); }) ==
        "f.yaml:1:14: error: cuda_graph: unknown name 'piecewise'\n  hint: known names: none, full");
}

TEST_CASE("Trees are edited by making new ones", "[unit][config]") {
  const Node node = load_text("{a: 1, b: 2}", "f.yaml");
  const Node other = load_text("7", "g.yaml");
  const Node edited = node.with("a", other).with("c", other).without("b");
  CHECK(edited.keys() == std::vector<std::string>{"a", "c"});
  CHECK(to_string(edited.at("a").location()) == "g.yaml:1:1");
  CHECK(node.at("a").text() == "1");
  CHECK(Node::empty_map({"here", 1, 2}).size() == 0);
}

TEST_CASE("Fields gather all mistakes of a map, in the order of the file", "[unit][config]") {
  const Node node = load_text(
      "capacity: 141 Gb\n"
      "bandwith: 4.8 TB/s\n"
      "latency: -5 ns\n",
      "f.yaml");
  Fields fields(node);
  Bytes capacity;
  BytesPerSecond bandwidth;
  Picoseconds latency = 7_ns;
  Picoseconds untouched = 8_ns;
  std::optional<Bytes> l2;
  fields.optional("latency", latency, non_negative);
  fields.optional("refresh", untouched);
  fields.optional("l2", l2);
  fields.required("capacity", capacity, positive);
  fields.required("bandwidth", bandwidth, positive);
  CHECK(message_of([&] { fields.done(); }) ==
        "f.yaml:1:1: error: missing key 'bandwidth'\n"
        "  hint: keys given here: capacity, bandwith, latency\n"
        "f.yaml:1:11: error: capacity: unknown unit 'Gb'\n"
        "  hint: 'b' may mean bytes or bits: write 'B' for bytes, as in 'GB' or 'GiB'\n"
        "f.yaml:2:1: error: bandwith: unknown key\n"
        "  hint: did you mean 'bandwidth'?\n"
        "f.yaml:3:10: error: latency: must not be negative, but is -5 ns");
  CHECK(untouched == 8_ns);
  CHECK(latency == 7_ns);
  CHECK(!l2);
}

TEST_CASE("Errors::collect hands on results and keeps only the user's mistakes", "[unit][config]") {
  Errors errors;
  CHECK(errors.collect([] { return 3; }) == std::optional<int>(3));
  CHECK(errors.collect([] {}));
  Diagnostic diagnostic;
  diagnostic.what = "wrong";
  const ConfigError wrong(diagnostic);
  CHECK(!errors.collect([&] { throw wrong; }));
  CHECK(errors.diagnostics().size() == 1);
  CHECK_THROWS_AS(errors.collect([] { throw std::logic_error("ours"); }), std::logic_error);
  CHECK(message_of([&] { errors.throw_if_any(); }) == "error: wrong");
}

TEST_CASE("The nearest name is one that a slip of the finger makes", "[unit][config]") {
  const std::vector<std::string> known{"bandwidth", "capacity", "l2", "sms", "h100_sxm", "h100_pcie"};
  CHECK(nearest_name("bandwith", known) == "bandwidth");
  CHECK(nearest_name("bnadwidth", known) == "bandwidth");
  CHECK(nearest_name("H100-SXM", known) == "h100_sxm");
  CHECK(nearest_name("smss", known) == "sms");
  CHECK(nearest_name("a-b-c-d", std::vector<std::string>{"a_b_c_d"}) == "a_b_c_d");
  CHECK(!nearest_name("abxy", std::vector<std::string>{"abcd"}));
  CHECK(!nearest_name("frequency", known));
  CHECK(!nearest_name("x", known));
  CHECK(!nearest_name("", known));
  CHECK(!nearest_name(std::string(1'000'000, 'x'), known));
}

}  // namespace
}  // namespace gpusim::config
