// SPDX-License-Identifier: Apache-2.0
#include "models/graph/expression.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

namespace gpusim {
namespace {

constexpr std::array<std::string_view, 8> reserved{"true", "false", "none", "inf", "and", "or", "not", "if"};

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// A recursive-descent parser; each level of precedence is one function.
class Parser {
 public:
  Parser(std::string_view text, TextPlace place) : text_(text), place_(place) {
    if (text.size() > expression_bytes_max)
      throw GraphError(
          place,
          "is longer than " + std::to_string(expression_bytes_max) + " characters (expression_bytes_max)",
          "give parts of it names of their own");
    next();
  }

  Expression whole_expression() {
    Expression e = conditional();
    expect_end();
    return e;
  }

  Statement whole_statement() {
    Statement statement;
    statement.place = here();
    // Targets are names up to a single '='. Look ahead for it, for `f(x, dim=1)` has one too, but inside
    // brackets.
    if (has_assignment()) {
      while (true) {
        if (token_ != Token::Name) fail("expected a name to assign to", "write 'name = ...' or 'a, b = ...'");
        if (!is_name(word_))
          fail("'" + word_ + "' is a word of the language and no name", "choose another name");
        statement.targets.push_back(word_);
        statement.target_places.push_back(here());
        next();
        if (symbol_is("=")) break;
        if (!symbol_is(",")) fail("expected ',' or '='", "write 'name = ...' or 'a, b = ...'");
        next();
      }
      next();
    }
    statement.value = conditional();
    expect_end();
    return statement;
  }

 private:
  enum class Token { End, Integer, Number, Name, Word, Symbol };

  TextPlace at(std::size_t offset) const { return {place_.line, place_.column + static_cast<int>(offset)}; }
  TextPlace here() const { return at(start_); }
  [[noreturn]] void fail(std::string what, std::string hint = {}) const {
    throw GraphError(here(), std::move(what), std::move(hint));
  }
  bool symbol_is(std::string_view symbol) const { return token_ == Token::Symbol && word_ == symbol; }
  bool keyword_is(std::string_view keyword) const { return token_ == Token::Name && word_ == keyword; }

  bool has_assignment() const {
    int depth = 0;
    char quote = 0;
    for (std::size_t i = 0; i < text_.size(); ++i) {
      const char c = text_[i];
      if (quote != 0) {
        if (c == quote) quote = 0;
      } else if (c == '\'' || c == '"') {
        quote = c;
      } else if (c == '(' || c == '[') {
        ++depth;
      } else if (c == ')' || c == ']') {
        --depth;
      } else if (c == '=' && depth == 0) {
        const char before = i > 0 ? text_[i - 1] : ' ';
        const char after = i + 1 < text_.size() ? text_[i + 1] : ' ';
        if (after == '=') {
          ++i;
        } else if (before != '<' && before != '>' && before != '!') {
          return true;
        }
      }
    }
    return false;
  }

  void next() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\t')) ++position_;
    start_ = position_;
    word_.clear();
    if (position_ >= text_.size()) {
      token_ = Token::End;
      return;
    }
    const char c = text_[position_];
    if (is_digit(c) || (c == '.' && position_ + 1 < text_.size() && is_digit(text_[position_ + 1])))
      return read_number();
    if (is_letter(c)) {
      while (position_ < text_.size() && (is_letter(text_[position_]) || is_digit(text_[position_])))
        word_ += text_[position_++];
      token_ = Token::Name;
      return;
    }
    if (c == '\'' || c == '"') {
      const std::size_t end = text_.find(c, position_ + 1);
      if (end == std::string_view::npos) fail("the word that begins here has no closing quote");
      word_ = std::string(text_.substr(position_ + 1, end - position_ - 1));
      position_ = end + 1;
      token_ = Token::Word;
      return;
    }
    static constexpr std::array<std::string_view, 6> longer{"//", "**", "==", "!=", "<=", ">="};
    for (const std::string_view symbol : longer)
      if (text_.substr(position_, 2) == symbol) return take_symbol(symbol);
    static constexpr std::string_view single = "+-*/%<>=()[],";
    const std::size_t which = single.find(c);
    if (which == std::string_view::npos) {
      const bool printable = c > ' ' && c < 127;
      fail(printable ? std::string("unexpected '") + c + "'" : std::string("unexpected character"),
           c == '.' ? "slices are written select(x, dim, index) and slice(x, dim, start, end)" : "");
    }
    take_symbol(single.substr(which, 1));
  }

  void take_symbol(std::string_view symbol) {
    word_ = std::string(symbol);
    position_ += symbol.size();
    token_ = Token::Symbol;
  }

  void read_number() {
    std::size_t end = position_;
    bool whole = true;
    while (end < text_.size() &&
           (is_digit(text_[end]) || text_[end] == '.' || text_[end] == 'e' || text_[end] == 'E' ||
            ((text_[end] == '-' || text_[end] == '+') && (text_[end - 1] == 'e' || text_[end - 1] == 'E')))) {
      whole = whole && is_digit(text_[end]);
      ++end;
    }
    const std::string_view digits = text_.substr(position_, end - position_);
    if (end < text_.size() && is_letter(text_[end]))
      fail("numbers in a network have no unit", "sizes are counted in elements");
    word_ = std::string(digits);
    position_ = end;
    const char* last = digits.data() + digits.size();
    if (whole) {
      const auto [stop, error] = std::from_chars(digits.data(), last, integer_);
      if (error != std::errc() || stop != last) fail("'" + word_ + "' is too large for a 64-bit integer");
      token_ = Token::Integer;
      return;
    }
    const auto [stop, error] = std::from_chars(digits.data(), last, number_);
    if (error != std::errc() || stop != last) fail("'" + word_ + "' is no number");
    token_ = Token::Number;
  }

  void expect(std::string_view symbol) {
    if (!symbol_is(symbol)) fail("expected '" + std::string(symbol) + "'" + found());
    next();
  }
  void expect_end() {
    if (token_ != Token::End) fail("expected the end of the statement" + found());
  }
  std::string found() const { return token_ == Token::End ? ", found the end" : ", found '" + word_ + "'"; }

  Expression make(Expression::Kind kind, std::string text = {}) const {
    Expression e;
    e.kind = kind;
    e.place = here();
    e.text = std::move(text);
    return e;
  }

  /// Counts the nesting, so that hostile text cannot exhaust the stack.
  struct Deeper {
    explicit Deeper(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > expression_depth_max)
        parser_.fail(
            "is nested deeper than " + std::to_string(expression_depth_max) + " (expression_depth_max)",
            "give parts of it names of their own");
    }
    ~Deeper() { --parser_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    Parser& parser_;
  };

  Expression conditional() {
    const Deeper deeper(*this);
    Expression value = disjunction();
    if (!keyword_is("if")) return value;
    Expression e = make(Expression::Kind::Conditional);
    next();
    Expression condition = disjunction();
    if (!keyword_is("else")) fail("expected 'else'" + found(), "write 'A if CONDITION else B'");
    next();
    Expression otherwise = conditional();
    e.parts.push_back(std::move(condition));
    e.parts.push_back(std::move(value));
    e.parts.push_back(std::move(otherwise));
    return e;
  }

  template <class Operand, class IsOperator>
  Expression left_to_right(Operand operand, IsOperator is_operator) {
    Expression left = operand();
    int length = 0;
    while (is_operator()) {
      if (++length > expression_chain_max)
        fail("has more than " + std::to_string(expression_chain_max) +
                 " operators in a row (expression_chain_max)",
             "give parts of it names of their own");
      Expression e = make(Expression::Kind::Binary, word_);
      next();
      e.parts.push_back(std::move(left));
      e.parts.push_back(operand());
      left = std::move(e);
    }
    return left;
  }

  Expression disjunction() {
    return left_to_right([this] { return conjunction(); }, [this] { return keyword_is("or"); });
  }
  Expression conjunction() {
    return left_to_right([this] { return negation(); }, [this] { return keyword_is("and"); });
  }
  Expression negation() {
    if (!keyword_is("not")) return comparison();
    const Deeper deeper(*this);
    Expression e = make(Expression::Kind::Unary, "not");
    next();
    e.parts.push_back(negation());
    return e;
  }
  Expression comparison() {
    Expression left = sum();
    static constexpr std::array<std::string_view, 6> operators{"==", "!=", "<", "<=", ">", ">="};
    if (token_ != Token::Symbol || std::find(operators.begin(), operators.end(), word_) == operators.end())
      return left;
    Expression e = make(Expression::Kind::Binary, word_);
    next();
    e.parts.push_back(std::move(left));
    e.parts.push_back(sum());
    return e;
  }
  Expression sum() {
    return left_to_right([this] { return product(); }, [this] { return symbol_is("+") || symbol_is("-"); });
  }
  Expression product() {
    return left_to_right(
        [this] { return sign(); },
        [this] { return symbol_is("*") || symbol_is("/") || symbol_is("//") || symbol_is("%"); });
  }
  Expression sign() {
    if (!symbol_is("-")) return power();
    const Deeper deeper(*this);
    Expression e = make(Expression::Kind::Unary, "-");
    next();
    e.parts.push_back(sign());
    return e;
  }
  Expression power() {
    Expression base = primary();
    if (!symbol_is("**")) return base;
    const Deeper deeper(*this);
    Expression e = make(Expression::Kind::Binary, "**");
    next();
    e.parts.push_back(std::move(base));
    e.parts.push_back(sign());
    return e;
  }

  Expression primary() {
    const Deeper deeper(*this);
    switch (token_) {
      case Token::Integer: {
        Expression e = make(Expression::Kind::Integer);
        e.integer = integer_;
        next();
        return e;
      }
      case Token::Number: {
        Expression e = make(Expression::Kind::Number);
        e.number = number_;
        next();
        return e;
      }
      case Token::Word: {
        Expression e = make(Expression::Kind::Word, word_);
        next();
        return e;
      }
      case Token::Name:
        return name_or_call();
      case Token::Symbol:
        if (symbol_is("(")) {
          next();
          Expression e = conditional();
          expect(")");
          return e;
        }
        if (symbol_is("[")) {
          Expression e = make(Expression::Kind::List);
          next();
          while (!symbol_is("]")) {
            e.parts.push_back(conditional());
            if (!symbol_is(",")) break;
            next();
          }
          expect("]");
          return e;
        }
        fail("expected a value, found '" + word_ + "'");
      case Token::End:
        fail("expected a value, found the end");
    }
    fail("expected a value");
  }

  Expression name_or_call() {
    if (word_ == "true" || word_ == "True") return literal(Expression::Kind::True);
    if (word_ == "false" || word_ == "False") return literal(Expression::Kind::False);
    if (word_ == "none" || word_ == "None") return literal(Expression::Kind::None);
    if (word_ == "inf") {
      Expression e = literal(Expression::Kind::Number);
      e.number = std::numeric_limits<double>::infinity();
      return e;
    }
    if (word_ == "else") fail("'else' without 'if'");
    if (!is_name(word_)) fail("expected a value, found '" + word_ + "'");
    Expression e = make(Expression::Kind::Name, word_);
    next();
    if (!symbol_is("(")) return e;
    e.kind = Expression::Kind::Call;
    next();
    while (!symbol_is(")")) {
      std::string named;
      if (token_ == Token::Name) {
        // `name=` begins a named argument, anything else an expression that begins with a name.
        const std::size_t saved_position = position_;
        const std::size_t saved_start = start_;
        const std::string saved_word = word_;
        next();
        if (symbol_is("=")) {
          named = saved_word;
          next();
        } else {
          position_ = saved_position;
          start_ = saved_start;
          word_ = saved_word;
          token_ = Token::Name;
        }
      }
      if (named.empty() && !e.names.empty() && !e.names.back().empty())
        fail("a positional argument after a named one", "put the named ones last");
      e.parts.push_back(conditional());
      e.names.push_back(std::move(named));
      if (!symbol_is(",")) break;
      next();
    }
    expect(")");
    return e;
  }

  Expression literal(Expression::Kind kind) {
    Expression e = make(kind);
    next();
    return e;
  }

  std::string_view text_;
  TextPlace place_;
  std::size_t position_ = 0;
  std::size_t start_ = 0;  ///< Of the current token.
  Token token_ = Token::End;
  std::string word_;
  std::int64_t integer_ = 0;
  double number_ = 0;
  int depth_ = 0;
};

}  // namespace

Expression parse_expression(std::string_view text, TextPlace place) {
  return Parser(text, place).whole_expression();
}

Statement parse_statement(std::string_view text, TextPlace place) {
  return Parser(text, place).whole_statement();
}

bool is_name(std::string_view text) {
  if (text.empty() || !is_letter(text.front())) return false;
  if (!std::all_of(text.begin(), text.end(), [](char c) { return is_letter(c) || is_digit(c); }))
    return false;
  return std::find(reserved.begin(), reserved.end(), text) == reserved.end() && text != "else" &&
         text != "True" && text != "False" && text != "None";
}

}  // namespace gpusim
