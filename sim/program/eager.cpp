// SPDX-License-Identifier: Apache-2.0
#include "sim/program/eager.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "models/cost/instruction_cache.hpp"
#include "models/graph/data_parallel.hpp"
#include "sim/program/eager_ops.hpp"

namespace gpusim {

EagerOps::EagerOps(const OpGraph& graph, const GpuSpec& gpu, const HostSpec& host, HostOpMode mode,
                   StepLayout& layout)
    : graph_(graph), gpu_(gpu), host_(host), mode_(mode), layout_(layout) {
  module_call_ = host_.ops.count("module_call") != 0 ? op_time(host_, "module_call", mode_) : Picoseconds{0};
  if (host_.ops.count("autograd_node") != 0)
    autograd_node_ = op_time(host_, "autograd_node", HostOpMode::NoGrad);
  bytes_.reserve(graph_.tensors.size());
  for (const GraphTensor& tensor : graph_.tensors)
    bytes_.push_back({stored_bytes(tensor.type), dense_bytes(tensor.type)});
  prices_.resize(graph_.ops.size());
  find_streams();
}

std::uint16_t EagerOps::stream_of(const Op& op) const {
  if (!streams_ || !op.attributes.has("stream")) return 0;
  return layout_.stream(op.attributes.word("stream"));
}

void EagerOps::find_streams() {
  streams_ = std::any_of(graph_.ops.begin(), graph_.ops.end(), [](const Op& op) {
    return op.attributes.has("stream") && !op.attributes.word("stream").empty();
  });
  if (!streams_) return;
  layout_.share_device();
  made_.resize(graph_.storages.size());
  crosses_.assign(graph_.storages.size(), false);
  std::vector<std::uint16_t> maker(graph_.storages.size(), 0);
  for (const Op& op : graph_.ops)
    for (const TensorIndex t : op.outputs) maker[graph_.tensors[t].storage] = stream_of(op);
  for (const Op& op : graph_.ops)
    for (const TensorIndex t : op.inputs)
      if (t != graph_none && maker[graph_.tensors[t].storage] != stream_of(op))
        crosses_[graph_.tensors[t].storage] = true;
}

/// Has the op's stream wait for what others make of its inputs. Parameters are there before the step, unless
/// the op says that it has to wait for those who changed them (`joins`).
void EagerOps::await_inputs(const Op& op, std::uint16_t stream) {
  bool joins = op.attributes.has("joins") && op.attributes.flag("joins");
  for (const TensorIndex t : op.inputs) {
    if (t == graph_none) continue;
    const GraphTensor& tensor = graph_.tensors[t];
    Made& made = made_[tensor.storage];
    if (made.event == engine::no_index) {
      if (made.stream == stream) continue;  // In order.
      joins = joins || (stream != 0 && (tensor.producer != graph_none || tensor.role != Role::Parameter));
      continue;
    }
    const std::uint32_t bit = std::uint32_t{1} << (stream & 31U);
    if (made.stream == stream || (made.awaited & bit) != 0) continue;
    layout_.wait(made.event, stream);
    made.awaited |= bit;
  }
  if (joins && stream != 0) layout_.wait(layout_.record(0), stream);
}

void EagerOps::mark_outputs(const Op& op, std::uint16_t stream) {
  const bool marks = op.attributes.has("marks");
  for (const TensorIndex t : op.outputs) {
    const StorageIndex s = graph_.tensors[t].storage;
    made_[s] = {.event = engine::no_index, .stream = stream};
  }
  if (marks) {
    made_[graph_.tensors[op.outputs.back()].storage].event = layout_.record(stream);
    return;
  }
  if (stream == 0) return;
  engine::Index event = engine::no_index;
  for (const TensorIndex t : op.outputs) {
    const StorageIndex s = graph_.tensors[t].storage;
    if (event == engine::no_index && crosses_[s]) event = layout_.record(stream);
    made_[s].event = event;
  }
}

/// torch.utils.checkpoint works in Python: on the way in and when a block is made again it looks after the
/// state of the random numbers and puts hooks in place, and each tensor that autograd would keep goes through
/// one of these hooks, twice.
void EagerOps::price_checkpoints() {
  const auto price = [&](const char* op) { return op_time(host_, op, HostOpMode::NoGrad); };
  if (host_.ops.count("checkpoint") == 0) return;
  constexpr std::size_t none = std::numeric_limits<std::size_t>::max();
  std::vector<OpIndex> begins;  // Of each block made again: its first op there.
  std::vector<std::size_t> block_of(graph_.ops.size(), none);  // By op of the forward pass.
  for (OpIndex i = 1; i < graph_.ops.size(); ++i) {
    const Op& op = graph_.ops[i];
    if (op.phase != Phase::Backward || !op.recomputed || op.gradient_of == graph_none) continue;
    block_of[op.gradient_of] = begins.size() - (graph_.ops[i - 1].recomputed ? 1 : 0);
    if (graph_.ops[i - 1].recomputed) continue;
    begins.push_back(i);
    // What stands in the block but is not made again keeps tensors, too.
    for (const BlockCall& call : graph_.calls)
      if (call.first == op.gradient_of && (call.in_repeat || call.runs_again))
        std::fill(block_of.begin() + call.first, block_of.begin() + call.last, begins.size() - 1);
  }
  if (begins.empty()) return;
  std::vector<std::int64_t> kept(begins.size(), 0);
  std::set<std::pair<OpIndex, TensorIndex>> seen;
  for (const Op& op : graph_.ops) {
    if (op.phase != Phase::Backward || op.recomputed || op.gradient_of == graph_none) continue;
    const std::size_t block = block_of[op.gradient_of];
    if (block == none) continue;
    for (const TensorIndex t : op.inputs) {
      if (t == graph_none) continue;
      const OpIndex producer = graph_.tensors[t].producer;
      const bool gradient = producer != graph_none && graph_.ops[producer].phase == Phase::Backward &&
                            !graph_.ops[producer].recomputed;
      if (!gradient && seen.emplace(op.gradient_of, t).second) ++kept[block];
    }
  }
  before_.assign(graph_.ops.size(), Picoseconds{0});
  for (std::size_t b = 0; b < begins.size(); ++b) {
    const OpIndex again = begins[b];
    const OpIndex first = graph_.ops[again].gradient_of;
    if (first != graph_none) before_[first] += price("checkpoint") + kept[b] * price("checkpoint_tensor");
    before_[again] += price("checkpoint_again") + kept[b] * price("checkpoint_tensor_again");
  }
}

EagerOps::Priced& EagerOps::price(const Op& op) {
  if (prices_[op.like]) return *prices_[op.like];
  const Op& first = graph_.ops[op.like];
  const OpTypes types(graph_, first);
  const OpView view = types.view(first);
  Priced& priced = prices_[op.like].emplace();
  priced.calls = op.kind->eager(view, gpu_);
  for (const EagerCall& call : priced.calls) priced.launches += op_launches(host_, call.host_op);
  if (op.kind->flops != nullptr) priced.flops = op.kind->flops(view);
  return priced;
}

HostOpMode EagerOps::mode_of(const Op& op) const {
  switch (op.phase) {
    case Phase::Forward:
      return mode_;
    case Phase::Backward:
      // What is run again is called from Python, wherever it runs; the engine calls the rest from C++.
      return op.recomputed ? mode_ : HostOpMode::NoGrad;
    case Phase::Optimizer:
      return HostOpMode::NoGrad;
  }
  return mode_;
}

Picoseconds EagerOps::host_time(const Op& op, Priced& priced) const {
  const HostOpMode mode = mode_of(op);
  std::optional<Picoseconds>& known = priced.host[static_cast<std::size_t>(mode)];
  if (!known) {
    known = Picoseconds{0};
    for (const EagerCall& call : priced.calls) *known += op_time(host_, call.host_op, mode);
  }
  return *known + op.module_calls * module_call_ + op.nodes * autograd_node_;
}

void EagerOps::take_turn(Phase phase) {
  const bool backward = phase == Phase::Backward;
  if (backward == layout_.in_backward()) return;
  if (!backward) return layout_.end_backward();
  if (host_.ops.count("backward") != 0)
    layout_.add_work(op_time(host_, "backward", mode_), layout_.name("backward"));
  layout_.begin_backward();
}

void EagerOps::done() {
  if (layout_.in_backward()) layout_.end_backward();
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

void EagerOps::add(const Op& op, RecentMemory& touched, std::optional<std::uint32_t> memory) {
  take_turn(op.phase);
  if (memory) layout_.mark(op.phase, *memory);
  if (!before_.empty()) {
    const Picoseconds before = before_[static_cast<std::size_t>(&op - graph_.ops.data())];
    if (before > Picoseconds{0}) layout_.add_work(before, layout_.name("checkpoint"));
  }
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
          known->second.push_back(add_kernel(op.kind->name, estimate));
  Picoseconds host = host_time(op, priced);
  // An op's price has so many launch calls in it; what it launches beyond them costs a call each.
  std::int32_t included = priced.launches;
  for (const Kernel& kernel : known->second)
    if (included-- > 0) host -= kernel.launched.call;
  if (host > Picoseconds{0}) {
    if (priced.name == engine::no_index) priced.name = layout_.name(std::string(op.kind->name));
    layout_.add_work(host, priced.name);
  }
  const std::uint16_t stream = stream_of(op);
  if (streams_) await_inputs(op, stream);
  for (const Kernel& kernel : known->second) {
    layout_.launch(kernel.code == last_code_ ? kernel.again : kernel.launched, stream);
    last_code_ = kernel.code;
  }
  if (streams_) mark_outputs(op, stream);
  touch(op, touched);
}

/// A kernel that follows another one fetches its code first; after itself it finds it there. Formulas and the
/// measurements behind them are of kernels that follow themselves.
EagerOps::Kernel EagerOps::add_kernel(std::string_view op, GpuOpEstimate estimate) {
  Kernel kernel;
  kernel.again = layout_.add(op, estimate);
  kernel.launched = kernel.again;
  // Each shape of a product may be another kernel; elementwise ones of one function are one.
  const double bytes = code_bytes(estimate.name);
  const bool own = bytes > 16 * 1024;
  kernel.code = {own, own ? kernel.again.op : layout_.name_of(kernel.again)};
  if (estimate.kind == GpuOpKind::Kernel && gpu_.launch.code_fetch > Picoseconds{0}) {
    estimate.cost.duration += gpu_.launch.code_fetch;
    kernel.launched = layout_.add(op, estimate);
    again_.emplace(kernel.launched.op, kernel.again.op);
    if (code_.insert(kernel.code).second) code_bytes_ += bytes;
  }
  return kernel;
}

void EagerOps::keep_code() {
  if (code_bytes_ == 0 || code_bytes_ > instruction_cache_bytes) return;
  // Nothing to fetch shortens the pauses inside a CUDA graph as well: 0.15 to 0.3 us in chains of one or two
  // kernels, where networks have 0.3 to 0.46 (graph_chains.csv and graph_nodes of validation/h200).
  constexpr Picoseconds fetched_in_gap{180'000};
  engine::Machine& machine = layout_.built.machine;
  for (const GapClass before : {GapClass::ShortKernel, GapClass::LongKernel})
    for (const GapClass after : {GapClass::ShortKernel, GapClass::LongKernel}) {
      Picoseconds& gap = machine.graph_gap[static_cast<std::size_t>(before)][static_cast<std::size_t>(after)];
      gap = std::max(gap - fetched_in_gap, std::min(gap, Picoseconds{0}));
    }
  for (engine::HostThread& thread : layout_.built.program.threads)
    for (engine::Instruction& i : thread.instructions)
      if (i.call == engine::Call::Launch)
        if (const auto found = again_.find(i.object); found != again_.end()) i.object = found->second;
}

EagerProgram build_eager(const OpGraph& graph, const GpuSpec& gpu, const HostSpec& host, HostOpMode mode,
                         const EagerOptions& options) {
  EagerProgram result;
  StepLayout layout(gpu, launch_extra(host, mode));
  EagerOps ops(graph, gpu, host, mode, layout);
  ops.price_checkpoints();
  layout.built.program.threads.front().instructions.reserve(2 * graph.ops.size());
  // Two rounds over the step: the second one finds the cache as a step before it left it.
  result.memory =
      eager_memory(graph, gpu, options.accumulation, options.memory_curve ? &result.memory_curve : nullptr);
  RecentMemory touched(result.memory.addresses, gpu.l2);
  for (const Op& op : graph.ops) ops.touch(op, touched);
  if (host.ops.count("step") != 0) {
    const Picoseconds step = op_time(host, "step", mode);
    if (step > Picoseconds{0}) layout.add_work(step, layout.name("step"));
  }
  OpIndex passes_end = 0;  // Of what runs once for each micro-batch.
  for (std::size_t i = 0; i < graph.ops.size(); ++i)
    if (graph.ops[i].phase != Phase::Optimizer) passes_end = static_cast<OpIndex>(i + 1);
  const bool trains = std::any_of(graph.ops.begin(), graph.ops.end(),
                                  [](const Op& op) { return op.phase != Phase::Forward; });
  for (std::int64_t pass = 0; pass < options.accumulation; ++pass) {
    const bool last = pass + 1 == options.accumulation;
    for (OpIndex i = 0; i < (last ? graph.ops.size() : passes_end); ++i) {
      // The first gradient is taken as it is.
      if (graph.ops[i].accumulates && pass == 0) continue;
      if (!last && only_in_last_pass(graph.ops[i])) continue;
      std::optional<std::uint32_t> memory;
      if (trains || options.memory_curve) memory = i + (pass > 0 ? passes_end : 0);
      ops.add(graph.ops[i], touched, memory);
    }
  }
  ops.done();
  ops.keep_code();
  result.model_flops = ops.model_flops();
  layout.built.notes = layout.slow_down(options.captured);
  for (std::string& note : layout.notes(result.memory.peak)) layout.built.notes.push_back(std::move(note));
  result.built = std::move(layout.built);
  return result;
}

}  // namespace gpusim
