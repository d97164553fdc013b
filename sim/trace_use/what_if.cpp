// SPDX-License-Identifier: Apache-2.0
#include "sim/trace_use/what_if.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "sim/config/error.hpp"
#include "sim/config/whole.hpp"
#include "sim/engine/engine.hpp"
#include "sim/program/capture.hpp"
#include "sim/program/replay.hpp"
#include "sim/program/replay_rules.hpp"
#include "sim/trace/kernel_names.hpp"
#include "sim/trace_use/fusion_groups.hpp"
#include "sim/trace_use/kernel_traits.hpp"
#include "sim/trace_use/nearest_kernels.hpp"
#include "sim/trace_use/program_edit.hpp"

namespace gpusim {
namespace {

using Kind = TraceChange::Kind;
using engine::Index;
using engine::no_index;

// What a kernel takes that does nothing: neither more data nor another GPU changes it.
constexpr Picoseconds kernel_floor{900'000};

[[noreturn]] void refuse(const TraceChange& change, std::string what, std::string hint) {
  throw ConfigError(Diagnostic{.where = whole("--change " + change.text),
                               .path = "",
                               .what = std::move(what),
                               .hint = std::move(hint)});
}

Picoseconds times(Picoseconds time, double factor) {
  return Picoseconds(std::llround(static_cast<double>(time.count()) * factor));
}
Picoseconds above_floor_times(Picoseconds time, double factor) {
  const Picoseconds floor = std::min(time, kernel_floor);
  return floor + times(time - floor, factor);
}

class Predictor {
 public:
  Predictor(const Trace& trace, const WhatIfOptions& options)
      : trace_(trace),
        options_(options),
        rules_(derive_rules(trace, options.gpu ? &*options.gpu : nullptr)),
        places_(trace, rules_) {
    for (const TraceOp& op : trace.ops) durations_.push_back(op.duration());
    ReplayOptions replay;
    if (options.host_factor) {
      replay.host_time = TraceWorkload::HostTime::Factor;
      replay.host_factor = *options.host_factor;
    } else {
      replay.host_time = TraceWorkload::HostTime::Auto;
    }
    unprofiled_ = build_replay(trace, options.gpu ? &*options.gpu : nullptr, replay);
    host_factor_ = unprofiled_.statistics.host_factor;
  }

  PredictedStep traced() const {
    const Replay replay = build_replay(trace_, options_.gpu ? &*options_.gpu : nullptr);
    PredictedStep step = measure(replay.built, replay.built.program);
    step.change = "as traced";
    step.error = 0;
    return step;
  }

  const std::vector<std::string>& replay_notes() const { return unprofiled_.built.notes; }

  /// Durations first, then kernels, then the host, at last CUDA graphs of what is left.
  PredictedStep predict(std::vector<TraceChange> changes) const {
    std::stable_sort(changes.begin(), changes.end(),
                     [](const TraceChange& a, const TraceChange& b) { return a.kind < b.kind; });
    State state{.replay = {.built = unprofiled_.built, .op_of = unprofiled_.op_of},
                .durations = durations_,
                .gpu = options_.gpu};
    state.error_squares = record_of_baseline().worst * record_of_baseline().worst;
    std::optional<Captured> captured;
    for (const TraceChange& change : changes) {
      if (const auto record = record_of(change.kind)) {
        state.error_squares += record->worst * record->worst;
      } else if (!is_arithmetic(change.kind)) {
        state.measured = false;
      }
      switch (change.kind) {
        case Kind::Gpu:
          other_gpu(state, change);
          break;
        case Kind::Batch:
          scale_batch(state, change);
          break;
        case Kind::Kernel:
          change_kernels(state, change);
          break;
        case Kind::Fuse:
          if (!state.fused || !change.pattern.empty()) fuse(state, change);
          break;
        case Kind::Compile:
          if (!state.fused) fuse(state, change);
          run_compiled(state, change);
          break;
        case Kind::RemoveSyncs: {
          const std::int64_t removed = remove_synchronizations(state.replay);
          state.notes.push_back(fmt::format("{} blocking call{} removed in {} step{}", removed,
                                            removed == 1 ? "" : "s", state.replay.built.steps_per_program,
                                            state.replay.built.steps_per_program == 1 ? "" : "s"));
          break;
        }
        case Kind::Host:
          scale_host(state.replay, change.factor);
          break;
        case Kind::CudaGraph:
        case Kind::PiecewiseGraphs:
          if (!captured) captured = record_graphs(state, change);
          break;
      }
    }
    apply_durations(state);
    PredictedStep step =
        measure(state.replay.built, captured ? captured->program : state.replay.built.program);
    if (state.measured) {
      // Fused kernels are as uncertain as the model of such kernels, whatever the few measured steps say.
      const double fused = static_cast<double>(state.fused_time.count()) * fused_kernel_error /
                           static_cast<double>(std::max<std::int64_t>(step.step_time.count(), 1)) /
                           static_cast<double>(state.replay.built.steps_per_program);
      step.error = std::sqrt(state.error_squares + fused * fused);
    }
    step.notes = std::move(state.notes);
    return step;
  }

 private:
  struct State {
    EditedReplay replay;
    std::vector<Picoseconds> durations;  ///< Of the trace's ops.
    std::optional<GpuSpec> gpu;
    double error_squares = 0;
    bool measured = true;
    bool fused = false;
    Picoseconds fused_time{0};  ///< Of joined kernels, in the whole program.
    std::vector<std::string> notes{};
  };

  /// Changes that are given, not predicted: their error is that of the replay.
  static bool is_arithmetic(Kind kind) {
    return kind == Kind::Kernel || kind == Kind::RemoveSyncs || kind == Kind::Host;
  }

  const std::string& name(std::uint32_t i) const { return trace_.name_of(trace_.ops[i].name); }

  static void apply_durations(State& state) {
    engine::Program& program = state.replay.built.program;
    if (state.fused) return;  // Done before kernels were joined.
    for (std::uint32_t i = 0; i < state.durations.size(); ++i)
      if (state.replay.op_of[i] != no_index) program.ops[state.replay.op_of[i]].duration = state.durations[i];
  }

  void other_gpu(State& state, const TraceChange& change) const {
    if (!options_.gpu) refuse(change, "the GPU of the trace is not known", "name it with --hardware");
    const GpuSpec& from = *options_.gpu;
    const GpuSpec to = options_.find_gpu(change.name, change.text);
    const Rates rates = compare_rates(from, to);
    std::int64_t by_peak = 0;
    std::int64_t by_bandwidth = 0;
    for (std::uint32_t i = 0; i < trace_.ops.size(); ++i) {
      const TraceOp& op = trace_.ops[i];
      if (op.kind == TraceOpKind::Memcpy) continue;  // Over the bus, mostly.
      const KernelGroup group = kernel_group(name(i));
      if (group == KernelGroup::Communication) continue;
      const bool computes = (group == KernelGroup::Matmul && !is_thin_product(name(i))) ||
                            (group == KernelGroup::Attention && !is_decoding(name(i)));
      ++(computes ? by_peak : by_bandwidth);
      state.durations[i] = above_floor_times(state.durations[i], computes ? rates.product : rates.memory);
    }
    state.gpu = to;
    state.notes.push_back(fmt::format(
        "{} to {}: {:.4g} products and attention kernels a step take {:.3g} of their time, {:.4g} others "
        "{:.3g} "
        "({}); the first 0.9 us of a kernel, copies and communication stay",
        from.name, to.name, per_step(by_peak), rates.product, per_step(by_bandwidth), rates.memory,
        rates.modelled ? "a large bf16 product and a copy of 512 MiB by the kernel model"
                       : "dense peak and bandwidth by datasheet, as one of them has no calibration"));
    state.replay.built.machine = build_machine(state.gpu);
  }

  /// Time on the other GPU over that on this one.
  struct Rates {
    double product = 1;
    double memory = 1;
    bool modelled = false;
  };

  static Rates compare_rates(const GpuSpec& from, const GpuSpec& to) {
    const auto ratio = [](double a, double b) { return a > 0 && b > 0 ? a / b : 1.0; };
    Rates rates;
    if (from.calibration && to.calibration && from.peak.find(Dtype::Bf16) && to.peak.find(Dtype::Bf16)) {
      const auto time = [](const KernelWork& work, const GpuSpec& gpu) {
        return static_cast<double>(estimate(work, gpu).duration.count());
      };
      const MatrixProduct product{.m = 8192, .n = 8192, .k = 8192};
      const Pointwise copy{.elements = std::int64_t{1} << 28,
                           .read = Bytes(std::int64_t{1} << 29),
                           .written = Bytes(std::int64_t{1} << 29)};
      rates.product = ratio(time(product, to), time(product, from));
      rates.memory = ratio(time(copy, to), time(copy, from));
      rates.modelled = true;
      return rates;
    }
    rates.memory = ratio(from.memory.bandwidth.value(), to.memory.bandwidth.value());
    for (const Dtype dtype : {Dtype::Bf16, Dtype::Fp16, Dtype::Fp32}) {
      const auto a = from.peak.find(dtype);
      const auto b = to.peak.find(dtype);
      if (!a || !b) continue;
      rates.product = ratio(a->value(), b->value());
      break;
    }
    return rates;
  }

  double per_step(std::int64_t count) const {
    return static_cast<double>(count) / static_cast<double>(unprofiled_.built.steps_per_program);
  }

  static bool is_decoding(std::string_view kernel) {
    for (const std::string_view word : {"decode", "splitkv", "split_kv", "paged", "16x128x128_1x4x1"})
      if (kernel.find(word) != std::string_view::npos) return true;
    return false;
  }

  void scale_batch(State& state, const TraceChange& change) const {
    std::int64_t kept = 0;
    for (std::uint32_t i = 0; i < trace_.ops.size(); ++i) {
      const TraceOp& op = trace_.ops[i];
      const KernelGroup group = kernel_group(name(i));
      const bool fixed = op.kind == TraceOpKind::Memset || group == KernelGroup::Communication ||
                         places_.in_optimizer(i) || name(i).find("multi_tensor") != std::string::npos ||
                         (group == KernelGroup::Matmul && is_thin_product(name(i)));
      if (fixed) {
        ++kept;
      } else {
        state.durations[i] = above_floor_times(state.durations[i], change.factor);
        fewer_blocks(state, i, change.factor);
      }
    }
    state.notes.push_back(fmt::format(
        "time of {:.4g} kernels a step above 0.9 us times {:.3g}; {:.4g} stay: optimizer, products of few "
        "rows "
        "(they read their weights), communication, memsets. Casts of weights cannot be told from "
        "activations' and are scaled",
        per_step(static_cast<std::int64_t>(trace_.ops.size()) - kept), change.factor, per_step(kept)));
  }

  /// The least time between two nodes of a CUDA graph grows with their blocks.
  void fewer_blocks(State& state, std::uint32_t i, double factor) const {
    if (!state.gpu || state.replay.op_of[i] == no_index) return;
    Picoseconds& period = state.replay.built.program.info[state.replay.op_of[i]].min_period_in_graph;
    const double blocks = static_cast<double>(trace_.ops[i].blocks()) * factor;
    if (period > Picoseconds(0))
      period = graph_min_period(state.gpu->launch,
                                std::max<std::int64_t>(1, std::llround(std::min(blocks, 1e15))));
  }

  std::vector<std::uint32_t> matching(const TraceChange& change) const {
    std::vector<std::uint32_t> ops;
    std::map<std::uint32_t, bool> known;
    for (std::uint32_t i = 0; i < trace_.ops.size(); ++i) {
      const auto [at, added] = known.emplace(trace_.ops[i].name, false);
      if (added) at->second = matches_pattern(name(i), change.pattern);
      if (at->second) ops.push_back(i);
    }
    if (ops.empty())
      refuse(change, fmt::format("no kernel of the trace matches '{}'", change.pattern),
             nearest_kernels_hint(trace_, change.pattern));
    return ops;
  }

  void change_kernels(State& state, const TraceChange& change) const {
    const std::vector<std::uint32_t> ops = matching(change);
    for (const std::uint32_t i : ops)
      state.durations[i] = change.duration ? *change.duration : times(state.durations[i], change.factor);
    state.notes.push_back(fmt::format("'{}': {:.4g} kernels a step", change.pattern,
                                      per_step(static_cast<std::int64_t>(ops.size()))));
  }

  void fuse(State& state, const TraceChange& change) const {
    if (!change.pattern.empty()) matching(change);
    apply_durations(state);
    const FusionInput input{trace_, rules_, state.durations, state.gpu ? &*state.gpu : nullptr};
    std::vector<FusedGroup> groups =
        change.pattern.empty() ? fuse_all(input) : fuse_named(input, change.pattern);
    // What is in a group already cannot be joined again.
    std::erase_if(groups, [&](const FusedGroup& group) {
      return std::any_of(group.members.begin(), group.members.end(),
                         [&](std::uint32_t i) { return state.replay.op_of[i] == no_index; });
    });
    std::int64_t members = 0;
    Picoseconds apart{0};
    Picoseconds together{0};
    std::array<std::int64_t, 3> by{};
    for (const FusedGroup& group : groups) {
      members += static_cast<std::int64_t>(group.members.size());
      apart += group.apart;
      together += group.together;
      ++by[static_cast<std::size_t>(group.price)];
    }
    join_kernels(state.replay, groups);
    state.fused = true;
    state.fused_time += together;
    const double steps = static_cast<double>(state.replay.built.steps_per_program);
    const auto ms = [&](Picoseconds t) { return static_cast<double>(t.count()) * 1e-9 / steps; };
    state.notes.push_back(fmt::format("a step's {:.4g} kernels of {:.3f} ms become {:.4g} of {:.3f} ms",
                                      static_cast<double>(members) / steps, ms(apart),
                                      static_cast<double>(groups.size()) / steps, ms(together)));
    std::string how;
    const auto add = [&](std::int64_t n, const char* what) {
      if (n > 0) how += fmt::format("{}{:.4g} {}", how.empty() ? "" : ", ", per_step(n), what);
    };
    add(by[0], "priced by the kernel model (elements and number formats from names and grids)");
    add(by[1], "by the bytes that are left");
    add(by[2], "by bytes estimated from durations");
    if (!how.empty()) state.notes.push_back("fused kernels: " + how);
    if (groups.empty()) state.notes.emplace_back("no neighbours that can be joined");
  }

  void run_compiled(State& state, const TraceChange& change) const {
    if (!options_.host || !state.gpu)
      refuse(change, "needs the GPU's launch costs and a host to price compiled code with",
             "name them with --hardware and --host");
    const HostSpec& host = *options_.host;
    const Picoseconds call = state.gpu->launch.call;
    std::vector<std::uint32_t> traced(state.replay.built.program.ops.size(), trace_none);
    for (std::uint32_t i = 0; i < state.replay.op_of.size(); ++i)
      if (state.replay.op_of[i] != no_index) traced[state.replay.op_of[i]] = i;
    // Host time of torch.optim before each launch stays.
    std::map<std::uint32_t, Picoseconds> called_before;  // by thread
    std::vector<Picoseconds> kept(traced.size(), Picoseconds(0));
    std::vector<std::uint32_t> order;
    for (std::uint32_t i = 0; i < trace_.ops.size(); ++i)
      if (rules_.ops[i].call != trace_none) order.push_back(i);
    const auto called = [&](std::uint32_t i) -> const TraceCall& { return trace_.calls[rules_.ops[i].call]; };
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::pair(called(a).start, a) < std::pair(called(b).start, b);
    });
    for (const std::uint32_t i : order) {
      Picoseconds& before = called_before[called(i).thread];
      if (state.replay.op_of[i] != no_index)
        kept[state.replay.op_of[i]] =
            times(places_.optimizer_time(called(i).thread, before, called(i).start), host_factor_);
      before = called(i).end;
    }
    const auto price = [&](const char* op, const char* fallback) {
      return op_time(host, host.ops.count(op) != 0 ? op : fallback, HostOpMode::NoGrad);
    };
    const Picoseconds region = price("compiled_region", "compiled_region");
    const Picoseconds guard = price("compiled_guard", "compiled_guard");
    const Picoseconds node = price("autograd_node", "compiled_guard");
    const Picoseconds kernel = price("compiled_kernel", "compiled_kernel");
    const Picoseconds library = price("compiled_library", "compiled_kernel");
    const Picoseconds attention = price("compiled_attention", "compiled_kernel");
    CompiledHost costs;
    costs.region = [&](const std::vector<Index>& launched, bool backward) {
      std::int64_t products = 0;
      std::int64_t gradients = 0;
      for (const Index op : launched) {
        const std::uint32_t i = traced[op];
        if (i == trace_none) continue;
        const KernelTraits traits = kernel_traits(name(i), trace_.ops[i]);
        if (kernel_group(name(i)) == KernelGroup::Matmul && !is_reduction_of_split(name(i))) ++products;
        if (traits.role == FusionRole::ColumnReduction) ++gradients;
      }
      // A weight and a bias to each product, roughly; in backward a product in two makes a weight's gradient.
      return backward ? region + (1 + gradients + products / 2) * node : region + 2 * products * guard;
    };
    costs.kernel = [&](Index op) {
      const std::uint32_t i = traced[op];
      const TraceOp& traced_op = trace_.ops[i];
      if (traced_op.kind != TraceOpKind::Kernel || is_reduction_of_split(name(i))) return Picoseconds(0);
      const KernelGroup group = kernel_group(name(i));
      const Picoseconds time = group == KernelGroup::Matmul      ? library
                               : group == KernelGroup::Attention ? attention
                                                                 : kernel;
      return std::max(Picoseconds(0), time - call);
    };
    costs.compiled = [&](Index op) {
      return traced[op] != trace_none && places_.is_plain(traced[op]) && !places_.in_optimizer(traced[op]);
    };
    costs.kept = [&](Index op) { return kept[op]; };
    costs.new_step = [&](Index before, Index op) {
      return places_.step_of(traced[before]) != places_.step_of(traced[op]);
    };
    compile_host(state.replay, costs);
    state.notes.push_back(fmt::format(
        "host: {} prices one region without graph breaks for each pass; the optimizer stays eager; "
        "products keep their kernels and attention its own",
        host.name));
  }

  static bool is_reduction_of_split(std::string_view kernel) {
    return kernel.find("splitKreduce") != std::string_view::npos;
  }

  Captured record_graphs(State& state, const TraceChange& change) const {
    apply_durations(state);
    CaptureOptions capture_options;
    capture_options.costs = cuda_graph_costs(state.gpu, state.replay.built.program);
    capture_options.keep_surrounding_work = false;
    capture_options.step_starts = state.replay.built.step_starts;
    capture_options.threads_kept = state.replay.built.threads_kept;
    if (change.kind == Kind::PiecewiseGraphs) {
      std::vector<std::uint32_t> outside;
      if (change.pattern.empty()) {
        for (std::uint32_t i = 0; i < trace_.ops.size(); ++i)
          if (kernel_group(name(i)) == KernelGroup::Attention) outside.push_back(i);
        if (outside.empty())
          refuse(change, "the trace has no attention kernel to cut at",
                 "name the kernels with cuda_graph=around:PATTERN");
      } else {
        outside = matching(change);
      }
      for (const std::uint32_t i : outside)
        if (state.replay.op_of[i] != no_index) capture_options.ops_left_out.push_back(state.replay.op_of[i]);
      std::sort(capture_options.ops_left_out.begin(), capture_options.ops_left_out.end());
    }
    Captured captured = capture(state.replay.built.program, state.replay.built.machine, capture_options);
    const double steps = static_cast<double>(state.replay.built.steps_per_program);
    state.notes.push_back(fmt::format("{:.4g} CUDA graph{} a step, {:.5g} nodes",
                                      static_cast<double>(captured.graphs) / steps,
                                      static_cast<double>(captured.graphs) == steps ? "" : "s",
                                      static_cast<double>(captured.nodes) / steps));
    if (state.fused)
      state.notes.emplace_back(
          "reduce-overhead copies inputs that lie elsewhere than when it recorded: not in this figure");
    for (const CaptureCut& cut : captured.cuts)
      state.notes.push_back(fmt::format("cut by {}{}", cut.reason,
                                        cut.count == 1 ? "" : fmt::format(" ({} times)", cut.count)));
    return captured;
  }

  static PredictedStep measure(const BuiltProgram& built, const engine::Program& program) {
    const engine::Steady steady = engine::run_steady(program, built.machine);
    PredictedStep step;
    const std::int64_t steps = steady.period.steps * std::max<std::int64_t>(built.steps_per_program, 1);
    const auto per_step = [&](std::int64_t count) {
      return static_cast<double>(count) / static_cast<double>(steps);
    };
    step.step_time = steady.period.wall / steps;
    step.gpu_busy = steady.period.busy / steps;
    step.gpu_ops = per_step(steady.period.counts.gpu_ops());
    step.launches = per_step(steady.period.counts.kernel_launches + steady.period.counts.cuda_graph_launches);
    return step;
  }

  const Trace& trace_;
  const WhatIfOptions& options_;
  TraceRules rules_;
  LaunchPlaces places_;
  std::vector<Picoseconds> durations_;
  Replay unprofiled_;
  double host_factor_ = 1;
};

}  // namespace

WhatIf what_if(const Trace& trace, const std::vector<TraceChange>& changes, const WhatIfOptions& options) {
  if (trace.ops.empty())
    throw ConfigError(Diagnostic{.where = whole(trace.file),
                                 .path = "",
                                 .what = "the trace has no GPU op: there is nothing to change",
                                 .hint = "record it with ProfilerActivity.CUDA"});
  WhatIf result;
  result.trace = trace.file;
  if (options.gpu) result.gpu = options.gpu->name;
  const Predictor predictor(trace, options);
  result.traced = predictor.traced();
  result.baseline = predictor.predict({});
  result.baseline.change = "unprofiled";
  result.notes = predictor.replay_notes();
  Errors errors;
  for (const TraceChange& change : changes)
    errors.collect([&] {
      result.alone.push_back(predictor.predict({change}));
      result.alone.back().change = change.text;
    });
  errors.throw_if_any();
  if (changes.size() > 1) {
    result.together = predictor.predict(changes);
    result.together->change = "all together";
    result.together->notes.clear();
  }
  return result;
}

}  // namespace gpusim
