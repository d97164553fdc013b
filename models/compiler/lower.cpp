// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/lower.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "models/compiler/lowering.hpp"
#include "models/graph/sort_few.hpp"

namespace gpusim {
namespace {

template <class T>
void add_sorted(std::vector<T>& into, const T& item) {
  const auto at = std::lower_bound(into.begin(), into.end(), item);
  if (at == into.end() || *at != item) into.insert(at, item);
}

template <class T>
void join_sorted(std::vector<T>& into, std::vector<T> other) {
  if (into.empty()) {
    into = std::move(other);
    return;
  }
  for (const T& item : other) add_sorted(into, item);
}

/// Appends what is like nothing that is there.
template <class T, class Like>
void join_unlike(std::vector<T>& into, std::vector<T> other, Like like) {
  const auto known = [&](std::size_t count, const T& item) {
    return std::any_of(into.begin(), into.begin() + static_cast<std::ptrdiff_t>(count),
                       [&](const T& there) { return like(there, item); });
  };
  if (!into.empty()) {
    for (T& item : other)
      if (!known(into.size(), item)) into.push_back(std::move(item));
    return;
  }
  into = std::move(other);
  std::size_t count = 0;
  for (std::size_t i = 0; i < into.size(); ++i) {
    if (known(count, into[i])) continue;
    if (count != i) into[count] = std::move(into[i]);
    ++count;
  }
  into.resize(count);
}

/// Strides of a tensor as one of `shape` reads it: 0 along dimensions that it does not have.
Dims broadcast_strides(const TensorType& type, const Dims& shape) {
  Dims strides;
  const int more = shape.rank() - type.shape.rank();
  for (int d = 0; d < shape.rank(); ++d)
    strides.push_back(d < more || type.shape[d - more] == 1 ? 0 : type.strides[d - more]);
  return strides;
}

std::uint64_t mixed(std::uint64_t hash, std::int64_t value) {
  constexpr std::uint64_t prime = 0x100000001b3U;
  hash = (hash ^ static_cast<std::uint64_t>(value)) * prime;
  return hash ^ (hash >> 29);
}

/// How far the map goes from its first place to this one.
std::int64_t distance_to(const Access& access, std::int64_t place) {
  std::int64_t distance = 0;
  for (std::size_t d = access.count(); d-- > 0; place /= access.digit(d).size)
    distance += place % access.digit(d).size * access.digit(d).stride;
  return distance;
}

/// Notes which loops the touch depends on: the first of these sizes.
void note_loops(Touch& touch, const Dims& sizes) {
  constexpr std::uint64_t start = 0xcbf29ce484222325U;
  const std::int64_t wanted = touch.access.size();
  std::int64_t places = 1;
  int count = 0;
  while (count < sizes.rank() && places < wanted) places *= sizes[count++];
  touch.sizes = start;
  touch.strides = 0;
  if (places == 0) return;  // a library's
  for (int i = 0; i < count; ++i) {
    places /= sizes[i];
    touch.sizes = mixed(touch.sizes, sizes[i]);
    if (sizes[i] > 1 && !touch.access.is_irregular())
      touch.strides += mixed(start, distance_to(touch.access, places));
  }
}

void add_part(std::vector<LoopPart>& into, const LoopPart& part) {
  if (std::none_of(into.begin(), into.end(), [&](const LoopPart& known) { return known.is_like(part); }))
    into.push_back(part);
}

/// The part where it is read at the places that `access` gives, of `elements`.
LoopPart placed(LoopPart part, const Access& access, std::int64_t elements) {
  if (access.is_straight() && access.offset() == 0 && access.size() == elements) return part;
  part.place = mixed(part.place + 1, access.offset());
  for (std::size_t d = 0; d < access.count(); ++d)
    part.place = mixed(mixed(part.place, access.digit(d).size), access.digit(d).stride);
  const std::int64_t turns = access.without_inner_broadcast().size();
  if (turns > 0) part.repeat *= access.size() / turns;
  return part;
}

bool is_view_of_first(const OpGraph& graph, const Op& op) {
  return op.kind->fusion == FusionClass::View && !op.outputs.empty() && !op.inputs.empty() &&
         graph.tensors[op.outputs.front()].storage == graph.tensors[op.inputs.front()].storage;
}

}  // namespace

Dims loop_sizes(const TensorType& type) {
  std::array<int, Dims::rank_max> dims{};
  int count = 0;
  for (int d = 0; d < type.shape.rank(); ++d)
    if (type.shape[d] > 1) dims[static_cast<std::size_t>(count++)] = d;
  sort_few(dims.begin(), dims.begin() + count,
           [&](int a, int b) { return type.strides[a] > type.strides[b]; });
  Dims sizes;
  for (int i = 0; i < count; ++i) sizes.push_back(type.shape[dims[static_cast<std::size_t>(i)]]);
  return sizes;
}

Lowering::Lowering(const OpGraph& graph, const GpuSpec& gpu, OpIndex first, OpIndex last,
                   const std::vector<std::int64_t>& offsets, const LowerOptions& options)
    : graph_(graph), gpu_(gpu), first_(first), last_(last), offsets_(offsets), options_(options) {
  const std::size_t tensors = graph.tensors.size();
  boxes_by_tensor_.assign(tensors, loop_none);
  boxes_by_storage_.assign(graph.storages.size(), loop_none);
  users_.assign(tensors, 0);
  memory_user_.assign(tensors, 0);
  outside_.assign(tensors, 0);
  views_.resize(tensors);
  reader_begin_.assign(tensors + 1, 0);
  const auto each_input = [](const Op& op, const auto& body) {
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const TensorIndex t = op.inputs[i];
      if (t == graph_none) continue;
      // One user, however often it reads the tensor.
      if (std::find(op.inputs.begin(), op.inputs.begin() + static_cast<std::ptrdiff_t>(i), t) ==
          op.inputs.begin() + static_cast<std::ptrdiff_t>(i))
        body(t);
    }
  };
  for (OpIndex i = first; i < last; ++i)
    each_input(graph.ops[i], [&](TensorIndex t) { ++reader_begin_[t + 1]; });
  for (std::size_t t = 0; t < tensors; ++t) reader_begin_[t + 1] += reader_begin_[t];
  readers_.resize(reader_begin_[tensors]);
  std::vector<std::uint32_t> next(reader_begin_.begin(), reader_begin_.end() - 1);
  for (OpIndex i = first; i < last; ++i)
    each_input(graph.ops[i], [&](TensorIndex t) {
      readers_[next[t]++] = i;
      ++users_[t];
      if (wants_memory(graph.ops[i])) memory_user_[t] = 1;
    });
  for (OpIndex i = last; i < graph.ops.size(); ++i)
    for (const TensorIndex t : graph.ops[i].inputs)
      if (t != graph_none) outside_[t] = 1;
  for (const TensorIndex t : graph.outputs) outside_[t] = 1;
  for (std::size_t t = 0; t < tensors; ++t)
    if (outside_[t] != 0) ++users_[t];
}

bool Lowering::wants_memory(const Op& op) const {
  return op.kind->fusion == FusionClass::Product || op.kind->fusion == FusionClass::Library ||
         op.kind->fusion == FusionClass::Scatter;
}

LoopGraph Lowering::run() {
  for (OpIndex i = first_; i < last_; ++i) {
    op_ = i;
    lower(graph_.ops[i]);
    for (const TensorIndex t : graph_.ops[i].outputs) after(t);
  }
  for (OpIndex i = first_; i < last_; ++i)
    for (const TensorIndex t : graph_.ops[i].outputs)
      if (outside_[t] != 0) {
        const BufferIndex buffer = realize(t);
        result_.buffers[buffer].needed = true;
        result_.buffers[buffer].storage = graph_.tensors[t].storage;
      }
  return std::move(result_);
}

const std::vector<EagerCall>& Lowering::eager(const Op& op, std::size_t left_out) {
  const auto [known, is_new] = eager_.try_emplace({op.like, left_out});
  if (!is_new) return known->second;
  const OpTypes types(graph_, op);
  OpView view = types.view(op);
  std::vector<const TensorType*> inputs;
  if (left_out < op.inputs.size()) {
    inputs.assign(view.inputs.begin(), view.inputs.end());
    inputs[left_out] = nullptr;
    view.inputs = inputs;
  }
  return known->second = op.kind->eager(view, gpu_);
}

void Lowering::lower(const Op& op) {
  const std::string_view kind = op.kind->name;
  if (options_.library_norms && (kind == "layer_norm" || kind == "rms_norm" || kind == "softmax" ||
                                 kind == "log_softmax" || kind == "group_norm")) {
    library(op, eager(op));
    return;
  }
  if (const LowerFunction function = lower_function(*op.kind)) {
    function(*this, op);
    return;
  }
  switch (op.kind->fusion) {
    case FusionClass::View:
      if (is_view_of_first(graph_, op)) {
        for (const TensorIndex out : op.outputs) {
          alias(out, op.inputs.front());
          add_view_name(out, op.kind->name);
        }
        return;
      }
      lower_pointwise(*this, op);  // a copy into another layout
      return;
    case FusionClass::Pointwise:
    case FusionClass::Random:
      lower_pointwise(*this, op);
      return;
    default:
      library(op, eager(op));
  }
}

std::uint32_t Lowering::box_of(TensorIndex t) {
  std::uint32_t& box = boxes_by_tensor_[t];
  if (box != loop_none) return box;
  // Given from outside: in memory.
  const GraphTensor& tensor = graph_.tensors[t];
  std::uint32_t& given = boxes_by_storage_[tensor.storage];
  if (given == loop_none) {
    Box memory;
    memory.element = tensor.type.element;
    memory.elements =
        std::max<std::int64_t>(graph_.storages[tensor.storage].bytes.value() / size_of(memory.element), 1);
    memory.buffer = new_buffer(memory.elements, memory.element);
    result_.buffers[memory.buffer].storage = tensor.storage;
    given = static_cast<std::uint32_t>(boxes_.size());
    boxes_.push_back(std::move(memory));
  }
  box = given;
  return box;
}

BufferIndex Lowering::new_buffer(std::int64_t elements, ElementType element) {
  result_.buffers.push_back({.elements = elements, .element = element});
  return static_cast<BufferIndex>(result_.buffers.size() - 1);
}

void Lowering::alias(TensorIndex t, TensorIndex of) {
  boxes_by_tensor_[t] = box_of(of);
  views_[t] = views_[of];
}

void Lowering::define(TensorIndex t, LoopValue value) {
  Box box;
  box.element = type(t).element;
  box.elements = std::max<std::int64_t>(
      graph_.storages[graph_.tensors[t].storage].bytes.value() / size_of(box.element), 1);
  add_sorted(value.origins, op_);
  add_part(value.parts, {.value = t, .lane_cycles = value.lane_cycles, .functions = value.functions});
  value.lane_cycles = 0;
  value.functions = 0;
  box.value = std::move(value);
  box.sizes = loop_sizes(type(t));
  box.op = op_;
  boxes_by_tensor_[t] = static_cast<std::uint32_t>(boxes_.size());
  boxes_.push_back(std::move(box));
}

void Lowering::place(TensorIndex t, BufferIndex buffer) {
  Box box;
  box.element = type(t).element;
  box.elements = result_.buffers[buffer].elements;
  box.buffer = buffer;
  box.op = op_;
  boxes_by_tensor_[t] = static_cast<std::uint32_t>(boxes_.size());
  boxes_.push_back(std::move(box));
}

bool Lowering::is_made_by_loop(TensorIndex t) {
  const Box& box = boxes_[box_of(t)];
  if (box.buffer == loop_none) return false;
  const LoopIndex producer = result_.buffers[box.buffer].producer;
  return producer != loop_none && result_.loops[producer].kind != LoopKind::Library;
}

void Lowering::join(LoopValue& into, LoopValue other) {
  join_unlike(into.reads, std::move(other.reads), std::equal_to<Touch>());
  join_unlike(into.parts, std::move(other.parts),
              [](const LoopPart& a, const LoopPart& b) { return a.is_like(b); });
  into.lane_cycles += other.lane_cycles;
  into.functions += other.functions;
  into.random = into.random || other.random;
  join_sorted(into.origins, std::move(other.origins));
  join_sorted(into.aten, std::move(other.aten));
}

LoopValue Lowering::read(TensorIndex t, const TensorType& loop) {
  return read(t, Access::over(loop.shape, loop.strides, broadcast_strides(type(t), loop.shape), offset(t)));
}

LoopValue Lowering::read(TensorIndex t, const Access& access) {
  const Box& box = boxes_[box_of(t)];
  LoopValue value;
  if (box.buffer != loop_none) {
    value.reads.push_back(
        {.buffer = box.buffer, .access = access, .bytes = Bytes(access.touched() * size_of(box.element))});
  } else {
    value = box.value;
    for (LoopPart& part : value.parts) part = placed(part, access, box.elements);
    for (Touch& touch : value.reads) {
      const std::int64_t whole = std::max<std::int64_t>(touch.access.size(), 1);
      touch.access = access.then(touch.access);
      if (touch.indirect || touch.access.is_irregular()) {
        // Of what the whole expression reads, the share of its places that are looked at.
        touch.bytes = Bytes(static_cast<std::int64_t>(
            static_cast<double>(touch.bytes.value()) *
            std::min(1.0, static_cast<double>(access.touched()) / static_cast<double>(whole))));
      } else {
        touch.bytes = Bytes(touch.access.touched() * size_of(result_.buffers[touch.buffer].element));
      }
    }
  }
  for (const std::string_view name : views_[t]) add_sorted(value.aten, name);
  return value;
}

BufferIndex Lowering::realize(TensorIndex t) {
  const std::uint32_t box = box_of(t);
  // A view of what reads but one tensor is copied as the view has it; anything else becomes a buffer first,
  // which the view then looks at (ir.py, realize_hint and ExternKernel.require_stride_order).
  if (boxes_[box].buffer == loop_none && !reads_several(boxes_[box].value) &&
      elements(type(t)) == boxes_[box].elements)
    boxes_[box].sizes = loop_sizes(type(t));
  return realize_box(box);
}

bool Lowering::reads_several(const LoopValue& value) const {
  return std::count_if(value.reads.begin(), value.reads.end(),
                       [](const Touch& touch) { return touch.access.touched() > 1; }) > 1;
}

std::optional<BufferIndex> Lowering::prepared(OpIndex op) const {
  for (const auto& [known, buffer] : prepared_)
    if (known == op) return buffer;
  return std::nullopt;
}

void Lowering::reuse(TensorIndex t) {
  const std::uint32_t box = box_of(t);
  if (boxes_[box].buffer != loop_none) return;
  if (buffers_read(boxes_[box].value) > options_.realize.reads ||
      boxes_[box].value.all_functions() > options_.realize.functions)
    realize_box(box);
}

BufferIndex Lowering::realize_box(std::uint32_t box) {
  if (boxes_[box].buffer != loop_none) return boxes_[box].buffer;
  const BufferIndex buffer = new_buffer(boxes_[box].elements, boxes_[box].element);
  const std::int64_t elements = boxes_[box].elements;
  LoopValue value = std::move(boxes_[box].value);
  boxes_[box].value = {};
  boxes_[box].buffer = buffer;
  const OpIndex op = std::exchange(op_, boxes_[box].op);
  add_loop(LoopKind::Pointwise, std::move(value), elements, 1, {buffer}, boxes_[box].sizes);
  op_ = op;
  return buffer;
}

LoopIndex Lowering::add_loop(LoopKind kind, LoopValue value, std::int64_t numel, std::int64_t rnumel,
                             std::initializer_list<BufferIndex> buffers, const Dims& given_sizes) {
  const Dims sizes = given_sizes.empty() ? Dims{numel, rnumel} : given_sizes;
  Loop loop;
  loop.kind = kind;
  loop.op = op_;
  add_sorted(value.origins, op_);
  loop.origins = std::move(value.origins);
  loop.aten = std::move(value.aten);
  loop.numel = numel;
  loop.rnumel = rnumel;
  loop.whole_numel = numel;
  loop.whole_rnumel = rnumel;
  // A loop that reduces, or that others join, does not see where a broadcast at the inner end repeats.
  for (Touch& touch : value.reads) {
    touch.access = touch.access.without_inner_broadcast();
    note_loops(touch, sizes);
    if (std::find(loop.reads.begin(), loop.reads.end(), touch) == loop.reads.end())
      loop.reads.push_back(touch);
  }
  loop.parts = std::move(value.parts);
  if (value.lane_cycles > 0)
    loop.parts.push_back(
        {.value = graph_none, .place = result_.loops.size(), .lane_cycles = value.lane_cycles});
  loop.random = value.random;
  const auto index = static_cast<LoopIndex>(result_.loops.size());
  for (const BufferIndex buffer : buffers) {
    Buffer& memory = result_.buffers[buffer];
    memory.producer = index;
    loop.writes.push_back(
        {.buffer = buffer, .access = Access::straight(memory.elements), .bytes = memory.bytes()});
    note_loops(loop.writes.back(), sizes);
  }
  result_.loops.push_back(std::move(loop));
  return index;
}

BufferIndex Lowering::row_copy(TensorIndex t, std::string_view name) {
  LoopValue value = read(t, contiguous_tensor(type(t).element, type(t).shape));
  add_sorted(value.aten, name);
  const BufferIndex buffer = new_buffer(elements(type(t)), type(t).element);
  add_loop(LoopKind::Pointwise, std::move(value), elements(type(t)), 1, {buffer},
           loop_sizes(contiguous_tensor(type(t).element, type(t).shape)));
  return buffer;
}

LoopIndex Lowering::library(const Op& op, std::vector<EagerCall> calls,
                            const std::vector<BufferIndex>& copies, std::size_t left_out) {
  LoopValue value;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const TensorIndex t = op.inputs[i];
    if (t == graph_none || i == left_out) continue;
    const bool copied = i < copies.size() && copies[i] != loop_none;
    const BufferIndex buffer = copied ? copies[i] : realize(t);
    Touch touch{.buffer = buffer,
                .access = copied ? Access::straight(result_.buffers[buffer].elements)
                                 : Access::over(type(t).shape, type(t).strides, type(t).strides, offset(t)),
                .bytes = copied ? result_.buffers[buffer].bytes() : bytes(t)};
    if (std::find(value.reads.begin(), value.reads.end(), touch) == value.reads.end())
      value.reads.push_back(touch);
  }
  bool launches = false;
  for (const EagerCall& call : calls) launches = launches || !call.work.empty();
  const LoopIndex index =
      add_loop(launches ? LoopKind::Library : LoopKind::Nothing, std::move(value), 0, 1, {});
  Loop& loop = result_.loops[index];
  loop.calls = std::move(calls);
  for (const TensorIndex t : op.outputs) {
    const GraphTensor& tensor = graph_.tensors[t];
    loop.numel = std::max(loop.numel, elements(tensor.type));
    const bool in_place = !op.inputs.empty() && op.inputs.front() != graph_none &&
                          tensor.storage == graph_.tensors[op.inputs.front()].storage;
    if (in_place) {
      const BufferIndex buffer = realize(op.inputs.front());
      boxes_by_tensor_[t] = box_of(op.inputs.front());
      result_.loops[index].scatter = true;
      result_.loops[index].writes.push_back(
          {.buffer = buffer,
           .access = Access::irregular(elements(tensor.type), next_irregular()),
           .bytes = bytes(t)});
      continue;
    }
    const BufferIndex buffer =
        new_buffer(std::max<std::int64_t>(
                       graph_.storages[tensor.storage].bytes.value() / size_of(tensor.type.element), 1),
                   tensor.type.element);
    result_.buffers[buffer].producer = index;
    result_.loops[index].writes.push_back({.buffer = buffer,
                                           .access = Access::straight(result_.buffers[buffer].elements),
                                           .bytes = result_.buffers[buffer].bytes()});
    place(t, buffer);
  }
  return index;
}

bool Lowering::is_part_of_value(TensorIndex t) {
  const Box& box = boxes_[box_of(t)];
  return box.buffer == loop_none && elements(type(t)) < box.elements;
}

std::int32_t Lowering::buffers_read(const LoopValue& value) const {
  std::int32_t count = 0;
  for (std::size_t i = 0; i < value.reads.size(); ++i) {
    bool seen = false;
    for (std::size_t j = 0; j < i; ++j) seen = seen || value.reads[j].buffer == value.reads[i].buffer;
    if (!seen) ++count;
  }
  return count;
}

/// What Inductor decides once an op's value stands: GraphLowering.run_node.
void Lowering::after(TensorIndex t) {
  const std::uint32_t index = boxes_by_tensor_[t];
  if (index == loop_none || boxes_[index].buffer != loop_none) return;
  const Box& box = boxes_[index];
  const RealizeRules& rules = options_.realize;
  const std::int32_t users = users_[t];
  const std::int32_t reads = buffers_read(box.value);
  const std::int32_t functions = box.value.all_functions();
  const bool several = reads_several(box.value);
  bool wanted = options_.realize_all;
  if (users > 1) {
    wanted = (memory_user_[t] != 0 && several) || outside_[t] != 0 || reads > rules.reads ||
             functions > rules.functions;
  }
  if ((reads > rules.accumulated_reads || functions > rules.functions) && several) wanted = true;
  if (functions > rules.functions_max) wanted = true;
  if (wanted) realize_box(index);
}

bool Lowering::only_pointwise_users(TensorIndex t) const {
  if (outside_[t] != 0) return false;
  for (const OpIndex reader : readers(t)) {
    const Op& op = graph_.ops[reader];
    if (op.kind->fusion == FusionClass::View && is_view_of_first(graph_, op)) {
      for (const TensorIndex out : op.outputs)
        if (!only_pointwise_users(out)) return false;
    } else if (op.kind->fusion != FusionClass::Pointwise && op.kind->fusion != FusionClass::View) {
      return false;
    }
  }
  return true;
}

LoopGraph lower(const OpGraph& graph, const GpuSpec& gpu, OpIndex first, OpIndex last,
                const std::vector<std::int64_t>& offsets, const LowerOptions& options) {
  return Lowering(graph, gpu, first, last, offsets, options).run();
}

}  // namespace gpusim
