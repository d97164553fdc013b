// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/backend.hpp"

#include <algorithm>

namespace gpusim {

std::string_view name(CaptureKind capture) {
  switch (capture) {
    case CaptureKind::None:
      return "none";
    case CaptureKind::Dynamo:
      return "dynamo";
    case CaptureKind::WholeGraph:
      return "whole_graph";
  }
  return "?";
}

std::string_view name(CudaGraphPolicy policy) {
  switch (policy) {
    case CudaGraphPolicy::None:
      return "none";
    case CudaGraphPolicy::Trees:
      return "trees";
    case CudaGraphPolicy::Whole:
      return "full";
    case CudaGraphPolicy::Piecewise:
      return "piecewise";
  }
  return "?";
}

const BackendMode* Backend::find(std::string_view mode) const {
  const auto found =
      std::find_if(modes.begin(), modes.end(), [&](const BackendMode& m) { return m.name == mode; });
  return found == modes.end() ? nullptr : &*found;
}

}  // namespace gpusim
