// SPDX-License-Identifier: Apache-2.0
#include "models/graph/training_forward.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include "models/graph/ops.hpp"

namespace gpusim {
namespace {

/// torch.autocast's lists (aten/src/ATen/autocast_mode.h): ops that run in the lower format, and ops that run
/// in fp32.
enum class AutocastRule : std::uint8_t { Promote, Lower, Fp32 };
AutocastRule autocast_rule(std::string_view kind) {
  constexpr std::array lower{std::string_view("linear"),
                             std::string_view("matmul"),
                             std::string_view("addmm"),
                             std::string_view("conv2d"),
                             std::string_view("scaled_dot_product_attention"),
                             std::string_view("grouped_mm")};
  constexpr std::array full{
      std::string_view("layer_norm"), std::string_view("group_norm"), std::string_view("softmax"),
      std::string_view("nll_loss"),   std::string_view("pow"),        std::string_view("square"),
      std::string_view("rsqrt"),      std::string_view("reciprocal"), std::string_view("exp"),
      std::string_view("log"),        std::string_view("sum"),        std::string_view("cumsum"),
      std::string_view("rdiv")};
  if (std::find(lower.begin(), lower.end(), kind) != lower.end()) return AutocastRule::Lower;
  if (std::find(full.begin(), full.end(), kind) != full.end()) return AutocastRule::Fp32;
  return AutocastRule::Promote;
}

class ForwardWriter {
 public:
  ForwardWriter(GraphWriter& writer, const OpGraph& forward, const TrainingOptions& options)
      : w_(writer), forward_(forward), options_(options) {}

  TensorIndex write() {
    now_ = w_.copy_given(forward_);
    find_head();
    const std::size_t ops = forward_.ops.size();
    std::vector<OpIndex> begin(ops + 1);
    for (std::size_t i = 0; i < ops; ++i) {
      begin[i] = static_cast<OpIndex>(w_.graph.ops.size());
      if (i != head_) copy(forward_.ops[i]);
    }
    begin[ops] = static_cast<OpIndex>(w_.graph.ops.size());
    w_.copy_frames(forward_, begin, now_);
    const TensorIndex loss = add_loss();
    // The frame of the step ends behind the loss: what it calls by name lives so long.
    const auto last = static_cast<OpIndex>(w_.graph.ops.size() - 1);
    for (const TensorIndex t : forward_.outputs)
      if (now_[t] != graph_none && w_.graph.tensors[now_[t]].producer != graph_none)
        w_.graph.tensors[now_[t]].named_until = last;
    if (!w_.graph.calls.empty()) w_.graph.calls.front().last = last + 1;
    return loss;
  }

 private:
  bool casts() const {
    return options_.precision == TrainingPrecision::Autocast || options_.precision == TrainingPrecision::Fp8;
  }

  /// A linear layer whose operands are cast to 8 bits.
  TensorIndex linear_of_8_bits(const std::string& base, TensorIndex x, TensorIndex weight, TensorIndex bias) {
    const auto scaled = [&](TensorIndex t, const char* what) {
      int made = 0;
      return scale_to_8_bits(
          [&](std::string_view kind, std::vector<TensorIndex> inputs,
              std::initializer_list<std::pair<std::string_view, AttributeValue>> attributes) {
            return w_.add(kind, base + what + std::to_string(made++), std::move(inputs), attributes);
          },
          t);
    };
    const Scaled8 a = scaled(x, ".input8_");
    const Scaled8 b = scaled(weight, ".weight8_");
    return w_.add("scaled_mm", base, {a.values, b.values, a.scale, b.scale, bias, x, weight},
                  {{"dtype", std::string(name(options_.dtype))}});
  }

  TensorIndex cast(TensorIndex t, ElementType to) {
    const GraphTensor& tensor = w_.graph.tensors[t];
    if (!is_floating(tensor.type.element) || tensor.type.element == to) return t;
    // Weights are cast once in a forward pass: autocast keeps the copies of leaves.
    const bool leaf =
        tensor.producer == graph_none && tensor.role == Role::Parameter && to != ElementType::Fp32;
    if (leaf)
      for (const auto& [weight, copy] : weights_)
        if (weight == t) return copy;
    std::string base = tensor.name + "." + std::string(name(to));
    if (const int count = ++casts_[base]; count > 1) base += "_" + std::to_string(count);
    const TensorIndex copy = w_.add("to", base, {t}, {{"dtype", std::string(name(to))}});
    if (leaf) weights_.emplace_back(t, copy);
    return copy;
  }

  void copy(const Op& op) {
    w_.where = GraphWriter::where_of(op);
    w_.module_calls = op.module_calls;
    std::vector<TensorIndex> inputs;
    for (const TensorIndex t : op.inputs) inputs.push_back(t == graph_none ? t : now_[t]);
    if (op.kind->name == "cross_entropy") {
      now_[op.outputs[0]] = cross_entropy(op.name, inputs[0], inputs[1]);
      return;
    }
    if (casts()) {
      const AutocastRule rule = autocast_rule(op.kind->name);
      const ElementType to = rule == AutocastRule::Lower ? options_.dtype : ElementType::Fp32;
      // Arguments are cast from the last to the first, as the compiler evaluates them.
      if (rule != AutocastRule::Promote)
        for (std::size_t i = inputs.size(); i-- > 0;)
          if (inputs[i] != graph_none && !(i == 3 && op.kind->name == "scaled_dot_product_attention"))
            inputs[i] = cast(inputs[i], to);
    }
    if (options_.precision == TrainingPrecision::Fp8 && op.kind->name == "linear" &&
        fits_8_bits(w_.type(inputs[0]), w_.type(inputs[1]))) {
      const TensorIndex made =
          linear_of_8_bits(op.name, inputs[0], inputs[1], inputs.size() > 2 ? inputs[2] : graph_none);
      now_[op.outputs[0]] = made;
      w_.graph.tensors[made].name = forward_.tensors[op.outputs[0]].name;
      return;
    }
    if (op.kind->name == "matmul" && !options_.functional) lay_out_operands(op, inputs);
    Attributes attributes = op.attributes;
    for (const OpAttribute& attribute : op.kind->attributes) {
      if (attribute.name == "save") attributes = with_attribute(attributes, "save", true);
      if (attribute.name == "training") attributes = with_attribute(attributes, "training", true);
    }
    const std::vector<TensorIndex> made = w_.add(*op.kind, op.name, std::move(inputs), std::move(attributes));
    for (std::size_t k = 0; k < op.outputs.size(); ++k) {
      now_[op.outputs[k]] = made[k];
      w_.graph.tensors[made[k]].name = forward_.tensors[op.outputs[k]].name;
    }
    // Whoever reads a tensor behind an op that changes it reads what the op made.
    if (op.kind->name.back() == '_' && !made.empty() && op.inputs.front() != graph_none &&
        w_.type(made.front()) == w_.type(now_[op.inputs.front()]))
      now_[op.inputs.front()] = made.front();
  }

  /// A batched product runs on copies of operands that it cannot read as they lie, and saves these, so that
  /// backward need not copy again.
  void lay_out_operands(const Op& op, std::vector<TensorIndex>& inputs) {
    const Dims batch = leading(w_.type(inputs[0]).shape);
    if (batch.empty() || !(batch == leading(w_.type(inputs[1]).shape))) return;
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}})
      if (copied_for_product(w_.type(inputs[i]), batch))
        inputs[i] = w_.add("contiguous", op.name + (i == 0 ? ".left" : ".right"), {inputs[i]});
  }
  static Dims leading(const Dims& shape) {
    Dims batch;
    for (int i = 0; i + 2 < shape.rank(); ++i) batch.push_back(shape[i]);
    return batch;
  }

  /// log_softmax and nll_loss: under autocast the first runs in the format of the logits, the second in fp32.
  TensorIndex cross_entropy(const std::string& base, TensorIndex logits, TensorIndex labels) {
    TensorIndex p = w_.add("log_softmax", base + ".log_softmax", {logits});
    if (casts()) p = cast(p, ElementType::Fp32);
    return w_.add("nll_loss", base, {p, labels});
  }

  /// The layer that is worked out in parts together with the loss.
  void find_head() {
    if (options_.loss_chunks <= 1 || options_.loss != LossKind::CrossEntropy || forward_.outputs.empty())
      return;
    const TensorIndex logits = forward_.outputs.front();
    head_ = forward_.tensors[logits].producer;
    std::int64_t readers = 0;
    for (const Op& op : forward_.ops) readers += std::count(op.inputs.begin(), op.inputs.end(), logits);
    if (head_ == graph_none || forward_.ops[head_].kind->name != "linear" || readers > 0)
      throw GraphError({},
                       "the loss cannot be worked out in parts: the network's first output is not what a "
                       "linear layer makes for it alone",
                       "write 'loss_chunks: 1', or make the head the last op");
  }

  /// Rows of the head's input, part by part: logits and loss, each in a call of its own that backward makes
  /// again.
  TensorIndex chunked_loss() {
    const Op& head = forward_.ops[head_];
    const auto now = [&](std::size_t i) {
      return i < head.inputs.size() && head.inputs[i] != graph_none ? now_[head.inputs[i]] : graph_none;
    };
    TensorIndex x = now(0);
    TensorIndex weight = now(1);
    TensorIndex bias = now(2);
    if (casts()) {
      if (bias != graph_none) bias = cast(bias, options_.dtype);
      weight = cast(weight, options_.dtype);
      x = cast(x, options_.dtype);
    }
    const TensorType type = w_.type(x);
    const std::int64_t width = type.shape.back();
    const std::int64_t rows = elements(type) / width;
    if (options_.loss_chunks > rows)
      throw GraphError({},
                       "the loss is to be worked out in " + std::to_string(options_.loss_chunks) +
                           " parts of " + std::to_string(rows) + " rows",
                       "write at most as many 'loss_chunks' as there are rows");
    if (type.shape.rank() > 2)
      x = w_.add(view_strides(type, Dims{rows, width}) ? "view" : "reshape", "loss.rows", {x},
                 {{"shape", Dims{rows, width}}});
    const TensorIndex labels =
        w_.add_tensor("labels", contiguous_tensor(ElementType::Int64, Dims{rows}), Role::Input);
    if (w_.graph.calls.empty()) w_.graph.calls.emplace_back();
    TensorIndex sum = graph_none;
    for (std::int64_t c = 0; c < options_.loss_chunks; ++c) {
      const std::string base = "loss[" + std::to_string(c) + "]";
      const std::int64_t start = rows * c / options_.loss_chunks;
      const std::int64_t end = rows * (c + 1) / options_.loss_chunks;
      const auto part = [&](const char* what, TensorIndex t) {
        return w_.add("slice", base + what, {t}, {{"dim", std::int64_t{0}}, {"start", start}, {"end", end}});
      };
      const TensorIndex inputs = part(".rows", x);
      const TensorIndex targets = part(".labels", labels);
      const auto call = static_cast<CallIndex>(w_.graph.calls.size());
      const auto first = static_cast<OpIndex>(w_.graph.ops.size());
      w_.where.call = call;
      w_.where.place = head.place;
      const std::vector<TensorIndex> logits =
          w_.add(*head.kind, base + ".logits", {inputs, weight, bias}, head.attributes);
      const TensorIndex loss = cross_entropy(base, logits.front(), targets);
      w_.graph.calls.push_back({.name = base,
                                .parent = 0,
                                .first = first,
                                .last = static_cast<OpIndex>(w_.graph.ops.size()),
                                .module = false,
                                .in_repeat = true,
                                .runs_again = true});
      w_.where = {};
      sum = c == 0 ? loss : w_.add("add", base + ".sum", {sum, loss});
    }
    return w_.add("mul", "loss", {sum, graph_none},
                  {{"scalar", 1.0 / static_cast<double>(options_.loss_chunks)}});
  }

  TensorIndex add_loss() {
    w_.where = {};
    if (forward_.outputs.empty())
      throw GraphError({}, "the network gives nothing that a loss could be worked out of");
    if (head_ != graph_none) return chunked_loss();
    const TensorIndex given = now_[forward_.outputs.front()];
    const TensorType type = w_.type(given);
    switch (options_.loss) {
      case LossKind::Given:
        if (elements(type) != 1)
          throw GraphError(
              {}, "the network's first output has shape " + to_string(type.shape) + " and is no loss",
              "write 'loss: cross_entropy' or 'loss: mean'");
        return given;
      case LossKind::Mean:
        return w_.add("mean", "loss", {given});
      case LossKind::CrossEntropy:
        break;
    }
    if (type.shape.rank() < 2 || !is_floating(type.element))
      throw GraphError({},
                       "cross entropy takes rows of logits, not a tensor of shape " + to_string(type.shape),
                       "write 'loss: mean', or 'loss: given' if the network works its loss out");
    const std::int64_t classes = type.shape.back();
    const std::int64_t rows = elements(type) / classes;
    TensorIndex logits = given;
    if (type.shape.rank() > 2)
      logits = w_.add(view_strides(type, Dims{rows, classes}) ? "view" : "reshape", "loss.rows", {given},
                      {{"shape", Dims{rows, classes}}});
    const TensorIndex labels =
        w_.add_tensor("labels", contiguous_tensor(ElementType::Int64, Dims{rows}), Role::Input);
    return cross_entropy("loss", logits, labels);
  }

  GraphWriter& w_;
  const OpGraph& forward_;
  const TrainingOptions& options_;
  std::vector<TensorIndex> now_;  ///< By tensor of `forward_`.
  std::vector<std::pair<TensorIndex, TensorIndex>> weights_;
  OpIndex head_ = graph_none;         ///< The op of `forward_` that is worked out with the loss.
  std::map<std::string, int> casts_;  ///< By name.
};

}  // namespace

bool fits_8_bits(const TensorType& x, const TensorType& weight) {
  constexpr std::int64_t divisor = 16;
  const std::int64_t rows = elements(x) / std::max<std::int64_t>(x.shape.back(), 1);
  return weight.shape.rank() == 2 && weight.shape[0] % divisor == 0 && weight.shape[1] % divisor == 0 &&
         rows % divisor == 0;
}

TensorIndex write_forward(GraphWriter& writer, const OpGraph& forward, const TrainingOptions& options) {
  return ForwardWriter(writer, forward, options).write();
}

}  // namespace gpusim
