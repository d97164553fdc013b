// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "sim/app/compiled_variant.hpp"
#include "sim/config/load.hpp"
#include "sim/config/network_reader.hpp"
#include "tests/fuzz/answer.hpp"
#include "tests/fuzz/run_network.hpp"
#include "tests/fuzz/runs.hpp"
#include "tests/fuzz/targets.hpp"

namespace gpusim::fuzz {
namespace {

/// A step of some network in each of the ways that price it differently.
const Scenario& steps() {
  static const Scenario made = read_scenario_text(
      "hardware: h200\nhost: xeon-h200-cloud\nworkload: {network: seed_mlp, batch: 2, sequence: 16, dtype: "
      "bf16}\nvariants:\n  eager: {workload: {step: prefill}}\n  compiled: {backend: inductor, workload: "
      "{step: decode}}\n  training: {workload: {step: training}}\n",
      input_name(), scenario_options());
  return made;
}

}  // namespace

void run_network(std::shared_ptr<const Network> network, const NetworkSizes* sizes) {
  for (Variant variant : steps().variants) {
    auto& workload = std::get<NetworkWorkload>(variant.workload.source);
    workload.network = network;
    workload.sizes.parameters.clear();
    if (sizes != nullptr) {
      const StepKind step = workload.sizes.step;
      workload.sizes = *sizes;
      workload.sizes.step = step;
    }
    answered([&] {
      rebuild(workload, variant);
      run_and_report(variant);
    });
  }
}

void network(std::string_view text) {
  answered([&] {
    const config::Node file = config::load_text(text, "input.yaml", small_limits());
    run_network(std::make_shared<const Network>(config::read_network_file(file, "input", search_path())),
                nullptr);
  });
}

}  // namespace gpusim::fuzz
