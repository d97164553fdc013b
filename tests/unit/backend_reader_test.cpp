// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "sim/config/backend_reader.hpp"
#include "sim/config/hardware_reader.hpp"
#include "sim/config/load.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/message_of.hpp"

namespace gpusim {
namespace {

using test::Approx;
using test::message_of;

const std::filesystem::path configs = std::filesystem::path(GPUSIM_SOURCE_DIR) / "configs";

config::SearchPath search() {
  return {.beside = {}, .extra = {}, .builtin = configs};
}

Backend backend(const std::string& yaml) {
  return config::read_backend(config::load_text(yaml, "b.yaml"), search());
}

std::string mistake_in(const std::string& yaml) {
  return message_of([&] { backend(yaml); });
}

const std::vector<std::string> names{"aot_inductor", "eager",        "inductor",    "nvfuser", "onnxruntime",
                                     "tensorrt",     "tensorrt_llm", "torchscript", "tvm",     "xla"};

// --- The shipped files.

TEST_CASE("Every shipped backend loads under its own name", "[unit][backend]") {
  CHECK(config::known_configs("backends", search()) == names);
  const std::vector<Backend> backends = config::known_backends(search());
  REQUIRE(backends.size() == names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    INFO(names[i]);
    CHECK(backends[i].key == names[i]);
    CHECK(backends[i].name != names[i]);
    CHECK_FALSE(backends[i].help.empty());
    REQUIRE_FALSE(backends[i].modes.empty());
    CHECK(backends[i].modes.front().name == "default");
    CHECK((backends[i].capture == CaptureKind::None) == (names[i] == "eager"));
  }
}

TEST_CASE("Every rule of the shipped backends has its source on its line", "[unit][backend]") {
  int rules = 0;
  for (const auto& file : std::filesystem::directory_iterator(configs / "backends")) {
    std::ifstream text(file.path());
    std::string line;
    for (int row = 1; std::getline(text, line); ++row) {
      const std::size_t hash = std::min(line.find('#'), line.size());
      const std::string code = line.substr(0, hash);
      const std::size_t colon = code.find(": ");
      if (colon == std::string::npos) continue;
      const std::size_t begin = code.find_first_not_of(' ');
      const std::string key = code.substr(begin, colon - begin);
      if (key == "name" || key == "help" || key == "base" || code.find(": null") != std::string::npos)
        continue;
      ++rules;
      INFO(file.path().filename().string() << ":" << row << ": " << line);
      CHECK(line.size() - hash > 4);
    }
  }
  CHECK(rules > 250);
}

TEST_CASE("Shipped backends that stand on no other say every rule themselves", "[unit][backend]") {
  for (const std::string& name : names) {
    const config::Node file = config::load_file(configs / "backends" / (name + ".yaml"));
    if (file.has("base")) continue;
    INFO(name);
    CHECK(file.at("fusion").keys() ==
          std::vector<std::string>{"pointwise", "into_reduction", "after_reduction", "reductions_together",
                                   "siblings", "mixed_orders", "library_norms", "ops_max"});
    CHECK(file.at("products").keys() == std::vector<std::string>{"bias", "activation", "epilogue", "prologue",
                                                                 "templates", "norm_prologue", "padding"});
    CHECK(file.at("passes").keys() == std::vector<std::string>{"dead_code", "inference_dropout", "no_ops",
                                                               "constants", "freeze", "common_subexpressions",
                                                               "layout", "merge_qkv", "merge_gate_up"});
    if (name == "eager") continue;
    std::vector<std::string> costs = file.at("compile").keys();
    if (costs.front() == "process") costs.erase(costs.begin());
    CHECK(costs == std::vector<std::string>{"base", "per_op", "per_kernel", "per_product", "warm_share"});
  }
}

TEST_CASE("What runs without Python names costs that the measured host has", "[unit][backend]") {
  const HostSpec host = config::read_host(config::load_text("xeon-h200-cloud", "t"), search());
  int checked = 0;
  for (const Backend& b : config::known_backends(search())) {
    if (b.python) continue;
    INFO(b.key);
    for (const std::string& op :
         {b.host.region, b.host.parameter, b.host.kernel, b.host.library, b.host.attention, b.host.replay}) {
      INFO(op);
      CHECK(host.ops.count(op) == 1);
      ++checked;
    }
  }
  CHECK(checked == 36);
}

TEST_CASE("The modes of torch.compile differ by CUDA graphs and templates", "[unit][backend]") {
  const Backend inductor = backend("inductor");
  REQUIRE(inductor.modes.size() == 4);
  struct Row {
    const char* mode;
    CudaGraphPolicy cuda_graphs;
    bool templates;
  };
  for (const Row& row :
       {Row{"default", CudaGraphPolicy::None, false}, Row{"reduce-overhead", CudaGraphPolicy::Trees, false},
        Row{"max-autotune", CudaGraphPolicy::Trees, true},
        Row{"max-autotune-no-cudagraphs", CudaGraphPolicy::None, true}}) {
    INFO(row.mode);
    const BackendMode* mode = inductor.find(row.mode);
    REQUIRE(mode != nullptr);
    CHECK(mode->cuda_graphs == row.cuda_graphs);
    CHECK(mode->products.templates == row.templates);
    CHECK(mode->products.epilogue == row.templates);
    CHECK((mode->compile.per_product > 1) == row.templates);
    // What no mode changes is that of all.
    CHECK(mode->fusion == inductor.modes.front().fusion);
    CHECK(mode->simplify == inductor.modes.front().simplify);
    CHECK(mode->compile.per_op == inductor.modes.front().compile.per_op);
  }
}

TEST_CASE("Shipped backends refuse what their systems refuse", "[unit][backend]") {
  const auto all = config::known_backends(search());
  for (const Backend& b : all) {
    INFO(b.key);
    CHECK(b.dynamic_shapes == !(b.key == "xla" || b.key == "tensorrt" || b.key == "nvfuser"));
    const bool trains = b.key == "eager" || b.key == "inductor" || b.key == "xla" || b.key == "nvfuser" ||
                        b.key == "torchscript";
    CHECK(b.training == trains);
    const bool nvidia_only = b.vendors == std::vector<Vendor>{Vendor::Nvidia};
    CHECK(nvidia_only == (b.key == "tensorrt" || b.key == "tensorrt_llm" || b.key == "nvfuser"));
    const bool fp8 = std::count(b.precisions.begin(), b.precisions.end(), ElementType::Fp8) == 1;
    CHECK(fp8 ==
          (b.key.find("inductor") != std::string::npos || b.key.find("tensorrt") == 0 || b.key == "xla"));
  }
}

// --- Reading.

TEST_CASE("A mode is what holds in all modes with its own changes", "[unit][backend]") {
  const Backend b = backend(R"(
name: Mine
capture: dynamo
fusion: {siblings: false, ops_max: 8}
passes: {layout: true}
cuda_graph: full
compile: {process: 3 s, base: 250 ms, per_op: 2 ms, per_kernel: 3 us, per_product: 4 s, warm_share: 20 %}
modes:
  plain: {}
  other: {help: with siblings, fusion: {siblings: true}, products: {epilogue: true}, cuda_graph: piecewise, compile: {base: 1 s}}
)");
  CHECK(b.key == "custom");
  REQUIRE(b.modes.size() == 2);
  const BackendMode& plain = b.modes[0];
  const BackendMode& other = b.modes[1];
  CHECK(plain.name == "plain");
  CHECK_FALSE(plain.fusion.siblings);
  CHECK(plain.fusion.ops_max == 8);
  CHECK(plain.fusion.pointwise);
  CHECK(plain.simplify.layout);
  CHECK(plain.cuda_graphs == CudaGraphPolicy::Whole);
  CHECK(plain.compile.process == Approx(3));
  CHECK(plain.compile.base == Approx(0.25));
  CHECK(plain.compile.per_op == Approx(0.002));
  CHECK(plain.compile.per_kernel == Approx(3e-6));
  CHECK(plain.compile.per_product == Approx(4));
  CHECK(plain.compile.warm_share == Approx(0.2));
  CHECK(other.help == "with siblings");
  CHECK(other.fusion.siblings);
  CHECK(other.fusion.ops_max == 8);
  CHECK(other.products.epilogue);
  CHECK_FALSE(plain.products.epilogue);
  CHECK(other.simplify.layout);
  CHECK(other.cuda_graphs == CudaGraphPolicy::Piecewise);
  CHECK(other.compile.base == Approx(1));
  CHECK(other.compile.per_op == Approx(0.002));
}

TEST_CASE("A backend without modes has one, called default", "[unit][backend]") {
  const Backend b = backend(
      "{capture: whole_graph, help: h, fused_attention: false, dynamic_shapes: false, training: false, "
      "python: "
      "false, vendors: [amd], precisions: [int8, bf16], kernel_prefix: k_, host_ops: {region: a, parameter: "
      "b, "
      "kernel: c, library: d, attention: e, replay: f}, products: {bias: false}}");
  REQUIRE(b.modes.size() == 1);
  CHECK(b.modes[0].name == "default");
  CHECK(b.modes[0].help.empty());
  CHECK_FALSE(b.modes[0].products.bias);
  CHECK(b.help == "h");
  CHECK(b.capture == CaptureKind::WholeGraph);
  CHECK_FALSE(b.fused_attention);
  CHECK_FALSE(b.dynamic_shapes);
  CHECK_FALSE(b.training);
  CHECK_FALSE(b.python);
  CHECK(b.vendors == std::vector<Vendor>{Vendor::Amd});
  CHECK(b.precisions == std::vector<ElementType>{ElementType::Int8, ElementType::Bf16});
  CHECK(b.kernel_prefix == "k_");
  CHECK(b.host == CompiledHostOps{"a", "b", "c", "d", "e", "f"});
}

TEST_CASE("A map over a named backend changes its fields", "[unit][backend]") {
  const Backend inductor = backend("inductor");
  Backend changed = backend("{base: inductor, fused_attention: false, fusion: {siblings: false}}");
  CHECK(changed.key == "inductor");
  CHECK_FALSE(changed.fused_attention);
  for (BackendMode& mode : changed.modes) {
    CHECK_FALSE(mode.fusion.siblings);
    mode.fusion.siblings = true;
  }
  changed.fused_attention = true;
  CHECK(changed == inductor);
}

TEST_CASE("A backend over another one takes modes away with null", "[unit][backend]") {
  const Backend aot = backend("aot_inductor");
  REQUIRE(aot.modes.size() == 2);
  CHECK(aot.modes[1].name == "max-autotune");
  CHECK(aot.modes[1].products.templates);
  CHECK(aot.modes[1].cuda_graphs == CudaGraphPolicy::None);
  CHECK(aot.modes[0].fusion == backend("inductor").modes[0].fusion);
}

TEST_CASE("A scenario beside the scenario is no backend of its name, a file in backends/ is",
          "[unit][backend]") {
  const std::filesystem::path beside = GPUSIM_SOURCE_DIR "/tests/data/names/beside";
  const config::SearchPath from{.beside = beside, .extra = {}, .builtin = configs};
  // lab.yaml lies there, and mine.yaml in its folder backends/.
  CHECK(message_of([&] {
          config::read_backend(config::load_text("lab", "b.yaml"), from);
        }).find("unknown backends 'lab'") != std::string::npos);
  const Backend mine = config::read_backend(config::load_text("mine", "b.yaml"), from);
  CHECK(mine.key == "mine");
  CHECK(mine.name == "Mine");
  CHECK_FALSE(mine.fused_attention);
}

// --- Mistakes.

TEST_CASE("Mistakes in a backend are located and explained", "[bad_input][backend]") {
  struct Case {
    const char* text;
    const char* message;
  };
  for (const Case& c : {
           Case{"inducter",
                "b.yaml:1:1: error: unknown backends 'inducter'\n  hint: did you mean 'inductor'?"},
           Case{"[inductor]",
                "b.yaml:1:1: error: this has to be a name or a map\n"
                "  hint: write for example 'inductor' or {base: inductor, ...}"},
           Case{"{name: x}", "b.yaml:1:1: error: missing key 'capture'\n  hint: keys given here: name"},
           Case{"{capture: dynamos}",
                "b.yaml:1:11: error: capture: unknown name 'dynamos'\n  hint: did you mean 'dynamo'?"},
           Case{"{base: inductor, trainin: false}",
                "b.yaml:1:18: error: trainin: unknown key\n  hint: did you mean 'training'?"},
           Case{"{base: inductor, fusion: {pointwize: false}}",
                "b.yaml:1:27: error: fusion.pointwize: unknown key\n  hint: did you mean 'pointwise'?"},
           Case{"{base: inductor, fusion: {ops_max: 0}}",
                "b.yaml:1:36: error: fusion.ops_max: must be at least 1, not 0"},
           Case{"{base: inductor, products: {epilog: true}}",
                "b.yaml:1:29: error: products.epilog: unknown key\n  hint: did you mean 'epilogue'?"},
           Case{"{base: inductor, passes: {merge_gkv: true}}",
                "b.yaml:1:27: error: passes.merge_gkv: unknown key\n  hint: did you mean 'merge_qkv'?"},
           Case{"{base: inductor, cuda_graph: tree}",
                "b.yaml:1:30: error: cuda_graph: unknown name 'tree'\n  hint: did you mean 'trees'?"},
           Case{"{base: inductor, compile: {base: 3}}",
                "b.yaml:1:34: error: compile.base: '3' has no unit\n"
                "  hint: write a duration such as '3 us' (ps, ns, us, ms, s)"},
           Case{"{base: inductor, compile: {warm_share: 120 %}}",
                "b.yaml:1:40: error: compile.warm_share: must be at most 100 %, not 120 %"},
           Case{"{base: inductor, precisions: [fp9]}",
                "b.yaml:1:31: error: precisions[0]: unknown name 'fp9'\n  hint: did you mean 'fp8'?"},
           Case{"{base: inductor, precisions: [bool]}",
                "b.yaml:1:31: error: precisions[0]: unknown name 'bool'\n"
                "  hint: known names: fp64, fp32, bf16, fp16, fp8, int8"},
           Case{"{base: inductor, vendors: [intel]}",
                "b.yaml:1:28: error: vendors[0]: unknown name 'intel'\n  hint: known names: nvidia, amd"},
           Case{"{base: inductor, host_ops: {kernels: x}}",
                "b.yaml:1:29: error: host_ops.kernels: unknown key\n  hint: did you mean 'kernel'?"},
           Case{"{base: inductor, modes: {default: {cuda_graphs: full}}}",
                "b.yaml:1:36: error: modes.default.cuda_graphs: unknown key\n  hint: did you mean "
                "'cuda_graph'?"},
           Case{"{capture: dynamo, modes: {}}",
                "b.yaml:1:26: error: modes: the map of modes is empty\n"
                "  hint: leave the key away for one mode called 'default'"},
       }) {
    INFO(c.text);
    CHECK(mistake_in(c.text) == c.message);
  }
}

TEST_CASE("Mistakes in all parts of a backend are reported at once", "[bad_input][backend]") {
  const std::string all =
      mistake_in("{capture: x, training: 1, modes: {a: {fusion: {ops_max: 0}}, b: {helb: x}}}");
  for (const char* where : {"b.yaml:1:11", "b.yaml:1:24", "b.yaml:1:57", "b.yaml:1:66"}) {
    INFO(where << " in\n" << all);
    CHECK(all.find(where) != std::string::npos);
  }
}

}  // namespace
}  // namespace gpusim
