// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/report/format.hpp"
#include "sim/report/metrics.hpp"
#include "sim/report/report.hpp"
#include "sim/report/text_parts.hpp"

namespace gpusim::report {
namespace {

using engine::IdleCause;

/// Idle time below this share of the step is not where to look first.
constexpr double idle_worth_a_look = 0.10;
/// A change that wins less than this share of the step is called small.
constexpr double gain_worth_a_change = 0.03;
/// A variant that is faster by less is not called faster.
constexpr double gain_worth_saying = 0.01;
constexpr double mfu_near_the_practical_limit = 0.60;

double ratio(Picoseconds a, Picoseconds b) {
  return b.count() ? static_cast<double>(a.count()) / static_cast<double>(b.count()) : 0.0;
}

std::string speed_up_text(Picoseconds before, Picoseconds after) {
  return fmt::format("{:.2f}x as fast", ratio(before, after));
}

std::string counted(double count, const char* one, const char* several) {
  return count_text(count) + " " + (count == 1 ? one : several);
}

/// What the GPU waits for while the cause holds, and what removes it.
std::string remedy(IdleCause cause, const Metrics& m) {
  switch (cause) {
    case IdleCause::Dispatch: {
      std::string text = "The GPU waits for the host to launch";
      const double launches = m.kernel_launches + m.cuda_graph_launches;
      if (launches > 0)
        text += fmt::format(": {} and the work around {} keep it busy for {} a step",
                            counted(launches, "launch", "launches"), launches == 1 ? "it" : "them",
                            time_text(m.host_work, m.step_time));
      if (m.cuda_graph_launches > 0)
        return text + ". Capture what is still launched one by one, or do less on the host between replays.";
      return text +
             ". Fewer or cheaper launches remove it: a CUDA graph, fusing small kernels, compiling the "
             "region.";
    }
    case IdleCause::LaunchLatency:
      return fmt::format("The GPU has run dry before the next launch reaches it: keep the host ahead, by {}.",
                         m.synchronizations > 0
                             ? "fewer synchronisations or by replaying the work as a CUDA graph"
                             : "cheaper launches or by replaying the work as a CUDA graph");
    case IdleCause::Synchronization:
      return fmt::format(
          "The host waits for the GPU {} a step and launches nothing meanwhile: remove .item(), print and "
          "blocking "
          "copies, or move them behind the next step's launches.",
          m.synchronizations == 1 ? "once" : count_text(m.synchronizations) + " times");
    case IdleCause::Gap:
      return fmt::format(
          "It is the pause between one GPU op and the next, {} ops a step: fewer, larger kernels "
          "(fusion) remove it{}.",
          count_text(m.gpu_ops),
          m.cuda_graph_launches > 0 ? "" : ", and inside a CUDA graph each pause is shorter");
    case IdleCause::Event:
      return "One stream waits for another while neither runs anything: join the streams where they only "
             "alternate, "
             "or record the events earlier.";
    case IdleCause::Input:
      return "The step waits for its input: prefetch, more loader workers, pinned memory and copies that "
             "overlap.";
  }
  return "";
}

std::string cause_text(IdleCause cause) {
  std::string text = engine::name(cause);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::vector<IdleCause> causes_by_time(const Metrics& m) {
  std::vector<IdleCause> causes;
  for (int i = 0; i < engine::idle_cause_count; ++i) causes.push_back(static_cast<IdleCause>(i));
  std::stable_sort(causes.begin(), causes.end(),
                   [&](IdleCause a, IdleCause b) { return m.idle_by(a) > m.idle_by(b); });
  return causes;
}

void say_measurement(std::vector<std::string>& out, const VariantResult& result, const Metrics& m) {
  std::string text = fmt::format("A step takes {}, and the GPU works for {} of it", time_text(m.step_time),
                                 percent_text(m.gpu_utilization));
  if (m.mfu) text += fmt::format(", at an MFU of {}", percent_text(*m.mfu));
  out.push_back(text + ".");
  if (m.mfu && *m.mfu > 1)
    out.push_back("No device does more than its peak: check the model's FLOPs and its dtype.");
  else if (m.mfu && *m.mfu >= mfu_near_the_practical_limit)
    out.push_back("Few runs reach more: what remains is in the algorithm, not in the kernels.");
  if (result.graph_breaks > 0)
    out.push_back(counted(result.graph_breaks, "graph break cuts", "graph breaks cut") +
                  " the compiled region.");
}

void say_memory(std::vector<std::string>& out, const VariantResult& result, const Metrics& m) {
  if (const std::string text = out_of_memory_text(result, m); !text.empty())
    out.push_back("It does not run: " + text + ".");
}

void say_one_cuda_graph(std::vector<std::string>& out, const VariantResult& result, const Metrics& m) {
  if (!result.one_cuda_graph || m.step_time.count() <= 0) return;
  const WhatIf& graph = *result.one_cuda_graph;
  const std::string how =
      result.cuda_graphs_cut_by.empty()
          ? "one CUDA graph"
          : fmt::format("CUDA graphs, cut by {},", fmt::join(result.cuda_graphs_cut_by, " and by "));
  const double gain = 1 - ratio(graph.step_time, m.step_time);
  if (gain >= gain_worth_a_change)
    out.push_back(fmt::format("As {} the step would take {}, {}, with the GPU busy for {} of it.", how,
                              time_text(graph.step_time, m.step_time),
                              speed_up_text(m.step_time, graph.step_time),
                              percent_text(graph.gpu_utilization)));
  else if (gain > 0)
    out.push_back(
        fmt::format("Replay as {} would take {} off the step: not worth a change.", how, percent_text(gain)));
  else
    out.push_back(
        fmt::format("Replay as {} would not shorten it ({}).", how, time_text(graph.step_time, m.step_time)));
}

/// True if idle time is what to work on first.
bool say_idle(std::vector<std::string>& out, const VariantResult& result, const Metrics& m) {
  const Picoseconds idle = m.idle_total();
  const double idle_share = ratio(idle, m.step_time);
  if (idle.count() == 0) {
    out.push_back("There is no idle time to win back.");
    return false;
  }
  if (idle_share < idle_worth_a_look) {
    out.push_back(fmt::format(
        "Idle time is not the place to look: without any of it ({}) the step would be {} shorter.",
        time_text(idle, m.step_time), percent_text(idle_share)));
    say_one_cuda_graph(out, result, m);
    return false;
  }
  const std::vector<IdleCause> causes = causes_by_time(m);
  const IdleCause largest = causes.front();
  out.push_back(fmt::format(
      "Idle time comes first: {} a step. Its largest cause is {}, {} or {} of the step.",
      time_text(idle, m.step_time), cause_text(largest), time_text(m.idle_by(largest), m.step_time),
      percent_text(ratio(m.idle_by(largest), m.step_time))));
  out.push_back(remedy(largest, m));
  const IdleCause second = causes[1];
  if (ratio(m.idle_by(second), m.step_time) >= idle_worth_a_look)
    out.push_back(fmt::format("Next is {}, {} or {}. ", cause_text(second),
                              time_text(m.idle_by(second), m.step_time),
                              percent_text(ratio(m.idle_by(second), m.step_time))) +
                  remedy(second, m));
  say_one_cuda_graph(out, result, m);
  if (!result.one_cuda_graph && m.cuda_graph_launches > 0 && !result.cuda_graphs_cut_by.empty())
    out.push_back(
        fmt::format("The CUDA graphs are cut by {}.", fmt::join(result.cuda_graphs_cut_by, " and by ")));
  return true;
}

void say_ranking(std::vector<std::string>& out, const Metrics& m, const KernelRanking& ranking,
                 bool idle_first) {
  if (ranking.total.count() == 0) return;
  const auto part = [&](KernelGroup group) { return ratio(ranking.of(group), ranking.total); };
  std::vector<std::string> parts;
  const auto add_part = [&](std::string_view what, Picoseconds time) {
    if (time.count() > 0)
      parts.push_back(fmt::format("{} {}{}", what, parts.empty() ? "take " : "",
                                  percent_text(ratio(time, ranking.total))));
  };
  add_part("matrix products", ranking.of(KernelGroup::Matmul));
  add_part("attention kernels", ranking.of(KernelGroup::Attention));
  add_part("collectives", ranking.of(KernelGroup::Communication));
  add_part("other kernels", ranking.of(KernelGroup::Other));
  add_part("copies and memsets", ranking.copies);
  out.push_back(fmt::format("{} the GPU's busy time, {}.", idle_first ? "Then rank the kernels: of" : "Of",
                            fmt::join(parts, ", ")));
  const double other = part(KernelGroup::Other);
  if (other >= 0.25 && other < 1)
    out.push_back(fmt::format("The others ({} a step) are a large share: compile or fuse them.",
                              time_text(ranking.per_step(ranking.of(KernelGroup::Other)), m.step_time)));
  else if (other == 1 && m.kernels >= 2)
    out.push_back(
        "None of the kernels is a matrix product or attention by its name: fuse those that pass data on.");
  if (m.ranks) {
    if (m.ranks->exposed * 20 >= m.step_time)
      out.push_back(fmt::format(
          "Of communication ({} a step) {} run beside nothing else: more work for each rank would "
          "hide them, faster links shorten them.",
          time_text(m.ranks->busy, m.step_time), time_text(m.ranks->exposed, m.step_time)));
  } else if (part(KernelGroup::Communication) >= 0.20)
    out.push_back(
        fmt::format("Communication ({} a step) should overlap with computation.",
                    time_text(ranking.per_step(ranking.of(KernelGroup::Communication)), m.step_time)));
}

void say_roofs(std::vector<std::string>& out, const KernelRanking& ranking, bool idle_first) {
  const auto largest =
      std::find_if(ranking.kernels.begin(), ranking.kernels.end(),
                   [](const RankedKernel& kernel) { return kernel.kind == engine::OpKind::Kernel; });
  if (largest == ranking.kernels.end()) return;
  const std::string name = shorten(printable(kernel_label(largest->name)), 40);
  const std::string time_share = percent_text(ratio(largest->total, ranking.total));
  const auto roof = largest->roof_share();
  if (!roof) {
    if (!idle_first)
      out.push_back(
          fmt::format("The largest kernel, {}, takes {} of the busy time; its FLOPs and bytes are not known, "
                      "so hold it against the roofs by hand.",
                      name, time_share));
    return;
  }
  const bool compute = largest->compute_share.value_or(0) >= largest->memory_share.value_or(0);
  const std::string reached =
      fmt::format("The largest kernel, {} ({} of the busy time), reaches {} of the {} roof", name, time_share,
                  percent_text(*roof), compute ? "compute" : "memory");
  if (*roof > 1.05)
    out.push_back(reached + ": no kernel exceeds its roof, check its duration, FLOPs, bytes and dtype.");
  else if (*roof >= 0.75)
    out.push_back(reached + ": only changing what it computes will help it.");
  else
    out.push_back(reached + ": worth a look in a kernel profiler.");
}

}  // namespace

std::string out_of_memory_text(const VariantResult& result, const Metrics& m) {
  if (!result.device.capacity || m.peak_memory_bytes <= result.device.capacity->value()) return "";
  return fmt::format("its peak of {} exceeds the device's {}",
                     bytes_text(static_cast<double>(m.peak_memory_bytes)),
                     bytes_text(static_cast<double>(result.device.capacity->value())));
}

std::vector<std::string> advice_sentences(const ScenarioReport& report, std::size_t variant) {
  if (variant >= report.variants.size()) return {};
  const VariantResult& result = report.variants[variant];
  const KernelRanking ranking = rank_kernels(result);
  const Metrics m = metrics(result, ranking);
  if (m.gpu_ops == 0) return {"No GPU op runs in this step: there is nothing to advise on."};

  std::vector<std::string> sentences;
  say_measurement(sentences, result, m);
  say_memory(sentences, result, m);
  const bool idle_first = say_idle(sentences, result, m);
  say_ranking(sentences, m, ranking, idle_first);
  say_roofs(sentences, ranking, idle_first);

  // Change one thing, measure end to end: the variants are such changes.
  if (report.variants.size() > 1) {
    const VariantResult* best = nullptr;
    Picoseconds best_time = m.step_time;
    for (const VariantResult& other : report.variants) {
      // Another batch is other work: a shorter step is no gain then.
      if (result.tokens && other.tokens && *result.tokens != *other.tokens) continue;
      const Picoseconds time = metrics(other).step_time;
      if (time < best_time) {
        best = &other;
        best_time = time;
      }
    }
    if (best && ratio(best_time, m.step_time) > 1 - gain_worth_saying)
      sentences.push_back(
          fmt::format("No other variant is faster than {} by 1 % or more.", printable(result.variant)));
    else if (best)
      sentences.push_back(fmt::format("Of the variants {} is the fastest: {}, {} as {}.",
                                      printable(best->variant), time_text(best_time, m.step_time),
                                      speed_up_text(m.step_time, best_time), printable(result.variant)));
    else
      sentences.push_back(fmt::format("No other variant is faster than {}.", printable(result.variant)));
  }
  return sentences;
}

std::string advice(const ScenarioReport& report) {
  return fmt::format("{}", fmt::join(advice_sentences(report), " "));
}

}  // namespace gpusim::report
