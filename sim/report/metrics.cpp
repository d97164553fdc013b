// SPDX-License-Identifier: Apache-2.0
#include "sim/report/metrics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace gpusim::report {
namespace {

/// Nearest; halves away from zero.
Picoseconds divide(Picoseconds sum, std::int64_t by) {
  const std::int64_t count = sum.count();
  const std::int64_t half = by / 2;
  return Picoseconds(count >= 0 ? (count + half) / by : -((-count + half) / by));
}

double share(Picoseconds part, Picoseconds whole) {
  return whole.count() ? static_cast<double>(part.count()) / static_cast<double>(whole.count()) : 0.0;
}

Regime regime_of(const Metrics& m, const KernelRanking& ranking) {
  const Picoseconds idle = m.idle_total() - m.idle_by(engine::IdleCause::Input);
  if (m.step_time.count() > 0 && idle * 3 >= m.step_time) return Regime::Overhead;

  Picoseconds communication{0}, compute{0}, memory{0}, overhead{0};
  for (const RankedKernel& kernel : ranking.kernels) {
    if (kernel.kind == engine::OpKind::Kernel && kernel.group == KernelGroup::Communication)
      communication += kernel.total;
    else if (kernel.bound == Bound::Compute)
      compute += kernel.total;
    else if (kernel.bound == Bound::Memory)
      memory += kernel.total;
    else if (kernel.bound == Bound::Overhead)
      overhead += kernel.total;
  }
  const auto rules = [&](Picoseconds part) { return part * 2 > ranking.total; };
  if (rules(communication)) return Regime::Communication;
  if (rules(compute)) return Regime::Compute;
  if (rules(memory)) return Regime::Memory;
  if (rules(overhead)) return Regime::Overhead;
  return Regime::Mixed;
}

/// "idle_us.dispatch" -> "idle.dispatch", "window.wall_us" -> "window.wall".
std::string without_units(const std::string& path) {
  std::string out;
  std::size_t begin = 0;
  while (begin <= path.size()) {
    std::size_t end = path.find('.', begin);
    if (end == std::string::npos) end = path.size();
    std::string part = path.substr(begin, end - begin);
    for (const std::string_view unit : {"_us", "_s", "_bytes"})
      if (part.size() > unit.size() && part.ends_with(unit)) {
        part.resize(part.size() - unit.size());
        break;
      }
    if (begin > 0) out += '.';
    out += part;
    begin = end + 1;
  }
  return out;
}

Value number_or_unknown(const std::optional<double>& value) {
  return value ? Value(*value) : Value();
}

/// Counts are whole numbers unless a traced window holds a broken number of them per step.
Value count(double value) {
  return value == std::floor(value) ? Value(static_cast<std::int64_t>(value)) : Value(value);
}

/// Seconds as a number: compile times are long and need no picoseconds.
Value in_seconds(Picoseconds time) {
  return seconds(time);
}

}  // namespace

const char* name(Regime regime) {
  switch (regime) {
    case Regime::Overhead:
      return "overhead";
    case Regime::Memory:
      return "memory";
    case Regime::Compute:
      return "compute";
    case Regime::Communication:
      return "communication";
    case Regime::Mixed:
      return "mixed";
  }
  return "unknown";
}

Picoseconds Metrics::idle_total() const {
  return std::accumulate(idle.begin(), idle.end(), Picoseconds(0));
}

Metrics metrics(const VariantResult& result) {
  return metrics(result, rank_kernels(result));
}

namespace {

/// The sums that per-step figures are of: those of the steady step where it was looked for.
const engine::Totals& per_step_totals(const engine::Run& isolated, const engine::Steady& steady) {
  return steady.period.steps > 0 ? steady.period : isolated.totals;
}

/// Steps of the user that they are over.
std::int64_t steps_of(const engine::Totals& totals, std::int64_t steps_per_program) {
  return std::max<std::int64_t>(totals.steps, 1) * std::max<std::int64_t>(steps_per_program, 1);
}

}  // namespace

Metrics time_metrics(const engine::Run& isolated, const engine::Steady& steady,
                     std::int64_t steps_per_program) {
  Metrics m;
  steps_per_program = std::max<std::int64_t>(steps_per_program, 1);
  const engine::Totals& totals = per_step_totals(isolated, steady);
  const std::int64_t steps = steps_of(totals, steps_per_program);
  m.steady = steady.period.steps > 0 && steady.exact;
  m.period_steps = m.steady ? totals.steps * steps_per_program : 0;

  // Rounding the running sum, not each part, keeps the parts adding up to the rounded whole.
  Picoseconds sum = totals.busy;
  Picoseconds rounded = divide(sum, steps);
  m.gpu_busy = rounded;
  for (std::size_t cause = 0; cause < m.idle.size(); ++cause) {
    sum += totals.idle[cause];
    const Picoseconds next = divide(sum, steps);
    m.idle[cause] = next - rounded;
    rounded = next;
  }
  m.step_time = rounded;
  m.gpu_utilization = share(totals.busy, totals.wall);
  m.makespan = isolated.totals.wall;

  const auto per_step = [&](std::int64_t n) { return static_cast<double>(n) / static_cast<double>(steps); };
  m.gpu_ops = per_step(totals.counts.gpu_ops());
  m.kernels = per_step(totals.counts.kernels);
  m.memcpys = per_step(totals.counts.memcpys);
  m.memsets = per_step(totals.counts.memsets);
  m.kernel_launches = per_step(totals.counts.kernel_launches);
  m.cuda_graph_launches = per_step(totals.counts.cuda_graph_launches);
  m.synchronizations = per_step(totals.counts.synchronizations);
  m.host_work = divide(totals.host_work, steps);
  m.host_blocked = divide(totals.host_blocked, steps);
  m.host_blocked_queue = divide(totals.host_blocked_queue, steps);
  m.peak_memory_bytes = std::max(isolated.peak_bytes, steady.peak_bytes);
  const engine::Totals& window = isolated.window;
  m.window = {.steps = window.steps * steps_per_program,
              .wall = window.wall,
              .busy = window.busy,
              .idle = window.idle_total()};
  m.launch_queue_max = isolated.queue_length_max;
  return m;
}

Metrics metrics(const VariantResult& result, const KernelRanking& ranking) {
  Metrics m = time_metrics(result.isolated, result.steady, result.steps_per_program);
  m.variant = result.variant;
  m.graph_breaks = result.graph_breaks;
  const engine::Totals& totals = per_step_totals(result.isolated, result.steady);
  const std::int64_t steps = steps_of(totals, result.steps_per_program);

  // Divided by a power of ten, not multiplied with its inverse: one rounding, so that 0.5 prints as 0.5.
  const double step_seconds = static_cast<double>(totals.wall.count()) / (1e12 * static_cast<double>(steps));
  if (result.model_flops) m.model_flops = result.model_flops->value();
  const double hardware_flops =
      result.hardware_flops ? result.hardware_flops->value() : ranking.per_step(ranking.flops);
  if (hardware_flops > 0) m.hardware_flops = hardware_flops;
  if (result.device.peak && step_seconds > 0) {
    const double peak = result.device.peak->value();
    if (m.model_flops) m.mfu = *m.model_flops / step_seconds / peak;
    // Of a training step it may be below MFU: a first layer's input needs no gradient, and MFU counts it.
    if (hardware_flops > 0 && (result.hardware_flops || hardware_flops >= m.model_flops.value_or(0)))
      m.hfu = hardware_flops / step_seconds / peak;
  }
  if (ranking.bytes) m.hbm_bytes = ranking.per_step(*ranking.bytes);
  if (ranking.sm_time && ranking.warp_time && step_seconds > 0) {
    const double step_ps = step_seconds * 1e12;
    m.sm_active = std::min(ranking.per_step(*ranking.sm_time) / step_ps, m.gpu_utilization);
    m.occupancy = std::min(ranking.per_step(*ranking.warp_time) / step_ps, *m.sm_active);
  }
  if (result.tokens && step_seconds > 0) m.tokens_per_second = *result.tokens / step_seconds;
  if (result.peak_memory) m.peak_memory_bytes = result.peak_memory->value();
  m.compile_time = result.compile_time;
  m.regime = regime_of(m, ranking);
  m.memory = result.memory;
  m.phases = result.phases;
  m.out_of_memory = result.out_of_memory;
  m.ranks = result.ranks;
  return m;
}

namespace {

void add_memory(std::vector<Field>& out, const std::optional<MemorySummary>& memory) {
  const auto bytes = [&](const std::string& key, auto get) {
    out.push_back({"memory." + key + "_bytes", memory ? Value(get(*memory).value()) : Value()});
  };
  for (std::size_t i = 0; i < memory_kind_count; ++i) {
    const auto kind = static_cast<MemoryKind>(i);
    bytes(std::string(gpusim::name(kind)), [&](const MemorySummary& use) { return use.at_peak[kind]; });
  }
  bytes("saved_activations", [](const MemorySummary& use) { return use.saved; });
  bytes("allocated", [](const MemorySummary& use) { return use.allocated; });
  bytes("cuda_graph_pool", [](const MemorySummary& use) { return use.cuda_graph_pool; });
  out.push_back({"memory.peak_at", memory ? Value(memory->peak_at) : Value()});
}

void add_phases(std::vector<Field>& out, const std::optional<std::array<PhaseTime, 3>>& phases) {
  for (const Phase phase : {Phase::Forward, Phase::Backward, Phase::Optimizer}) {
    const std::string key = "phases." + std::string(gpusim::name(phase));
    const PhaseTime* time = phases ? &(*phases)[static_cast<std::size_t>(phase)] : nullptr;
    out.push_back({key + "_busy_us", time != nullptr ? Value(time->busy) : Value()});
    out.push_back({key + "_span_us", time != nullptr ? Value(time->span) : Value()});
    out.push_back({key + "_gpu_ops", time != nullptr ? Value(time->gpu_ops) : Value()});
  }
}

void add_out_of_memory(std::vector<Field>& out, const std::optional<OutOfMemory>& over) {
  out.push_back({"out_of_memory.over_bytes", over ? Value(over->over.value()) : Value()});
  const OutOfMemory::Way* way = over && over->way ? &*over->way : nullptr;
  std::string changes;
  if (way != nullptr)
    for (const std::string& change : way->changes) changes += (changes.empty() ? "" : " ") + change;
  out.push_back({"out_of_memory.fits_with", way != nullptr ? Value(changes) : Value()});
  out.push_back({"out_of_memory.fits_step_time_us", way != nullptr ? Value(way->step_time) : Value()});
  out.push_back({"out_of_memory.fits_peak_bytes", way != nullptr ? Value(way->peak.value()) : Value()});
  out.push_back({"out_of_memory.fits_tokens_per_second",
                 way != nullptr ? number_or_unknown(way->tokens_per_second) : Value()});
}

void add_ranks(std::vector<Field>& out, const Metrics& m) {
  const RankSummary* ranks = m.ranks ? &*m.ranks : nullptr;
  const auto add = [&](std::string key, auto get) {
    out.push_back({std::move(key), ranks != nullptr ? Value(get(*ranks)) : Value()});
  };
  add("parallel.ranks", [](const RankSummary& r) { return r.ranks; });
  // Ranks with batches of their own: each makes as many.
  out.push_back(
      {"parallel.tokens_per_second", ranks != nullptr && m.tokens_per_second
                                         ? Value(*m.tokens_per_second * static_cast<double>(ranks->data))
                                         : Value()});
  add("parallel.bubble", [](const RankSummary& r) { return r.bubble; });
  out.push_back(
      {"parallel.straggling_us",
       ranks != nullptr
           ? Value(Picoseconds(std::llround(static_cast<double>(m.step_time.count()) * ranks->straggling)))
           : Value()});
  add("communication.busy_us", [](const RankSummary& r) { return r.busy; });
  add("communication.exposed_us", [](const RankSummary& r) { return r.exposed; });
  add("communication.hidden_us", [](const RankSummary& r) { return r.busy - r.exposed; });
  for (int k = 0; k < collective_kind_count; ++k) {
    const std::string key = "communication." + std::string(gpusim::name(static_cast<CollectiveKind>(k)));
    const auto kind = static_cast<std::size_t>(k);
    add(key + "_us", [&](const RankSummary& r) { return r.kinds[kind].busy; });
    add(key + "_exposed_us", [&](const RankSummary& r) { return r.kinds[kind].exposed; });
    add(key + "_count", [&](const RankSummary& r) { return r.kinds[kind].count; });
  }
}

}  // namespace

namespace {

template <engine::IdleCause cause>
Value idle(const Metrics& m) {
  return m.idle_by(cause);
}

using engine::IdleCause;
constexpr std::array<TimeFigure, 27> all_time_figures{{
    {"step_time_us", [](const Metrics& m) { return Value(m.step_time); }},
    {"makespan_us", [](const Metrics& m) { return Value(m.makespan); }},
    {"steady", [](const Metrics& m) { return Value(m.steady); }},
    {"gpu_busy_us", [](const Metrics& m) { return Value(m.gpu_busy); }},
    {"gpu_utilization", [](const Metrics& m) { return Value(m.gpu_utilization); }},
    {"idle_us.event", idle<IdleCause::Event>},
    {"idle_us.synchronization", idle<IdleCause::Synchronization>},
    {"idle_us.launch_latency", idle<IdleCause::LaunchLatency>},
    {"idle_us.gap", idle<IdleCause::Gap>},
    {"idle_us.dispatch", idle<IdleCause::Dispatch>},
    {"idle_us.input", idle<IdleCause::Input>},
    {"gpu_ops", [](const Metrics& m) { return count(m.gpu_ops); }},
    {"kernels", [](const Metrics& m) { return count(m.kernels); }},
    {"memcpys", [](const Metrics& m) { return count(m.memcpys); }},
    {"memsets", [](const Metrics& m) { return count(m.memsets); }},
    {"kernel_launches", [](const Metrics& m) { return count(m.kernel_launches); }},
    {"cuda_graph_launches", [](const Metrics& m) { return count(m.cuda_graph_launches); }},
    {"window.steps", [](const Metrics& m) { return Value(m.window.steps); }},
    {"window.wall_us", [](const Metrics& m) { return Value(m.window.wall); }},
    {"window.busy_us", [](const Metrics& m) { return Value(m.window.busy); }},
    {"window.idle_us", [](const Metrics& m) { return Value(m.window.idle); }},
    {"synchronizations", [](const Metrics& m) { return count(m.synchronizations); }},
    {"host.work_us", [](const Metrics& m) { return Value(m.host_work); }},
    {"host.blocked_us", [](const Metrics& m) { return Value(m.host_blocked); }},
    {"host.blocked_queue_us", [](const Metrics& m) { return Value(m.host_blocked_queue); }},
    {"launch_queue_max", [](const Metrics& m) { return Value(m.launch_queue_max); }},
    {"period_steps", [](const Metrics& m) { return Value(m.period_steps); }},
}};

}  // namespace

std::span<const TimeFigure> time_figures() {
  return all_time_figures;
}

std::vector<Field> fields(const Metrics& m) {
  std::vector<Field> out;
  out.reserve(114);
  out.push_back({"variant", m.variant});
  out.push_back({"step_time_us", m.step_time});
  out.push_back({"makespan_us", m.makespan});
  out.push_back({"steady", m.steady});
  out.push_back({"gpu_busy_us", m.gpu_busy});
  out.push_back({"gpu_utilization", m.gpu_utilization});
  for (int cause = 0; cause < engine::idle_cause_count; ++cause)
    out.push_back({std::string("idle_us.") + engine::name(static_cast<engine::IdleCause>(cause)),
                   m.idle[static_cast<std::size_t>(cause)]});
  out.push_back({"gpu_ops", count(m.gpu_ops)});
  out.push_back({"kernels", count(m.kernels)});
  out.push_back({"memcpys", count(m.memcpys)});
  out.push_back({"memsets", count(m.memsets)});
  out.push_back({"kernel_launches", count(m.kernel_launches)});
  out.push_back({"cuda_graph_launches", count(m.cuda_graph_launches)});
  out.push_back({"graph_breaks", std::int64_t{m.graph_breaks}});
  out.push_back({"mfu", number_or_unknown(m.mfu)});
  out.push_back({"hfu", number_or_unknown(m.hfu)});
  out.push_back({"model_flops", number_or_unknown(m.model_flops)});
  out.push_back({"hbm_bytes", number_or_unknown(m.hbm_bytes)});
  out.push_back({"tokens_per_second", number_or_unknown(m.tokens_per_second)});
  out.push_back({"peak_memory_bytes", m.peak_memory_bytes});
  out.push_back({"regime", std::string(name(m.regime))});
  out.push_back({"compile_time_s", in_seconds(m.compile_time)});
  out.push_back({"window.steps", m.window.steps});
  out.push_back({"window.wall_us", m.window.wall});
  out.push_back({"window.busy_us", m.window.busy});
  out.push_back({"window.idle_us", m.window.idle});
  // Added to the contract; new ones go below.
  out.push_back({"synchronizations", count(m.synchronizations)});
  out.push_back({"host.work_us", m.host_work});
  out.push_back({"host.blocked_us", m.host_blocked});
  out.push_back({"host.blocked_queue_us", m.host_blocked_queue});
  out.push_back({"launch_queue_max", m.launch_queue_max});
  out.push_back({"period_steps", m.period_steps});
  out.push_back({"hardware_flops", number_or_unknown(m.hardware_flops)});
  add_memory(out, m.memory);
  add_phases(out, m.phases);
  add_out_of_memory(out, m.out_of_memory);
  add_ranks(out, m);
  out.push_back({"sm_active", number_or_unknown(m.sm_active)});
  out.push_back({"occupancy", number_or_unknown(m.occupancy)});
  return out;
}

std::optional<std::string> path_of_field(std::string_view name) {
  for (Field& field : fields(Metrics{}))
    if (field.path == name || without_units(field.path) == name) return std::move(field.path);
  return std::nullopt;
}

std::optional<Value> find_field(const Metrics& m, std::string_view path) {
  for (Field& field : fields(m))
    if (field.path == path || without_units(field.path) == path) return std::move(field.value);
  return std::nullopt;
}

}  // namespace gpusim::report
