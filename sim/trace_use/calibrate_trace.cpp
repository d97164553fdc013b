// SPDX-License-Identifier: Apache-2.0
#include "sim/trace_use/calibrate_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "sim/program/replay.hpp"
#include "sim/program/replay_rules.hpp"
#include "sim/trace/kernel_names.hpp"
#include "sim/trace_use/kernel_traits.hpp"

namespace gpusim {
namespace {

Picoseconds times(Picoseconds time, double factor) {
  return Picoseconds(std::llround(static_cast<double>(time.count()) * factor));
}

struct Occurrence {
  Picoseconds time{0};
  std::int64_t launches = 0;
};
using Occurrences = std::map<std::pair<std::string, HostOpMode>, std::vector<Occurrence>>;

double automatic_factor(const Trace& trace, const std::optional<GpuSpec>& gpu) {
  ReplayOptions options;
  options.host_time = TraceWorkload::HostTime::Auto;
  return build_replay(trace, gpu ? &*gpu : nullptr, options).statistics.host_factor;
}

/// Moments from `begin` on in a sorted list that lie before `end`.
std::int64_t count_between(const std::vector<Picoseconds>& sorted, Picoseconds begin, Picoseconds end) {
  return std::lower_bound(sorted.begin(), sorted.end(), end) -
         std::lower_bound(sorted.begin(), sorted.end(), begin);
}

void collect(const Trace& trace, double factor, Occurrences& into) {
  const TraceRules rules = derive_rules(trace, nullptr);
  std::map<std::uint32_t, std::vector<Picoseconds>> launches;
  std::map<std::uint32_t, std::vector<Picoseconds>> waits;
  std::vector<Picoseconds> launch_times;
  for (std::uint32_t c = 0; c < trace.calls.size(); ++c)
    if (!rules.ops_of_call[c].empty()) launch_times.push_back(trace.calls[c].duration());
  const Picoseconds usual = median(std::move(launch_times));
  for (std::uint32_t c = 0; c < trace.calls.size(); ++c) {
    const TraceCall& call = trace.calls[c];
    if (!rules.ops_of_call[c].empty()) launches[call.thread].push_back(call.start);
    const bool blocked = call.duration() > 10 * std::max(usual, Picoseconds(1));
    if (is_synchronization(call.kind) || blocked) waits[call.thread].push_back(call.start);
  }
  for (auto* table : {&launches, &waits})
    for (auto& [thread, starts] : *table) std::sort(starts.begin(), starts.end());
  std::vector<Picoseconds> steps;
  for (const TraceStep& step : trace.steps) steps.push_back(step.start);
  std::sort(steps.begin(), steps.end());

  std::map<std::uint32_t, std::vector<std::uint32_t>> top_level;
  bool training = false;
  for (std::uint32_t k = 0; k < trace.cpu_ops.size(); ++k) {
    if (trace.cpu_ops[k].depth != 0) continue;
    top_level[trace.cpu_ops[k].thread].push_back(k);
    bool backward = false;
    host_op_key(trace.name_of(trace.cpu_ops[k].name), backward);
    training = training || backward;
  }
  for (auto& [thread, spans] : top_level) {
    std::sort(spans.begin(), spans.end(), [&](std::uint32_t x, std::uint32_t y) {
      return std::pair(trace.cpu_ops[x].start, x) < std::pair(trace.cpu_ops[y].start, y);
    });
    for (std::size_t k = 0; k + 1 < spans.size(); ++k) {
      const TraceSpan& span = trace.cpu_ops[spans[k]];
      const Picoseconds next = trace.cpu_ops[spans[k + 1]].start;
      if (count_between(steps, span.start, next) > 0 || count_between(waits[thread], span.start, next) > 0)
        continue;
      bool backward = false;
      const std::string key = host_op_key(trace.name_of(span.name), backward);
      const HostOpMode mode = backward   ? HostOpMode::Backward
                              : training ? HostOpMode::Grad
                                         : HostOpMode::NoGrad;
      into[{key, mode}].push_back(
          {times(next - span.start, factor), count_between(launches[thread], span.start, next)});
    }
  }
}

/// Without what took more than five times the median.
HostOpSample sample_of(const std::string& key, HostOpMode mode, const std::vector<Occurrence>& all) {
  std::vector<Picoseconds> sorted;
  for (const Occurrence& o : all) sorted.push_back(o.time);
  const Picoseconds limit = 5 * std::max(median(sorted), Picoseconds(1));
  sorted.clear();
  HostOpSample sample;
  sample.key = key;
  sample.mode = mode;
  Picoseconds sum{0};
  for (const Occurrence& o : all) {
    if (o.time > limit) continue;
    sorted.push_back(o.time);
    sum += o.time;
    sample.launches += static_cast<double>(o.launches);
  }
  std::sort(sorted.begin(), sorted.end());
  sample.count = static_cast<std::int64_t>(sorted.size());
  if (sorted.empty()) return sample;
  sample.mean = sum / sample.count;
  sample.launches /= static_cast<double>(sample.count);
  sample.p10 = sorted[sorted.size() / 10];
  sample.p90 = sorted[std::min(sorted.size() - 1, sorted.size() * 9 / 10)];
  return sample;
}

std::string us(Picoseconds time) {
  return fmt::format("{:.2f} us", static_cast<double>(time.count()) * 1e-6);
}

/// A name that a YAML map can have as a key.
bool is_plain(const std::string& key) {
  return !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

std::optional<Dtype> dtype_of(const std::string& type) {
  if (type == "c10::BFloat16") return Dtype::Bf16;
  if (type == "c10::Half") return Dtype::Fp16;
  if (type == "float") return Dtype::Fp32;
  return std::nullopt;
}

/// The product that an op asks for by the shapes of its last two tensors.
std::optional<MatrixProduct> product_of(const Trace& trace, const TraceSpan& span) {
  const std::string& op = trace.name_of(span.name);
  if (span.inputs == trace_none || (op != "aten::mm" && op != "aten::addmm" && op != "aten::bmm"))
    return std::nullopt;
  std::vector<const TraceInput*> tensors;
  for (const TraceInput& input : trace.inputs[span.inputs])
    if (input.shapes.size() == 1 && !input.shapes[0].empty()) tensors.push_back(&input);
  if (tensors.size() < 2) return std::nullopt;
  const TraceInput& a = *tensors[tensors.size() - 2];
  const TraceInput& b = *tensors[tensors.size() - 1];
  const std::vector<std::int64_t>& x = a.shapes[0];
  const std::vector<std::int64_t>& y = b.shapes[0];
  const auto dtype = dtype_of(a.type);
  const std::size_t rank = op == "aten::bmm" ? 3 : 2;
  if (!dtype || x.size() != rank || y.size() != rank || x[rank - 1] != y[rank - 2]) return std::nullopt;
  MatrixProduct product;
  if (rank == 3) product.batch = x[0];
  product.m = x[rank - 2];
  product.k = x[rank - 1];
  product.n = y[rank - 1];
  product.dtype = product.output = *dtype;
  if (op == "aten::addmm") product.epilogue = Epilogue::Bias;
  if (product.batch <= 0 || product.m <= 0 || product.n <= 0 || product.k <= 0) return std::nullopt;
  return product;
}

}  // namespace

HostFit fit_host(const std::vector<Trace>& traces, const std::vector<std::optional<GpuSpec>>& gpus,
                 const HostSpec& base) {
  HostFit fit;
  Occurrences occurrences;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    fit.factors.push_back(automatic_factor(traces[i], gpus[i]));
    collect(traces[i], fit.factors.back(), occurrences);
  }
  double traced = 0;
  double by_base = 0;
  std::map<HostOpMode, std::pair<double, std::int64_t>> all;
  for (const auto& [key, list] : occurrences) {
    HostOpSample sample = sample_of(key.first, key.second, list);
    if (sample.count == 0 || !is_plain(sample.key)) continue;
    const auto known = base.ops.find(sample.key);
    if (known != base.ops.end() && (sample.mode != HostOpMode::Backward || known->second.backward)) {
      sample.base = op_time(base, sample.key, sample.mode);
      traced += static_cast<double>(sample.mean.count()) * static_cast<double>(sample.count);
      by_base += static_cast<double>(sample.base->count()) * static_cast<double>(sample.count);
    }
    auto& [sum, count] = all[sample.mode];
    sum += static_cast<double>(sample.mean.count()) * static_cast<double>(sample.count);
    count += sample.count;
    fit.samples.push_back(std::move(sample));
  }
  std::sort(fit.samples.begin(), fit.samples.end(), [](const HostOpSample& x, const HostOpSample& y) {
    return std::tuple(-x.mean.count() * x.count, x.key, x.mode) <
           std::tuple(-y.mean.count() * y.count, y.key, y.mode);
  });
  fit.host = base;
  fit.host.speed = traced > 0 && by_base > 0 ? base.speed * by_base / traced : base.speed;
  double off = 0;
  double weight = 0;
  for (const HostOpSample& sample : fit.samples) {
    HostOpCost& cost = fit.host.ops[sample.key];
    const Picoseconds at_speed_one = times(sample.mean, fit.host.speed);
    const bool fresh = base.ops.find(sample.key) == base.ops.end();
    if (sample.mode == HostOpMode::Backward) {
      cost.backward = at_speed_one;
      if (fresh && cost.no_grad == Picoseconds(0)) cost.no_grad = at_speed_one;
    } else if (sample.mode == HostOpMode::Grad) {
      cost.grad = at_speed_one;
      if (fresh && cost.no_grad == Picoseconds(0)) cost.no_grad = at_speed_one;
    } else {
      cost.no_grad = at_speed_one;
    }
    if (sample.mode != HostOpMode::Backward)
      cost.launches = static_cast<std::int32_t>(std::lround(sample.launches));
    if (sample.base) {
      const double predicted = static_cast<double>(sample.base->count()) * base.speed / fit.host.speed;
      off +=
          std::abs(predicted - static_cast<double>(sample.mean.count())) * static_cast<double>(sample.count);
      weight += static_cast<double>(sample.mean.count()) * static_cast<double>(sample.count);
    }
  }
  fit.residual = weight > 0 ? off / weight : 0;
  return fit;
}

std::string host_yaml(const HostFit& fit, const HostSpec& base, const std::vector<std::string>& sources) {
  std::string text =
      "# CPU time per op of the framework, calls and Python around it included, without the profiler's "
      "share.\n";
  for (std::size_t i = 0; i < sources.size(); ++i)
    text += fmt::format("# From {} (host times times {:.3f})\n", sources[i], fit.factors[i]);
  text += fmt::format(
      "# What the traces do not show is that of {}, at the speed that fits what both have ({:.0f} % off in "
      "the mean).\n",
      base.name, 100 * fit.residual);
  text += fmt::format(
      "base: {}\nname: Host calibrated from traces\nspeed: {:.4g}  # costs below are divided by it\nops:\n",
      base.key, fit.host.speed);
  std::map<std::string, std::string> why;
  for (const HostOpSample& sample : fit.samples) {
    const char* mode = sample.mode == HostOpMode::NoGrad ? "no_grad"
                       : sample.mode == HostOpMode::Grad ? "grad"
                                                         : "backward";
    std::string& note = why[sample.key];
    note += fmt::format("{}traced: {} {} times, {} to {} of 80 %", note.empty() ? "" : "; ", mode,
                        sample.count, us(sample.p10), us(sample.p90));
  }
  for (const auto& [key, note] : why) {
    const HostOpCost& cost = fit.host.ops.at(key);
    text += fmt::format("  {}: {{no_grad: {}", key, us(cost.no_grad));
    if (cost.grad) text += ", grad: " + us(*cost.grad);
    if (cost.backward) text += ", backward: " + us(*cost.backward);
    if (cost.launches != 1) text += fmt::format(", launches: {}", cost.launches);
    text += "}  # " + note + "\n";
  }
  return text;
}

calibrate::KernelTable kernels_of(const std::vector<Trace>& traces) {
  struct Measured {
    Picoseconds sum{0};
    std::int64_t count = 0;
    std::string family;
    KernelWork work;
    AluFunction function = AluFunction::Add;
  };
  std::map<std::string, Measured> measured;
  const auto add = [&](const std::string& name, const std::string& family, const KernelWork& work,
                       AluFunction function, Picoseconds time) {
    Measured& m = measured[name];
    m.sum += time;
    ++m.count;
    m.family = family;
    m.work = work;
    m.function = function;
  };
  for (const Trace& trace : traces) {
    std::map<std::int64_t, std::uint32_t> span_of;
    for (std::uint32_t k = 0; k < trace.cpu_ops.size(); ++k)
      if (trace.cpu_ops[k].external_id >= 0) span_of.emplace(trace.cpu_ops[k].external_id, k);
    std::map<std::uint32_t, Picoseconds> of_span;  // products: all GPU ops of the call
    for (const TraceOp& op : trace.ops) {
      const std::string& name = trace.name_of(op.name);
      if (op.external_id >= 0) {
        const auto span = span_of.find(op.external_id);
        if (span != span_of.end() && product_of(trace, trace.cpu_ops[span->second]))
          of_span[span->second] += op.duration();
      }
      const KernelTraits t = kernel_traits(name, op);
      // Small kernels overstate their elements by up to a block.
      if (t.role != FusionRole::Pointwise || t.elements < (1 << 16) || t.fill) continue;
      const bool cast = t.read_bytes != t.written_bytes;
      Pointwise work;
      work.elements = t.elements;
      work.read = Bytes(t.elements * t.inputs * t.read_bytes);
      work.written = Bytes(t.elements * t.written_bytes);
      if (cast && t.inputs > 1) continue;  // Of two formats: which is which is not known.
      std::string family = "elementwise";
      if (name.find("unrolled_elementwise_kernel<") != std::string::npos) {
        work.access = Pointwise::Access::Unrolled;
        family = "unrolled";
      } else if (name.find("vectorized_elementwise_kernel<") == std::string::npos) {
        continue;  // Broadcast or strided: which operand is small is not known.
      }
      add(fmt::format("{}/{}", telling_name(name), t.elements), family, work, t.function, op.duration());
    }
    for (const auto& [k, time] : of_span) {
      const MatrixProduct product = *product_of(trace, trace.cpu_ops[k]);
      add(fmt::format("{}/{}/{}x{}x{}x{}", trace.name_of(trace.cpu_ops[k].name), gpusim::name(product.dtype),
                      product.batch, product.m, product.n, product.k),
          product.batch > 1 ? "batched_product" : "product", product, AluFunction::Add, time);
    }
  }
  calibrate::KernelTable table;
  for (const auto& [name, m] : measured) {
    calibrate::KernelCase c;
    c.name = name;
    c.family = m.family;
    c.group = name.substr(name.rfind('/') + 1);
    c.us = c.us_min = static_cast<double>((m.sum / m.count).count()) * 1e-6;
    const KernelWork work = m.work;
    c.works = [work, function = m.function](const GpuSpec& gpu) {
      std::vector<calibrate::CachedWork> works;
      KernelWork mine = work;
      double bytes = 0;
      if (auto* pointwise = std::get_if<Pointwise>(&mine)) {
        pointwise->lane_cycles = lane_cycles(function, gpu);
        bytes = static_cast<double>((pointwise->read + pointwise->written).value());
      }
      if (const auto* product = std::get_if<MatrixProduct>(&mine))
        bytes =
            2.0 * static_cast<double>(product->batch) *
            static_cast<double>(product->m * product->k + product->n * product->k + product->m * product->n);
      const double share = cold_share(Bytes(static_cast<std::int64_t>(std::min(bytes, 1e15))), gpu);
      works.push_back({mine, {.cold_reads = share, .cold_writes = share}});
      return works;
    };
    if (c.us > 0) table.cases.push_back(std::move(c));
  }
  return table;
}

}  // namespace gpusim
