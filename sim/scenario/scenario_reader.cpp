// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/scenario_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

#include "sim/config/hardware_reader.hpp"
#include "sim/config/input_digest.hpp"
#include "sim/config/load.hpp"
#include "sim/config/overlay.hpp"
#include "sim/scenario/compile_reader.hpp"
#include "sim/scenario/expectation_reader.hpp"
#include "sim/scenario/parallel_reader.hpp"
#include "sim/scenario/workload_reader.hpp"

namespace gpusim {
namespace {

using config::Node;

constexpr std::array<std::string_view, 11> top_level_keys{"name",     "description",      "hardware", "host",
                                                          "workload", "cuda_graph",       "shapes",   "steps",
                                                          "seed",     "instructions_max", "variants"};
constexpr std::array<std::string_view, 3> keys_of_the_file{"name", "description", "variants"};

/// The keys that change an answer, and with `of_the_file` the others too.
std::vector<std::string> known_keys(bool of_the_file) {
  std::vector<std::string> known;
  for (const std::string_view key : top_level_keys)
    if (of_the_file ||
        std::find(keys_of_the_file.begin(), keys_of_the_file.end(), key) == keys_of_the_file.end())
      known.emplace_back(key);
  known.insert(known.end(), compile_keys.begin(), compile_keys.end());
  if (of_the_file) known.emplace_back("expect");
  return known;
}

/// "hardware" -> the folder of configs in which its names are found; empty: the key takes no names.
std::string_view config_kind(std::string_view key) {
  if (key == "hardware") return "hardware";
  if (key == "host") return "hosts";
  if (key == "backend") return "backends";
  return {};
}

std::string_view last_key(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

bool is_word(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

class ScenarioReader {
 public:
  ScenarioReader(std::string file, const ScenarioOptions& options)
      : file_(std::move(file)), folder_(std::filesystem::path(file_).parent_path()), options_(options) {
    search_.beside = folder_.empty() ? std::filesystem::path(".") : folder_;
    search_.extra = options.config_folders;
    search_.files = options.files ? options.files : std::make_shared<config::FileStore>(options.limits);
    search_.inputs = options.inputs;
  }

  Scenario read(Node root) {
    if (!root.is_map()) root.fail("a scenario is a map", "it begins with 'name:' and 'workload:'");
    for (const std::string& set : options_.sets)
      if (const auto changed = errors_.collect(
              [&] { return config::apply_set(root, set, [&](const Node& name) { return expand(name); }); }))
        root = *changed;
    errors_.throw_if_any();

    Scenario scenario;
    scenario.file = file_;
    errors_.collect(
        [&] { scenario.name = root.value_or("name", std::filesystem::path(file_).stem().string()); });
    errors_.collect([&] { scenario.description = root.value_or("description", std::string()); });
    check_keys(root);

    const std::vector<std::pair<std::string, Node>> overlays = read_overlays(root);
    std::vector<std::string> names;
    for (const auto& [name, overlay] : overlays) names.push_back(name);
    for (const std::string& wanted : options_.variants)
      if (std::find(names.begin(), names.end(), wanted) == names.end())
        errors_.add({Location{"--variant " + wanted, 0, 0}, "", fmt::format("unknown variant '{}'", wanted),
                     name_hint(wanted, names, "variants")});

    Node base = root.without("variants").without("expect").without("name").without("description");
    for (const auto& [name, overlay] : overlays) {
      const bool wanted =
          options_.variants.empty() ||
          std::find(options_.variants.begin(), options_.variants.end(), name) != options_.variants.end();
      if (!wanted) continue;
      const auto& variant_name = name;
      const auto& variant_overlay = overlay;
      errors_.collect(
          [&] { scenario.variants.push_back(read_variant(variant_name, merge(base, variant_overlay))); });
    }
    if (const auto expect = root.find("expect"))
      errors_.collect([&] {
        scenario.expectations = read_expectations(*expect, names, options_.metrics);
        std::erase_if(scenario.expectations, [&](const Expectation& e) {
          return !scenario.find(e.variant) || (!e.relative_to.empty() && !scenario.find(e.relative_to));
        });
      });
    throw_without_repeats();
    if (options_.inputs) note_inputs(root, scenario);
    return scenario;
  }

 private:
  void note_inputs(const Node& root, const Scenario& scenario) const {
    options_.inputs->add_scenario(root, is_trace_file(file_));
    if (options_.steps) options_.inputs->add("steps", std::to_string(*options_.steps));
    if (options_.seed) options_.inputs->add("seed", std::to_string(*options_.seed));
    for (const Variant& variant : scenario.variants)
      if (const auto* trace = std::get_if<TraceWorkload>(&variant.workload.source))
        options_.inputs->add_trace(trace->resolved);
  }

  /// The map behind a name of hardware, of a host or of a backend.
  std::optional<Node> expand(const Node& name) const {
    const std::string_view kind = config_kind(last_key(name.path()));
    if (kind.empty()) return std::nullopt;
    return config::load_config(config::find_config(kind, name, search_), search_);
  }

  /// Lays the overlay over the base. A map over a name (`hardware: {memory: ...}` over `hardware: h200`)
  /// changes the named file's fields.
  Node merge(Node base, const Node& overlay) const {
    for (const std::string_view key : {"hardware", "host", "backend"}) {
      const auto over = overlay.find(key);
      const auto under = base.find(key);
      if (!over || !under || !over->is_map() || !under->is_scalar() || over->has("base")) continue;
      if (const auto map = expand(*under)) base = base.with(key, *map);
    }
    return config::deep_merge(base, overlay);
  }

  void check_keys(const Node& root) { report_unknown(root, known_keys(true)); }

  void report_unknown(const Node& map, const std::vector<std::string>& known) {
    for (const std::string& key : map.keys()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      const Node value = map.at(key);
      errors_.add({value.key_location(), value.path(), "unknown key", name_hint(key, known, "keys")});
    }
  }

  std::vector<std::pair<std::string, Node>> read_overlays(const Node& root) {
    std::vector<std::pair<std::string, Node>> overlays;
    if (const auto variants = root.find("variants")) {
      errors_.collect([&] {
        for (const auto& [name, overlay] : variants->entries()) {
          if (!is_word(name)) {
            errors_.add({overlay.key_location(), overlay.path(),
                         fmt::format("'{}' is not a name for a variant", name),
                         "use letters, digits, '_' and '-'"});
            continue;
          }
          if (overlay.is_null()) {
            overlays.emplace_back(name, Node::empty_map(overlay.location()));
            continue;
          }
          if (!overlay.is_map()) {
            errors_.add(overlay.diagnostic("a variant is a map of what it changes",
                                           "write {} if it changes nothing"));
            continue;
          }
          report_unknown(overlay, known_keys(false));
          overlays.emplace_back(name, overlay);
        }
        if (overlays.empty() && errors_.empty())
          variants->fail("the list of variants is empty",
                         "leave the key away for one variant called 'default'");
      });
    } else {
      overlays.emplace_back("default", Node::empty_map(root.location()));
    }
    return overlays;
  }

  Variant read_variant(const std::string& name, const Node& node) {
    Variant variant;
    variant.name = name;
    Errors errors;
    errors.collect([&] {
      if (const auto hardware = node.find("hardware"))
        if (!hardware->is_null()) variant.hardware = config::read_hardware(*hardware, search_);
    });
    errors.collect([&] {
      if (const auto host = node.find("host"))
        if (!host->is_null()) variant.host = config::read_host(*host, search_);
    });
    errors.collect([&] {
      CompileChoice choice = read_compile(node, variant.hardware ? &*variant.hardware : nullptr, search_);
      variant.cuda_graph = choice.cuda_graph;
      variant.compile = std::move(choice.compile);
      variant.compile_where = std::move(choice.where);
    });
    errors.collect([&] { variant.steps = node.get<std::int64_t>("steps", config::at_least(1)); });
    errors.collect([&] {
      variant.seed = static_cast<std::uint64_t>(node.value_or<std::int64_t>("seed", 0, config::non_negative));
    });
    errors.collect([&] {
      variant.instructions_max = std::min(variant.instructions_max, options_.limits.step_instructions_max);
      variant.instructions_max =
          node.value_or<std::int64_t>("instructions_max", variant.instructions_max, config::at_least(1),
                                      config::at_most(options_.limits.step_instructions_max));
    });
    if (options_.steps) variant.steps = options_.steps;
    if (options_.seed) variant.seed = *options_.seed;
    errors.collect([&] {
      const auto hardware = node.find("hardware");
      if (!node.has("workload"))
        node.fail("missing key 'workload'",
                  "write 'workload: {network: gpt2, ...}', 'workload: {kernels: [...]}' or 'workload: "
                  "{trace: PATH}'");
      variant.workload = read_workload(node.at("workload"), folder_,
                                       {.instructions_max = variant.instructions_max,
                                        .steps = variant.steps.value_or(1),
                                        .has_hardware = hardware && !hardware->is_null(),
                                        .hardware = variant.hardware ? &*variant.hardware : nullptr,
                                        .one_device = variant.cuda_graph == CudaGraphMode::Full,
                                        .has_host = variant.host.has_value(),
                                        .search = search_,
                                        .limits = options_.limits,
                                        .known = options_.workloads.get()});
      const auto* network = std::get_if<NetworkWorkload>(&variant.workload.source);
      if (network != nullptr && variant.hardware && network->float32_matmul == Float32Matmul::Highest)
        variant.hardware->tf32_products = false;
      if (network != nullptr && network->parallel && variant.hardware)
        variant.hardware->links =
            read_links(node.at("workload").at("parallel"), *network->parallel, *variant.hardware, search_);
      if (network != nullptr && network->parallel && network->training && variant.compile &&
          variant.compile->backend.capture != CaptureKind::None && network->parallel->pipeline > 1)
        throw ConfigError(Diagnostic{.where = variant.compile_where,
                                     .path = "backend",
                                     .what = "the stages of a pipeline are modelled eager, not compiled",
                                     .hint = "write 'backend: eager', or 'pipeline: 1'"});
      if (network != nullptr && network->parallel && network->training && variant.compile &&
          variant.compile->backend.capture != CaptureKind::None && network->parallel->data > 1 &&
          network->parallel->shards_parameters() && !variant.compile->regional)
        throw ConfigError(
            Diagnostic{.where = variant.compile_where,
                       .path = "backend",
                       .what = "FSDP's hooks surround each block, and no compiled code reaches across them",
                       .hint = "write 'regional: true': each block is compiled by itself, then wrapped"});
      if (network != nullptr && variant.compile) {
        check_compile_names(node, *network->graph);
        check_training(node, *network, *variant.compile);
      }
      const auto shapes = node.find("shapes");
      if (!shapes || shapes->is_null()) return;
      if (network == nullptr)
        shapes->fail("only steps of a network have shapes", "write 'workload: {network: gpt2, ...}'");
      variant.shapes = read_shapes(*shapes, network->sizes);
    });
    errors.throw_if_any();
    return variant;
  }

  /// Variants share most of their tree, so they share its mistakes.
  void throw_without_repeats() const {
    Errors unique;
    std::vector<Diagnostic> seen;
    for (const Diagnostic& diagnostic : errors_.diagnostics()) {
      if (std::find(seen.begin(), seen.end(), diagnostic) != seen.end()) continue;
      seen.push_back(diagnostic);
      unique.add(diagnostic);
    }
    unique.throw_if_any();
  }

  std::string file_;
  std::filesystem::path folder_;
  const ScenarioOptions& options_;
  config::SearchPath search_;
  Errors errors_;
};

}  // namespace

namespace {

std::string text_of_trace(const std::filesystem::path& trace) {
  std::string quoted;
  for (const char c : trace.filename().string()) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return fmt::format(
      "name: \"{0}\"\nworkload: {{trace: \"{0}\", host_time: {{factor: auto}}}}\n"
      "variants: {{unprofiled: {{}}, cuda_graph: {{cuda_graph: full}}, traced: {{workload: {{host_time: "
      "traced}}}}}}\n",
      quoted);
}

}  // namespace

bool is_trace_file(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  for (const std::string_view end : {".json", ".json.gz", ".gz"})
    if (name.size() > end.size() && name.ends_with(end)) return true;
  return false;
}

config::Node scenario_tree(const std::filesystem::path& file, const config::Limits& limits) {
  return is_trace_file(file) ? config::load_text(text_of_trace(file), file.string())
                             : config::load_file(file, limits);
}

Scenario read_scenario_tree(const config::Node& root, const std::filesystem::path& file,
                            const ScenarioOptions& options) {
  // A handle of its own: what one reader has asked for is no matter of the next one's.
  return ScenarioReader(file.string(), options).read(config::Node(root.item()));
}

Scenario read_scenario(const std::filesystem::path& file, const ScenarioOptions& options) {
  return ScenarioReader(file.string(), options).read(config::load_file(file, options.limits));
}

Scenario read_scenario_text(std::string_view text, const std::string& name, const ScenarioOptions& options) {
  return ScenarioReader(name, options).read(config::load_text(text, name, options.limits));
}

Scenario trace_scenario(const std::filesystem::path& trace, const ScenarioOptions& options) {
  return read_scenario_text(text_of_trace(trace), trace.string(), options);
}

}  // namespace gpusim
