// SPDX-License-Identifier: Apache-2.0
// A network's step while it is being laid out: ops priced, launches added to one stream by the main thread
// and, in backward, by autograd's. Internal to sim/program.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/cost/kernel_work.hpp"
#include "models/hardware/gpu_spec.hpp"
#include "models/hardware/host_spec.hpp"
#include "sim/program/build.hpp"

namespace gpusim {

class StepLayout {
 public:
  explicit StepLayout(const GpuSpec& gpu, const LaunchExtra& extra = {});

  struct Launched {
    engine::Index op = 0;
    Picoseconds call{0};
    bool blocking = false;  ///< The host waits for it.
  };

  /// An op of the program for one GPU op of what is called `name`; `factor` on its duration. `own_name`: it
  /// is shown by that name alone, not with what the cost model calls it.
  Launched add(std::string_view name, const GpuOpEstimate& estimate, double factor = 1,
               bool own_name = false);

  /// Streams other than the one of all else will be used: from now on, ops know what they leave to kernels
  /// that run beside them.
  void share_device() { shared_ = true; }
  /// The stream of this name, added if new; 0 is the one of all else.
  std::uint16_t stream(std::string_view name);
  /// Marks that all of a stream's work so far is done; has another stream wait for that.
  engine::Index record(std::uint16_t stream);
  void wait(engine::Index event, std::uint16_t stream);

  void add_work(Picoseconds duration, engine::Index shown);
  /// Puts it into a stream.
  void launch(const Launched& launched, std::uint16_t stream = 0);
  engine::Index name_of(const Launched& launched) const { return built.program.info[launched.op].name; }
  /// Puts these ops into the stream as one CUDA graph.
  void launch_graph(engine::Index shown, const std::vector<Launched>& ops);

  /// loss.backward(): from here on the autograd thread works, and the main thread waits for it until
  /// end_backward().
  void begin_backward();
  void end_backward();
  bool in_backward() const { return thread_ != 0; }

  /// What comes next belongs to this phase and this point of the step's memory curve.
  void mark(Phase phase, std::uint32_t memory);

  engine::Index name(const std::string& text);

  /// Lowers the clock of a step that would draw more than the device may. `captured`: the step runs as CUDA
  /// graphs, so that the host does not give the device time to cool. Returns what there is to say about it.
  std::vector<std::string> slow_down(bool captured);
  /// What a report should say of where the figures of this device come from.
  std::vector<std::string> notes(Bytes peak_memory) const;

  BuiltProgram built;

 private:
  engine::HostThread& thread() { return built.program.threads[thread_]; }
  void add_signal(engine::Call call, engine::Index signal);
  std::optional<engine::Footprint> footprint_of(const GpuOpEstimate& estimate, Picoseconds duration) const;
  std::optional<engine::Residency> residency_of(const GpuOpEstimate& estimate,
                                                const std::optional<engine::Footprint>& footprint,
                                                engine::CopyEngine copy) const;
  engine::Index add_footprint(const engine::Footprint& footprint);

  const GpuSpec& gpu_;
  const LaunchExtra extra_;
  std::uint16_t thread_ = 0;  ///< That works now.
  bool shared_ = false;
  std::vector<bool> compute_bound_;  ///< By op of the program.
  std::map<std::string, engine::Index, std::less<>> names_;
};

/// Shares of cold bytes are rounded to this many steps, so that equal ops in equal surroundings are priced
/// once.
inline constexpr double cache_steps = 64;

}  // namespace gpusim
