// SPDX-License-Identifier: Apache-2.0
// Links between GPUs: the shipped files, and what a user may get wrong in one.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <string>

#include "sim/config/hardware_reader.hpp"
#include "sim/config/interconnect_reader.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/message_of.hpp"

namespace gpusim {
namespace {

const std::filesystem::path configs = std::filesystem::path(GPUSIM_SOURCE_DIR) / "configs";

config::SearchPath search() {
  config::SearchPath path;
  path.builtin = configs;
  return path;
}

std::string answer(const std::string& link) {
  return test::message_of([&] { config::read_link(config::load_text(link, "l.yaml"), search()); });
}

Interconnect links_of(const std::string& interconnect, const std::string& gpu = "h200") {
  const GpuSpec spec = config::read_hardware(config::load_text(gpu, "gpu"), search());
  return config::read_interconnect(config::load_text(interconnect, "s.yaml"), spec, search());
}

std::string refusal(const std::string& interconnect, const std::string& gpu = "h200") {
  return test::message_of([&] { links_of(interconnect, gpu); });
}

const std::string good =
    "name: Link\ntype: nvlink\nbandwidth: 10 GB/s\nchannels: 2\nprotocols: {simple: {hop: 1 us}}\n";

TEST_CASE("Every shipped link loads and is possible", "[interconnects]") {
  const std::vector<LinkSpec> links = config::known_links(search());
  CHECK(links.size() >= 13);
  for (const LinkSpec& link : links) {
    INFO(link.key);
    CHECK(problems(link).empty());
    CHECK(link.under(LinkProtocol::Simple).allowed);
    // 120 of 128 bytes is the least that any protocol of large messages pays.
    CHECK(link.ring < link.bandwidth);
  }
}

TEST_CASE("Every number of the shipped links has its source on its line", "[interconnects]") {
  int numbers = 0;
  for (const auto& file : std::filesystem::directory_iterator(configs / "interconnects")) {
    std::ifstream text(file.path());
    std::string line;
    while (std::getline(text, line)) {
      const std::size_t hash = line.find('#');
      const std::string code = line.substr(0, hash);
      const std::size_t colon = code.find(": ");
      if (colon == std::string::npos || code.rfind("name:", 0) == 0) continue;
      const std::string value = code.substr(colon);
      if (std::none_of(value.begin(), value.end(), [](unsigned char c) { return std::isdigit(c) != 0; }))
        continue;
      if (code.rfind("type:", 0) == 0) continue;
      ++numbers;
      INFO(file.path().filename().string() << ": " << line);
      CHECK(hash != std::string::npos);
    }
  }
  CHECK(numbers > 60);
}

TEST_CASE("Every GPU that names a link names one that is there", "[interconnects]") {
  int named = 0;
  for (const GpuSpec& gpu : config::known_hardware(search())) {
    INFO(gpu.key);
    const auto links = config::interconnect_of(gpu, config::load_text("x", "s.yaml"), search());
    CHECK(links.has_value() == !gpu.interconnect.empty());
    if (links) ++named;
  }
  CHECK(named >= 8);
}

TEST_CASE("A scenario names one link or both; the GPU's own stands for the one within a node",
          "[interconnects]") {
  CHECK(links_of("nvlink3").intra.key == "nvlink3");
  CHECK_FALSE(links_of("nvlink3").inter.has_value());
  CHECK(links_of("infiniband_ndr").intra.key == "nvlink4");
  CHECK(links_of("infiniband_ndr").inter->key == "infiniband_ndr");
  CHECK(links_of("{inter: infiniband_hdr}", "a100_80gb").intra.key == "nvlink3");
  CHECK(links_of("{intra: pcie5, inter: roce_400}").intra.key == "pcie5");
  CHECK(links_of("{base: nvlink4, gpus: 4}").intra.gpus == 4);
  CHECK(links_of("{intra: {base: nvlink4, channels: 8}}").intra.channels == 8);
}

TEST_CASE("Mistakes in a link are located", "[bad_input][interconnects]") {
  CHECK(answer(good) == "no error");
  const auto [link, message] = GENERATE(table<std::string, std::string>({
      {"nvlink9", "l.yaml:1:1: error: unknown"},
      {"[1]", "l.yaml:1:1: error: this has to be a name or a map"},
      {good + "speed: 3\n", "l.yaml:6:1: error: speed: unknown key"},
      {good + "gpus: 1\n", "l.yaml:6:7: error: gpus: must be at least 2, not 1"},
      {good + "ring: 11 GB/s\n", "l.yaml:6:7: error: ring: rings carry no more than the bandwidth, 10 GB/s"},
      {good + "reached: 11 GB/s\n",
       "l.yaml:6:10: error: reached: nothing reaches more than the bandwidth, 10 GB/s"},
      {good + "multicast: 3\n", "l.yaml:6:12: error: multicast"},
      {"{base: nvlink4, bandwidth: 10}", "l.yaml:1:28: error: bandwidth"},
      {"{base: nvlink4, bandwidth: 0 GB/s}", "l.yaml:1:28: error: bandwidth: must be positive"},
      {"{base: nvlink4, type: copper}", "l.yaml:1:23: error: type: unknown name 'copper'"},
      {"{base: nvlink4, channels: 0}", "l.yaml:1:27: error: channels: must be at least 1, not 0"},
      {"{base: nvlink4, protocols: {simple: {hop: -1 us}}}",
       "error: protocols.simple.hop: must not be negative"},
      {"{base: nvlink4, protocols: {ll64: {hop: 1 us}}}", "protocols.ll64: unknown key"},
      {"{base: nvlink4, protocols: {ll: null, ll128: null, simple: null}}",
       "error: protocols: at least one protocol must be allowed"},
      {"{type: nvlink}", "l.yaml:1:1: error: missing"},
  }));
  INFO(link);
  INFO(answer(link));
  CHECK_THAT(answer(link), test::ContainsSubstring(message));
}

TEST_CASE("A link in the wrong place is refused", "[bad_input][interconnects]") {
  CHECK_THAT(
      refusal("{intra: infiniband_ndr}"),
      test::ContainsSubstring("s.yaml:1:9: error: intra: InfiniBand NDR, 400 Gbit/s a GPU joins nodes"));
  CHECK_THAT(refusal("{inter: nvlink4}"),
             test::ContainsSubstring("s.yaml:1:9: error: inter: NVLink 4, NVSwitch does not leave a node"));
  CHECK_THAT(refusal("infiniband_ndr", "mi300x"),
             test::ContainsSubstring("how the GPUs of a node are joined is not known of"));
}

}  // namespace
}  // namespace gpusim
