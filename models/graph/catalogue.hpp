// SPDX-License-Identifier: Apache-2.0
// What ops there are. One table (catalogue.cpp) says of each: what it takes, the shapes it makes, its FLOPs,
// what eager PyTorch runs for it, and how compilers may treat it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/cost/kernel_work.hpp"
#include "models/graph/op_graph.hpp"
#include "models/units/quantity.hpp"

namespace gpusim {

/// How an op may be joined with its neighbours into one kernel.
enum class FusionClass : std::uint8_t {
  Pointwise,  ///< Element by element, broadcasting included.
  Reduction,  ///< Reads a row or column for each of its outputs.
  View,       ///< Moves nothing: another look at the same memory.
  Gather,     ///< Reads at places that data decide.
  Scatter,    ///< Writes at places that data decide.
  Random,     ///< Pointwise with random numbers.
  Product,    ///< Matrix products and convolutions: a library kernel, or a template with an epilogue.
  Library,    ///< One library kernel that nothing joins (attention, sort, pooling).
};
std::string_view name(FusionClass fusion);

/// Whether training may run an op again instead of keeping what it made.
enum class RecomputeClass : std::uint8_t {
  Free,       ///< A view: nothing to keep.
  Cheap,      ///< Pointwise, reductions, casts.
  Random,     ///< Only with the state of the random numbers.
  Expensive,  ///< Products, convolutions, attention.
  Never,      ///< Changes what it reads, or is part of the optimizer.
};
std::string_view name(RecomputeClass recompute);

/// An op as the functions of its kind see it. `outputs` is empty while the shapes are being found.
struct OpView {
  std::span<const TensorType* const> inputs;  ///< Null where an optional one is absent.
  const Attributes& attributes;
  std::span<const TensorType* const> outputs;

  bool has(std::size_t input) const { return input < inputs.size() && inputs[input] != nullptr; }
  const TensorType& in(std::size_t i = 0) const { return *inputs[i]; }
  const TensorType& out(std::size_t i = 0) const { return *outputs[i]; }
};

/// The types that an op's functions ask for, gathered from its graph.
class OpTypes {
 public:
  OpTypes(const OpGraph& graph, const Op& op);
  OpView view(const Op& op) const {
    return {.inputs = inputs_, .attributes = op.attributes, .outputs = outputs_};
  }

 private:
  std::vector<const TensorType*> inputs_;
  std::vector<const TensorType*> outputs_;
};

/// An output: its type, and of which input it is a view (or which input it overwrites); -1: memory of its
/// own.
struct MadeTensor {
  TensorType type;
  int view_of = -1;
};

/// A tensor that an op brings along if it is not given: the weight of a linear layer.
struct OwnTensor {
  std::size_t input = 0;  ///< Which of the op's inputs it becomes.
  TensorType type;
  Role role = Role::Parameter;
};

/// One call into the framework: what it costs the host (a name of configs/hosts) and what it puts into the
/// stream.
struct EagerCall {
  std::string_view host_op;
  std::vector<KernelWork> work;  ///< In order; empty for views.
  Bytes workspace{0};            ///< Allocated by the call and given back when it returns.
};

enum class InputNeed : std::uint8_t {
  Required,
  Optional,
  Own,   ///< Made by the op (see `own`) if it is not given.
  Many,  ///< The last one; one or more.
};
struct OpInput {
  std::string_view name;
  InputNeed need = InputNeed::Required;
};

enum class AttributeType : std::uint8_t { Flag, Integer, Number, Word, Dims, Element };
struct OpAttribute {
  std::string_view name;
  AttributeType type = AttributeType::Integer;
  /// Taken if it is not given; monostate: it has to be given, unless `optional`. Of a dtype, the word
  /// "network" stands for the network's.
  AttributeValue fallback{};
  bool optional = false;
};

struct OpKind {
  std::string_view name;
  std::string_view help;  ///< One line.
  FusionClass fusion = FusionClass::Pointwise;
  RecomputeClass recompute = RecomputeClass::Cheap;
  std::vector<OpInput> inputs;
  std::vector<OpAttribute> attributes;
  /// What the op brings along. Null: nothing. Throws ShapeError.
  std::vector<OwnTensor> (*own)(const OpView&) = nullptr;
  /// Throws ShapeError.
  std::vector<MadeTensor> (*infer)(const OpView&) = nullptr;
  /// Model FLOPs: multiply-adds of products and attention count two, as torch's FlopCounterMode has them; all
  /// other arithmetic counts nothing. Null: none.
  Flops (*flops)(const OpView&) = nullptr;
  /// What eager PyTorch runs on this GPU.
  std::vector<EagerCall> (*eager)(const OpView&, const GpuSpec&) = nullptr;
  /// Whether it is usually written as a module of its own (nn.Linear): one module call on the host, if it
  /// owns tensors.
  bool module = false;
};

/// Shapes that do not go together. The network's reader adds the place.
class ShapeError : public std::invalid_argument {
 public:
  explicit ShapeError(std::string what, std::string hint = {})
      : std::invalid_argument(std::move(what)), hint_(std::move(hint)) {}
  const std::string& hint() const { return hint_; }

 private:
  std::string hint_;
};

/// All kinds, sorted by name.
const std::vector<OpKind>& op_catalogue();
/// What one writes: "layer_norm(x, [weight], [bias], affine=true, bias=true, dtype=none)". Tensors in square
/// brackets may be left out, `tensors...` are one or more; attributes have what they are unless given, and
/// those without '=' must be given.
std::string op_signature(const OpKind& kind);

/// Null if there is none of this name.
const OpKind* find_op(std::string_view name);

}  // namespace gpusim
