// SPDX-License-Identifier: Apache-2.0
// Measured kernels: what work the name of a case of the measurement scripts stands for.
//
// A case's name says the op and its shapes; the scripts' way of rotating buffers decides what of them is in
// the L2 when the kernel runs, so that is worked out here as well.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "models/cost/kernel_work.hpp"

namespace gpusim::calibrate {

/// One work of a case with the state of the cache that it meets.
struct CachedWork {
  KernelWork work;
  CacheState cache;
};

/// What a case runs, on a given device: costs of functions and the L2 are the device's.
using CaseWorks = std::function<std::vector<CachedWork>(const GpuSpec&)>;

struct KernelCase {
  std::string name;    ///< "gemm/bf16/4096x4096x4096"
  std::string family;  ///< Cases whose parameters are fitted together: "product".
  std::string group;   ///< Cases that are held out together: a shape.
  double us = 0;       ///< Measured, all GPU ops of the case.
  double us_min = 0;   ///< Shortest run.
  int gpu_ops = 0;     ///< Measured number of GPU ops; 0: not given.
  int sets = 0;        ///< Buffers that the runs took in turn; 0: not given, as the family's script has it.
  CaseWorks works;
};

/// The works that a case's name stands for; nothing for a name that is not known. `family` and `group` are
/// filled in.
bool understand(KernelCase& kernel_case);

/// Predicted duration of a case in microseconds.
double predict_us(const KernelCase& kernel_case, const GpuSpec& gpu);
/// Predicted number of its GPU ops.
int predict_gpu_ops(const KernelCase& kernel_case, const GpuSpec& gpu);

}  // namespace gpusim::calibrate
