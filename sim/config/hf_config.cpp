// SPDX-License-Identifier: Apache-2.0
#include "sim/config/hf_config.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "models/graph/element_type.hpp"

namespace gpusim::config {
namespace {

/// Fields that say nothing about the work of a step: names, tokens, how weights begin and are stored,
/// sampling, training losses, epsilons, angles.
constexpr std::string_view harmless[]{"architectures",
                                      "model_type",
                                      "transformers_version",
                                      "auto_map",
                                      "bos_token_id",
                                      "eos_token_id",
                                      "pad_token_id",
                                      "sep_token_id",
                                      "cls_token_id",
                                      "mask_token_id",
                                      "unk_token_id",
                                      "decoder_start_token_id",
                                      "initializer_range",
                                      "initializer_factor",
                                      "use_cache",
                                      "gradient_checkpointing",
                                      "cache_implementation",
                                      "rms_norm_eps",
                                      "layer_norm_eps",
                                      "layer_norm_epsilon",
                                      "rope_theta",
                                      "rope_scaling",
                                      "rope_parameters",
                                      "rope_local_base_freq",
                                      "torch_dtype",
                                      "dtype",
                                      "problem_type",
                                      "finetuning_task",
                                      "task_specific_params",
                                      "id2label",
                                      "label2id",
                                      "num_labels",
                                      "classifier_dropout",
                                      "return_dict",
                                      "output_attentions",
                                      "output_hidden_states",
                                      "summary_activation",
                                      "summary_first_dropout",
                                      "summary_proj_to_labels",
                                      "summary_type",
                                      "summary_use_proj",
                                      "attn_implementation",
                                      "max_length",
                                      "min_length",
                                      "do_sample",
                                      "temperature",
                                      "top_p",
                                      "repetition_penalty",
                                      "name_or_path",
                                      "encoder_stride",
                                      "router_aux_loss_coef"};

/// Shares of dropped elements: they cost only in training.
constexpr std::string_view dropouts[]{"attention_dropout",   "attention_probs_dropout_prob",
                                      "hidden_dropout_prob", "resid_pdrop",
                                      "embd_pdrop",          "attn_pdrop",
                                      "hidden_dropout",      "router_jitter_noise"};

class HfReader {
 public:
  HfReader(const Node& file, const HfUse& use) : file_(file), use_(use) {}

  HfNetwork read() {
    using Read = void (HfReader::*)();
    static constexpr std::array<std::pair<std::string_view, Read>, 11> families{{
        {"bert", &HfReader::bert},
        {"gemma", &HfReader::gemma},
        {"gemma2", &HfReader::gemma2},
        {"gemma3_text", &HfReader::gemma3},
        {"gpt2", &HfReader::gpt2},
        {"llama", &HfReader::llama},
        {"mistral", &HfReader::mistral},
        {"mixtral", &HfReader::mixtral},
        {"qwen2", &HfReader::qwen2},
        {"qwen3", &HfReader::qwen3},
        {"vit", &HfReader::vit},
    }};
    const Node type = file_.at("model_type");
    const auto family =
        std::find_if(families.begin(), families.end(), [&](const auto& f) { return f.first == type.text(); });
    if (family == families.end()) {
      std::vector<std::string> known;
      for (const auto& f : families) known.emplace_back(f.first);
      std::string list;
      for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
      type.fail("the model family '" + type.text() + "' has no network",
                "known families: " + list + "; others are described in a network's file (docs/networks.md)");
    }
    (this->*family->second)();
    common();
    errors_.throw_if_any();
    return std::move(result_);
  }

 private:
  // --- Families. Defaults are those of the family's configuration class.

  void gpt2() {
    result_.network = "gpt2";
    integer("layers", "n_layer");
    integer("d_model", "n_embd");
    integer("heads", "n_head");
    integer("d_ff", "n_inner", 0);
    integer("vocab", "vocab_size");
    positions("context", "n_positions");
    known("n_ctx");
    activation(
        "activation_function", "gelu_new",
        {{"gelu_new", "gelu_new"}, {"gelu_pytorch_tanh", "gelu_tanh"}, {"gelu", "gelu"}, {"relu", "relu"}});
    flag("tied", "tie_word_embeddings", true);
    known("scale_attn_weights");
    must_be("scale_attn_by_inverse_layer_idx", "false", "scores are scaled by the head size alone");
    must_be("reorder_and_upcast_attn", "false", "attention in fp32 is not modelled");
    must_be("add_cross_attention", "false", "cross-attention is not modelled");
  }

  /// What Llama, Mistral, Qwen and Mixtral have in common. The norms are written out in tensor operations
  /// there, and positions are turned by halves.
  void decoder() {
    sizes();
    set("norm", std::string("written_out"));
    set("rope", std::string("library"));
    set("cache_write", std::string("index_copy"));
    flag("tied", "tie_word_embeddings", false);
  }
  void sizes() {
    integer("layers", "num_hidden_layers");
    integer("d_model", "hidden_size");
    integer("heads", "num_attention_heads");
    integer("kv_heads", value("num_key_value_heads") ? "num_key_value_heads" : "num_attention_heads");
    integer("head_dim", "head_dim", 0);
    integer("d_ff", "intermediate_size");
    integer("vocab", "vocab_size");
    // The tables of angles are made for the sequence; the model's longest one is only a limit.
    if (const auto longest = value("max_position_embeddings"))
      errors_.collect([&] {
        if (longest->as<std::int64_t>(positive) < use_.sequence)
          longest->fail("the sequence of " + std::to_string(use_.sequence) + " is longer than the model's " +
                        longest->text());
      });
    set("context", use_.sequence);
  }
  void gated_activation(std::string_view key, const std::string& fallback) {
    activation(key, fallback,
               {{"silu", "silu"},
                {"swish", "silu"},
                {"gelu_pytorch_tanh", "gelu_tanh"},
                {"gelu", "gelu"},
                {"relu", "relu"}});
  }

  void llama() {
    result_.network = "llama";
    decoder();
    gated_activation("hidden_act", "silu");
    flag("qkv_bias", "attention_bias", false);
    flag("out_bias", "attention_bias", false);
    flag("mlp_bias", "mlp_bias", false);
    must_be("pretraining_tp", "1", "products cut into slices are not modelled");
  }
  void mistral() {
    result_.network = "llama";
    decoder();
    gated_activation("hidden_act", "silu");
    window(4096);
  }
  void qwen2() {
    result_.network = "llama";
    decoder();
    gated_activation("hidden_act", "silu");
    set("qkv_bias", true);
    optional_window();
  }
  void qwen3() {
    result_.network = "llama";
    decoder();
    gated_activation("hidden_act", "silu");
    integer("head_dim", "head_dim", 128);
    flag("qkv_bias", "attention_bias", false);
    flag("out_bias", "attention_bias", false);
    set("qk_norm", true);
    optional_window();
  }
  void mixtral() {
    result_.network = "mixtral";
    decoder();
    integer("experts", "num_local_experts", 8);
    integer("top_k", "num_experts_per_tok", 2);
    must_be("hidden_act", "silu", "experts are SwiGLU");
    must_be("output_router_logits", "false", "the router's loss is not modelled");
    window(0);
  }

  void gemma_sizes() {
    result_.network = "gemma";
    sizes();
    integer("head_dim", "head_dim", 256);
    // Where both are given, hidden_activation is the one that is used.
    known("hidden_act");
    gated_activation("hidden_activation", "gelu_pytorch_tanh");
    flag("tied", "tie_word_embeddings", true);
    flag("qkv_bias", "attention_bias", false);
    flag("out_bias", "attention_bias", false);
    must_be("use_bidirectional_attention", "false", "attention is causal");
  }
  void gemma() { gemma_sizes(); }
  void gemma2() {
    gemma_sizes();
    set("post_norms", true);
    known("query_pre_attn_scalar");
    number("attention_softcap", "attn_logit_softcapping", 50.0);
    number("final_softcap", "final_logit_softcapping", 30.0);
    window(4096);
  }
  void gemma3() {
    gemma_sizes();
    set("post_norms", true);
    set("qk_norm", true);
    set("local_angles", true);
    known("query_pre_attn_scalar");
    number("attention_softcap", "attn_logit_softcapping", 0.0);
    number("final_softcap", "final_logit_softcapping", 0.0);
    known("sliding_window_pattern");
    window(4096);
  }

  /// The trunk with its pooler (BertModel), whatever head `architectures` names.
  void bert() {
    result_.network = "encoder";
    integer("layers", "num_hidden_layers");
    integer("d_model", "hidden_size");
    integer("heads", "num_attention_heads");
    integer("d_ff", "intermediate_size");
    integer("vocab", "vocab_size");
    positions("context", "max_position_embeddings");
    integer("kinds", "type_vocab_size", 2);
    set("pooler", true);
    activation("hidden_act", "gelu",
               {{"gelu", "gelu"}, {"gelu_pytorch_tanh", "gelu_tanh"}, {"relu", "relu"}});
    must_be("position_embedding_type", "absolute", "relative positions are not modelled");
    must_be("is_decoder", "false", "a decoder is not modelled");
    must_be("add_cross_attention", "false", "cross-attention is not modelled");
    must_be("chunk_size_feed_forward", "0", "an MLP cut into chunks is not modelled");
    must_be("tie_word_embeddings", "true", "the trunk has no head");
    known("gradient_checkpointing");
  }

  /// With the head of ViTForImageClassification, or as ViTModel with its pooler.
  void vit() {
    result_.network = "vit";
    integer("layers", "num_hidden_layers");
    integer("d_model", "hidden_size");
    integer("heads", "num_attention_heads");
    integer("d_ff", "intermediate_size");
    integer("image", "image_size", 224);
    integer("patch", "patch_size", 16);
    integer("channels", "num_channels", 3);
    flag("qkv_bias", "qkv_bias", true);
    set("qkv", std::string("separate"));
    activation("hidden_act", "gelu",
               {{"gelu", "gelu"}, {"gelu_pytorch_tanh", "gelu_tanh"}, {"relu", "relu"}});
    must_be("pooler_act", "tanh", "the pooler is a product and tanh");
    errors_.collect([&] {
      if (const auto size = value("pooler_output_size"); size && value("hidden_size"))
        if (size->text() != value("hidden_size")->text())
          size->fail("a pooler of another size than hidden_size is not modelled");
    });
    std::string architecture = "ViTModel";
    errors_.collect([&] {
      const auto list = value("architectures");
      if (!list || list->size() == 0) return;
      const Node first = list->items().front();
      architecture = first.text();
      if (architecture != "ViTModel" && architecture != "ViTForImageClassification") {
        const std::vector<std::string> names{"ViTModel", "ViTForImageClassification"};
        first.fail_unknown(names);
      }
    });
    const bool classifier = architecture == "ViTForImageClassification";
    set("pooler", !classifier);
    std::int64_t classes = classifier ? 2 : 0;
    errors_.collect([&] {
      if (!classifier) return;
      if (const auto labels = value("id2label"))
        classes = static_cast<std::int64_t>(labels->size());
      else if (const auto count = value("num_labels"))
        classes = count->as<std::int64_t>(positive);
    });
    set("classes", classes);
  }

  // --- Fields that all have.

  void common() {
    for (const std::string_view key : harmless) known(key);
    for (const std::string_view key : {"torch_dtype", "dtype"}) {
      errors_.collect([&, k = key] {
        const auto name = value(k);
        if (!name) return;
        if (name->text() == "float32") result_.dtype = ElementType::Fp32;
        if (name->text() == "float16") result_.dtype = ElementType::Fp16;
        if (name->text() == "bfloat16") result_.dtype = ElementType::Bf16;
        if (!result_.dtype && name->text() != "auto")
          name->fail("unknown dtype '" + name->text() + "'", "known dtypes: float32, float16, bfloat16");
      });
    }
    for (const std::string_view key : dropouts)
      errors_.collect([&, k = key] {
        const auto share = value(k);
        if (share && use_.step == StepKind::Training && share->as<double>() != 0)
          share->fail("dropout in training is not part of this network", "set it to 0");
      });
    errors_.collect([&] {
      if (const auto quantized = value("quantization_config"))
        quantized->fail("quantized weights are not modelled",
                        "take the config.json of the unquantized model");
    });
    for (const auto& [key, node] : file_.entries()) {
      if (key.starts_with('_') || std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
      std::vector<std::string> names = known_;
      std::sort(names.begin(), names.end());
      const auto near = nearest_name(key, names);
      errors_.add(Diagnostic{
          .where = node.key_location(),
          .path = node.path(),
          .what = "unknown field of a '" + file_.at("model_type").text() + "' config: it may change the cost",
          .hint = near ? "did you mean " + in_quotes(*near) + "?" : "remove it if it does not"});
    }
  }

  /// A window of attention matters where the sequence is longer.
  void window(std::int64_t fallback) {
    known("layer_types");
    errors_.collect([&] {
      const auto node = value("sliding_window");
      // A key without a value says that there is no window.
      const std::int64_t size = node                          ? node->as<std::int64_t>(non_negative)
                                : file_.has("sliding_window") ? 0
                                                              : fallback;
      if (size == 0 || size >= use_.sequence) return;
      const Node where = node ? *node : file_;
      where.fail("attention over a window of " + std::to_string(size) +
                     " tokens is not modelled, and the sequence of " + std::to_string(use_.sequence) +
                     " is longer",
                 "for an upper bound set sliding_window to null");
    });
  }
  void optional_window() {
    known("max_window_layers");
    known("use_sliding_window");
    bool used = false;
    errors_.collect([&] {
      const auto node = value("use_sliding_window");
      used = node && node->as<bool>();
    });
    known("layer_types");
    known("sliding_window");
    if (used) window(4096);
  }

  // --- Reading.

  void known(std::string_view key) { known_.emplace_back(key); }
  /// The field's value; nothing if it is absent or null.
  std::optional<Node> value(std::string_view key) {
    known(key);
    auto node = file_.find(key);
    if (node && node->is_null()) return std::nullopt;
    return node;
  }
  void set(const std::string& parameter, NetworkValue v) {
    result_.parameters.insert_or_assign(parameter, std::move(v));
  }
  void integer(const std::string& parameter, std::string_view key,
               std::optional<std::int64_t> fallback = std::nullopt) {
    errors_.collect([&] {
      const auto node = value(key);
      if (node)
        set(parameter, node->as<std::int64_t>(positive));
      else if (fallback)
        set(parameter, *fallback);
      else
        set(parameter, file_.at(key).as<std::int64_t>(positive));  // Throws: it is missing or null.
    });
  }
  /// The rows of a table of positions.
  void positions(const std::string& parameter, std::string_view key) {
    integer(parameter, key);
    errors_.collect([&] {
      const auto node = value(key);
      if (node && node->as<std::int64_t>() < use_.sequence)
        node->fail("the sequence of " + std::to_string(use_.sequence) + " is longer than the model's " +
                   node->text());
    });
  }
  void flag(const std::string& parameter, std::string_view key, bool fallback) {
    errors_.collect([&] {
      const auto node = value(key);
      set(parameter, node ? node->as<bool>() : fallback);
    });
  }
  void number(const std::string& parameter, std::string_view key, double fallback) {
    errors_.collect([&] {
      const auto node = value(key);
      set(parameter, node ? node->as<double>(positive) : file_.has(key) ? 0.0 : fallback);
    });
  }
  /// A field that may only have this value, if it is there.
  void must_be(std::string_view key, std::string_view wanted, const std::string& why) {
    errors_.collect([&] {
      const auto node = value(key);
      if (node && node->text() != wanted)
        node->fail(why, "the one value that is modelled is " + std::string(wanted));
    });
  }
  void activation(std::string_view key, const std::string& fallback,
                  std::initializer_list<std::pair<std::string_view, std::string_view>> names) {
    errors_.collect([&] {
      const auto node = value(key);
      const std::string wanted = node ? node->text() : fallback;
      std::vector<std::string> choices;
      for (const auto& [theirs, ours] : names) {
        if (theirs == wanted) return set("activation", std::string(ours));
        choices.emplace_back(theirs);
      }
      node->fail_unknown(choices);
    });
  }

  const Node& file_;
  const HfUse& use_;
  HfNetwork result_;
  Errors errors_;
  std::vector<std::string> known_;
};

}  // namespace

HfNetwork read_hf_config(const Node& file, const HfUse& use) {
  return HfReader(file, use).read();
}

}  // namespace gpusim::config
