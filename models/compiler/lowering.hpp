// SPDX-License-Identifier: Apache-2.0
// The state of lower(). Internal to models/compiler.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "models/compiler/lower.hpp"

namespace gpusim {

/// A value that is computed where it is needed: an expression over buffers, for each place of a loop.
struct LoopValue {
  std::vector<Touch> reads;     ///< Each way of reading a buffer once.
  std::vector<LoopPart> parts;  ///< Other values in it.
  double lane_cycles = 0;       ///< Per element, besides those.
  std::int32_t functions = 0;   ///< Operations, likewise.
  std::vector<OpIndex> origins;
  std::vector<std::string_view> aten;
  bool random = false;
  std::int32_t all_functions() const {
    std::int32_t sum = functions;
    for (const LoopPart& part : parts) sum += part.functions;
    return sum;
  }
};

class Lowering {
 public:
  Lowering(const OpGraph& graph, const GpuSpec& gpu, OpIndex first, OpIndex last,
           const std::vector<std::int64_t>& offsets, const LowerOptions& options);
  LoopGraph run();

  // For the functions that lower one kind of op each.

  const OpGraph& graph() const { return graph_; }
  const GpuSpec& gpu() const { return gpu_; }
  const LowerOptions& options() const { return options_; }
  const TensorType& type(TensorIndex t) const { return graph_.tensors[t].type; }
  OpIndex current() const { return op_; }
  static constexpr std::size_t no_input = static_cast<std::size_t>(-1);
  /// What the framework runs for an op of the graph; as if the input `left_out` were not given.
  const std::vector<EagerCall>& eager(const Op& op, std::size_t left_out = no_input);

  /// What a loop over a dense tensor of this type reads of `t`, broadcast to its shape.
  LoopValue read(TensorIndex t, const TensorType& loop);
  /// The same for a loop whose place maps to the tensor's storage by `access`.
  LoopValue read(TensorIndex t, const Access& access);
  static void join(LoopValue& into, LoopValue other);
  /// Adds the framework's names of an op of this kind, as torch has them below its own functions ("_to_copy"
  /// for to()), to those of `value`.
  static void name(LoopValue& value, std::string_view kind);
  /// The same for an op: of one that was taken apart, what it was taken from.
  static void name(LoopValue& value, const Op& op);

  /// `t` becomes what `value` computes, a loop over its own storage.
  void define(TensorIndex t, LoopValue value);
  /// `t` is another look at the storage of `of`.
  void alias(TensorIndex t, TensorIndex of);

  /// The value of `t` in memory: makes a loop of it if it is not there yet.
  BufferIndex realize(TensorIndex t);
  /// `t` has another user inside of an op: makes a loop of it where that is worth it.
  void reuse(TensorIndex t);
  BufferIndex new_buffer(std::int64_t elements, ElementType element);
  /// A loop that fills `buffer` from one end to the other with `value`.
  /// `sizes`: of the loops in it, outermost first; empty: one loop.
  LoopIndex add_loop(LoopKind kind, LoopValue value, std::int64_t numel, std::int64_t rnumel,
                     std::initializer_list<BufferIndex> buffers, const Dims& sizes = {});
  /// `t` is in `buffer`, which holds its whole storage.
  void place(TensorIndex t, BufferIndex buffer);

  /// A call into a library: reads its inputs but for `left_out` (or, by input, the copies of them), fills the
  /// storages of its outputs.
  LoopIndex library(const Op& op, std::vector<EagerCall> calls, const std::vector<BufferIndex>& copies = {},
                    std::size_t left_out = no_input);
  /// `t` copied row by row, as the library wants it.
  BufferIndex row_copy(TensorIndex t, std::string_view name);
  /// Bytes that `t` covers.
  Bytes bytes(TensorIndex t) const { return stored_bytes(type(t)); }

  /// Whether everybody who reads `t` does so element by element, views aside.
  bool only_pointwise_users(TensorIndex t) const;
  /// Whether `t` is in memory because a loop of this region put it there.
  bool is_made_by_loop(TensorIndex t);
  /// Whether `t` is a view of less than a whole value that is not in memory.
  bool is_part_of_value(TensorIndex t);
  LoopGraph& loops() { return result_; }

 private:
  /// What a storage holds: a buffer, or an expression over its places.
  struct Box {
    std::int64_t elements = 0;
    ElementType element = ElementType::Fp32;
    BufferIndex buffer = loop_none;  ///< None: still an expression.
    LoopValue value;
    Dims sizes;  ///< Of the loops over it, once it becomes a buffer.
    OpIndex op = graph_none;
  };
  std::uint32_t box_of(TensorIndex t);
  BufferIndex realize_box(std::uint32_t box);
  bool reads_several(const LoopValue& value) const;
  void lower(const Op& op);
  void after(TensorIndex t);
  std::int32_t buffers_read(const LoopValue& value) const;
  bool wants_memory(const Op& op) const;

  const OpGraph& graph_;
  const GpuSpec& gpu_;
  const OpIndex first_;
  const OpIndex last_;
  const std::vector<std::int64_t>& offsets_;
  const LowerOptions& options_;
  LoopGraph result_;
  std::vector<Box> boxes_;
  std::vector<std::uint32_t> boxes_by_tensor_;
  std::vector<std::uint32_t> boxes_by_storage_;
  std::vector<std::int32_t> users_;
  std::vector<std::uint8_t> memory_user_;             ///< By tensor: someone reads it who needs it in memory.
  std::vector<std::uint8_t> outside_;                 ///< By tensor: needed behind the region.
  std::vector<std::vector<std::string_view>> views_;  ///< By tensor: names of the views since its storage.
  OpIndex op_ = graph_none;
  std::int64_t irregular_ = 0;

 public:
  /// The reduction `op` has its result in `buffer`: made together with another one.
  void prepare(OpIndex op, BufferIndex buffer) { prepared_.emplace_back(op, buffer); }
  std::optional<BufferIndex> prepared(OpIndex op) const;
  std::int64_t next_irregular() { return ++irregular_; }
  std::int64_t offset(TensorIndex t) const { return offsets_[t]; }
  /// Ops of the region that read `t`.
  std::span<const OpIndex> readers(TensorIndex t) const {
    return std::span(readers_).subspan(reader_begin_[t], reader_begin_[t + 1] - reader_begin_[t]);
  }
  bool is_outside(TensorIndex t) const { return outside_[t] != 0; }
  void add_view_name(TensorIndex t, std::string_view name) { views_[t].push_back(name); }

 private:
  std::vector<std::pair<OpIndex, BufferIndex>> prepared_;
  /// By Op::like, and by what is left out. Only asked for single entries.
  std::map<std::pair<OpIndex, std::size_t>, std::vector<EagerCall>> eager_;
  std::vector<OpIndex> readers_;
  std::vector<std::uint32_t> reader_begin_;
};

/// How one kind of op becomes loops.
using LowerFunction = void (*)(Lowering&, const Op&);
/// Null: by its fusion class.
LowerFunction lower_function(const OpKind& kind);
/// Parts of the table.
struct LowerEntry {
  std::string_view kind;
  LowerFunction function;
};
std::span<const LowerEntry> pointwise_lowerings();
std::span<const LowerEntry> reduction_lowerings();
std::span<const LowerEntry> library_lowerings();
std::span<const LowerEntry> backward_lowerings();

/// Sizes of the loops over a tensor: its dimensions as they lie in memory, those of one element left out.
Dims loop_sizes(const TensorType& type);

/// An op element by element over all its inputs.
void lower_pointwise(Lowering& l, const Op& op);

}  // namespace gpusim
