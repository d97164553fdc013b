// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/kernels.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "models/compiler/split_reduction.hpp"
#include "models/cost/instruction_cache.hpp"
#include "models/graph/catalogue.hpp"

namespace gpusim {
namespace {

constexpr std::size_t name_ops_max = 10;  ///< kernel_name_max_ops.
/// Of a compiled product against the library's. On an H200 five products of 16 rows took 1.33 times as long
/// in the step, though timed alone the templates had won (validation/h200/compiled_steps.csv, seed_decoder).
constexpr double template_slowdown = 1.33;

Bytes sum(const std::vector<KernelTouch>& touches) {
  Bytes bytes{0};
  for (const KernelTouch& touch : touches) bytes += touch.bytes;
  return bytes;
}

/// Which groups read which buffers.
class Users {
 public:
  Users(const LoopGraph& graph, const FusionPlan& plan) : reader_(graph.buffers.size(), none) {
    for (std::size_t g = 0; g < plan.groups.size(); ++g)
      for (const LoopIndex loop : plan.groups[g].loops)
        for (const Touch& touch : graph.loops[loop].reads) {
          std::size_t& reader = reader_[touch.buffer];
          reader = reader == none || reader == g ? g : several;
        }
  }
  bool read_outside(BufferIndex buffer, std::size_t group) const {
    return reader_[buffer] != none && reader_[buffer] != group;
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  static constexpr std::size_t several = none - 1;
  std::vector<std::size_t> reader_;  ///< By buffer.
};

KernelTraffic traffic(const LoopGraph& graph, const FusionPlan& plan, const Users& users, std::size_t index) {
  const FusionGroup& group = plan.groups[index];
  KernelTraffic result;
  std::vector<BufferIndex> made;
  std::vector<const Touch*> seen;
  for (const LoopIndex l : group.loops) {
    const Loop& loop = graph.loops[l];
    for (const Touch& touch : loop.reads) {
      if (std::find(made.begin(), made.end(), touch.buffer) != made.end()) continue;
      const bool again =
          std::any_of(seen.begin(), seen.end(), [&](const Touch* known) { return *known == touch; });
      if (again) continue;
      seen.push_back(&touch);
      const auto known = std::find_if(result.reads.begin(), result.reads.end(),
                                      [&](const KernelTouch& k) { return k.buffer == touch.buffer; });
      const Bytes whole = graph.buffers[touch.buffer].bytes();
      if (known != result.reads.end())
        known->bytes = std::min(known->bytes + touch.bytes, whole);
      else
        result.reads.push_back({touch.buffer, std::min(touch.bytes, whole)});
    }
    for (const Touch& touch : loop.writes) {
      const Buffer& buffer = graph.buffers[touch.buffer];
      if (std::find(made.begin(), made.end(), touch.buffer) == made.end() && buffer.producer != loop_none)
        made.push_back(touch.buffer);
      const bool stays = buffer.needed || buffer.producer == loop_none || loop.scatter ||
                         users.read_outside(touch.buffer, index);
      if (!stays) continue;
      const auto known = std::find_if(result.writes.begin(), result.writes.end(),
                                      [&](const KernelTouch& k) { return k.buffer == touch.buffer; });
      if (known != result.writes.end())
        known->bytes = std::min(known->bytes + touch.bytes, buffer.bytes());
      else
        result.writes.push_back({touch.buffer, touch.bytes});
    }
  }
  return result;
}

/// "triton_per_fused_add_mean": without its number.
std::string fused_name(const LoopGraph& graph, const FusionGroup& group, const Backend& backend) {
  std::set<std::string_view> names;
  const Loop* reduction = nullptr;
  for (const LoopIndex l : group.loops) {
    const Loop& loop = graph.loops[l];
    names.insert(loop.aten.begin(), loop.aten.end());
    if (loop.kind == LoopKind::Reduction) reduction = &loop;
  }
  std::string name = backend.kernel_prefix;
  if (backend.kernel_prefix == "triton_")
    name += reduction == nullptr                                                     ? "poi_"
            : group.is_mixed() || is_persistent(reduction->rnumel, reduction->inner) ? "per_"
                                                                                     : "red_";
  name += "fused";
  std::size_t count = 0;
  for (const std::string_view part : names)
    if (count++ < name_ops_max) (name += '_') += part;
  return name;
}

/// What of a region's kernels is equal: generated code is shared by loops of the same form.
void find_signature(const LoopGraph& graph, const FusionGroup& group, std::vector<std::int64_t>& numbers) {
  numbers.clear();
  const auto add = [&](std::int64_t value) { numbers.push_back(value); };
  for (const LoopIndex l : group.loops) {
    const Loop& loop = graph.loops[l];
    add(loop.numel);
    add(loop.rnumel);
    for (const std::vector<Touch>* touches : {&loop.reads, &loop.writes})
      for (const Touch& touch : *touches) {
        add(touch.access.is_irregular() ? -1 : touch.access.offset());
        add(touch.bytes.value());
        for (std::size_t d = 0; d < touch.access.count(); ++d) {
          add(touch.access.digit(d).size);
          add(touch.access.digit(d).stride);
        }
      }
  }
}

/// Names with numbers: each kernel has that of the first one of equal loops.
class NumberedNames {
 public:
  const std::string& of(const LoopGraph& loops, const FusionGroup& group, const std::string& name) {
    find_signature(loops, group, signature_);
    std::map<std::vector<std::int64_t>, std::string>& numbered = known_[name];
    auto known = numbered.find(signature_);
    if (known == numbered.end())
      known = numbered.emplace(signature_, name + '_' + std::to_string(count_++)).first;
    return known->second;
  }

 private:
  std::map<std::string, std::map<std::vector<std::int64_t>, std::string>> known_;
  std::vector<std::int64_t> signature_;  ///< Of the latest one.
  std::int64_t count_ = 0;
};

/// A number by buffer, of the few that a kernel moves.
class ByBuffer {
 public:
  const int* find(BufferIndex buffer) const {
    const auto known =
        std::find_if(items_.begin(), items_.end(), [&](const Item& item) { return item.first == buffer; });
    return known == items_.end() ? nullptr : &known->second;
  }
  /// What it has, `fallback` if it has none yet.
  int& at(BufferIndex buffer, int fallback) {
    for (Item& item : items_)
      if (item.first == buffer) return item.second;
    return items_.emplace_back(buffer, fallback).second;
  }

 private:
  using Item = std::pair<BufferIndex, int>;
  std::vector<Item> items_;
};

std::string product_name(const OpGraph& graph, const Op& op) {
  if (op.kind->name == "matmul") return graph.tensors[op.inputs[1]].type.shape.rank() == 2 ? "mm" : "bmm";
  if (op.kind->name == "conv2d") return "convolution";
  return op.inputs.size() > 2 && op.inputs[2] != graph_none ? "addmm" : "mm";
}

bool is_attention(const Op& op) {
  return op.kind->name.rfind("scaled_dot_product_attention", 0) == 0;
}

std::string library_name(const OpGraph& graph, const Op& op, const std::vector<EagerCall>& calls) {
  const std::string_view kind = op.kind->name;
  if (kind == "linear") {
    for (const EagerCall& call : calls)
      for (const KernelWork& work : call.work)
        if (const auto* product = std::get_if<MatrixProduct>(&work))
          if (product->epilogue != Epilogue::None) return "extern_kernels.addmm";
    return "extern_kernels.mm";
  }
  if (kind == "matmul") return "extern_kernels." + product_name(graph, op);
  if (kind == "addmm") return "extern_kernels.addmm";
  if (kind == "conv2d") return "extern_kernels.convolution";
  return "aten." + std::string(kind);
}

/// Whether each element's place is worked out and loaded by itself: neither a run of the buffer nor one value
/// for a whole run.
bool is_strided(const Touch& touch) {
  if (touch.access.is_irregular()) return !touch.indirect;
  if (touch.access.count() <= 1) return touch.access.inner_stride() > 1;
  return touch.access.inner_stride() > 1 || touch.access.digit(touch.access.count() - 1).size < 512;
}

/// By loop of a group: how many loops over the row have to be over before it, one for each reduction that
/// needs the result of another.
std::vector<int> levels_of(const LoopGraph& graph, const FusionGroup& group) {
  ByBuffer behind;  // of what the group makes
  std::vector<int> levels;
  for (const LoopIndex l : group.loops) {
    const Loop& loop = graph.loops[l];
    int own = 0;
    for (const Touch& touch : loop.reads)
      if (const int* made = behind.find(touch.buffer)) own = std::max(own, *made);
    levels.push_back(own);
    const int after = own + (loop.kind == LoopKind::Reduction ? 1 : 0);
    for (const Touch& touch : loop.writes) {
      int& level = behind.at(touch.buffer, 0);
      level = std::max(level, after);
    }
  }
  return levels;
}

/// Arithmetic per element of `elements`. A value is worked out once in a kernel, or, where rows do not stay
/// in registers, once in each loop over them; that of a whole row once for the row of `columns`.
double lane_cycles_of(const LoopGraph& graph, const FusionGroup& group, std::int64_t elements,
                      std::int64_t columns, const std::vector<int>& levels) {
  std::vector<std::pair<std::tuple<TensorIndex, std::uint64_t, int>, double>> parts;
  for (std::size_t i = 0; i < group.loops.size(); ++i) {
    const Loop& loop = graph.loops[group.loops[i]];
    const auto own = static_cast<double>(loop.numel * (loop.kind == LoopKind::Reduction ? loop.rnumel : 1));
    for (const LoopPart& part : loop.parts) {
      const bool of_row = columns > 1 && part.repeat >= columns;
      const double cycles = part.lane_cycles * own / static_cast<double>(of_row ? columns : 1);
      parts.push_back({{part.value, part.place, levels.empty() ? 0 : levels[i]}, cycles});
    }
  }
  // The most of each, added up in the order of values.
  std::sort(parts.begin(), parts.end());
  double sum = 0;
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (i + 1 == parts.size() || parts[i + 1].first != parts[i].first) sum += parts[i].second;
  return sum / static_cast<double>(std::max<std::int64_t>(elements, 1));
}

/// What a kernel of many long functions waits for its code, in lane-cycles per element.
double code_stall(const OpGraph& graph, const LoopGraph& loops, const FusionGroup& group) {
  std::set<std::pair<TensorIndex, std::uint64_t>> values;
  double functions = 0;
  double share = 0;
  for (const LoopIndex l : group.loops)
    for (const LoopPart& part : loops.loops[l].parts) {
      const OpIndex op = part.value == graph_none ? graph_none : graph.tensors[part.value].producer;
      if (op == graph_none || !values.emplace(part.value, part.place).second) continue;
      const double one = instruction_cache_share(graph.ops[op].kind->name);
      if (one > 0) ++functions;
      share += one;
    }
  return instruction_stall(functions, share);
}

/// Of a kernel of mixed orders: sums of columns stay with their blocks until another kernel adds them up.
KernelWork mixed_work(const LoopGraph& graph, const FusionGroup& group, const std::vector<KernelTouch>& reads,
                      const std::vector<KernelTouch>& writes) {
  InductorMixedReduction work{.sums = 0, .part = SplitPart::First};
  std::set<BufferIndex> partial;
  for (const LoopIndex l : group.loops) {
    const Loop& loop = graph.loops[l];
    if (loop.kind != LoopKind::Reduction) continue;
    if (!group.is_column(l)) {
      work.rows = loop.numel;
      work.columns = loop.rnumel;
      continue;
    }
    ++work.sums;
    for (const Touch& touch : loop.writes) partial.insert(touch.buffer);
  }
  work.lane_cycles = lane_cycles_of(graph, group, work.rows * work.columns, work.columns, {});
  for (const KernelTouch& touch : reads)
    (touch.bytes.value() <= work.columns * 8 ? work.shared : work.read) += touch.bytes;
  for (const KernelTouch& touch : writes)
    if (partial.count(touch.buffer) == 0) work.written += touch.bytes;
  return work;
}

/// The sums that a kernel of mixed orders leaves in parts, each added up by the framework.
std::vector<CompiledKernel> column_sums(const LoopGraph& graph, const FusionGroup& group,
                                        const KernelWork& mixed) {
  std::vector<CompiledKernel> sums;
  for (const LoopIndex l : group.columns) {
    const Loop& loop = graph.loops[l];
    if (loop.kind != LoopKind::Reduction) continue;
    // Where the scheduler had cut the sum in two, its second loop says where the result goes.
    const BufferIndex made = loop.writes.front().buffer;
    LoopIndex last = l;
    for (LoopIndex i = l + 1; i < graph.loops.size() && loop.part == SplitPart::First; ++i)
      if (graph.loops[i].part == SplitPart::Second && graph.loops[i].reads.front().buffer == made) {
        last = i;
        break;
      }
    const Loop& end = graph.loops[last];
    CompiledKernel sum;
    sum.name = "aten.sum";
    sum.what = KernelClass::Library;
    sum.op = end.op;
    sum.ops = end.origins;
    InductorMixedReduction work = std::get<InductorMixedReduction>(mixed);
    work.part = SplitPart::Second;
    sum.work.push_back(work);
    if (last != l) sum.reads.push_back({made, graph.buffers[made].bytes()});
    for (const Touch& touch : end.writes) sum.writes.push_back({touch.buffer, touch.bytes});
    sums.push_back(std::move(sum));
  }
  return sums;
}

/// Loops that column_sums() stands for.
std::vector<std::uint8_t> added_up_by_framework(const LoopGraph& graph, const FusionPlan& plan) {
  std::vector<std::uint8_t> partial(graph.buffers.size(), 0);
  for (const FusionGroup& group : plan.groups)
    for (const LoopIndex l : group.columns)
      if (graph.loops[l].part == SplitPart::First)
        for (const Touch& touch : graph.loops[l].writes) partial[touch.buffer] = 1;
  std::vector<std::uint8_t> added(graph.loops.size(), 0);
  for (LoopIndex l = 0; l < graph.loops.size(); ++l)
    added[l] = graph.loops[l].part == SplitPart::Second && partial[graph.loops[l].reads.front().buffer] != 0;
  return added;
}

}  // namespace

Bytes CompiledKernel::read() const {
  return sum(reads);
}
Bytes CompiledKernel::written() const {
  return sum(writes);
}

KernelTraffic kernel_traffic(const LoopGraph& graph, const FusionPlan& plan, std::size_t group) {
  return traffic(graph, plan, Users(graph, plan), group);
}

KernelWork generated_work(const LoopGraph& graph, const FusionGroup& group,
                          const std::vector<KernelTouch>& reads, const std::vector<KernelTouch>& writes) {
  if (group.is_mixed()) return mixed_work(graph, group, reads, writes);
  const Loop* reduction = nullptr;
  std::int64_t numel = 0;
  for (const LoopIndex l : group.loops) {
    const Loop& loop = graph.loops[l];
    if (loop.kind == LoopKind::Reduction && reduction == nullptr) reduction = &loop;
    numel = std::max(numel, loop.numel * (loop.kind == LoopKind::Reduction ? loop.rnumel : 1));
  }
  if (reduction == nullptr) {
    std::int32_t strided = 0;
    for (const LoopIndex l : group.loops)
      for (const Touch& touch : graph.loops[l].reads) strided += is_strided(touch) ? 1 : 0;
    return InductorPointwise{.elements = numel,
                             .read = sum(reads),
                             .written = sum(writes),
                             .lane_cycles = lane_cycles_of(graph, group, numel, 1, {}),
                             .strided_reads = strided};
  }

  const std::int64_t rows = reduction->numel;
  const std::int64_t columns = reduction->rnumel;
  const bool stays = is_persistent(columns, reduction->inner);
  const std::vector<int> levels = levels_of(graph, group);
  const double cycles = lane_cycles_of(graph, group, numel, columns, stays ? std::vector<int>{} : levels);
  if (reduction->part != SplitPart::Both && reduction->inner) {
    const std::int64_t elements =
        reduction->part == SplitPart::Second ? std::int64_t{1} << 20 : rows * columns;
    return InductorFullReduction{
        .elements = elements, .read = sum(reads), .lane_cycles = cycles, .part = reduction->part};
  }
  // Threads side by side take columns side by side: what stands behind the sums is over the columns too.
  bool only_columns = !reduction->inner && numel == rows * columns;
  bool welford = false;
  for (std::size_t i = 0; i < group.loops.size() && only_columns; ++i) {
    const Loop& loop = graph.loops[group.loops[i]];
    const bool sums =
        loop.pass == RowPass::Plain || loop.pass == RowPass::Sum || loop.pass == RowPass::Welford;
    only_columns = loop.kind == LoopKind::Pointwise ? loop.numel == rows : sums && levels[i] == 0;
    welford = welford || loop.pass == RowPass::Welford;
  }
  if (only_columns) {
    return InductorColumnReduction{
        .rows = columns,
        .columns = rows,
        .read = sum(reads),
        .written = sum(writes),
        .lane_cycles = cycles,
        .welford = welford,
        .part = reduction->part == SplitPart::Both ? SplitPart::First : reduction->part};
  }
  // Loops over the row: each reduction that needs the result of another takes a loop of its own, and so does
  // writing the row behind them.
  InductorRowReduction work;
  work.rows = rows;
  work.columns = columns;
  work.lane_cycles = cycles;
  ByBuffer level;  // of what the group makes: loops that have to be over before
  int deepest = 0;
  int writing_level = 0;
  ByBuffer first_read;
  Bytes again{0};
  for (std::size_t i = 0; i < group.loops.size(); ++i) {
    const Loop& loop = graph.loops[group.loops[i]];
    const int own = levels[i];
    const bool full = loop.kind == LoopKind::Reduction || loop.numel == rows * columns;
    if (full) writing_level = std::max(writing_level, loop.kind == LoopKind::Reduction ? 0 : own);
    for (const Touch& touch : loop.reads) {
      if (!full || touch.access.touched() < rows * columns) continue;
      // What an earlier loop over the row made is read back by a later one.
      if (const int* made = level.find(touch.buffer)) {
        if (*made < own) again += touch.bytes;
        continue;
      }
      if (int& known = first_read.at(touch.buffer, own); known < own) {
        again += touch.bytes;
        known = own;
      }
    }
    const int after = own + (loop.kind == LoopKind::Reduction ? 1 : 0);
    for (const Touch& touch : loop.writes) {
      int& behind = level.at(touch.buffer, 0);
      behind = std::max(behind, after);
    }
    deepest = std::max(deepest, after);
    if (loop.pass == RowPass::Welford) work.reduction = InductorRowReduction::Reduction::Welford;
    if (loop.pass == RowPass::OnlineSoftmax) work.reduction = InductorRowReduction::Reduction::OnlineSoftmax;
  }
  work.reductions = std::max(1, deepest);
  work.writes_rows = writing_level > 0;
  const int later = work.reductions - 1 + (work.writes_rows ? 1 : 0);
  for (const KernelTouch& touch : reads) {
    const std::int64_t elements = touch.bytes.value() / size_of(graph.buffers[touch.buffer].element);
    (elements <= columns && rows > 1 && elements * 4 < rows * columns ? work.shared : work.read) +=
        touch.bytes;
  }
  work.read_again = later > 0 ? Bytes(again.value() / later) : Bytes{0};
  work.written = sum(writes);
  work.form = stays ? InductorRowReduction::Form::Persistent : InductorRowReduction::Form::Looped;
  return work;
}

std::vector<CompiledKernel> kernels_of(const OpGraph& graph, const LoopGraph& loops, const FusionPlan& plan,
                                       const Backend& backend) {
  std::vector<CompiledKernel> kernels;
  const Users users(loops, plan);
  NumberedNames numbered;
  const std::vector<std::uint8_t> added = added_up_by_framework(loops, plan);
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    FusionGroup group = plan.groups[g];
    std::erase_if(group.loops, [&](LoopIndex l) { return added[l] != 0; });
    if (group.loops.empty()) continue;
    const Loop& first = loops.loops[group.loops.front()];
    if (first.kind == LoopKind::Nothing && group.loops.size() == 1) continue;
    CompiledKernel kernel;
    kernel.op = first.op;
    for (const LoopIndex l : group.loops)
      kernel.ops.insert(kernel.ops.end(), loops.loops[l].origins.begin(), loops.loops[l].origins.end());
    std::sort(kernel.ops.begin(), kernel.ops.end());
    kernel.ops.erase(std::unique(kernel.ops.begin(), kernel.ops.end()), kernel.ops.end());
    KernelTraffic moved = traffic(loops, plan, users, g);
    const auto product = std::find_if(group.loops.begin(), group.loops.end(),
                                      [&](LoopIndex l) { return loops.loops[l].templated; });
    if (product != group.loops.end()) {
      kernel.op = loops.loops[*product].op;
      kernel.name = numbered.of(
          loops, group, backend.kernel_prefix + "tem_fused_" + product_name(graph, graph.ops[kernel.op]));
      kernel.what = KernelClass::Template;
      for (const EagerCall& call : loops.loops[*product].calls)
        kernel.work.insert(kernel.work.end(), call.work.begin(), call.work.end());
      kernel.slower = template_slowdown;
    } else if (first.kind == LoopKind::Library) {
      const Op& op = graph.ops[first.op];
      kernel.name = library_name(graph, op, first.calls);
      kernel.what = first.product      ? KernelClass::Product
                    : is_attention(op) ? KernelClass::Attention
                                       : KernelClass::Library;
      for (const EagerCall& call : first.calls) {
        kernel.work.insert(kernel.work.end(), call.work.begin(), call.work.end());
        kernel.workspace += call.workspace;
      }
    } else {
      kernel.name = numbered.of(loops, group, fused_name(loops, group, backend));
      kernel.work.push_back(generated_work(loops, group, moved.reads, moved.writes));
      if (auto* const pointwise = std::get_if<InductorPointwise>(&kernel.work.back()))
        pointwise->lane_cycles += code_stall(graph, loops, group);
    }
    kernel.reads = std::move(moved.reads);
    kernel.writes = std::move(moved.writes);
    std::vector<CompiledKernel> sums;
    if (group.is_mixed()) sums = column_sums(loops, group, kernel.work.front());
    kernels.push_back(std::move(kernel));
    for (CompiledKernel& sum : sums) kernels.push_back(std::move(sum));
  }
  return kernels;
}

}  // namespace gpusim
