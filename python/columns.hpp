// SPDX-License-Identifier: Apache-2.0
// Columns as Python takes them: array.array, which NumPy and pandas read without copying, and lists of str.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <vector>

#include "sim/app/sweep_columns.hpp"
#include "sim/report/result.hpp"

namespace gpusim::python {

pybind11::object array_of(const std::vector<std::int64_t>& values);  ///< array.array('q').
pybind11::object array_of(const std::vector<double>& values);        ///< array.array('d').

/// {"point": ..., "variant": ..., "step_time_us": ..., "error": ...}.
pybind11::dict to_dict(const std::vector<SweepColumn>& columns);

/// {"gpu_ops": {...}, "host_calls": {...}, "memory": {...}}, each a table by columns; of a result that has
/// its timeline.
pybind11::dict timeline_of(const report::VariantResult& result);

}  // namespace gpusim::python
