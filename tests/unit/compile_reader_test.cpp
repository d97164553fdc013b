// SPDX-License-Identifier: Apache-2.0
// What scenarios say about compiling, and what becomes of it.
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "models/compiler/buckets.hpp"
#include "sim/config/backend_reader.hpp"
#include "sim/config/load.hpp"
#include "sim/scenario/compile_reader.hpp"
#include "sim/scenario/scenario_reader.hpp"
#include "tests/support/catch.hpp"

namespace gpusim {
namespace {

using namespace literals;
using test::Approx;

const std::string head =
    "hardware: h200\nhost: xeon-h200-cloud\n"
    "workload: {network: llama_160m, batch: 2, sequence: 16, parameters: {layers: 2}}\n";

Scenario read(const std::string& text, const ScenarioOptions& options = {}) {
  return read_scenario_text(head + text, "s.yaml", options);
}
Variant only(const std::string& text, const ScenarioOptions& options = {}) {
  return read(text, options).variants.at(0);
}
CompileOptions compiled(const std::string& text) {
  const Variant variant = only(text);
  REQUIRE(variant.compile);
  return *variant.compile;
}
Backend backend(const std::string& name) {
  return config::read_backend(config::load_text(name, "b.yaml"), {});
}

TEST_CASE("A network without a backend is not compiled, and neither is one of the eager backend") {
  for (const char* text : {"", "backend: eager\n", "backend: null\n", "backend: eager\nmode: null\n"}) {
    INFO(text);
    const Variant v = only(text);
    CHECK_FALSE(v.compile);
    CHECK(v.cuda_graph == CudaGraphMode::None);
    CHECK(v.shapes.empty());
  }
}

TEST_CASE("A backend without further keys is taken as its file has it, in its first mode") {
  for (const char* name : {"inductor", "tensorrt", "xla", "tvm"}) {
    INFO(name);
    CompileOptions expected;
    expected.backend = backend(name);
    expected.mode = expected.backend.modes.front();
    expected.full_graph = expected.backend.capture == CaptureKind::WholeGraph;
    CHECK(compiled("backend: " + std::string(name) + "\n") == expected);
  }
}

TEST_CASE("Every key about compiling reaches its field and no other") {
  CompileOptions expected;
  expected.backend = backend("inductor");
  expected.mode = *expected.backend.find("reduce-overhead");
  const auto changed = [&](const auto& change) {
    CompileOptions options = expected;
    change(options);
    return options;
  };
  const std::string base = "backend: inductor\nmode: reduce-overhead\n";
  CHECK(compiled(base) == expected);
  CHECK(compiled(base + "fullgraph: true\n") == changed([](auto& o) { o.full_graph = true; }));
  CHECK(compiled(base + "regional: true\n") == changed([](auto& o) { o.regional = true; }));
  CHECK(compiled(base + "warm_cache: true\n") == changed([](auto& o) { o.warm_cache = true; }));
  CHECK(compiled(base + "dynamic: true\n") == changed([](auto& o) { o.dynamic = DynamicShapes::Always; }));
  CHECK(compiled(base + "dynamic: false\n") == changed([](auto& o) { o.dynamic = DynamicShapes::Never; }));
  CHECK(compiled(base + "dynamic: auto\n") == expected);
  CHECK(compiled(base + "recompile_limit: 3\n") == changed([](auto& o) { o.recompile_limit = 3; }));
  CHECK(compiled(base + "passes: {dead_code: false, merge_qkv: true}\n") == changed([](auto& o) {
          o.mode.simplify.dead_code = false;
          o.mode.simplify.merge_qkv = true;
        }));
  CHECK(compiled(base + "fusion: {siblings: false, ops_max: 5}\n") == changed([](auto& o) {
          o.mode.fusion.siblings = false;
          o.mode.fusion.ops_max = 5;
        }));
  CHECK(compiled(base + "precision: fp8\n") == changed([](auto& o) { o.precision = ElementType::Fp8; }));
  CHECK(compiled(base + "cuda_graph: none\n") ==
        changed([](auto& o) { o.mode.cuda_graphs = CudaGraphPolicy::None; }));
  CHECK(compiled(base + "cuda_graph: full\n") ==
        changed([](auto& o) { o.mode.cuda_graphs = CudaGraphPolicy::Whole; }));
  CHECK(compiled(base + "cuda_graph: trees\n") == expected);
  CHECK(compiled(base + "cuda_graph: piecewise\n") ==
        changed([](auto& o) { o.mode.cuda_graphs = CudaGraphPolicy::Piecewise; }));
}

TEST_CASE("Without fusion every op stays a kernel of its own, with the bias that the library takes in") {
  const CompileOptions options = compiled("backend: inductor\nmode: max-autotune\nfusion: none\n");
  FusionRules fusion = backend("inductor").modes[0].fusion;
  fusion.pointwise = fusion.into_reduction = fusion.after_reduction = false;
  fusion.reductions_together = fusion.siblings = fusion.mixed_orders = false;
  CHECK(options.mode.fusion == fusion);
  CHECK(options.mode.products == ProductRules{.bias = true, .templates = true, .padding = true});
}

TEST_CASE("Graph breaks say where, why and whether they stand in a loop") {
  const auto breaks = compiled(
                          "backend: inductor\ngraph_breaks:\n"
                          "  - {after: 'block[*]'}\n"
                          "  - {after: 'block[0]', cause: item, loop: false}\n"
                          "  - {after: table.x, cause: dynamic_shape, loop: true}\n")
                          .breaks;
  CHECK(breaks == std::vector<GraphBreak>{{"block[*]", BreakCause::Explicit, std::nullopt},
                                          {"block[0]", BreakCause::Item, false},
                                          {"table.x", BreakCause::DynamicShape, true}});
  const std::vector<std::pair<std::string, BreakCause>> causes{{"print", BreakCause::Print},
                                                               {"item", BreakCause::Item},
                                                               {"branch", BreakCause::DataDependentBranch},
                                                               {"library", BreakCause::UnsupportedLibrary},
                                                               {"class", BreakCause::CustomClass},
                                                               {"dynamic_shape", BreakCause::DynamicShape},
                                                               {"explicit", BreakCause::Explicit}};
  for (const auto& [word, cause] : causes) {
    INFO(word);
    CHECK(compiled("backend: inductor\ngraph_breaks: [{after: 'block[0]', cause: " + word + "}]\n")
              .breaks.at(0)
              .cause == cause);
  }
}

TEST_CASE("Groups of ops that become one kernel are taken by name") {
  const Variant plain = only("backend: inductor\n");
  const OpGraph& graph = *std::get<NetworkWorkload>(plain.workload.source).graph;
  const std::string one = graph.ops[0].name;
  const std::string two = graph.ops[1].name;
  const auto groups =
      compiled("backend: inductor\nfusion: {groups: [['" + one + "', '" + two + "']]}\n").groups;
  REQUIRE(groups);
  CHECK(*groups == std::vector<std::vector<std::string>>{{one, two}});
  CHECK_FALSE(plain.compile->groups);
}

TEST_CASE("Better kernels say how fast they are in one of three ways") {
  const auto overrides = compiled(
                             "backend: inductor\nkernel_overrides:\n"
                             "  - {op: rms_norm, of_roof: 0.9, source: a search}\n"
                             "  - {op: softmax, of_roof: 85 %}\n"
                             "  - {op: 'block[0].x', duration: 3 us}\n"
                             "  - {op: gelu, speedup: 1.5}\n")
                             .overrides;
  REQUIRE(overrides.size() == 4);
  CHECK(overrides[0] == KernelOverride{.op = "rms_norm", .source = "a search", .of_roof = 0.9});
  CHECK(overrides[1].of_roof == Approx(0.85));
  CHECK(overrides[2] == KernelOverride{.op = "block[0].x", .source = {}, .duration = 3_us});
  CHECK(overrides[3] == KernelOverride{.op = "gelu", .source = {}, .speedup = 1.5});
}

TEST_CASE("Batch sizes are recorded as one CUDA graph each, or in pieces") {
  const CompileOptions given = compiled("backend: inductor\ncuda_graph: {buckets: [1, 2, 8]}\n");
  CHECK(given.mode.cuda_graphs == CudaGraphPolicy::Whole);
  REQUIRE(given.buckets);
  CHECK(given.buckets->sizes == std::vector<std::int64_t>{1, 2, 8});
  const CompileOptions pieces =
      compiled("backend: inductor\ncuda_graph: {policy: piecewise, buckets: default}\n");
  CHECK(pieces.mode.cuda_graphs == CudaGraphPolicy::Piecewise);
  CHECK(pieces.buckets == default_buckets(ServingLimits{}));
  CHECK_FALSE(compiled("backend: inductor\ncuda_graph: full\n").buckets);
}

TEST_CASE("An eager network keeps its CUDA graph where all workloads have it") {
  const Variant full = only("backend: eager\ncuda_graph: full\n");
  CHECK(full.cuda_graph == CudaGraphMode::Full);
  CHECK_FALSE(full.compile);
  CHECK(only("cuda_graph: full\n").cuda_graph == CudaGraphMode::Full);
  CHECK(only("cuda_graph: none\n").cuda_graph == CudaGraphMode::None);
  // A compiled one has it in its mode.
  CHECK(only("backend: inductor\ncuda_graph: full\n").cuda_graph == CudaGraphMode::None);
}

TEST_CASE("An eager network keeps breaks, better kernels and batch sizes, since they hold for it too") {
  for (const char* backend_key : {"", "backend: eager\n"}) {
    INFO(backend_key);
    const Variant breaks =
        only(std::string(backend_key) + "graph_breaks: [{after: 'block[0]', cause: item}]\n");
    REQUIRE(breaks.compile);
    CHECK(breaks.compile->backend == backend("eager"));
    CHECK(breaks.compile->mode == backend("eager").modes.front());
    CHECK(breaks.compile->breaks.size() == 1);
    const Variant kernels =
        only(std::string(backend_key) + "kernel_overrides: [{op: rms_norm, speedup: 2}]\n");
    REQUIRE(kernels.compile);
    CHECK(kernels.compile->backend.capture == CaptureKind::None);
    CHECK(kernels.compile->overrides.size() == 1);
    const Variant buckets = only(std::string(backend_key) + "cuda_graph: {buckets: [1, 2]}\n");
    REQUIRE(buckets.compile);
    CHECK(buckets.compile->buckets->sizes == std::vector<std::int64_t>{1, 2});
    CHECK(buckets.cuda_graph == CudaGraphMode::Full);
  }
}

TEST_CASE("Variants change the backend, its fields and its mode, and take keys back with null") {
  const Scenario scenario = read(R"(
backend: inductor
mode: max-autotune
graph_breaks: [{after: 'block[0]', cause: print}]
variants:
  same: {}
  eager: {backend: eager, mode: null}
  mended: {graph_breaks: null}
  trees: {mode: reduce-overhead}
  fields: {backend: {fused_attention: false, fusion: {siblings: false}}}
  other: {backend: tvm, mode: tuned, graph_breaks: null}
)");
  const auto options = [&](const char* name) { return *scenario.find(name)->compile; };
  CHECK(options("same").mode.name == "max-autotune");
  CHECK(options("same").breaks.size() == 1);
  CHECK(options("eager").backend.capture == CaptureKind::None);
  CHECK(options("mended").breaks.empty());
  CHECK(options("trees").mode.name == "reduce-overhead");
  CHECK_FALSE(options("fields").backend.fused_attention);
  CHECK(options("fields").backend.key == "inductor");
  CHECK_FALSE(options("fields").mode.fusion.siblings);
  CHECK(options("fields").mode.products.templates);
  CHECK(options("other").backend.key == "tvm");
  CHECK(options("other").mode.name == "tuned");
}

TEST_CASE("A backend laid over an eager top level compiles that variant alone") {
  const Scenario scenario = read("variants: {eager: {}, compiled: {backend: inductor}}\n");
  CHECK_FALSE(scenario.find("eager")->compile);
  REQUIRE(scenario.find("compiled")->compile);
  CHECK(scenario.find("compiled")->compile_where == Location{"s.yaml", 4, 43});
}

TEST_CASE("--set changes keys about compiling, in the file and below the name of a backend") {
  ScenarioOptions options;
  options.sets = {"backend=inductor", "mode=max-autotune", "backend.fused_attention=false",
                  "variants.x.mode=reduce-overhead", "variants.x.fusion={siblings: false}"};
  const Scenario scenario = read("variants: {a: {}, x: {}}\n", options);
  CHECK(scenario.find("a")->compile->mode.name == "max-autotune");
  CHECK_FALSE(scenario.find("a")->compile->backend.fused_attention);
  CHECK(scenario.find("a")->compile->backend.key == "inductor");
  CHECK(scenario.find("x")->compile->mode.name == "reduce-overhead");
  CHECK_FALSE(scenario.find("x")->compile->mode.fusion.siblings);
}

TEST_CASE("Shapes are the sizes of steps in turn, with those of the workload where they say none") {
  const Variant v =
      only("backend: inductor\nshapes: [{batch: 1}, {sequence: 256}, {batch: 8, sequence: 32}, {}]\n");
  CHECK(v.shapes == std::vector<ShapeStep>{{1, 16, {}}, {2, 256, {}}, {8, 32, {}}, {2, 16, {}}});
  CHECK(v.shapes[1].where == Location{"s.yaml", 5, 22});
}

TEST_CASE("The page on scenarios shows every key about compiling, and its example can be read") {
  std::ifstream file(GPUSIM_SOURCE_DIR "/docs/scenarios.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  const std::string section = page.substr(page.find("\n## Compiling\n"));
  for (const std::string_view key : compile_keys) {
    INFO(key);
    CHECK(section.find("| `" + std::string(key) + "` |") != std::string::npos);
  }
  const std::size_t begin = section.find("```yaml\n") + 8;
  const Scenario scenario =
      read_scenario_text(section.substr(begin, section.find("```", begin) - begin), "page.yaml", {});
  CHECK(scenario.find("eager")->compile->breaks.size() == 1);
  CHECK(scenario.find("graphs")->compile->mode.cuda_graphs == CudaGraphPolicy::Trees);
  CHECK(scenario.find("mended")->compile->breaks.empty());
}

TEST_CASE("Compiled scenarios say the same twice and differ where they differ") {
  CHECK(read("backend: inductor\n") == read("backend: inductor\n"));
  CHECK_FALSE(only("backend: inductor\n") == only("backend: xla\n"));
  CHECK_FALSE(only("shapes: [{batch: 1}]\n") == only("shapes: [{batch: 2}]\n"));
}

}  // namespace
}  // namespace gpusim
