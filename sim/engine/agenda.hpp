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
      : leaves_(std::bit_ceil(actors < 1 ? std::size_t{1} : actors)), nodes_(2 * leaves_) {}

  /// Gives `actor` its one appointment, replacing an earlier one. At equal times and phases the appointment
  /// made first is served first.
  void set(std::size_t actor, Picoseconds when, Phase phase) {
    const std::uint64_t order = (static_cast<std::uint64_t>(phase) << 62) | ++sequence_;
    update(actor, Node{when, order, static_cast<std::uint32_t>(actor)});
  }
  void clear(std::size_t actor) {
    if (nodes_[leaves_ + actor].when != never) update(actor, Node{});
  }

  Picoseconds next_time() const { return nodes_[1].when; }
  std::size_t next_actor() const { return nodes_[1].actor; }
  Picoseconds time_of(std::size_t actor) const { return nodes_[leaves_ + actor].when; }

 private:
  struct Node {
    Picoseconds when = never;
    std::uint64_t order = std::numeric_limits<std::uint64_t>::max();
    std::uint32_t actor = 0;
    bool before(const Node& other) const {
      return when != other.when ? when < other.when : order < other.order;
    }
  };

  void update(std::size_t actor, const Node& leaf) {
    std::size_t at = leaves_ + actor;
    nodes_[at] = leaf;
    for (at /= 2; at >= 1; at /= 2) {
      const Node& left = nodes_[2 * at];
      const Node& right = nodes_[2 * at + 1];
      nodes_[at] = right.before(left) ? right : left;
    }
  }

  std::size_t leaves_;
  std::vector<Node> nodes_;  ///< nodes_[1] is the root; a lone leaf is root and leaf at once.
  std::uint64_t sequence_ = 0;
};

}  // namespace gpusim::engine
