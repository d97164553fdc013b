// SPDX-License-Identifier: Apache-2.0
// Ops and the tensors between them: what a network computes in one step, before anybody decides how it is
// run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "models/graph/tensor.hpp"

namespace gpusim {

struct OpKind;  // catalogue.hpp

/// A place in the text that describes a network; line 0: none.
struct TextPlace {
  int line = 0;
  int column = 0;
  friend bool operator==(const TextPlace&, const TextPlace&) = default;
};

/// A network that makes no sense: where, what is wrong, and the way out.
class GraphError : public std::invalid_argument {
 public:
  GraphError(TextPlace place, std::string what, std::string hint = {})
      : std::invalid_argument(what), place_(place), hint_(std::move(hint)) {}
  TextPlace place() const { return place_; }
  const std::string& hint() const { return hint_; }

 private:
  TextPlace place_;
  std::string hint_;
};

/// A number, word or list that belongs to an op: the dimension of a softmax, the stride of a convolution.
using AttributeValue = std::variant<std::monostate, bool, std::int64_t, double, std::string, Dims>;

/// The attributes of one op, in the order in which its kind declares them. Copies share them.
class Attributes {
 public:
  using Values = std::vector<std::pair<std::string_view, AttributeValue>>;  ///< Names are the catalogue's.

  void add(std::string_view name, AttributeValue value);
  const AttributeValue* find(std::string_view name) const;
  bool has(std::string_view name) const;
  // Readers for attributes that the kind declares with this type and a default, or as required.
  std::int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  bool flag(std::string_view name) const;
  const std::string& word(std::string_view name) const;
  const Dims& dims(std::string_view name) const;
  const Values& all() const;
  friend bool operator==(const Attributes& a, const Attributes& b) {
    return a.values_ == b.values_ || a.all() == b.all();
  }

 private:
  std::shared_ptr<Values> values_;  ///< Null: none. Changed only while nobody else has it.
};

using OpIndex = std::uint32_t;
using TensorIndex = std::uint32_t;
using StorageIndex = std::uint32_t;
using CallIndex = std::uint32_t;
inline constexpr std::uint32_t graph_none = std::numeric_limits<std::uint32_t>::max();

/// Memory that one or several tensors (a tensor and its views) live in.
struct Storage {
  Bytes bytes{0};
  Role role = Role::Activation;
  friend bool operator==(const Storage&, const Storage&) = default;
};

struct GraphTensor {
  std::string name;  ///< "h", "block[3].mlp.up.weight".
  TensorType type;
  Role role = Role::Activation;
  StorageIndex storage = graph_none;
  OpIndex producer = graph_none;  ///< None: there before the step begins.
  /// The last op at whose end a name of the network's text still stood for it, as a variable in Python keeps
  /// its tensor alive; none: it was never more than part of an expression.
  OpIndex named_until = graph_none;
  friend bool operator==(const GraphTensor&, const GraphTensor&) = default;
};

/// One call of a block: what Python runs in a frame of its own.
struct BlockCall {
  std::string name;                  ///< "block[3].mlp"; empty: the network's own body.
  CallIndex parent = graph_none;     ///< In whose body it stands; none: the network's own body.
  std::uint32_t block = graph_none;  ///< Which of the network's blocks; none: the network's own body.
  OpIndex first = 0;
  OpIndex last = 0;         ///< One past its last op; those of the calls in it included.
  bool module = true;       ///< An nn.Module; false: a plain function.
  bool in_repeat = false;   ///< Stands in a `repeat` of its caller.
  bool runs_again = false;  ///< Checkpointed by itself: backward makes it again, whatever else it keeps.
  friend bool operator==(const BlockCall&, const BlockCall&) = default;
};

/// In which part of a training step an op runs. Everything else is a forward pass.
enum class Phase : std::uint8_t { Forward, Backward, Optimizer };
std::string_view name(Phase phase);

struct Op {
  const OpKind* kind = nullptr;
  std::string name;  ///< "block[3].mlp.up"; unique.
  std::vector<TensorIndex>
      inputs;  ///< As the kind declares them; graph_none where an optional one is absent.
  std::vector<TensorIndex> outputs;
  Attributes attributes;
  /// Modules (nn.Module) that the framework enters for this op: itself, and the blocks of which it is the
  /// first op.
  std::int32_t module_calls = 0;
  /// The first op of the graph that costs the same (kind, attributes and types are equal): itself, if there
  /// is none before it. What is worked out for one holds for all.
  OpIndex like = graph_none;
  CallIndex call = 0;      ///< The innermost call that it stands in.
  bool in_repeat = false;  ///< Stands in a `repeat` of that call's body.
  Phase phase = Phase::Forward;
  /// Autograd nodes that the engine enters for this op and the ops behind it up to the next one that enters
  /// some: what each costs the host beside the ops it runs.
  std::int32_t nodes = 0;
  /// The forward op whose gradient it helps to work out, in a graph as training_graph() gives it; none: it
  /// has another phase, or begins or ends the backward pass.
  OpIndex gradient_of = graph_none;
  /// A forward op that is run once more in backward, by checkpointing or because min-cut would not keep it.
  bool recomputed = false;
  /// Adds a gradient to that of the micro-batches before: not run for the first one.
  bool accumulates = false;
  /// The framework's op that a compiler took apart into this one and others ("native_layer_norm"): what it
  /// names kernels after. Empty: its own kind.
  std::string_view taken_from{};
  TextPlace place;
};

/// Directed and acyclic: ops stand in the order in which the network runs them, and each reads only what
/// stands before it.
struct OpGraph {
  std::vector<Op> ops;
  std::vector<GraphTensor> tensors;
  std::vector<Storage> storages;
  std::vector<TensorIndex> outputs;
  std::vector<BlockCall> calls;  ///< In the order in which they begin; the first is the network's own body.
};

/// Bytes of all storages of a role.
Bytes bytes_of(const OpGraph& graph, Role role);
/// Number of elements of all parameters, each storage once (a tied head counts once).
std::int64_t parameter_count(const OpGraph& graph);

/// Per op, whether anything that leaves the step (outputs, states) depends on it, or the host: an op without
/// outputs (item, graph_break, adamw) is there for what it does.
std::vector<bool> needed_ops(const OpGraph& graph);

/// The longest chain of ops, each of which needs the one before it.
std::size_t depth(const OpGraph& graph);

}  // namespace gpusim
