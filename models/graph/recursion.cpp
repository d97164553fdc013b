// SPDX-License-Identifier: Apache-2.0
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/depth_first_search.hpp>
#include <functional>
#include <string>
#include <vector>

#include "models/graph/evaluator.hpp"

namespace gpusim {
namespace {

/// The blocks that a list of items calls, with the place of each call.
void find_calls(const std::vector<NetworkItem>& items, const std::function<void(const Expression&)>& found) {
  std::function<void(const Expression&)> walk = [&](const Expression& e) {
    if (e.kind == Expression::Kind::Call) found(e);
    for (const Expression& part : e.parts) walk(part);
  };
  for (const NetworkItem& item : items) {
    if (const auto* statement = std::get_if<Statement>(&item.what)) {
      walk(statement->value);
    } else if (const auto* repeat = std::get_if<RepeatItem>(&item.what)) {
      find_calls(repeat->body, found);
    } else if (const auto* choice = std::get_if<IfItem>(&item.what)) {
      find_calls(choice->then, found);
      find_calls(choice->otherwise, found);
    }
  }
}

}  // namespace

void refuse_recursion(const Network& network) {
  using Calls =
      boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, std::size_t>;
  Calls calls(network.blocks.size());
  std::vector<TextPlace> places;
  for (std::size_t i = 0; i < network.blocks.size(); ++i)
    find_calls(network.blocks[i].body, [&](const Expression& e) {
      for (std::size_t j = 0; j < network.blocks.size(); ++j)
        if (network.blocks[j].name == e.text) {
          boost::add_edge(i, j, places.size(), calls);
          places.push_back(e.place);
        }
    });
  struct Visitor : boost::dfs_visitor<> {
    Visitor(const Network& n, const std::vector<TextPlace>& p) : network(n), places(p) {}
    void back_edge(Calls::edge_descriptor edge, const Calls& g) const {
      const std::string& from = network.blocks[boost::source(edge, g)].name;
      const std::string& to = network.blocks[boost::target(edge, g)].name;
      throw GraphError(places[boost::get(boost::edge_bundle, g, edge)],
                       from == to ? "block '" + from + "' calls itself"
                                  : "blocks call each other in a cycle: '" + to + "' leads to '" + from +
                                        "', which calls '" + to + "'",
                       "a network is a directed graph without cycles; repeat a block with 'repeat:'");
    }
    const Network& network;
    const std::vector<TextPlace>& places;
  };
  boost::depth_first_search(calls, boost::visitor(Visitor(network, places)));
}

}  // namespace gpusim
