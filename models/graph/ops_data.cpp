// SPDX-License-Identifier: Apache-2.0
// Ops that read or write where data say, joining tensors, choosing and sorting, and copies to and from the
// host.
#include <algorithm>

#include "models/graph/break_cause.hpp"
#include "models/graph/ops.hpp"
#include "models/graph/value.hpp"

namespace gpusim {
namespace {

void want_integers(const OpView& op, std::size_t input) {
  if (is_floating(op.in(input).element))
    throw ShapeError("indices must be integers, not " + std::string(name(op.in(input).element)));
}

// --- Reading.

std::vector<OwnTensor> own_embedding(const OpView& op) {
  std::vector<OwnTensor> own;
  if (op.has(1)) return own;
  if (!op.attributes.has("rows") || !op.attributes.has("features"))
    throw ShapeError("needs the table's rows and features, or a weight", "embedding(ids, vocab, d_model)");
  const std::int64_t rows = op.attributes.integer("rows");
  const std::int64_t features = op.attributes.integer("features");
  if (rows < 1 || features < 1) throw ShapeError("rows and features must be at least 1");
  const ElementType element = *find_element_type(op.attributes.word("dtype"));
  own.push_back({.input = 1, .type = contiguous_tensor(element, Dims{rows, features})});
  return own;
}
std::vector<MadeTensor> infer_embedding(const OpView& op) {
  want_integers(op, 0);
  if (op.in(1).shape.rank() != 2)
    throw ShapeError("the table is [rows, features], not " + to_string(op.in(1).shape));
  Dims shape = op.in().shape;
  if (shape.full()) throw ShapeError("a tensor has at most 8 dimensions (rank_max)");
  shape.push_back(op.in(1).shape[1]);
  return {{.type = contiguous_tensor(op.in(1).element, shape)}};
}
Gather rows_of_table(const TensorType& table, std::int64_t rows) {
  const std::int64_t row = elements(table) / table.shape[0] * size_of(table.element);
  return {.rows = rows, .row_bytes = Bytes(row), .table_bytes = dense_bytes(table)};
}
std::vector<EagerCall> eager_embedding(const OpView& op, const GpuSpec&) {
  return {{.host_op = "embedding", .work = {rows_of_table(op.in(1), elements(op.in()))}}};
}

std::vector<MadeTensor> infer_index_select(const OpView& op) {
  want_integers(op, 1);
  if (op.in(1).shape.rank() != 1)
    throw ShapeError("indices are one row, not of shape " + to_string(op.in(1).shape));
  if (op.in().shape.empty()) throw ShapeError("a scalar has no rows");
  const int at = dimension(op.attributes.integer("dim"), op.in().shape.rank());
  Dims shape = op.in().shape;
  shape[at] = op.in(1).shape[0];
  return {{.type = contiguous_tensor(op.in().element, shape)}};
}
std::vector<EagerCall> eager_index_select(const OpView& op, const GpuSpec&) {
  const int at = dimension(op.attributes.integer("dim"), op.in().shape.rank());
  std::int64_t inner = 1;
  for (int i = at + 1; i < op.in().shape.rank(); ++i) inner *= op.in().shape[i];
  return {{.host_op = "index_select",
           .work = {Gather{.rows = elements(op.out()) / inner,
                           .row_bytes = Bytes(inner * size_of(op.in().element)),
                           .table_bytes = dense_bytes(op.in())}}}};
}

/// x[index]: the first dimension is looked up by an index tensor of any shape; x[index, second] the first
/// two.
std::vector<MadeTensor> infer_index(const OpView& op) {
  want_integers(op, 1);
  if (op.has(2)) want_integers(op, 2);
  const int looked_up = op.has(2) ? 2 : 1;
  if (op.in().shape.rank() < looked_up)
    throw ShapeError("a tensor of shape " + to_string(op.in().shape) + " has fewer dimensions than indices");
  Dims shape = op.has(2) ? broadcast(op.in(1).shape, op.in(2).shape) : op.in(1).shape;
  for (int i = looked_up; i < op.in().shape.rank(); ++i) {
    if (shape.full()) throw ShapeError("a tensor has at most 8 dimensions (rank_max)");
    shape.push_back(op.in().shape[i]);
  }
  return {{.type = contiguous_tensor(op.in().element, shape)}};
}
std::vector<EagerCall> eager_index(const OpView& op, const GpuSpec&) {
  std::int64_t row = 1;
  for (int i = op.has(2) ? 2 : 1; i < op.in().shape.rank(); ++i) row *= op.in().shape[i];
  return {{.host_op = "index",
           .work = {Gather{.rows = elements(op.out()) / row,
                           .row_bytes = Bytes(row * size_of(op.in().element)),
                           .table_bytes = dense_bytes(op.in()),
                           .by_expression = true}}}};
}

std::vector<MadeTensor> infer_gather(const OpView& op) {
  want_integers(op, 1);
  if (op.in().shape.rank() != op.in(1).shape.rank())
    throw ShapeError("the index must have as many dimensions as the tensor");
  dimension(op.attributes.integer("dim"), op.in().shape.rank());
  return {{.type = contiguous_tensor(op.in().element, op.in(1).shape)}};
}
std::vector<EagerCall> eager_gather(const OpView& op, const GpuSpec&) {
  return {{.host_op = "gather",
           .work = {Gather{.rows = elements(op.out()),
                           .row_bytes = Bytes(size_of(op.in().element)),
                           .table_bytes = dense_bytes(op.in())}}}};
}

// --- Writing.

/// x[.., index, ..] = value along one dimension, as `cache[:, :, position] = k`.
std::vector<MadeTensor> infer_index_put(const OpView& op) {
  want_integers(op, 1);
  const int at = dimension(op.attributes.integer("dim"), op.in().shape.rank());
  Dims shape = op.in().shape;
  shape[at] = elements(op.in(1));
  if (!(broadcast(op.in(2).shape, shape) == shape))
    throw ShapeError("values of shape " + to_string(op.in(2).shape) + " cannot be written to " +
                     std::to_string(shape[at]) + " places of dimension " + std::to_string(at) + " of " +
                     to_string(op.in().shape));
  return {{.type = op.in(), .view_of = 0}};
}
std::vector<EagerCall> eager_index_put(const OpView& op, const GpuSpec&) {
  const std::int64_t inner = op.in(2).shape.empty() ? 1 : op.in(2).shape.back();
  std::vector<EagerCall> calls;
  // Python drops leading dimensions of size 1 from the values.
  if (op.in(2).shape.rank() > 1 && op.in(2).shape[0] == 1) calls.push_back({.host_op = "view", .work = {}});
  calls.push_back({.host_op = "index_put_",
                   .work = {Scatter{.rows = std::max<std::int64_t>(elements(op.in(2)) / inner, 1),
                                    .row_bytes = Bytes(inner * size_of(op.in().element)),
                                    .dtype = kernel_dtype(op.in().element)}}});
  return calls;
}

std::vector<MadeTensor> infer_index_add(const OpView& op) {
  want_integers(op, 1);
  if (op.in().shape.rank() != op.in(2).shape.rank())
    throw ShapeError("the rows to add must have as many dimensions as the tensor");
  const int at = dimension(op.attributes.integer("dim"), op.in().shape.rank());
  if (op.in(2).shape[at] != elements(op.in(1)))
    throw ShapeError(std::to_string(elements(op.in(1))) + " indices for " +
                     std::to_string(op.in(2).shape[at]) + " rows");
  return {{.type = op.in(), .view_of = 0}};
}
template <const char* Host, bool Add>
std::vector<EagerCall> eager_scatter_rows(const OpView& op, const GpuSpec&) {
  const int at = dimension(op.attributes.integer("dim"), op.in(2).shape.rank());
  std::int64_t inner = 1;
  for (int i = at + 1; i < op.in(2).shape.rank(); ++i) inner *= op.in(2).shape[i];
  return {{.host_op = Host,
           .work = {Scatter{.rows = elements(op.in(2)) / inner,
                            .row_bytes = Bytes(inner * size_of(op.in().element)),
                            .add = Add,
                            .dtype = kernel_dtype(op.in().element)}}}};
}
std::vector<MadeTensor> infer_scatter(const OpView& op) {
  want_integers(op, 1);
  if (op.in().shape.rank() != op.in(1).shape.rank() || !(op.in(1).shape == op.in(2).shape))
    throw ShapeError("index and source must have one shape, and as many dimensions as the tensor");
  dimension(op.attributes.integer("dim"), op.in().shape.rank());
  return {{.type = op.in(), .view_of = 0}};
}
constexpr char index_add_name[] = "index_add_";
constexpr char index_copy_name[] = "index_copy_";
constexpr char scatter_name[] = "scatter_";

// --- Joining.

Dims common_shape(const OpView& op, int at, bool sum_along) {
  Dims shape = op.in().shape;
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const Dims& other = op.in(i).shape;
    bool fits = other.rank() == shape.rank();
    for (int d = 0; fits && d < shape.rank(); ++d) fits = other[d] == shape[d] || (sum_along && d == at);
    if (!fits)
      throw ShapeError("shapes " + to_string(op.in().shape) + " and " + to_string(other) +
                       " cannot be joined");
    if (sum_along) sum += other[at];
  }
  if (sum_along) shape[at] = sum;
  return shape;
}
ElementType common_element(const OpView& op) {
  ElementType element = op.in().element;
  for (std::size_t i = 1; i < op.inputs.size(); ++i) element = promote(element, op.in(i).element);
  return element;
}
std::vector<MadeTensor> infer_cat(const OpView& op) {
  if (op.in().shape.empty()) throw ShapeError("scalars cannot be joined");
  const int at = dimension(op.attributes.integer("dim"), op.in().shape.rank());
  const Dims shape = common_shape(op, at, true);
  bool last = true;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) last = last && is_channels_last(op.in(i));
  return {{.type = {.element = common_element(op),
                    .shape = shape,
                    .strides = last ? channels_last_strides(shape) : contiguous_strides(shape)}}};
}
std::vector<MadeTensor> infer_stack(const OpView& op) {
  if (op.in().shape.full()) throw ShapeError("a tensor has at most 8 dimensions (rank_max)");
  const int at = dimension(op.attributes.integer("dim"), op.in().shape.rank() + 1);
  const Dims parts = common_shape(op, -1, false);
  Dims shape;
  for (int i = 0; i <= parts.rank(); ++i) {
    if (i == at) shape.push_back(static_cast<std::int64_t>(op.inputs.size()));
    if (i < parts.rank()) shape.push_back(parts[i]);
  }
  return {{.type = contiguous_tensor(common_element(op), shape)}};
}
/// One batched kernel where all parts are contiguous and of one dtype; else a copy of each into its place.
template <bool Stack>
std::vector<EagerCall> eager_join(const OpView& op, const GpuSpec&) {
  EagerCall call{.host_op = Stack ? "stack" : "cat", .work = {}};
  // One kernel over all inputs of one dtype, up to four dimensions (CAT_ARRAY_MAX_INPUT_DIMS) and what 32
  // bits can index, unless channels are innermost and something is permuted. Else a copy for each.
  bool one_dtype = true;
  bool contiguous = true;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    one_dtype = one_dtype && op.in(i).element == op.out().element;
    contiguous = contiguous && is_contiguous(op.in(i));
  }
  // stack() along any dimension but the last is a cat of the parts, seen with one dimension more.
  const int at = dimension(op.attributes.integer("dim"), op.out().shape.rank());
  const int rank = op.out().shape.rank() - (Stack && at + 1 < op.out().shape.rank() ? 1 : 0);
  const bool batched = rank <= 4 && one_dtype && elements(op.out()) < (std::int64_t{1} << 31) &&
                       (contiguous || is_contiguous(op.out()));
  if (batched) {
    call.work.push_back(Concatenation{.elements = elements(op.out()),
                                      .element_bytes = static_cast<std::int32_t>(size_of(op.out().element)),
                                      .inputs = static_cast<std::int32_t>(op.inputs.size()),
                                      .strided = !contiguous});
    return {call};
  }
  // Each copy fills runs of the result; where they are shorter than a sector of 32 bytes, the sectors are
  // moved once for each input.
  std::int64_t run = size_of(op.out().element);
  for (int i = at + 1; i < op.out().shape.rank(); ++i) run *= op.out().shape[i];
  const std::int64_t times =
      std::clamp<std::int64_t>(32 / run, 1, static_cast<std::int64_t>(op.inputs.size()));
  for (std::size_t i = 0; i < op.inputs.size(); ++i)
    call.work.push_back(Pointwise{.elements = elements(op.in(i)),
                                  .read = dense_bytes(op.in(i)),
                                  .written = Bytes(times * elements(op.in(i)) * size_of(op.out().element)),
                                  .access = Pointwise::Access::Strided});
  return {call};
}

// --- Choosing and sorting.

std::vector<MadeTensor> infer_topk(const OpView& op) {
  const std::int64_t k = op.attributes.integer("k");
  if (op.in().shape.empty() || k < 1 || k > op.in().shape.back())
    throw ShapeError("cannot take " + std::to_string(k) + " of a row of shape " + to_string(op.in().shape));
  Dims shape = op.in().shape;
  shape[shape.rank() - 1] = k;
  return {{.type = contiguous_tensor(op.in().element, shape)},
          {.type = contiguous_tensor(ElementType::Int64, shape)}};
}
std::vector<EagerCall> eager_topk(const OpView& op, const GpuSpec&) {
  return {{.host_op = "topk",
           .work = {TopK{.rows = row_count(op.in()),
                         .columns = op.in().shape.back(),
                         .k = op.attributes.integer("k"),
                         .dtype = kernel_dtype(op.in().element)}}}};
}
std::vector<MadeTensor> infer_sort(const OpView& op) {
  if (op.in().shape.empty()) throw ShapeError("a scalar cannot be sorted");
  return {{.type = contiguous_tensor(op.in().element, op.in().shape)},
          {.type = contiguous_tensor(ElementType::Int64, op.in().shape)}};
}
std::vector<EagerCall> eager_sort(const OpView& op, const GpuSpec&) {
  return {{.host_op = "sort",
           .work = {Sort{.rows = row_count(op.in()),
                         .columns = op.in().shape.back(),
                         .dtype = kernel_dtype(op.in().element)}}}};
}
std::vector<MadeTensor> infer_cumsum(const OpView& op) {
  dimension(op.attributes.integer("dim"), op.in().shape.rank());
  ElementType element = is_floating(op.in().element) ? op.in().element : ElementType::Int64;
  if (op.attributes.has("dtype")) element = *find_element_type(op.attributes.word("dtype"));
  return {{.type = contiguous_tensor(element, op.in().shape)}};
}
std::vector<EagerCall> eager_cumsum(const OpView& op, const GpuSpec&) {
  const int at = dimension(op.attributes.integer("dim"), op.in().shape.rank());
  EagerCall call{.host_op = "cumsum", .work = {}};
  // A single row is scanned by all SMs, which takes a kernel that sets up what they tell each other.
  if (elements(op.in()) == op.in().shape[at]) call.work.push_back(TinyKernel{});
  call.work.push_back(RowReduction{.kind = RowReduction::Kind::Softmax,
                                   .rows = elements(op.in()) / op.in().shape[at],
                                   .columns = op.in().shape[at],
                                   .input = kernel_dtype(op.in().element),
                                   .output = kernel_dtype(op.out().element)});
  return {call};
}
std::vector<MadeTensor> infer_bincount(const OpView& op) {
  want_integers(op, 0);
  const std::int64_t bins = op.attributes.integer("bins");
  if (bins < 1) throw ShapeError("there must be at least one bin");
  return {{.type = contiguous_tensor(ElementType::Int64, Dims{bins})}};
}
std::vector<EagerCall> eager_bincount(const OpView& op, const GpuSpec&) {
  return {{.host_op = "bincount",
           .work = {fill_work(op.out()),
                    Scatter{.rows = elements(op.in()), .row_bytes = Bytes(size_of(ElementType::Int64))}}}};
}

/// Where elements are not zero. How many there are is known only on the device, so the host waits for the
/// count; the network's file says how many it expects.
std::vector<MadeTensor> infer_nonzero(const OpView& op) {
  const std::int64_t count = op.attributes.integer("count");
  if (count < 1 || count > elements(op.in()))
    throw ShapeError("a tensor of shape " + to_string(op.in().shape) + " cannot have " +
                     std::to_string(count) + " places that are not zero");
  return {{.type = contiguous_tensor(ElementType::Int64, Dims{count, op.in().shape.rank()})}};
}
std::vector<EagerCall> eager_nonzero(const OpView& op, const GpuSpec&) {
  const std::int64_t all = elements(op.in());
  const std::int64_t found = op.attributes.integer("count");
  const std::int64_t index = size_of(ElementType::Int64);
  EagerCall call{.host_op = "nonzero", .work = {}};
  if (!is_contiguous(op.in()))
    call.work.push_back(copy_work(op.in(), contiguous_tensor(op.in().element, op.in().shape)));
  // The places are counted (over more than a tile of 4096 in two kernels), the count goes to the host, then
  // they are written down as flat indices (a kernel that prepares the scan, and the scan), which become one
  // index per dimension.
  if (all > 4096) call.work.push_back(Pointwise{.elements = all, .read = dense_bytes(op.in())});
  call.work.push_back(TinyKernel{});
  call.work.push_back(
      Memcpy{.bytes = Bytes(size_of(ElementType::Int32)), .direction = Memcpy::Direction::DeviceToHost});
  call.work.push_back(TinyKernel{});
  call.work.push_back(
      Pointwise{.elements = all, .read = dense_bytes(op.in()), .written = Bytes(found * index)});
  if (op.in().shape.rank() > 1)
    call.work.push_back(Pointwise{.elements = found,
                                  .read = Bytes(found * index),
                                  .written = Bytes(found * index * op.in().shape.rank())});
  return {call};
}
/// A number that the host reads: it waits for everything that was launched.
std::vector<MadeTensor> infer_item(const OpView& op) {
  if (elements(op.in()) != 1)
    throw ShapeError("takes one number, not a tensor of shape " + to_string(op.in().shape));
  return {};
}
std::vector<EagerCall> eager_item(const OpView& op, const GpuSpec&) {
  return {{.host_op = "item",
           .work = {Memcpy{.bytes = dense_bytes(op.in()), .direction = Memcpy::Direction::DeviceToHost}}}};
}

/// Where compilers stop tracing. Without one it costs what it makes the host wait for, if anything.
std::vector<MadeTensor> infer_graph_break(const OpView& op) {
  const std::string& cause = op.attributes.word("cause");
  if (!find_break_cause(cause))
    throw ShapeError("unknown cause '" + cause + "'", hint_for(cause, break_cause_names(), "causes"));
  return {};
}
std::vector<EagerCall> eager_graph_break(const OpView& op, const GpuSpec&) {
  if (!synchronizes(*find_break_cause(op.attributes.word("cause")))) return {};
  return {{.host_op = "item",
           .work = {Memcpy{.bytes = Bytes(size_of(ElementType::Fp32)),
                           .direction = Memcpy::Direction::DeviceToHost}}}};
}

std::vector<MadeTensor> infer_argsort(const OpView& op) {
  if (op.in().shape.empty()) throw ShapeError("a scalar cannot be sorted");
  return {{.type = contiguous_tensor(ElementType::Int64, op.in().shape)}};
}
std::vector<MadeTensor> infer_one_hot(const OpView& op) {
  want_integers(op, 0);
  const std::int64_t classes = op.attributes.integer("classes");
  if (classes < 1) throw ShapeError("there must be at least one class");
  Dims shape = op.in().shape;
  if (shape.full()) throw ShapeError("a tensor has at most 8 dimensions (rank_max)");
  shape.push_back(classes);
  return {{.type = contiguous_tensor(ElementType::Int64, shape)}};
}
std::vector<EagerCall> eager_one_hot(const OpView& op, const GpuSpec&) {
  return {{.host_op = "one_hot",
           .work = {fill_work(op.out()),
                    Scatter{.rows = elements(op.in()), .row_bytes = Bytes(size_of(ElementType::Int64))}}}};
}
std::vector<MadeTensor> infer_histc(const OpView& op) {
  const std::int64_t bins = op.attributes.integer("bins");
  if (bins < 1) throw ShapeError("there must be at least one bin");
  return {{.type = contiguous_tensor(op.in().element, Dims{bins})}};
}
std::vector<EagerCall> eager_histc(const OpView& op, const GpuSpec&) {
  return {{.host_op = "histc",
           .work = {fill_work(op.out()),
                    Scatter{.rows = elements(op.in()), .row_bytes = Bytes(size_of(op.in().element))}}}};
}

// --- Host and device.

std::vector<MadeTensor> infer_copy(const OpView& op) {
  return {{.type = contiguous_tensor(op.in().element, op.in().shape)}};
}
std::vector<EagerCall> eager_to_device(const OpView& op, const GpuSpec&) {
  return {{.host_op = "to_device",
           .work = {Memcpy{.bytes = dense_bytes(op.in()), .direction = Memcpy::Direction::HostToDevice}}}};
}
std::vector<EagerCall> eager_to_host(const OpView& op, const GpuSpec&) {
  return {{.host_op = "to_host",
           .work = {Memcpy{.bytes = dense_bytes(op.in()), .direction = Memcpy::Direction::DeviceToHost}}}};
}

}  // namespace

std::vector<OpKind> data_ops() {
  using enum AttributeType;
  std::vector<OpKind> kinds;
  const auto add = [&](OpKind kind) { kinds.push_back(std::move(kind)); };
  const std::vector<OpAttribute> rows{{"dim", Integer, std::int64_t{0}}};
  add({.name = "embedding",
       .help = "Rows of a table",
       .fusion = FusionClass::Gather,
       .inputs = {{"ids"}, {"weight", InputNeed::Own}},
       .attributes = {{"rows", Integer, {}, true},
                      {"features", Integer, {}, true},
                      {"dtype", Element, std::string("network")}},
       .own = own_embedding,
       .infer = infer_embedding,
       .eager = eager_embedding,
       .module = true});
  add({.name = "index_select",
       .help = "Chosen places of a dimension",
       .fusion = FusionClass::Gather,
       .inputs = {{"x"}, {"index"}},
       .attributes = rows,
       .infer = infer_index_select,
       .eager = eager_index_select});
  add({.name = "index",
       .help = "x[index]: rows looked up by a tensor of any shape; x[index, second]: elements by two",
       .fusion = FusionClass::Gather,
       .inputs = {{"x"}, {"index"}, {"second", InputNeed::Optional}},
       .attributes = {},
       .infer = infer_index,
       .eager = eager_index});
  add({.name = "gather",
       .help = "One element for each element of the index",
       .fusion = FusionClass::Gather,
       .inputs = {{"x"}, {"index"}},
       .attributes = {{"dim", Integer, std::int64_t{-1}}},
       .infer = infer_gather,
       .eager = eager_gather});
  add({.name = "index_put_",
       .help = "x[.., index, ..] = values along one dimension",
       .fusion = FusionClass::Scatter,
       .recompute = RecomputeClass::Never,
       .inputs = {{"x"}, {"index"}, {"values"}},
       .attributes = {{"dim", Integer, std::int64_t{0}}},
       .infer = infer_index_put,
       .eager = eager_index_put});
  add({.name = "index_add_",
       .help = "Adds rows at chosen places",
       .fusion = FusionClass::Scatter,
       .recompute = RecomputeClass::Never,
       .inputs = {{"x"}, {"index"}, {"source"}},
       .attributes = rows,
       .infer = infer_index_add,
       .eager = eager_scatter_rows<index_add_name, true>});
  add({.name = "index_copy_",
       .help = "Copies rows to chosen places",
       .fusion = FusionClass::Scatter,
       .recompute = RecomputeClass::Never,
       .inputs = {{"x"}, {"index"}, {"source"}},
       .attributes = rows,
       .infer = infer_index_add,
       .eager = eager_scatter_rows<index_copy_name, false>});
  add({.name = "scatter_",
       .help = "Writes one element for each element of the index",
       .fusion = FusionClass::Scatter,
       .recompute = RecomputeClass::Never,
       .inputs = {{"x"}, {"index"}, {"source"}},
       .attributes = {{"dim", Integer, std::int64_t{-1}}},
       .infer = infer_scatter,
       .eager = eager_scatter_rows<scatter_name, false>});
  const std::vector<OpInput> tensors{{"tensors", InputNeed::Many}};
  add({.name = "cat",
       .help = "Joins tensors along a dimension",
       .inputs = tensors,
       .attributes = {{"dim", Integer, std::int64_t{0}}},
       .infer = infer_cat,
       .eager = eager_join<false>});
  add({.name = "stack",
       .help = "Joins tensors along a new dimension",
       .inputs = tensors,
       .attributes = {{"dim", Integer, std::int64_t{0}}},
       .infer = infer_stack,
       .eager = eager_join<true>});
  add({.name = "topk",
       .help = "The k largest of each row, with their places",
       .fusion = FusionClass::Library,
       .inputs = {{"x"}},
       .attributes = {{"k", Integer}},
       .infer = infer_topk,
       .eager = eager_topk});
  add({.name = "sort",
       .help = "Sorted rows, with the old places",
       .fusion = FusionClass::Library,
       .inputs = {{"x"}},
       .attributes = {},
       .infer = infer_sort,
       .eager = eager_sort});
  add({.name = "argsort",
       .help = "The old places of sorted rows",
       .fusion = FusionClass::Library,
       .inputs = {{"x"}},
       .attributes = {},
       .infer = infer_argsort,
       .eager = eager_sort});
  add({.name = "nonzero",
       .help = "Places that are not zero, `count` of them expected; the host waits for the device",
       .fusion = FusionClass::Library,
       .recompute = RecomputeClass::Never,
       .inputs = {{"x"}},
       .attributes = {{"count", Integer}},
       .infer = infer_nonzero,
       .eager = eager_nonzero});
  add({.name = "item",
       .help = "One number to the host, which waits for the device",
       .fusion = FusionClass::Library,
       .recompute = RecomputeClass::Never,
       .inputs = {{"x"}},
       .attributes = {},
       .infer = infer_item,
       .eager = eager_item});
  add({.name = "graph_break",
       .help = "Where Dynamo stops tracing, and why; 'item', 'branch' and 'dynamic_shape' read a number",
       .fusion = FusionClass::Library,
       .recompute = RecomputeClass::Never,
       .inputs = {},
       .attributes = {{"cause", Word, std::string("explicit")}},
       .infer = infer_graph_break,
       .eager = eager_graph_break});
  add({.name = "one_hot",
       .help = "Zeros with a one at the place of each number",
       .fusion = FusionClass::Scatter,
       .inputs = {{"ids"}},
       .attributes = {{"classes", Integer}},
       .infer = infer_one_hot,
       .eager = eager_one_hot});
  add({.name = "histc",
       .help = "How many elements fall into each of `bins`",
       .fusion = FusionClass::Scatter,
       .inputs = {{"x"}},
       .attributes = {{"bins", Integer}},
       .infer = infer_histc,
       .eager = eager_histc});
  add({.name = "cumsum",
       .help = "Running sums",
       .fusion = FusionClass::Library,
       .inputs = {{"x"}},
       .attributes = {{"dim", Integer, std::int64_t{-1}}, {"dtype", Element, {}, true}},
       .infer = infer_cumsum,
       .eager = eager_cumsum});
  add({.name = "bincount",
       .help = "How often each number below `bins` occurs",
       .fusion = FusionClass::Scatter,
       .inputs = {{"ids"}},
       .attributes = {{"bins", Integer}},
       .infer = infer_bincount,
       .eager = eager_bincount});
  add({.name = "to_device",
       .help = "Copies from the host",
       .fusion = FusionClass::Library,
       .recompute = RecomputeClass::Never,
       .inputs = {{"x"}},
       .attributes = {},
       .infer = infer_copy,
       .eager = eager_to_device});
  add({.name = "to_host",
       .help = "Copies to the host",
       .fusion = FusionClass::Library,
       .recompute = RecomputeClass::Never,
       .inputs = {{"x"}},
       .attributes = {},
       .infer = infer_copy,
       .eager = eager_to_host});
  return kinds;
}

}  // namespace gpusim
