// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

#include "models/hardware/gpu_spec.hpp"
#include "sim/config/error.hpp"
#include "sim/scenario/network_workload.hpp"

namespace gpusim {

/// What `body` gives. Hardware or a host that cannot price an op of the network is the user's mistake, told
/// where the network is named; the message says which op. Throws ConfigError.
template <class Body>
auto priced(const NetworkWorkload& workload, const Body& body) {
  const auto refuse = [&](const std::exception& error, const char* hint) {
    return ConfigError(
        Diagnostic{.where = workload.where, .path = "workload.network", .what = error.what(), .hint = hint});
  };
  try {
    return body();
  } catch (const NoPeakError& error) {
    throw refuse(error, "write one of these as 'dtype' under workload, or choose other hardware");
  } catch (const std::invalid_argument& error) {
    throw refuse(error, "");
  }
}

}  // namespace gpusim
