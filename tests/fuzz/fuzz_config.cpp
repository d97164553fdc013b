// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "sim/config/backend_reader.hpp"
#include "sim/config/hardware_reader.hpp"
#include "sim/config/interconnect_reader.hpp"
#include "sim/config/load.hpp"
#include "tests/fuzz/answer.hpp"
#include "tests/fuzz/runs.hpp"
#include "tests/fuzz/targets.hpp"

namespace gpusim::fuzz {
namespace {

const Scenario& steps() {
  static const Scenario made = read_scenario_text(
      "hardware: h200\nhost: xeon-h200-cloud\nworkload: {network: gpt2, parameters: {layers: 2}, batch: 2, "
      "sequence: 64}\nvariants:\n  eager: {}\n  compiled: {backend: inductor}\n  training: {workload: {step: "
      "training, parallel: {kind: ddp, data: 16}}}\n",
      input_name(), scenario_options());
  return made;
}

}  // namespace

void config(std::string_view text) {
  answered([&] {
    const config::Node root = config::load_text(text, "input.yaml", small_limits());
    if (!root.is_map()) root.fail("must be a map");
    const config::SearchPath search = search_path();
    Errors errors;
    std::optional<GpuSpec> gpu;
    std::optional<HostSpec> host;
    std::optional<Backend> backend;
    std::optional<Interconnect> links;
    if (const auto node = root.find("hardware"))
      gpu = errors.collect([&] { return config::read_hardware(*node, search); });
    if (const auto node = root.find("host"))
      host = errors.collect([&] { return config::read_host(*node, search); });
    if (const auto node = root.find("backend"))
      backend = errors.collect([&] { return config::read_backend(*node, search); });
    if (const auto node = root.find("link")) errors.collect([&] { config::read_link(*node, search); });
    if (const auto node = root.find("interconnect"))
      links = errors.collect([&] {
        return config::read_interconnect(*node, gpu ? *gpu : *steps().variants.front().hardware, search);
      });
    errors.throw_if_any();
    for (Variant variant : steps().variants) {
      if (gpu) {
        const std::optional<Interconnect> own = variant.hardware->links;
        variant.hardware = gpu;
        variant.hardware->links = own;
      }
      if (host) variant.host = host;
      if (links && variant.hardware->links) variant.hardware->links = links;
      if (backend && variant.compile) {
        variant.compile->backend = *backend;
        if (!backend->modes.empty()) variant.compile->mode = backend->modes.front();
      }
      answered([&] { run_and_report(variant); });
    }
  });
}

}  // namespace gpusim::fuzz
