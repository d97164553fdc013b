// SPDX-License-Identifier: Apache-2.0
// A group of ops under the rules of legality.hpp, one test after the other. Internal to models/compiler.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/compiler/legality.hpp"
#include "models/compiler/loop_space.hpp"

namespace gpusim {

class FusionCandidate {
 public:
  FusionCandidate(const FusionLegality& legality, std::span<const OpIndex> ops);
  FusionCandidate(const FusionCandidate&) = delete;  // Its edges point to its members.
  FusionCandidate& operator=(const FusionCandidate&) = delete;

  /// The first reason against it, or nothing.
  std::optional<std::string> refusal() const;

 private:
  using Reason = std::optional<std::string>;

  /// One op of the group.
  struct Member {
    OpIndex op = 0;
    LoopSpace space;
    bool inlined = false;  ///< Computed wherever it is read (legality.hpp).
  };
  /// An op of the group reads what another makes.
  struct Edge {
    const Member* from = nullptr;
    const Member* to = nullptr;
    std::size_t input = 0;  ///< Of the reader.
  };
  /// What a loop reads in memory, by itself or through ops that are computed where they are read.
  struct Source {
    const Member* from = nullptr;  ///< The op of the group that makes it; null: it was there before.
    TensorIndex root = graph_none;
    Access access;
    friend bool operator==(const Source&, const Source&) = default;
  };

  // The tests, in the order in which they are made (fusion_candidate.cpp).
  Reason against_backend() const;
  Reason against_library() const;
  Reason against_size() const;
  Reason against_cycle() const;
  Reason against_places() const;
  Reason against_relation() const;
  Reason against_product() const;
  Reason against_rules() const;
  Reason against_whole_reduction() const;
  Reason against_reductions() const;
  Reason against_shapes() const;
  Reason against_order() const;

  // Products (fusion_products.cpp).
  Reason against_two_products() const;
  Reason against_epilogue(const Member& product) const;
  Reason against_prologue(const Member& product) const;
  Reason against_library_epilogue(const Member& product, const std::vector<const Member*>& behind) const;
  bool is_attention() const;
  bool is_bias(const Member& member, const Member& product) const;

  void find_sources(const Member& member);
  void add_source(std::vector<Source>& sources, const Source& source) const;
  std::int64_t made(const Member& member) const;
  bool in_step(const Member& from, const Access& access) const;
  Bytes shared_bytes(const Member& a, const Member& b) const;

  const Op& op(const Member& member) const { return legality_.graph().ops[member.op]; }
  std::string quoted(const Member& member) const { return "'" + op(member).name + "'"; }
  const TensorType& type(TensorIndex t) const { return legality_.graph().tensors[t].type; }
  bool is(const Member& member, LoopSpace::Kind kind) const { return member.space.kind == kind; }
  const Member* find(OpIndex op) const;
  const Member* first(LoopSpace::Kind kind) const;
  bool read_inside(const Member& member) const;
  /// Whether anything that it makes is needed by an op outside or is a result of the step.
  bool needed_outside(const Member& member) const;
  /// Per member, whether it depends on this one within the group; itself included.
  std::vector<bool> dependents(const Member& member) const;
  std::vector<bool> ancestors(const Member& member) const;
  std::size_t place(const Member& member) const {
    return static_cast<std::size_t>(&member - members_.data());
  }

  const FusionLegality& legality_;
  std::vector<Member> members_;  ///< Those that move something, in order.
  std::vector<Edge> edges_;
  std::vector<std::vector<Source>> sources_;  ///< By member.
};

}  // namespace gpusim
