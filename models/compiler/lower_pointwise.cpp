// SPDX-License-Identifier: Apache-2.0
// Elementwise ops, gathers, concatenations, and writes into memory that is there already.
#include <algorithm>
#include <array>

#include "models/compiler/lowering.hpp"

namespace gpusim {
namespace {

struct FunctionCost {
  double lane_cycles = 0;
  std::int32_t operations = 1;
};

/// Arithmetic of an op as the catalogue prices its eager kernels, and how many operations Inductor counts in
/// its expression.
FunctionCost cost_of(Lowering& l, const Op& op) {
  FunctionCost cost;
  for (const EagerCall& call : l.eager(op))
    for (const KernelWork& work : call.work)
      if (const auto* pointwise = std::get_if<Pointwise>(&work))
        cost.lane_cycles = std::max(cost.lane_cycles, pointwise->lane_cycles);
  // Of the expressions of torch/_refs and torch/_inductor/decomposition.py, constants and casts included.
  struct Count {
    std::string_view kind;
    std::int32_t operations;
  };
  constexpr std::array<Count, 9> counts{{{"gelu", 17},
                                         {"silu", 7},
                                         {"sigmoid", 3},
                                         {"dropout", 8},
                                         {"masked_fill", 2},
                                         {"pow", 2},
                                         {"relu", 1},
                                         {"clamp", 3},
                                         {"addcmul", 3}}};
  for (const Count& count : counts)
    if (count.kind == op.kind->name) cost.operations = count.operations;
  if (op.attributes.has("scalar")) ++cost.operations;  // the number is an operation of its own
  return cost;
}

LoopValue operands(Lowering& l, const Op& op, const TensorType& loop) {
  LoopValue value;
  for (const TensorIndex t : op.inputs)
    if (t != graph_none) Lowering::join(value, l.read(t, loop));
  return value;
}

bool covers_storage(const Lowering& l, TensorIndex t) {
  const GraphTensor& tensor = l.graph().tensors[t];
  return is_dense(tensor.type) && dense_bytes(tensor.type) >= l.graph().storages[tensor.storage].bytes;
}

/// x.add_(y): a new value of the whole memory. Where it is a part of it, or memory that stays, a loop writes
/// it at once.
void lower_in_place(Lowering& l, const Op& op) {
  const TensorIndex target = op.inputs.front();
  const TensorIndex out = op.outputs.front();
  const FunctionCost cost = cost_of(l, op);
  const bool copies = op.kind->name == "copy_";
  LoopValue value;
  for (std::size_t i = copies ? 1 : 0; i < op.inputs.size(); ++i)
    if (op.inputs[i] != graph_none) Lowering::join(value, l.read(op.inputs[i], l.type(target)));
  value.lane_cycles += cost.lane_cycles;
  value.functions += cost.operations;
  Lowering::name(value, op);
  const Role role = l.graph().storages[l.graph().tensors[target].storage].role;
  if (covers_storage(l, target) && (role == Role::Activation || role == Role::Gradient)) {
    l.define(out, std::move(value));
    return;
  }
  const BufferIndex buffer = l.realize(target);
  const LoopIndex index = l.add_loop(LoopKind::Pointwise, std::move(value), elements(l.type(target)), 1, {},
                                     loop_sizes(l.type(target)));
  Loop& loop = l.loops().loops[index];
  loop.scatter = !covers_storage(l, target);
  loop.writes.push_back({.buffer = buffer,
                         .access = Access::over(l.type(target).shape, l.type(target).strides,
                                                l.type(target).strides, l.offset(target)),
                         .bytes = l.bytes(target)});
  l.alias(out, target);
}

/// cache[:, :, position] = k and its like: a loop over what is written, at places that data decide.
void lower_scatter(Lowering& l, const Op& op) {
  const TensorIndex target = op.inputs.front();
  const TensorIndex index = op.inputs[1];
  const TensorIndex source = op.inputs[2];
  const TensorType loop_type = contiguous_tensor(l.type(source).element, l.type(source).shape);
  LoopValue value = l.read(source, loop_type);
  const std::int64_t count = elements(loop_type);
  LoopValue where = l.read(index, Access::irregular(count, l.next_irregular()));
  for (Touch& touch : where.reads) touch.bytes = l.bytes(index);
  Lowering::join(value, where);
  Lowering::name(value, op);
  value.functions += 2;
  const bool adds = op.kind->name == "index_add_";
  const BufferIndex buffer = l.realize(target);
  const Bytes written(count * size_of(l.type(target).element));
  if (adds)
    value.reads.push_back({.buffer = buffer,
                           .access = Access::irregular(count, l.next_irregular()),
                           .bytes = written,
                           .indirect = true});
  const LoopIndex at = l.add_loop(LoopKind::Pointwise, std::move(value), count, 1, {}, loop_sizes(loop_type));
  Loop& loop = l.loops().loops[at];
  loop.scatter = true;
  loop.writes.push_back({.buffer = buffer,
                         .access = Access::irregular(count, l.next_irregular()),
                         .bytes = written,
                         .indirect = true});
  l.alias(op.outputs.front(), target);
}

/// Atomic additions of 16 bits are left to the library.
void lower_index_add(Lowering& l, const Op& op) {
  if (size_of(l.type(op.inputs.front()).element) >= 4) {
    lower_scatter(l, op);
    return;
  }
  std::vector<EagerCall> calls = l.eager(op);
  // The functional form adds to a copy of its own.
  calls.front().work.insert(calls.front().work.begin(), Memcpy{.bytes = l.bytes(op.inputs.front())});
  l.library(op, std::move(calls));
}

/// Rows of a table by index: read where they are needed.
void lower_gather(Lowering& l, const Op& op, TensorIndex table, std::initializer_list<TensorIndex> indices) {
  const TensorIndex out = op.outputs.front();
  const TensorType& type = l.type(out);
  const std::int64_t count = elements(type);
  LoopValue value;
  for (const TensorIndex t : indices) {
    if (t == graph_none) continue;
    // Each index is read for the whole row that it finds: by shape, the index's dimensions come first.
    Dims strides;
    for (int d = 0; d < type.shape.rank(); ++d)
      strides.push_back(d < l.type(t).shape.rank() && l.type(t).shape[d] != 1 ? l.type(t).strides[d] : 0);
    LoopValue index = l.read(t, Access::over(type.shape, type.strides, strides, l.offset(t)));
    Lowering::join(value, index);
  }
  // The table's value at a place that the index decides: computed there if it is not in memory.
  const std::int64_t row =
      element_count(l.type(table).shape) / std::max<std::int64_t>(l.type(table).shape[0], 1);
  LoopValue found = l.read(table, l.type(table));
  for (Touch& touch : found.reads) {
    const std::int64_t whole = touch.bytes.value();
    touch.access = touch.access.made_irregular(count, row);
    touch.bytes = Bytes(std::min(count * size_of(l.loops().buffers[touch.buffer].element), whole));
    touch.indirect = true;
  }
  Lowering::join(value, found);
  value.functions += 5;  // the index is wrapped and checked
  Lowering::name(value, op);
  l.define(out, std::move(value));
}
void lower_embedding(Lowering& l, const Op& op) {
  lower_gather(l, op, op.inputs[1], {op.inputs[0]});
}
void lower_index(Lowering& l, const Op& op) {
  lower_gather(l, op, op.inputs[0], {op.inputs[1], op.inputs.size() > 2 ? op.inputs[2] : graph_none});
}
void lower_index_select(Lowering& l, const Op& op) {
  lower_gather(l, op, op.inputs[0], {op.inputs[1]});
}

/// Whether the readers of `t` are all elementwise, other concatenations counting as such.
bool read_elementwise(const Lowering& l, TensorIndex t) {
  if (l.is_outside(t)) return false;
  for (const OpIndex reader : l.readers(t)) {
    const Op& op = l.graph().ops[reader];
    const bool joins = op.kind->name == "cat" || op.kind->name == "stack";
    if (op.kind->fusion == FusionClass::View) {
      for (const TensorIndex out : op.outputs)
        if (!read_elementwise(l, out)) return false;
    } else if (op.kind->fusion != FusionClass::Pointwise && !joins) {
      return false;
    }
  }
  return true;
}

/// Concatenation: one elementwise loop that picks its operand by place, or a loop per operand that writes
/// its part (torch/_inductor/lowering.py, cat).
void lower_cat(Lowering& l, const Op& op) {
  const TensorIndex out = op.outputs.front();
  const bool stack = op.kind->name == "stack";
  // A loop can write its result right into its part; all else takes a copy in any case.
  std::size_t copied = 0;
  for (const TensorIndex t : op.inputs)
    if (!l.is_made_by_loop(t)) ++copied;
  const bool few = op.inputs.size() <= static_cast<std::size_t>(l.options().realize.cat_inputs);
  if (few && ((copied > 0 && read_elementwise(l, out)) || copied == op.inputs.size())) {
    LoopValue value;
    std::int64_t part_number = 0;
    for (const TensorIndex t : op.inputs) {
      // Each place of the result looks at one operand; all are read once, in runs.
      TensorType part = contiguous_tensor(l.type(t).element, l.type(t).shape);
      LoopValue operand = l.read(t, part);
      for (Touch& touch : operand.reads)
        touch.access = touch.access.made_irregular(elements(l.type(out)), part_number);
      ++part_number;
      Lowering::join(value, operand);
      value.functions += 4;  // the comparison, the mask, the shifted index
    }
    Lowering::name(value, stack ? "stack" : "cat");
    l.define(out, std::move(value));
    return;
  }
  const BufferIndex buffer = l.new_buffer(elements(l.type(out)), l.type(out).element);
  for (const TensorIndex t : op.inputs) {
    const TensorType part = contiguous_tensor(l.type(t).element, l.type(t).shape);
    LoopValue value = l.read(t, part);
    Lowering::name(value, "cat");
    const LoopIndex index =
        l.add_loop(LoopKind::Pointwise, std::move(value), elements(l.type(t)), 1, {}, loop_sizes(part));
    l.loops().buffers[buffer].producer = index;
    l.loops().loops[index].writes.push_back(
        {.buffer = buffer,
         .access = Access::irregular(elements(l.type(t)), l.next_irregular()),
         .bytes = dense_bytes(l.type(t))});
  }
  l.place(out, buffer);
}

/// Constants: written nowhere, a number in the loops that read them.
void lower_constant(Lowering& l, const Op& op) {
  LoopValue value;
  value.functions = 1;
  Lowering::name(value, op);
  for (const TensorIndex out : op.outputs) l.define(out, value);
}

void lower_dropout(Lowering& l, const Op& op) {
  if (op.outputs.size() == 1) {
    l.alias(op.outputs.front(), op.inputs.front());
    return;
  }
  const TensorIndex out = op.outputs.front();
  const FunctionCost cost = cost_of(l, op);
  LoopValue mask;
  mask.functions = 4;
  mask.random = true;
  mask.lane_cycles = l.gpu().calibration ? l.gpu().calibration->copy.random : 0;
  Lowering::name(mask, "dropout");
  l.define(op.outputs[1], mask);
  LoopValue value = operands(l, op, l.type(out));
  Lowering::join(value, l.read(op.outputs[1], l.type(out)));
  value.functions += cost.operations;
  Lowering::name(value, "dropout");
  l.define(out, std::move(value));
}

void lower_cast(Lowering& l, const Op& op) {
  const TensorIndex out = op.outputs.front();
  if (l.graph().tensors[out].storage == l.graph().tensors[op.inputs.front()].storage) {
    l.alias(out, op.inputs.front());  // already of this dtype
    return;
  }
  LoopValue value = l.read(op.inputs.front(), l.type(out));
  value.functions += 1;
  Lowering::name(value, op);
  l.define(out, std::move(value));
}

void lower_memory(Lowering& l, const Op& op) {
  for (const TensorIndex out : op.outputs) {
    const BufferIndex buffer = l.new_buffer(elements(l.type(out)), l.type(out).element);
    l.add_loop(LoopKind::Nothing, {}, 0, 1, {buffer});
    l.place(out, buffer);
  }
}

/// One number per class: compares each class with the index, element by element.
void lower_one_hot(Lowering& l, const Op& op) {
  const TensorIndex out = op.outputs.front();
  Dims strides = l.type(op.inputs.front()).strides;
  strides.push_back(0);
  LoopValue value = l.read(op.inputs.front(), Access::over(l.type(out).shape, l.type(out).strides, strides,
                                                           l.offset(op.inputs.front())));
  value.functions += 3;
  Lowering::name(value, "one_hot");
  l.define(out, std::move(value));
}

/// Pooling with a small window is elementwise: each output looks at its window.
void lower_pool(Lowering& l, const Op& op) {
  const TensorIndex in = op.inputs.front();
  const TensorIndex out = op.outputs.front();
  const std::int64_t kernel = op.attributes.has("kernel") ? op.attributes.integer("kernel") : 1;
  constexpr std::int64_t unrolled_window_max = 25;
  if (kernel * kernel > unrolled_window_max) {
    l.library(op, l.eager(op));
    return;
  }
  LoopValue value;
  value.reads.push_back({.buffer = l.realize(in),
                         .access = Access::irregular(elements(l.type(out)), l.next_irregular()),
                         .bytes = l.bytes(in)});
  value.functions += static_cast<std::int32_t>(kernel * kernel * 4);
  value.lane_cycles += static_cast<double>(kernel * kernel) * lane_cycles(AluFunction::Add, l.gpu());
  Lowering::name(value, op);
  l.define(out, std::move(value));
  l.realize(out);
}

constexpr LowerEntry entries[]{{"add_", lower_in_place},
                               {"mul_", lower_in_place},
                               {"relu_", lower_in_place},
                               {"copy_", lower_in_place},
                               {"index_put_", lower_scatter},
                               {"index_copy_", lower_scatter},
                               {"index_add_", lower_index_add},
                               {"scatter_", lower_scatter},
                               {"embedding", lower_embedding},
                               {"index", lower_index},
                               {"index_select", lower_index_select},
                               {"gather", lower_index},
                               {"cat", lower_cat},
                               {"stack", lower_cat},
                               {"arange", lower_constant},
                               {"zeros", lower_constant},
                               {"empty", lower_memory},
                               {"dropout", lower_dropout},
                               {"to", lower_cast},
                               {"type_as", lower_cast},
                               {"one_hot", lower_one_hot},
                               {"max_pool2d", lower_pool},
                               {"avg_pool2d", lower_pool}};

}  // namespace

std::span<const LowerEntry> pointwise_lowerings() {
  return entries;
}

void lower_pointwise(Lowering& l, const Op& op) {
  const TensorIndex out = op.outputs.front();
  if (op.kind->fusion == FusionClass::View) {
    // A reshape that the framework copies: the same places, read in the order of the input's shape.
    const TensorType& in = l.type(op.inputs.front());
    const bool contiguous = op.kind->name == "contiguous";
    LoopValue value = contiguous ? l.read(op.inputs.front(), l.type(out))
                                 : l.read(op.inputs.front(), contiguous_tensor(in.element, in.shape));
    Lowering::name(value, op);
    l.define(out, std::move(value));
    return;
  }
  const FunctionCost cost = cost_of(l, op);
  LoopValue value = operands(l, op, l.type(out));
  value.lane_cycles += cost.lane_cycles;
  value.functions += cost.operations;
  Lowering::name(value, op);
  l.define(out, std::move(value));
}

}  // namespace gpusim
