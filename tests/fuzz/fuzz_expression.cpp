// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include "models/graph/expression.hpp"
#include "tests/fuzz/answer.hpp"
#include "tests/fuzz/run_network.hpp"
#include "tests/fuzz/runs.hpp"
#include "tests/fuzz/targets.hpp"

namespace gpusim::fuzz {

/// Each line is a statement of a network's body, over x [batch * tokens, 64], i [4] of int64 and d = 64.
void expression(std::string_view text) {
  answered([&] {
    Network network;
    network.key = "input";
    network.file = "input.yaml";
    network.place = {1, 1};
    network.parameters.push_back({.name = "d", .value = std::int64_t{64}, .place = {1, 1}});
    try {
      const auto input = [&](const char* name, const char* shape, std::optional<ElementType> element) {
        network.inputs.push_back({.name = name,
                                  .shape = parse_expression(shape),
                                  .element = element,
                                  .channels_last = std::nullopt,
                                  .place = {1, 1}});
      };
      input("x", "[batch * tokens, d]", std::nullopt);
      input("i", "[4]", ElementType::Int64);
      int line = 0;
      while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::string_view statement = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        ++line;
        if (statement.empty()) continue;
        network.body.push_back({.what = parse_statement(statement, {line, 1}), .place = {line, 1}});
      }
      network.gives.push_back(parse_expression("x"));
    } catch (const GraphError& error) {
      throw ConfigError(Diagnostic{.where = {network.file, error.place().line, error.place().column},
                                   .path = {},
                                   .what = error.what(),
                                   .hint = error.hint()});
    }
    run_network(std::make_shared<const Network>(std::move(network)), nullptr);
  });
}

}  // namespace gpusim::fuzz
