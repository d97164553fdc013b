// SPDX-License-Identifier: Apache-2.0
// config.json files as networks.
#include <filesystem>
#include <string>

#include "sim/config/hf_config.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/networks.hpp"

namespace gpusim {
namespace {

using config::HfNetwork;
using config::HfUse;
using config::read_hf_config;

config::Node file_of(const std::string& name) {
  return config::load_file(std::filesystem::path(GPUSIM_SOURCE_DIR) / "tests/data/hf" / (name + ".json"));
}

OpGraph graph_of(const HfNetwork& hf, const HfUse& use) {
  NetworkSizes sizes = test::sizes(1, use.sequence, use.step);
  sizes.parameters = hf.parameters;
  return build_graph(test::shipped_network(hf.network), sizes);
}

TEST_CASE("A config.json becomes a network with the model's published number of parameters",
          "[networks][hf_config]") {
  const auto [name, network, count] = GENERATE(table<std::string, std::string, std::int64_t>({
      {"gpt2", "gpt2", 124439808},
      {"llama3_8b", "llama", 8030261248},
      {"mistral_7b", "llama", 7241732096},
      {"qwen2_7b", "llama", 7615616512},
      {"qwen3_8b", "llama", 8190735360},
      {"gemma2_9b", "gemma", 9241705984},
      {"bert_base", "encoder", 109482240},
      {"vit_base", "vit", 86567656},
      {"mixtral_8x7b", "mixtral", 46702792704},
  }));
  CAPTURE(name);
  const HfUse use{.sequence = 64};
  const HfNetwork hf = read_hf_config(file_of(name), use);
  CHECK(hf.network == network);
  CHECK(parameter_count(graph_of(hf, use)) == count);
}

TEST_CASE("Decoders from a config.json run prefill and decode", "[networks][hf_config]") {
  const std::string name =
      GENERATE("gpt2", "llama3_8b", "mistral_7b", "qwen2_7b", "qwen3_8b", "gemma2_9b", "mixtral_8x7b");
  const StepKind step = GENERATE(StepKind::Prefill, StepKind::Decode);
  CAPTURE(name);
  const HfUse use{.sequence = 64, .step = step};
  const OpGraph graph = graph_of(read_hf_config(file_of(name), use), use);
  CHECK(bytes_of(graph, Role::State) > Bytes(0));
}

TEST_CASE("The config says what dtype the weights have", "[networks][hf_config]") {
  CHECK(read_hf_config(file_of("llama3_8b"), {}).dtype == ElementType::Bf16);
  CHECK(read_hf_config(file_of("gemma2_9b"), {}).dtype == ElementType::Fp32);
  CHECK_FALSE(read_hf_config(file_of("gpt2"), {}).dtype.has_value());
}

/// A small Llama with more fields, or others in their place.
std::string message(const std::string& more, const HfUse& use = {}, const std::string& family = "llama") {
  const std::string text = "{\"model_type\": \"" + family +
                           "\", \"hidden_size\": 64, \"num_hidden_layers\": 2,\n"
                           "\"num_attention_heads\": 4, \"intermediate_size\": 128, \"vocab_size\": 100,\n" +
                           more + "\"max_position_embeddings\": 512}\n";
  return test::message_of([&] { read_hf_config(config::load_text(text, "config.json"), use); });
}

TEST_CASE("A config.json that can be mapped is taken without a word", "[networks][hf_config]") {
  CHECK(message("") == "no error");
  CHECK(message("\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0}, \"_name_or_path\": \"x\",\n") ==
        "no error");
  CHECK(message("\"sliding_window\": 256,\n", {.sequence = 256}, "mistral") == "no error");
  CHECK(message("\"attention_dropout\": 0.1,\n") == "no error");
  CHECK(message("\"id2label\": {\"0\": \"tench, Tinca\", \"1\": \"a: b\"},\n") == "no error");
}

TEST_CASE("A field that changes the cost and is not modelled is a located error",
          "[networks][hf_config][bad_input]") {
  CHECK(message("\"sliding_window\": 256,\n", {.sequence = 257}, "mistral") ==
        "config.json:3:19: error: sliding_window: attention over a window of 256 tokens is not modelled, and "
        "the "
        "sequence of 257 is longer\n  hint: for an upper bound set sliding_window to null");
  // Mistral has a window of 4096 unless its config says otherwise.
  CHECK(message("", {.sequence = 500}, "mistral") == "no error");
  CHECK(message("\"hidden_act\": \"quick_gelu\",\n")
            .find("config.json:3:15: error: hidden_act: unknown name "
                  "'quick_gelu'") == 0);
  CHECK(message("\"quantization_config\": {\"bits\": 4},\n")
            .find("config.json:3:24: error: quantization_config: quantized weights are not modelled") == 0);
  CHECK(message("\"pretraining_tp\": 2,\n")
            .find("config.json:3:19: error: pretraining_tp: products cut into "
                  "slices are not modelled") == 0);
  CHECK(message("\"attention_dropout\": 0.1,\n", {.step = StepKind::Training})
            .find("config.json:3:22: error: attention_dropout: dropout in training is not part of this "
                  "network") == 0);
  CHECK(message("", {.sequence = 513})
            .find("config.json:3:28: error: max_position_embeddings: the sequence of 513 "
                  "is longer than the model's 512") == 0);
}

TEST_CASE("A field that nobody knows is an error, with the nearest known one",
          "[networks][hf_config][bad_input]") {
  CHECK(message("\"num_key_value_head\": 2,\n") ==
        "config.json:3:1: error: num_key_value_head: unknown field of a 'llama' config: it may change the "
        "cost\n"
        "  hint: did you mean 'num_key_value_heads'?");
  CHECK(message("\"mamba_state\": 2,\n").find("it may change the cost\n  hint: remove it if it does not") !=
        std::string::npos);
}

TEST_CASE("A family without a network names those that have one", "[networks][hf_config][bad_input]") {
  CHECK(message("", {}, "t5") ==
        "config.json:1:16: error: model_type: the model family 't5' has no network\n"
        "  hint: known families: bert, gemma, gemma2, gemma3_text, gpt2, llama, mistral, mixtral, qwen2, "
        "qwen3, vit; "
        "others are described in a network's file (docs/networks.md)");
  CHECK(test::message_of([] {
          read_hf_config(config::load_text("{\"a\": 1}", "config.json"), {});
        }).find("config.json:1:1: error: missing key 'model_type'") == 0);
}

TEST_CASE("Missing, null and wrong sizes are located", "[networks][hf_config][bad_input]") {
  const auto read = [](const std::string& text) {
    return test::message_of([&] { read_hf_config(config::load_text(text, "config.json"), {}); });
  };
  const std::string all = read("{\"model_type\": \"bert\", \"hidden_size\": 0, \"num_hidden_layers\": null}");
  CHECK(all.find("hidden_size: must be positive, not 0") != std::string::npos);
  CHECK(all.find("num_hidden_layers") != std::string::npos);
  CHECK(all.find("missing key 'vocab_size'") != std::string::npos);
}

}  // namespace
}  // namespace gpusim
