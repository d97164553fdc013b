// SPDX-License-Identifier: Apache-2.0
// docs/networks.md says what the code does.
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "sim/config/hf_config.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/networks.hpp"

namespace gpusim {
namespace {

using test::ContainsSubstring;

std::string page() {
  std::ifstream file(std::string(GPUSIM_SOURCE_DIR) + "/docs/networks.md");
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_CASE("The page on networks lists every op with its arguments", "[docs][networks]") {
  const std::string text = page();
  std::string table;
  for (const OpKind& kind : op_catalogue())
    table += "| `" + op_signature(kind) + "` | " + std::string(kind.help) + " | " +
             std::string(name(kind.fusion)) + " |\n";
  // All of them, in order, and nothing between them.
  INFO("the table must be:\n" << table);
  CHECK(text.find(table) != std::string::npos);
}

TEST_CASE("The networks on the page are networks", "[docs][networks]") {
  const std::string text = page();
  std::size_t networks = 0;
  for (std::size_t at = text.find("```yaml\n"); at != std::string::npos;
       at = text.find("```yaml\n", at + 1)) {
    const std::string block = text.substr(at + 8, text.find("```", at + 8) - at - 8);
    if (block.find("name: ") != 0 && block.find("base: ") != 0) continue;
    ++networks;
    CAPTURE(block);
    const Network network = test::network_of(block);
    for (const StepKind step : {StepKind::Inference, StepKind::Decode})
      CHECK_FALSE(build_graph(network, test::sizes(2, 16, step)).ops.empty());
  }
  CHECK(networks == 3);
}

TEST_CASE("The families on the page are those that a config.json may have", "[docs][networks]") {
  const std::string message = test::message_of(
      [] { config::read_hf_config(config::load_text("{\"model_type\": \"x\"}", "c.json"), {}); });
  const std::size_t begin = message.find("families: ") + 10;
  std::stringstream names(message.substr(begin, message.find(';', begin) - begin));
  const std::string text = page();
  std::string name;
  std::size_t count = 0;
  while (std::getline(names, name, ',')) {
    name = name.substr(name.find_first_not_of(' '));
    CAPTURE(name);
    CHECK(std::regex_search(text, std::regex("\\| [a-z0-9_, ]*\\b" + name + "\\b[a-z0-9_, ]* \\| `")));
    ++count;
  }
  CHECK(count == 11);
}

TEST_CASE("Networks written from the page alone have their published sizes", "[docs][networks]") {
  const auto [name, count] = GENERATE(
      table<std::string, std::int64_t>({{"convnext_tiny", 28589128}, {"t5_small_encoder", 35330816}}));
  const Network network = config::read_network_file(
      config::load_file(std::string(GPUSIM_SOURCE_DIR) + "/tests/data/networks/" + name + ".yaml"), name);
  CAPTURE(name);
  CHECK(parameter_count(build_graph(network, test::sizes(2, 16))) == count);
  if (name == "convnext_tiny")
    // 4.456 G multiply-adds an image (torchvision's table).
    CHECK(test::model_flops(build_graph(network, test::sizes(1, 1))) ==
          test::Approx(2 * 4.456e9).epsilon(0.001));
}

}  // namespace
}  // namespace gpusim
