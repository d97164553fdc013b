// SPDX-License-Identifier: Apache-2.0
// Ops, sizes and groups in the words of the seed's table of cases: "mul: a,b -> t; add: t,c -> u",
// "a=32, t=32", "mul,add / relu".
#pragma once

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "models/compiler/traffic.hpp"

namespace gpusim::test {

/// The parts between separators, without the blanks around them.
inline std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) {
    part.erase(std::remove(part.begin(), part.end(), ' '), part.end());
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

/// A traffic graph and the names of its tensors.
struct NamedTraffic {
  TrafficGraph graph;
  std::vector<std::string> tensors;

  TensorIndex tensor(const std::string& name) const {
    const auto found = std::find(tensors.begin(), tensors.end(), name);
    if (found == tensors.end()) throw std::invalid_argument("no tensor " + name);
    return static_cast<TensorIndex>(found - tensors.begin());
  }
  OpIndex op(const std::string& name) const {
    for (OpIndex i = 0; i < graph.ops.size(); ++i)
      if (graph.ops[i].name == name) return i;
    throw std::invalid_argument("no op " + name);
  }
  OpGroups groups(const std::string& text) const {
    OpGroups result;
    for (const std::string& group : parts_of(text, '/')) {
      result.emplace_back();
      for (const std::string& name : parts_of(group, ',')) result.back().push_back(op(name));
    }
    return result;
  }
};

inline NamedTraffic traffic_of(const std::string& ops, const std::string& sizes, const std::string& outputs) {
  NamedTraffic result;
  for (const std::string& size : parts_of(sizes, ',')) {
    const std::size_t equals = size.find('=');
    const Bytes bytes(std::stoll(size.substr(equals + 1)));
    result.tensors.push_back(size.substr(0, equals));
    result.graph.tensors.push_back({.read = bytes, .written = bytes});
  }
  for (const std::string& text : parts_of(ops, ';')) {
    const std::size_t colon = text.find(':');
    const std::size_t arrow = text.find("->");
    MovingOp op{.name = text.substr(0, colon)};
    for (const std::string& t : parts_of(text.substr(colon + 1, arrow - colon - 1), ','))
      op.inputs.push_back(result.tensor(t));
    for (const std::string& t : parts_of(text.substr(arrow + 2), ',')) op.outputs.push_back(result.tensor(t));
    result.graph.ops.push_back(op);
  }
  for (const std::string& t : parts_of(outputs, ',')) result.graph.outputs.push_back(result.tensor(t));
  return result;
}

/// Bytes that move with these groups.
inline std::int64_t moved(const NamedTraffic& named, const std::string& groups) {
  return plan_traffic(named.graph, named.groups(groups)).total().value();
}

/// What `action` refuses to do; "no error" if it does it.
template <class Action>
std::string compile_error(Action&& action) {
  try {
    action();
  } catch (const CompileError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace gpusim::test
