// SPDX-License-Identifier: Apache-2.0
// Fits the parameters of the kernel formulas to measured kernels, family by family, and says how well the
// fit predicts cases that it has not seen.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "models/hardware/gpu_spec.hpp"
#include "sim/calibrate/kernel_table.hpp"

namespace gpusim::calibrate {

/// How cases are held out: whole groups (a shape, hot and cold together) or each by itself.
enum class Folds { Grouped, Random };

struct FitOptions {
  Folds folds = Folds::Grouped;
  int fold_count = 5;
  std::uint64_t seed = 1;
  int starts = 2;                     ///< Searches from different starting points; the best one counts.
  bool cross_validate = true;         ///< Fit each family again without each fold.
  std::vector<std::string> families;  ///< Only these; empty: all.
  std::function<void(std::string_view)> progress;  ///< Called with a line of text now and then.
};

/// A case with what the formulas say of it.
struct CaseResult {
  std::string name;
  double measured_us = 0;
  double fitted_us = 0;    ///< By parameters fitted to all cases, this one included.
  double held_out_us = 0;  ///< By parameters fitted without it; 0: not cross-validated.
  int measured_ops = 0;
  int predicted_ops = 0;
};

struct Errors3 {
  int n = 0;
  double median = 0;
  double p90 = 0;
  double max = 0;
};

struct FamilyResult {
  std::string family;
  int parameters = 0;  ///< Fitted to this family's cases.
  std::vector<CaseResult> cases;
};

struct FitResult {
  GpuSpec gpu;  ///< With the fitted calibration.
  std::vector<FamilyResult> families;
  std::vector<std::string> skipped;  ///< Families without enough cases: parameters left as they were.
};

/// |predicted / measured - 1| over cases, from held-out predictions or fitted ones.
Errors3 errors_of(const std::vector<CaseResult>& cases, bool held_out);

/// Fits all families that `table` has cases of. `base` gives the starting values and everything that is not
/// fitted. Cross-validation starts from values scrambled by the seed, so that nothing of the held-out cases
/// gets in by way of `base`.
FitResult fit(const GpuSpec& base, const KernelTable& table, const FitOptions& options);

/// The errors of `gpu` as it is, by family, without fitting.
std::vector<FamilyResult> evaluate(const GpuSpec& gpu, const KernelTable& table);

/// A table for people: family, cases, parameters, errors, worst cases.
std::string to_text(const std::vector<FamilyResult>& families, bool held_out, int worst);

}  // namespace gpusim::calibrate
