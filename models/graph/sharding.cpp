// SPDX-License-Identifier: Apache-2.0
#include "models/graph/sharding.hpp"

#include <algorithm>
#include <map>

namespace gpusim {

Trained::Trained(const OpGraph& step) {
  std::vector<OpIndex> written(step.storages.size(), graph_none);
  backward_end = 0;
  for (OpIndex i = 0; i < step.ops.size(); ++i) {
    const Op& op = step.ops[i];
    if (op.phase == Phase::Backward) {
      backward_end = i + 1;
      for (const TensorIndex t : op.outputs) written[step.tensors[t].storage] = i;
    }
    if (op.phase != Phase::Optimizer || !op.attributes.has("count")) continue;
    const auto count = static_cast<std::size_t>(op.attributes.integer("count"));
    if (count == 0 || op.inputs.size() < 2 * count) continue;
    optimizer = i;
    const auto at = [&](std::size_t n) { return op.inputs.begin() + static_cast<std::ptrdiff_t>(n); };
    parameters.assign(at(0), at(count));
    gradients.assign(at(count), at(2 * count));
    states.assign(at(2 * count), op.inputs.end());
  }
  if (optimizer == graph_none)
    throw GraphError({}, "data-parallel ranks need an optimizer: it says which gradients belong together",
                     "write 'optimizer: adamw', or 'data: 1'");
  // What another rank's backward works out is there at the end.
  for (const TensorIndex g : gradients) {
    const OpIndex op = written[step.tensors[g].storage];
    ready.push_back(op != graph_none || backward_end == 0 ? op : backward_end - 1);
  }
}

void Trained::replace(OpGraph& step, const std::vector<TensorIndex>& new_parameters,
                      const std::vector<TensorIndex>& new_gradients, std::int64_t ranks,
                      std::optional<ElementType> element) const {
  std::map<TensorIndex, TensorIndex> now;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    now.emplace(parameters[i], new_parameters[i]);
    now.emplace(gradients[i], new_gradients[i]);
  }
  for (const TensorIndex s : states) {
    TensorType type = part_type(step.tensors[s].type, ranks);
    if (element) type.element = *element;
    set_type(step, s, type);
  }
  for (Op& op : step.ops) {
    if (op.phase != Phase::Optimizer) continue;
    for (TensorIndex& t : op.inputs)
      if (const auto found = now.find(t); found != now.end()) t = found->second;
  }
}

TensorType part_type(const TensorType& whole, std::int64_t ranks) {
  Dims shape = whole.shape;
  if (!shape.empty()) shape[0] = (shape[0] + ranks - 1) / ranks;
  return contiguous_tensor(whole.element, shape);
}

TensorIndex part_of(OpGraph& graph, TensorIndex whole, std::int64_t ranks) {
  GraphTensor part = graph.tensors[whole];
  part.type = part_type(part.type, ranks);
  part.name += ".part";
  part.named_until = graph_none;
  graph.tensors.push_back(std::move(part));
  return static_cast<TensorIndex>(graph.tensors.size() - 1);
}

void set_type(OpGraph& graph, TensorIndex t, const TensorType& type) {
  graph.tensors[t].type = type;
  graph.storages[graph.tensors[t].storage].bytes = dense_bytes(type);
}

void set_role(OpGraph& graph, const std::vector<TensorIndex>& tensors, Role role) {
  std::vector<bool> meant(graph.storages.size(), false);
  for (const TensorIndex t : tensors) meant[graph.tensors[t].storage] = true;
  for (GraphTensor& tensor : graph.tensors)
    if (meant[tensor.storage]) tensor.role = role;
  for (std::size_t i = 0; i < meant.size(); ++i)
    if (meant[i]) graph.storages[i].role = role;
}

}  // namespace gpusim
