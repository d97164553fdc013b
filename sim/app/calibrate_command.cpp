// SPDX-License-Identifier: Apache-2.0
#include "sim/app/calibrate_command.hpp"

#include <fmt/format.h>

#include <set>

#include "sim/app/output_file.hpp"
#include "sim/calibrate/fit.hpp"
#include "sim/config/calibration_reader.hpp"
#include "sim/config/hardware_reader.hpp"
#include "sim/config/load.hpp"

namespace gpusim {

ExitCode run_calibrate(const CalibrateArguments& arguments, const Surroundings& surroundings,
                       const config::SearchPath& search) {
  const GpuSpec base = config::read_hardware(config::load_text(arguments.base, "--base"), search);
  calibrate::KernelTable table;
  for (const std::string& file : arguments.tables) {
    calibrate::KernelTable one = calibrate::read_kernel_table(file);
    for (auto& kernel_case : one.cases) table.cases.push_back(std::move(kernel_case));
    for (auto& name : one.unknown) table.unknown.push_back(std::move(name));
  }
  if (!table.unknown.empty())
    surroundings.err(fmt::format("{} cases are of no known kind and left out, the first is '{}'\n",
                                 table.unknown.size(), table.unknown.front()));
  if (arguments.check) {
    surroundings.out(
        calibrate::to_text(calibrate::evaluate(base, table), false, static_cast<int>(arguments.worst)));
    return ExitCode::Done;
  }
  calibrate::FitOptions options;
  options.folds = arguments.folds == "random" ? calibrate::Folds::Random : calibrate::Folds::Grouped;
  options.cross_validate = arguments.folds != "none";
  options.seed = static_cast<std::uint64_t>(arguments.seed);
  options.families = arguments.families;
  options.progress = [&](std::string_view line) { surroundings.err(std::string(line) + "\n"); };
  const calibrate::FitResult result = calibrate::fit(base, table, options);
  surroundings.out("fitted to all cases\n");
  surroundings.out(calibrate::to_text(result.families, false, 0));
  if (options.cross_validate) {
    surroundings.out(
        fmt::format("\nheld out ({} folds of {})\n", options.fold_count,
                    options.folds == calibrate::Folds::Grouped ? "whole groups" : "single cases"));
    surroundings.out(calibrate::to_text(result.families, true, static_cast<int>(arguments.worst)));
  }
  if (!arguments.out.empty()) {
    write_output(
        arguments.out,
        config::write_calibration(*result.gpu.calibration, [&](const CalibrationParameter& parameter) {
          const bool changed = parameter.value(*result.gpu.calibration) != parameter.value(*base.calibration);
          return changed ? std::string("measured: kernels.csv, fitted") : "transferred: " + base.key;
        }));
    surroundings.err(fmt::format("calibration written to {}\n", arguments.out));
  }
  return ExitCode::Done;
}

}  // namespace gpusim
