// SPDX-License-Identifier: Apache-2.0
// What a user may get wrong about compiling, and the answer.
#include <string>
#include <vector>

#include "sim/scenario/compile_reader.hpp"
#include "sim/scenario/scenario_reader.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/message_of.hpp"

namespace gpusim {
namespace {

using test::ContainsSubstring;
using test::message_of;

const std::string head =
    "hardware: h200\nhost: xeon-h200-cloud\nworkload: {network: llama_160m, parameters: {layers: 2}}\n";

struct Case {
  std::string text;  ///< From line 4 on.
  std::string message;
};

/// The answer to a network's scenario with these lines.
std::string answer(const std::string& lines, const std::string& before = head) {
  return message_of([&] { read_scenario_text(before + lines, "x.yaml", {}); });
}

void check(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    INFO(c.text);
    CHECK(answer(c.text) == c.message);
  }
}

TEST_CASE("Mistakes in names of backends and modes are located and explained", "[bad_input][compile]") {
  check({
      {"backend: inducter\n",
       "x.yaml:4:10: error: backend: unknown backends 'inducter'\n  hint: did you mean 'inductor'?"},
      {"backend: [inductor]\n",
       "x.yaml:4:10: error: backend: this has to be a name or a map\n"
       "  hint: write for example 'inductor' or {base: inductor, ...}"},
      {"backend: {base: inductor, fusion: {sibling: false}}\n",
       "x.yaml:4:36: error: backend.fusion.sibling: unknown key\n  hint: did you mean 'siblings'?"},
      {"backend: inductor\nmode: reduce-overheads\n",
       "x.yaml:5:7: error: mode: TorchInductor has no mode 'reduce-overheads'\n"
       "  hint: did you mean 'reduce-overhead'?"},
      {"backend: xla\nmode: reduce-overhead\n",
       "x.yaml:5:7: error: mode: XLA has no mode 'reduce-overhead'\n  hint: known modes: default"},
      {"bakend: inductor\n", "x.yaml:4:1: error: bakend: unknown key\n  hint: did you mean 'backend'?"},
      {"variants: {a: {mod: x}}\n",
       "x.yaml:4:16: error: variants.a.mod: unknown key\n  hint: did you mean 'mode'?"},
  });
}

TEST_CASE("A parameter that the network does not have is told where it stands", "[bad_input][networks]") {
  const std::string before = "hardware: h200\nhost: xeon-h200-cloud\n";
  CHECK(answer("workload:\n  network: gpt2\n  parameters:\n    layers: 2\n    layer: 3\n", before) ==
        "x.yaml:7:12: error: workload.parameters.layer: the network gpt2 has no parameter 'layer'\n"
        "  hint: did you mean 'layers'?");
}

TEST_CASE("Keys for a compiler are refused where nothing is compiled", "[bad_input][compile]") {
  const std::string keys[] = {"mode: default",    "fullgraph: true", "regional: true",
                              "warm_cache: true", "dynamic: true",   "recompile_limit: 8",
                              "passes: {}",       "fusion: none",    "precision: fp8"};
  for (const std::string& key : keys) {
    const std::string name = key.substr(0, key.find(':'));
    INFO(key);
    CHECK(answer(key + "\n") == "x.yaml:4:1: error: " + name +
                                    ": is for a compiler, and nothing is compiled here\n"
                                    "  hint: write 'backend: inductor' beside it (gpusim list backends)");
    CHECK(answer("backend: eager\n" + key + "\n") ==
          "x.yaml:5:1: error: " + name + ": is for a compiler, and nothing is compiled here\n  hint: set '" +
              name + ": null' in a variant that runs eagerly");
    CHECK(answer("backend: inductor\n" + key + "\n") == "no error");
  }
}

TEST_CASE("Keys for a compiler are refused without a network", "[bad_input][compile]") {
  const std::string kernels = "workload: {kernels: [{kernel: a, duration: 1 us}]}\n";
  for (const std::string_view key : compile_keys) {
    const std::string name(key);
    CHECK(answer(name + ": x\n", kernels) == "x.yaml:2:1: error: " + name +
                                                 ": needs a network: a compiler takes its ops\n  hint: write "
                                                 "'workload: {network: gpt2, ...}', or leave '" +
                                                 name + "' away");
    CHECK(answer(name + ": null\n", kernels) == "no error");
  }
  CHECK(answer("cuda_graph: trees\n", kernels) ==
        "x.yaml:2:13: error: cuda_graph: 'trees' records what a compiler makes of a network\n"
        "  hint: write 'full': all launches are recorded");
  CHECK(answer("cuda_graph: {buckets: [1]}\n", kernels) ==
        "x.yaml:2:13: error: cuda_graph: batch sizes are those of a network\n"
        "  hint: write 'full': all launches are recorded");
  CHECK(answer("shapes: [{batch: 1}]\n", kernels) ==
        "x.yaml:2:9: error: shapes: only steps of a network have shapes\n"
        "  hint: write 'workload: {network: gpt2, ...}'");
}

TEST_CASE("What a backend refuses is an error with a way out", "[bad_input][compile]") {
  const std::string dynamo = "\n  hint: backends that capture with Dynamo have it (docs/backends.md)";
  const std::string mend = "\n  hint: mend the break in the network, or set 'graph_breaks: null' here";
  check({
      {"backend: tensorrt\ndynamic: true\n",
       "x.yaml:5:10: error: dynamic: TensorRT builds for one shape\n"
       "  hint: leave 'dynamic' away: each new shape is a build of its own"},
      {"backend: xla\ndynamic: true\n",
       "x.yaml:5:10: error: dynamic: XLA builds for one shape\n"
       "  hint: leave 'dynamic' away: each new shape is a build of its own"},
      {"backend: tensorrt\nregional: true\n",
       "x.yaml:5:11: error: regional: TensorRT takes the whole step, not one block" + dynamo},
      {"backend: tensorrt\nfullgraph: false\n",
       "x.yaml:5:12: error: fullgraph: TensorRT takes the whole step or nothing" + dynamo},
      {"backend: tensorrt\nrecompile_limit: 8\n",
       "x.yaml:5:18: error: recompile_limit: TensorRT never falls back to eager" + dynamo},
      {"backend: tensorrt\ncuda_graph: trees\n",
       "x.yaml:5:13: error: cuda_graph: CUDA graph trees are torch.compile's, not TensorRT's\n"
       "  hint: write 'full' for one CUDA graph of the step"},
      {"backend: aot_inductor\ngraph_breaks: [{after: 'block[0]', cause: branch}]\n",
       "x.yaml:5:16: error: graph_breaks[0]: AOTInductor takes the whole step or nothing" + mend},
      {"backend: inductor\nfullgraph: true\ngraph_breaks: [{after: 'block[0]'}]\n",
       "x.yaml:6:16: error: graph_breaks[0]: 'fullgraph: true' takes no graph break" + mend},
      {"backend: onnxruntime\nprecision: fp8\n",
       "x.yaml:5:12: error: precision: ONNX Runtime does not lower products to fp8\n"
       "  hint: it knows: fp16, int8"},
      {"backend: inductor\nprecision: fp9\n",
       "x.yaml:5:12: error: precision: unknown name 'fp9'\n  hint: did you mean 'fp8'?"},
      {"cuda_graph: piecewise\n",
       "x.yaml:4:13: error: cuda_graph: 'piecewise' records what a compiler makes of a network\n"
       "  hint: write 'full' for one CUDA graph of the step, or 'backend: inductor' beside it"},
      {"cuda_graph: {policy: piecewise, buckets: [1]}\n",
       "x.yaml:4:22: error: cuda_graph.policy: only a compiler takes a step to pieces\n"
       "  hint: write 'full' for one CUDA graph of the step, or 'backend: inductor' beside it"},
  });
  const std::string a100 = "hardware: a100_80gb\n" + head.substr(head.find('\n') + 1);
  CHECK(answer("backend: inductor\nprecision: fp8\n", a100) ==
        "x.yaml:5:12: error: precision: NVIDIA A100 SXM 80 GB has no rate for products in fp8\n"
        "  hint: 'peak' of the hardware lists the dtypes that it has");
  const std::string amd =
      "hardware: {base: mi300x, calibration: {base: h200}}\n" + head.substr(head.find('\n') + 1);
  CHECK_THAT(answer("backend: tensorrt\n", amd),
             ContainsSubstring("x.yaml:4:10: error: backend: TensorRT does not run on AMD Instinct MI300X\n"
                               "  hint: it runs on GPUs of: nvidia"));
  CHECK(answer("backend: inductor\n", amd) == "no error");
}

TEST_CASE("Mistakes in graph breaks are located and explained", "[bad_input][compile]") {
  const std::string inductor = "backend: inductor\n";
  check({
      {inductor + "graph_breaks: 3\n",
       "x.yaml:5:15: error: graph_breaks: must be a list, not a single value"},
      {inductor + "graph_breaks: [a]\n",
       "x.yaml:5:16: error: graph_breaks[0]: a graph break is a map\n"
       "  hint: write {after: 'block[3]', cause: item}; names with brackets need quotes"},
      {inductor + "graph_breaks: [{cause: item}]\n",
       "x.yaml:5:16: error: graph_breaks[0]: missing key 'after'\n  hint: keys given here: cause"},
      {inductor + "graph_breaks: [{after: 'block[0]', cause: itm}]\n",
       "x.yaml:5:43: error: graph_breaks[0].cause: unknown name 'itm'\n  hint: did you mean 'item'?"},
      {inductor + "graph_breaks: [{after: 'block[0]', loop: 1}]\n",
       "x.yaml:5:42: error: graph_breaks[0].loop: '1' is neither true nor false"},
      {inductor + "graph_breaks: [{after: 'block[2]'}]\n",
       "x.yaml:5:24: error: graph_breaks[0].after: there is no op and no block 'block[2]' to break the "
       "graph behind\n  hint: did you mean 'block[*]'?"},
      {inductor + "graph_breaks: [{after: 'block[0].nu'}]\n",
       "x.yaml:5:24: error: graph_breaks[0].after: there is no op and no block 'block[0].nu' to break the "
       "graph behind\n  hint: did you mean 'block[*].q'?"},
      {"graph_breaks: [{after: 'block[2]'}]\n",
       "x.yaml:4:24: error: graph_breaks[0].after: there is no op and no block 'block[2]' to break the "
       "graph behind\n  hint: did you mean 'block[*]'?"},
  });
}

TEST_CASE("Mistakes in fusion and passes are located and explained", "[bad_input][compile]") {
  const std::string inductor = "backend: inductor\n";
  check({
      {inductor + "fusion: all\n",
       "x.yaml:5:9: error: fusion: unknown name 'all'\n"
       "  hint: write none, {siblings: false, ...} or {groups: [[op, op], ...]}"},
      {inductor + "fusion: {sibling: false}\n",
       "x.yaml:5:10: error: fusion.sibling: unknown key\n  hint: did you mean 'siblings'?"},
      {inductor + "fusion: {groups: null, sibling: false}\n",
       "x.yaml:5:24: error: fusion.sibling: unknown key\n  hint: did you mean 'siblings'?"},
      {inductor + "fusion: {groups: [[table.x]], siblings: false}\n",
       "x.yaml:5:41: error: fusion.siblings: says what may be joined, and 'groups' says what is\n"
       "  hint: remove 'groups' or set 'siblings: null'"},
      {inductor + "fusion: {groups: [[]]}\n",
       "x.yaml:5:19: error: fusion.groups[0]: the group is empty\n  hint: write the names of its ops"},
      {inductor + "fusion: {groups: [[scored]]}\n",
       "x.yaml:5:20: error: fusion.groups[0][0]: no op 'scored'\n  hint: did you mean 'scores'?"},
      {inductor + "fusion: {groups: [[table.x], [table.x]]}\n",
       "x.yaml:5:31: error: fusion.groups[1][0]: 'table.x' is in a group already"},
      {inductor + "passes: {merge_kqv: true}\n",
       "x.yaml:5:10: error: passes.merge_kqv: unknown key\n  hint: did you mean 'merge_qkv'?"},
      {inductor + "recompile_limit: 0\n", "x.yaml:5:18: error: recompile_limit: must be at least 1, not 0"},
      {inductor + "dynamic: maybe\n",
       "x.yaml:5:10: error: dynamic: unknown name 'maybe'\n  hint: known names: auto, true, false"},
  });
}

TEST_CASE("Mistakes in better kernels are located and explained", "[bad_input][compile]") {
  const auto one = [](const std::string& keys) {
    return "backend: inductor\nkernel_overrides: [{op: rms_norm" + keys + "}]\n";
  };
  const std::string way_out = "\n  hint: give one of 'duration', 'of_roof' and 'speedup'";
  check({
      {one(""), "x.yaml:5:20: error: kernel_overrides[0]: does not say how fast the kernel is" + way_out},
      {one(", of_roof: 0.5, speedup: 2"),
       "x.yaml:5:20: error: kernel_overrides[0]: says several times how fast the kernel is" + way_out},
      {one(", of_roof: 1.5"),
       "x.yaml:5:44: error: kernel_overrides[0].of_roof: must be at most 100 %, not 1.5"},
      {one(", of_roof: 0"), "x.yaml:5:44: error: kernel_overrides[0].of_roof: must be positive, not 0"},
      {one(", speedup: -1"), "x.yaml:5:44: error: kernel_overrides[0].speedup: must be positive, not -1"},
      {one(", duration: 3"),
       "x.yaml:5:45: error: kernel_overrides[0].duration: '3' has no unit\n"
       "  hint: write a duration such as '3 us' (ps, ns, us, ms, s)"},
      {one(", speedup: 2, sorce: x"),
       "x.yaml:5:47: error: kernel_overrides[0].sorce: unknown key\n  hint: did you mean 'source'?"},
      {"backend: inductor\nkernel_overrides: [{op: '', speedup: 2}]\n",
       "x.yaml:5:25: error: kernel_overrides[0].op: the name is empty"},
  });
}

TEST_CASE("Mistakes in batch sizes and shapes are located and explained", "[bad_input][compile]") {
  const std::string inductor = "backend: inductor\n";
  check({
      {inductor + "cuda_graph: fulll\n",
       "x.yaml:5:13: error: cuda_graph: unknown name 'fulll'\n  hint: did you mean 'full'?"},
      {inductor + "cuda_graph: {buckets: [1, 4, 4]}\n",
       "x.yaml:5:30: error: cuda_graph.buckets[2]: batch sizes must ascend\n  hint: 4 stands before it"},
      {inductor + "cuda_graph: {buckets: [0]}\n",
       "x.yaml:5:24: error: cuda_graph.buckets[0]: must be at least 1, not 0"},
      {inductor + "cuda_graph: {buckets: []}\n",
       "x.yaml:5:23: error: cuda_graph.buckets: the list of batch sizes is empty\n  hint: write [1, 2, 4, "
       "8]"},
      {inductor + "cuda_graph: {buckets: defaults}\n",
       "x.yaml:5:23: error: cuda_graph.buckets: unknown name 'defaults'\n  hint: did you mean 'default'?"},
      {inductor + "cuda_graph: {policy: trees, buckets: [1]}\n",
       "x.yaml:5:22: error: cuda_graph.policy: unknown name 'trees'\n  hint: known names: full, piecewise"},
      {inductor + "cuda_graph: {policy: full}\n",
       "x.yaml:5:13: error: cuda_graph: missing key 'buckets'\n  hint: keys given here: policy"},
      {"shapes: []\n",
       "x.yaml:4:9: error: shapes: the list of shapes is empty\n"
       "  hint: leave the key away if all steps are alike"},
      {"shapes: [8]\n",
       "x.yaml:4:10: error: shapes[0]: the shape of a step is a map\n  hint: write {batch: 8, sequence: "
       "256}"},
      {"shapes: [{batch: 1}, {bach: 2}]\n",
       "x.yaml:4:23: error: shapes[1].bach: unknown key\n  hint: did you mean 'batch'?"},
      {"shapes: [{batch: 0}]\n", "x.yaml:4:18: error: shapes[0].batch: must be at least 1, not 0"},
  });
}

TEST_CASE("Lists about compiling have limits that say their names", "[bad_input][compile]") {
  std::string shapes = "shapes: [{}";
  for (std::size_t i = 0; i < step_shapes_max; ++i) shapes += ", {}";
  CHECK_THAT(answer(shapes + "]\n"), ContainsSubstring("more than 100000 shapes (step_shapes_max)"));
  std::string breaks = "backend: inductor\ngraph_breaks: [{}";
  for (std::size_t i = 0; i < graph_breaks_max; ++i) breaks += ", {}";
  CHECK_THAT(answer(breaks + "]\n"), ContainsSubstring("more than 10000 graph breaks (graph_breaks_max)"));
  std::string buckets = "backend: inductor\ncuda_graph: {buckets: [1";
  for (std::size_t i = 0; i < buckets_max; ++i) buckets += ", " + std::to_string(i + 2);
  CHECK_THAT(answer(buckets + "]}\n"), ContainsSubstring("more than 10000 batch sizes (buckets_max)"));
}

TEST_CASE("What a compiler cannot do with a training step is refused", "[bad_input][compile]") {
  const std::string before =
      "hardware: h200\nhost: xeon-h200-cloud\n"
      "workload: {network: gpt2, parameters: {layers: 1}, batch: 1, sequence: 16, step: training";
  CHECK(answer("}\nbackend: tensorrt\n", before) ==
        "x.yaml:4:10: error: backend: TensorRT does not train: it takes the forward pass alone\n"
        "  hint: gpusim list backends; docs/backends.md says which train");
  CHECK(answer("}\nbackend: inductor\nprecision: fp16\n", before) ==
        "x.yaml:5:12: error: precision: is of inference: 'workload.precision' says it of training\n"
        "  hint: write 'workload: {precision: autocast, dtype: bf16}'");
  CHECK(
      answer(", checkpointing: blocks}\nbackend: inductor\n", before) ==
      "x.yaml:3:107: error: workload.checkpointing: is for steps that run eagerly: a compiler decides itself "
      "what it keeps\n"
      "  hint: write 'recompute: {policy: blocks}', and 'checkpointing: null' in the variant's workload");
  // Without a compiler all of it is fine.
  CHECK(answer(", checkpointing: blocks, precision: pure}\n", before) == "no error");
  CHECK(answer("}\nbackend: eager\n", before) == "no error");
}

TEST_CASE("All mistakes about compiling are reported at once", "[bad_input][compile]") {
  const std::string all = answer(
      "backend: inductor\nmode: x\nfullgraph: 3\nrecompile_limit: 0\npasses: {x: 1}\nfusion: {y: 2}\n"
      "precision: z\ncuda_graph: q\nkernel_overrides: [{op: a}]\ngraph_breaks: [{}]\nwarm_cache: 3\n");
  for (int line = 5; line <= 14; ++line) {
    INFO(line << " in\n" << all);
    CHECK(all.find("x.yaml:" + std::to_string(line) + ":") != std::string::npos);
  }
}

}  // namespace
}  // namespace gpusim
