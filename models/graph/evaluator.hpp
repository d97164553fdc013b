// SPDX-License-Identifier: Apache-2.0
// Evaluates expressions of a network: sizes, words and truth values; whoever derives from it adds tensors.
// Internal to models/graph.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/graph/expression.hpp"
#include "models/graph/network.hpp"
#include "models/graph/value.hpp"

namespace gpusim {

/// Evaluates what has no tensors in it: sizes, words, truth values. The graph builder adds tensors.
class Evaluator {
 public:
  virtual ~Evaluator() = default;

 protected:
  Value evaluate(const Expression& e) {
    using Kind = Expression::Kind;
    switch (e.kind) {
      case Kind::Integer:
        return {e.integer};
      case Kind::Number:
        return {e.number};
      case Kind::Word:
        return {e.text};
      case Kind::True:
        return {true};
      case Kind::False:
        return {false};
      case Kind::None:
        return {};
      case Kind::Name:
        return look_up(e);
      case Kind::List: {
        Value::List list;
        for (const Expression& part : e.parts) {
          list.push_back(evaluate(part));
          // Lists of lists of lists double with each statement.
          const auto* inner = list.back().as<Value::List>();
          if (inner != nullptr && list_values(*inner) > list_values_max)
            throw GraphError(e.place, "a list holds more than " + std::to_string(list_values_max) +
                                          " values (list_values_max)");
        }
        return {std::move(list)};
      }
      case Kind::Call:
        return call(e);
      case Kind::Conditional:
        return evaluate(e.parts[truth(e.parts[0]) ? 1 : 2]);
      case Kind::Unary: {
        const Value operand = evaluate(e.parts[0]);
        if (e.text == "not") {
          const bool* flag = operand.as<bool>();
          if (flag == nullptr)
            throw GraphError(e.place, "'not' takes a truth value, not " + std::string(type_name(operand)));
          return {!*flag};
        }
        if (const auto* i = operand.as<std::int64_t>()) return {checked(e, '-', 0, *i)};
        if (const auto* d = operand.as<double>()) return {-*d};
        if (operand.as<TensorRef>() != nullptr) return tensor_unary(e, operand);
        throw GraphError(e.place, "cannot negate " + std::string(type_name(operand)));
      }
      case Kind::Binary:
        return binary(e);
    }
    throw GraphError(e.place, "unknown kind of expression");
  }

  bool truth(const Expression& e) {
    const Value value = evaluate(e);
    const bool* flag = value.as<bool>();
    if (flag == nullptr)
      throw GraphError(e.place,
                       "a condition must be true or false, but this is " + std::string(type_name(value)),
                       "write a comparison such as attention == 'flash'");
    return *flag;
  }

  std::int64_t integer(const Expression& e, std::string_view what) {
    const Value value = evaluate(e);
    if (const auto* i = value.as<std::int64_t>()) return *i;
    throw GraphError(e.place,
                     std::string(what) + " must be an integer, but this is " + std::string(type_name(value)));
  }

  virtual Value look_up(const Expression& e) = 0;
  virtual Value call(const Expression& e) = 0;
  virtual Value tensor_unary(const Expression& e, const Value&) {
    throw GraphError(e.place, "there are no tensors here");
  }
  virtual Value tensor_binary(const Expression& e, const Value&, const Value&) {
    throw GraphError(e.place, "there are no tensors here");
  }

  /// Functions of numbers; nothing if the name is none of them.
  std::optional<Value> number_function(const Expression& e) {
    static const std::set<std::string, std::less<>> names{"min",  "max", "ceil_div", "round_up",
                                                          "sqrt", "int", "require"};
    if (names.count(e.text) == 0) return std::nullopt;
    for (const std::string& name : e.names)
      if (!name.empty()) throw GraphError(e.place, e.text + "() takes no named arguments");
    const auto want = [&](std::size_t count) {
      if (e.parts.size() != count)
        throw GraphError(e.place, e.text + "() takes " + std::to_string(count) + " arguments, not " +
                                      std::to_string(e.parts.size()));
    };
    if (e.text == "require") {
      want(2);
      const Value message = evaluate(e.parts[1]);
      const auto* words = message.as<std::string>();
      if (words == nullptr)
        throw GraphError(e.parts[1].place, "the second argument of require() is a message in quotes");
      if (!truth(e.parts[0])) throw GraphError(e.place, *words, "the network's file asks for this");
      return Value{};
    }
    if (e.text == "sqrt" || e.text == "int") {
      want(1);
      const double x = number(e.parts[0]);
      if (e.text == "sqrt") {
        if (x < 0) throw GraphError(e.place, "sqrt() of a negative number");
        return Value{std::sqrt(x)};
      }
      if (!(std::abs(x) < 9e18)) throw GraphError(e.place, "int() of a number that is too large");
      return Value{static_cast<std::int64_t>(x)};
    }
    want(2);
    const std::int64_t a = integer(e.parts[0], "the first argument of " + e.text + "()");
    const std::int64_t b = integer(e.parts[1], "the second argument of " + e.text + "()");
    if (e.text == "min") return Value{std::min(a, b)};
    if (e.text == "max") return Value{std::max(a, b)};
    if (b < 1 || a < 0)
      throw GraphError(e.place, e.text + "() takes a number of at least 0 and one of at least 1");
    const std::int64_t quotient = a / b + (a % b != 0 ? 1 : 0);
    return Value{e.text == "ceil_div" ? quotient : checked(e, '*', quotient, b)};
  }

  static constexpr std::size_t list_values_max = 10'000;
  static std::size_t list_values(const Value::List& list) {
    std::size_t count = list.size();
    for (const Value& value : list)
      if (const auto* inner = value.as<Value::List>()) count += list_values(*inner);
    return count;
  }

  double number(const Expression& e) {
    const Value value = evaluate(e);
    if (const auto* i = value.as<std::int64_t>()) return static_cast<double>(*i);
    if (const auto* d = value.as<double>()) return *d;
    throw GraphError(e.place, "must be a number, but is " + std::string(type_name(value)));
  }

 private:
  static std::int64_t checked(const Expression& e, char op, std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    const bool overflow = op == '+'   ? __builtin_add_overflow(a, b, &result)
                          : op == '-' ? __builtin_sub_overflow(a, b, &result)
                                      : __builtin_mul_overflow(a, b, &result);
    if (overflow) throw GraphError(e.place, "the result does not fit into 64 bits");
    return result;
  }

  Value binary(const Expression& e) {
    const std::string& op = e.text;
    if (op == "and") return {truth(e.parts[0]) && truth(e.parts[1])};
    if (op == "or") return {truth(e.parts[0]) || truth(e.parts[1])};
    const Value a = evaluate(e.parts[0]);
    const Value b = evaluate(e.parts[1]);
    if (a.as<TensorRef>() != nullptr || b.as<TensorRef>() != nullptr) return tensor_binary(e, a, b);
    if (op == "==" || op == "!=") return {equal(e, a, b) == (op == "==")};
    const auto* i = a.as<std::int64_t>();
    const auto* j = b.as<std::int64_t>();
    if (i != nullptr && j != nullptr) return integers(e, *i, *j);
    const double x = as_number(e, a);
    const double y = as_number(e, b);
    if (op == "+") return {x + y};
    if (op == "-") return {x - y};
    if (op == "*") return {x * y};
    if (op == "/") return {x / y};
    if (op == "**") return {std::pow(x, y)};
    if (op == "<") return {x < y};
    if (op == "<=") return {x <= y};
    if (op == ">") return {x > y};
    if (op == ">=") return {x >= y};
    throw GraphError(e.place, "'" + op + "' is for integers");
  }

  static double as_number(const Expression& e, const Value& v) {
    if (const auto* i = v.as<std::int64_t>()) return static_cast<double>(*i);
    if (const auto* d = v.as<double>()) return *d;
    throw GraphError(e.place, "'" + e.text + "' cannot be applied to " + std::string(type_name(v)));
  }

  static bool equal(const Expression& e, const Value& a, const Value& b) {
    if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
    if (a.as<std::string>() != nullptr && b.as<std::string>() != nullptr)
      return *a.as<std::string>() == *b.as<std::string>();
    if (a.as<bool>() != nullptr && b.as<bool>() != nullptr) return *a.as<bool>() == *b.as<bool>();
    const bool numbers = (a.as<std::int64_t>() != nullptr || a.as<double>() != nullptr) &&
                         (b.as<std::int64_t>() != nullptr || b.as<double>() != nullptr);
    if (!numbers)
      throw GraphError(e.place,
                       "cannot compare " + std::string(type_name(a)) + " with " + std::string(type_name(b)));
    return as_number(e, a) == as_number(e, b);
  }

  static Value integers(const Expression& e, std::int64_t a, std::int64_t b) {
    const std::string& op = e.text;
    if (op == "+" || op == "-" || op == "*") return {checked(e, op[0], a, b)};
    if (op == "<") return {a < b};
    if (op == "<=") return {a <= b};
    if (op == ">") return {a > b};
    if (op == ">=") return {a >= b};
    if (op == "**") {
      if (b < 0 || b > 62) throw GraphError(e.place, "the exponent must be between 0 and 62");
      std::int64_t power = 1;
      for (std::int64_t i = 0; i < b; ++i) power = checked(e, '*', power, a);
      return {power};
    }
    if (b == 0) throw GraphError(e.place, "division by zero");
    if (b == -1) return {op == "%" ? std::int64_t{0} : checked(e, '-', 0, a)};
    if (op == "/") {
      // Sizes are whole numbers: a division that leaves something over is nearly always a mistake.
      if (a % b != 0)
        throw GraphError(e.place, std::to_string(a) + " / " + std::to_string(b) + " leaves a remainder",
                         "sizes must divide; '//' rounds down");
      return {a / b};
    }
    // As in Python, rounded down.
    const std::int64_t quotient = a / b - ((a % b != 0) && ((a < 0) != (b < 0)) ? 1 : 0);
    if (op == "//") return {quotient};
    return {a - quotient * b};
  }
};

/// The values of sizes: what the scenario sets, the parameters of the network, and what is derived from them.
class SizeEvaluator : public Evaluator {
 public:
  SizeEvaluator(const Network& network, const NetworkSizes& sizes) {
    std::vector<std::string> known;
    for (const Network::Parameter& p : network.parameters) {
      known.push_back(p.name);
      const auto given = sizes.parameters.find(p.name);
      add(p.name, given == sizes.parameters.end() ? p.value : matched(p, given->second));
    }
    for (const auto& [key, value] : sizes.parameters)
      if (std::find(known.begin(), known.end(), key) == known.end())
        throw GraphError({}, "the network " + network.key + " has no parameter '" + key + "'",
                         hint_for(key, known, "parameters"));
    add("batch", sizes.batch);
    add("sequence", sizes.sequence);
    add("tokens", sizes.step == StepKind::Decode ? std::int64_t{1} : sizes.sequence);
    add("step", std::string(name(sizes.step)));
    add("dtype", std::string(name(sizes.dtype)));
    add("compiled", sizes.compiled);
    for (const Network::Derived& d : network.derived) {
      const Value value = evaluate(d.value);
      struct Plain {
        const Expression& e;
        NetworkValue operator()(bool v) const { return v; }
        NetworkValue operator()(std::int64_t v) const { return v; }
        NetworkValue operator()(double v) const { return v; }
        NetworkValue operator()(const std::string& v) const { return v; }
        NetworkValue operator()(std::monostate) const {
          throw GraphError(e.place, "a derived size must not be none");
        }
        NetworkValue operator()(TensorRef) const { throw GraphError(e.place, "a derived size is no tensor"); }
        NetworkValue operator()(const Value::List&) const {
          throw GraphError(e.place, "a derived size is no list");
        }
      };
      add(d.name, std::visit(Plain{d.value}, value.is));
    }
  }

  const std::vector<std::pair<std::string, NetworkValue>>& values() const { return values_; }
  Scope scope() && { return std::move(scope_); }

 private:
  void add(const std::string& name, NetworkValue value) {
    scope_[name] = to_value(value);
    values_.emplace_back(name, std::move(value));
  }

  static NetworkValue matched(const Network::Parameter& p, const NetworkValue& given) {
    const auto refuse = [&](std::string_view what) -> NetworkValue {
      throw GraphError({}, "parameter '" + p.name + "' must be " + std::string(what));
    };
    if (std::holds_alternative<std::int64_t>(p.value) && !std::holds_alternative<std::int64_t>(given))
      return refuse("an integer");
    if (std::holds_alternative<bool>(p.value) && !std::holds_alternative<bool>(given))
      return refuse("true or false");
    if (std::holds_alternative<double>(p.value)) {
      if (const auto* i = std::get_if<std::int64_t>(&given)) return static_cast<double>(*i);
      if (!std::holds_alternative<double>(given)) return refuse("a number");
    }
    if (std::holds_alternative<std::string>(p.value)) {
      const auto* word = std::get_if<std::string>(&given);
      if (word == nullptr) return refuse("a word");
      if (!p.choices.empty() && std::find(p.choices.begin(), p.choices.end(), *word) == p.choices.end())
        throw GraphError({}, "parameter '" + p.name + "' cannot be '" + *word + "'",
                         hint_for(*word, p.choices, "choices"));
    }
    return given;
  }

  Value look_up(const Expression& e) override {
    const auto it = scope_.find(e.text);
    if (it != scope_.end()) return it->second;
    std::vector<std::string> known;
    for (const auto& [key, value] : scope_) known.push_back(key);
    throw GraphError(e.place, "unknown name '" + e.text + "'", hint_for(e.text, known, "names"));
  }
  Value call(const Expression& e) override {
    if (auto value = number_function(e)) return *value;
    throw GraphError(e.place, "'" + e.text + "' is no function of sizes",
                     "functions of sizes: min, max, ceil_div, round_up, sqrt, int, require");
  }

  Scope scope_;
  std::vector<std::pair<std::string, NetworkValue>> values_;
};

/// Throws if a block calls itself, over others or not: such a network has no end.
void refuse_recursion(const Network& network);

}  // namespace gpusim
