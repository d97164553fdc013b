// SPDX-License-Identifier: Apache-2.0
// How kernels of several streams share one GPU. The rule, the measurements behind it and its errors:
// validation/h200/concurrency/README.md; overlap.py there is the same rule in Python.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/assertion.hpp"
#include "sim/engine/footprint.hpp"
#include "sim/engine/sharing_block.hpp"
#include "sim/engine/time.hpp"

namespace gpusim::engine {

/// The kernels that are on one GPU, or that are ready and wait for room on it.
///
/// - Kernels get room in the order in which they were submitted; the head of the line blocks the rest.
/// - The issue slots of an SM go to its oldest block first, what is left to the next.
/// - The memory gives every kernel the same share of what it asks for, under a soft cap.
///
/// Owns no clock: the caller says `now`, asks for next_change() and calls advance() then. One kernel alone
/// takes exactly the duration it takes alone, and costs no more than storing that. A second one, submitted
/// before the first has ended, makes the state of the SMs be derived from the time elapsed.
class SharedDevice {
 public:
  struct Change {
    enum class Kind : std::uint8_t { Started, Ended };
    Kind kind;
    std::uint32_t kernel;

    friend bool operator==(const Change&, const Change&) = default;
  };

  explicit SharedDevice(const SharingMachine& machine);

  /// A kernel is ready to run at `now`: not before any earlier call's now, not after next_change(). `kernel`
  /// is the caller's name for it, unique among those present. `alone`: its duration when it runs alone, not
  /// negative. Appends Started if its first blocks are placed at once. If a change is due at `now` itself,
  /// that comes first: the kernel may start in advance(now) then.
  void submit(std::uint32_t kernel, const Footprint& footprint, Picoseconds alone, Picoseconds now,
              std::vector<Change>& changes) {
    GPUSIM_ASSERT(now <= next_ && alone >= Picoseconds(0));
    if (mode_ != Mode::Idle) {
      submit_beside(kernel, footprint, alone, now, changes);
      return;
    }
    mode_ = Mode::Lone;
    lone_.kernel = kernel;
    lone_.start = now;
    lone_.end = next_ = now + alone;
    lone_footprint_ = footprint;
    changes.push_back({Change::Kind::Started, kernel});
  }

  /// Next moment at which something happens by itself; Picoseconds::max() if nothing will. Not every such
  /// moment brings a Started or Ended: blocks may just give room to other blocks of their kernel.
  Picoseconds next_change() const { return next_; }

  /// Goes on to `now` (<= next_change()). Appends what happened at `now`: ends (in order of start), then
  /// starts (in order of submission). Before next_change() nothing happens, so any number of such calls
  /// changes nothing.
  void advance(Picoseconds now, std::vector<Change>& changes) {
    GPUSIM_ASSERT(now <= next_);
    if (now < next_ || mode_ == Mode::Idle) return;
    if (mode_ != Mode::Lone) {
      change(now, changes);
      return;
    }
    mode_ = Mode::Idle;
    next_ = Picoseconds::max();
    changes.push_back({Change::Kind::Ended, lone_.kernel});
  }

  /// When a started kernel will end: exact while it is alone, else at the present rates (all its blocks that
  /// are not placed yet at the rate of those that are). Picoseconds::max() if it has not started or stands
  /// still.
  Picoseconds predicted_end(std::uint32_t kernel) const;

  /// No kernel is present.
  bool idle() const { return mode_ == Mode::Idle; }

  /// Appends everything the future depends on, relative to `now`, names of kernels included: equal states
  /// behave equally for ever. What a block has done is summed up from its own start on, at events only: a
  /// pattern whose events repeat to the picosecond repeats its states to the bit. One that has just begun may
  /// take some periods until they do.
  void append_state(Picoseconds now, std::vector<std::int64_t>& state) const;

 private:
  enum class Mode : std::uint8_t {
    Idle,
    Lone,    ///< one kernel, alone since its start: lone_
    Shared,  ///< kernels_ and groups_ hold the state
    Apart    ///< several kernels on a machine that does not share: apart_
  };
  /// A kernel that takes what it takes alone.
  struct Undisturbed {
    std::uint32_t kernel = 0;
    Picoseconds start{};
    Picoseconds end{};
  };
  struct Kernel {
    std::uint32_t name;
    bool started = false;
    bool drained = false;     ///< its pool goes down until now, so the blocks placed stay as they are
    bool packs = false;       ///< fills up the SMs that come free, one by one (a late kernel)
    std::int64_t placed = 0;  ///< blocks that are on the SMs
    double pool;              ///< blocks not placed yet; fluid: that have not run yet
    double rate = 0;          ///< blocks per ps that those placed get done; 0 from drain_pools to update
    Picoseconds alone;
    Footprint footprint;
    BlockModel block;

    Kernel(std::uint32_t its_name, const Footprint& its_footprint, Picoseconds its_time_alone,
           const SharingLimits& limits);
  };
  /// Blocks of one kernel on each SM of a group, placed together.
  struct Resident {
    std::uint32_t kernel;  ///< index into kernels_
    std::int32_t blocks;
    double done;  ///< 0..1 of their time; stays while their kernel is fluid and has a pool
    double full;  ///< share of full speed that the SM leaves them
    double rate;  ///< of `done`, per ps
  };
  /// SMs of equal content.
  struct Group {
    std::int32_t sms = 0;
    SmResources free;
    std::int32_t carveout =
        0;  ///< shared memory that its first kernel set aside; unless it is idle, no more is had
    std::int64_t load = 0;
    std::int32_t fits = 0;  ///< blocks that fit on each SM of the kernel that find_room was asked for
    bool settled = false;   ///< `full` of the residents stands, whatever the memory gives
    std::vector<Resident> residents;  ///< oldest first
  };

  void submit_beside(std::uint32_t name, const Footprint& footprint, Picoseconds alone, Picoseconds now,
                     std::vector<Change>& changes);
  void change(Picoseconds now, std::vector<Change>& changes);
  void change_apart(Picoseconds now, std::vector<Change>& changes);
  Kernel& add_kernel(std::uint32_t name, const Footprint& footprint, Picoseconds alone);
  bool has_device_to_itself() const;
  void share(Picoseconds now);
  void derive(double elapsed);
  void derive_layers(double elapsed);

  void clear_groups();
  std::int32_t room_on(const Group& group, const BlockModel& block) const;
  void find_room(const BlockModel& block);
  std::size_t best_group() const;
  void place(std::vector<Change>* changes, bool room_found = false);
  void place_blocks(std::uint32_t k, std::size_t g);
  void split(std::size_t g, std::int32_t sms);
  void mark_late();
  template <class Gone>
  bool remove_residents(Gone gone);
  void merge_groups();
  void retire(Picoseconds now, std::vector<Change>& changes);

  bool consumes_pool(const Kernel& kernel) const { return kernel.block.fluid & (kernel.pool > 0); }
  void update();
  double share_memory();
  void share_sm(Group& group, bool alone, double memory_share) const;
  double drain_pools(Picoseconds now);
  void progress(Picoseconds now);
  Picoseconds after(double picoseconds) const;
  std::span<Group> groups() { return {groups_.data(), group_count_}; }

  SharingLimits limits_;
  Mode mode_ = Mode::Idle;
  Picoseconds next_ = Picoseconds::max();
  Undisturbed lone_;
  Footprint lone_footprint_;
  std::vector<Undisturbed> apart_;  ///< in order of start

  Picoseconds since_{};                     ///< Shared: what is done is as of then
  std::vector<Kernel> kernels_;             ///< in no order; the places of those that are gone are used again
  std::vector<std::uint32_t> present_;      ///< into kernels_, in order of submission, which is that of start
  std::vector<std::uint32_t> free_places_;  ///< into kernels_
  std::size_t waiting_ = 0;    ///< the first of present_ that still has blocks to place; all after it do
  std::vector<Group> groups_;  ///< those past group_count_ are kept for their memory
  std::size_t group_count_ = 0;
  bool at_once_ = false;     ///< a kernel that takes no time has started
  bool unmerged_ = false;    ///< groups_ may hold equal SMs: something came or went since merge_groups
  bool stale_ = false;       ///< so may `full` and memory_share_ be: something came, went or was merged
  double memory_share_ = 1;  ///< what a kernel bound by memory gets of what it asks for, the same for all
};

}  // namespace gpusim::engine
