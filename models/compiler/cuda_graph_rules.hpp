// SPDX-License-Identifier: Apache-2.0
// What can be recorded as a CUDA graph and replayed.
//
// A recording holds kernels with their addresses, shapes and launch parameters; only the values in memory may
// change. Sources: docs.nvidia.com/dl-cuda-graph (constraints, quick checklist), PyTorch's
// torch/_inductor/cudagraph_utils.py and utils.py (reasons why a graph is skipped), cudagraph_trees.py (which
// inputs are copied).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/compiler/backend.hpp"
#include "models/graph/op_graph.hpp"

namespace gpusim {

/// What is known of a region before it is recorded. Names are those of ops or tensors.
struct CaptureFacts {
  std::vector<std::string> host_reads{};  ///< Ops whose value the host reads: .item(), a branch on a tensor.
  std::vector<std::string> synchronizations{};  ///< Calls that wait for the device, blocking copies.
  std::vector<std::string> data_shapes{};       ///< Ops whose results have a size that data decide.
  std::vector<std::string> cpu_tensors{};       ///< Ops on the CPU, tensors there.
  /// Inputs that it changes and that do not stay where they are: the recording would change its own copy.
  std::vector<std::string> changed_inputs{};
  std::vector<std::string> random_states{};  ///< Ops that save or restore the state of random numbers.
  std::int64_t devices = 1;
  bool dynamic_shapes = false;  ///< Sizes are symbols,
  bool buckets = false;         ///< of which chosen ones are recorded.
  bool warmed_up = true;  ///< It has run once: memory is there, kernels are loaded and libraries set up.
};

/// Nothing, or the first reason why the region cannot be recorded, with the op that it is for.
std::optional<std::string> capture_refusal(const CaptureFacts& facts);

/// What the ops [first, last) say of themselves.
CaptureFacts capture_facts(const OpGraph& graph, OpIndex first, OpIndex last);

/// What is known of one call of a region that was recorded.
struct ReplayFacts {
  std::int64_t recorded_batch = 1;
  std::int64_t batch = 1;                   ///< Of this call, padded.
  std::vector<std::string> moved_inputs{};  ///< At other addresses than recorded, and not copied there.
  /// Results of the replay before that somebody still wants, and that nobody has cloned.
  std::vector<std::string> wanted_results{};
};

/// Nothing, or why a replay would be wrong: another size, inputs that it would not see, results that it would
/// overwrite.
std::optional<std::string> replay_refusal(const ReplayFacts& facts);

/// The tensors that are copied into the recording's own memory before each replay: with CUDA graph trees the
/// step's inputs, as they come at a new address each time. Parameters, buffers and states stay where they
/// are, and those who record by hand or serve (vLLM) write inputs to where they were recorded.
std::vector<TensorIndex> copied_inputs(const OpGraph& graph, CudaGraphPolicy policy);

}  // namespace gpusim
