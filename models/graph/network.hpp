// SPDX-License-Identifier: Apache-2.0
// A network as its file describes it: sizes are expressions, blocks are called and repeated, ops have names.
// What docs/networks.md explains; sim/config/network_reader.hpp fills it, build_graph() makes an op graph of
// it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "models/graph/expression.hpp"
#include "models/graph/op_graph.hpp"

namespace gpusim {

struct NetworkItem;

/// `repeat: layers`, the body that many times. `index` is the name that counts from 0; empty: none.
struct RepeatItem {
  Expression times;
  std::string index;
  std::vector<NetworkItem> body;
};

/// `if:` with `then:` and `else:`.
struct IfItem {
  Expression condition;
  std::vector<NetworkItem> then;
  std::vector<NetworkItem> otherwise;
};

struct NetworkItem {
  std::variant<Statement, RepeatItem, IfItem> what;
  TextPlace place;
};

/// A named part that is called like a function: a module of its own, unless it is a `function`.
struct NetworkBlock {
  struct Argument {
    std::string name;
    std::optional<Expression> fallback;
  };
  std::string name;
  std::vector<Argument> takes;
  std::vector<NetworkItem> body;
  std::vector<Expression> gives;
  bool function = false;  ///< Called without the framework's module machinery.
  TextPlace place;
};

/// A parameter of a network: what a scenario may set.
using NetworkValue = std::variant<bool, std::int64_t, double, std::string>;

struct Network {
  struct Parameter {
    std::string name;
    NetworkValue value;  ///< Unless the scenario says something else; its type is the parameter's.
    std::string help;
    std::vector<std::string> choices;  ///< Words that it may be; empty: any.
    TextPlace place;
  };
  struct Derived {
    std::string name;
    Expression value;
  };
  struct Input {
    std::string name;
    Expression shape;
    std::optional<ElementType> element;  ///< Absent: the network's.
    /// Whether the input comes with its channels innermost; absent: laid out row by row.
    std::optional<Expression> channels_last;
    TextPlace place;
  };
  std::string key;   ///< What scenarios call it: "gpt2".
  std::string name;  ///< For people.
  std::string file;
  std::vector<Parameter> parameters;
  std::vector<Derived> derived;
  std::vector<Input> inputs;
  std::vector<NetworkBlock> blocks;
  std::vector<NetworkItem> body;
  std::vector<Expression> gives;
  TextPlace place;
};

/// Inference: the whole sequence at once, nothing kept. Prefill: the same with the KV cache written. Decode:
/// one new token per sequence against a cache of `sequence` tokens. Training: forward of a training step.
enum class StepKind : std::uint8_t { Inference, Prefill, Decode, Training };
std::string_view name(StepKind step);
std::optional<StepKind> find_step_kind(std::string_view name);

/// What a scenario asks of a network. In expressions: `batch`, `sequence`, `tokens` (per sequence in this
/// step: 1 in decode, else `sequence`), `step`, `dtype` and `compiled`.
struct NetworkSizes {
  std::int64_t batch = 1;
  std::int64_t sequence = 1;
  StepKind step = StepKind::Inference;
  ElementType dtype = ElementType::Bf16;
  bool compiled = false;  ///< As a compiler traces it: modules without the fast paths of eager execution.
  std::map<std::string, NetworkValue, std::less<>> parameters;  ///< Those that differ from the network's own.
  friend bool operator==(const NetworkSizes&, const NetworkSizes&) = default;
};

struct GraphLimits {
  std::int64_t ops = 2'000'000;
  int block_depth = 64;
};

/// Runs the network's description once. Throws GraphError: unknown names, ops and parameters, shapes that do
/// not go together, sizes below one, blocks that call themselves, a limit.
OpGraph build_graph(const Network& network, const NetworkSizes& sizes, const GraphLimits& limits = {});

/// The sizes' names and values after `derived`, for reports: parameters, derived sizes, batch, sequence,
/// tokens, step, dtype, compiled.
std::vector<std::pair<std::string, NetworkValue>> resolved_sizes(const Network& network,
                                                                 const NetworkSizes& sizes);

}  // namespace gpusim
