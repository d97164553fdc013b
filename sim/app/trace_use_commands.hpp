// SPDX-License-Identifier: Apache-2.0
// The commands below `gpusim trace` that go beyond looking at a trace: their options, and which one was
// asked for.
#pragma once

#include "sim/app/command_line.hpp"
#include "sim/app/trace_calibrate_command.hpp"
#include "sim/app/trace_diff_command.hpp"
#include "sim/app/trace_import_command.hpp"
#include "sim/app/trace_what_if_command.hpp"
#include "sim/config/names.hpp"

namespace CLI {
class App;
}

namespace gpusim {

class TraceUseCommands {
 public:
  /// Adds the commands; has to live until the command line is read.
  explicit TraceUseCommands(CLI::App& trace);
  /// Whether one of them was asked for.
  bool parsed() const;
  /// Runs it. Throws ConfigError, TraceError, engine::DeadlockError.
  ExitCode run(const Surroundings& surroundings, const config::SearchPath& search) const;

 private:
  void add_calibrate(CLI::App& trace);
  void add_diff(CLI::App& trace);
  void add_import(CLI::App& trace);
  void add_what_if(CLI::App& trace);

  TraceCalibrateArguments calibrate_;
  DiffArguments diff_;
  ImportArguments import_;
  WhatIfArguments what_if_;
  CLI::App* calibrate_app_ = nullptr;
  CLI::App* diff_app_ = nullptr;
  CLI::App* import_app_ = nullptr;
  CLI::App* what_if_app_ = nullptr;
};

}  // namespace gpusim
