// SPDX-License-Identifier: Apache-2.0
// What the text report says of a network's step beyond its figures: phases of training, memory, and what to
// change where it does not fit.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "sim/report/format.hpp"
#include "sim/report/text_parts.hpp"

namespace gpusim::report {
namespace {

constexpr std::size_t page_width = 80;

double share(Picoseconds part, Picoseconds whole) {
  return whole.count() > 0 ? static_cast<double>(part.count()) / static_cast<double>(whole.count()) : 0;
}

std::string title(const std::string& what, const std::string& variant) {
  return variant.empty() ? what : what + " of " + shorten(printable(variant), 20);
}

std::string bytes(Bytes b) {
  return bytes_text(static_cast<double>(b.value()));
}

/// "activation_gradients" -> "activation gradients".
std::string words(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

void write_paragraph(std::string& out, const std::string& text) {
  bool first = true;
  for (const std::string& line : wrap(text, page_width - 2)) {
    out += (first ? "" : "  ") + line + "\n";
    first = false;
  }
}

}  // namespace

std::string phases_text(const Metrics& m, const std::string& variant) {
  if (!m.phases) return "";
  Picoseconds whole{0};
  for (const PhaseTime& time : *m.phases) whole += time.span;
  std::string out = left(title("phases", variant), 28) + right("GPU busy", 13) + right("span", 13) +
                    right("share", 9) + right("GPU ops", 9) + "\n";
  for (const Phase phase : {Phase::Forward, Phase::Backward, Phase::Optimizer}) {
    const PhaseTime& time = (*m.phases)[static_cast<std::size_t>(phase)];
    if (time.gpu_ops == 0) continue;
    out += left("  " + std::string(gpusim::name(phase)), 28) + right(time_text(time.busy, whole), 13) +
           right(time_text(time.span, whole), 13) + right(percent_text(share(time.span, whole)), 9) +
           right(fmt::format("{}", time.gpu_ops), 9) + "\n";
  }
  return out + "\n";
}

std::string memory_text(const Metrics& m, const std::string& variant) {
  if (!m.memory) return "";
  const MemorySummary& memory = *m.memory;
  const Bytes peak = memory.at_peak.total();
  std::string out;
  write_paragraph(
      out, title("memory", variant) + fmt::format(": {} at most", bytes(peak)) +
               (memory.peak_at.empty() ? std::string() : ", while " + printable(memory.peak_at) + " runs"));
  for (std::size_t i = 0; i < memory_kind_count; ++i) {
    const auto kind = static_cast<MemoryKind>(i);
    const Bytes part = memory.at_peak[kind];
    if (part <= Bytes(0)) continue;
    out += left("  " + words(gpusim::name(kind)), 28) + right(bytes(part), 13) +
           right(percent_text(part / peak), 9) + "\n";
  }
  if (memory.saved > Bytes(0))
    out += left("  saved for backward", 28) + right(bytes(memory.saved), 13) + "\n";
  if (memory.cuda_graph_pool > Bytes(0))
    write_paragraph(out, fmt::format("  CUDA graphs hold {} in a pool of their own: "
                                     "torch.cuda.max_memory_allocated() says {}",
                                     bytes(memory.cuda_graph_pool), bytes(memory.allocated)));
  return out + "\n";
}

std::string communication_text(const Metrics& m, const std::string& variant) {
  if (!m.ranks) return "";
  const RankSummary& ranks = *m.ranks;
  std::string job = fmt::format("one rank of {}", ranks.ranks);
  if (m.tokens_per_second)
    job += fmt::format("; the job makes {} tokens/s",
                       scaled_text(*m.tokens_per_second * static_cast<double>(ranks.data), ""));
  if (ranks.bubble > 0)
    job += fmt::format("; {} of the step is the pipeline's bubble", percent_text(ranks.bubble));
  if (ranks.straggling > 0)
    job += fmt::format(
        "; waiting for the slowest adds {} to a step",
        time_text(Picoseconds(std::llround(static_cast<double>(m.step_time.count()) * ranks.straggling)),
                  m.step_time));
  std::string out;
  write_paragraph(out, title("parallel", variant) + ": " + job);
  if (ranks.busy <= Picoseconds{0}) return out + "\n";
  out += left("  communication", 28) + right("busy", 13) + right("exposed", 13) + right("hidden", 13) +
         right("count", 9) + "\n";
  const auto line = [&](const std::string& what, Picoseconds busy, Picoseconds exposed,
                        const std::string& count) {
    out += left("  " + what, 28) + right(time_text(busy, m.step_time), 13) +
           right(time_text(exposed, m.step_time), 13) + right(time_text(busy - exposed, m.step_time), 13) +
           right(count, 9) + "\n";
  };
  for (int k = 0; k < collective_kind_count; ++k) {
    const CommunicationTime& kind = ranks.kinds[static_cast<std::size_t>(k)];
    if (kind.count > 0)
      line(words(gpusim::name(static_cast<CollectiveKind>(k))), kind.busy, kind.exposed,
           fmt::format("{}", kind.count));
  }
  line("all", ranks.busy, ranks.exposed, "");
  return out + "\n";
}

std::string fit_text(const Metrics& m, const std::string& variant) {
  if (!m.out_of_memory) return "";
  const OutOfMemory& over = *m.out_of_memory;
  std::string text =
      title("out of memory", variant) + fmt::format(": {} more than the device has. ", bytes(over.over));
  if (over.way) {
    text += fmt::format("It fits with {}: {} a step, a peak of {}", fmt::join(over.way->changes, " and "),
                        time_text(over.way->step_time), bytes(over.way->peak));
    if (over.way->tokens_per_second)
      text += fmt::format(", {} tokens/s", scaled_text(*over.way->tokens_per_second, ""));
    text += ".";
  } else if (over.tried > 0) {
    text += fmt::format("None of {} other settings fits.", over.tried);
  }
  std::string out;
  write_paragraph(out, text);
  return out + "\n";
}

}  // namespace gpusim::report
