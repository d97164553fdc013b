// SPDX-License-Identifier: Apache-2.0
// Fused attention. An item is 128 queries of one head; it goes over its keys in blocks of 128 x 128 scores.
// Items are handed out to SMs; with a causal mask they differ in length and the longest ones come last. fp32
// has kernels of its own, with items of 64 queries.
#include "models/cost/kernel_terms.hpp"

namespace gpusim::cost {
namespace {

constexpr double score_block = 128;

struct Heads {
  double batch, heads, kv_heads, queries, keys, dim, size;
};

Heads heads_of(const Attention& work) {
  Heads h{};
  h.batch = static_cast<double>(work.batch);
  h.heads = static_cast<double>(work.heads);
  h.kv_heads = static_cast<double>(work.kv_heads > 0 ? work.kv_heads : work.heads);
  h.queries = static_cast<double>(work.query_length);
  h.keys = static_cast<double>(work.kv_length > 0 ? work.kv_length : work.query_length);
  h.dim = static_cast<double>(work.head_dim);
  h.size = bytes_of(work.dtype);
  return h;
}

/// s of all items: `block` s per block of scores, `item` s per item.
double schedule(const Pricing& p, const Heads& h, bool causal, double block, double item) {
  const AttentionCalibration& c = p.calibration.attention;
  const double per_head = std::ceil(h.queries / score_block);
  const double key_blocks = std::ceil(h.keys / score_block);
  const double items = h.batch * h.heads * per_head;
  const double longest = item + key_blocks * block;
  if (!causal || items <= p.sms()) return std::ceil(items / p.sms()) * longest;
  // Query block i of a head sees the keys up to its own diagonal.
  const double before = std::max(0.0, key_blocks - per_head);
  const double blocks = h.batch * h.heads * (per_head * before + per_head * (per_head + 1) / 2);
  return (blocks * c.causal_block * block + items * item) / p.sms() + c.causal_tail * key_blocks * block;
}

/// FLOPs of `products` products of queries x keys x dim, half of them with a causal mask.
double attention_flops(const Heads& h, bool causal, double products) {
  const double pairs = h.batch * h.heads * h.queries * h.keys;
  return products * 2 * pairs * h.dim * (causal ? 0.5 : 1);
}

KernelFigures fused(const Pricing& p, const Heads& h, const Attention& work, bool backward) {
  const AttentionCalibration& c = p.calibration.attention;
  const bool causal = work.causal;
  const Dtype dtype = work.dtype;
  const double products = backward ? 5 : 2;
  const double rate =
      (backward ? c.backward_peak_share : c.peak_share) * peak(p.gpu, dtype).value() / p.sms();
  // Heads are filled up to whole steps of the tensor cores' pipeline.
  constexpr double dim_step = 64;
  const double multiply =
      products * 2 * score_block * score_block * dim_step * std::ceil(h.dim / dim_step) / rate;
  const bool ragged = !causal && std::fmod(h.keys, score_block) != 0;
  const double block = p.cycles((backward ? c.backward_softmax : c.softmax) + (work.masked ? c.mask : 0) +
                                (ragged ? c.ragged : 0)) +
                       multiply;
  const double start = backward ? c.backward_start : c.start;
  const double compute = schedule(p, h, causal, block, backward ? c.backward_item : c.item);
  const double kv = 2 * h.batch * h.kv_heads * h.keys * h.dim * h.size;
  const double q = h.batch * h.heads * h.queries * h.dim * h.size;
  const double bytes = (backward ? 2 : 1) * (2 * q + kv);
  const double cold_bytes = bytes * p.cache.cold_reads;
  const std::initializer_list<Term> terms = {
      {compute, KernelLimit::Compute},
      {p.memory(cold_bytes, p.calibration.pointwise.memory_share), KernelLimit::Memory}};
  KernelFigures figures;
  figures.seconds = start + soft_maximum(4, terms);
  figures.limit = limit_of(start, terms);
  figures.flops = attention_flops(h, causal, products);
  figures.hbm_bytes = cold_bytes;
  figures.blocks = std::min(p.sms(), h.batch * h.heads * std::ceil(h.queries / score_block));
  figures.threads = 384;
  return figures;
}

/// What the kernel after the backward draws of the memory relative to the one before: 3.5 and 2.05 TB/s on an
/// H200 (kernels.csv, sdpa_fwdbwd).
constexpr double convert_rate = 1.71;

KernelFigures streaming(const Pricing& p, double bytes, double rate) {
  KernelFigures figures;
  const double transfer = p.memory(bytes, rate * p.calibration.attention.backward_streams);
  figures.seconds = p.calibration.pointwise.start + transfer;
  figures.limit = limit_of(p.calibration.pointwise.start, {{transfer, KernelLimit::Memory}});
  figures.hbm_bytes = bytes;
  figures.blocks = std::ceil(bytes / 65536);
  return figures;
}

/// fp32: PyTorch's memory-efficient kernels for it, which run on the tensor cores where there is tf32.
bool is_fp32(Dtype dtype) {
  return dtype == Dtype::Fp32 || dtype == Dtype::Tf32;
}

/// The long kernel of attention in fp32, forward or backward. An SM works on one item at a time, backward on
/// two: the last ones leave SMs idle.
KernelFigures fused_fp32(const Pricing& p, const Heads& h, const Attention& work, bool backward) {
  const AttentionCalibration& c = p.calibration.attention;
  constexpr double side = 64;
  const double products = backward ? 5 : 2;
  const Dtype peak_of = p.gpu.peak.find(Dtype::Tf32) ? Dtype::Tf32 : Dtype::Fp32;
  const double rate =
      (backward ? c.fp32_backward_peak_share : c.fp32_peak_share) * peak(p.gpu, peak_of).value() / p.sms();
  const double block = p.cycles((backward ? c.fp32_backward_softmax : c.fp32_softmax) +
                                (work.masked ? c.mask * side * side / (score_block * score_block) : 0)) +
                       products * 2 * side * side * h.dim / rate;
  const double per_head = std::ceil(h.queries / side);
  const double key_blocks = std::ceil(h.keys / side);
  const double items = h.batch * h.heads * per_head;
  const double at_once = (backward ? 2 : 1) * p.sms();
  double blocks = std::ceil(items / at_once) * (backward ? 2 : 1) * key_blocks;  // Of the busiest SM.
  if (items <= at_once / 2) blocks = key_blocks;
  if (work.causal) {
    const double before = std::max(0.0, key_blocks - per_head);
    const double all = h.batch * h.heads * (per_head * before + per_head * (per_head + 1) / 2);
    blocks = std::max(key_blocks,
                      all / p.sms() + (backward ? c.fp32_backward_tail : c.fp32_causal_tail) * key_blocks);
  }
  const double start = backward ? c.fp32_backward_start : c.fp32_start;
  KernelFigures figures;
  figures.seconds = start + blocks * block;
  figures.limit = limit_of(start, {{blocks * block, KernelLimit::Compute}});
  figures.flops = attention_flops(h, work.causal, products);
  figures.hbm_bytes = (backward ? 2 : 1) * 2 *
                      (h.batch * h.heads * h.queries + h.batch * h.kv_heads * h.keys) * h.dim * h.size *
                      p.cache.cold_reads;
  figures.blocks = items;
  figures.threads = 128;
  return figures;
}

/// A boolean mask of `elements` made additive: two fills of a scalar and a where.
GpuOps mask_ops(const Pricing& p, double elements) {
  Pointwise where;
  where.elements = std::llround(elements);
  where.read = Bytes(where.elements);
  where.written = Bytes(2 * where.elements);
  where.access = Pointwise::Access::Strided;
  GpuOps ops = price(p, TinyKernel{});
  ops.push_back(ops.front());
  ops.push_back(price(p, where).front());
  return ops;
}

}  // namespace

GpuOps price(const Pricing& p, const Attention& work) {
  if (work.batch == 0 || work.heads == 0 || work.query_length == 0) return {};
  const Heads h = heads_of(work);
  GpuOps ops = work.masked ? mask_ops(p, h.queries * h.keys) : GpuOps{};
  if (is_fp32(work.dtype)) {
    ops.push_back(kernel("attention", fused_fp32(p, h, work, false)));
    return ops;
  }
  ops.push_back(memset_op(p, 4));
  ops.push_back(kernel("attention", fused(p, h, work, false)));
  return ops;
}

GpuOps price(const Pricing& p, const AttentionBackward& work) {
  const Attention& forward = work.forward;
  if (forward.batch == 0 || forward.heads == 0 || forward.query_length == 0) return {};
  const Heads h = heads_of(forward);
  const double elements = h.batch * h.heads * h.queries * h.dim;
  if (is_fp32(forward.dtype)) {
    // Result times gradient, summed along rows into a copy laid out for the kernel, and zeros to add to.
    const std::int64_t all = std::llround(elements);
    const std::int64_t rows = std::llround(h.batch * h.heads * h.queries);
    const Pointwise product{.elements = all, .read = Bytes(8 * all), .written = Bytes(4 * all)};
    const Pointwise copy{.elements = rows,
                         .read = Bytes(4 * rows),
                         .written = Bytes(4 * rows),
                         .access = Pointwise::Access::Strided};
    const Pointwise zeros{.elements = all, .written = Bytes(4 * all)};
    const Pricing warm{p.gpu, p.calibration, hot};
    GpuOps ops = price(p, product);
    ops.push_back(price(warm, RowReduction{.kind = RowReduction::Kind::Sum,
                                           .rows = rows,
                                           .columns = forward.head_dim,
                                           .input = Dtype::Fp32,
                                           .output = Dtype::Fp32})
                      .front());
    ops.push_back(price(warm, copy).front());
    ops.push_back(price(p, zeros).front());
    ops.push_back(kernel("attention_backward", fused_fp32(p, h, forward, true)));
    return ops;
  }
  // Row sums of result times gradient before, the queries' gradient from fp32 to its format after.
  return {memset_op(p, 4), kernel("attention_row_sums", streaming(p, elements * 2 * h.size, 1)),
          kernel("attention_backward", fused(p, h, forward, true)),
          kernel("attention_convert", streaming(p, elements * (4 + h.size), convert_rate))};
}

GpuOps price(const Pricing& p, const AttentionDecode& work) {
  if (work.batch == 0 || work.heads == 0) return {};
  const AttentionCalibration& c = p.calibration.attention;
  const double batch = static_cast<double>(work.batch);
  const double kv_heads = static_cast<double>(work.kv_heads > 0 ? work.kv_heads : work.heads);
  const double length = static_cast<double>(work.kv_length);
  const double dim = static_cast<double>(work.head_dim);
  const double cache = 2 * batch * kv_heads * length * dim * bytes_of(work.dtype);
  const double groups = batch * kv_heads;
  const double cold_bytes = cache * p.cache.cold_reads;
  const double transfer =
      p.memory(cold_bytes, c.decode_share) + p.memory(cache - cold_bytes, c.decode_cached);
  KernelFigures figures;
  figures.seconds = c.decode_start + transfer;
  figures.limit = limit_of(c.decode_start, {{transfer, KernelLimit::Memory}});
  figures.flops = 4 * batch * static_cast<double>(work.heads) * length * dim;
  figures.hbm_bytes = cold_bytes;
  // Too few heads for the device: each sequence is cut along its keys, and a second kernel joins the parts.
  const bool split = groups <= p.sms() / 2 && work.kv_length > static_cast<std::int64_t>(score_block);
  figures.blocks = split ? groups * std::max(1.0, std::ceil(length / score_block)) : groups;
  GpuOps ops = work.masked ? mask_ops(p, batch * length) : GpuOps{};
  ops.push_back(kernel("attention_decode", figures));
  if (split) {
    KernelFigures join;
    join.seconds = c.decode_reduce;
    join.blocks = groups;
    ops.push_back(kernel("attention_join", join));
  }
  return ops;
}

}  // namespace gpusim::cost
