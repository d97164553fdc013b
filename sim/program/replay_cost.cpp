// SPDX-License-Identifier: Apache-2.0
#include "sim/program/replay_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <string_view>
#include <utility>

namespace gpusim {
namespace {

using HostTime = TraceWorkload::HostTime;

// A factor beyond these says that the calls compared were something else than ordinary launches.
constexpr double factor_min = 0.3;
constexpr double factor_max = 0.95;
constexpr std::size_t factor_launches_min = 20;
constexpr int first_call_factor = 10;

}  // namespace

std::string host_op_key(std::string_view name, bool& backward) {
  constexpr std::string_view evaluate = "autograd::engine::evaluate_function: ";
  backward = name.substr(0, evaluate.size()) == evaluate;
  if (backward) {
    name.remove_prefix(evaluate.size());
    name = name.substr(0, name.find("Backward"));
    std::string snake;
    for (const char c : name) {
      const auto u = static_cast<unsigned char>(c);
      if (std::isupper(u) != 0 && !snake.empty()) snake += '_';
      snake += static_cast<char>(std::tolower(u));
    }
    return snake;
  }
  if (name.substr(0, 6) == "aten::") name.remove_prefix(6);
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> other_names{
      {{"scaled_dot_product_attention", "sdpa"},
       {"contiguous", "contiguous_copy"},
       {"cross_entropy_loss", "cross_entropy"}}};
  for (const auto& [theirs, ours] : other_names)
    if (name == theirs) return std::string(ours);
  return std::string(name);
}

Picoseconds scaled(Picoseconds time, double factor) {
  if (factor == 1) return time;
  return Picoseconds(std::llround(static_cast<double>(time.count()) * factor));
}

ReplayCost::ReplayCost(const Trace& trace, const GpuSpec* hardware, const TraceRules& rules,
                       const ReplayOptions& options)
    : trace_(trace), hardware_(hardware), rules_(rules), options_(options) {
  std::map<std::uint32_t, std::vector<Picoseconds>> times_of_name;
  for (std::uint32_t c = 0; c < trace.calls.size(); ++c)
    if (!rules.ops_of_call[c].empty())
      times_of_name[trace.calls[c].name].push_back(trace.calls[c].duration());
  for (auto& [name, times] : times_of_name) median_of_name_[name] = median(std::move(times));
  switch (options.host_time) {
    case HostTime::Traced:
      break;
    case HostTime::Factor:
      factor_ = options.host_factor;
      break;
    case HostTime::Auto:
      factor_ = automatic_factor();
      leave_out_first_calls();
      break;
    case HostTime::Model:
      model_ = true;
      price_ops();
      break;
  }
}

double ReplayCost::automatic_factor() {
  std::vector<Picoseconds> times;
  for (std::uint32_t c = 0; c < trace_.calls.size(); ++c)
    if (trace_.calls[c].kind == TraceCallKind::KernelLaunch && !rules_.ops_of_call[c].empty())
      times.push_back(trace_.calls[c].duration());
  const auto fall_back = [&](const std::string& why) {
    notes_.push_back(
        fmt::format("host_time auto: {}; host times are scaled by the default {}", why, default_host_factor));
    return default_host_factor;
  };
  if (hardware_ == nullptr) return fall_back("no hardware named, so no launch time to compare with");
  if (times.size() < factor_launches_min)
    return fall_back(fmt::format("only {} kernel launches in the trace", times.size()));
  const Picoseconds typical = median(std::move(times));
  const double factor = static_cast<double>(hardware_->launch.call.count()) /
                        static_cast<double>(std::max<std::int64_t>(1, typical.count()));
  if (!(factor >= factor_min && factor <= factor_max))
    return fall_back(
        fmt::format("launch calls suggest {:.3f}, beyond {} to {}", factor, factor_min, factor_max));
  notes_.push_back(
      fmt::format("host_time auto: host times are scaled by {:.3f} (launch call {:.3f} us, traced {:.3f} us)",
                  factor, static_cast<double>(hardware_->launch.call.count()) * 1e-6,
                  static_cast<double>(typical.count()) * 1e-6));
  return factor;
}

/// A call that took many times what others of its name take loaded code for its first use: in a step that
/// repeats it does not.
void ReplayCost::leave_out_first_calls() {
  std::int64_t count = 0;
  for (std::uint32_t c = 0; c < trace_.calls.size(); ++c) {
    if (rules_.ops_of_call[c].empty()) continue;
    const Picoseconds typical = median_of_name_.at(trace_.calls[c].name);
    if (trace_.calls[c].duration() > first_call_factor * typical && cap(c)) ++count;
  }
  if (count > 0)
    notes_.push_back(
        fmt::format("host_time auto: {} launch call{} of more than {} times the usual length taken as usual",
                    count, count == 1 ? "" : "s", first_call_factor));
}

void ReplayCost::price_ops() {
  const HostSpec& host = *options_.host;
  bool training = false;
  bool backward = false;
  for (const std::string& name : trace_.names) {
    host_op_key(name, backward);
    training = training || backward;
  }
  std::map<std::uint32_t, std::vector<Picoseconds>> launches;  // by thread: starts
  for (std::uint32_t c = 0; c < trace_.calls.size(); ++c)
    if (!rules_.ops_of_call[c].empty()) launches[trace_.calls[c].thread].push_back(trace_.calls[c].start);
  for (auto& [thread, starts] : launches) std::sort(starts.begin(), starts.end());
  std::int64_t unlisted = 0;
  std::int64_t total = 0;
  for (const TraceSpan& span : trace_.cpu_ops) {
    if (span.depth != 0) continue;
    const std::string key = host_op_key(trace_.name_of(span.name), backward);
    const HostOpMode mode = backward   ? HostOpMode::Backward
                            : training ? HostOpMode::Grad
                                       : HostOpMode::NoGrad;
    ++total;
    if (host.ops.find(key) == host.ops.end()) ++unlisted;
    // Prices include the launches, which are calls of their own here.
    const std::vector<Picoseconds>& starts = launches[span.thread];
    const auto inside = std::lower_bound(starts.begin(), starts.end(), span.end) -
                        std::lower_bound(starts.begin(), starts.end(), span.start);
    const Picoseconds rest = op_time(host, key, mode) - inside * hardware_->launch.call;
    priced_[span.thread].push_back({span.start, std::max(Picoseconds(0), rest)});
  }
  for (auto& [thread, ops] : priced_)
    std::stable_sort(ops.begin(), ops.end(),
                     [](const PricedOp& a, const PricedOp& b) { return a.start < b.start; });
  notes_.push_back(
      fmt::format("host model {}: {} ops priced, {} of them by its default", host.name, total, unlisted));
}

Picoseconds ReplayCost::work(std::uint32_t thread, Picoseconds from, Picoseconds to) {
  if (!model_) return scaled(to - from, factor_);
  Picoseconds time{0};
  const std::vector<PricedOp>& ops = priced_[thread];
  std::size_t& next = next_priced_[thread];
  for (; next < ops.size() && ops[next].start < to; ++next) time += ops[next].time;
  return time;
}

Picoseconds ReplayCost::traced_call(std::uint32_t c) const {
  const auto capped = capped_.find(c);
  return capped == capped_.end() ? trace_.calls[c].duration() : capped->second;
}

Picoseconds ReplayCost::priced_call(std::uint32_t c) const {
  const LaunchSpec& launch = hardware_->launch;
  switch (trace_.calls[c].kind) {
    case TraceCallKind::GraphLaunch:
      return graph_call_time(launch, static_cast<std::int64_t>(rules_.ops_of_call[c].size()));
    case TraceCallKind::MemcpyCall:
      return launch.copy_call;
    case TraceCallKind::MemsetCall:
      return launch.memset_call;
    case TraceCallKind::EventRecord:
      return launch.event_record;
    case TraceCallKind::StreamWaitEvent:
      return launch.stream_wait;
    case TraceCallKind::SynchronizeDevice:
    case TraceCallKind::SynchronizeStream:
    case TraceCallKind::SynchronizeEvent:
      return launch.sync_call;
    default:
      return launch.call;
  }
}

Picoseconds ReplayCost::call(const HostCall& h) const {
  if (model_) return priced_call(h.call);
  return scaled(std::min(h.end - h.start, traced_call(h.call)), factor_);
}

Picoseconds ReplayCost::within_call(std::uint32_t c, Picoseconds time) const {
  if (!model_) return scaled(time, factor_);
  const Picoseconds traced = trace_.calls[c].duration();
  if (traced <= Picoseconds(0)) return time;
  return scaled(time, static_cast<double>(priced_call(c).count()) / static_cast<double>(traced.count()));
}

Picoseconds ReplayCost::latency(std::uint32_t i) const {
  const RuledOp& r = rules_.ops[i];
  const TraceOp& op = trace_.ops[i];
  const TraceCall& c = trace_.calls[r.call];
  Picoseconds in_call = traced_call(r.call);
  Picoseconds after_call{0};
  if (r.starts_in_call && capped_.count(r.call) == 0) {
    in_call = op.start - c.start;
  } else if (r.graph) {
    in_call = in_call / 2;
  } else {
    after_call = rules_.arrival_after_call[static_cast<std::size_t>(op.kind)];
  }
  // The first op of a stream did not start for reasons that the trace does not show, or that come before it.
  if (r.first && capped_.count(r.call) == 0) after_call = std::max(after_call, op.start - c.start - in_call);
  return within_call(r.call, in_call) + scaled(after_call, options_.launch_latency_factor);
}

Picoseconds ReplayCost::sync_call(const HostCall& h) const {
  const Picoseconds alone = hardware_ != nullptr ? hardware_->launch.sync_call : Picoseconds(0);
  return std::min(call(h), alone);
}

Picoseconds ReplayCost::sync_return(Picoseconds traced) const {
  return model_ ? hardware_->launch.sync_return : traced;
}

bool ReplayCost::cap(std::uint32_t c) {
  const auto typical = median_of_name_.find(trace_.calls[c].name);
  if (typical == median_of_name_.end() || trace_.calls[c].duration() <= typical->second) return false;
  return capped_.emplace(c, typical->second).second;
}

}  // namespace gpusim
