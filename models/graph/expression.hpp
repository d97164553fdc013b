// SPDX-License-Identifier: Apache-2.0
// The small language that networks are written in: what a person would type in PyTorch, without classes.
//
//   q = view(linear(x, heads * head_dim), [batch, tokens, heads, head_dim])
//
// Expressions: numbers, 'words', true, false, none, inf, [lists], names, calls with positional and named
// arguments;
// + - * / // % ** between numbers or tensors, comparisons, `and`, `or`, `not`, `A if CONDITION else B`.
// Precedence is Python's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/graph/op_graph.hpp"

namespace gpusim {

/// A node of an expression. A tree by value: children in `parts`.
struct Expression {
  enum class Kind : std::uint8_t {
    Integer,
    Number,
    Word,  ///< In quotes.
    True,
    False,
    None,
    Name,
    List,
    Call,         ///< `text` is the name called; `names[i]` is empty for a positional argument.
    Unary,        ///< `text` is "-" or "not".
    Binary,       ///< `text` is the operator.
    Conditional,  ///< parts: condition, then, else.
  };
  Kind kind = Kind::None;
  TextPlace place;
  std::string text;
  std::int64_t integer = 0;
  double number = 0;
  std::vector<Expression> parts;
  std::vector<std::string> names;
};

/// `a, b = f(x)` or a bare expression.
struct Statement {
  std::vector<std::string> targets;
  std::vector<TextPlace> target_places;
  Expression value;
  TextPlace place;
};

/// What an expression may cost; each error names the limit.
inline constexpr int expression_depth_max = 64;
inline constexpr int expression_chain_max = 256;
inline constexpr std::size_t expression_bytes_max = 8192;

/// Throws GraphError. `place` is that of the text's first character; the text is on one line.
Expression parse_expression(std::string_view text, TextPlace place = {1, 1});
Statement parse_statement(std::string_view text, TextPlace place = {1, 1});

/// Whether `text` is a name: a letter or '_', then letters, digits and '_'; no word of the language.
bool is_name(std::string_view text);

}  // namespace gpusim
