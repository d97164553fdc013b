// SPDX-License-Identifier: Apache-2.0
// The networks of configs/networks: their parameters, FLOPs and GPU ops.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "models/graph/memory.hpp"
#include "sim/config/names.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/networks.hpp"

namespace gpusim {
namespace {

using test::Approx;
using test::shipped_network;
using test::sizes;

constexpr std::int64_t operator""_n(unsigned long long n) {
  return static_cast<std::int64_t>(n);
}
using Set = std::vector<std::pair<std::string_view, NetworkValue>>;

NetworkSizes with(NetworkSizes s, const Set& parameters) {
  for (const auto& [name, value] : parameters) s.parameters.emplace(name, value);
  return s;
}

TEST_CASE("A file beside the scenario is no base of a shipped network", "[networks]") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "gpusim_networks_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "llama.yaml") << "name: a scenario that is called like a network\n";
  config::SearchPath search;
  search.beside = folder;
  const Network network = config::read_network(config::load_text("llama3_8b", "s.yaml"), search);
  CHECK(parameter_count(build_graph(network, sizes(1, 1))) == 8030261248);
  std::filesystem::remove_all(folder);
}

TEST_CASE("Shipped networks have the parameters that their papers and checkpoints have", "[networks]") {
  const auto [name, parameters, count] = GENERATE(table<std::string, Set, std::int64_t>({
      {"gpt2", {{"vocab", 50257_n}}, 124439808},
      {"llama3_8b", {}, 8030261248},
      {"llama3_70b", {}, 70553706496},
      {"llama_160m", {}, 162423552},
      {"encoder", {{"pooler", true}}, 109482240},
      {"vit", {}, 86567656},
      {"resnet50", {}, 25557032},
      {"mixtral", {}, 46702792704},
      {"gemma", {}, 8537680896},
      // In- and out-projection with their biases, SwiGLU and two norms.
      {"seed_decoder", {}, 4 * 2048 * 2048 + 4 * 2048 + 3 * 2048 * 8192 + 2 * 2048},
  }));
  CAPTURE(name);
  CHECK(parameter_count(build_graph(shipped_network(name), with(sizes(1, 4), parameters))) == count);
}

TEST_CASE("Every step of every shipped network makes a graph", "[networks]") {
  const config::SearchPath search;
  const std::vector<std::string> names = config::known_configs("networks", search);
  CHECK(names.size() >= 15);
  for (const std::string& name : names) {
    const Network network = shipped_network(name);
    std::size_t made = 0;
    for (const StepKind step :
         {StepKind::Inference, StepKind::Prefill, StepKind::Decode, StepKind::Training}) {
      CAPTURE(name, gpusim::name(step));
      try {
        const OpGraph graph = build_graph(network, sizes(2, 8, step));
        ++made;
        CHECK(eager_memory(graph, test::h200()).peak > Bytes(0));
      } catch (const GraphError& error) {
        // Only what the file itself rules out.
        CHECK(error.hint() == "the network's file asks for this");
      }
    }
    CHECK(made >= 2);
  }
}

TEST_CASE("Choices of a network's form change no parameter", "[networks]") {
  const auto [name, choice] = GENERATE(table<std::string, Set>({
      {"gpt2", {{"attention", std::string("unfused")}}},
      {"llama3_8b", {{"norm", std::string("library")}}},
      {"llama3_8b", {{"rope", std::string("library")}}},
      {"mixtral", {{"routing", std::string("loop")}}},
      {"vit", {{"qkv", std::string("separate")}}},
      {"resnet50", {{"channels_last", false}}},
      {"layer_norm_gelu", {{"form", std::string("built_in")}}},
  }));
  CAPTURE(name);
  const Network network = shipped_network(name);
  CHECK(parameter_count(build_graph(network, sizes(1, 16))) ==
        parameter_count(build_graph(network, with(sizes(1, 16), choice))));
}

TEST_CASE("Decoders do the FLOPs of the textbook formula", "[networks][formula]") {
  // 2 FLOPs for each weight that a token meets, and 4 x length x d_model for attention in each layer, all
  // scores counted.
  SECTION("GPT-2") {
    const double b = GENERATE(1.0, 8.0);
    const double t = GENERATE(128.0, 1024.0);
    const double d = 768;
    const double hand = b * t * (12 * (24 * d * d + 4 * t * d) + 2 * d * 50304);
    CHECK(test::model_flops(build_graph(shipped_network("gpt2"),
                                        sizes(static_cast<std::int64_t>(b), static_cast<std::int64_t>(t)))) ==
          Approx(hand));
  }
  SECTION("Llama 3 8B, grouped queries") {
    const double t = GENERATE(16.0, 2048.0);
    const double d = 4096;
    const double kv = 1024;
    const double layer = 2 * (2 * d * d + 2 * d * kv + 3 * d * 14336) + 4 * t * d;
    const double hand = t * (32 * layer + 2 * d * 128256);
    CHECK(test::model_flops(build_graph(shipped_network("llama3_8b"),
                                        sizes(1, static_cast<std::int64_t>(t)))) == Approx(hand));
  }
  SECTION("Decode: one token against the cache") {
    const double d = 4096;
    const double layer = 2 * (2 * d * d + 2 * d * 1024 + 3 * d * 14336) + 4 * 1024.0 * d;
    CHECK(test::model_flops(build_graph(shipped_network("llama3_8b"), sizes(3, 1024, StepKind::Decode))) ==
          Approx(3 * (32 * layer + 2 * d * 128256)));
  }
  SECTION("Experts: each token meets top_k of them and the router") {
    const double hand = 256 * 4 * (2 * 2048 * 8 + 2 * 2 * 3 * 2048.0 * 7168);
    CHECK(test::model_flops(build_graph(shipped_network("moe_layers"), sizes(1, 256))) == Approx(hand));
    CHECK(test::model_flops(build_graph(shipped_network("moe_layers"),
                                        with(sizes(1, 256), {{"routing", std::string("loop")}}))) ==
          Approx(hand));
  }
  SECTION("The counts of torch's FlopCounterMode") {
    // shared/measured/h200/steps.csv, validation/h200/steps-networks.csv
    CHECK(test::model_flops(build_graph(shipped_network("gpt2"), sizes(8, 1024))) == 2333777854464.0);
    CHECK(test::model_flops(build_graph(shipped_network("llama_160m"), sizes(1, 128))) == 36087791616.0);
    CHECK(test::model_flops(build_graph(shipped_network("seed_decoder"), sizes(4, 1024))) ==
          Approx(5.841e11).epsilon(1e-3));
  }
}

struct Measured {
  std::string row;  ///< Of validation/h200/steps-networks.csv; its list of ops is in validation/h200/ops.
  std::string network;
  NetworkSizes sizes;
  std::size_t framework;  ///< GPU ops but for memsets, split-K reductions and joins of attention: what the
                          ///< framework asks the libraries for.
  std::size_t all;        ///< With what the libraries add; 0: not compared here.
};

const std::string library = "library";
const Set library_ops{{"norm", library}, {"rope", library}, {"cache_write", std::string("index_copy")}};
const Set unfused{{"attention", std::string("unfused")}};
const Set loop{{"routing", std::string("loop")}};
const Set built_in{{"form", std::string("built_in")}};
constexpr StepKind decode = StepKind::Decode;

TEST_CASE("Eager steps launch the GPU ops that were measured on an H200", "[networks]") {
  const GpuSpec gpu = test::h200();
  const auto measured = GENERATE(values<Measured>({
      {"gpt2_B8_T1024", "gpt2", sizes(8, 1024), 126, 163},
      {"gpt2_B1_T128", "gpt2", sizes(1, 128), 126, 150},
      {"gpt2_B2_T256", "gpt2", sizes(2, 256), 126, 139},
      {"gpt2_B1_T1024", "gpt2", sizes(1, 1024), 126, 139},
      {"gpt2_decode_B1_S1024", "gpt2", sizes(1, 1024, decode), 186, 210},
      {"gpt2_decode_B8_S1024", "gpt2", sizes(8, 1024, decode), 186, 198},
      {"gpt2_unfused_B8_T1024", "gpt2", with(sizes(8, 1024), unfused), 246, 0},
      {"gpt2_unfused_B1_T128", "gpt2", with(sizes(1, 128), unfused), 210, 222},
      {"gpt2_unfused_B2_T256", "gpt2", with(sizes(2, 256), unfused), 246, 247},
      {"llama8b_B1_T16", "llama3_8b", sizes(1, 16), 1546, 0},
      {"llama8b_B1_T2048", "llama3_8b", sizes(1, 2048), 1546, 1643},
      {"llama8b_decode_B1_S1024", "llama3_8b", sizes(1, 1024, decode), 1709, 0},
      {"llama8b_decode_B32_S1024", "llama3_8b", sizes(32, 1024, decode), 1709, 0},
      {"llama8b_lib_B1_T16", "llama3_8b", with(sizes(1, 16), library_ops), 771, 0},
      {"llama8b_lib_B1_T2048", "llama3_8b", with(sizes(1, 2048), library_ops), 771, 868},
      {"llama8b_lib_B1_T512", "llama3_8b", with(sizes(1, 512), library_ops), 771, 804},
      {"llama8b_lib_decode_B1_S1024", "llama3_8b", with(sizes(1, 1024, decode), library_ops), 934, 0},
      {"llama_160m_B1_T128", "llama_160m", sizes(1, 128), 778, 794},
      {"llama_160m_B4_T1024", "llama_160m", sizes(4, 1024), 778, 795},
      {"llama_160m_lib_B1_T128", "llama_160m", with(sizes(1, 128), library_ops), 387, 403},
      {"encoder_B32_T512", "encoder", sizes(32, 512), 151, 235},
      {"encoder_B1_T128", "encoder", sizes(1, 128), 151, 175},
      {"encoder_B8_T256", "encoder", sizes(8, 256), 151, 163},
      {"encoder_B64_T128", "encoder", sizes(64, 128), 151, 175},
      {"moe_grouped_N16", "moe_layers", sizes(1, 16), 128, 128},
      {"moe_grouped_N2048", "moe_layers", sizes(1, 2048), 128, 128},
      {"moe_loop_N16", "moe_layers", with(sizes(1, 16), loop), 620, 652},
      {"moe_loop_N256", "moe_layers", with(sizes(1, 256), loop), 620, 652},
      {"moe_loop_N2048", "moe_layers", with(sizes(1, 2048), loop), 620, 0},
      {"moe_loop_N8192", "moe_layers", with(sizes(1, 8192), loop), 652, 688},
      {"seed_decoder_B4_T1024", "seed_decoder", sizes(4, 1024), 12, 16},
      {"seed_decoder_B1_T16", "seed_decoder", sizes(1, 16), 12, 14},
      {"seed_decoder_B1_T256", "seed_decoder", sizes(1, 256), 12, 13},
      {"mlp_N16384", "seed_mlp", sizes(1, 16384), 5, 7},
      {"hand_ln_gelu_N16384", "layer_norm_gelu", sizes(1, 16384), 18, 18},
      {"ln_gelu_N16384", "layer_norm_gelu", with(sizes(1, 16384), built_in), 2, 2},
      // From shared/measured/h200/steps.csv.
      {"fma_relu_4096", "fma_relu", sizes(1, 1, StepKind::Inference, {}, ElementType::Fp16), 3, 3},
      {"cos_chain_8", "cos_chain", sizes(1, 1, StepKind::Inference, {}, ElementType::Fp32), 8, 8},
  }));
  CAPTURE(measured.row);
  const std::vector<std::string> ops =
      test::eager_gpu_ops(build_graph(shipped_network(measured.network), measured.sizes), gpu);
  const auto added = std::count_if(ops.begin(), ops.end(), [](const std::string& op) {
    return op == "memset" || op == "split_k_reduce" || op == "attention_join";
  });
  CHECK(ops.size() - static_cast<std::size_t>(added) == measured.framework);
  if (measured.all > 0) CHECK(ops.size() == measured.all);
}

std::vector<std::string> kinds_that_run(const OpGraph& graph, const GpuSpec& gpu) {
  std::vector<std::string> kinds;
  for (const Op& op : graph.ops)
    for (const EagerCall& call : op.kind->eager(test::Seen(graph, op).view(), gpu))
      if (!call.work.empty()) kinds.emplace_back(op.kind->name);
  return kinds;
}

TEST_CASE("A compiler traces nn.MultiheadAttention without its fast path", "[networks]") {
  // The kernels of shared/measured/h200/traces/seed_decoder_B4_T1024_reduce-overhead: rms_norm and copy,
  // product, three times sum and copy, attention, product with its bias, sum and rms_norm, product, product,
  // silu and product of the two, product, sum. The ops below are what they are made of.
  const Network network = shipped_network("seed_decoder");
  NetworkSizes traced = sizes(4, 1024);
  traced.compiled = true;
  const OpGraph graph = build_graph(network, traced);
  CHECK(kinds_that_run(graph, test::h200()) ==
        std::vector<std::string>{"rms_norm", "contiguous", "linear", "add", "contiguous",
                                 "scaled_dot_product_attention", "linear", "add", "rms_norm", "linear",
                                 "silu", "linear", "mul", "linear", "add"});
  // Work, weights and results are the eager ones.
  const OpGraph eager = build_graph(network, sizes(4, 1024));
  CHECK(test::model_flops(graph) == test::model_flops(eager));
  CHECK(parameter_count(graph) == parameter_count(eager));
  CHECK(test::given(graph) == test::given(eager));
  // A single sequence lies as one with the sequence first does: no copy, and the product adds the bias.
  NetworkSizes single = sizes(1, 16);
  single.compiled = true;
  const std::vector<std::string> kinds = kinds_that_run(build_graph(network, single), test::h200());
  CHECK(std::count(kinds.begin(), kinds.end(), "contiguous") == 1);
  CHECK(std::count(kinds.begin(), kinds.end(), "add") == 2);
}

TEST_CASE("ResNet-50 has its layers", "[networks]") {
  const OpGraph graph = build_graph(shipped_network("resnet50"), sizes(2, 1));
  const auto count = [&](std::string_view kind) {
    return std::count_if(graph.ops.begin(), graph.ops.end(),
                         [&](const Op& op) { return op.kind->name == kind; });
  };
  CHECK(count("conv2d") == 53);
  CHECK(count("batch_norm") == 53);
  CHECK(count("relu_") == 49);
  CHECK(count("add_") == 16);
  // Channels stay innermost all the way.
  for (const Op& op : graph.ops)
    if (op.kind->name == "conv2d") CHECK(is_channels_last(graph.tensors[op.outputs[0]].type));
}

TEST_CASE("Decode keeps keys and values of the whole sequence", "[networks]") {
  const OpGraph graph = build_graph(shipped_network("llama3_8b"), sizes(4, 1024, StepKind::Decode));
  // 32 layers, keys and values, 8 heads of 128 in bf16.
  CHECK(bytes_of(graph, Role::State) == Bytes(32LL * 2 * 4 * 1024 * 8 * 128 * 2));
  CHECK(bytes_of(build_graph(shipped_network("llama3_8b"), sizes(4, 1024, StepKind::Prefill)), Role::State) ==
        bytes_of(graph, Role::State));
  CHECK(bytes_of(build_graph(shipped_network("llama3_8b"), sizes(4, 1024)), Role::State) == Bytes(0));
}

// --- Files that stand on others.

Network preset(const std::string& text) {
  return config::read_network_file(config::load_text(text, "p.yaml"), "p");
}

TEST_CASE("A file with a base is that network with other defaults", "[networks]") {
  const Network network = preset("base: llama_160m\nname: Small\nparameters: {layers: 2, tied: true}\n");
  CHECK(network.key == "p");
  CHECK(network.name == "Small");
  const OpGraph graph = build_graph(network, sizes(1, 4));
  CHECK(parameter_count(graph) == 32000 * 768 + 768 + 2 * (4 * 768 * 768 + 3 * 768 * 2048 + 2 * 768));
  // What a scenario sets goes over both.
  CHECK(parameter_count(build_graph(network, sizes(1, 4, StepKind::Inference, {{"layers", 1_n}}))) ==
        32000 * 768 + 768 + 4 * 768 * 768 + 3 * 768 * 2048 + 2 * 768);
}

TEST_CASE("Mistakes in a file with a base are located in it", "[networks][bad_input]") {
  const auto message = [](const std::string& text) { return test::message_of([&] { preset(text); }); };
  CHECK(message("base: llame\n")
            .find("p.yaml:1:7: error: base: unknown networks 'llame'\n  hint: did you mean "
                  "'llama'?") == 0);
  CHECK(message("base: llama\nparameters: {layer: 3}\n") ==
        "p.yaml:2:14: error: parameters.layer: the network 'llama' has no parameter 'layer'\n"
        "  hint: did you mean 'layers'?");
  CHECK(message("base: llama\nparameters: {layers: many}\n") ==
        "p.yaml:2:22: error: parameters.layers: must be an integer, as in 'llama'");
  CHECK(message("base: llama\nparameters: {norm: libary}\n").find("did you mean 'library'?") !=
        std::string::npos);
  CHECK(message("base: llama\nbody: [x = ids]\n").find("p.yaml:2:1: error: body: unknown key") == 0);
}

}  // namespace
}  // namespace gpusim
