// SPDX-License-Identifier: Apache-2.0
// docs/backends.md says what configs/backends says. GPUSIM_APPROVE=1 rewrites its tables.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "sim/config/backend_reader.hpp"
#include "sim/config/load.hpp"
#include "tests/support/catch.hpp"

namespace gpusim {
namespace {

using Switches = std::vector<std::pair<bool, const char*>>;

const std::string path = GPUSIM_SOURCE_DIR "/docs/backends.md";

std::string page() {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The page with these rows in the table that begins with `header`.
std::string with_rows(const std::string& text, const std::string& header, const std::string& rows) {
  const std::size_t begin = text.find(header);
  REQUIRE(begin != std::string::npos);
  const std::size_t first = text.find("|---|\n", begin) + 6;
  const std::size_t last = text.find("\n\n", first - 1) + 1;
  return text.substr(0, first) + rows + text.substr(last);
}

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text.empty() ? "-" : text;
}

std::string on(const Switches& switches) {
  std::vector<std::string> words;
  for (const auto& [is_on, word] : switches)
    if (is_on) words.emplace_back(word);
  return listed(words);
}

/// One row for each backend: what it captures, and what it refuses.
std::string capture_row(const Backend& b) {
  std::vector<std::string> precisions;
  for (const ElementType type : b.precisions) precisions.emplace_back(name(type));
  std::vector<std::string> vendors;
  for (const Vendor vendor : b.vendors) vendors.emplace_back(name(vendor));
  const char* captures = b.capture == CaptureKind::None     ? "nothing"
                         : b.capture == CaptureKind::Dynamo ? "regions between graph breaks"
                                                            : "the whole step; a break is refused";
  return "| `" + b.key + "` | " + b.name + " | " + captures + " | " +
         (b.dynamic_shapes ? "any" : "one, each a build") + " | " + (b.training ? "yes" : "refused") + " | " +
         (b.python ? "yes" : "no") + " | " + (b.vendors.empty() ? "all" : listed(vendors)) + " | " +
         listed(precisions) + " |\n";
}

/// One row for each mode: what it joins and how it launches.
std::string mode_row(const Backend& b, const BackendMode& m) {
  const FusionRules& f = m.fusion;
  const ProductRules& p = m.products;
  const SimplifyRules& s = m.simplify;
  return "| `" + b.key + "`, `" + m.name + "` | " +
         on({{f.pointwise, "pointwise"},
             {f.into_reduction, "into_reduction"},
             {f.after_reduction, "after_reduction"},
             {f.reductions_together, "reductions_together"},
             {f.siblings, "siblings"},
             {f.mixed_orders, "mixed_orders"},
             {f.library_norms, "library_norms"}}) +
         " | " + std::to_string(f.ops_max) + " | " + (b.fused_attention ? "yes" : "no") + " | " +
         on({{p.bias, "bias"},
             {p.activation, "activation"},
             {p.epilogue, "epilogue"},
             {p.prologue, "prologue"},
             {p.templates, "templates"},
             {p.norm_prologue, "norm_prologue"},
             {p.padding, "padding"}}) +
         " | " +
         on({{s.dead_code, "dead_code"},
             {s.inference_dropout, "inference_dropout"},
             {s.no_ops, "no_ops"},
             {s.constants, "constants"},
             {s.freeze, "freeze"},
             {s.common_subexpressions, "common_subexpressions"},
             {s.layout, "layout"},
             {s.merge_qkv, "merge_qkv"},
             {s.merge_gate_up, "merge_gate_up"}}) +
         " | " + std::string(name(m.cuda_graphs)) + " |\n";
}

TEST_CASE("The page on backends lists what each captures and refuses, and what each mode does",
          "[docs][backend]") {
  std::string captures;
  std::string modes;
  const config::SearchPath search{.beside = {}, .builtin = GPUSIM_SOURCE_DIR "/configs"};
  for (const Backend& b : config::known_backends(search)) {
    captures += capture_row(b);
    for (const BackendMode& m : b.modes) modes += mode_row(b, m);
  }
  std::string text = with_rows(page(), "| backend | name |", captures);
  text = with_rows(text, "| backend, mode |", modes);
  if (std::getenv("GPUSIM_APPROVE") != nullptr) std::ofstream(path) << text;
  CHECK(page() == text);
}

TEST_CASE("The backend on the page is a backend", "[docs][backend]") {
  const std::string text = page();
  const std::size_t at = text.find("```yaml\nname: ");
  REQUIRE(at != std::string::npos);
  const std::string block = text.substr(at + 8, text.find("```", at + 8) - at - 8);
  const Backend mine = config::read_backend(config::load_text(block, "page.yaml"), {});
  CHECK(mine.modes.size() == 2);
  CHECK(mine.capture == CaptureKind::WholeGraph);
}

}  // namespace
}  // namespace gpusim
