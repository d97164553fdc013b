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
#include <utility>
#include <vector>

#include "models/graph/catalogue.hpp"
#include "models/graph/op_graph.hpp"

namespace gpusim::test {

class TensorRun {
 public:
  using Numbers = std::vector<double>;  ///< The elements of a tensor, row by row.

  /// Tensors that are there before the step have numbers by their names. `before`: a run of the graph that
  /// this one was made of; what it knows of this graph's tensors holds, and a weight named "a+b.weight" has
  /// the rows of "a.weight" and "b.weight". `given`: numbers of some by name.
  explicit TensorRun(const OpGraph& graph, const TensorRun* before = nullptr,
                     std::map<std::string, Numbers> given = {})
      : graph_(graph),
        offset_(graph.tensors.size(), 0),
        memory_(graph.storages.size()),
        given_(std::move(given)) {
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
    if (const auto known = given_.find(tensor.name); known != given_.end()) {
      write(t, known->second);
      return;
    }
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
    if (op.kind->name == "var_mean") {
      const Numbers mean = reduced(op, [](const Numbers& v) { return sum_of(v) / count_of(v); });
      write(op.outputs[0], reduced(op, variance));
      write(op.outputs[1], mean);
      return;
    }
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

  static double count_of(const Numbers& values) { return static_cast<double>(values.size()); }
  static double sum_of(const Numbers& values) {
    double sum = 0;
    for (const double v : values) sum += v;
    return sum;
  }
  static double variance(const Numbers& values) {
    const double mean = sum_of(values) / count_of(values);
    double sum = 0;
    for (const double v : values) sum += (v - mean) * (v - mean);
    return sum / count_of(values);
  }
  /// One number for all elements that lie along the op's `dim`; without it, of all.
  Numbers reduced(const Op& op, const std::function<double(const Numbers&)>& f) const;

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
  std::map<std::string, Numbers> given_;
};

}  // namespace gpusim::test

#include "tests/support/tensor_run_ops.hpp"
