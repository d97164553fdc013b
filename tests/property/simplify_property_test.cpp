// SPDX-License-Identifier: Apache-2.0
// Random networks with views, changes in place, repeated and needless ops, simplified by random rules over
// random regions: they compute the same numbers, with no more work.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "models/compiler/simplify.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/simplified.hpp"

namespace gpusim {
namespace {

class RandomNetwork {
 public:
  explicit RandomNetwork(std::uint64_t seed) : random_(seed) {}

  OpGraph graph() {
    text_ = "name: random\ninputs:\n  x: {shape: [2, 3, 4]}\n  y: {shape: [2, 3, 4]}\nbody:\n";
    tensors_ = {{"x", {2, 3, 4}}, {"y", {2, 3, 4}}};
    define("w", "parameter([4, 4])", {4, 4});
    define("b", "buffer([2, 3, 4])", {2, 3, 4});
    define("s", "state([2, 3, 4])", {2, 3, 4});
    constants_ = {"w", "b"};
    const int statements = 6 + below(20);
    for (int i = 0; i < statements; ++i) add_statement();
    text_ += "gives: [" + tensors_.back().name;
    for (int i = below(3); i > 0; --i) text_ += ", " + any().name;
    return build_graph(test::network_of(text_ + "]\n"), test::sizes(1, 1));
  }
  const std::string& text() const { return text_; }

  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }

 private:
  struct Tensor {
    std::string name;
    std::vector<int> shape;
  };

  const Tensor& any() { return tensors_[static_cast<std::size_t>(below(static_cast<int>(tensors_.size())))]; }
  /// Most often one that was made lately, so that chains grow.
  const Tensor& pick() {
    const int size = static_cast<int>(tensors_.size());
    return below(3) == 0 ? any() : tensors_[static_cast<std::size_t>(size - 1 - below(std::min(size, 4)))];
  }
  void define(const std::string& name, const std::string& expression, const std::vector<int>& shape) {
    text_ += "  - " + name + " = " + expression + "\n";
    tensors_.push_back({name, shape});
  }
  void make(const std::string& expression, const std::vector<int>& shape) {
    define("t" + std::to_string(++made_), expression, shape);
    last_ = {expression, shape};
  }

  void add_statement() {
    static const std::vector<std::string> same{
        "relu(A)",
        "silu(A)",
        "neg(A)",
        "tanh(A)",
        "A + 0.0",
        "A * 1.0",
        "A * 0.5",
        "to(A, 'bf16')",
        "type_as(A, x)",
        "clone(A)",
        "contiguous(A)",
        "dropout(A)",
        "softmax(A)",
        "A + A",
        "layer_norm(A, affine=false)",
        "A + zeros([1])",
        "A * exp(to(arange(1), 'bf16'))",
        "contiguous(transpose(contiguous(transpose(A, 0, -1)), 0, -1))",
        "transpose(transpose(A, 0, -1), 0, -1)",
        "A + relu(b)"};
    const Tensor a = pick();
    const auto with = [&](std::string form) {
      for (std::size_t at = 0; (at = form.find('A', at)) != std::string::npos; at += a.name.size())
        form.replace(at, 1, a.name);
      return form;
    };
    std::vector<int> shape = a.shape;
    const int rank = static_cast<int>(shape.size());
    switch (below(16)) {
      case 0:
      case 1:
      case 2:
      case 3: {
        const std::string form = same[static_cast<std::size_t>(below(static_cast<int>(same.size())))];
        const bool fits = form != "A + relu(b)" || shape == std::vector<int>{2, 3, 4};
        return make(with(fits ? form : "relu(A)"), shape);
      }
      case 4: {  // Another one of its shape.
        for (const Tensor& other : tensors_)
          if (other.shape == shape && other.name != a.name && below(2) == 0)
            return make(a.name + (below(2) == 0 ? " + " : " * ") + other.name, shape);
        return make(with("A * A"), shape);
      }
      case 5:
        std::swap(shape[0], shape[static_cast<std::size_t>(rank - 1)]);
        return make(with("transpose(A, 0, -1)"), shape);
      case 6: {
        int all = 1;
        for (const int d : shape) all *= d;
        return make(with("reshape(A, [-1])"), {all});
      }
      case 7:
        if (shape[0] < 2) return;
        --shape[0];
        return make(with(below(2) == 0 ? "slice(A, 0, 1)" : "slice(A, 0, 0, -1)"), shape);
      case 8:
        if (rank < 2) return;
        shape.erase(shape.begin());
        return make(with("select(A, 0, 0)"), shape);
      case 9:
      case 10:
        return add_linears(a);
      case 11:
        if (rank != 2 || shape[1] != 4) return make(with("silu(A) * A"), shape);
        return make(with("matmul(A, w)"), shape);
      case 12: {  // In place; not in constants, which nobody changes.
        if (is_constant(a.name)) return;
        const std::vector<std::string> forms{"relu_(A)", "add_(A, A)", "mul_(A, scalar=0.5)"};
        text_ += "  - " + with(forms[static_cast<std::size_t>(below(3))]) + "\n";
        return;
      }
      case 13:
        if (shape == std::vector<int>{2, 3, 4}) text_ += "  - copy_(s, " + a.name + ")\n";
        return;
      case 14:  // Once more.
        if (!last_.name.empty()) make(last_.name, last_.shape);
        return;
      default:
        ++made_;
        text_ += "  - unused" + std::to_string(made_) + " = exp(" + a.name + ")\n";
        return;
    }
  }

  /// One to three linears of a tensor, with what a decoder does with them.
  void add_linears(const Tensor& a) {
    const int count = 1 + below(3);
    std::vector<int> shape = a.shape;
    shape.back() = 4;
    const std::string bias = below(2) == 0 ? "" : ", bias=false";
    std::vector<std::string> parts;
    for (int i = 0; i < count; ++i) {
      make("linear(" + a.name + ", 4" + bias + ")", shape);
      last_ = {};
      parts.push_back(tensors_.back().name);
    }
    if (count > 1 && below(2) == 0) make("silu(" + parts[0] + ") * " + parts[1], shape);
    if (count > 1 && below(2) == 0) {
      std::vector<int> heads = shape;
      heads.back() = 2;
      heads.push_back(2);
      std::string wanted = "[";
      for (const int d : heads) wanted += std::to_string(d) + ", ";
      make("view(" + parts.back() + ", " + wanted.substr(0, wanted.size() - 2) + "])", heads);
    }
  }

  /// Constants and views of them: by the text, from the names that an expression begins with.
  bool is_constant(const std::string& name) const {
    if (std::find(constants_.begin(), constants_.end(), name) != constants_.end()) return true;
    // A view of a constant shares its memory.
    const std::size_t at = text_.find("  - " + name + " = ");
    if (at == std::string::npos) return false;
    const std::string line = text_.substr(at, text_.find('\n', at) - at);
    for (const char* view : {"transpose(", "reshape(", "slice(", "select(", "view(", "to(", "type_as(",
                             "contiguous(", "dropout("}) {
      const std::size_t call = line.find(view);
      if (call == std::string::npos) continue;
      const std::size_t begin = call + std::string(view).size();
      const std::string inner = line.substr(begin, line.find_first_of(",)", begin) - begin);
      if (inner.find('(') != std::string::npos || is_constant(inner)) return true;
    }
    return false;
  }

  std::mt19937_64 random_;
  std::string text_;
  std::vector<Tensor> tensors_;
  std::vector<std::string> constants_;
  Tensor last_;
  int made_ = 0;
};

SimplifyRules random_rules(RandomNetwork& random) {
  if (random.below(3) == 0) return test::all_rules;
  const auto on = [&] { return random.below(2) == 0; };
  SimplifyRules rules;
  rules.dead_code = on();
  rules.inference_dropout = on();
  rules.no_ops = on();
  rules.constants = on();
  rules.freeze = on();
  rules.common_subexpressions = on();
  rules.layout = on();
  rules.merge_qkv = on();
  rules.merge_gate_up = on();
  return rules;
}

std::vector<Region> random_regions(RandomNetwork& random, const OpGraph& graph) {
  if (random.below(2) == 0) return {};
  std::vector<Region> regions;
  const auto ops = static_cast<OpIndex>(graph.ops.size());
  OpIndex first = 0;
  while (first < ops) {
    const OpIndex last = std::min(ops, first + static_cast<OpIndex>(random.below(static_cast<int>(ops))) + 1);
    regions.push_back({.first = first, .last = last, .compiled = random.below(4) != 0, .name = ""});
    first = last;
  }
  return regions;
}

TEST_CASE("Random networks compute the same, simplified", "[simplify][property]") {
  const GpuSpec gpu = test::h200();
  std::int64_t changed = 0;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    RandomNetwork random(seed);
    const OpGraph graph = random.graph();
    const SimplifyRules rules = random_rules(random);
    const SimplifyOptions options{.regions = random_regions(random, graph)};
    CAPTURE(seed, random.text());
    REQUIRE(test::fault_of(graph) == "");
    const Simplified result = simplify(graph, rules, options);
    REQUIRE(test::fault_of(result.graph) == "");
    REQUIRE(test::same_numbers(graph, result.graph));
    REQUIRE(test::model_flops(result.graph) <= test::model_flops(graph));
    REQUIRE(test::eager_traffic(result.graph, gpu) <= test::eager_traffic(graph, gpu));
    REQUIRE(bytes_of(result.graph, Role::Parameter) == bytes_of(graph, Role::Parameter));
    for (std::size_t i = 0; i < graph.outputs.size(); ++i)
      REQUIRE(test::given(result.graph, i) == test::given(graph, i));
    // Regions hold every op once, those that are not compiled the ones they had.
    OpIndex next = 0;
    for (std::size_t r = 0; r < result.regions.size(); ++r) {
      REQUIRE(result.regions[r].first == next);
      next = result.regions[r].last;
      if (!options.regions[r].compiled)
        REQUIRE(next - result.regions[r].first == options.regions[r].last - options.regions[r].first);
    }
    if (!result.regions.empty()) REQUIRE(next == result.graph.ops.size());
    // Once is enough; of several regions, one that now reads less of another leaves it less to do.
    if (options.regions.size() < 2) {
      const Simplified again = simplify(result.graph, rules, {.regions = result.regions});
      REQUIRE(test::difference(again.graph, result.graph) == "");
    }
    changed += result.graph.ops.size() != graph.ops.size() ? 1 : 0;
  }
  CHECK(changed > 500);
}

}  // namespace
}  // namespace gpusim
