// SPDX-License-Identifier: Apache-2.0
// Figures and rules about recompiles and compile time. Where a chapter's text is wrong the test holds the
// right value, and a comment says what the text has.
#include <algorithm>
#include <string>
#include <vector>

#include "models/compiler/compile_time.hpp"
#include "models/graph/memory.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/compiled.hpp"

namespace gpusim::test {
namespace {

using namespace literals;

/// Seconds of a first call with empty caches.
double first_call(const OpGraph& graph, const CompileOptions& options) {
  const CompiledStep step = compiled(graph, options);
  CompileCounts counts = compile_counts(*step.graph, step.captured);
  counts.kernels = step.distinct_kernels;
  return seconds(compile_time(options.mode.compile, counts, false));
}

/// `count` equal pre-norm sublayers of an MLP, each with its residual.
OpGraph layers(std::int64_t count) {
  return build_graph(
      network_of("name: n\nparameters: {layers: 1}\ninputs:\n  x: {shape: [batch, tokens, 512]}\n"
                 "blocks:\n  layer:\n    takes: [x]\n    body:\n"
                 "      - h = gelu(linear(rms_norm(x), 512, bias=false))\n"
                 "      - x = x + linear(h, 512, bias=false)\n    gives: [x]\n"
                 "body:\n  - repeat: layers\n    body:\n      - x = layer(x)\ngives: [x]\n"),
      sizes(4, 128, StepKind::Inference, {{"layers", count}}));
}

// --- Recompiles.

TEST_CASE("S1-17: a CUDA graph of batch 32 is not replayed for 16; padding wastes half", "[seeds]") {
  RecompileRules rules = dynamic(DynamicShapes::Never);
  rules.cuda_graphs.emplace();
  const auto last_graph = [&](std::int64_t last) {
    std::vector<ShapeCall> calls(3, {.sizes = {32}});
    calls.push_back({.sizes = {last}});
    return simulate_calls(calls, rules).back().graph;
  };
  CHECK(last_graph(16) == GraphOutcome::WarmUp);
  CHECK(last_graph(32) == GraphOutcome::Replay);
  CHECK((32.0 - 16.0) / 32.0 == 0.5);
}

TEST_CASE("S1-35: eight sizes compile, the ninth runs eagerly; automatic shapes need two", "[seeds]") {
  std::vector<CallSizes> sizes;
  for (std::int64_t n = 2; n < 11; ++n) sizes.push_back({n});
  CHECK(CompileOptions{}.recompile_limit == 8);
  CHECK(outcomes(sizes, dynamic(DynamicShapes::Never)) == "CCCCCCCCe");
  CHECK(outcomes(sizes) == "CChhhhhhh");
}

TEST_CASE("R-61: past the limit new sizes run eagerly for good, without an error", "[seeds]") {
  std::vector<CallSizes> sizes;
  for (std::int64_t n = 2; n < 12; ++n) sizes.push_back({n});
  sizes.insert(sizes.end(), {{11}, {10}, {11}});
  // The chapter lets everything run eagerly; what was compiled before still runs compiled.
  sizes.push_back({2});
  CHECK(outcomes(sizes, dynamic(DynamicShapes::Never)) == "CCCCCCCCeeeeeh");
}

TEST_CASE("S1-37: another batch compiles once more, with dynamic=True not at all", "[seeds]") {
  CHECK(outcomes({{4, 1024, 2048}, {8, 1024, 2048}}) == "CC");
  CHECK(outcomes({{4, 1024, 2048}, {8, 1024, 2048}}, dynamic(DynamicShapes::Always)) == "Ch");
}

TEST_CASE("R-50: the same shape hits, a new one compiles", "[seeds]") {
  CHECK(outcomes({{4}, {4}, {8}, {8}}) == "ChCh");
}

TEST_CASE("R-59: n sizes compile n times when shapes are fixed, once when they are not", "[seeds]") {
  const std::vector<CallSizes> sizes{{2}, {4}, {6}, {8}, {10}};
  CHECK(outcomes(sizes, dynamic(DynamicShapes::Never)) == "CCCCC");
  CHECK(outcomes(sizes, dynamic(DynamicShapes::Always)) == "Chhhh");
}

TEST_CASE("R-85: dynamic=True compiles no size again", "[seeds]") {
  CHECK(outcomes({{64}, {2}, {100'000}, {3}}, dynamic(DynamicShapes::Always)) == "Chhh");
}

TEST_CASE("R-60: mark_dynamic before the call makes one dimension dynamic, and only that one", "[seeds]") {
  RecompileRules rules;
  rules.marked = {0};
  CHECK(outcomes({{4, 64}, {8, 64}, {16, 64}, {16, 128}}, rules) == "ChhC");
}

TEST_CASE("R-102: a ragged last batch compiles once more, in the first epoch", "[seeds]") {
  std::vector<CallSizes> epochs;
  for (int epoch = 0; epoch < 3; ++epoch) epochs.insert(epochs.end(), {{32}, {32}, {32}, {7}});
  // The rule says once per epoch: what was compiled is kept, also with fixed shapes.
  CHECK(outcomes(epochs) == "ChhChhhhhhhh");
  CHECK(outcomes(epochs, dynamic(DynamicShapes::Never)) == "ChhChhhhhhhh");
  const std::vector<CallSizes> dropped(9, {32});
  CHECK(outcomes(dropped) == "Chhhhhhhh");
}

TEST_CASE("S1-36: about 100M parameters over [B, 1024] compile once as long as B stays", "[seeds]") {
  const OpGraph graph = build_graph(
      network_of(
          "name: n\ninputs:\n  x: {shape: [batch, 1024]}\nbody:\n  - y = x\n  - repeat: 12\n    body:\n"
          "      - y = y + linear(gelu(linear(y, 4096)), 1024)\ngives: [y]\n"),
      sizes(64, 1));
  CHECK(static_cast<double>(parameter_count(graph)) == Approx(1e8).epsilon(0.05));
  CHECK(outcomes({{64}, {64}, {64}}) == "Chh");
}

// --- Compile time.

TEST_CASE("S1-20: the first call of a large model takes about half a minute", "[seeds]") {
  const OpGraph llama = build_graph(shipped_network("llama3_8b"), sizes(1, 512));
  const double cold = first_call(llama, options_of("inductor"));
  CHECK(cold > 15);
  CHECK(cold < 45);
}

TEST_CASE("S1-32: a 32-layer model as one graph takes minutes with max-autotune", "[seeds]") {
  const OpGraph llama = build_graph(shipped_network("llama3_8b"), sizes(1, 512));
  CHECK(first_call(llama, options_of("inductor", "max-autotune")) > 90);
}

TEST_CASE("S1-21: max-autotune takes many minutes where there are many different products", "[seeds]") {
  const OpGraph resnet = build_graph(shipped_network("resnet50"), sizes(8, 1));
  CHECK(first_call(resnet, options_of("inductor", "max-autotune")) > 4 * 60);
}

TEST_CASE("S1-22: max-autotune of one decoder layer takes 30 to 120 s", "[seeds]") {
  const OpGraph layer = build_graph(shipped_network("seed_decoder"), sizes(4, 1024));
  const double cold = first_call(layer, options_of("inductor", "max-autotune"));
  CHECK(cold > 30);
  CHECK(cold < 120);
}

TEST_CASE("S4-41: default compiles a large model in 10 to 30 s; reduce-overhead compiles the same",
          "[seeds]") {
  const OpGraph llama = build_graph(shipped_network("llama3_8b"), sizes(1, 512));
  const double normal = first_call(llama, options_of("inductor"));
  CHECK(normal > 10);
  CHECK(normal < 30);
  // The chapter has 30 to 120 s for it. Recording takes milliseconds; measured on an H200, GPT-2 training:
  // 20.0 s in mode default, 22.1 s with CUDA graphs.
  CHECK(first_call(llama, options_of("inductor", "reduce-overhead")) == normal);
  CHECK(first_call(llama, options_of("inductor", "max-autotune")) > 3 * normal);
}

TEST_CASE("S4-91: 90 s to compile with reduce-overhead lie in the chapter's own range", "[seeds]") {
  CHECK(90 >= 30);
  CHECK(90 <= 120);
}

TEST_CASE("S4-52: three build times of one engine do not meet", "[seeds]") {
  // 5 to 30 minutes, 30 and more, 45: only the first two touch, at 30.
  struct Range {
    double least, most;
  };
  const Range first{5, 30};
  const Range second{30, 1e9};
  const double third = 45;
  CHECK(std::max(first.least, second.least) == std::min(first.most, second.most));
  CHECK_FALSE((third >= first.least && third <= first.most));
}

TEST_CASE("S1-33: regional compilation of L equal blocks takes 1 / L of the time", "[seeds]") {
  const CompileCost per_op{.per_op = 0.01};
  const auto time_of = [&](std::int64_t count, bool regional) {
    CompileOptions options = options_of("inductor");
    options.regional = regional;
    const OpGraph graph = layers(count);
    return seconds(compile_time(per_op, compile_counts(graph, capture_regions(graph, options)), false));
  };
  CHECK(time_of(32, false) / time_of(32, true) == Approx(32));
  CHECK(time_of(80, true) == time_of(2, true));
}

TEST_CASE(
    "S1-34: regional compilation forfeits one add per boundary: a kernel, and a pass where there is one",
    "[seeds]") {
  struct Cost {
    std::int64_t kernels = 0;
    double passes = 0;  ///< Over a tensor of [batch, tokens, width].
  };
  const auto cost_of = [](std::int64_t count, bool regional) {
    CompileOptions options = options_of("inductor");
    options.regional = regional;
    const CompiledStep step = compiled(layers(count), options);
    Cost cost{.kernels = step.kernels};
    for (const RegionPlan& region : step.regions)
      for (const CompiledKernel& kernel : region.kernels)
        if (kernel.what == KernelClass::Generated)
          cost.passes += (kernel.read() + kernel.written()) / Bytes(4 * 128 * 512 * 2);
    return cost;
  };
  // Add and norm as two kernels go over it 3 + 2 times, as one 2 + 2 times.
  CHECK(cost_of(2, true).passes - cost_of(2, false).passes == Approx(1).margin(0.01));
  for (const std::int64_t count : {2, 3, 5})
    CHECK(cost_of(count, true).kernels - cost_of(count, false).kernels == count - 1);
  // With more boundaries Inductor saves less: it reads the pieces of a sum again rather than store it.
  CHECK(cost_of(5, true).passes - cost_of(5, false).passes < 4);
}

TEST_CASE("R-101: a block compiled by itself is compiled once and used for all", "[seeds]") {
  CompileOptions options = options_of("inductor");
  options.regional = true;
  const OpGraph graph = layers(16);
  const CapturedStep step = capture_regions(graph, options);
  CHECK(graphs(step) == 16);
  CHECK(compile_counts(graph, step).regions == 1);
}

TEST_CASE("R-87: the first call pays for compiling, with a warm cache a share of it, later ones nothing",
          "[seeds]") {
  const CompileOptions options = options_of("inductor");
  const CompileCounts counts{.regions = 1, .ops = 1000, .kernels = 10};
  const Picoseconds cold = compile_time(options.mode.compile, counts, false);
  const Picoseconds warm = compile_time(options.mode.compile, counts, true);
  CHECK(warm > Picoseconds(0));
  CHECK(seconds(warm) < 0.5 * seconds(cold));
  CHECK(outcomes({{4}, {4}, {4}}) == "Chh");
}

TEST_CASE("R-103: a restart with the cache on disk compiles in a fraction of the time", "[seeds]") {
  const OpGraph llama = build_graph(shipped_network("llama_160m"), sizes(1, 128));
  CompileCost cost = options_of("inductor").mode.compile;
  cost.process = 0;
  const CompileCounts counts = compile_counts(llama, capture_regions(llama, options_of("inductor")));
  // Measured on an H200: 11.4 and 1.9 s.
  CHECK(compile_time(cost, counts, true) < compile_time(cost, counts, false) / 5);
}

TEST_CASE("R-86: candidates are timed once for each product and each new shape", "[seeds]") {
  const CompileOptions tuned = options_of("inductor", "max-autotune");
  const auto work = [&](std::int64_t products) {
    return seconds(compile_time(tuned.mode.compile, {.products = products}, false)) -
           tuned.mode.compile.process;
  };
  CHECK(work(3) == Approx(3 * work(1)));
  const OpGraph graph = layers(4);
  // Two products of one shape, four times.
  CHECK(compile_counts(graph, capture_regions(graph, tuned)).products == 1);
  CHECK(outcomes({{4}, {4}, {8}, {4}}, dynamic(DynamicShapes::Never)) == "ChCh");
}

TEST_CASE("R-106: a package of AOTInductor is loaded without compiling and runs without Python", "[seeds]") {
  const CompileOptions package = options_of("aot_inductor");
  CHECK_FALSE(package.backend.python);
  const CompileCounts counts{.regions = 1, .ops = 1000, .kernels = 10};
  CHECK(compile_time(package.mode.compile, counts, true) == Picoseconds(0));
  CHECK(compile_time(package.mode.compile, counts, false) > Picoseconds(0));
}

TEST_CASE("R-112: compiled steps need hardly more memory than eager ones", "[seeds]") {
  // Addends of a residual stay until they are added up.
  for (const std::string network : {"llama_160m", "gpt2", "seed_decoder", "encoder"}) {
    CAPTURE(network);
    const OpGraph graph = build_graph(shipped_network(network), sizes(4, 128));
    for (const std::string mode : {"default", "reduce-overhead"})
      CHECK(static_cast<double>(compiled(graph, options_of("inductor", mode)).memory.peak.value()) <=
            1.1 * static_cast<double>(eager_memory(graph, h200()).peak.value()));
  }
}

TEST_CASE("R-63: compiling that saves little per call does not pay for few of them", "[seeds]") {
  CHECK(break_even_steps(from_seconds(30), 10_ms, 8_ms) == Approx(15'000));
  CHECK(break_even_steps(from_seconds(30), 10_ms, 10_ms) > 1e12);
}

TEST_CASE("S4-47: fewer than 50 tokens do not pay for a compilation", "[seeds]") {
  // At what a decode step of Llama-8B saves on an H200, 34.6 to 8.15 ms, and the chapter's shortest
  // compilation, 10 s.
  CHECK(break_even_steps(from_seconds(10), 34'600_us, 8'150_us) > 50);
}

TEST_CASE("D4-I2: 20 minutes of tuning are repaid after 600,000 calls at 2 ms, 171,429 at 7 ms", "[seeds]") {
  const Picoseconds tuning = from_seconds(1200);
  CHECK(break_even_steps(tuning, 13_ms, 11_ms) == Approx(600'000));
  CHECK(break_even_steps(tuning, 18_ms, 11_ms) == Approx(171'428.57));
}

// --- Gains by mode, as the third chapter has them.

TEST_CASE("S4-40: the shares of models that compile and that break are the whole", "[seeds]") {
  CHECK(95 + 5 == 100);
}

TEST_CASE("S4-42: modes differ by 10 and 10 to 20 points, which is less as a ratio", "[seeds]") {
  CHECK(35 - 25 == 10);
  CHECK(45 - 35 == 10);
  CHECK(55 - 35 == 20);
  CHECK(1.35 / 1.25 == Approx(1.08));
}

TEST_CASE("S4-43: the sources of the gain are the whole", "[seeds]") {
  CHECK(40 + 30 + 30 == 100);
}

TEST_CASE("S4-44: in the worked example CUDA graphs give most, not fusion", "[seeds]") {
  // 12 points from CUDA graphs, 10 from fusion, 7 from layout; the figure has 30, 40 and 30 %.
  CHECK(12.0 / 29 == Approx(0.41).margin(0.005));
  CHECK(10.0 / 29 == Approx(0.34).margin(0.005));
  CHECK(7.0 / 29 == Approx(0.24).margin(0.005));
}

TEST_CASE("S4-45: TensorRT-LLM has three times the gain of max-autotune, or 1.7 times its throughput",
          "[seeds]") {
  // The chapter says twice the gain.
  CHECK(160.0 / 55 == Approx(2.91).margin(0.005));
  CHECK(160.0 / 45 == Approx(3.56).margin(0.005));
  CHECK(2.60 / 1.55 == Approx(1.68).margin(0.005));
  CHECK(2.60 / 1.45 == Approx(1.79).margin(0.005));
}

TEST_CASE("S4-46: the benchmarks lie between 1.2 and 1.8 times, one below the figure's max-autotune",
          "[seeds]") {
  for (const double speedup : {1.28, 1.42, 1.31, 1.24, 1.35}) {
    CHECK(speedup >= 1.2);
    CHECK(speedup <= 1.8);
  }
  CHECK(1.42 < 1.45);
}

TEST_CASE("S4-71: the rule of thumb on breaks is that of the review questions", "[seeds]") {
  CHECK(breaks_few == 5);
  CHECK(breaks_many == 10);
}

TEST_CASE("S4-73: torch.compile's rows span 1.2 to 1.8 times", "[seeds]") {
  CHECK(std::min({1.3, 1.2, 1.3, 1.2}) == 1.2);
  CHECK(std::max({1.8, 1.5, 1.5, 1.4}) == 1.8);
}

}  // namespace
}  // namespace gpusim::test
