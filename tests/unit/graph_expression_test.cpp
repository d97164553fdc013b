// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "models/graph/expression.hpp"
#include "tests/support/catch.hpp"

namespace gpusim {
namespace {

/// The tree with brackets around everything.
std::string shown(const Expression& e) {
  using Kind = Expression::Kind;
  switch (e.kind) {
    case Kind::Integer:
      return std::to_string(e.integer);
    case Kind::Number:
      return "number";
    case Kind::Word:
      return "'" + e.text + "'";
    case Kind::True:
      return "true";
    case Kind::False:
      return "false";
    case Kind::None:
      return "none";
    case Kind::Name:
      return e.text;
    case Kind::List:
    case Kind::Call: {
      std::string text = e.text + (e.kind == Kind::List ? "[" : "(");
      for (std::size_t i = 0; i < e.parts.size(); ++i) {
        if (i > 0) text += ", ";
        if (e.kind == Kind::Call && !e.names[i].empty()) text += e.names[i] + "=";
        text += shown(e.parts[i]);
      }
      return text + (e.kind == Kind::List ? "]" : ")");
    }
    case Kind::Unary:
      return "(" + e.text + " " + shown(e.parts[0]) + ")";
    case Kind::Binary:
      return "(" + shown(e.parts[0]) + " " + e.text + " " + shown(e.parts[1]) + ")";
    case Kind::Conditional:
      return "(" + shown(e.parts[1]) + " if " + shown(e.parts[0]) + " else " + shown(e.parts[2]) + ")";
  }
  return "?";
}

TEST_CASE("Expressions have the precedence of Python's", "[graph]") {
  const auto [text, tree] = GENERATE(table<std::string, std::string>({
      {"a + b * c", "(a + (b * c))"},
      {"a * b + c", "((a * b) + c)"},
      {"a - b - c", "((a - b) - c)"},
      {"a / b // c % d", "(((a / b) // c) % d)"},
      {"-a ** b", "(- (a ** b))"},
      {"a ** -b", "(a ** (- b))"},
      {"a ** b ** c", "(a ** (b ** c))"},
      {"a * b ** 2", "(a * (b ** 2))"},
      {"a < b + 1", "(a < (b + 1))"},
      {"not a == b", "(not (a == b))"},
      {"a or b and c", "(a or (b and c))"},
      {"not a and b", "((not a) and b)"},
      {"x if a or b else y", "(x if (a or b) else y)"},
      {"x if a else y if b else z", "(x if a else (y if b else z))"},
      {"(a + b) * c", "((a + b) * c)"},
      {"f(x, [1, n], bias=false)", "f(x, [1, n], bias=false)"},
      {"f('tanh', none)", "f('tanh', none)"},
  }));
  CAPTURE(text);
  CHECK(shown(parse_expression(text)) == tree);
}

TEST_CASE("A statement names what its expression gives", "[graph]") {
  const Statement one = parse_statement("h = linear(x, 4)");
  CHECK(one.targets == std::vector<std::string>{"h"});
  const Statement three = parse_statement("q, k, v = split(h, n, dim=2)");
  CHECK(three.targets == std::vector<std::string>{"q", "k", "v"});
  CHECK(three.target_places[2] == TextPlace{1, 7});
  CHECK(parse_statement("copy_(a, b)").targets.empty());
  // `==` compares; it assigns nothing.
  CHECK(parse_statement("a == b").targets.empty());
}

TEST_CASE("Mistakes in an expression are located", "[graph][bad_input]") {
  const auto [text, column] = GENERATE(table<std::string, int>({
      {"a +", 4},
      {"f(x", 4},
      {"f(x,, y)", 5},
      {"[1, 2", 6},
      {"a $ b", 3},
      {"'tanh", 1},
      {"a b", 3},
      {"x if a", 7},
      {"99999999999999999999", 1},
  }));
  CAPTURE(text);
  try {
    parse_expression(text, {7, 1});
    FAIL("no error");
  } catch (const GraphError& error) {
    CHECK(error.place().line == 7);
    CHECK(error.place().column == column);
  }
}

TEST_CASE("Expressions have limits on depth and length", "[graph][bad_input]") {
  CHECK_THROWS_AS(parse_expression(std::string(500, '(') + "a" + std::string(500, ')')), GraphError);
  CHECK_THROWS_AS(parse_expression(std::string(500, '-') + "a"), GraphError);
  CHECK_THROWS_AS(parse_expression("a" + std::string(expression_bytes_max, ' ')), GraphError);
  std::string sum = "a";
  for (int i = 0; i < 1000; ++i) sum += " + a";
  // A long sum is no deep one, or it is refused: it never overflows the stack.
  try {
    parse_expression(sum);
    SUCCEED();
  } catch (const GraphError& error) {
    CHECK_THAT(error.what(), test::ContainsSubstring("_max"));
  }
}

}  // namespace
}  // namespace gpusim
