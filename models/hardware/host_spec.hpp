// SPDX-License-Identifier: Apache-2.0
// A host as data: what the CPU side of the framework costs. Files of configs/hosts hold them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "models/hardware/launch_model.hpp"
#include "models/units/quantity.hpp"

namespace gpusim {

/// In which mode the framework runs an op: forward without or with recording for backward, or in backward.
enum class HostOpMode : std::uint8_t { NoGrad, Grad, Backward };

/// CPU time of one framework op, launch calls included, per mode. `backward` is the whole backward step of
/// the op.
struct HostOpCost {
  Picoseconds no_grad{0};
  std::optional<Picoseconds> grad{};      ///< Absent: as no_grad.
  std::optional<Picoseconds> backward{};  ///< Absent: unknown.
  std::int32_t launches = 1;              ///< Launch calls that `no_grad` and `grad` include.
  bool operator==(const HostOpCost&) const = default;
};

struct HostSpec {
  std::string key;   ///< "xeon-h200-cloud".
  std::string name;  ///< For people.
  double speed = 1;  ///< The costs below are divided by it.
  /// A profiler has run in the process and is done. CUPTI stays attached to the driver, and every call into
  /// that costs more from then on: `after_profiler` of `ops` for a launch, `after_profiler_node` for a node
  /// of a CUDA graph (validation/h200/after_profiler.csv).
  bool after_profiler = false;
  std::map<std::string, HostOpCost, std::less<>> ops;
  std::optional<HostOpCost> default_op;  ///< For ops that are not listed.

  bool operator==(const HostSpec&) const = default;
};

/// An op whose cost the host file does not give. The message names the known ones.
class NoHostOpError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// `time` as measured with speed 1, on this host.
Picoseconds scaled(const HostSpec& host, Picoseconds time);

/// CPU time of `op` on this host; `default_op` where it is not listed. Throws NoHostOpError if there is none,
/// and for a backward whose cost is unknown.
Picoseconds op_time(const HostSpec& host, std::string_view op, HostOpMode mode);

/// Launch calls that op_time() includes: those of the file, 1 for an op that is not listed.
std::int32_t op_launches(const HostSpec& host, std::string_view op);

/// What a launch costs beyond its call, by who calls, and a node of a CUDA graph.
struct LaunchExtra {
  Picoseconds main{0};
  Picoseconds backward{0};  ///< Autograd's thread.
  Picoseconds node{0};
};

/// Zeros unless a profiler has run in the process. `mode`: of what the main thread runs. Throws
/// NoHostOpError.
LaunchExtra launch_extra(const HostSpec& host, HostOpMode mode);

/// Everything that is impossible in `host`.
std::vector<SpecProblem> problems(const HostSpec& host);

}  // namespace gpusim
