// SPDX-License-Identifier: Apache-2.0
// Where regions end. The small programs were run through PyTorch 2.11 on an H200 with a backend that writes
// down its graphs (validation/h200/graph_breaks.json).
#include "models/compiler/capture_regions.hpp"

#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/networks.hpp"

namespace gpusim {
namespace {

using test::ContainsSubstring;
using test::network_of;
using test::sizes;

CompileOptions dynamo(std::vector<GraphBreak> breaks = {}) {
  CompileOptions options;
  options.backend.name = "TorchInductor";
  options.backend.capture = CaptureKind::Dynamo;
  options.breaks = std::move(breaks);
  return options;
}

/// The ops of each region by their kinds: "[linear exp]" where it is compiled, "linear exp" where it is not.
std::vector<std::string> pieces(const OpGraph& graph, const CapturedStep& step) {
  std::vector<std::string> result;
  OpIndex at = 0;
  for (const Region& region : step.regions) {
    // Every op once, in order.
    CHECK(region.first == at);
    CHECK(region.last > at);
    at = region.last;
    std::string text;
    for (OpIndex i = region.first; i < region.last; ++i)
      text += (text.empty() ? "" : " ") + std::string(graph.ops[i].kind->name);
    result.push_back(region.compiled ? "[" + text + "]" : text);
  }
  CHECK(at == graph.ops.size());
  return result;
}

/// A Linear, exp, a function (tanh and a product), `middle`, three blocks in a loop with `in_loop` before
/// each, `behind`, a LayerNorm and the function again.
OpGraph program(const std::string& middle, const std::string& in_loop = "", const std::string& behind = "") {
  return build_graph(
      network_of(
          "name: n\ninputs:\n  x: {shape: [8, 64]}\n"
          "blocks:\n"
          "  fn:\n    function: true\n    takes: [x]\n    body:\n      - y = tanh(x) * 2\n    gives: [y]\n"
          "  blk:\n    takes: [x]\n    body:\n      - y = linear(relu(x), 64) + 1\n    gives: [y]\n"
          "  broken:\n    takes: [x]\n    body:\n      - y = relu(x)\n      - graph_break()\n"
          "      - y = linear(y, 64) + 1\n    gives: [y]\n"
          "  inner:\n    takes: [x]\n    body:\n      - x = sin(x)\n      - repeat: 3\n        body:\n"
          "          - x = blk(x)\n          - graph_break()\n      - x = cos(x)\n    gives: [x]\n"
          "body:\n  - x = fn(exp(linear(x, 64)))\n" +
          middle + "  - repeat: 3\n    body:\n" + in_loop + "      - x = blk(x)\n" + behind +
          "  - x = fn(layer_norm(x))\ngives: [x]\n"),
      sizes(1, 1));
}

const std::string broken = "  - graph_break()\n";
const std::string head = "linear exp tanh mul";
const std::string loop = "relu linear add relu linear add relu linear add";
const std::string tail = "layer_norm tanh mul";

std::vector<std::string> captured(const OpGraph& graph, const CompileOptions& options = dynamo()) {
  return pieces(graph, capture_regions(graph, options));
}

TEST_CASE("Without a break a step is one region", "[compiler][capture]") {
  const OpGraph graph = program("");
  const CapturedStep step = capture_regions(graph, dynamo());
  CHECK(pieces(graph, step) == std::vector<std::string>{"[" + head + " " + loop + " " + tail + "]"});
  CHECK(step.regions.front().name == "step");
  CHECK(step.graph_breaks == 0);
  // Four Linear with a bias and a LayerNorm.
  CHECK(step.regions.front().parameters == 10);
}

TEST_CASE("A break in straight-line code makes two regions, and two in a row make no more",
          "[compiler][capture]") {
  for (const std::string& breaks : {broken, broken + broken}) {
    const OpGraph graph = program(breaks);
    const CapturedStep step = capture_regions(graph, dynamo());
    std::vector<std::string> compiled;
    for (const std::string& piece : pieces(graph, step))
      if (piece[0] == '[') compiled.push_back(piece);
    CHECK(compiled == std::vector<std::string>{"[" + head + "]", "[" + loop + " " + tail + "]"});
    CHECK(step.graph_breaks == (breaks == broken ? 1 : 2));
    CHECK(step.regions.front().name == "step/0");
    CHECK(step.breaks.front().effect == "step is split here");
    CHECK(step.breaks.front().remedy == remedy(BreakCause::Explicit));
  }
  const OpGraph behind = program("", "", broken);
  CHECK(captured(behind) ==
        std::vector<std::string>{"[" + head + " " + loop + "]", "graph_break", "[" + tail + "]"});
}

TEST_CASE("A break in a loop gives the frame up: what it calls is compiled, its own ops run eagerly",
          "[compiler][capture]") {
  const std::string block = "[relu linear add]";
  const std::string eager_block = "graph_break";
  const OpGraph graph = program("", "    " + broken);
  const CapturedStep step = capture_regions(graph, dynamo());
  CHECK(pieces(graph, step) == std::vector<std::string>{"linear exp", "[tanh mul]", "graph_break", block,
                                                        "graph_break", block, "graph_break", block,
                                                        "layer_norm", "[tanh mul]"});
  CHECK(step.graph_breaks == 3);
  CHECK(step.breaks[2].effect == "step is given up: 5 calls compiled by themselves, 6 ops eager");
  CHECK(step.regions[1].name == "fn");
  CHECK(step.regions[5].name == "blk[1]");
  // Compiled once: the three blocks, and the function for both its calls.
  CHECK(step.regions[5].like == 3);
  CHECK(step.regions[7].like == 3);
  CHECK(step.regions[9].like == 1);
  CHECK(step.regions[3].parameters == 2);
}

TEST_CASE("What a frame has done before the break that gives it up stays compiled", "[compiler][capture]") {
  const OpGraph graph = program(broken, "    " + broken);
  const std::vector<std::string> all = captured(graph);
  CHECK(all.front() == "[" + head + "]");
  CHECK(all.back() == "[tanh mul]");
  CHECK(all[all.size() - 2] == "layer_norm");
}

TEST_CASE("A break behind a loop that is given up changes nothing more", "[compiler][capture]") {
  const OpGraph one = program("", "    " + broken);
  const OpGraph two = program("", "    " + broken, broken);
  std::vector<std::string> expected = captured(one);
  expected[8] = "graph_break layer_norm";
  CHECK(captured(two) == expected);
}

TEST_CASE("A break in a call that is inlined splits caller and callee", "[compiler][capture]") {
  const OpGraph graph = program("  - x = broken(x)\n");
  const CapturedStep step = capture_regions(graph, dynamo());
  CHECK(pieces(graph, step) == std::vector<std::string>{"[" + head + "]", "[relu]", "graph_break",
                                                        "[linear add]", "[" + loop + " " + tail + "]"});
  CHECK(step.graph_breaks == 1);
  CHECK(step.breaks.front().effect == "step is split around broken; broken is split here");
  CHECK(step.regions[1].name == "broken/0");
  CHECK(step.regions[4].name == "step/1");
}

TEST_CASE("A break in a block of a loop gives up the loop and splits the block", "[compiler][capture]") {
  const OpGraph graph = program("", "      - x = broken(x)\n");
  const CapturedStep step = capture_regions(graph, dynamo());
  CHECK(pieces(graph, step) ==
        std::vector<std::string>{"linear exp", "[tanh mul]",                                    //
                                 "[relu]", "graph_break", "[linear add]", "[relu linear add]",  //
                                 "[relu]", "graph_break", "[linear add]", "[relu linear add]",  //
                                 "[relu]", "graph_break", "[linear add]", "[relu linear add]",  //
                                 "layer_norm", "[tanh mul]"});
  CHECK_THAT(step.breaks.front().effect, ContainsSubstring("broken[0] is split here; step is given up"));
  // The pieces of the three blocks are the same code.
  CHECK(step.regions[6].like == 2);
  CHECK(step.regions[12].like == 4);
  CHECK(step.regions[12].same_graph == 4);
}

TEST_CASE("Only the frame that loops is given up", "[compiler][capture]") {
  const OpGraph graph = program("  - x = inner(x)\n");
  CHECK(captured(graph) == std::vector<std::string>{"[" + head + "]", "sin", "[relu linear add]",
                                                    "graph_break", "[relu linear add]", "graph_break",
                                                    "[relu linear add]", "graph_break cos",
                                                    "[" + loop + " " + tail + "]"});
}

TEST_CASE("A loop that is written out is straight-line code", "[compiler][capture]") {
  const OpGraph graph = program("");
  const CapturedStep step = capture_regions(graph, dynamo({{.after = "blk[*]", .in_loop = false}}));
  CHECK(pieces(graph, step) == std::vector<std::string>{"[" + head + " relu linear add]", "[relu linear add]",
                                                        "[relu linear add]", "[" + tail + "]"});
  const CapturedStep looped =
      capture_regions(graph, dynamo({{.after = "fn", .cause = BreakCause::Print, .in_loop = true}}));
  CHECK(looped.regions.front().compiled == false);
  CHECK(looped.graph_breaks == 1);
}

TEST_CASE("A break inside of a block whose loop is written out splits step and block",
          "[compiler][capture]") {
  const OpGraph graph = program("");
  CHECK(captured(graph, dynamo({{.after = "blk[1].relu", .in_loop = false}})) ==
        std::vector<std::string>{"[" + head + " relu linear add]", "[relu]", "[linear add]",
                                 "[relu linear add " + tail + "]"});
}

TEST_CASE("A break at the end of a block comes before one behind the block", "[compiler][capture]") {
  const OpGraph graph = program("");
  const CapturedStep step = capture_regions(
      graph, dynamo({{.after = "blk[1]", .in_loop = false}, {.after = "blk[1].y", .in_loop = false}}));
  CHECK(pieces(graph, step) == std::vector<std::string>{"[" + head + " relu linear add]", "[relu linear add]",
                                                        "[relu linear add " + tail + "]"});
  REQUIRE(step.breaks.size() == 2);
  CHECK(step.breaks[0].where == "blk[1].y");
  CHECK(step.breaks[1].where == "blk[1]");
}

TEST_CASE("A break inside of a library module leaves it eager", "[compiler][capture]") {
  const OpGraph graph = build_graph(
      network_of(
          "name: n\ninputs:\n  x: {shape: [8, 64]}\n"
          "blocks:\n  shared:\n    takes: [x, w]\n    body:\n      - y = linear(x, weight=w)\n"
          "    gives: [y]\n"
          "body:\n  - w = parameter([64, 64])\n  - x = shared(exp(x), w)\n  - x = sin(x)\ngives: [x]\n"),
      sizes(1, 1));
  CHECK(captured(graph) == std::vector<std::string>{"[exp linear sin]"});
  CHECK(captured(graph, dynamo({{.after = "shared.y"}})) ==
        std::vector<std::string>{"[exp]", "linear", "[sin]"});
}

TEST_CASE("What reads a number waits behind its region, other causes do not", "[compiler][capture]") {
  const OpGraph graph = program("");
  for (const std::string& cause : break_cause_names()) {
    const BreakCause which = *find_break_cause(cause);
    CAPTURE(cause);
    CHECK(name(which) == cause);
    const CapturedStep step = capture_regions(graph, dynamo({{.after = "fn", .cause = which}}));
    REQUIRE(step.regions.size() == 2);
    CHECK(step.regions[0].waits == synchronizes(which));
    CHECK(step.regions[0].host_reads == (synchronizes(which) ? 1 : 0));
    CHECK_FALSE(step.regions[1].waits);
    CHECK(step.breaks.front().cause == which);
    CHECK(step.breaks.front().remedy == remedy(which));
  }
  CHECK(synchronizes(BreakCause::Item));
  CHECK(synchronizes(BreakCause::DataDependentBranch));
  CHECK(synchronizes(BreakCause::DynamicShape));
  CHECK_FALSE(synchronizes(BreakCause::Print));
  CHECK_FALSE(find_break_cause("prnt"));
}

TEST_CASE("Eager PyTorch waits where numbers are read, and is not split elsewhere", "[compiler][capture]") {
  const OpGraph graph = program("");
  CompileOptions eager = dynamo({{.after = "blk[0]", .cause = BreakCause::Item}, {.after = "blk[1]"}});
  eager.backend.capture = CaptureKind::None;
  const CapturedStep step = capture_regions(graph, eager);
  REQUIRE(step.regions.size() == 2);
  CHECK(step.graph_breaks == 0);
  CHECK_FALSE(step.regions[0].compiled);
  CHECK(step.regions[0].waits);
  CHECK(step.regions[0].last == graph.calls[2].last);
  CHECK_FALSE(step.regions[1].waits);
}

TEST_CASE("item and nonzero are breaks; a copy to the host only ends a region", "[compiler][capture]") {
  const OpGraph item = program("  - item(sum(x))\n");
  CHECK(captured(item) ==
        std::vector<std::string>{"[" + head + " sum]", "item", "[" + loop + " " + tail + "]"});
  const OpGraph places = program("  - places = nonzero(x > 0, count=5)\n");
  const CapturedStep step = capture_regions(places, dynamo());
  CHECK(pieces(places, step) ==
        std::vector<std::string>{"[" + head + " gt]", "nonzero", "[" + loop + " " + tail + "]"});
  CHECK(step.breaks.front().cause == BreakCause::DynamicShape);
  // PyTorch 2.11 follows .cpu(), in a loop too.
  const OpGraph copy = program("", "      - copy = to_host(x)\n");
  const CapturedStep copied = capture_regions(copy, dynamo());
  CHECK(copied.graph_breaks == 0);
  CHECK(copied.regions.size() == 7);
  CompileOptions whole = dynamo();
  whole.full_graph = true;
  CHECK_NOTHROW(capture_regions(copy, whole));
}

TEST_CASE("One graph or none: a break is refused with its remedy", "[compiler][capture]") {
  const OpGraph graph = program("  - item(sum(x))\n");
  CompileOptions full = dynamo();
  full.full_graph = true;
  CompileOptions exported = dynamo();
  exported.backend.capture = CaptureKind::WholeGraph;
  exported.backend.name = "torch.export";
  for (const CompileOptions& options : {full, exported}) {
    try {
      capture_regions(graph, options);
      FAIL("not refused");
    } catch (const CompileError& error) {
      CHECK_THAT(std::string(error.what()), ContainsSubstring("graph break behind 'item' (item)"));
      CHECK(error.hint() == remedy(BreakCause::Item));
    }
  }
  CHECK(capture_regions(program(""), exported).regions.size() == 1);
}

TEST_CASE("A break behind something unknown names what is near", "[compiler][capture]") {
  const OpGraph graph = program("");
  try {
    capture_regions(graph, dynamo({{.after = "blok[1]"}}));
    FAIL("not refused");
  } catch (const CompileError& error) {
    CHECK_THAT(std::string(error.what()), ContainsSubstring("'blok[1]'"));
    CHECK_THAT(error.hint(), ContainsSubstring("'blk[*]'"));
  }
  CHECK_THROWS_AS(capture_regions(graph, dynamo({{.after = "blk[3]"}})), CompileError);
  CHECK_THROWS_AS(capture_regions(graph, dynamo({{.after = "blk"}})), CompileError);
}

TEST_CASE("Regional compilation compiles what repeats, once, and nothing else", "[compiler][capture]") {
  const OpGraph graph = program("");
  CompileOptions options = dynamo({{.after = "fn", .cause = BreakCause::Print}});
  options.regional = true;
  options.full_graph = true;
  const CapturedStep step = capture_regions(graph, options);
  CHECK(pieces(graph, step) ==
        std::vector<std::string>{head, "[relu linear add]", "[relu linear add]", "[relu linear add]", tail});
  // Between the blocks nothing is traced, so nothing breaks there.
  CHECK(step.graph_breaks == 0);
  CHECK(step.regions[3].like == 1);
  const OpGraph flat = test::small_graph("  - z = relu(x)\n");
  CHECK_THROWS_AS(capture_regions(flat, options), CompileError);
}

TEST_CASE("Equal regions have equal ops: another width is compiled anew", "[compiler][capture]") {
  const OpGraph graph = build_graph(
      network_of("name: n\ninputs:\n  x: {shape: [8, 64]}\n"
                 "blocks:\n  blk:\n    takes: [x, n]\n    body:\n      - y = linear(relu(x), n)\n"
                 "    gives: [y]\n"
                 "body:\n  - repeat: 3\n    index: i\n    body:\n      - x = blk(x, 64 if i < 2 else 32)\n"
                 "      - graph_break()\ngives: [x]\n"),
      sizes(1, 1));
  const CapturedStep step = capture_regions(graph, dynamo());
  REQUIRE(step.regions.size() == 6);
  CHECK(step.regions[2].like == 0);
  CHECK(step.regions[4].like == 4);
}

// --- As measured: configs/networks/llama_160m.yaml, 16 layers, 128 tokens (steps.csv).

std::vector<GraphBreak> breaks_of(int count, bool looped, BreakCause cause) {
  std::vector<GraphBreak> result;
  for (int i = 0; i < count; ++i) {
    const int before = (i + 1) * 16 / (count + 1);
    GraphBreak one{.after = "block[" + std::to_string(before - 1) + "]", .cause = cause};
    if (!looped) one.in_loop = false;
    result.push_back(one);
  }
  return result;
}

std::int64_t compiled_regions(const CapturedStep& step) {
  std::int64_t count = 0;
  for (const Region& region : step.regions) count += region.compiled ? 1 : 0;
  return count;
}

TEST_CASE("Llama unrolled: N breaks make the N + 1 graph launches that were measured",
          "[compiler][capture][networks]") {
  const OpGraph llama = build_graph(test::shipped_network("llama_160m"), sizes(1, 128));
  const int count = GENERATE(0, 1, 2, 4, 8, 15);
  const CapturedStep step = capture_regions(llama, dynamo(breaks_of(count, false, BreakCause::Explicit)));
  CHECK(compiled_regions(step) == count + 1);
  CHECK(static_cast<std::int64_t>(step.regions.size()) == count + 1);
  CHECK(step.graph_breaks == count);
}

TEST_CASE("Llama in its loop: any number of breaks makes 17 graph launches, table and head eager",
          "[compiler][capture][networks]") {
  const OpGraph llama = build_graph(test::shipped_network("llama_160m"), sizes(1, 128));
  const int count = GENERATE(1, 2, 4, 8, 15);
  const bool item = GENERATE(false, true);
  const CapturedStep step =
      capture_regions(llama, dynamo(breaks_of(count, true, item ? BreakCause::Item : BreakCause::Explicit)));
  CHECK(compiled_regions(step) == 17);
  std::int64_t reads = 0;
  std::vector<std::string> eager_kernels;
  for (const Region& region : step.regions) {
    reads += region.host_reads;
    if (region.compiled) continue;
    for (OpIndex i = region.first; i < region.last; ++i)
      if (llama.ops[i].kind->fusion != FusionClass::View) eager_kernels.emplace_back(llama.ops[i].kind->name);
  }
  // gpu_ops of steps.csv: one copy to the host for each .item(), and eager only the gather and the head.
  CHECK(reads == (item ? count : 0));
  CHECK(eager_kernels == std::vector<std::string>{"embedding", "linear"});
  // The sixteen blocks are compiled once, and each looks at two norms, seven products and two tables.
  CHECK(step.regions[1].name == "block[0]");
  CHECK(step.regions[1].parameters == 9);
  for (std::size_t r = 1; r < 17; ++r) CHECK(step.regions[r].like == 1);
  CHECK(step.graph_breaks == count);
  CHECK(step.breaks.front().effect == "step is given up: 17 calls compiled by themselves, 6 ops eager");
}

}  // namespace
}  // namespace gpusim
