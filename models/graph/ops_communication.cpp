// SPDX-License-Identifier: Apache-2.0
// Ops between ranks, and the copies around them, as torch.distributed runs them.
#include <algorithm>
#include <string>

#include "models/cost/collectives.hpp"
#include "models/graph/ops.hpp"

namespace gpusim {
namespace {

Collective collective(const OpView& op, CollectiveKind kind, const TensorType& whole) {
  Collective c;
  c.kind = kind;
  c.bytes = dense_bytes(whole);
  c.dtype = kernel_dtype(whole.element);
  c.ranks = static_cast<std::int32_t>(op.attributes.integer("ranks"));
  c.ranks_per_node = static_cast<std::int32_t>(op.attributes.integer("per_node"));
  if (c.ranks_per_node >= c.ranks) c.ranks_per_node = 0;
  return c;
}

std::int64_t ranks_of(const OpView& op) {
  const std::int64_t ranks = op.attributes.integer("ranks");
  if (ranks < 1) throw ShapeError("ranks must be at least 1, not " + std::to_string(ranks));
  return ranks;
}

std::vector<MadeTensor> infer_in_place(const OpView& op) {
  ranks_of(op);
  return {{.type = op.in(), .view_of = 0}};
}
std::vector<EagerCall> eager_all_reduce(const OpView& op, const GpuSpec&) {
  // Asked for by a module in Python, or queued by DDP's reducer.
  const bool queued = !op.attributes.word("stream").empty();
  return {{.host_op = queued ? "all_reduce_async" : "all_reduce",
           .work = {collective(op, CollectiveKind::AllReduce, op.in())}}};
}

/// The dimension along which ranks' parts are joined.
int joined_dim(const OpView& op) {
  return dimension(op.attributes.integer("dim"), op.in().shape.rank());
}
std::vector<MadeTensor> infer_all_gather(const OpView& op) {
  Dims shape = op.in().shape;
  shape[joined_dim(op)] *= ranks_of(op);
  return {{.type = contiguous_tensor(op.in().element, shape)}};
}
/// Parts come one behind the other: along another dimension than the first they have to be joined by a copy.
std::vector<EagerCall> eager_all_gather(const OpView& op, const GpuSpec&) {
  EagerCall call{.host_op = "all_gather", .work = {}};
  call.work.push_back(collective(op, CollectiveKind::AllGather, op.out()));
  if (element_count(op.in().shape) / op.in().shape[joined_dim(op)] > 0 && joined_dim(op) > 0 &&
      op.in().shape[0] > 1)
    call.work.push_back(Concatenation{.elements = elements(op.out()),
                                      .element_bytes = static_cast<std::int32_t>(size_of(op.out().element)),
                                      .inputs = static_cast<std::int32_t>(ranks_of(op))});
  return {call};
}
std::vector<MadeTensor> infer_reduce_scatter(const OpView& op) {
  Dims shape = op.in().shape;
  const int dim = joined_dim(op);
  if (shape[dim] % ranks_of(op) != 0)
    throw ShapeError("a size of " + std::to_string(shape[dim]) + " does not divide into " +
                     std::to_string(ranks_of(op)) + " parts");
  shape[dim] /= ranks_of(op);
  return {{.type = contiguous_tensor(op.in().element, shape)}};
}
std::vector<EagerCall> eager_reduce_scatter(const OpView& op, const GpuSpec&) {
  EagerCall call{.host_op = "reduce_scatter", .work = {}};
  if (joined_dim(op) > 0 && op.in().shape[0] > 1)
    call.work.push_back(Concatenation{.elements = elements(op.in()),
                                      .element_bytes = static_cast<std::int32_t>(size_of(op.in().element)),
                                      .inputs = static_cast<std::int32_t>(ranks_of(op))});
  call.work.push_back(collective(op, CollectiveKind::ReduceScatter, op.in()));
  return {call};
}
std::vector<MadeTensor> infer_same(const OpView& op) {
  ranks_of(op);
  return {{.type = contiguous_tensor(op.in().element, op.in().shape)}};
}
std::vector<EagerCall> eager_all_to_all(const OpView& op, const GpuSpec&) {
  return {{.host_op = "all_to_all", .work = {collective(op, CollectiveKind::AllToAll, op.in())}}};
}
/// A message is the same for who sends and who receives.
std::vector<EagerCall> eager_message(const OpView& op, const GpuSpec&) {
  Collective c = collective(op, CollectiveKind::SendReceive, op.in());
  c.ranks = 2;
  c.ranks_per_node = static_cast<std::int32_t>(std::min<std::int64_t>(op.attributes.integer("per_node"), 2));
  if (c.ranks_per_node >= 2) c.ranks_per_node = 0;
  return {{.host_op = "send_receive", .work = {c}}};
}

/// A rank's rows of what all ranks have.
std::vector<MadeTensor> infer_own_rows(const OpView& op) {
  TensorType own = op.in();
  const int dim = joined_dim(op);
  if (own.shape[dim] % ranks_of(op) != 0)
    throw ShapeError("a size of " + std::to_string(own.shape[dim]) + " does not divide into " +
                     std::to_string(ranks_of(op)) + " parts");
  own.shape[dim] /= ranks_of(op);
  return {{.type = own, .view_of = 0}};
}
std::vector<EagerCall> eager_own_rows(const OpView&, const GpuSpec&) {
  return {{.host_op = "slice", .work = {}}};
}

/// A look at the same tensor, for which backward adds up what all ranks have.
std::vector<EagerCall> eager_nothing(const OpView&, const GpuSpec&) {
  return {};
}

// --- DDP.

/// A gradient goes into its place of the bucket, divided by the number of ranks on the way.
std::vector<MadeTensor> infer_bucket_copy(const OpView& op) {
  if (op.in(1).shape.rank() != 1 || elements(op.in()) > elements(op.in(1)))
    throw ShapeError("a gradient of shape " + to_string(op.in().shape) + " does not fit into a bucket of " +
                     to_string(op.in(1).shape));
  return {{.type = op.in(1), .view_of = 1}};
}
std::vector<EagerCall> eager_bucket_copy(const OpView& op, const GpuSpec& gpu) {
  const Bytes bytes = dense_bytes(op.in());
  return {{.host_op = "ddp_hook",
           .work = {Pointwise{.elements = elements(op.in()),
                              .read = bytes,
                              .written = bytes,
                              .lane_cycles = lane_cycles(AluFunction::Mul, gpu)}}}};
}
/// And back, for those who hold gradients of their own.
std::vector<MadeTensor> infer_bucket_read(const OpView& op) {
  return {{.type = op.in(), .view_of = 0}};
}
std::vector<EagerCall> eager_bucket_read(const OpView& op, const GpuSpec&) {
  return {{.host_op = "copy_", .work = {Memcpy{.bytes = dense_bytes(op.in())}}}};
}

// --- FSDP and ZeRO.

std::int64_t padded_rows(const TensorType& whole, std::int64_t ranks) {
  return whole.shape.empty() ? 1 : (whole.shape[0] + ranks - 1) / ranks;
}

/// A part of each tensor, one behind the other: what a rank gives to an all-gather.
std::vector<MadeTensor> infer_gather_input(const OpView& op) {
  std::int64_t sum = 0;
  const auto count = static_cast<std::size_t>(op.attributes.integer("count"));
  if (count < 1 || count > op.inputs.size()) throw ShapeError("takes at least one part");
  for (std::size_t i = 0; i < count; ++i) sum += elements(op.in(i));
  const auto type = find_element_type(op.attributes.word("dtype"));
  if (!type) throw ShapeError("unknown dtype '" + op.attributes.word("dtype") + "'");
  return {{.type = contiguous_tensor(*type, Dims{sum})}};
}
std::vector<EagerCall> eager_gather_input(const OpView& op, const GpuSpec&) {
  EagerCall call{.host_op = "fsdp_copy_in", .work = {}};
  MultiTensor copy;
  const auto count = static_cast<std::size_t>(op.attributes.integer("count"));
  for (std::size_t i = 0; i < count; ++i) copy.sizes.push_back(elements(op.in(i)));
  copy.dtype = kernel_dtype(op.in().element);
  copy.lists = 2;
  // Another format is cast to in memory of its own first.
  if (op.in().element != op.out().element) call.work.push_back(copy);
  copy.dtype = kernel_dtype(op.out().element);
  call.work.push_back(std::move(copy));
  return {call};
}
/// What was gathered, taken apart into whole tensors; and a mark of when that was done.
std::vector<MadeTensor> infer_gather_output(const OpView& op) {
  std::vector<MadeTensor> made;
  const std::int64_t ranks = ranks_of(op);
  for (std::size_t i = 1; i < op.inputs.size(); ++i) {
    const TensorType& part = op.in(i);
    Dims shape = part.shape;
    if (!shape.empty()) shape[0] *= ranks;
    made.push_back({.type = contiguous_tensor(op.in().element, shape)});
  }
  made.push_back({.type = contiguous_tensor(ElementType::Int8, Dims{1})});
  return made;
}
/// Where each block of such a kernel reads and writes goes to the device first: 8 B for each 8 KiB of the
/// gathered tensor, for each 4 KiB of what is scattered (grids of a trace of two H200s, PyTorch 2.11).
Memcpy places_of(Bytes moved, std::int64_t bytes_per_block) {
  return {.bytes = Bytes(8 * (moved.value() / bytes_per_block + 1)),
          .direction = Memcpy::Direction::HostToDevice};
}
std::vector<EagerCall> eager_gather_output(const OpView& op, const GpuSpec&) {
  return {{.host_op = "fsdp_copy_out",
           .work = {places_of(dense_bytes(op.in()), 8192),
                    Concatenation{.elements = elements(op.in()),
                                  .element_bytes = static_cast<std::int32_t>(size_of(op.in().element)),
                                  .inputs = static_cast<std::int32_t>(op.inputs.size() - 1)}}}};
}
/// Whole gradients, cut into the ranks' parts: what a rank gives to a reduce-scatter.
std::vector<MadeTensor> infer_scatter_input(const OpView& op) {
  const std::int64_t ranks = ranks_of(op);
  const auto count = static_cast<std::size_t>(op.attributes.integer("count"));
  if (count < 1 || count > op.inputs.size()) throw ShapeError("takes at least one gradient");
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const TensorType& whole = op.in(i);
    const std::int64_t row =
        whole.shape.empty() || whole.shape[0] == 0 ? 1 : elements(whole) / whole.shape[0];
    sum += padded_rows(whole, ranks) * ranks * row;
  }
  const auto type = find_element_type(op.attributes.word("dtype"));
  if (!type) throw ShapeError("unknown dtype '" + op.attributes.word("dtype") + "'");
  return {{.type = contiguous_tensor(*type, Dims{sum})}};
}
std::vector<EagerCall> eager_scatter_input(const OpView& op, const GpuSpec&) {
  return {{.host_op = "fsdp_chunk_cat",
           .work = {places_of(dense_bytes(op.out()), 4096),
                    Concatenation{.elements = elements(op.out()),
                                  .element_bytes = static_cast<std::int32_t>(size_of(op.out().element)),
                                  .inputs = static_cast<std::int32_t>(op.attributes.integer("count"))}}}};
}
/// Looks at a rank's parts of what was reduced; a cast where parts are kept in another format.
std::vector<MadeTensor> infer_scatter_output(const OpView& op) {
  std::vector<MadeTensor> made;
  for (std::size_t i = 1; i < op.inputs.size(); ++i) {
    MadeTensor part{.type = contiguous_tensor(op.in(i).element, op.in(i).shape)};
    if (op.in(i).element == op.in().element) part.view_of = 0;
    made.push_back(part);
  }
  return made;
}
std::vector<EagerCall> eager_scatter_output(const OpView& op, const GpuSpec&) {
  EagerCall call{.host_op = "fsdp_post_backward", .work = {}};
  if (op.inputs.size() > 1 && op.in(1).element != op.in().element)
    call.work.push_back(copy_work(op.in(), contiguous_tensor(op.in(1).element, op.in().shape)));
  return {call};
}
/// What it costs the host that an optimizer's tensors are parts (DTensor), each.
std::vector<MadeTensor> infer_nothing(const OpView&) {
  return {};
}
std::vector<EagerCall> eager_optimizer_parts(const OpView& op, const GpuSpec&) {
  return std::vector<EagerCall>(op.inputs.size(), EagerCall{.host_op = "optimizer_tensor_part", .work = {}});
}
/// Parts of tensors that a rank owns, after the others sent theirs: written over in place.
std::vector<MadeTensor> infer_parts(const OpView& op) {
  std::vector<MadeTensor> made;
  for (std::size_t i = 0; i < op.inputs.size(); ++i)
    made.push_back({.type = op.in(i), .view_of = static_cast<int>(i)});
  return made;
}
std::vector<EagerCall> eager_gather_parts(const OpView& op, const GpuSpec&) {
  EagerCall call{.host_op = "all_gather", .work = {}};
  TensorType all = op.in();
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) sum += elements(op.in(i));
  all = contiguous_tensor(op.in().element, Dims{sum});
  call.work.push_back(collective(op, CollectiveKind::AllGather, all));
  return {call};
}

}  // namespace

std::vector<OpKind> communication_ops() {
  using enum AttributeType;
  std::vector<OpKind> kinds;
  const auto add = [&](OpKind kind) {
    kind.fusion = FusionClass::Library;
    kind.recompute = RecomputeClass::Never;
    kinds.push_back(std::move(kind));
  };
  const OpAttribute ranks{"ranks", Integer};
  const OpAttribute per_node{"per_node", Integer, std::int64_t{0}};
  // Where it runs: '' is the stream of everything else.
  const OpAttribute stream{"stream", Word, std::string()};
  const OpAttribute dim{"dim", Integer, std::int64_t{0}};
  const OpAttribute count{"count", Integer, std::int64_t{1}};
  const OpAttribute dtype{"dtype", Element, std::string("network")};
  const OpAttribute last{"last", Flag, false};
  add({.name = "all_reduce",
       .help = "Adds a tensor up over ranks, in place; `per_node` of them on each node (0: all)",
       .inputs = {{"x"}},
       .attributes = {ranks, per_node, stream, last},
       .infer = infer_in_place,
       .eager = eager_all_reduce});
  add({.name = "all_gather",
       .help = "Joins the ranks' tensors along a dimension",
       .inputs = {{"x"}},
       .attributes = {ranks, per_node, stream, dim},
       .infer = infer_all_gather,
       .eager = eager_all_gather});
  add({.name = "reduce_scatter",
       .help = "Adds a tensor up over ranks; each gets its part along a dimension",
       .inputs = {{"x"}},
       .attributes = {ranks, per_node, stream, dim, last},
       .infer = infer_reduce_scatter,
       .eager = eager_reduce_scatter});
  add({.name = "all_to_all",
       .help = "Each rank sends a part of its tensor to each other one",
       .inputs = {{"x"}},
       .attributes = {ranks, per_node, stream},
       .infer = infer_same,
       .eager = eager_all_to_all});
  add({.name = "send",
       .help = "Sends a tensor to another rank, or takes one from it",
       .inputs = {{"x"}},
       .attributes = {ranks, per_node, stream},
       .infer = infer_in_place,
       .eager = eager_message});
  add({.name = "to_ranks",
       .help = "The tensor itself, used by all ranks: backward adds their gradients up",
       .inputs = {{"x"}},
       .attributes = {ranks, per_node},
       .infer = infer_in_place,
       .eager = eager_nothing});
  kinds.back().fusion = FusionClass::View;
  kinds.back().recompute = RecomputeClass::Free;
  add({.name = "own_rows",
       .help = "A rank's part of what all ranks have, along a dimension; backward gathers the parts",
       .inputs = {{"x"}},
       .attributes = {ranks, per_node, dim},
       .infer = infer_own_rows,
       .eager = eager_own_rows});
  kinds.back().fusion = FusionClass::View;
  kinds.back().recompute = RecomputeClass::Free;
  add({.name = "ddp_bucket",
       .help = "A gradient's share of the mean over ranks, into its bucket",
       .inputs = {{"grad"}, {"bucket"}},
       .attributes = {last, {"cut", Integer, std::int64_t{-1}}},
       .infer = infer_bucket_copy,
       .eager = eager_bucket_copy});
  add({.name = "ddp_unbucket",
       .help = "A gradient out of its bucket",
       .inputs = {{"grad"}, {"bucket"}},
       .attributes = {last},
       .infer = infer_bucket_read,
       .eager = eager_bucket_read});
  const std::vector<OpInput> tensors{{"tensors", InputNeed::Many}};
  add({.name = "fsdp_gather_input",
       .help = "A rank's parts of `count` tensors, one behind the other; what else is given is waited for",
       .inputs = tensors,
       .attributes = {count, dtype, stream, {"joins", Flag, false}},
       .infer = infer_gather_input,
       .eager = eager_gather_input});
  add({.name = "fsdp_gather_output",
       .help = "Whole tensors out of what was gathered, from parts of these shapes",
       .inputs = {{"gathered"}, {"parts", InputNeed::Many}},
       .attributes = {ranks, {"marks", Flag, true}},
       .infer = infer_gather_output,
       .eager = eager_gather_output});
  add({.name = "fsdp_scatter_input",
       .help = "`count` gradients, cut into the ranks' parts; what else is given is waited for",
       .inputs = tensors,
       .attributes = {ranks, count, dtype, last},
       .infer = infer_scatter_input,
       .eager = eager_scatter_input});
  add({.name = "fsdp_scatter_output",
       .help = "A rank's parts of gradients that were added up",
       .inputs = {{"reduced"}, {"parts", InputNeed::Many}},
       .attributes = {stream, last},
       .infer = infer_scatter_output,
       .eager = eager_scatter_output});
  add({.name = "fsdp_optimizer",
       .help = "Unwraps the parts that an optimizer goes over",
       .inputs = tensors,
       .attributes = {},
       .infer = infer_nothing,
       .eager = eager_optimizer_parts});
  add({.name = "gather_parts",
       .help = "Tensors of which each rank has worked out a part, whole again",
       .inputs = tensors,
       .attributes = {ranks, per_node, stream},
       .infer = infer_parts,
       .eager = eager_gather_parts});
  return kinds;
}

}  // namespace gpusim
