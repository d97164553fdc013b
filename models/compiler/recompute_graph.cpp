// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/recompute_graph.hpp"

#include <algorithm>

namespace gpusim {
namespace {

bool is_input(JointRole role) {
  return role == JointRole::Input || role == JointRole::Parameter;
}

void find_readers(const JointGraph& graph, JointFacts& facts) {
  const JointIndex size = graph.size();
  std::vector<JointIndex> last_reader(size, size);  // So that a reader counts once.
  facts.first_reader.assign(std::size_t{size} + 1, 0);
  for (JointIndex i = 0; i < size; ++i)
    for (const JointIndex in : graph.inputs(i)) {
      if (last_reader[in] == i) continue;
      last_reader[in] = i;
      ++facts.first_reader[in + 1];
    }
  for (JointIndex i = 0; i < size; ++i) facts.first_reader[i + 1] += facts.first_reader[i];
  facts.readers.resize(facts.first_reader[size]);
  std::vector<std::uint32_t> next(facts.first_reader.begin(), facts.first_reader.end() - 1);
  std::fill(last_reader.begin(), last_reader.end(), size);
  for (JointIndex i = 0; i < size; ++i)
    for (const JointIndex in : graph.inputs(i)) {
      if (last_reader[in] == i) continue;
      last_reader[in] = i;
      facts.readers[next[in]++] = i;
    }
}

}  // namespace

JointFacts joint_facts(const JointGraph& graph) {
  const JointIndex size = graph.size();
  JointFacts facts;
  find_readers(graph, facts);

  facts.backward.assign(size, 0);
  for (JointIndex i = 0; i < size; ++i) {
    facts.backward[i] = graph[i].role == JointRole::Tangent ? 1 : 0;
    for (const JointIndex in : graph.inputs(i)) facts.backward[i] |= facts.backward[in];
  }
  for (JointIndex i = 0; i < size; ++i)
    if (graph[i].given_backward) facts.backward[i] = 1;

  facts.forward.assign(size, 0);
  for (JointIndex i = size; i-- > 0;) {
    const JointNode& node = graph[i];
    if (is_input(node.role) || node.given_forward) facts.forward[i] = 1;
    if (facts.forward[i] != 0)
      for (const JointIndex in : graph.inputs(i)) facts.forward[in] = 1;
  }

  facts.forward_place.assign(size, -1);
  std::int32_t place = 0;
  for (JointIndex i = 0; i < size; ++i)
    if (facts.forward[i] != 0) facts.forward_place[i] = place++;

  facts.distance.assign(size, 0);
  for (JointIndex i = size; i-- > 0;) {
    if (facts.forward[i] == 0) continue;
    std::int32_t distance = joint_far_away;
    for (const JointIndex reader : facts.readers_of(i))
      distance = std::min(distance, facts.distance[reader] + 1);
    facts.distance[i] = distance;
  }
  return facts;
}

}  // namespace gpusim
