// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "models/graph/catalogue.hpp"
#include "models/graph/evaluator.hpp"
#include "models/graph/like_index.hpp"
#include "models/graph/network.hpp"

namespace gpusim {
namespace {

class GraphBuilder : public Evaluator {
 public:
  GraphBuilder(const Network& network, const NetworkSizes& sizes, const GraphLimits& limits)
      : network_(network), sizes_(sizes), limits_(limits), globals_(SizeEvaluator(network, sizes).scope()) {
    refuse_recursion(network);
  }

  OpGraph build() {
    Frame frame;
    frame_ = &frame;
    graph_.calls.emplace_back();
    for (const Network::Input& input : network_.inputs) {
      const Dims shape = dims(input.shape, "the shape of input '" + input.name + "'", 1);
      TensorType type = contiguous_tensor(input.element.value_or(sizes_.dtype), shape);
      if (input.channels_last && truth(*input.channels_last)) {
        if (shape.rank() != 4 && shape.rank() != 5)
          throw GraphError(
              input.channels_last->place,
              "channels last is for [batch, channels, height, width], not for " + to_string(shape));
        type.strides = channels_last_strides(shape);
      }
      frame.variables[input.name] = Value{TensorRef{add_tensor(input.name, type, Role::Input, input.place)}};
    }
    run(network_.body);
    for (const Expression& e : network_.gives) {
      const Value value = evaluate(e);
      const auto* tensor = value.as<TensorRef>();
      if (tensor == nullptr)
        throw GraphError(e.place, "a network gives tensors, but this is " + std::string(type_name(value)));
      graph_.outputs.push_back(tensor->index);
    }
    for (const auto& [name, value] : frame.variables) drop(value);
    if (graph_.ops.empty()) throw GraphError(network_.place, "the network has no op for this step");
    graph_.calls.front().last = static_cast<OpIndex>(graph_.ops.size());
    return std::move(graph_);
  }

 private:
  /// One call of a block.
  struct Frame {
    CallIndex call = 0;
    std::string path;  ///< "block[3].mlp."; empty at the top.
    Scope variables;
    std::map<std::string, int, std::less<>> used;  ///< How often a name was given in here.
    std::string repeat_suffix;                     ///< "[3]" within a repeat.
    int depth = 0;
    std::set<std::string, std::less<>> indices;       ///< Names that count the rounds of the repeats around.
    std::set<std::string, std::less<>> indices_read;  ///< Those of them that a statement read.
  };

  // --- Statements.

  void run(const std::vector<NetworkItem>& items) {
    for (const NetworkItem& item : items) {
      if (const auto* statement = std::get_if<Statement>(&item.what)) {
        execute(*statement);
      } else if (const auto* repeat = std::get_if<RepeatItem>(&item.what)) {
        run_repeat(*repeat);
      } else if (const auto* choice = std::get_if<IfItem>(&item.what)) {
        run(truth(choice->condition) ? choice->then : choice->otherwise);
      }
    }
  }

  /// What a network may do without making an op has an end too: rounds of repeats, statements, calls. `count`
  /// weighs what it costs: 1 for a tensor that a repeat lays out, 4 for a statement or round, 8 for a call.
  void take_steps(std::int64_t count, TextPlace place) {
    const std::int64_t most = 32 * std::max<std::int64_t>(limits_.ops, 1'000);
    if (count <= most - steps_) {
      steps_ += count;
      return;
    }
    throw GraphError(place,
                     "the network's description has more than " + std::to_string(most) +
                         " steps: 1 for a repeated tensor, 4 for a statement, 8 for a call (32 for each of " +
                         std::to_string(limits_.ops) + " ops, graph_ops_max)",
                     "fewer repeats, or raise the limit");
  }

  void execute(const Statement& statement) {
    take_steps(4, statement.place);
    const Statement* const around = std::exchange(statement_, &statement);
    Value value = evaluate(statement.value);
    statement_ = around;
    if (statement.targets.empty()) return;
    for (std::size_t i = 0; i < statement.targets.size(); ++i)
      if (globals_.count(statement.targets[i]) != 0)
        throw GraphError(statement.target_places[i],
                         "'" + statement.targets[i] + "' is a size of the network and cannot be assigned to",
                         "choose another name");
    if (statement.targets.size() == 1) {
      assign(statement.targets.front(), std::move(value));
      return;
    }
    const auto* list = value.as<Value::List>();
    if (list == nullptr || list->size() != statement.targets.size())
      throw GraphError(statement.place, std::to_string(statement.targets.size()) +
                                            " names on the left, but the right is " +
                                            (list == nullptr ? std::string(type_name(value))
                                                             : "a list of " + std::to_string(list->size())));
    for (std::size_t i = 0; i < list->size(); ++i) assign(statement.targets[i], (*list)[i]);
  }

  void assign(const std::string& name, Value value) {
    Value& variable = frame_->variables[name];
    drop(variable);
    variable = std::move(value);
  }

  /// A name no longer stands for this value: what it held may be given back after the op that ran last.
  void drop(const Value& value) {
    if (const auto* tensor = value.as<TensorRef>()) {
      if (!graph_.ops.empty())
        graph_.tensors[tensor->index].named_until = static_cast<OpIndex>(graph_.ops.size() - 1);
    } else if (const auto* list = value.as<Value::List>()) {
      for (const Value& item : *list) drop(item);
    }
  }

  /// Sizes of the graph at some moment.
  struct Mark {
    std::size_t ops = 0;
    std::size_t tensors = 0;
    std::size_t storages = 0;
    std::size_t calls = 0;
  };
  Mark mark() const {
    return {graph_.ops.size(), graph_.tensors.size(), graph_.storages.size(), graph_.calls.size()};
  }

  void run_repeat(const RepeatItem& repeat) {
    const std::int64_t times = integer(repeat.times, "the number of repeats");
    if (times < 0)
      throw GraphError(repeat.times.place,
                       "the number of repeats must not be negative, but is " + std::to_string(times));
    if (times > limits_.ops)
      throw GraphError(repeat.times.place, std::to_string(times) + " repeats are more than " +
                                               std::to_string(limits_.ops) + " (graph_ops_max)");
    const std::string outer_suffix = frame_->repeat_suffix;
    if (!repeat.index.empty() && !frame_->indices.insert(repeat.index).second)
      throw GraphError(repeat.times.place, "'" + repeat.index + "' already counts a repeat around this one",
                       "choose another name for the index");
    frame_->indices_read.erase(repeat.index);
    Mark begin;
    for (std::int64_t i = 0; i < times; ++i) {
      // Two rounds are run; if the second left everything as it found it but for one round's worth of new
      // tensors, the others are copies of it.
      take_steps(4, repeat.times.place);
      const std::map<std::string, int, std::less<>> used_before = frame_->used;
      const Scope before = i == 1 ? frame_->variables : Scope{};
      frame_->repeat_suffix = outer_suffix + "[" + std::to_string(i) + "]";
      if (!repeat.index.empty()) frame_->variables[repeat.index] = Value{i};
      const Mark start = mark();
      run(repeat.body);
      frame_->used = used_before;
      if (i == 1 && times > 2 && frame_->indices_read.count(repeat.index) == 0 &&
          alike(before, begin, start, repeat.index)) {
        copy_rounds(begin, start, times - 2, outer_suffix, repeat.times.place);
        break;
      }
      begin = start;
    }
    frame_->variables.erase(repeat.index);
    frame_->indices.erase(repeat.index);
    frame_->repeat_suffix = outer_suffix;
  }

  /// Whether the round that began at `start` is the one that began at `begin`, shifted: then so is the next
  /// one.
  bool alike(const Scope& before, const Mark& begin, const Mark& start, const std::string& index) const {
    const Mark end = mark();
    const std::size_t tensors = end.tensors - start.tensors;
    if (end.ops - start.ops != start.ops - begin.ops || tensors != start.tensors - begin.tensors ||
        end.storages - start.storages != start.storages - begin.storages)
      return false;
    if (pending_modules_ != 0) return false;
    for (std::size_t i = start.ops; i < end.ops; ++i) {
      const Op& now = graph_.ops[i];
      const Op& then = graph_.ops[i - (end.ops - start.ops)];
      if (now.like != then.like || now.module_calls != then.module_calls) return false;
      for (std::size_t k = 0; k < now.inputs.size(); ++k) {
        const TensorIndex a = now.inputs[k];
        const TensorIndex b = then.inputs[k];
        // What the round made moves along; what was there before both rounds stays. What goes in at the front
        // of the first round was made before it and in the second round by the first: that must move along
        // from now on.
        const bool stays = a == b && (a == graph_none || a < begin.tensors);
        const bool moves = a != graph_none && a >= begin.tensors &&
                           (b < begin.tensors || b == graph_none || a == b + tensors);
        if (!stays && !moves) return false;
      }
    }
    for (const auto& [key, value] : frame_->variables) {
      const auto old = before.find(key);
      if (old == before.end()) return false;
      const auto* a = value.as<TensorRef>();
      const auto* b = old->second.as<TensorRef>();
      if ((a == nullptr) != (b == nullptr)) return false;
      if (a == nullptr) {
        if (key != index && !plain_equal(value, old->second)) return false;
        continue;
      }
      const bool stays = a->index == b->index && a->index < begin.tensors;
      const bool moves =
          a->index >= start.tensors && b->index >= begin.tensors && a->index == b->index + tensors;
      if (!stays && !moves) return false;
    }
    return true;
  }

  static bool plain_equal(const Value& a, const Value& b) {
    if (a.is.index() != b.is.index()) return false;
    if (const auto* i = a.as<std::int64_t>()) return *i == *b.as<std::int64_t>();
    if (const auto* d = a.as<double>()) return *d == *b.as<double>();
    if (const auto* t = a.as<bool>()) return *t == *b.as<bool>();
    if (const auto* s = a.as<std::string>()) return *s == *b.as<std::string>();
    return a.is_none();  // lists may hold tensors: not looked into
  }

  void copy_rounds(const Mark& begin, const Mark& start, std::int64_t rounds, const std::string& outer_suffix,
                   TextPlace place) {
    const Mark end = mark();
    const std::size_t ops = end.ops - start.ops;
    const auto tensors = static_cast<std::uint32_t>(end.tensors - start.tensors);
    const auto storages = static_cast<std::uint32_t>(end.storages - start.storages);
    const auto calls = static_cast<std::uint32_t>(end.calls - start.calls);
    if (static_cast<std::int64_t>(ops) > 0 &&
        rounds > (limits_.ops - static_cast<std::int64_t>(end.ops)) / static_cast<std::int64_t>(ops))
      too_many_ops(graph_.ops[start.ops].place);
    const auto round = static_cast<std::int64_t>(std::size_t{tensors} + calls);
    const std::int64_t laid_out = rounds > std::numeric_limits<std::int32_t>::max()
                                      ? std::numeric_limits<std::int64_t>::max()
                                      : round * rounds;
    if (round > 0) take_steps(laid_out, place);
    add_bytes(start.storages, rounds, place);
    const auto moved = [&](std::uint32_t index, std::size_t from, std::uint32_t by) {
      return index != graph_none && index >= from ? index + by : index;
    };
    const std::string old_mark = outer_suffix + "[1]";
    // The mark stands right after the name of what is repeated in this frame: the same place in all rounds.
    std::vector<std::size_t> tensor_marks;
    std::vector<std::size_t> op_marks;
    for (std::size_t t = start.tensors; t < end.tensors; ++t)
      tensor_marks.push_back(graph_.tensors[t].name.find(old_mark, frame_->path.size()));
    for (std::size_t i = start.ops; i < end.ops; ++i)
      op_marks.push_back(graph_.ops[i].name.find(old_mark, frame_->path.size()));
    std::vector<std::size_t> call_marks;
    for (std::size_t c = start.calls; c < end.calls; ++c)
      call_marks.push_back(graph_.calls[c].name.find(old_mark, frame_->path.size()));
    const auto renamed = [&](const std::string& name, std::size_t at, const std::string& new_mark) {
      if (at == std::string::npos) return name;
      std::string text;
      text.reserve(name.size() + new_mark.size());
      text.append(name, 0, at).append(new_mark).append(name, at + old_mark.size());
      return text;
    };
    const auto total = static_cast<std::size_t>(rounds);
    graph_.ops.reserve(end.ops + total * ops);
    graph_.tensors.reserve(end.tensors + total * tensors);
    graph_.storages.reserve(end.storages + total * storages);
    graph_.calls.reserve(end.calls + total * calls);
    for (std::int64_t r = 1; r <= rounds; ++r) {
      const std::string new_mark = outer_suffix + "[" + std::to_string(r + 1) + "]";
      const auto by_op = static_cast<std::uint32_t>(ops * static_cast<std::size_t>(r));
      const auto by_tensor = tensors * static_cast<std::uint32_t>(r);
      const auto by_storage = storages * static_cast<std::uint32_t>(r);
      const auto by_call = calls * static_cast<std::uint32_t>(r);
      for (std::size_t s = start.storages; s < end.storages; ++s)
        graph_.storages.push_back(graph_.storages[s]);
      for (std::size_t t = start.tensors; t < end.tensors; ++t) {
        const GraphTensor& model = graph_.tensors[t];
        // The first round's names have been given new values by the second, and so it goes on; the last
        // round's keep theirs, as the second's do now.
        const OpIndex named_until = r < rounds ? moved(graph_.tensors[t - tensors].named_until, begin.ops,
                                                       by_op + static_cast<std::uint32_t>(ops))
                                               : moved(model.named_until, begin.ops, by_op);
        graph_.tensors.push_back({.name = renamed(model.name, tensor_marks[t - start.tensors], new_mark),
                                  .type = model.type,
                                  .role = model.role,
                                  .storage = moved(model.storage, begin.storages, by_storage),
                                  .producer = moved(model.producer, begin.ops, by_op),
                                  .named_until = named_until});
      }
      for (std::size_t i = start.ops; i < end.ops; ++i) {
        const Op& model = graph_.ops[i];
        Op op{.kind = model.kind,
              .name = renamed(model.name, op_marks[i - start.ops], new_mark),
              .inputs = model.inputs,
              .outputs = model.outputs,
              .attributes = model.attributes,
              .module_calls = model.module_calls,
              .like = model.like,
              .call = moved(model.call, start.calls, by_call),
              .in_repeat = model.in_repeat,
              .taken_from = {},
              .place = model.place};
        for (TensorIndex& t : op.inputs) t = moved(t, begin.tensors, by_tensor);
        for (TensorIndex& t : op.outputs) t = moved(t, begin.tensors, by_tensor);
        graph_.ops.push_back(std::move(op));
      }
      for (std::size_t c = start.calls; c < end.calls; ++c) {
        const BlockCall& model = graph_.calls[c];
        graph_.calls.push_back({.name = renamed(model.name, call_marks[c - start.calls], new_mark),
                                .parent = moved(model.parent, start.calls, by_call),
                                .block = model.block,
                                .first = model.first + by_op,
                                .last = model.last + by_op,
                                .module = model.module,
                                .in_repeat = model.in_repeat});
      }
    }
    for (std::size_t t = start.tensors; t < end.tensors; ++t)
      graph_.tensors[t].named_until =
          moved(graph_.tensors[t - tensors].named_until, begin.ops, static_cast<std::uint32_t>(ops));
    const auto by = tensors * static_cast<std::uint32_t>(rounds);
    for (auto& [key, value] : frame_->variables)
      if (auto* tensor = std::get_if<TensorRef>(&value.is))
        tensor->index = moved(tensor->index, begin.tensors, by);
  }

  // --- Expressions.

  Value look_up(const Expression& e) override {
    if (frame_->indices.count(e.text) != 0) frame_->indices_read.insert(e.text);
    const auto local = frame_->variables.find(e.text);
    if (local != frame_->variables.end()) return local->second;
    const auto global = globals_.find(e.text);
    if (global != globals_.end()) return global->second;
    std::vector<std::string> known;
    for (const auto& [key, value] : frame_->variables) known.push_back(key);
    for (const auto& [key, value] : globals_) known.push_back(key);
    throw GraphError(e.place, "unknown name '" + e.text + "'", hint_for(e.text, known, "names"));
  }

  Value call(const Expression& e) override {
    const std::string* const target = target_of(e);
    if (auto value = number_function(e)) return *value;
    if (e.text == "parameter" || e.text == "buffer" || e.text == "state") return declare(e, target);
    if (e.text == "size") return size_of_tensor(e);
    for (std::size_t b = 0; b < network_.blocks.size(); ++b)
      if (network_.blocks[b].name == e.text) return call_block(e, static_cast<std::uint32_t>(b));
    const OpKind* kind = find_op(e.text);
    if (kind == nullptr) {
      std::vector<std::string> known{"parameter", "buffer", "state", "size"};
      for (const NetworkBlock& block : network_.blocks) known.push_back(block.name);
      for (const OpKind& k : op_catalogue()) known.emplace_back(k.name);
      throw GraphError(e.place, "unknown op or block '" + e.text + "'",
                       hint_for(e.text, known, "ops and blocks"));
    }
    std::vector<std::pair<std::string, Value>> arguments;
    arguments.reserve(e.parts.size());
    for (std::size_t i = 0; i < e.parts.size(); ++i) arguments.emplace_back(e.names[i], evaluate(e.parts[i]));
    return apply(*kind, std::move(arguments), e, target);
  }

  Value declare(const Expression& e, const std::string* target) {
    if (e.parts.empty() || !e.names[0].empty() || e.parts.size() > 2 ||
        (e.parts.size() == 2 && e.names[1] != "dtype"))
      throw GraphError(
          e.place, e.text + "() takes a shape and, if it is not the network's, a dtype",
          "write " + e.text + "([d_model]) or " + e.text + "([sequence, sequence], dtype='bool')");
    const Dims shape = dims(e.parts[0], "the shape of a " + e.text, 1);
    ElementType element = sizes_.dtype;
    if (e.parts.size() == 2) element = element_type(e.parts[1]);
    const Role role = e.text == "parameter" ? Role::Parameter
                      : e.text == "buffer"  ? Role::Buffer
                                            : Role::State;
    return Value{TensorRef{add_tensor(unique(target != nullptr ? *target : e.text),
                                      contiguous_tensor(element, shape), role, e.place)}};
  }

  Value size_of_tensor(const Expression& e) {
    if (e.parts.size() != 2) throw GraphError(e.place, "size() takes a tensor and a dimension");
    const Value value = evaluate(e.parts[0]);
    const auto* tensor = value.as<TensorRef>();
    if (tensor == nullptr)
      throw GraphError(e.parts[0].place, "size() takes a tensor, not " + std::string(type_name(value)));
    const Dims& shape = graph_.tensors[tensor->index].type.shape;
    std::int64_t d = integer(e.parts[1], "a dimension");
    if (d < 0) d += shape.rank();
    if (d < 0 || d >= shape.rank())
      throw GraphError(e.parts[1].place,
                       "there is no such dimension in a tensor of shape " + to_string(shape));
    return Value{shape[static_cast<int>(d)]};
  }

  Value call_block(const Expression& e, std::uint32_t block_index) {
    const NetworkBlock& block = network_.blocks[block_index];
    take_steps(8, e.place);
    if (frame_->depth + 1 > limits_.block_depth)
      throw GraphError(e.place, "blocks are nested deeper than " + std::to_string(limits_.block_depth) +
                                    " (block_depth_max)");
    Frame inner;
    inner.depth = frame_->depth + 1;
    std::vector<std::string> known;
    for (const NetworkBlock::Argument& argument : block.takes) known.push_back(argument.name);
    std::size_t position = 0;
    for (std::size_t i = 0; i < e.parts.size(); ++i) {
      Value value = evaluate(e.parts[i]);
      std::string name = e.names[i];
      if (name.empty()) {
        if (position >= block.takes.size())
          throw GraphError(
              e.parts[i].place,
              "block '" + block.name + "' takes " + std::to_string(block.takes.size()) + " arguments",
              known.empty() ? "" : known_names(known, "arguments"));
        name = block.takes[position++].name;
      } else if (std::find(known.begin(), known.end(), name) == known.end()) {
        throw GraphError(e.parts[i].place, "block '" + block.name + "' takes no '" + name + "'",
                         hint_for(name, known, "arguments"));
      }
      if (inner.variables.count(name) != 0)
        throw GraphError(e.parts[i].place, "'" + name + "' is given twice");
      inner.variables[name] = std::move(value);
    }
    inner.path = unique(block.name);
    inner.call = static_cast<CallIndex>(graph_.calls.size());
    graph_.calls.push_back({.name = inner.path,
                            .parent = frame_->call,
                            .block = block_index,
                            .first = static_cast<OpIndex>(graph_.ops.size()),
                            .last = 0,
                            .module = !block.function,
                            .in_repeat = !frame_->repeat_suffix.empty()});
    inner.path += '.';
    Frame* const outer = std::exchange(frame_, &inner);
    const auto restore =
        std::unique_ptr<Frame, std::function<void(Frame*)>>(outer, [this](Frame* f) { frame_ = f; });
    for (const NetworkBlock::Argument& argument : block.takes) {
      if (inner.variables.count(argument.name) != 0) continue;
      if (!argument.fallback)
        throw GraphError(e.place, "block '" + block.name + "' needs '" + argument.name + "'");
      inner.variables[argument.name] = evaluate(*argument.fallback);
    }
    if (!block.function) ++pending_modules_;
    run(block.body);
    Value::List gives;
    for (const Expression& give : block.gives) gives.push_back(evaluate(give));
    graph_.calls[inner.call].last = static_cast<OpIndex>(graph_.ops.size());
    for (const auto& [name, value] : inner.variables) drop(value);
    if (gives.size() == 1) return gives.front();
    return Value{std::move(gives)};
  }

  Value tensor_unary(const Expression& e, const Value& operand) override {
    return apply(*find_op("neg"), {{"", operand}}, e, target_of(e));
  }

  /// The name that the statement gives to what `e` makes; none if `e` is only a part of its expression.
  const std::string* target_of(const Expression& e) const {
    if (statement_ == nullptr || statement_->targets.size() != 1) return nullptr;
    const auto is_whole = [&](const auto& self, const Expression& whole) -> bool {
      if (&whole == &e) return true;
      return whole.kind == Expression::Kind::Conditional &&
             (self(self, whole.parts[1]) || self(self, whole.parts[2]));
    };
    return is_whole(is_whole, statement_->value) ? &statement_->targets.front() : nullptr;
  }

  Value tensor_binary(const Expression& e, const Value& a, const Value& b) override {
    struct Operator {
      std::string_view symbol;
      std::string_view op;
      std::string_view reversed;  ///< For `number op tensor`.
    };
    static constexpr std::array<Operator, 12> operators{{{"+", "add", "add"},
                                                         {"-", "sub", "rsub"},
                                                         {"*", "mul", "mul"},
                                                         {"/", "div", "rdiv"},
                                                         {"//", "floor_divide", ""},
                                                         {"**", "pow", ""},
                                                         {"==", "eq", "eq"},
                                                         {"!=", "ne", "ne"},
                                                         {"<", "lt", "gt"},
                                                         {"<=", "le", "ge"},
                                                         {">", "gt", "lt"},
                                                         {">=", "ge", "le"}}};
    const std::string* const target = target_of(e);
    for (const Operator& o : operators) {
      if (o.symbol != e.text) continue;
      if (a.as<TensorRef>() != nullptr) return apply(*find_op(o.op), {{"", a}, {"", b}}, e, target);
      if (!o.reversed.empty()) return apply(*find_op(o.reversed), {{"", b}, {"", a}}, e, target);
    }
    throw GraphError(e.place, "'" + e.text + "' cannot be applied to " + std::string(type_name(a)) + " and " +
                                  std::string(type_name(b)));
  }

  // --- Ops.

  Value apply(const OpKind& kind, std::vector<std::pair<std::string, Value>> arguments, const Expression& e,
              const std::string* target) {
    Op op;
    op.kind = &kind;
    op.place = e.place;
    bind(kind, std::move(arguments), e, op);
    std::vector<const TensorType*> types = types_of(op.inputs);
    try {
      if (kind.own != nullptr) {
        bool owns = false;
        const std::string base = unique(target != nullptr ? *target : std::string(kind.name));
        op.name = base;
        for (const OwnTensor& own : kind.own({types, op.attributes, {}})) {
          const TensorIndex t =
              add_tensor(base + "." + std::string(kind.inputs[own.input].name), own.type, own.role, e.place);
          op.inputs[own.input] = t;
          owns = true;
        }
        if (owns && kind.module) ++pending_modules_;
        types = types_of(op.inputs);
      } else {
        op.name = unique(target != nullptr ? *target : std::string(kind.name));
      }
      const std::vector<MadeTensor> made = kind.infer({types, op.attributes, {}});
      const auto index = static_cast<OpIndex>(graph_.ops.size());
      if (static_cast<std::int64_t>(index) >= limits_.ops) too_many_ops(e.place);
      for (std::size_t i = 0; i < made.size(); ++i) {
        const std::string name = made.size() == 1 ? op.name : op.name + "[" + std::to_string(i) + "]";
        TensorIndex t = graph_none;
        if (made[i].view_of >= 0) {
          const GraphTensor& base = graph_.tensors[op.inputs[static_cast<std::size_t>(made[i].view_of)]];
          t = add_view(name, made[i].type, base.role, base.storage);
        } else {
          t = add_tensor(name, made[i].type, Role::Activation, e.place);
        }
        graph_.tensors[t].producer = index;
        op.outputs.push_back(t);
      }
    } catch (const ShapeError& error) {
      throw GraphError(e.place, std::string(kind.name) + ": " + error.what(), error.hint());
    }
    op.module_calls = std::exchange(pending_modules_, 0);
    op.like = likes_.first_like(graph_, op, static_cast<OpIndex>(graph_.ops.size()));
    op.call = frame_->call;
    op.in_repeat = !frame_->repeat_suffix.empty();
    graph_.ops.push_back(std::move(op));
    const Op& done = graph_.ops.back();
    if (done.outputs.size() == 1) return Value{TensorRef{done.outputs.front()}};
    Value::List list;
    for (const TensorIndex t : done.outputs) list.push_back(Value{TensorRef{t}});
    return Value{std::move(list)};
  }

  [[noreturn]] void too_many_ops(TextPlace place) const {
    throw GraphError(place,
                     "the network has more than " + std::to_string(limits_.ops) + " ops (graph_ops_max)",
                     "fewer layers, or raise the limit");
  }

  std::vector<const TensorType*> types_of(const std::vector<TensorIndex>& tensors) const {
    std::vector<const TensorType*> types;
    types.reserve(tensors.size());
    for (const TensorIndex t : tensors) types.push_back(t == graph_none ? nullptr : &graph_.tensors[t].type);
    return types;
  }

  /// Tensors fill the inputs, everything else the attributes, each in order; named arguments go by their
  /// names.
  void bind(const OpKind& kind, std::vector<std::pair<std::string, Value>> arguments, const Expression& e,
            Op& op) {
    // Only for messages: names are not gathered for each op.
    const auto known = [&] {
      std::vector<std::string> names;
      for (const OpInput& input : kind.inputs) names.emplace_back(input.name);
      for (const OpAttribute& attribute : kind.attributes) names.emplace_back(attribute.name);
      return names;
    };
    const auto place_of = [&](std::size_t i) { return i < e.parts.size() ? e.parts[i].place : e.place; };
    std::vector<AttributeValue> attributes(kind.attributes.size());
    std::vector<bool> given(kind.attributes.size(), false);
    std::vector<TensorIndex> inputs(kind.inputs.size(), graph_none);
    std::vector<TensorIndex> many;
    const bool takes_many = !kind.inputs.empty() && kind.inputs.back().need == InputNeed::Many;
    std::size_t next_input = 0;
    std::size_t next_attribute = 0;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      auto& [name, value] = arguments[i];
      std::size_t input = kind.inputs.size();
      std::size_t attribute = kind.attributes.size();
      if (!name.empty()) {
        for (std::size_t k = 0; k < kind.inputs.size(); ++k)
          if (kind.inputs[k].name == name) input = k;
        for (std::size_t k = 0; k < kind.attributes.size(); ++k)
          if (kind.attributes[k].name == name) attribute = k;
        // A name may be both, as the bias of a linear layer: a tensor, or whether there is one.
        const bool tensor = holds_tensor(value);
        if (input < kind.inputs.size() && attribute < kind.attributes.size())
          (tensor ? attribute : input) = tensor ? kind.attributes.size() : kind.inputs.size();
        if (input == kind.inputs.size() && attribute == kind.attributes.size())
          throw GraphError(place_of(i), std::string(kind.name) + " takes no '" + name + "'",
                           hint_for(name, known(), "arguments"));
      } else if (holds_tensor(value)) {
        input = next_input;
        if (input >= kind.inputs.size())
          throw GraphError(place_of(i), std::string(kind.name) + " takes at most " +
                                            std::to_string(kind.inputs.size()) + " tensors");
      } else {
        // None stands for a tensor that is not given.
        if (value.is_none() && next_input < kind.inputs.size()) {
          ++next_input;
          continue;
        }
        while (next_attribute < kind.attributes.size() && given[next_attribute]) ++next_attribute;
        attribute = next_attribute;
        if (attribute >= kind.attributes.size())
          throw GraphError(
              place_of(i),
              std::string(kind.name) + " does not take " + std::string(type_name(value)) + " here",
              known_names(known(), "arguments"));
      }
      if (input < kind.inputs.size()) {
        if (takes_many && input + 1 == kind.inputs.size()) {
          collect_many(value, many, place_of(i));
          continue;
        }
        const auto* tensor = value.as<TensorRef>();
        if (tensor == nullptr) {
          if (value.is_none()) continue;
          throw GraphError(place_of(i), "'" + std::string(kind.inputs[input].name) + "' of " +
                                            std::string(kind.name) + " is a tensor, not " +
                                            std::string(type_name(value)));
        }
        if (inputs[input] != graph_none)
          throw GraphError(place_of(i), "'" + std::string(kind.inputs[input].name) + "' is given twice");
        inputs[input] = tensor->index;
        if (name.empty()) next_input = input + 1;
        continue;
      }
      if (given[attribute])
        throw GraphError(place_of(i),
                         "'" + std::string(kind.attributes[attribute].name) + "' is given twice");
      attributes[attribute] = converted(kind, kind.attributes[attribute], value, place_of(i));
      given[attribute] = true;
    }
    for (std::size_t k = 0; k < kind.attributes.size(); ++k) {
      const OpAttribute& a = kind.attributes[k];
      if (!given[k]) {
        if (std::holds_alternative<std::monostate>(a.fallback) && !a.optional)
          throw GraphError(e.place, std::string(kind.name) + " needs '" + std::string(a.name) + "'",
                           signature(kind));
        attributes[k] = a.fallback;
        // "network" is no dtype, but stands for the network's.
        if (a.type == AttributeType::Element && attributes[k] == AttributeValue(std::string("network")))
          attributes[k] = std::string(name(sizes_.dtype));
      }
      op.attributes.add(a.name, std::move(attributes[k]));
    }
    for (std::size_t k = 0; k < kind.inputs.size(); ++k)
      if (kind.inputs[k].need == InputNeed::Required && inputs[k] == graph_none)
        throw GraphError(
            e.place, std::string(kind.name) + " needs the tensor '" + std::string(kind.inputs[k].name) + "'",
            signature(kind));
    if (takes_many) {
      inputs.pop_back();
      if (many.empty())
        throw GraphError(e.place, std::string(kind.name) + " needs at least one tensor", signature(kind));
      inputs.insert(inputs.end(), many.begin(), many.end());
    }
    op.inputs = std::move(inputs);
  }

  static bool holds_tensor(const Value& value) {
    if (value.as<TensorRef>() != nullptr) return true;
    const auto* list = value.as<Value::List>();
    return list != nullptr && !list->empty() && holds_tensor(list->front());
  }

  void collect_many(const Value& value, std::vector<TensorIndex>& many, TextPlace place) const {
    if (const auto* tensor = value.as<TensorRef>()) {
      many.push_back(tensor->index);
      return;
    }
    const auto* list = value.as<Value::List>();
    if (list == nullptr) throw GraphError(place, "expected tensors, found " + std::string(type_name(value)));
    for (const Value& item : *list) collect_many(item, many, place);
  }

  static std::string signature(const OpKind& kind) {
    std::string text = "write " + std::string(kind.name) + "(";
    bool first = true;
    for (const OpInput& input : kind.inputs) {
      if (input.need == InputNeed::Own || input.need == InputNeed::Optional) continue;
      text += (first ? "" : ", ") + std::string(input.name) + (input.need == InputNeed::Many ? "..." : "");
      first = false;
    }
    for (const OpAttribute& attribute : kind.attributes) {
      if (attribute.optional || !std::holds_alternative<std::monostate>(attribute.fallback)) continue;
      text += (first ? "" : ", ") + std::string(attribute.name);
      first = false;
    }
    return text + ")";
  }

  AttributeValue converted(const OpKind& kind, const OpAttribute& attribute, const Value& value,
                           TextPlace place) const {
    const auto refuse = [&](std::string_view wanted) -> AttributeValue {
      throw GraphError(place, "'" + std::string(attribute.name) + "' of " + std::string(kind.name) + " is " +
                                  std::string(wanted) + ", not " + std::string(type_name(value)));
    };
    if (value.is_none()) return attribute.optional ? AttributeValue{} : refuse("needed");
    switch (attribute.type) {
      case AttributeType::Flag:
        if (const auto* v = value.as<bool>()) return *v;
        return refuse("true or false");
      case AttributeType::Integer:
        if (const auto* v = value.as<std::int64_t>()) return *v;
        return refuse("an integer");
      case AttributeType::Number:
        if (const auto* v = value.as<double>()) return *v;
        if (const auto* v = value.as<std::int64_t>()) return static_cast<double>(*v);
        return refuse("a number");
      case AttributeType::Word:
        if (const auto* v = value.as<std::string>()) return *v;
        return refuse("a word in quotes");
      case AttributeType::Element: {
        const auto* v = value.as<std::string>();
        if (v == nullptr) return refuse("a dtype in quotes");
        if (!find_element_type(*v))
          throw GraphError(place, "unknown dtype '" + *v + "'", hint_for(*v, element_type_names(), "dtypes"));
        return *v;
      }
      case AttributeType::Dims: {
        Dims result;
        if (const auto* single = value.as<std::int64_t>()) return Dims{*single};
        const auto* list = value.as<Value::List>();
        if (list == nullptr) return refuse("a list of integers");
        for (const Value& item : *list) {
          const auto* v = item.as<std::int64_t>();
          if (v == nullptr) return refuse("a list of integers");
          if (result.full())
            throw GraphError(place,
                             "has more than " + std::to_string(Dims::rank_max) + " dimensions (rank_max)");
          result.push_back(*v);
        }
        return result;
      }
    }
    return refuse("something else");
  }

  // --- Tensors.

  /// Sizes that must each be at least `least`.
  Dims dims(const Expression& e, const std::string& what, std::int64_t least) {
    const Value value = evaluate(e);
    const auto* list = value.as<Value::List>();
    if (list == nullptr)
      throw GraphError(e.place, what + " is a list of sizes, not " + std::string(type_name(value)));
    Dims result;
    for (std::size_t i = 0; i < list->size(); ++i) {
      const auto* size = (*list)[i].as<std::int64_t>();
      if (size == nullptr)
        throw GraphError(e.place,
                         what + " has " + std::string(type_name((*list)[i])) + " where a size belongs");
      if (*size < least)
        throw GraphError(e.kind == Expression::Kind::List ? e.parts[i].place : e.place,
                         what + " must have sizes of at least " + std::to_string(least) + ", not " +
                             std::to_string(*size));
      if (result.full())
        throw GraphError(
            e.place, what + " has more than " + std::to_string(Dims::rank_max) + " dimensions (rank_max)");
      result.push_back(*size);
    }
    return result;
  }

  ElementType element_type(const Expression& e) {
    const Value value = evaluate(e);
    const auto* word = value.as<std::string>();
    if (word == nullptr)
      throw GraphError(e.place, "a dtype is a word in quotes, not " + std::string(type_name(value)));
    if (const auto found = find_element_type(*word)) return *found;
    throw GraphError(e.place, "unknown dtype '" + *word + "'",
                     hint_for(*word, element_type_names(), "dtypes"));
  }

  /// Counts the storages from `first` on, `times` times. All together fit into 64 bits with room for what
  /// training and other passes make of them.
  void add_bytes(std::size_t first, std::int64_t times, TextPlace place) {
    constexpr double most = 0x1p60;
    for (std::size_t s = first; s < graph_.storages.size(); ++s)
      bytes_ += static_cast<double>(graph_.storages[s].bytes.value()) * static_cast<double>(times);
    if (bytes_ > most)
      throw GraphError(place, "the network's tensors have more than 2^60 bytes together (graph_bytes_max)");
  }

  TensorIndex add_tensor(std::string name, const TensorType& type, Role role, TextPlace place) {
    const Bytes bytes = dense_bytes(type);
    if (bytes.value() > (std::int64_t{1} << 60))
      throw GraphError(place, "a tensor of shape " + to_string(type.shape) +
                                  " has more than 2^60 bytes (tensor_bytes_max)");
    graph_.storages.push_back({.bytes = bytes, .role = role});
    add_bytes(graph_.storages.size() - 1, 1, place);
    return add_view(std::move(name), type, role, static_cast<StorageIndex>(graph_.storages.size() - 1));
  }
  TensorIndex add_view(std::string name, const TensorType& type, Role role, StorageIndex storage) {
    graph_.tensors.push_back({.name = std::move(name), .type = type, .role = role, .storage = storage});
    return static_cast<TensorIndex>(graph_.tensors.size() - 1);
  }

  /// The name in this frame, with the index of the repeat, or counted if it was given before.
  std::string unique(const std::string& name) {
    const std::string full = frame_->path + name + frame_->repeat_suffix;
    const int times = ++frame_->used[name];
    return times == 1 ? full : full + "_" + std::to_string(times);
  }

  const Network& network_;
  const NetworkSizes& sizes_;
  const GraphLimits& limits_;
  std::int64_t steps_ = 0;  ///< Statements, calls, rounds of repeats, tensors that repeats lay out.
  double bytes_ = 0;        ///< Of all storages.
  Scope globals_;
  OpGraph graph_;
  Frame* frame_ = nullptr;
  const Statement* statement_ = nullptr;  ///< The one that is being run.
  std::int32_t pending_modules_ = 0;
  LikeIndex likes_;
};

}  // namespace

std::string_view name(StepKind step) {
  switch (step) {
    case StepKind::Inference:
      return "inference";
    case StepKind::Prefill:
      return "prefill";
    case StepKind::Decode:
      return "decode";
    case StepKind::Training:
      return "training";
  }
  return "?";
}

std::optional<StepKind> find_step_kind(std::string_view wanted) {
  for (const StepKind step : {StepKind::Inference, StepKind::Prefill, StepKind::Decode, StepKind::Training})
    if (name(step) == wanted) return step;
  return std::nullopt;
}

OpGraph build_graph(const Network& network, const NetworkSizes& sizes, const GraphLimits& limits) {
  if (sizes.batch < 1) throw GraphError({}, "batch must be at least 1");
  if (sizes.sequence < 1) throw GraphError({}, "sequence must be at least 1");
  return GraphBuilder(network, sizes, limits).build();
}

std::vector<std::pair<std::string, NetworkValue>> resolved_sizes(const Network& network,
                                                                 const NetworkSizes& sizes) {
  return SizeEvaluator(network, sizes).values();
}

}  // namespace gpusim
