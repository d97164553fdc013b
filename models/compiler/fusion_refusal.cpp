// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/fuse.hpp"

namespace gpusim {

std::string_view text(FusionRefusal refusal) {
  switch (refusal) {
    case FusionRefusal::None:
      return "";
    case FusionRefusal::Library:
      return "a library's kernel takes nothing in";
    case FusionRefusal::NothingShared:
      return "they move no data in common";
    case FusionRefusal::Shape:
      return "their loops have different lengths";
    case FusionRefusal::Reductions:
      return "they reduce over different rows";
    case FusionRefusal::Access:
      return "the second reads in another order than the first writes";
    case FusionRefusal::Scatter:
      return "places that data decide have to be written before they are read";
    case FusionRefusal::Between:
      return "another kernel has to run between them";
    case FusionRefusal::Distance:
      return "they stand too far apart";
    case FusionRefusal::Size:
      return "the kernel would hold too many operations";
    case FusionRefusal::Rule:
      return "the backend does not join these kinds";
  }
  return "";
}

}  // namespace gpusim
