// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/options.hpp"

namespace gpusim {

std::string_view remedy(BreakCause cause) {
  switch (cause) {
    case BreakCause::Print:
      return "move it out of forward";
    case BreakCause::Item:
      return "keep it a tensor, and read it after the step";
    case BreakCause::DataDependentBranch:
      return "choose with torch.where, clamp or torch.cond, or decide before the step";
    case BreakCause::UnsupportedLibrary:
      return "do it before or after the step, or write it in tensor operations";
    case BreakCause::CustomClass:
      return "use plain attributes, or leave the class out with torch.compiler.disable";
    case BreakCause::DynamicShape:
      return "keep the shape and mask what does not count, or pad to a fixed size";
    case BreakCause::Explicit:
      return "remove the call of torch._dynamo.graph_break()";
  }
  return "?";
}

}  // namespace gpusim
