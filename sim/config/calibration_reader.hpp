// SPDX-License-Identifier: Apache-2.0
// `calibration:` of a hardware file: the numbers of the kernel formulas, section by section.
#pragma once

#include <string>
#include <string_view>

#include "models/hardware/kernel_calibration.hpp"
#include "sim/config/node.hpp"

namespace gpusim::config {

/// All parameters of calibration_parameters(), each required and positive, times with their unit; unknown
/// sections and keys are mistakes. Throws ConfigError with every mistake found.
KernelCalibration read_calibration(const Node& calibration);

/// The same as text to be pasted into a hardware file. `source` says for each parameter where it is from, for
/// the comment behind it.
template <class Source>
std::string write_calibration(const KernelCalibration& calibration, Source source);

/// One parameter's value as files have it: "0.95 us", "0.94".
std::string calibration_value(const CalibrationParameter& parameter, const KernelCalibration& calibration);

template <class Source>
std::string write_calibration(const KernelCalibration& calibration, Source source) {
  std::string text = "calibration:\n";
  std::string_view section;
  for (const CalibrationParameter& parameter : calibration_parameters()) {
    if (parameter.section != section) {
      section = parameter.section;
      text += "  " + std::string(section) + ":\n";
    }
    text += "    " + std::string(parameter.key) + ": " + calibration_value(parameter, calibration) + "  # " +
            source(parameter) + "\n";
  }
  return text;
}

}  // namespace gpusim::config
