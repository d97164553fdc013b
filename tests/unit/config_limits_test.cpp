// SPDX-License-Identifier: Apache-2.0
// Limits by name.
#include <set>
#include <string>

#include "sim/config/limits.hpp"
#include "sim/config/load.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/message_of.hpp"

using namespace gpusim;
using config::Limits;
using test::ContainsSubstring;
using test::message_of;

TEST_CASE("Each limit can be set by its name, within the range that it has", "[limits]") {
  std::set<std::string> names;
  for (const config::LimitInfo& limit : config::known_limits()) {
    const std::string name(limit.name);
    INFO(name);
    CHECK(names.insert(name).second);
    const Limits defaults;
    CHECK(defaults.*limit.value >= limit.least);
    CHECK(defaults.*limit.value <= limit.most);
    CHECK_THAT(config::limits_text(), ContainsSubstring(name));
    Limits limits;
    config::set_limit(limits, name + (limit.bytes ? "=100 MiB" : "=100"));
    CHECK(limits.*limit.value == (limit.bytes ? 104'857'600 : 100));
    for (const config::LimitInfo& other : config::known_limits())
      if (other.name != limit.name) CHECK(limits.*other.value == defaults.*other.value);
    CHECK_THAT(message_of([&] { config::set_limit(limits, name + (limit.bytes ? "=0 B" : "=0")); }),
               ContainsSubstring("--limit " + name + "="));
  }
}

TEST_CASE("A limit that is none, and a value that is none, are refused with a hint", "[limits]") {
  Limits limits;
  const auto message = [&](const char* text) { return message_of([&] { config::set_limit(limits, text); }); };
  CHECK(message("graph_ops=3") ==
        "--limit graph_ops=3: error: unknown limit 'graph_ops'\n  hint: did you mean 'graph_ops_max'?");
  CHECK_THAT(message("depth"), ContainsSubstring("--limit depth: error: is not an assignment"));
  CHECK(message("depth=401") == "--limit depth=401: error: must be 1 to 400, not 401");
  CHECK_THAT(message("depth=-1"), ContainsSubstring("must be 1 to 400"));
  CHECK_THAT(message("depth=many"), ContainsSubstring("--limit depth=many: error:"));
  CHECK_THAT(message("depth=none"), ContainsSubstring("--limit depth=none: error:"));
  CHECK_THAT(message("memory_bytes=4"), ContainsSubstring("--limit memory_bytes=4: error:"));
  config::set_limit(limits, "memory_bytes=1 GiB");
  CHECK(limits.memory_bytes == 1'073'741'824);
  config::set_limit(limits, "memory_bytes=none");
  CHECK(limits.memory_bytes == config::no_limit);
}

TEST_CASE("A store of files holds each of them to its limits", "[limits]") {
  Limits limits;
  limits.depth = 3;
  CHECK_THAT(message_of([&] { config::load_text("a: {b: {c: {d: 1}}}", "x.yaml", limits); }),
             ContainsSubstring("x.yaml:1:12: error: lists and maps nested deeper than the limit depth = 3"));
  config::FileStore store(limits);
  CHECK_THAT(message_of([&] { store.load(std::string(GPUSIM_SOURCE_DIR) + "/configs/hardware/h200.yaml"); }),
             ContainsSubstring("nested deeper than the limit depth = 3"));
}
