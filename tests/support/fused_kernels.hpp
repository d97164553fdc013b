// SPDX-License-Identifier: Apache-2.0
// Kernels that TorchInductor compiled on an H200 (validation/h200/compiled/fusion.jsonl.gz), in the words in
// which plans are compared with them.
#pragma once

#include <zlib.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "models/graph/network.hpp"
#include "tests/support/catch.hpp"

namespace gpusim::test {

using nlohmann::json;

inline std::vector<json> measured_rows() {
  const std::string file = std::string(GPUSIM_SOURCE_DIR) + "/validation/h200/compiled/fusion.jsonl.gz";
  gzFile in = gzopen(file.c_str(), "rb");
  REQUIRE(in != nullptr);
  std::string text;
  std::vector<char> chunk(1 << 16);
  for (int n = 0; (n = gzread(in, chunk.data(), static_cast<unsigned>(chunk.size()))) > 0;)
    text.append(chunk.data(), static_cast<std::size_t>(n));
  gzclose(in);
  std::vector<json> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) rows.push_back(json::parse(line));
  return rows;
}

/// What is compared of a kernel or library call.
struct ComparedKernel {
  std::string what;  ///< "poi", "per", "red", or a library call's name.
  std::int64_t elements = 0;
  std::int64_t reduced = 1;
  std::set<std::string> ops;  ///< That compute something.
  friend auto operator<=>(const ComparedKernel&, const ComparedKernel&) = default;
};

inline std::string describe(const ComparedKernel& seen) {
  std::string text = seen.what;
  if (seen.elements > 0) text += ' ' + std::to_string(seen.elements) + 'x' + std::to_string(seen.reduced);
  for (const std::string& op : seen.ops) text += ' ' + op;
  return text;
}

/// Names of ops that only look at memory, that stand for a library call which a kernel prepares, or that
/// Inductor's comments carry on to kernels that read what came of them.
inline bool computes(const std::string& name) {
  static const std::set<std::string> views{"view",
                                           "_unsafe_view",
                                           "transpose",
                                           "permute",
                                           "t",
                                           "select",
                                           "slice",
                                           "expand",
                                           "unsqueeze",
                                           "squeeze",
                                           "split",
                                           "split_with_sizes",
                                           "reshape",
                                           "flatten",
                                           "chunk",
                                           "unbind",
                                           "arange",
                                           "scalar_tensor",
                                           "clone",
                                           "lift_fresh_copy",
                                           "mm",
                                           "addmm",
                                           "bmm",
                                           "_grouped_mm",
                                           "detach",
                                           "copy",
                                           "full",
                                           "empty",
                                           "zeros",
                                           "zeros_like",
                                           "prepare_softmax_online",
                                           "where",
                                           "sort",
                                           "floor_divide",
                                           "exp",
                                           "sub"};
  return views.count(name) == 0 && name.rfind("_scaled_dot_product", 0) != 0;
}

/// Whether an op that the kernel's comment names is computed in it: the comment also names what its inputs
/// came from. `nodes`: what is in the kernel, norms and softmax in their parts.
inline bool is_inside(const std::string& op, const json& nodes) {
  std::vector<std::string> parts{"aten." + op + "."};
  if (op.find("batch_norm") != std::string::npos)
    parts = {"aten.sub."};
  else if (op.find("norm") != std::string::npos)
    parts = {"aten.rsqrt.", "aten.var_mean."};
  if (op.find("softmax") != std::string::npos)
    parts = {"aten.exp.", "aten.amax.", "prims.prepare_softmax_online."};
  // Written in other words: decomposed, or without a node of their own.
  static const std::set<std::string> always{"gelu",  "silu",        "_to_copy",   "mean",
                                            "copy_", "index_put",   "index_copy", "stack",
                                            "pow",   "masked_fill", "cumsum",     "max_pool2d_with_indices"};
  if (always.count(op) != 0) return true;
  for (const json& node : nodes)
    for (const std::string& part : parts)
      if (node[1].is_string() && node[1].get<std::string>().rfind(part, 0) == 0) return true;
  return false;
}

inline std::string library_call(const std::string& name) {
  if (name == "linear" || name == "matmul" || name == "addmm") return "product";
  if (name == "extern_kernels.mm" || name == "extern_kernels.addmm" || name == "extern_kernels.bmm")
    return "product";
  if (name == "extern_kernels.convolution" || name == "conv2d") return "convolution";
  if (name == "extern_kernels._grouped_mm" || name == "grouped_mm") return "grouped product";
  if (name.find("scaled_dot_product") != std::string::npos) return "attention";
  std::string op = name;
  if (op.rfind("torch.ops.aten.", 0) == 0) op = op.substr(15);
  op = op.substr(0, op.find('.'));
  while (!op.empty() && op.back() == '_') op.pop_back();
  return op == "argsort" ? "sort" : op;
}

inline std::vector<ComparedKernel> measured_kernels(const json& row) {
  std::vector<ComparedKernel> all;
  for (const json& graph : row["graphs"]) {
    for (const json& function : graph["functions"])
      for (const json& call : function["calls"]) {
        ComparedKernel seen;
        const std::string kernel = call["kernel"];
        if (call["kind"] != "triton") {
          seen.what = library_call(kernel);
        } else {
          seen.what = kernel.substr(7, 3);
          const json& sizes = call["sizes"];
          seen.reduced = sizes.value("r0_numel", std::int64_t{1});
          seen.elements =
              sizes.value("xnumel", std::int64_t{1}) * sizes.value("ynumel", std::int64_t{1}) * seen.reduced;
          const json& nodes = graph["kernels"][kernel]["nodes"];
          for (const json& name : call["aten"]) {
            std::string op = name.get<std::string>();
            op = op.substr(op.find('.') + 1);
            if (computes(op) && is_inside(op, nodes)) seen.ops.insert(op);
          }
        }
        all.push_back(seen);
      }
  }
  return all;
}

/// The scenario of a row: what its network is built with.
inline NetworkSizes sizes_of(const json& row) {
  NetworkSizes sizes;
  sizes.batch = row["batch"];
  sizes.sequence = row["sequence"];
  sizes.step = *find_step_kind(row["step"].get<std::string>());
  sizes.dtype = *find_element_type(row["dtype"].get<std::string>());
  sizes.compiled = true;
  for (const auto& [name, value] : row["parameters"].items()) {
    if (value.is_boolean())
      sizes.parameters[name] = value.get<bool>();
    else if (value.is_number_integer())
      sizes.parameters[name] = value.get<std::int64_t>();
    else if (value.is_number())
      sizes.parameters[name] = value.get<double>();
    else
      sizes.parameters[name] = value.get<std::string>();
  }
  return sizes;
}

/// How many kernels differ between two lists, and which.
struct Differences {
  int apart = 0;
  std::string text;
};
inline Differences differences(const std::vector<ComparedKernel>& measured,
                               const std::vector<ComparedKernel>& planned) {
  std::multiset<ComparedKernel> left(planned.begin(), planned.end());
  std::vector<ComparedKernel> missing;
  for (const ComparedKernel& seen : measured) {
    if (const auto found = left.find(seen); found != left.end())
      left.erase(found);
    else
      missing.push_back(seen);
  }
  Differences result{.apart = static_cast<int>(std::max(missing.size(), left.size())), .text = {}};
  for (const ComparedKernel& seen : missing) result.text += "\n  measured " + describe(seen);
  for (const ComparedKernel& seen : left) result.text += "\n  planned  " + describe(seen);
  return result;
}

}  // namespace gpusim::test
