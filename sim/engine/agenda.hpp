// SPDX-License-Identifier: Apache-2.0
// Which actor is next. Every host thread and every stream has at most one appointment, so the event queue is
// a tournament over a fixed set of actors: no allocation, and a change costs the height of a small tree.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "sim/engine/time.hpp"

namespace gpusim::engine {

class Agenda {
 public:
  static constexpr Picoseconds never = Picoseconds::max();

  /// Order of actors at the same instant. What ends makes room for what starts, and what starts frees
  /// launch-queue places before the host looks for one.
  enum class Phase : std::uint8_t { Device = 0, Stream = 1, Host = 2 };

  explicit Agenda(std::size_t actors)
      : leaves_(std::bit_ceil(actors < 1 ? std::size_t{1} : actors)), keys_(leaves_), first_(2 * leaves_) {
    for (std::size_t actor = 0; actor < leaves_; ++actor)
      first_[leaves_ + actor] = static_cast<std::uint32_t>(actor);
    for (std::size_t at = leaves_ - 1; at >= 1; --at) first_[at] = first_[2 * at];
  }

  /// Gives `actor` its one appointment, replacing an earlier one. At equal times and phases the appointment
  /// made first is served first.
  void set(std::size_t actor, Picoseconds when, Phase phase) {
    const std::uint64_t order = (static_cast<std::uint64_t>(phase) << 62) | ++sequence_;
    update(actor, {when, order});
  }
  void clear(std::size_t actor) {
    if (keys_[actor].when != never) update(actor, {});
  }

  Picoseconds next_time() const { return keys_[first_[1]].when; }
  std::size_t next_actor() const { return first_[1]; }
  Picoseconds time_of(std::size_t actor) const { return keys_[actor].when; }

 private:
  struct Key {
    Picoseconds when = never;
    std::uint64_t order = std::numeric_limits<std::uint64_t>::max();
    bool before(const Key& other) const {
      const std::int64_t a = when.count();
      const std::int64_t b = other.when.count();
      return (a < b) | ((a == b) & (order < other.order));  // no branch: which is first is hard to foresee
    }
  };

  void update(std::size_t actor, const Key& key) {
    keys_[actor] = key;
    std::uint32_t first = static_cast<std::uint32_t>(actor);
    for (std::size_t at = leaves_ + actor; at > 1; at /= 2) {
      const std::uint32_t other = first_[at ^ 1];
      first = keys_[other].before(keys_[first]) ? other : first;
      first_[at / 2] = first;
    }
  }

  std::size_t leaves_;
  std::vector<Key> keys_;             ///< of each actor
  std::vector<std::uint32_t> first_;  ///< the tree: the first actor below each node; 1 is the root
  std::uint64_t sequence_ = 0;
};

}  // namespace gpusim::engine
