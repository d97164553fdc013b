// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <string>
#include <vector>

#include "sim/config/load.hpp"
#include "sim/config/names.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/message_of.hpp"

namespace gpusim::config {
namespace {

using test::message_of;

const std::filesystem::path data = GPUSIM_SOURCE_DIR "/tests/data/names";

SearchPath search() {
  return {.beside = data / "beside", .extra = {data / "extra"}, .builtin = data / "builtin"};
}

std::string found(const std::string& name, const SearchPath& where = search()) {
  const auto path = find_config("hardware", name, {"--hardware", 0, 0}, where);
  return path.lexically_relative(data).generic_string();
}

TEST_CASE("A name is looked up beside the scenario, then in the extra folders, then in the project's",
          "[unit][config]") {
  CHECK(found("h200") == "beside/hardware/h200.yaml");
  CHECK(found("lab") == "beside/lab.yaml");
  CHECK(found("prototype") == "extra/hardware/prototype.yaml");
  CHECK(found("a100_80gb") == "builtin/hardware/a100_80gb.yaml");
}

TEST_CASE("A name that ends in .yaml is a path from the scenario", "[unit][config]") {
  CHECK(found("lab.yaml") == "beside/lab.yaml");
  CHECK(found("../extra/hardware/prototype.yaml") == "beside/../extra/hardware/prototype.yaml");
  CHECK(message_of([] { found("nowhere.yaml", {.beside = "x", .builtin = "y"}); }) ==
        "--hardware: error: no such file: 'x/nowhere.yaml'");
}

TEST_CASE("All names are known once, in order", "[unit][config]") {
  CHECK(known_configs("hardware", search()) == std::vector<std::string>{"a100_80gb", "h200", "prototype"});
  CHECK(known_configs("hosts", search()).empty());
}

TEST_CASE("An unknown name is reported at its place, with the nearest name or all of them",
          "[unit][config][bad_input]") {
  const auto in_file = [](const std::string& name) {
    return message_of(
        [&] { find_config("hardware", load_text("hardware: " + name, "f.yaml").at("hardware"), search()); });
  };
  CHECK(in_file("h20") ==
        "f.yaml:1:11: error: hardware: unknown hardware 'h20'\n  hint: did you mean 'h200'?");
  CHECK(in_file("A100-80GB") ==
        "f.yaml:1:11: error: hardware: unknown hardware 'A100-80GB'\n  hint: did you mean 'a100_80gb'?");
  CHECK(in_file("tpu") ==
        "f.yaml:1:11: error: hardware: unknown hardware 'tpu'\n  hint: known hardware: a100_80gb, h200, "
        "prototype");
  CHECK(in_file("[h200]") == "f.yaml:1:11: error: hardware: must be a text, not a list");
  CHECK(message_of([] { found("h201"); }) ==
        "--hardware: error: unknown hardware 'h201'\n  hint: did you mean 'h200'?");
}

TEST_CASE("A name does not lead out of the folders", "[unit][config][bad_input]") {
  CHECK_THROWS_AS(found("../hardware/h200"), ConfigError);
  CHECK_THROWS_AS(found(".."), ConfigError);
  CHECK_THROWS_AS(found(""), ConfigError);
}

TEST_CASE("A search list is split at colons, empty parts dropped", "[unit][config]") {
  using Paths = std::vector<std::filesystem::path>;
  CHECK(split_search_list("/a:b/c") == Paths{"/a", "b/c"});
  CHECK(split_search_list(":/a::b:") == Paths{"/a", "b"});
  CHECK(split_search_list("").empty());
}

TEST_CASE("The project's own configurations are found", "[unit][config]") {
  CHECK(std::filesystem::equivalent(builtin_configs(), GPUSIM_SOURCE_DIR "/configs"));
}

}  // namespace
}  // namespace gpusim::config
