// SPDX-License-Identifier: Apache-2.0
#include "sim/report/explain_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "models/compiler/fuse.hpp"
#include "models/graph/catalogue.hpp"
#include "models/units/text.hpp"
#include "sim/report/explain_recompute.hpp"

namespace gpusim::report {
namespace {

constexpr std::size_t width = 80;
constexpr std::size_t ops_shown = 6;

/// What the ops of a kernel move when each runs by itself.
Bytes eager_bytes(const OpGraph& graph, const CompiledKernel& kernel) {
  Bytes bytes{0};
  for (const OpIndex i : kernel.ops) {
    const Op& op = graph.ops[i];
    if (op.kind->fusion == FusionClass::View && !op.outputs.empty() && !op.inputs.empty() &&
        graph.tensors[op.outputs[0]].storage == graph.tensors[op.inputs[0]].storage)
      continue;
    if (op.kind->fusion == FusionClass::Scatter) {
      // Only what is written is read; the rest of the memory stays untouched.
      const auto last =
          std::find_if(op.inputs.rbegin(), op.inputs.rend(), [](TensorIndex t) { return t != graph_none; });
      if (last != op.inputs.rend()) bytes += 2 * stored_bytes(graph.tensors[*last].type);
      continue;
    }
    for (const TensorIndex t : op.inputs)
      if (t != graph_none && op.kind->fusion != FusionClass::Gather)
        bytes += stored_bytes(graph.tensors[t].type);
    for (const TensorIndex t : op.outputs) bytes += dense_bytes(graph.tensors[t].type);
  }
  return bytes;
}

/// In one unit, so that the columns can be compared.
std::string traffic_text(Bytes bytes) {
  const double mib = static_cast<double>(bytes.value()) / (1 << 20);
  return mib >= 0.1 || bytes.value() == 0 ? fmt::format("{:.1f} MiB", mib) : fmt::format("{:.4f} MiB", mib);
}

std::string op_list(const OpGraph& graph, const CompiledKernel& kernel) {
  std::string text;
  std::size_t shown = 0;
  std::size_t computing = 0;
  for (const OpIndex op : kernel.ops)
    if (graph.ops[op].kind->fusion != FusionClass::View) ++computing;
  for (const OpIndex op : kernel.ops) {
    if (graph.ops[op].kind->fusion == FusionClass::View) continue;
    if (shown == ops_shown) {
      text += fmt::format(" and {} more", computing - shown);
      break;
    }
    if (shown++ > 0) text += ", ";
    text += graph.ops[op].kind->name;
  }
  return text;
}

/// Breaks a line at blanks so that no line is longer than the page.
std::string wrapped(const std::string& text, std::size_t indent) {
  std::string out;
  std::string line(indent, ' ');
  std::size_t start = 0;
  while (start < text.size()) {
    std::size_t end = text.find(' ', start);
    if (end == std::string::npos) end = text.size();
    const std::string word = text.substr(start, end - start);
    if (line.size() > indent && line.size() + 1 + word.size() > width) {
      out += line + '\n';
      line = std::string(indent + 2, ' ');
    }
    if (line.find_first_not_of(' ') != std::string::npos) line += ' ';
    line += word;
    start = end + 1;
  }
  return out + line + '\n';
}

std::string shortened(const std::string& name, std::size_t most) {
  return name.size() <= most ? name : name.substr(0, most - 3) + "...";
}

/// Regions in the order of the step; those of the same code count with the first one.
std::vector<std::pair<const RegionPlan*, int>> distinct_regions(const CompiledStep& step) {
  std::vector<std::pair<const RegionPlan*, int>> distinct;
  std::map<std::size_t, std::size_t> place;
  for (std::size_t i = 0; i < step.regions.size(); ++i) {
    const auto [known, is_new] = place.emplace(step.regions[i].region.like, distinct.size());
    if (is_new)
      distinct.emplace_back(&step.regions[i], 1);
    else
      ++distinct[known->second].second;
  }
  return distinct;
}

struct Totals {
  std::int64_t generated = 0;
  std::int64_t calls = 0;
  Bytes moved{0};
  Bytes eager{0};
};
Totals totals_of(const CompiledStep& step) {
  Totals totals;
  for (const RegionPlan& region : step.regions)
    for (const CompiledKernel& kernel : region.kernels) {
      ++(kernel.what == KernelClass::Generated || kernel.what == KernelClass::Template ? totals.generated
                                                                                       : totals.calls);
      totals.moved += kernel.read() + kernel.written();
      totals.eager += eager_bytes(*step.graph, kernel);
    }
  return totals;
}

void add_region(std::string& out, const CompiledStep& step, const RegionPlan& plan, int times,
                const CompileOptions& options) {
  const std::string repeated = times > 1 ? fmt::format(" (and {} more of the same code)", times - 1) : "";
  const std::int64_t ops = plan.region.last - plan.region.first;
  if (!plan.region.compiled) {
    out += wrapped(
        fmt::format("{}: {} {} run one by one{}", plan.region.name, ops, ops == 1 ? "op" : "ops", repeated),
        2);
    return;
  }
  out += wrapped(fmt::format("{}: {} ops in {} kernels and calls{}", plan.region.name, ops,
                             plan.kernels.size(), repeated),
                 2);
  if (plan.cuda_graph != CudaGraphPolicy::None) {
    Bytes copied{0};
    for (const Bytes bytes : plan.copied_inputs) copied += bytes;
    out += wrapped(plan.copied_inputs.empty()
                       ? fmt::format("CUDA graph ({}), no input has to be copied", name(plan.cuda_graph))
                       : fmt::format("CUDA graph ({}), {} of {} inputs copied before each replay",
                                     name(plan.cuda_graph), traffic_text(copied), plan.copied_inputs.size()),
                   4);
  } else if (!plan.not_captured.empty()) {
    out += wrapped("no CUDA graph: " + plan.not_captured, 4);
  }
  out += fmt::format("    {:<42} {:>10} {:>10} {:>10}\n", "kernel", "reads", "writes", "eager");
  std::map<std::string, int> seen;
  for (const CompiledKernel& kernel : plan.kernels) ++seen[kernel.name];
  std::map<std::string, bool> shown;
  for (const CompiledKernel& kernel : plan.kernels) {
    if (std::exchange(shown[kernel.name], true)) continue;
    const int count = seen[kernel.name];
    const std::string head = (count > 1 ? fmt::format("{} x ", count) : "") + kernel.name;
    out += fmt::format("    {:<42} {:>10} {:>10} {:>10}\n", shortened(head, 42), traffic_text(kernel.read()),
                       traffic_text(kernel.written()), traffic_text(eager_bytes(*step.graph, kernel)));
    if (kernel.what == KernelClass::Generated || kernel.what == KernelClass::Template)
      out += wrapped(op_list(*step.graph, kernel), 6);
  }
  const std::vector<RefusedPair> refused = refused_pairs(plan.loops, plan.plan, options.mode.fusion);
  if (refused.empty()) return;
  // By reason: how many pairs, what goes through memory for it, and one of them.
  struct Group {
    int pairs = 0;
    Bytes bytes{0};
    const RefusedPair* largest = nullptr;
  };
  std::map<FusionRefusal, Group> groups;
  for (const RefusedPair& pair : refused) {
    Group& group = groups[pair.reason];
    ++group.pairs;
    group.bytes += pair.bytes;
    if (group.largest == nullptr || pair.bytes > group.largest->bytes) group.largest = &pair;
  }
  out += "    not joined:\n";
  const auto first_op = [&](std::size_t group) {
    const Loop& loop = plan.loops.loops[plan.plan.groups[group].loops.front()];
    return step.graph->ops[loop.op].name;
  };
  for (const auto& [reason, group] : groups)
    out += wrapped(fmt::format("{} {}, {} through memory: {} (as '{}' and '{}')", group.pairs,
                               group.pairs == 1 ? "pair" : "pairs", traffic_text(group.bytes),
                               reason == FusionRefusal::None ? "nothing forbids it" : text(reason),
                               first_op(group.largest->producer), first_op(group.largest->consumer)),
                   6);
}

}  // namespace

std::string explain_text(const std::string& scenario, const std::vector<ExplainedVariant>& variants) {
  std::string out = scenario + '\n';
  for (const ExplainedVariant& v : variants) {
    out +=
        '\n' + wrapped(fmt::format("{}: {}{}", v.variant, v.options.backend.name,
                                   v.options.mode.name == "default" ? "" : ", mode " + v.options.mode.name),
                       0);
    const CompiledStep& step = v.step;
    if (v.options.backend.capture == CaptureKind::None) {
      out += "  ops run one by one: nothing is compiled\n";
      continue;
    }
    for (const Simplification& pass : step.passes) {
      if (pass.ops_removed == 0 && pass.ops_added == 0) continue;
      std::string text = fmt::format("{}: {} ops out, {} in", pass.pass, pass.ops_removed, pass.ops_added);
      if (pass.saved > Bytes(0)) text += fmt::format(", {} of traffic saved", traffic_text(pass.saved));
      if (!pass.examples.empty()) text += fmt::format(" (as '{}')", pass.examples.front());
      out += wrapped(text, 2);
    }
    for (const BreakReport& cut : step.captured.breaks) {
      out +=
          wrapped(fmt::format("graph break after '{}' ({}): {}", cut.where, name(cut.cause), cut.effect), 2);
      out += wrapped("way out: " + cut.remedy, 4);
    }
    for (const auto& [region, times] : distinct_regions(step))
      add_region(out, step, *region, times, v.options);
    for (const RegionRecompute& region : step.recompute) out += recompute_text(region);
    if (!v.curve.empty()) out += curve_text(v.curve);
    const Totals totals = totals_of(step);
    out +=
        wrapped(fmt::format("in all {} generated kernels ({} distinct) and {} library calls; they move {}, "
                            "op by op it would be {}",
                            totals.generated, step.distinct_kernels, totals.calls, traffic_text(totals.moved),
                            traffic_text(totals.eager)),
                2);
    if (v.compile_seconds > 0) out += fmt::format("  compiling takes about {:.3g} s\n", v.compile_seconds);
  }
  return out;
}

std::string explain_json(const std::string& scenario, const std::vector<ExplainedVariant>& variants,
                         const ExplainOrigin& origin) {
  using nlohmann::ordered_json;
  ordered_json root;
  if (!origin.version.empty()) root["gpusim"] = origin.version;
  root["scenario"] = scenario;
  if (!origin.input.empty()) root["input"] = origin.input;
  root["variants"] = ordered_json::array();
  for (const ExplainedVariant& v : variants) {
    ordered_json one;
    one["variant"] = v.variant;
    one["backend"] = v.options.backend.key;
    one["mode"] = v.options.mode.name;
    one["compile_time_s"] = v.compile_seconds;
    one["graph_breaks"] = ordered_json::array();
    for (const BreakReport& cut : v.step.captured.breaks)
      one["graph_breaks"].push_back({{"after", cut.where},
                                     {"cause", std::string(name(cut.cause))},
                                     {"effect", cut.effect},
                                     {"remedy", cut.remedy}});
    one["passes"] = ordered_json::array();
    for (const Simplification& pass : v.step.passes)
      one["passes"].push_back({{"pass", pass.pass},
                               {"ops_removed", pass.ops_removed},
                               {"ops_added", pass.ops_added},
                               {"saved_bytes", pass.saved.value()},
                               {"examples", pass.examples}});
    one["regions"] = ordered_json::array();
    for (const auto& [region, times] : distinct_regions(v.step)) {
      ordered_json part;
      part["name"] = region->region.name;
      part["times"] = times;
      part["compiled"] = region->region.compiled;
      part["cuda_graph"] = std::string(name(region->cuda_graph));
      part["kernels"] = ordered_json::array();
      for (const CompiledKernel& kernel : region->kernels) {
        ordered_json ops = ordered_json::array();
        for (const OpIndex op : kernel.ops) ops.push_back(v.step.graph->ops[op].name);
        part["kernels"].push_back({{"name", kernel.name},
                                   {"ops", ops},
                                   {"read_bytes", kernel.read().value()},
                                   {"written_bytes", kernel.written().value()},
                                   {"eager_bytes", eager_bytes(*v.step.graph, kernel).value()}});
      }
      part["refused"] = ordered_json::array();
      for (const RefusedPair& pair : refused_pairs(region->loops, region->plan, v.options.mode.fusion)) {
        const auto op_of = [&, &region = region](std::size_t group) {
          return v.step.graph->ops[region->loops.loops[region->plan.groups[group].loops.front()].op].name;
        };
        part["refused"].push_back({{"producer", op_of(pair.producer)},
                                   {"consumer", op_of(pair.consumer)},
                                   {"reason", std::string(text(pair.reason))},
                                   {"bytes", pair.bytes.value()}});
      }
      one["regions"].push_back(std::move(part));
    }
    if (!v.step.recompute.empty()) {
      one["recompute"] = ordered_json::array();
      for (const RegionRecompute& region : v.step.recompute)
        one["recompute"].push_back(recompute_json(region));
    }
    if (!v.curve.empty()) one["recompute_curve"] = curve_json(v.curve);
    root["variants"].push_back(std::move(one));
  }
  return root.dump(2);
}

}  // namespace gpusim::report
