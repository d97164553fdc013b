// SPDX-License-Identifier: Apache-2.0
// What single ops compute, for TensorRun.
#pragma once

#include "tests/support/tensor_run.hpp"

namespace gpusim::test {

inline TensorRun::Numbers TensorRun::result(const Op& op) const {
  const std::string_view kind = op.kind->name;
  static const std::map<std::string_view, std::function<double(double)>> functions{
      {"relu", [](double v) { return std::max(v, 0.0); }},
      {"relu_", [](double v) { return std::max(v, 0.0); }},
      {"silu", [](double v) { return v / (1 + std::exp(-v)); }},
      {"gelu", [](double v) { return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))); }},
      {"tanh", [](double v) { return std::tanh(v); }},
      {"exp", [](double v) { return std::exp(v); }},
      {"log", [](double v) { return std::log(v); }},
      {"erf", [](double v) { return std::erf(v); }},
      {"sigmoid", [](double v) { return 1 / (1 + std::exp(-v)); }},
      {"reciprocal", [](double v) { return 1 / v; }},
      {"neg", [](double v) { return -v; }},
      {"rsqrt", [](double v) { return 1 / std::sqrt(v); }}};
  static const std::map<std::string_view, std::function<double(double, double)>> operators{
      {"add", std::plus<>()},
      {"add_", std::plus<>()},
      {"sub", std::minus<>()},
      {"rsub", [](double a, double b) { return b - a; }},
      {"mul", std::multiplies<>()},
      {"mul_", std::multiplies<>()},
      {"div", std::divides<>()},
      {"eq", [](double a, double b) { return a == b ? 1.0 : 0.0; }},
      {"ne", [](double a, double b) { return a != b ? 1.0 : 0.0; }},
      {"le", [](double a, double b) { return a <= b ? 1.0 : 0.0; }}};
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
  if (kind == "zeros")
    return Numbers(static_cast<std::size_t>(elements(type(op.outputs[0]))), op.attributes.number("value"));
  if (kind == "where" || kind == "masked_fill") {
    const Dims& shape = type(op.outputs[0]).shape;
    const bool fills = kind == "masked_fill";
    const Numbers condition = broadcast_to(op.inputs[fills ? 1 : 0], shape);
    Numbers values = broadcast_to(op.inputs[fills ? 0 : 1], shape);
    const bool number = fills || op.inputs.size() < 3 || op.inputs[2] == graph_none;
    const Numbers others = number ? Numbers(values.size(), op.attributes.number(fills ? "value" : "scalar"))
                                  : broadcast_to(op.inputs[2], shape);
    for (std::size_t i = 0; i < values.size(); ++i)
      if ((condition[i] != 0) == fills) values[i] = others[i];
    return values;
  }
  if (kind == "addcmul") {
    const Dims& shape = type(op.outputs[0]).shape;
    Numbers values = broadcast_to(op.inputs[0], shape);
    const Numbers a = broadcast_to(op.inputs[1], shape);
    const Numbers b = broadcast_to(op.inputs[2], shape);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += a[i] * b[i];
    return values;
  }
  if (kind == "gather") {  // of rows, one element each
    const Numbers rows = numbers(op.inputs[0]);
    Numbers values = numbers(op.inputs[1]);
    const std::size_t columns = rows.size() / values.size();
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = rows[i * columns + static_cast<std::size_t>(values[i])];
    return values;
  }
  if (kind == "arange") {
    Numbers values;
    for (std::int64_t i = 0; i < op.attributes.integer("count"); ++i)
      values.push_back(static_cast<double>(i));
    return values;
  }
  if (kind == "sum") return reduced(op, sum_of);
  if (kind == "mean") return reduced(op, [](const Numbers& v) { return sum_of(v) / count_of(v); });
  if (kind == "amax")
    return reduced(op, [](const Numbers& v) { return *std::max_element(v.begin(), v.end()); });
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

inline TensorRun::Numbers TensorRun::reduced(const Op& op,
                                             const std::function<double(const Numbers&)>& f) const {
  const Dims& shape = type(op.inputs[0]).shape;
  Dims kept = shape;
  const AttributeValue* dims = op.attributes.find("dim");
  const bool all = dims == nullptr || !std::holds_alternative<Dims>(*dims);
  for (int d = 0; d < shape.rank(); ++d)
    if (all) kept[d] = 1;
  if (!all)
    for (const std::int64_t d : std::get<Dims>(*dims))
      kept[static_cast<int>(d < 0 ? d + shape.rank() : d)] = 1;
  std::vector<Numbers> rows(static_cast<std::size_t>(element_count(kept)));
  const Numbers values = numbers(op.inputs[0]);
  std::size_t next = 0;
  each_index(shape, [&](Dims index) {
    for (int d = 0; d < index.rank(); ++d)
      if (kept[d] == 1) index[d] = 0;
    rows[flat(kept, index)].push_back(values[next++]);
  });
  Numbers results;
  for (const Numbers& row : rows) results.push_back(f(row));
  return results;
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
