// SPDX-License-Identifier: Apache-2.0
// Runs the ops of a graph on numbers, for tests that two graphs compute the same. Memory is as the graph
// says: tensors of one storage share their elements, ops in place change them. Casts keep the numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "models/graph/catalogue.hpp"
#include "models/graph/op_graph.hpp"

namespace gpusim::test {

class TensorRun {
 public:
  using Numbers = std::vector<double>;  ///< The elements of a tensor, row by row.

  /// Tensors that are there before the step have numbers by their names. `before`: a run of the graph that
  /// this one was made of; what it knows of this graph's tensors holds, and a weight named "a+b.weight" has
  /// the rows of "a.weight" and "b.weight".
  explicit TensorRun(const OpGraph& graph, const TensorRun* before = nullptr)
      : graph_(graph), offset_(graph.tensors.size(), 0), memory_(graph.storages.size()) {
    for (TensorIndex t = 0; t < graph.tensors.size(); ++t) by_name_[graph.tensors[t].name] = t;
    for (const bool made : {false, true})
      for (TensorIndex t = 0; t < graph.tensors.size(); ++t)
        if (graph.tensors[t].producer == graph_none && made == was_made(t, before)) place(t, before);
    when_made_.resize(graph.tensors.size());
    for (const Op& op : graph.ops) {
      run(op);
      for (const TensorIndex t : op.outputs) when_made_[t] = memory_[graph.tensors[t].storage];
    }
  }

  Numbers numbers(TensorIndex t) const {
    Numbers result;
    each_place(t, [&](std::size_t at) { result.push_back(memory_[graph_.tensors[t].storage].at(at)); });
    return result;
  }
  /// What the step gives, then what it leaves in states and inputs.
  std::vector<Numbers> results() const {
    std::vector<Numbers> all;
    for (const TensorIndex t : graph_.outputs) all.push_back(numbers(t));
    std::map<std::string, Numbers> states;
    for (TensorIndex t = 0; t < graph_.tensors.size(); ++t)
      if ((graph_.tensors[t].role == Role::State || graph_.tensors[t].role == Role::Input) &&
          graph_.tensors[t].producer == graph_none)
        states[graph_.tensors[t].name] = numbers(t);
    for (const auto& [name, held] : states) all.push_back(held);
    return all;
  }

 private:
  const TensorType& type(TensorIndex t) const { return graph_.tensors[t].type; }

  template <class Visit>
  static void each_index(const Dims& shape, Visit visit) {
    Dims index = shape;
    for (int d = 0; d < index.rank(); ++d) index[d] = 0;
    for (std::int64_t n = element_count(shape); n-- > 0;) {
      visit(index);
      for (int d = shape.rank() - 1; d >= 0 && ++index[d] == shape[d]; --d) index[d] = 0;
    }
  }
  template <class Visit>
  void each_place(TensorIndex t, Visit visit) const {
    each_index(type(t).shape, [&](const Dims& index) {
      std::int64_t at = offset_[t];
      for (int d = 0; d < index.rank(); ++d) at += index[d] * type(t).strides[d];
      visit(static_cast<std::size_t>(at));
    });
  }
  void write(TensorIndex t, const Numbers& numbers) {
    std::vector<double>& memory = memory_[graph_.tensors[t].storage];
    std::size_t next = 0;
    each_place(t, [&](std::size_t at) {
      if (memory.size() <= at) memory.resize(at + 1);
      memory[at] = numbers.at(next++);
    });
  }

  // --- Before the step.

  static double number_of(const std::string& name, std::size_t i, ElementType element) {
    std::uint64_t hash = 1469598103934665603ULL;
    for (const char c : name + "#" + std::to_string(i))
      hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    hash ^= hash >> 29;
    if (element == ElementType::Bool) return static_cast<double>(hash % 2);
    if (!is_floating(element)) return static_cast<double>(hash % 7);
    return static_cast<double>(hash % 2001) / 1000.0 - 1.0;
  }
  Numbers named(const std::string& name, std::int64_t count, ElementType element) const {
    Numbers result;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
      result.push_back(number_of(name, i, element));
    return result;
  }
  /// Whether the graph before computed what is there before the step now: a constant.
  bool was_made(TensorIndex t, const TensorRun* before) const {
    if (before == nullptr) return false;
    const auto known = before->by_name_.find(graph_.tensors[t].name);
    return known != before->by_name_.end() && before->graph_.tensors[known->second].producer != graph_none;
  }
  void place(TensorIndex t, const TensorRun* before) {
    const GraphTensor& tensor = graph_.tensors[t];
    if (before == nullptr) {
      write(t, named(tensor.name, elements(tensor.type), tensor.type.element));
      return;
    }
    const auto known = before->by_name_.find(tensor.name);
    if (known != before->by_name_.end() && !was_made(t, before)) {
      write(t, named(tensor.name, elements(tensor.type), tensor.type.element));
      return;
    }
    if (known != before->by_name_.end()) {
      if (memory_[tensor.storage].empty()) {
        offset_[t] = before->offset_[known->second];
        memory_[tensor.storage] = before->when_made_[known->second];
      } else {
        look_for(t, before->numbers_when_made(known->second));
      }
      return;
    }
    write(t, joined(tensor.name, *before));
  }
  /// A view of what is there: where its numbers are.
  void look_for(TensorIndex t, const Numbers& wanted) {
    std::int64_t span = 0;
    for (int d = 0; d < type(t).shape.rank(); ++d) span += (type(t).shape[d] - 1) * type(t).strides[d];
    const auto size = static_cast<std::int64_t>(memory_[graph_.tensors[t].storage].size());
    for (offset_[t] = 0; offset_[t] + span < size; ++offset_[t])
      if (numbers(t) == wanted) return;
    throw std::logic_error(graph_.tensors[t].name + " is not in its memory");
  }
  Numbers numbers_when_made(TensorIndex t) const {
    Numbers result;
    each_place(t, [&](std::size_t at) { result.push_back(when_made_[t].at(at)); });
    return result;
  }
  static Numbers joined(const std::string& name, const TensorRun& before) {
    const std::size_t last_dot = name.rfind('.');
    const std::string kind = name.substr(last_dot);
    if (kind == ".rows") {  // What an op reads, laid out anew.
      const TensorIndex out = before.by_name_.at(name.substr(0, last_dot));
      return before.numbers(before.graph_.ops[before.graph_.tensors[out].producer].inputs[0]);
    }
    const std::string first = name.substr(0, name.find('+'));
    const std::string block = first.substr(0, first.rfind('.') + 1);
    Numbers all;
    for (std::size_t at = 0; at < last_dot;) {
      const std::size_t end = std::min(name.find('+', at), last_dot);
      const std::string part = name.substr(at, end - at);
      auto known = before.by_name_.find(part + kind);
      if (known == before.by_name_.end()) known = before.by_name_.find(block + part + kind);
      if (known == before.by_name_.end()) throw std::logic_error("nobody knows " + part + kind);
      const Numbers rows = before.numbers(known->second);
      all.insert(all.end(), rows.begin(), rows.end());
      at = end + 1;
    }
    return all;
  }

  // --- Ops.

  static std::int64_t dim_of(const Op& op, const char* name, const TensorType& in) {
    const std::int64_t d = op.attributes.integer(name);
    return d < 0 ? d + in.shape.rank() : d;
  }

  /// Where a view begins in the memory of what it looks at.
  std::int64_t moved(const Op& op, std::size_t output) const {
    const TensorType& in = type(op.inputs[0]);
    const std::string_view kind = op.kind->name;
    if (kind == "select" || kind == "slice") {
      const int at = static_cast<int>(dim_of(op, "dim", in));
      std::int64_t index = op.attributes.integer(kind == "select" ? "index" : "start");
      if (index < 0) index += in.shape[at];
      return std::clamp<std::int64_t>(index, 0, in.shape[at]) * in.strides[at];
    }
    if (kind == "split" || kind == "chunk" || kind == "unbind") {
      const int at = static_cast<int>(dim_of(op, "dim", in));
      std::int64_t index = 0;
      for (std::size_t k = 0; k < output; ++k) index += kind == "unbind" ? 1 : type(op.outputs[k]).shape[at];
      return index * in.strides[at];
    }
    return 0;
  }

  void run(const Op& op) {
    const bool changes = op.kind->name.back() == '_';
    bool viewed = false;
    for (std::size_t k = 0; k < op.outputs.size(); ++k) {
      const TensorIndex out = op.outputs[k];
      if (op.inputs.empty() || op.inputs[0] == graph_none ||
          graph_.tensors[out].storage != graph_.tensors[op.inputs[0]].storage)
        continue;
      offset_[out] = offset_[op.inputs[0]] + moved(op, k);
      viewed = true;
    }
    if ((viewed && !changes) || op.outputs.empty()) return;
    if (op.outputs.size() != 1) throw std::logic_error("cannot run " + std::string(op.kind->name));
    write(op.outputs[0], changed_part(op, result(op)));
  }

  /// Of an op that changes part of its tensor, the whole.
  Numbers changed_part(const Op& op, const Numbers& values) const {
    const std::string_view kind = op.kind->name;
    if (kind != "index_put_" && kind != "index_copy_") return values;
    Numbers whole = numbers(op.inputs[0]);
    const TensorType& in = type(op.inputs[0]);
    const int at = static_cast<int>(dim_of(op, "dim", in));
    const Numbers index = numbers(op.inputs[1]);
    const Numbers source = broadcast_to(op.inputs[2], with_size(in.shape, at, elements(type(op.inputs[1]))));
    std::size_t next = 0;
    each_index(with_size(in.shape, at, elements(type(op.inputs[1]))), [&](Dims place) {
      place[at] = static_cast<std::int64_t>(index[static_cast<std::size_t>(place[at])]) % in.shape[at];
      whole[flat(in.shape, place)] = source[next++];
    });
    return whole;
  }
  static Dims with_size(Dims shape, int at, std::int64_t size) {
    shape[at] = size;
    return shape;
  }
  static std::size_t flat(const Dims& shape, const Dims& index) {
    std::int64_t at = 0;
    for (int d = 0; d < shape.rank(); ++d) at = at * shape[d] + index[d];
    return static_cast<std::size_t>(at);
  }

  Numbers broadcast_to(TensorIndex t, const Dims& shape) const {
    const Numbers own = numbers(t);
    const Dims& from = type(t).shape;
    Numbers result;
    each_index(shape, [&](const Dims& index) {
      std::int64_t at = 0;
      for (int d = 0; d < from.rank(); ++d) {
        const std::int64_t i = index[d + shape.rank() - from.rank()];
        at = at * from[d] + (from[d] == 1 ? 0 : i);
      }
      result.push_back(own[static_cast<std::size_t>(at)]);
    });
    return result;
  }

  Numbers mapped(const Op& op, const std::function<double(double)>& f) const {
    Numbers values = numbers(op.inputs[0]);
    for (double& v : values) v = f(v);
    return values;
  }
  Numbers combined(const Op& op, const std::function<double(double, double)>& f) const {
    const Dims& shape = type(op.outputs[0]).shape;
    Numbers a = broadcast_to(op.inputs[0], shape);
    const bool scalar = op.inputs.size() < 2 || op.inputs[1] == graph_none;
    const Numbers b =
        scalar ? Numbers(a.size(), op.attributes.number("scalar")) : broadcast_to(op.inputs[1], shape);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = f(a[i], b[i]);
    return a;
  }
  /// Each row of the last dimension on its own.
  Numbers by_rows(const Op& op, const std::function<void(double*, std::size_t)>& f) const {
    Numbers values = numbers(op.inputs[0]);
    const auto columns = static_cast<std::size_t>(type(op.inputs[0]).shape.back());
    for (std::size_t row = 0; row < values.size(); row += columns) f(&values[row], columns);
    return values;
  }

  Numbers result(const Op& op) const;
  Numbers linear(const Op& op) const;
  Numbers matmul(const Op& op) const;
  Numbers attention(const Op& op) const;
  Numbers norm(const Op& op) const;
  Numbers lookup(const Op& op, std::size_t table, std::size_t index) const;
  Numbers joined_along(const Op& op) const;
  Numbers convolution(const Op& op) const;
  Numbers pooled(const Op& op) const;

  const OpGraph& graph_;
  std::vector<std::int64_t> offset_;            ///< By tensor, in its storage.
  std::vector<std::vector<double>> memory_;     ///< By storage.
  std::vector<std::vector<double>> when_made_;  ///< By tensor: its storage right after its op.
  std::map<std::string, TensorIndex> by_name_;
};

inline TensorRun::Numbers TensorRun::result(const Op& op) const {
  const std::string_view kind = op.kind->name;
  static const std::map<std::string_view, std::function<double(double)>> functions{
      {"relu", [](double v) { return std::max(v, 0.0); }},
      {"relu_", [](double v) { return std::max(v, 0.0); }},
      {"silu", [](double v) { return v / (1 + std::exp(-v)); }},
      {"gelu", [](double v) { return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))); }},
      {"tanh", [](double v) { return std::tanh(v); }},
      {"exp", [](double v) { return std::exp(v); }},
      {"neg", [](double v) { return -v; }},
      {"rsqrt", [](double v) { return 1 / std::sqrt(v); }}};
  static const std::map<std::string_view, std::function<double(double, double)>> operators{
      {"add", std::plus<>()},       {"add_", std::plus<>()},
      {"sub", std::minus<>()},      {"rsub", [](double a, double b) { return b - a; }},
      {"mul", std::multiplies<>()}, {"mul_", std::multiplies<>()},
      {"div", std::divides<>()}};
  if (const auto f = functions.find(kind); f != functions.end()) return mapped(op, f->second);
  if (const auto f = operators.find(kind); f != operators.end()) return combined(op, f->second);
  if (kind == "pow")
    return mapped(op, [&](double v) { return std::pow(v, op.attributes.number("exponent")); });
  // Copies: the elements row by row, in whatever shape and layout.
  for (const char* copy : {"clone", "contiguous", "reshape", "view", "flatten", "to", "type_as"})
    if (kind == copy) return numbers(op.inputs[0]);
  if (kind == "dropout") return mapped(op, [](double v) { return v * 1.25; });
  if (kind == "copy_") return broadcast_to(op.inputs[1], type(op.inputs[0]).shape);
  if (kind == "index_put_" || kind == "index_copy_") return {};
  if (kind == "zeros") return Numbers(static_cast<std::size_t>(elements(type(op.outputs[0]))), 0.0);
  if (kind == "arange") {
    Numbers values;
    for (std::int64_t i = 0; i < op.attributes.integer("count"); ++i)
      values.push_back(static_cast<double>(i));
    return values;
  }
  if (kind == "sum" || kind == "mean") {
    // Along the last dimension.
    const auto columns = static_cast<std::size_t>(type(op.inputs[0]).shape.back());
    Numbers sums;
    const Numbers values = numbers(op.inputs[0]);
    for (std::size_t row = 0; row < values.size(); row += columns) {
      double sum = 0;
      for (std::size_t i = 0; i < columns; ++i) sum += values[row + i];
      sums.push_back(kind == "sum" ? sum : sum / static_cast<double>(columns));
    }
    return sums;
  }
  if (kind == "softmax")
    return by_rows(op, [](double* row, std::size_t n) {
      double sum = 0;
      const double most = *std::max_element(row, row + n);
      for (std::size_t i = 0; i < n; ++i) sum += row[i] = std::exp(row[i] - most);
      for (std::size_t i = 0; i < n; ++i) row[i] /= sum;
    });
  if (kind == "linear") return linear(op);
  if (kind == "matmul") return matmul(op);
  if (kind == "scaled_dot_product_attention") return attention(op);
  if (kind == "layer_norm" || kind == "rms_norm" || kind == "batch_norm") return norm(op);
  if (kind == "embedding") return lookup(op, 1, 0);
  if (kind == "index") return lookup(op, 0, 1);
  if (kind == "cat" || kind == "stack") return joined_along(op);
  if (kind == "conv2d") return convolution(op);
  if (kind == "max_pool2d" || kind == "adaptive_avg_pool2d") return pooled(op);
  throw std::logic_error("cannot run " + std::string(kind));
}

inline TensorRun::Numbers TensorRun::linear(const Op& op) const {
  const Numbers x = numbers(op.inputs[0]);
  const Numbers w = numbers(op.inputs[1]);
  const auto k = static_cast<std::size_t>(type(op.inputs[1]).shape[1]);
  const auto n = static_cast<std::size_t>(type(op.inputs[1]).shape[0]);
  Numbers y;
  for (std::size_t row = 0; row < x.size(); row += k)
    for (std::size_t j = 0; j < n; ++j) {
      double sum = op.inputs[2] == graph_none ? 0 : numbers(op.inputs[2])[j];
      for (std::size_t i = 0; i < k; ++i) sum += x[row + i] * w[j * k + i];
      y.push_back(sum);
    }
  return y;
}

inline TensorRun::Numbers TensorRun::matmul(const Op& op) const {
  // [..., m, k] times [..., k, n], of the same batch or of none on the right.
  const Numbers a = numbers(op.inputs[0]);
  const Numbers b = numbers(op.inputs[1]);
  const auto m = static_cast<std::size_t>(type(op.inputs[0]).shape.back(1));
  const auto k = static_cast<std::size_t>(type(op.inputs[0]).shape.back());
  const auto n = static_cast<std::size_t>(type(op.inputs[1]).shape.back());
  Numbers y;
  for (std::size_t batch = 0; batch < a.size() / (m * k); ++batch)
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::size_t l = 0; l < k; ++l)
          sum += a[(batch * m + i) * k + l] * b[(batch * k * n) % b.size() + l * n + j];
        y.push_back(sum);
      }
  return y;
}

inline TensorRun::Numbers TensorRun::attention(const Op& op) const {
  const Dims& q = type(op.inputs[0]).shape;
  const Dims& k = type(op.inputs[1]).shape;
  const Numbers queries = numbers(op.inputs[0]);
  const Numbers keys = numbers(op.inputs[1]);
  const Numbers values = numbers(op.inputs[2]);
  const Dims scores{q[0], q[1], q[2], k[2]};
  const Numbers mask = op.inputs[3] == graph_none ? Numbers() : broadcast_to(op.inputs[3], scores);
  Numbers y;
  each_index(Dims{q[0], q[1], q[2]}, [&](const Dims& at) {
    Numbers weight;
    const std::int64_t kv_head = at[1] / (q[1] / k[1]);
    double sum = 0;
    for (std::int64_t s = 0; s < k[2]; ++s) {
      double score = 0;
      for (std::int64_t d = 0; d < q[3]; ++d)
        score += queries[flat(q, Dims{at[0], at[1], at[2], d})] * keys[flat(k, Dims{at[0], kv_head, s, d})];
      const bool seen = (mask.empty() || mask[flat(scores, Dims{at[0], at[1], at[2], s})] != 0) &&
                        (!op.attributes.flag("is_causal") || s <= at[2]);
      weight.push_back(std::exp(score / std::sqrt(static_cast<double>(q[3]))) * (seen ? 1 : 1e-9));
      sum += weight.back();
    }
    for (std::int64_t d = 0; d < q[3]; ++d) {
      double mixed = 0;
      for (std::int64_t s = 0; s < k[2]; ++s)
        mixed += weight[static_cast<std::size_t>(s)] / sum * values[flat(k, Dims{at[0], kv_head, s, d})];
      y.push_back(mixed);
    }
  });
  return y;
}

inline TensorRun::Numbers TensorRun::norm(const Op& op) const {
  const auto weight = [&](std::size_t input) {
    return input < op.inputs.size() && op.inputs[input] != graph_none ? numbers(op.inputs[input]) : Numbers();
  };
  const Numbers gain = weight(1);
  const Numbers bias = weight(2);
  if (op.kind->name == "batch_norm") {
    Numbers values = numbers(op.inputs[0]);
    const Dims& shape = type(op.inputs[0]).shape;
    const auto plane = static_cast<std::size_t>(element_count(shape) / (shape[0] * shape[1]));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t c = i / plane % static_cast<std::size_t>(shape[1]);
      values[i] = (values[i] - weight(3)[c]) / std::sqrt(std::abs(weight(4)[c]) + 1) * gain[c] + bias[c];
    }
    return values;
  }
  const bool centred = op.kind->name == "layer_norm";
  return by_rows(op, [&](double* row, std::size_t n) {
    double mean = 0;
    for (std::size_t i = 0; centred && i < n; ++i) mean += row[i] / static_cast<double>(n);
    double square = 0;
    for (std::size_t i = 0; i < n; ++i) square += (row[i] - mean) * (row[i] - mean) / static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i)
      row[i] = (row[i] - mean) / std::sqrt(square + 1e-5) * (gain.empty() ? 1 : gain[i]) +
               (bias.empty() ? 0 : bias[i]);
  });
}

inline TensorRun::Numbers TensorRun::lookup(const Op& op, std::size_t table, std::size_t index) const {
  const Numbers rows = numbers(op.inputs[table]);
  const auto count = static_cast<std::size_t>(type(op.inputs[table]).shape[0]);
  const std::size_t row = rows.size() / count;
  Numbers y;
  for (const double i : numbers(op.inputs[index])) {
    const auto at = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(i) % count * row);
    y.insert(y.end(), rows.begin() + at, rows.begin() + at + static_cast<std::ptrdiff_t>(row));
  }
  return y;
}

inline TensorRun::Numbers TensorRun::joined_along(const Op& op) const {
  const Dims& out = type(op.outputs[0]).shape;
  const bool stack = op.kind->name == "stack";
  const std::int64_t given = op.attributes.integer("dim");
  const int at = static_cast<int>(given < 0 ? given + out.rank() : given);
  std::int64_t inner = 1;
  for (int d = at + 1; d < out.rank(); ++d) inner *= out[d];
  std::vector<Numbers> parts;
  for (const TensorIndex t : op.inputs) parts.push_back(numbers(t));
  std::int64_t outer = 1;
  for (int d = 0; d < at; ++d) outer *= out[d];
  Numbers y;
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::size_t k = 0; k < parts.size(); ++k) {
      const std::int64_t run = inner * (stack ? 1 : type(op.inputs[k]).shape[at]);
      y.insert(y.end(), parts[k].begin() + o * run, parts[k].begin() + (o + 1) * run);
    }
  return y;
}

inline TensorRun::Numbers TensorRun::convolution(const Op& op) const {
  const Numbers x = numbers(op.inputs[0]);
  const Numbers w = numbers(op.inputs[1]);
  const Dims& in = type(op.inputs[0]).shape;
  const Dims& window = type(op.inputs[1]).shape;
  const std::int64_t stride = op.attributes.integer("stride");
  const std::int64_t padding = op.attributes.integer("padding");
  Numbers y;
  each_index(type(op.outputs[0]).shape, [&](const Dims& at) {
    double sum = op.inputs[2] == graph_none ? 0 : numbers(op.inputs[2])[static_cast<std::size_t>(at[1])];
    each_index(Dims{window[1], window[2], window[3]}, [&](const Dims& i) {
      const std::int64_t row = at[2] * stride - padding + i[1];
      const std::int64_t column = at[3] * stride - padding + i[2];
      if (row < 0 || row >= in[2] || column < 0 || column >= in[3]) return;
      const std::int64_t channel = at[1] / (window[0] / op.attributes.integer("groups")) * window[1] + i[0];
      sum += x[flat(in, Dims{at[0], channel, row, column})] * w[flat(window, Dims{at[1], i[0], i[1], i[2]})];
    });
    y.push_back(sum);
  });
  return y;
}

inline TensorRun::Numbers TensorRun::pooled(const Op& op) const {
  const Numbers x = numbers(op.inputs[0]);
  const Dims& in = type(op.inputs[0]).shape;
  const bool largest = op.kind->name == "max_pool2d";
  const Dims& out = type(op.outputs[0]).shape;
  const std::int64_t window = largest ? op.attributes.integer("kernel") : in[2] / out[2];
  const std::int64_t stride =
      largest && op.attributes.has("stride") ? op.attributes.integer("stride") : window;
  const std::int64_t padding = largest ? op.attributes.integer("padding") : 0;
  Numbers y;
  each_index(out, [&](const Dims& at) {
    double most = -1e30;
    double sum = 0;
    each_index(Dims{window, window}, [&](const Dims& i) {
      const std::int64_t row = at[2] * stride - padding + i[0];
      const std::int64_t column = at[3] * stride - padding + i[1];
      if (row < 0 || row >= in[2] || column < 0 || column >= in[3]) return;
      const double v = x[flat(in, Dims{at[0], at[1], row, column})];
      most = std::max(most, v);
      sum += v;
    });
    y.push_back(largest ? most : sum / static_cast<double>(window * window));
  });
  return y;
}

}  // namespace gpusim::test
