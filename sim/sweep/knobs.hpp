// SPDX-License-Identifier: Apache-2.0
// A program whose times are set by axes, without building it anew: which instructions and ops each axis
// changes, and what to.
//
// The program is built once for each value of each axis, all other axes at their value in the base. An
// instruction or op that changes with an axis belongs to it; one that changes with two is not known for their
// combinations, and then there are no knobs. What this cannot see is a time that changes only when two axes
// change together (the larger of two, say): whoever makes knobs of axes has to know that there is none.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sim/engine/program.hpp"

namespace gpusim::sweep {

/// What an engine runs.
struct Built {
  engine::Program program;
  engine::Machine machine;
};

/// Whether both are the same program, names apart.
bool same_times(const Built& a, const Built& b);

class Knobs {
 public:
  /// `values`: how many each axis has. `base_at`: which of them the base has.
  Knobs(Built base, std::span<const std::uint32_t> values, std::span<const std::uint32_t> base_at);

  /// The program with `axis` at `value`; values of an axis come in order, from 0. False: it differs from the
  /// base in more than times, and there are no knobs.
  bool add(std::size_t axis, std::uint32_t value, const Built& built);
  /// Nothing can be built with `axis` at `value`. Such values come in the same order.
  void add_broken(std::size_t axis, std::uint32_t value);
  /// After the last value. False: two axes change one thing, or there is too much to keep.
  bool finish();

  /// Whether every axis's value can be built.
  bool known(std::span<const std::uint32_t> at) const;

  /// A program to be set and run, by one thread.
  class Setting {
   public:
    explicit Setting(const Knobs& knobs) : knobs_(&knobs), built_(knobs.base_), at_(knobs.base_at_) {}
    /// Known values only.
    const Built& set(std::span<const std::uint32_t> at);

   private:
    const Knobs* knobs_;
    Built built_;
    std::vector<std::uint32_t> at_;
  };

 private:
  struct CallTimes {
    Picoseconds duration{0};
    Picoseconds latency{0};
    Picoseconds return_latency{0};
    friend bool operator==(const CallTimes&, const CallTimes&) = default;
  };
  struct OpTimes {
    Picoseconds duration{0};
    Picoseconds min_period{0};
    Picoseconds gap_before{0};
    Picoseconds min_period_in_graph{0};
    engine::GapClass gap_class = 0;
    friend bool operator==(const OpTimes&, const OpTimes&) = default;
  };
  /// Instructions or ops that have the same times at each value of an axis.
  template <class Times>
  struct Group {
    std::vector<std::uint32_t> members;
    std::vector<Times> at;  ///< By value.
  };
  struct Axis {
    std::vector<Group<CallTimes>> calls;
    std::vector<Group<OpTimes>> ops;
    std::vector<bool> call_changes;  ///< By instruction, of all threads in turn.
    std::vector<bool> op_changes;
    std::vector<engine::Machine> machines;  ///< By value; empty if none differs from the base's.
    std::vector<std::vector<engine::Footprint>> footprints;
    bool machine_changes = false;
    bool footprints_change = false;
    std::vector<bool> known;  ///< By value.
  };

  static CallTimes times_of(const engine::Instruction& instruction);
  static OpTimes times_of(const engine::Program& program, std::size_t op);
  template <class Times, class TimesOf>
  static void refine(std::vector<Group<Times>>& groups, const TimesOf& times_of_member);
  template <class Times>
  static std::size_t prune(std::vector<Group<Times>>& groups, const std::vector<bool>& changes);
  void apply(Built& built, std::size_t axis, std::uint32_t value) const;
  /// Of a program, or of a constant one.
  template <class ProgramType>
  auto& instruction(ProgramType& program, std::uint32_t number) const;

  Built base_;
  std::vector<std::uint32_t> base_at_;
  std::vector<Axis> axes_;
  std::vector<std::uint32_t> first_of_thread_;  ///< Number of its first instruction.
};

}  // namespace gpusim::sweep
