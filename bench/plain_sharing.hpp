// SPDX-License-Identifier: Apache-2.0
// The rule for sharing a device (validation/h200/concurrency/README.md, overlap.py), written straight down: a
// list of kernels, a vector of groups of SMs, and at every event everything is worked out anew. A peer for
// sim/engine/sharing.hpp, of which it uses nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <list>
#include <vector>

#include "sim/engine/footprint.hpp"

namespace gpusim::bench {

class PlainDevice {
 public:
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
  struct Change {
    bool ended;  ///< Or started.
    std::uint32_t kernel;
  };

  explicit PlainDevice(const engine::SharingMachine& machine);

  /// `alone`: ps, at least one. `now` is not after next_change().
  void submit(std::uint32_t name, const engine::Footprint& footprint, std::int64_t alone, std::int64_t now,
              std::vector<Change>& changes);
  void advance(std::int64_t now, std::vector<Change>& changes);  ///< `now` is next_change().
  std::int64_t next_change() const { return next_; }

 private:
  struct Slots {
    std::int64_t threads = 0;
    std::int64_t registers = 0;
    std::int64_t shared_memory = 0;
    std::int64_t blocks = 0;
  };
  struct Kernel {
    std::uint32_t name = 0;
    double alone = 0;  ///< ps
    double blocks = 0;
    // What follows from the footprint, of a block.
    Slots need;
    std::int64_t carveout = 0;
    std::int64_t fit = 0;  ///< On an idle SM.
    double load = 0;
    bool arithmetic = false;
    bool memory = false;
    bool fluid = false;
    double layers = 1;
    double time = 0;
    double issue = 0;
    double want = 0;
    double fullest_want = 0;
    double slow_alone = 1;
    // Where it is.
    bool started = false;
    bool late = false;
    bool in_line = true;
    double pool = 0;
    double rate = 0;
  };
  struct Resident {
    Kernel* kernel = nullptr;
    std::int64_t blocks = 0;
    double done = 0;
    double full = 0;
    double rate = 0;
  };
  struct Group {
    std::int64_t sms = 0;
    std::int64_t carveout = 0;
    std::vector<Resident> residents;  ///< Oldest first.
  };

  Kernel prepare(std::uint32_t name, const engine::Footprint& footprint, std::int64_t alone) const;
  static std::int64_t fits(const Slots& free, const Slots& need);
  double soft_cap(double asked) const;
  std::int64_t room(const Group& group, const Kernel& kernel) const;
  static double load(const Group& group);
  Group* best_group(const Kernel& kernel);
  void start_alone(std::int64_t now, std::vector<Change>& changes);
  void derive(std::int64_t now);
  void place(std::vector<Change>& changes);
  void mark_late();
  template <class Gone>
  void take_away(Gone gone);
  void merge();
  void progress(std::int64_t now);
  void share_sm(Group& group, bool first, double slow) const;
  void update();

  Slots sm_;
  std::int64_t sms_;
  double top_;
  double cap_;
  double sm_draw_;
  double long_block_;
  std::list<Kernel> kernels_;  ///< In order of submission.
  std::deque<Kernel*> line_;   ///< Those with blocks that are not placed.
  std::vector<Group> groups_;
  bool alone_ = false;  ///< One kernel, alone since its start: what it has done follows from the time.
  std::int64_t since_ = 0;
  std::int64_t next_ = never;
};

}  // namespace gpusim::bench
