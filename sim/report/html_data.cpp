// SPDX-License-Identifier: Apache-2.0
#include "sim/report/html_data.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "sim/report/format.hpp"
#include "sim/report/kernel_family.hpp"
#include "sim/report/metrics.hpp"
#include "sim/report/op_executions.hpp"
#include "sim/report/report.hpp"

namespace gpusim::report {
namespace {

using nlohmann::ordered_json;

double microseconds(Picoseconds time) {
  return static_cast<double>(time.count()) / 1e6;
}

ordered_json value_json(const Value& value) {
  return std::visit(
      [](const auto& x) -> ordered_json {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, std::monostate>)
          return nullptr;
        else if constexpr (std::is_same_v<T, Picoseconds>)
          return microseconds(x);
        else
          return x;
      },
      value);
}

template <class T>
ordered_json number_or_null(const std::optional<T>& quantity) {
  return quantity ? ordered_json(quantity->value()) : ordered_json(nullptr);
}

std::string op_label(const engine::Program& program, const engine::GpuOp& op, const engine::OpInfo& info) {
  if (info.name != engine::no_index && !program.names[info.name].empty())
    return kernel_label(program.names[info.name]);
  switch (op.kind) {
    case engine::OpKind::Kernel:
      return "kernel";
    case engine::OpKind::Memcpy:
      return "copy";
    case engine::OpKind::Memset:
      return "memset";
  }
  return "kernel";
}

ordered_json device_json(const Device& device) {
  ordered_json json;
  json["name"] = device.name;
  json["dtype"] = device.dtype;
  json["peak"] = number_or_null(device.peak);
  json["bandwidth"] = number_or_null(device.bandwidth);
  json["capacity"] = number_or_null(device.capacity);
  json["sms"] = device.sms;
  json["peaks"] = ordered_json::array();
  for (const auto& [dtype, peak] : device.peaks)
    json["peaks"].push_back({{"dtype", dtype}, {"flops", peak.value()}});
  return json;
}

ordered_json figures_json(const Metrics& m) {
  ordered_json json = ordered_json::object();
  for (const Field& field : fields(m)) json[field.path] = value_json(field.value);
  return json;
}

ordered_json memory_at_peak_json(const MemorySummary& memory) {
  ordered_json json;
  json["at"] = memory.peak_at;
  json["kinds"] = ordered_json::array();
  for (std::size_t i = 0; i < memory_kind_count; ++i) {
    const auto kind = static_cast<MemoryKind>(i);
    if (memory.at_peak[kind] > Bytes(0))
      json["kinds"].push_back({{"name", std::string(name(kind))}, {"bytes", memory.at_peak[kind].value()}});
  }
  json["saved"] = memory.saved.value();
  json["cuda_graph_pool"] = memory.cuda_graph_pool.value();
  return json;
}

ordered_json out_of_memory_json(const OutOfMemory& problem) {
  ordered_json json;
  json["over"] = problem.over.value();
  json["tried"] = problem.tried;
  if (problem.way) {
    json["way"] = {{"changes", problem.way->changes},
                   {"step_time_us", microseconds(problem.way->step_time)},
                   {"peak", problem.way->peak.value()}};
  }
  return json;
}

ordered_json variant_json(const ScenarioReport& report, std::size_t place,
                          const std::vector<ExplainedVariant>& explained, NameTable& names) {
  const VariantResult& result = report.variants[place];
  const Metrics m = metrics(result);
  const DistinctOps ops = distinct_ops(result);
  ordered_json json;
  json["variant"] = result.variant;
  json["device"] = device_json(result.device);
  json["host"] = result.host;
  json["figures"] = figures_json(m);
  json["steps"] = ops.steps;
  json["advice"] = advice_sentences(report, place);
  if (result.one_cuda_graph)
    json["one_cuda_graph"] = {{"step_time_us", microseconds(result.one_cuda_graph->step_time)},
                              {"gpu_utilization", result.one_cuda_graph->gpu_utilization},
                              {"cut_by", result.cuda_graphs_cut_by}};
  json["ops"] = ops_json(result, ops, names);
  if (result.timeline) json["timeline"] = timeline_json(result, ops, names);
  if (ordered_json memory = memory_json(result); !memory.is_null()) json["memory"] = std::move(memory);
  if (result.memory) json["memory_at_peak"] = memory_at_peak_json(*result.memory);
  if (result.out_of_memory) json["out_of_memory"] = out_of_memory_json(*result.out_of_memory);
  if (result.phases) {
    json["phases"] = ordered_json::array();
    for (std::size_t i = 0; i < result.phases->size(); ++i) {
      const PhaseTime& phase = (*result.phases)[i];
      json["phases"].push_back({{"name", std::string(name(static_cast<Phase>(i)))},
                                {"busy_us", microseconds(phase.busy)},
                                {"span_us", microseconds(phase.span)},
                                {"gpu_ops", phase.gpu_ops}});
    }
  }
  if (!result.gains.empty()) {
    json["gains"] = ordered_json::array();
    for (const GainPart& part : result.gains)
      json["gains"].push_back({{"name", part.name}, {"step_time_us", microseconds(part.step_time)}});
  }
  if (result.trace)
    json["trace"] = {{"start_error_median_us", microseconds(result.trace->start_error_median)},
                     {"start_error_max_us", microseconds(result.trace->start_error_max)},
                     {"wall_us", microseconds(result.trace->traced_wall)}};
  for (const ExplainedVariant& candidate : explained)
    if (candidate.variant == result.variant) json["fusion"] = fusion_json(candidate);
  json["notes"] = result.notes;
  json["remedies"] = result.remedies;
  return json;
}

ordered_json expectations_json(const std::vector<ExpectationResult>& expectations) {
  ordered_json json = ordered_json::array();
  for (const ExpectationResult& e : expectations)
    json.push_back({{"path", e.path},
                    {"relation", e.relation},
                    {"expected", value_json(e.expected)},
                    {"actual", value_json(e.actual)},
                    {"within", e.within},
                    {"relative_to", e.relative_to},
                    {"pass", e.pass}});
  return json;
}

}  // namespace

std::size_t NameTable::operator()(std::string_view text) {
  if (const auto known = places_.find(text); known != places_.end()) return known->second;
  places_.emplace(std::string(text), all_.size());
  all_.emplace_back(text);
  return all_.size() - 1;
}

DistinctOps distinct_ops(const VariantResult& result) {
  const engine::Program& program = result.program;
  const CountedOps counted = count_ops(result);
  DistinctOps distinct;
  distinct.steps = counted.steps * std::max<std::int64_t>(result.steps_per_program, 1);
  distinct.of_op.assign(program.ops.size(), 0);
  std::map<std::tuple<engine::Index, engine::OpKind, double, double>, std::size_t> places;
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    if (counted.of_op[i].count == 0) continue;
    const engine::OpInfo& info = program.info[i];
    const auto [place, added] =
        places.try_emplace({info.name, program.ops[i].kind, info.flops, memory_traffic(program.ops[i], info)},
                           distinct.entries.size());
    if (added) distinct.entries.push_back({.op = static_cast<engine::Index>(i)});
    DistinctOps::Entry& entry = distinct.entries[place->second];
    entry.count += counted.of_op[i].count;
    entry.total += counted.of_op[i].total;
    distinct.of_op[i] = place->second;
  }
  return distinct;
}

ordered_json ops_json(const VariantResult& result, const DistinctOps& ops, NameTable& names) {
  const engine::Program& program = result.program;
  ordered_json json = {{"name", ordered_json::array()},  {"family", ordered_json::array()},
                       {"flops", ordered_json::array()}, {"bytes", ordered_json::array()},
                       {"count", ordered_json::array()}, {"total_ns", ordered_json::array()}};
  for (const DistinctOps::Entry& entry : ops.entries) {
    const engine::GpuOp& op = program.ops[entry.op];
    const engine::OpInfo& info = program.info[entry.op];
    const std::string given = info.name == engine::no_index ? "" : program.names[info.name];
    json["name"].push_back(names(op_label(program, op, info)));
    json["family"].push_back(static_cast<int>(kernel_family(given, op.kind)));
    json["flops"].push_back(info.flops);
    json["bytes"].push_back(memory_traffic(op, info));
    json["count"].push_back(entry.count);
    json["total_ns"].push_back(static_cast<double>(entry.total.count()) / 1e3);
  }
  return json;
}

ordered_json fusion_json(const ExplainedVariant& explained) {
  // What `gpusim explain` tells, kernels of one name and with the same ops told once.
  const ordered_json all = ordered_json::parse(explain_json("", {explained}, {}))["variants"].front();
  ordered_json json;
  json["backend"] = explained.options.backend.name;
  json["mode"] = explained.options.mode.name;
  json["compile_s"] = explained.compile_seconds;
  json["passes"] = all["passes"];
  json["breaks"] = all["graph_breaks"];
  json["groups"] = ordered_json::array();
  std::map<std::tuple<std::string, std::string>, std::size_t> places;
  for (const ordered_json& region : all["regions"])
    for (const ordered_json& kernel : region["kernels"]) {
      const std::tuple<std::string, std::string> key{region["name"], kernel["name"]};
      const auto [place, added] = places.try_emplace(key, json["groups"].size());
      if (added)
        json["groups"].push_back({{"region", region["name"]},
                                  {"kernel", kernel["name"]},
                                  {"count", 0},
                                  {"ops", kernel["ops"]},
                                  {"read", 0.0},
                                  {"written", 0.0},
                                  {"eager", 0.0}});
      ordered_json& group = json["groups"][place->second];
      const auto times = region["times"].get<std::int64_t>();
      group["count"] = group["count"].get<std::int64_t>() + times;
      for (const auto& [to, from] :
           {std::pair{"read", "read_bytes"}, {"written", "written_bytes"}, {"eager", "eager_bytes"}})
        group[to] = group[to].get<double>() + kernel[from].get<double>() * static_cast<double>(times);
    }
  struct Refused {
    std::int64_t pairs = 0;
    double bytes = 0;
    double largest = -1;
    std::string producer;
    std::string consumer;
  };
  std::map<std::string, Refused> refused;
  for (const ordered_json& region : all["regions"])
    for (const ordered_json& pair : region["refused"]) {
      const std::string reason = pair["reason"];
      Refused& sum = refused[reason.empty() ? "nothing forbids it" : reason];
      const auto times = region["times"].get<std::int64_t>();
      const auto bytes = pair["bytes"].get<double>();
      sum.pairs += times;
      sum.bytes += bytes * static_cast<double>(times);
      if (bytes <= sum.largest) continue;
      sum.largest = bytes;
      sum.producer = pair["producer"];
      sum.consumer = pair["consumer"];
    }
  json["refused"] = ordered_json::array();
  for (const auto& [reason, sum] : refused)
    json["refused"].push_back({{"reason", reason},
                               {"pairs", sum.pairs},
                               {"bytes", sum.bytes},
                               {"producer", sum.producer},
                               {"consumer", sum.consumer}});
  return json;
}

ordered_json scenario_json(const ScenarioReport& report, const std::vector<ExplainedVariant>& explained) {
  NameTable names;
  ordered_json json;
  json["title"] = report.scenario;
  json["description"] = report.description;
  json["file"] = report.file;
  ordered_json variants = ordered_json::array();
  for (std::size_t i = 0; i < report.variants.size(); ++i)
    variants.push_back(variant_json(report, i, explained, names));
  json["families"] = ordered_json::array();
  for (std::size_t i = 0; i < kernel_family_count; ++i)
    json["families"].push_back(name(static_cast<KernelFamily>(i)));
  json["causes"] = ordered_json::array();
  for (int i = 0; i < engine::idle_cause_count; ++i)
    json["causes"].push_back(engine::name(static_cast<engine::IdleCause>(i)));
  json["names"] = names.all();
  json["variants"] = std::move(variants);
  json["expectations"] = expectations_json(report.expectations);
  return json;
}

}  // namespace gpusim::report
