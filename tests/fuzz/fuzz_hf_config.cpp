// SPDX-License-Identifier: Apache-2.0
#include "sim/config/hf_config.hpp"

#include <memory>

#include "sim/config/load.hpp"
#include "sim/config/network_reader.hpp"
#include "tests/fuzz/answer.hpp"
#include "tests/fuzz/run_network.hpp"
#include "tests/fuzz/runs.hpp"
#include "tests/fuzz/targets.hpp"

namespace gpusim::fuzz {

void hf_config(std::string_view text) {
  answered([&] {
    const config::Node file = config::load_text(text, "config.json", small_limits());
    for (const StepKind step : {StepKind::Decode, StepKind::Training}) {
      config::HfNetwork hf = config::read_hf_config(file, {.sequence = 16, .step = step});
      const NetworkSizes sizes{.batch = 2, .sequence = 16, .step = step, .parameters = hf.parameters};
      run_network(std::make_shared<const Network>(
                      config::read_network(config::load_text(hf.network, "config.json"), search_path())),
                  &sizes);
    }
  });
}

}  // namespace gpusim::fuzz
