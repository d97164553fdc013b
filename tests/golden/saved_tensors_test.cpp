// SPDX-License-Identifier: Apache-2.0
// What min-cut keeps for the backward pass against what AOTAutograd kept on an H200: the tensors that the
// backward graphs of validation/h200/compiled/fusion.jsonl.gz take beside parameters and inputs.
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "models/compiler/training_regions.hpp"
#include "models/graph/training.hpp"
#include "sim/config/backend_reader.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/networks.hpp"

namespace {

using namespace gpusim;
using namespace gpusim::test;
using nlohmann::json;

/// An aten op's result; elements -1 where the generated program does not say what it looks like.
struct Kept {
  std::string op;
  std::string element;
  std::int64_t elements = -1;
};

json measured(const std::string& row) {
  const std::string file = std::string(GPUSIM_SOURCE_DIR) + "/validation/h200/compiled/fusion.jsonl.gz";
  gzFile in = gzopen(file.c_str(), "rb");
  REQUIRE(in != nullptr);
  std::string text;
  std::vector<char> chunk(1 << 16);
  for (int n = 0; (n = gzread(in, chunk.data(), static_cast<unsigned>(chunk.size()))) > 0;)
    text.append(chunk.data(), static_cast<std::size_t>(n));
  gzclose(in);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.find("\"" + row + "\"") != std::string::npos) return json::parse(line);
  FAIL("no row " << row);
  return {};
}

/// "permute" of "permute_12".
std::string op_of(const std::string& node) {
  return std::regex_replace(node, std::regex("_[0-9]+$"), "");
}

struct Measured {
  std::vector<Kept> kept;
  /// Kept as well, but its kernel writes over it, so that the program calls it by its own buffer's name.
  std::size_t overwritten = 0;
};

/// What the backward graph reads and neither makes nor is given by the caller.
Measured kept_by(const json& row) {
  const json& graph = row.at("graphs").at(1);
  std::set<std::string> names;
  std::set<std::string> parameters;
  const std::regex word("[a-z_]*[a-z](_[0-9]+)?");
  const std::set<std::string> ops{"add",     "addmm",     "amax",    "convert_element_type",
                                  "div",     "embedding", "getitem", "iota",
                                  "log",     "mm",        "mul",     "permute",
                                  "primals", "rsqrt",     "view"};
  const auto read = [&](const std::string& text) {
    for (std::sregex_iterator it(text.begin(), text.end(), word); it != std::sregex_iterator(); ++it) {
      const std::string node = it->str();
      if (ops.count(op_of(node)) == 0) continue;
      (op_of(node) == "primals" ? parameters : names).insert(node);
    }
  };
  for (const json& call : graph.at("functions").at(0).at("calls")) {
    if (call.contains("buffers"))
      for (const auto& [pointer, buffer] : call.at("buffers").items()) read(buffer.get<std::string>());
    if (call.contains("arguments"))
      for (const json& argument : call.at("arguments"))
        if (argument.is_string()) read(argument.get<std::string>());
  }
  Measured measured;
  for (const std::string& name : names) {
    Kept kept{.op = op_of(name), .element = {}};
    for (const auto& [kernel, definition] : graph.at("kernels").items())
      for (const json& node : definition.at("nodes"))
        if (node.at(0) == name && node.at(1).is_null()) {
          kept.element = node.at(2).at(0);
          kept.elements = 1;
          for (const json& size : node.at(2).at(1)) kept.elements *= size.get<std::int64_t>();
        }
    measured.kept.push_back(kept);
  }
  const std::size_t gradients = 1;
  measured.overwritten = graph.at("inputs").get<std::size_t>() - gradients - parameters.size() - names.size();
  return measured;
}

/// What aten calls the op that makes a tensor. A layer's product is over the transposed weight there.
std::string aten_name(const OpGraph& graph, const Op& op) {
  const std::string kind(op.kind->name);
  if (kind == "to")
    return graph.tensors[op.outputs[0]].type.shape.rank() == 2 ? "permute" : "convert_element_type";
  if (kind == "transpose") return "permute";
  if (kind == "arange") return "iota";
  if (kind == "linear") return op.inputs.size() > 2 && op.inputs[2] != graph_none ? "addmm" : "mm";
  return op.outputs.size() > 1 ? "getitem" : kind;
}

std::vector<Kept> kept_by_plan(const std::string& network, std::int64_t batch) {
  const OpGraph forward =
      build_graph(shipped_network(network),
                  sizes(batch, 1024, StepKind::Training, {{"layers", std::int64_t{2}}}, ElementType::Fp32));
  TrainingOptions training;
  training.functional = true;
  CompileOptions options;
  options.backend = config::read_backend(config::load_text("name: inductor", "test").at("name"), {});
  options.mode = options.backend.modes.front();
  const TrainingRegions regions = training_regions(training_graph(forward, training), options, h200());
  REQUIRE(regions.recompute.size() == 1);
  const OpGraph& joint = *regions.recompute[0].joint;
  std::vector<Kept> kept;
  for (const TensorIndex t : regions.recompute[0].plan.saved) {
    const GraphTensor& tensor = joint.tensors[t];
    const std::string_view element = name(tensor.type.element);
    kept.push_back({.op = aten_name(joint, joint.ops[tensor.producer]),
                    .element = element == "fp32"    ? "f32"
                               : element == "int64" ? "i64"
                                                    : std::string(element),
                    .elements = elements(tensor.type)});
  }
  return kept;
}

/// What only one of both keeps: "measured: ...; planned: ...".
std::string difference(std::vector<Kept> measured, std::vector<Kept> planned) {
  // Those that are known in full go first.
  std::stable_sort(measured.begin(), measured.end(),
                   [](const Kept& a, const Kept& b) { return a.elements > b.elements; });
  std::vector<std::string> only_measured;
  for (const Kept& kept : measured) {
    const auto match = std::find_if(planned.begin(), planned.end(), [&](const Kept& p) {
      return p.op == kept.op &&
             (kept.elements < 0 || (p.elements == kept.elements && p.element == kept.element));
    });
    if (match != planned.end())
      planned.erase(match);
    else
      only_measured.push_back(kept.op);
  }
  std::string text = "measured:";
  std::sort(only_measured.begin(), only_measured.end());
  for (const std::string& op : only_measured) text += " " + op;
  text += "; planned:";
  for (const Kept& kept : planned)
    text += " " + kept.op + " " + kept.element + " " + std::to_string(kept.elements);
  return text;
}

}  // namespace

TEST_CASE("min-cut keeps of GPT-2 what AOTAutograd kept, tensor by tensor") {
  const Measured found = kept_by(measured("train/gpt2_L2_B8_T1024"));
  CHECK(found.kept.size() == 48);
  CHECK(found.overwritten == 1);
  // Seed and offset of each attention's generator, which no dropout uses, are not modelled; the positions
  // are a constant in the plan. The logits, [8192, 50304], are what backward writes over.
  CHECK(difference(found.kept, kept_by_plan("gpt2", 8)) ==
        "measured: getitem getitem getitem getitem; planned: mm bf16 412090368");
}

TEST_CASE("min-cut keeps of Llama-160M what AOTAutograd kept, tensor by tensor") {
  const Measured found = kept_by(measured("train/llama_160m_L2_B4_T1024"));
  CHECK(found.kept.size() == 51);
  CHECK(found.overwritten == 3);
  // Overwritten: the logits, [4096, 32000], and in each MLP one of the two products of 4096 * 2048.
  CHECK(difference(found.kept, kept_by_plan("llama_160m", 4)) ==
        "measured: getitem getitem getitem getitem; planned: mm bf16 8388608 mm bf16 8388608 mm bf16 "
        "131072000");
}
