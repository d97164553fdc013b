// SPDX-License-Identifier: Apache-2.0
#include "sim/program/eager.hpp"

#include <algorithm>
#include <utility>

#include "sim/program/eager_ops.hpp"

namespace gpusim {

EagerOps::EagerOps(const OpGraph& graph, const GpuSpec& gpu, const HostSpec& host, HostOpMode mode,
                   StepLayout& layout)
    : graph_(graph), gpu_(gpu), host_(host), mode_(mode), layout_(layout) {
  module_call_ = host_.ops.count("module_call") != 0 ? op_time(host_, "module_call", mode_) : Picoseconds{0};
  bytes_.reserve(graph_.tensors.size());
  for (const GraphTensor& tensor : graph_.tensors)
    bytes_.push_back({stored_bytes(tensor.type), dense_bytes(tensor.type)});
  prices_.resize(graph_.ops.size());
}

EagerOps::Priced& EagerOps::price(const Op& op) {
  if (prices_[op.like]) return *prices_[op.like];
  const Op& first = graph_.ops[op.like];
  const OpTypes types(graph_, first);
  const OpView view = types.view(first);
  Priced& priced = prices_[op.like].emplace();
  priced.calls = op.kind->eager(view, gpu_);
  for (const EagerCall& call : priced.calls) {
    priced.host += op_time(host_, call.host_op, mode_);
    priced.launches += op_launches(host_, call.host_op);
  }
  if (op.kind->flops != nullptr) priced.flops = op.kind->flops(view);
  return priced;
}

void EagerOps::touch(const Op& op, RecentMemory& touched) const {
  if (op.kind->fusion == FusionClass::View) return;
  touched.begin(moved(op));
  for (const TensorIndex t : op.inputs)
    if (t != graph_none) touched.touch(graph_.tensors[t].storage, touched_bytes(op, t));
  for (const TensorIndex t : op.outputs) touched.touch(graph_.tensors[t].storage, bytes_[t].dense);
}

/// A lookup touches the rows it finds, not the whole table.
Bytes EagerOps::touched_bytes(const Op& op, TensorIndex t) const {
  const Bytes all = bytes_[t].stored;
  if (op.kind->fusion != FusionClass::Gather && op.kind->fusion != FusionClass::Scatter) return all;
  Bytes most{0};
  for (const TensorIndex out : op.outputs) most = std::max(most, bytes_[out].dense);
  return op.kind->fusion == FusionClass::Gather ? std::min(all, most) : all;
}

/// What an op goes over: its inputs and outputs.
Bytes EagerOps::moved(const Op& op) const {
  Bytes sum{0};
  for (const TensorIndex t : op.inputs)
    if (t != graph_none) sum += touched_bytes(op, t);
  for (const TensorIndex t : op.outputs) sum += bytes_[t].dense;
  return sum;
}

CacheState EagerOps::cache_of(const Op& op, const RecentMemory& touched) const {
  double read = 0;
  double missed = 0;
  const Bytes turn = moved(op);
  for (const TensorIndex t : op.inputs) {
    if (t == graph_none) continue;
    const Bytes bytes = touched_bytes(op, t);
    read += static_cast<double>(bytes.value());
    missed +=
        static_cast<double>(bytes.value()) * cold_share(touched.since(graph_.tensors[t].storage, turn), gpu_);
  }
  // The allocator hands out what was freed last, so a result overwrites what the cache still holds, if it
  // holds that much.
  return {.cold_reads = read > 0 ? missed / read : 0, .cold_writes = cold_share(turn, gpu_)};
}

void EagerOps::add(const Op& op, RecentMemory& touched) {
  Priced& priced = price(op);
  model_flops_ += priced.flops;
  const CacheState cache = cache_of(op, touched);
  const auto reads = static_cast<int>(cache.cold_reads * cache_steps + 0.5);
  const auto writes = static_cast<int>(cache.cold_writes * cache_steps + 0.5);
  const auto [known, is_new] = priced.launched.try_emplace({reads, writes});
  if (is_new)
    for (const EagerCall& call : priced.calls)
      for (const KernelWork& work : call.work)
        for (const GpuOpEstimate& estimate : gpu_ops(work, gpu_, {reads / cache_steps, writes / cache_steps}))
          known->second.push_back(layout_.add(op.kind->name, estimate));
  Picoseconds host = priced.host + op.module_calls * module_call_;
  // An op's price has so many launch calls in it; what it launches beyond them costs a call each.
  std::int32_t included = priced.launches;
  for (const StepLayout::Launched& launched : known->second)
    if (included-- > 0) host -= launched.call;
  if (host > Picoseconds{0}) {
    if (priced.name == engine::no_index) priced.name = layout_.name(std::string(op.kind->name));
    layout_.add_work(host, priced.name);
  }
  for (const StepLayout::Launched& launched : known->second) layout_.launch(launched);
  touch(op, touched);
}

EagerProgram build_eager(const OpGraph& graph, const GpuSpec& gpu, const HostSpec& host, HostOpMode mode,
                         bool captured) {
  EagerProgram result;
  StepLayout layout(gpu);
  EagerOps ops(graph, gpu, host, mode, layout);
  layout.built.program.threads.front().instructions.reserve(2 * graph.ops.size());
  // Two rounds over the step: the second one finds the cache as a step before it left it.
  result.memory = eager_memory(graph, gpu);
  RecentMemory touched(result.memory.addresses, gpu.l2);
  for (const Op& op : graph.ops) ops.touch(op, touched);
  if (host.ops.count("step") != 0) {
    const Picoseconds step = op_time(host, "step", mode);
    if (step > Picoseconds{0}) layout.add_work(step, layout.name("step"));
  }
  for (const Op& op : graph.ops) ops.add(op, touched);
  result.model_flops = ops.model_flops();
  layout.built.notes = layout.slow_down(captured);
  for (std::string& note : layout.notes(result.memory.peak)) layout.built.notes.push_back(std::move(note));
  result.built = std::move(layout.built);
  return result;
}

}  // namespace gpusim
