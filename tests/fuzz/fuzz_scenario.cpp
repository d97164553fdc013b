// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/answer.hpp"
#include "tests/fuzz/runs.hpp"
#include "tests/fuzz/targets.hpp"

namespace gpusim::fuzz {

void scenario(std::string_view text) {
  answered([&] { run_and_report(read_scenario_text(text, input_name(), scenario_options())); });
}

}  // namespace gpusim::fuzz
