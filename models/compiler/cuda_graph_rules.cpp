// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/cuda_graph_rules.hpp"

#include <algorithm>

#include "models/graph/catalogue.hpp"

namespace gpusim {
namespace {

std::string first_of(const std::vector<std::string>& names) {
  return "'" + names.front() + "'";
}

}  // namespace

std::optional<std::string> capture_refusal(const CaptureFacts& facts) {
  if (!facts.host_reads.empty())
    return "the host reads the value of " + first_of(facts.host_reads) +
           ", which a recording does not have yet";
  if (!facts.synchronizations.empty())
    return first_of(facts.synchronizations) + " waits for the device, which is not running while it records";
  if (!facts.data_shapes.empty())
    return first_of(facts.data_shapes) + " makes a tensor whose size data decide, and sizes are recorded";
  if (!facts.cpu_tensors.empty())
    return first_of(facts.cpu_tensors) + " is on the CPU, whose work is not recorded";
  if (facts.devices != 1)
    return "the region is on " + std::to_string(facts.devices) + " devices, a recording on one";
  if (!facts.changed_inputs.empty())
    return "the input " + first_of(facts.changed_inputs) +
           " is changed in place, but the recording works on a copy of it";
  if (!facts.random_states.empty())
    return first_of(facts.random_states) + " saves or restores the state of the random numbers";
  if (facts.dynamic_shapes && !facts.buckets)
    return "shapes are dynamic, and no sizes are chosen for which it is recorded (buckets)";
  if (!facts.warmed_up)
    return "the region has not run yet: what is set up at first use cannot be set up while it records";
  return std::nullopt;
}

CaptureFacts capture_facts(const OpGraph& graph, OpIndex first, OpIndex last) {
  CaptureFacts facts;
  // Inputs that a region changes are changed for good; a state is memory that stays where it is.
  std::vector<bool> is_input(graph.storages.size(), false);
  for (const GraphTensor& tensor : graph.tensors)
    if (tensor.producer == graph_none && tensor.role == Role::Input) is_input[tensor.storage] = true;
  for (OpIndex i = first; i < last; ++i) {
    const Op& op = graph.ops[i];
    const std::string_view kind = op.kind->name;
    if (kind == "item") facts.host_reads.push_back(op.name);
    if (kind == "to_device" || kind == "to_host") facts.synchronizations.push_back(op.name);
    if (kind == "nonzero") facts.data_shapes.push_back(op.name);
    if (op.kind->recompute != RecomputeClass::Never) continue;
    for (const TensorIndex t : op.outputs)
      if (is_input[graph.tensors[t].storage])
        facts.changed_inputs.push_back(graph.tensors[op.inputs.front()].name);
  }
  return facts;
}

std::optional<std::string> replay_refusal(const ReplayFacts& facts) {
  if (facts.batch != facts.recorded_batch)
    return "recorded for a batch of " + std::to_string(facts.recorded_batch) + ", called with " +
           std::to_string(facts.batch);
  if (!facts.moved_inputs.empty())
    return "the input " + first_of(facts.moved_inputs) +
           " is at another address and was not copied: the replay would read what was there before";
  if (!facts.wanted_results.empty())
    return "the result " + first_of(facts.wanted_results) +
           " of the replay before is still wanted, and this one overwrites it: clone it";
  return std::nullopt;
}

std::vector<TensorIndex> copied_inputs(const OpGraph& graph, CudaGraphPolicy policy) {
  std::vector<TensorIndex> copied;
  if (policy != CudaGraphPolicy::Trees) return copied;
  std::vector<bool> read(graph.tensors.size(), false);
  for (const Op& op : graph.ops)
    for (const TensorIndex t : op.inputs)
      if (t != graph_none) read[t] = true;
  for (TensorIndex t = 0; t < graph.tensors.size(); ++t)
    if (graph.tensors[t].producer == graph_none && graph.tensors[t].role == Role::Input && read[t])
      copied.push_back(t);
  return copied;
}

}  // namespace gpusim
