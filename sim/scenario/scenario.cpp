// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/scenario.hpp"

namespace gpusim {

const Variant* Scenario::find(const std::string& variant) const {
  for (const Variant& v : variants)
    if (v.name == variant) return &v;
  return nullptr;
}

}  // namespace gpusim
