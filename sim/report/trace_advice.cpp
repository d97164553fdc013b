// SPDX-License-Identifier: Apache-2.0
// The routine for finding a bottleneck, told with the numbers of one trace.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "sim/report/format.hpp"
#include "sim/report/trace_report.hpp"

namespace gpusim::report {
namespace {

/// Idle time below this share of the wall is not where to look first.
constexpr double idle_worth_a_look = 0.10;
/// Other kernels above this share of kernel time are worth fusing.
constexpr double other_worth_fusing = 0.25;
constexpr double communication_worth_hiding = 0.20;

double ratio(Picoseconds part, Picoseconds whole) {
  return whole.count() == 0 ? 0 : static_cast<double>(part.count()) / static_cast<double>(whole.count());
}
double ratio(double part, double whole) {
  return whole == 0 ? 0 : part / whole;
}

std::string counted(std::int64_t count, const char* one, const char* several) {
  return fmt::format("{} {}", count, count == 1 ? one : several);
}

std::string measure(const Trace& trace, const TraceAnalysis& a) {
  std::string text =
      fmt::format("Measure. The GPU works for {} of {}, {}", percent_text(a.summary.utilization),
                  time_text(a.detail.wall), time_text(a.detail.busy));
  if (!a.detail.steps.empty())
    text += fmt::format("; a step takes {} on the host (median of {})",
                        time_text(Picoseconds(static_cast<std::int64_t>(a.summary.step_us_median * 1e6))),
                        a.detail.steps.size());
  text += ".";
  double flops = 0;
  Picoseconds known{0};
  for (const TraceOpFigures& op : a.detail.ops) {
    if (!op.flops) continue;
    flops += *op.flops * static_cast<double>(op.count);
    known += op.gpu;
  }
  if (flops > 0) {
    text += fmt::format(" Products and attention whose shapes are known do {}, {} over the wall.",
                        scaled_text(flops, "FLOP"),
                        scaled_text(flops / (static_cast<double>(a.detail.wall.count()) * 1e-12), "FLOP/s"));
  } else {
    text += trace.inputs.empty() ? " MFU needs the model's FLOPs: record shapes to have them here." : "";
  }
  return text + " Times are as profiled: on the host they are longer than without a profiler.";
}

std::string remedy(const Trace& trace, const TraceAnalysis& a, TraceIdleCause cause) {
  switch (cause) {
    case TraceIdleCause::Dispatch: {
      std::string text = "The host does not launch fast enough";
      if (a.detail.launches.count > 0)
        text += fmt::format(
            " ({} of {} in the median; {})", counted(a.detail.launches.count, "launch", "launches"),
            time_text(a.detail.launches.median),
            a.detail.queue.median <= 1
                ? std::string("at half of them or more nothing else was queued")
                : fmt::format("{:g} GPU ops were queued at half of them", a.detail.queue.median));
      return text + ": a CUDA graph, compiling, or fewer and larger ops remove it.";
    }
    case TraceIdleCause::Input:
      return "The step waits for its input: prefetch, more loader workers, pinned memory.";
    case TraceIdleCause::Synchronization: {
      const TraceSyncCost* worst = nullptr;
      for (const TraceSyncCost& sync : a.detail.syncs)
        if (worst == nullptr || sync.idle > worst->idle) worst = &sync;
      if (worst == nullptr) return "Remove .item(), print and blocking copies.";
      return fmt::format(
          "The host waits for the GPU, most in {} ({}): remove .item(), print and blocking copies.",
          printable(trace.name_of(worst->name)), counted(worst->waited, "wait", "waits"));
    }
    case TraceIdleCause::LaunchLatency:
      return "The GPU has run dry before a launch reaches it: keep the host ahead, by fewer synchronisations "
             "or a "
             "CUDA graph.";
    case TraceIdleCause::Gap:
      return fmt::format(
          "It is the pause between one GPU op and the next, {} in all: fuse small kernels; inside a "
          "CUDA graph each pause is shorter.",
          a.summary.gaps);
    case TraceIdleCause::Event:
      return "One stream waits for another while neither runs anything: record the events earlier or join "
             "the "
             "streams.";
    case TraceIdleCause::Unknown:
      break;
  }
  return "The trace does not tell what they waited for: another rank, or launches outside of it.";
}

std::string idle(const Trace& trace, const TraceAnalysis& a) {
  const Picoseconds time = a.detail.wall - a.detail.busy;
  const double share = ratio(time, a.detail.wall);
  if (time == Picoseconds(0)) return "Idle time. There is none.";
  const auto largest = static_cast<TraceIdleCause>(
      std::max_element(a.detail.idle.begin(), a.detail.idle.end()) - a.detail.idle.begin());
  const Picoseconds most = a.detail.idle[static_cast<std::size_t>(largest)];
  std::string cause = gpusim::name(largest);
  std::replace(cause.begin(), cause.end(), '_', ' ');
  std::string text = fmt::format("Idle time. {}, {} of the wall, in {}; {} of it is {}.", time_text(time),
                                 percent_text(share), counted(a.summary.gaps, "gap", "gaps"),
                                 percent_text(ratio(most, time)), cause);
  if (share < idle_worth_a_look)
    return text +
           " It is not the place to look first: without any of it the wall would be that much shorter.";
  return text + " " + remedy(trace, a, largest);
}

std::string ranking(const TraceAnalysis& a) {
  const Summary& s = a.summary;
  std::string parts;
  for (std::size_t i = 0; i < kernel_group_count; ++i) {
    if (s.kernel_groups[i].count == 0) continue;
    parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", trace_group_text(static_cast<KernelGroup>(i)),
                         percent_text(ratio(s.kernel_groups[i].total_us, s.kernel_us)));
  }
  std::string text = fmt::format("Kernels. Of {} in {}: {}.",
                                 time_text(Picoseconds(static_cast<std::int64_t>(s.kernel_us * 1e6))),
                                 counted(s.kernels, "kernel", "kernels"), parts);
  const auto share = [&](KernelGroup group) {
    return ratio(s.kernel_groups[static_cast<std::size_t>(group)].total_us, s.kernel_us);
  };
  const KernelGroupTotal& other = s.kernel_groups[static_cast<std::size_t>(KernelGroup::Other)];
  if (share(KernelGroup::Other) >= other_worth_fusing && other.count > 1) {
    double compiled = 0;
    for (const KernelTotal& kernel : s.kernel_totals)
      if (kernel.group == KernelGroup::Other && kernel.name.starts_with("triton_"))
        compiled += kernel.total_us;
    text += fmt::format(" The others are a large share, {} kernels of {} in the mean", other.count,
                        time_text(Picoseconds(static_cast<std::int64_t>(other.total_us * 1e6 /
                                                                        static_cast<double>(other.count)))));
    text +=
        2 * compiled > other.total_us
            ? fmt::format(
                  ", {} of it in compiled (Triton) kernels: hold the largest against the memory bandwidth.",
                  percent_text(ratio(compiled, other.total_us)))
            : std::string(": compile or fuse them.");
  }
  if (share(KernelGroup::Communication) >= communication_worth_hiding)
    text +=
        fmt::format(" Communication should run beside computation: {} of the wall has more than one GPU op.",
                    percent_text(ratio(s.overlap_us, s.wall_us)));
  return text;
}

std::string roofs(const Trace& trace, const TraceAnalysis& a) {
  const KernelTotal& top = a.summary.kernel_totals.front();
  std::string text = fmt::format(
      "Roofs. The largest kernel, {}, takes {} of kernel time, {} in the mean.", trace_label(top.name, 44),
      percent_text(ratio(top.total_us, a.summary.kernel_us)),
      time_text(Picoseconds(static_cast<std::int64_t>(top.total_us * 1e6 / static_cast<double>(top.count)))));
  const auto with_rate = std::find_if(a.detail.ops.begin(), a.detail.ops.end(), [](const TraceOpFigures& op) {
    return op.flops_per_second() || op.bytes_per_second();
  });
  if (with_rate == a.detail.ops.end()) {
    return text + (trace.inputs.empty()
                       ? " What it achieves needs its shapes: profile with record_shapes=True."
                       : " Its shapes are not known.");
  }
  const auto flops = with_rate->flops_per_second();
  text += fmt::format(
      " The largest op with known shapes, {}, achieves {}", printable(trace.name_of(with_rate->name)),
      flops ? scaled_text(*flops, "FLOP/s") : scaled_text(*with_rate->bytes_per_second(), "B/s"));
  if (flops && with_rate->bytes_per_second())
    text += fmt::format(" and {}", scaled_text(*with_rate->bytes_per_second(), "B/s"));
  return text + ": hold that against the device's peaks.";
}

std::string change(const Trace& trace, const TraceAnalysis& a) {
  std::vector<std::pair<Picoseconds, std::string>> gains;
  for (std::size_t i = 0; i < trace_resource_count; ++i) {
    const auto resource = static_cast<TraceResource>(i);
    if (resource == TraceResource::Kernel || resource == TraceResource::Unknown) continue;
    std::string text = gpusim::name(resource);
    std::replace(text.begin(), text.end(), '_', ' ');
    if (resource == TraceResource::Host) text = "host work beside launch calls";
    if (resource == TraceResource::LaunchCall) text = "launch calls";
    if (resource == TraceResource::Gap) text = "gaps between kernels";
    if (resource == TraceResource::Copy) text = "copies and memsets";
    gains.emplace_back(a.path.gain[i], text);
  }
  if (!a.path.kernels.empty()) {
    const TracePathKernel& kernel =
        *std::max_element(a.path.kernels.begin(), a.path.kernels.end(),
                          [](const TracePathKernel& x, const TracePathKernel& y) { return x.gain < y.gain; });
    gains.emplace_back(kernel.gain, "the kernel " + trace_label(trace.name_of(kernel.name), 36));
  }
  std::stable_sort(gains.begin(), gains.end(),
                   [](const auto& x, const auto& y) { return x.first > y.first; });
  std::string text = fmt::format("Change one thing, and measure. The critical path of {} would be shorter",
                                 time_text(a.path.span()));
  bool first = true;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, gains.size()); ++i) {
    if (gains[i].first == Picoseconds(0)) break;
    text += fmt::format("{} by {}{} if {} took no time", first ? "" : ",", first ? "at most " : "",
                        time_text(gains[i].first, gains[0].first), gains[i].second);
    first = false;
  }
  return first ? "Change one thing, and measure." : text + ".";
}

}  // namespace

std::vector<std::string> trace_advice(const Trace& trace, const TraceAnalysis& analysis) {
  if (analysis.summary.gpu_ops == 0)
    return {
        "There is no GPU op in this trace: profile with ProfilerActivity.CUDA, and around work on the GPU."};
  std::vector<std::string> result = {measure(trace, analysis), idle(trace, analysis)};
  if (analysis.summary.kernels > 0) {
    result.push_back(ranking(analysis));
    result.push_back(roofs(trace, analysis));
  }
  result.push_back(change(trace, analysis));
  return result;
}

}  // namespace gpusim::report
