// SPDX-License-Identifier: Apache-2.0
// `gpusim calibrate`: fits a device's kernel parameters to a table of measured kernels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/app/command_line.hpp"
#include "sim/config/names.hpp"

namespace gpusim {

struct CalibrateArguments {
  std::vector<std::string> tables;
  std::string base;               ///< Name or file of the device to start from.
  std::string out;                ///< Where the `calibration:` section goes; empty: nowhere.
  std::string folds = "grouped";  ///< "grouped", "random" or "none".
  std::vector<std::string> families;
  std::int64_t seed = 1;
  std::int64_t worst = 12;
  bool check = false;  ///< Only say how well `base` does as it is.
};

/// Fits and prints the table of errors; progress goes to standard error. Throws ConfigError for bad tables or
/// a bad device.
ExitCode run_calibrate(const CalibrateArguments& arguments, const Surroundings& surroundings,
                       const config::SearchPath& search);

}  // namespace gpusim
