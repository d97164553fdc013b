// SPDX-License-Identifier: Apache-2.0
// `gpusim advise`: what to change in a scenario first. docs/advise.md is its manual.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/advise/advice_report.hpp"
#include "sim/advise/search.hpp"
#include "sim/app/command_line.hpp"
#include "sim/config/node.hpp"

namespace CLI {
class App;
}

namespace gpusim {

struct AdviseArguments {
  std::string file;
  std::vector<std::string> sets;
  std::string variant;  ///< Empty: the first.
  std::string objective = "step";
  std::string memory_max;             ///< "80 GB"; empty: what the device has.
  std::string latency_max;            ///< "20 ms"; empty: none.
  std::string price;                  ///< "2.50 $/h"; empty: unknown.
  std::vector<std::string> backends;  ///< By name, or "all"; empty: those that were measured.
  std::optional<std::int64_t> steps;
  std::int64_t jobs = 0;  ///< Threads; 0: as many as there are cores.
  std::string format = "text";
};

/// Adds the options of the command to `app`.
void add_advise_options(CLI::App& app, AdviseArguments& arguments);

struct AdviceFound {
  advise::Question question;
  advise::Advice advice;
  advise::Subject subject;
};

/// Tries what the scenario of `tree` allows. Throws ConfigError: bad arguments, a scenario that cannot be
/// read.
AdviceFound find_advice(const config::Node& tree, const AdviseArguments& arguments,
                        const std::vector<std::filesystem::path>& config_folders,
                        const config::Limits& limits = {});

ExitCode run_advise(const AdviseArguments& arguments, const Surroundings& surroundings);

}  // namespace gpusim
