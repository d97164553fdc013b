// SPDX-License-Identifier: Apache-2.0
// A compiler as data: what it captures, what it joins, where its products come from, how it launches, what it
// refuses. Files of configs/backends hold them (sim/config/backend_reader.hpp reads them), the passes of this
// folder obey them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/graph/element_type.hpp"
#include "models/hardware/gpu_spec.hpp"
#include "models/units/quantity.hpp"

namespace gpusim {

/// How a compiler gets hold of the ops.
enum class CaptureKind : std::uint8_t {
  None,        ///< Not at all: ops run one by one (eager).
  Dynamo,      ///< Frame by frame, split at graph breaks (torch.compile).
  WholeGraph,  ///< All or nothing: a break is refused (torch.export and what builds on it).
};
std::string_view name(CaptureKind capture);

/// Which ops may become one kernel.
struct FusionRules {
  bool pointwise = true;            ///< Elementwise ops with each other.
  bool into_reduction = true;       ///< Elementwise producers into the reduction that reads them.
  bool after_reduction = true;      ///< Elementwise consumers behind a reduction over the same rows.
  bool reductions_together = true;  ///< Several reductions over the same rows (softmax, layer_norm).
  bool siblings = true;             ///< Independent kernels that read the same tensor.
  bool mixed_orders = false;        ///< Sums over rows and over columns of one tensor (mix_order_reduction).
  bool exchange_loops = true;  ///< Elementwise loops run in another's order (loop_ordering_after_fusion).
  bool library_norms = false;  ///< Norms and softmax stay kernels of a library instead of loops.
  std::int32_t ops_max = 64;   ///< Of one kernel (Inductor: max_fusion_size).
  friend bool operator==(const FusionRules&, const FusionRules&) = default;
};

/// Where matrix products come from and what they take in.
struct ProductRules {
  bool bias = true;         ///< A bias rides on the product (cuBLASLt's epilogue).
  bool activation = false;  ///< An activation behind the bias too.
  bool epilogue = false;    ///< Any elementwise consumer of the same shape (a template that is compiled).
  bool prologue = false;    ///< Elementwise producers of one operand.
  bool templates = false;   ///< Candidates are timed against the library's (max-autotune).
  /// A norm of the rows of one operand, built in, by pattern (product, RMSNorm, product).
  bool norm_prologue = false;
  bool padding = false;  ///< Rows that are no multiple of 16 bytes are filled up, where that pays.
  friend bool operator==(const ProductRules&, const ProductRules&) = default;
};

/// How the GPU work of a compiled region is launched.
enum class CudaGraphPolicy : std::uint8_t {
  None,
  Trees,      ///< CUDA graph trees: one per region, inputs that move are copied (reduce-overhead).
  Whole,      ///< The step recorded by hand: one CUDA graph, inputs stay where they are.
  Piecewise,  ///< Split at attention, which is launched by itself (vLLM).
};
std::string_view name(CudaGraphPolicy policy);

/// Passes over the graph before fusion.
struct SimplifyRules {
  bool dead_code = true;
  bool inference_dropout = true;  ///< Dropout that drops nothing goes away.
  bool no_ops = true;             ///< So do casts to the same dtype, needless copies, + 0, * 1.
  bool constants = true;          ///< What depends on constants alone is computed once.
  bool freeze = false;            ///< And what depends on parameters and buffers alone (inference).
  bool common_subexpressions = true;
  bool layout = false;         ///< Convolutions run channels last throughout.
  bool merge_qkv = false;      ///< Linears of one input become one product.
  bool merge_gate_up = false;  ///< The two of a SwiGLU do.
  friend bool operator==(const SimplifyRules&, const SimplifyRules&) = default;
};

/// What compiling itself costs, in seconds (compile_time.hpp has the formula).
struct CompileCost {
  double process = 0;      ///< Once per process: imports, starting workers.
  double base = 0;         ///< Per region that is compiled.
  double per_op = 0;       ///< Per op of the captured graph.
  double per_kernel = 0;   ///< Per distinct generated kernel.
  double per_product = 0;  ///< Per distinct matrix product that candidates are timed for.
  double warm_share = 1;   ///< Share of all but `process` that is left when the cache on disk has all.
  friend bool operator==(const CompileCost&, const CompileCost&) = default;
};

/// CPU cost of running compiled code: names of configs/hosts (HostSpec::ops).
struct CompiledHostOps {
  std::string region = "compiled_region";    ///< Per region: guards, cache lookup, wrapper.
  std::string parameter = "compiled_guard";  ///< Per parameter of the region: its guard.
  std::string kernel = "compiled_kernel";    ///< Per generated kernel.
  std::string library = "compiled_library";  ///< Per library call: matrix product, convolution.
  std::string attention = "compiled_attention";
  std::string replay = "compiled_replay";  ///< Per region that is replayed as a CUDA graph: checks and call.
  friend bool operator==(const CompiledHostOps&, const CompiledHostOps&) = default;
};

/// What a mode changes (`mode: reduce-overhead`), and a backend without modes as it is.
struct BackendMode {
  std::string name = "default";
  std::string help;
  FusionRules fusion;
  ProductRules products;
  SimplifyRules simplify;
  CudaGraphPolicy cuda_graphs = CudaGraphPolicy::None;
  CompileCost compile;
  friend bool operator==(const BackendMode&, const BackendMode&) = default;
};

struct Backend {
  std::string key;   ///< What scenarios call it: "inductor".
  std::string name;  ///< For people: "TorchInductor".
  std::string help;
  CaptureKind capture = CaptureKind::None;
  std::vector<BackendMode> modes;  ///< The first one is taken unless a scenario says otherwise; never empty.
  bool fused_attention = true;     ///< Attention written out is recognised and becomes one kernel.
  bool dynamic_shapes = true;      ///< False: each shape is a build of its own.
  bool training = true;            ///< False: inference only.
  bool python = true;              ///< False: the step runs without Python: no guards, no framework calls.
  std::vector<Vendor> vendors;     ///< Whose GPUs it runs on; empty: all.
  std::vector<ElementType> precisions;  ///< In which products can run besides the network's own.
  std::string kernel_prefix;            ///< Of names of generated kernels: "triton_".
  CompiledHostOps host;

  const BackendMode* find(std::string_view mode) const;
  friend bool operator==(const Backend&, const Backend&) = default;
};

}  // namespace gpusim
