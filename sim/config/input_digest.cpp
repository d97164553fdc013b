// SPDX-License-Identifier: Apache-2.0
#include "sim/config/input_digest.hpp"

#include <nettle/sha2.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <vector>

namespace gpusim::config {
namespace {

class Sha256 {
 public:
  Sha256() { sha256_init(&state_); }
  void add(std::string_view bytes) {
    sha256_update(&state_, bytes.size(), reinterpret_cast<const std::uint8_t*>(bytes.data()));
  }
  std::string text() {
    std::array<std::uint8_t, SHA256_DIGEST_SIZE> digest{};
    sha256_digest(&state_, digest.size(), digest.data());
    constexpr std::string_view hex = "0123456789abcdef";
    std::string out;
    for (const std::uint8_t byte : digest) {
      out += hex[byte >> 4U];
      out += hex[byte & 15U];
    }
    return out;
  }

 private:
  sha256_ctx state_{};
};

/// The map without the paths of files that are digested themselves.
Node without_paths(const Node& map) {
  const auto workload = map.is_map() ? map.find("workload") : std::nullopt;
  if (!workload || !workload->is_map()) return map;
  return map.with("workload", workload->without("trace").without("hf_config"));
}

}  // namespace

std::string sha256(std::string_view bytes) {
  Sha256 state;
  state.add(bytes);
  return state.text();
}

void InputDigest::add_tree(const Node& tree) {
  add("file", sha256(tree.canonical_text()));
}

void InputDigest::add_scenario(const Node& tree, bool from_trace) {
  // A handle of its own: what is asked for here is no matter of the reader's.
  const Node own(tree.item());
  Node said = without_paths(from_trace ? own.without("name") : own);
  if (const auto variants = said.find("variants"); variants && variants->is_map()) {
    Node all = variants->as_root();
    for (const auto& [name, overlay] : variants->entries()) all = all.with(name, without_paths(overlay));
    said = said.with("variants", all);
  }
  add("scenario", sha256(said.canonical_text()));
}

void InputDigest::add_trace(const std::string& path) {
  std::error_code ignored;
  std::ifstream file;
  if (std::filesystem::is_regular_file(path, ignored)) file.open(path, std::ios::binary);
  if (!file.is_open()) return add("trace", "unknown");
  Sha256 state;
  std::vector<char> chunk(std::size_t{1} << 18U);
  while (file) {
    file.read(chunk.data(), static_cast<std::streamsize>(chunk.size()));
    state.add({chunk.data(), static_cast<std::size_t>(file.gcount())});
  }
  add("trace", file.bad() ? "unknown" : state.text());
}

void InputDigest::add(std::string_view what, std::string_view value) {
  lines_.insert(std::string(what) + ' ' + std::string(value) + '\n');
}

std::string InputDigest::text() const {
  Sha256 state;
  for (const std::string& line : lines_) state.add(line);
  return "sha256:" + state.text();
}

std::string origin_line(std::string_view version, std::string_view input) {
  constexpr std::size_t shown = std::string_view("sha256:").size() + 16;
  return "gpusim " + std::string(version) + ", input " + std::string(input.substr(0, shown)) + '\n';
}

}  // namespace gpusim::config
