// SPDX-License-Identifier: Apache-2.0
// What a trace with record_shapes says of an op's inputs, from its JSON text.
#pragma once

#include <string_view>
#include <vector>

#include "sim/trace/trace.hpp"

namespace gpusim::trace_json {

/// The JSON texts of four lists with one entry for each input; empty where the trace has none.
struct InputTexts {
  std::string_view shapes;   ///< "Input Dims": [2, 3]; of a list of tensors [[2, 3], [4]]; else [].
  std::string_view strides;  ///< "Input Strides", like the shapes.
  std::string_view types;    ///< "Input type".
  std::string_view values;   ///< "Concrete Inputs".
};

/// As many inputs as the longest list has. What is not as expected counts as not stated: a size that is
/// negative or no whole number makes its shape unknown.
std::vector<TraceInput> read_inputs(const InputTexts& texts);

}  // namespace gpusim::trace_json
