// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/targets.hpp"

#include <array>

#include "tests/fuzz/mutate_yaml.hpp"

namespace gpusim::fuzz {
namespace {

constexpr std::array<const char*, 1> scenario_seeds{"scenarios"};
constexpr std::array<const char*, 2> network_seeds{"configs/networks", "tests/data/networks"};
constexpr std::array<const char*, 1> hf_seeds{"tests/data/hf"};
constexpr std::array<const char*, 2> trace_seeds{"scenarios/seeds/traces", "tests/data/traces/public"};

constexpr std::array<Target, 7> all{{
    {"scenario", scenario, mutate_yaml, scenario_seeds},
    {"network", network, mutate_yaml, network_seeds},
    {"config", config, mutate_yaml, {}},
    {"hf_config", hf_config, mutate_json, hf_seeds},
    {"trace", trace, mutate_json, trace_seeds},
    {"expression", expression, mutate_lines, {}},
    {"paths", paths, mutate_lines, {}},
}};

}  // namespace

std::span<const Target> targets() {
  return all;
}

}  // namespace gpusim::fuzz
