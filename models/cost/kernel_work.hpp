// SPDX-License-Identifier: Apache-2.0
// What one op asks of a GPU, said by shapes, number formats and memory alone, and what that costs.
//
// A KernelWork is a framework op as PyTorch's libraries run it: usually one kernel, sometimes several GPU ops
// (the reduction after a split product, the memset before an attention kernel). gpu_ops() returns them in the
// order of the stream, estimate() their sum. Formulas: one file per family in this folder; their parameters:
// `calibration:` of a hardware file (models/hardware/kernel_calibration.hpp); how well they do:
// docs/accuracy.md.
//
// Shapes are row-major with the last axis contiguous unless a field says otherwise. Nothing here throws for a
// large number; sizes must not be negative (std::invalid_argument), and a work of zero elements takes no GPU
// op at all, as in PyTorch.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <variant>
#include <vector>

#include "models/cost/collectives.hpp"
#include "models/hardware/gpu_spec.hpp"
#include "models/units/quantity.hpp"

namespace gpusim {

// --- Arithmetic of functions.

/// Functions whose arithmetic can show behind the memory traffic. Everything that costs no more than a few
/// instructions (comparisons, casts, min, max, where) counts as Add.
enum class AluFunction : std::uint8_t {
  Add,
  Mul,
  Divide,
  Rsqrt,
  Exp,
  Log,
  Sin,
  Cos,
  Tanh,
  Erf,
  Sigmoid,
  Silu,
  Gelu,      ///< By erf.
  GeluTanh,  ///< By tanh.
};
inline constexpr int alu_function_count = 14;

/// "add", "mul", "div", "rsqrt", "exp", "log", "sin", "cos", "tanh", "erf", "sigmoid", "silu", "gelu",
/// "gelu_tanh".
std::string_view name(AluFunction function);

/// Cycles that one of the SM's 128 fp32 lanes is busy with one element. Throws NoCalibrationError.
double lane_cycles(AluFunction function, const GpuSpec& gpu);

// --- Elementwise.

/// An eager elementwise op: add, relu, a cast, a copy, a fill (nothing read).
struct Pointwise {
  enum class Access : std::uint8_t {
    Vectorized,   ///< Operands contiguous and of one shape (scalars besides); also a cast to a narrower
                  ///< format.
    Unrolled,     ///< A cast to a wider format (bf16 to fp32).
    Strided,      ///< An operand is broadcast (other than a scalar), permuted or a slice.
    StridedCast,  ///< That, and its number format is not that of the result.
  };
  std::int64_t elements = 0;  ///< Of the output.
  Bytes read{0};              ///< By all elements together; broadcast operands count with their own size.
  Bytes written{0};
  double lane_cycles = 0;  ///< Per element; sum of lane_cycles(AluFunction) of the functions in it.
  Access access = Access::Vectorized;
  std::int32_t divisions = 0;  ///< Exact divisions per element, as in eager div, sigmoid and silu.
  std::int32_t parts = 1;      ///< Kernels that it is cut into, see pointwise_parts().
};

/// Into how many kernels PyTorch cuts an elementwise op whose largest tensor has so many bytes: it halves the
/// op until offsets of bytes fit 32 bits (ATen/TensorIterator, with_32bit_indexing).
std::int32_t pointwise_parts(Bytes largest);

/// A copy that transposes: read along one axis, written along another, as `x.t().contiguous()`.
struct TransposedCopy {
  std::int64_t elements = 0;
  std::int32_t element_bytes = 2;
};

/// torch.cat of contiguous tensors: everything read once and written once.
struct Concatenation {
  std::int64_t elements = 0;  ///< Of the result.
  std::int32_t element_bytes = 2;
  std::int32_t inputs = 2;
  bool strided = false;  ///< An input is a slice or permuted: places are computed element by element.
};

/// Dropout in training: reads, draws a random number per element, writes the result and a mask of one byte.
struct Dropout {
  std::int64_t elements = 0;
  std::int32_t element_bytes = 2;
};

/// Filling with random numbers (randn, bernoulli).
struct RandomFill {
  std::int64_t elements = 0;
  std::int32_t element_bytes = 2;
};

// --- Reductions.

/// An eager op along the last axis of a [rows, columns] tensor.
struct RowReduction {
  enum class Kind : std::uint8_t {
    LayerNorm,  ///< With weight and bias; mean and rstd of each row written too.
    RmsNorm,    ///< The library op (F.rms_norm).
    Softmax,
    LogSoftmax,
    Sum,                ///< Or mean, max, any other that keeps one number per row.
    ArgMax,             ///< Or argmin: numbers with their places.
    LayerNormBackward,  ///< Gradients of input, weight and bias: several kernels.
    RmsNormBackward,
    SoftmaxBackward,  ///< Reads the output and its gradient.
  };
  Kind kind = Kind::Sum;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  Dtype input = Dtype::Bf16;
  Dtype output = Dtype::Bf16;
};

/// An eager sum over the first axis of a [rows, columns] tensor (gradient of a bias).
struct ColumnReduction {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  Dtype input = Dtype::Bf16;
  Dtype output = Dtype::Bf16;
};

/// An eager sum, mean or norm of a whole tensor.
struct FullReduction {
  std::int64_t elements = 0;
  Dtype input = Dtype::Bf16;
};

/// BatchNorm over [batch, channels, spatial]. In training and channels last these are several GPU ops: a fill
/// of counters where several blocks share a channel, the sums, with the running statistics (forward), and a
/// kernel over all elements.
struct BatchNorm {
  std::int64_t batch = 0;
  std::int64_t channels = 0;
  std::int64_t spatial = 0;  ///< Height x width.
  Dtype dtype = Dtype::Fp16;
  bool training = false;  ///< In evaluation the statistics are given: one elementwise kernel.
  bool channels_last = false;
  bool backward = false;  ///< The gradients of input, weight and bias, of training.
};

/// GroupNorm over [batch, channels, spatial].
struct GroupNorm {
  std::int64_t batch = 0;
  std::int64_t channels = 0;
  std::int64_t spatial = 0;
  std::int64_t groups = 1;
  Dtype dtype = Dtype::Fp16;
  bool channels_last = false;  ///< A copy in the other layout comes first.
};

/// Max pooling, or average pooling with a window: `outputs` elements, each from `window` inputs. Pooling of
/// all pixels is a reduction: RowReduction of [batch x channels, pixels], with channels last ColumnReduction
/// of [pixels, batch x channels].
struct Pooling {
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
  std::int64_t window = 1;
  Dtype dtype = Dtype::Fp16;
  bool channels_last = false;
  bool backward = false;  ///< The gradient of max pooling: to the places that were the largest.
};

/// The k largest of each row. Long rows take the radix path of several kernels.
struct TopK {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t k = 1;
  Dtype dtype = Dtype::Bf16;
  bool sorted = true;
};

/// Sorting each row, keys with their places, as argsort does: copies of keys and places besides.
struct Sort {
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  Dtype dtype = Dtype::Fp32;
};

// --- Products.

/// What the library does to a product's result before it writes it.
enum class Epilogue : std::uint8_t { None, Bias, BiasGelu };

/// `batch` times [m, k] x [k, n] (linear: m rows of activations, weight [n, k]). fp32 data on tensor cores is
/// Dtype::Tf32. bmm has batch > 1.
struct MatrixProduct {
  std::int64_t batch = 1;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  Dtype dtype = Dtype::Bf16;
  Dtype output = Dtype::Bf16;
  Epilogue epilogue = Epilogue::None;
  bool left_transposed = false;  ///< The left operand lies as [k, m], as in the gradient of a weight.
  bool right_transposed = true;  ///< The right one lies as [n, k], as the weight of a linear layer.
};

/// One product per expert in a single kernel: `rows` activations spread over `groups` weights [n, k].
struct GroupedProduct {
  std::int64_t groups = 1;
  std::int64_t active_groups = 0;  ///< Groups with at least one row; 0: min(groups, rows).
  std::int64_t rows = 0;           ///< Of all groups.
  std::int64_t largest_group = 0;  ///< Rows of the fullest group; 0: spread evenly.
  std::int64_t n = 0;
  std::int64_t k = 0;
  Dtype dtype = Dtype::Bf16;
};

/// A 2D convolution: forward, or one of the two products of its backward.
struct Convolution {
  enum class Pass : std::uint8_t { Forward, InputGradient, WeightGradient };
  std::int64_t batch = 0;
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t out_channels = 0;
  std::int64_t kernel_height = 1;
  std::int64_t kernel_width = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  Dtype dtype = Dtype::Fp16;
  bool channels_last = true;  ///< Else two layout kernels surround it.
  Pass pass = Pass::Forward;

  /// Length of the output along one axis; 0 where the kernel does not fit.
  std::int64_t out_height() const;
  std::int64_t out_width() const;
};

// --- Attention.

/// Fused scaled dot-product attention of whole sequences. In fp32 (or tf32) it takes kernels of its own
/// ("memory-efficient"), many times slower than those of 16-bit formats; its backward has four short kernels
/// before the long one.
struct Attention {
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  ///< 0: as heads.
  std::int64_t query_length = 0;
  std::int64_t kv_length = 0;  ///< 0: as query_length.
  std::int64_t head_dim = 64;
  bool causal = false;
  Dtype dtype = Dtype::Bf16;
  bool masked = false;  ///< A mask tensor is given: three kernels make it additive first.
};

/// Its backward, recomputation inside.
struct AttentionBackward {
  Attention forward;
};

/// One new query per sequence against a KV cache.
struct AttentionDecode {
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  ///< 0: as heads.
  std::int64_t kv_length = 0;
  std::int64_t head_dim = 64;
  Dtype dtype = Dtype::Bf16;
  bool masked = false;  ///< A mask tensor is given: three kernels make it additive first.
};

// --- Data-dependent access.

/// Reads `rows` rows by index out of a table (embedding, index_select) and writes them.
struct Gather {
  std::int64_t rows = 0;
  Bytes row_bytes{0};
  Bytes table_bytes{0};
  bool by_expression = false;  ///< x[i], which has no kernel of its own for few rows.
};

/// Gradient of an embedding: a zero fill of the whole table, then the rows added at their places. Up to 3072
/// rows one kernel goes over all of them; more are sorted by their place first, and what falls on one place
/// is added up in parts (ATen/native/cuda/Embedding.cu and EmbeddingBackwardKernel.cu).
struct EmbeddingBackward {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t table_rows = 0;
  Dtype dtype = Dtype::Bf16;
};

/// Adds or writes rows at given places of an existing tensor (index_add; index_copy, index_put, scatter).
struct Scatter {
  std::int64_t rows = 0;
  Bytes row_bytes{0};
  bool add = false;  ///< Atomic additions, an element at a time.
  Dtype dtype = Dtype::Bf16;
  /// Of an existing tensor; not 0: additions sorted by their place first, as index_put does it with
  /// accumulate=true, so that none is atomic (ATen/native/cuda/Indexing.cu).
  std::int64_t sorted_places = 0;
};

/// One number per row picked by its label, and their mean (nll_loss), or its gradient: a zero fill of
/// [rows, classes] and one number per row. The log-softmax before it is a RowReduction.
struct LossGather {
  std::int64_t rows = 0;
  std::int64_t classes = 0;
  Dtype dtype = Dtype::Fp32;
  bool backward = false;
};

// --- Optimizers.

/// One elementwise function over lists of tensors (multi_tensor_apply), as many kernels as they need: a block
/// takes up to 65,536 elements of one tensor, a kernel up to 320 blocks and, by the lists, 110 to 30 tensors.
struct MultiTensor {
  std::vector<std::int64_t> sizes;  ///< Elements of each tensor; those of all lists are alike.
  std::int32_t lists = 1;           ///< Gone over together: 4 for parameters, gradients and two moments.
  std::int32_t moves = 2;           ///< How often an element is read or written, all lists together.
  bool scalars = false;             ///< A number for each tensor is passed along.
  bool fused = false;               ///< All of an optimizer in one function.
  Dtype dtype = Dtype::Fp32;
};

// --- Kernels that torch.compile (Inductor, Triton) writes.

/// A fused elementwise kernel. Intermediate results stay in registers: count external reads and writes only.
struct InductorPointwise {
  std::int64_t elements = 0;
  Bytes read{0};
  Bytes written{0};
  double lane_cycles = 0;          ///< Per element, all fused functions.
  std::int32_t strided_reads = 0;  ///< Loads an element at a time: transposed, sliced, one of several parts.
};

/// A fused kernel that reduces along the last axis of [rows, columns] and may go on to write a tensor of that
/// shape. Inductor keeps the row in registers up to 1024 columns (one read) and loops above it (a read per
/// pass).
struct InductorRowReduction {
  enum class Reduction : std::uint8_t {
    Plain,          ///< Sums (of squares too), maxima: one loop each where one needs the result of another.
    Welford,        ///< Mean and variance in one loop, as the built-in layer_norm has them.
    OnlineSoftmax,  ///< Maximum and sum of exponentials in one loop.
  };
  enum class Form : std::uint8_t { Auto, Persistent, Looped };
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  Bytes read{0};        ///< Of full-size inputs, each once.
  Bytes read_again{0};  ///< Per further pass: what a later loop needs again; usually the same as `read`.
  Bytes shared{0};      ///< Weights and biases of `columns` elements, the same for all rows.
  Bytes written{0};     ///< Full-size outputs and results per row.
  std::int32_t reductions = 1;  ///< Loops of reduction, each of which depends on the one before.
  bool writes_rows = true;      ///< A last loop goes over the row to write it.
  Reduction reduction = Reduction::Plain;
  double lane_cycles = 0;  ///< Per element, of functions fused in besides the reduction itself.
  Form form = Form::Auto;
};

/// Which kernels of a reduction that is split in two: one goes over the data, one adds up what the blocks
/// found.
enum class SplitPart : std::uint8_t { Both, First, Second };

/// A fused sum over the first axis of [rows, columns]: one kernel, or two where the columns alone do not fill
/// the device.
struct InductorColumnReduction {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  Bytes read{0};
  Bytes written{0};
  double lane_cycles = 0;
  bool welford = false;  ///< Mean and variance instead of a sum.
  SplitPart part = SplitPart::Both;
};

/// A fused reduction of a whole tensor: two kernels unless it is small.
struct InductorFullReduction {
  std::int64_t elements = 0;
  Bytes read{0};
  double lane_cycles = 0;
  SplitPart part = SplitPart::Both;
};

/// A fused kernel that goes along the rows of [rows, columns], reduces each and may write a tensor of that
/// shape, and on the way adds up columns: each block keeps the sums of its rows, `sums` numbers per column.
/// Second part: one eager sum over the blocks, of one of the sums.
struct InductorMixedReduction {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  Bytes read{0};     ///< Of full-size inputs, each once.
  Bytes shared{0};   ///< Weights of `columns` elements, the same for all rows.
  Bytes written{0};  ///< Full-size outputs and results per row; without the blocks' sums.
  std::int32_t sums = 1;
  double lane_cycles = 0;  ///< Per element.
  SplitPart part = SplitPart::Both;
};

// --- Driver ops.

struct Memset {
  Bytes bytes{0};
};

struct Memcpy {
  enum class Direction : std::uint8_t { HostToDevice, DeviceToHost, DeviceToDevice };
  Bytes bytes{0};
  Direction direction = Direction::DeviceToDevice;
};

/// An empty kernel, and the stand-in for ops of a handful of elements.
struct TinyKernel {};

using KernelWork =
    std::variant<Pointwise, TransposedCopy, Concatenation, Dropout, RandomFill, RowReduction, ColumnReduction,
                 FullReduction, BatchNorm, GroupNorm, Pooling, TopK, Sort, MatrixProduct, GroupedProduct,
                 Convolution, Attention, AttentionBackward, AttentionDecode, Gather, EmbeddingBackward,
                 Scatter, LossGather, MultiTensor, InductorPointwise, InductorRowReduction,
                 InductorColumnReduction, InductorFullReduction, InductorMixedReduction, Memset, Memcpy,
                 TinyKernel, Collective>;

// --- What it costs.

/// What of the data is in the L2 when the op starts: 1 is all from and to the memory, 0 all in the L2.
struct CacheState {
  double cold_reads = 1;   ///< Share of the bytes read that come from the memory.
  double cold_writes = 1;  ///< Share of the bytes written that end in the memory before they are overwritten.
};
inline constexpr CacheState cold{1, 1};
inline constexpr CacheState hot{0, 0};

/// Share of a buffer that is gone from the L2 after `touched` bytes of distinct memory have been read or
/// written since it was touched last, itself included. 0 up to a bit more than half of the L2, 1 from four
/// fifths on (measured on an H200), linear between. Throws NoCalibrationError.
double cold_share(Bytes touched, const GpuSpec& gpu);

/// What a kernel's duration is made of most.
enum class KernelLimit : std::uint8_t {
  Overhead,  ///< Start and end of the kernel, latency of a chain, too few blocks.
  Memory,    ///< The memory's bandwidth.
  Cache,     ///< The L2's bandwidth.
  Compute,   ///< Tensor cores or lanes.
  Blocks,    ///< Starting blocks.
};
std::string_view name(KernelLimit limit);

struct KernelEstimate {
  Picoseconds duration{0};  ///< As a profiler shows it.
  Flops flops{0};           ///< Arithmetic that the algorithm needs; padding to tiles is not counted.
  Bytes hbm_bytes{0};       ///< Traffic of the memory, re-reads that miss the L2 included.
  KernelLimit limit = KernelLimit::Overhead;
  std::int32_t blocks = 1;
  std::int32_t threads = 128;  ///< Per block.
};

enum class GpuOpKind : std::uint8_t { Kernel, Memset, Memcpy };

struct GpuOpEstimate {
  GpuOpKind kind = GpuOpKind::Kernel;
  std::string_view name;  ///< "gemm", "split_k_reduce"; a literal.
  KernelEstimate cost;
};

/// A device whose hardware file has no calibration for kernels.
class NoCalibrationError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// The GPU ops that the work runs as, in stream order. Throws NoCalibrationError, NoPeakError (a product in a
/// number format that the device has no rate for), std::invalid_argument (a negative size).
std::vector<GpuOpEstimate> gpu_ops(const KernelWork& work, const GpuSpec& gpu, CacheState cache = cold);

/// All of them as one: durations, FLOPs and bytes added up; limit, blocks and threads of the longest.
KernelEstimate estimate(const KernelWork& work, const GpuSpec& gpu, CacheState cache = cold);

}  // namespace gpusim
