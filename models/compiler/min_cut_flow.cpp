// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/min_cut_flow.hpp"

#include <cstddef>

#include <boost/graph/boykov_kolmogorov_max_flow.hpp>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/edmonds_karp_max_flow.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>

namespace gpusim {
namespace {

using Graph = boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, boost::no_property,
                                                 boost::no_property, std::uint32_t, std::uint32_t>;
using Edge = boost::graph_traits<Graph>::edge_descriptor;

/// Each arc and, for the algorithms, one the other way that nothing flows along at first.
class Residual {
 public:
  explicit Residual(const FlowNetwork& network) {
    const std::size_t arcs = network.arcs.size();
    std::vector<std::uint32_t> first(std::size_t{network.vertices} + 1, 0);
    for (const FlowArc& arc : network.arcs) {
      ++first[arc.from + 1];
      ++first[arc.to + 1];
    }
    for (std::size_t v = 0; v < network.vertices; ++v) first[v + 1] += first[v];
    std::vector<std::pair<std::uint32_t, std::uint32_t>> ends(2 * arcs);
    capacity_.resize(2 * arcs);
    std::vector<std::uint32_t> other(2 * arcs);
    for (const FlowArc& arc : network.arcs) {
      const std::uint32_t there = first[arc.from]++;
      const std::uint32_t back = first[arc.to]++;
      ends[there] = {arc.from, arc.to};
      ends[back] = {arc.to, arc.from};
      capacity_[there] = arc.capacity;
      other[there] = back;
      other[back] = there;
    }
    graph_ = Graph(boost::edges_are_sorted, ends.begin(), ends.end(), network.vertices);
    residual_ = capacity_;
    edges_.reserve(2 * arcs);
    for (auto [e, end] = boost::edges(graph_); e != end; ++e) edges_.push_back(*e);
    reverse_.reserve(2 * arcs);
    for (const std::uint32_t o : other) reverse_.push_back(edges_[o]);
  }

  void solve(MaxFlow algorithm) {
    const auto index = boost::get(boost::edge_index, graph_);
    const auto vertex = boost::get(boost::vertex_index, graph_);
    const auto capacity = boost::make_iterator_property_map(capacity_.begin(), index);
    const auto residual = boost::make_iterator_property_map(residual_.begin(), index);
    const auto reverse = boost::make_iterator_property_map(reverse_.begin(), index);
    const std::size_t vertices = boost::num_vertices(graph_);
    std::vector<Edge> predecessor(vertices);
    std::vector<boost::default_color_type> color(vertices);
    std::vector<long> distance(vertices);
    const auto by_vertex = [&](auto& values) {
      return boost::make_iterator_property_map(values.begin(), vertex);
    };
    switch (algorithm) {
      case MaxFlow::PushRelabel:
        boost::push_relabel_max_flow(graph_, FlowNetwork::source, FlowNetwork::sink, capacity, residual,
                                     reverse, vertex);
        break;
      case MaxFlow::BoykovKolmogorov:
        boost::boykov_kolmogorov_max_flow(graph_, capacity, residual, reverse, by_vertex(predecessor),
                                          by_vertex(color), by_vertex(distance), vertex, FlowNetwork::source,
                                          FlowNetwork::sink);
        break;
      case MaxFlow::EdmondsKarp:
        boost::edmonds_karp_max_flow(graph_, FlowNetwork::source, FlowNetwork::sink, capacity, residual,
                                     reverse, by_vertex(color), by_vertex(predecessor));
        break;
    }
  }

  std::vector<std::uint8_t> reaching_sink() const {
    const auto index = boost::get(boost::edge_index, graph_);
    std::vector<std::uint8_t> reaches(boost::num_vertices(graph_), 0);
    std::vector<std::uint32_t> open{FlowNetwork::sink};
    reaches[FlowNetwork::sink] = 1;
    while (!open.empty()) {
      const std::uint32_t v = open.back();
      open.pop_back();
      for (auto [e, end] = boost::out_edges(v, graph_); e != end; ++e) {
        const auto from = static_cast<std::uint32_t>(boost::target(*e, graph_));
        // Something may still flow from there to v.
        if (reaches[from] != 0 || residual_[get(index, reverse_[get(index, *e)])] == 0) continue;
        reaches[from] = 1;
        open.push_back(from);
      }
    }
    return reaches;
  }

 private:
  Graph graph_;
  std::vector<std::int64_t> capacity_;
  std::vector<std::int64_t> residual_;
  std::vector<Edge> edges_;
  std::vector<Edge> reverse_;
};

}  // namespace

std::vector<std::uint8_t> sink_side(const FlowNetwork& network, MaxFlow algorithm) {
  Residual residual(network);
  residual.solve(algorithm);
  return residual.reaching_sink();
}

}  // namespace gpusim
