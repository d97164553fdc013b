// SPDX-License-Identifier: Apache-2.0
// Ops as eager PyTorch runs them, added to a step one after the other. Internal to sim/program.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "models/graph/catalogue.hpp"
#include "models/graph/op_graph.hpp"
#include "models/hardware/host_spec.hpp"
#include "sim/program/recent_memory.hpp"
#include "sim/program/step_layout.hpp"

namespace gpusim {

class EagerOps {
 public:
  /// `mode`: of forward ops.
  EagerOps(const OpGraph& graph, const GpuSpec& gpu, const HostSpec& host, HostOpMode mode,
           StepLayout& layout);

  /// Adds what torch.utils.checkpoint costs the host around blocks that backward makes again, to all ops
  /// added from now on.
  void price_checkpoints();
  /// Prices the op and adds its host time and its launches, to the thread that works on its phase.
  /// `memory`: which point of the memory curve holds while it runs; none: it is not marked.
  void add(const Op& op, RecentMemory& touched, std::optional<std::uint32_t> memory = std::nullopt);
  /// Whoever works on the phase goes on from here: the main thread, or autograd's in backward.
  void take_turn(Phase phase);
  /// The main thread has its turn again.
  void done();
  /// A step whose kernels fit into the instruction cache finds all their code there, step after step. To be
  /// called when everything is added.
  void keep_code();
  /// Only leaves its traces in the cache.
  void touch(const Op& op, RecentMemory& touched) const;
  Flops model_flops() const { return model_flops_; }

 private:
  /// Whose code a GPU op runs: that of an op of the program (true), or of all of one name.
  using CodeKey = std::pair<bool, engine::Index>;
  /// A GPU op as it runs after another one, and after itself.
  struct Kernel {
    StepLayout::Launched launched;
    StepLayout::Launched again;
    CodeKey code;
  };
  /// What an op costs whichever of its equals it is.
  struct Priced {
    std::vector<EagerCall> calls;
    std::array<std::optional<Picoseconds>, 3> host;  ///< By HostOpMode.
    std::int32_t launches = 0;                       ///< In `host`.
    Flops flops{0};
    engine::Index name = engine::no_index;  ///< Of its work on the host, once it has any.
    /// What it launches, by the cache's state in steps of `cache_steps`.
    std::map<std::pair<int, int>, std::vector<Kernel>> launched;
  };
  struct TensorBytes {
    Bytes stored{0};
    Bytes dense{0};
  };

  Priced& price(const Op& op);
  Kernel add_kernel(std::string_view op, GpuOpEstimate estimate);
  HostOpMode mode_of(const Op& op) const;
  Picoseconds host_time(const Op& op, Priced& priced) const;
  Bytes touched_bytes(const Op& op, TensorIndex t) const;
  Bytes moved(const Op& op) const;
  CacheState cache_of(const Op& op, const RecentMemory& touched) const;
  // Ops of other streams.
  std::uint16_t stream_of(const Op& op) const;
  void find_streams();
  void await_inputs(const Op& op, std::uint16_t stream);
  void mark_outputs(const Op& op, std::uint16_t stream);

  const OpGraph& graph_;
  const GpuSpec& gpu_;
  const HostSpec& host_;
  const HostOpMode mode_;
  StepLayout& layout_;
  Picoseconds module_call_{0};
  Picoseconds autograd_node_{0};
  Flops model_flops_{0};
  CodeKey last_code_{false, engine::no_index};  ///< Of what was launched last.
  std::set<CodeKey> code_;
  double code_bytes_ = 0;
  std::map<engine::Index, engine::Index> again_;  ///< What does not fetch its code, by what does.
  std::vector<TensorBytes> bytes_;                ///< By tensor.
  std::vector<std::optional<Priced>> prices_;     ///< By Op::like.
  /// Where the contents of a memory were made, if by another stream than the one of all else, or marked.
  struct Made {
    engine::Index event = engine::no_index;
    std::uint16_t stream = 0;
    std::uint32_t awaited = 0;  ///< Streams that wait for it already, as bits.
  };
  bool streams_ = false;       ///< Some ops run on other streams.
  std::vector<Made> made_;     ///< By storage.
  std::vector<bool> crosses_;  ///< By storage: read by another stream than the one that makes it.
  /// Host time before an op, by op, for checkpointing; empty: nothing is checkpointed.
  std::vector<Picoseconds> before_;
};

}  // namespace gpusim
