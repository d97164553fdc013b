// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "sim/report/format.hpp"
#include "sim/report/metrics.hpp"
#include "sim/report/report.hpp"

namespace gpusim::report {
namespace {

/// Writes indented JSON. Numbers are handed over as text, since no double holds all picoseconds.
class JsonText {
 public:
  void open(char bracket) {
    before_value();
    text_ += bracket;
    empty_ = true;
    ++depth_;
  }
  void close(char bracket) {
    --depth_;
    if (!empty_) new_line();
    text_ += bracket;
    empty_ = false;
  }
  void key(std::string_view name) {
    separate();
    text_ += json_string(name);
    text_ += ": ";
    after_key_ = true;
  }
  void raw(std::string_view value) {
    before_value();
    text_ += value;
  }
  void string(std::string_view value) { raw(json_string(value)); }
  void value(const Value& v) {
    std::visit(
        [this](const auto& x) {
          using T = std::decay_t<decltype(x)>;
          if constexpr (std::is_same_v<T, std::monostate>)
            raw("null");
          else if constexpr (std::is_same_v<T, bool>)
            raw(x ? "true" : "false");
          else if constexpr (std::is_same_v<T, std::int64_t>)
            raw(std::to_string(x));
          else if constexpr (std::is_same_v<T, double>)
            raw(exact_number(x));
          else if constexpr (std::is_same_v<T, std::string>)
            string(x);
          else
            raw(exact_microseconds(x));
        },
        v);
  }
  void member(std::string_view name, const Value& v) {
    key(name);
    value(v);
  }
  std::string take() {
    text_ += '\n';
    return std::move(text_);
  }

 private:
  void separate() {
    if (!empty_) text_ += ',';
    empty_ = false;
    new_line();
  }
  void before_value() {
    if (after_key_)
      after_key_ = false;
    else if (depth_ > 0)
      separate();
    empty_ = false;
  }
  void new_line() {
    text_ += '\n';
    text_.append(static_cast<std::size_t>(depth_), ' ');
  }

  std::string text_;
  int depth_ = 0;
  bool empty_ = true;
  bool after_key_ = false;
};

/// Fields come flat; those that share what stands before the dot are one object.
void write_fields(JsonText& json, const std::vector<Field>& all) {
  std::string open;
  for (const Field& field : all) {
    const std::size_t dot = field.path.find('.');
    const std::string group = dot == std::string::npos ? "" : field.path.substr(0, dot);
    if (group != open) {
      if (!open.empty()) json.close('}');
      if (!group.empty()) {
        json.key(group);
        json.open('{');
      }
      open = group;
    }
    json.member(dot == std::string::npos ? field.path : field.path.substr(dot + 1), field.value);
  }
  if (!open.empty()) json.close('}');
}

const char* name(Bound bound) {
  switch (bound) {
    case Bound::Compute:
      return "compute";
    case Bound::Memory:
      return "memory";
    case Bound::Overhead:
      return "overhead";
    case Bound::Unknown:
      break;
  }
  return nullptr;
}

const char* kind_name(engine::OpKind kind) {
  switch (kind) {
    case engine::OpKind::Kernel:
      return "kernel";
    case engine::OpKind::Memcpy:
      return "memcpy";
    case engine::OpKind::Memset:
      return "memset";
  }
  return "kernel";
}

Value share_or_unknown(const std::optional<double>& share) {
  return share ? Value(*share) : Value();
}
Value time_or_unknown(const std::optional<Picoseconds>& time) {
  Value value;
  if (time) value = *time;
  return value;
}
Value count_or_unknown(std::int64_t count) {
  Value value;
  if (count > 0) value = count;
  return value;
}

constexpr std::size_t kernels_listed = 20;

void write_kernels(JsonText& json, const KernelRanking& ranking) {
  json.key("top_kernels");
  json.open('[');
  for (std::size_t i = 0; i < ranking.kernels.size() && i < kernels_listed; ++i) {
    const RankedKernel& kernel = ranking.kernels[i];
    json.open('{');
    json.member("name", kernel.name);
    json.member("kind", std::string(kind_name(kernel.kind)));
    json.member("group",
                std::string(kernel.kind == engine::OpKind::Kernel ? group_name(kernel.group) : "copy"));
    json.member("count", ranking.per_step(static_cast<double>(kernel.count)));
    json.member("total_us", ranking.per_step(kernel.total));
    json.member("mean_us", kernel.mean());
    json.member("compute_share", share_or_unknown(kernel.compute_share));
    json.member("memory_share", share_or_unknown(kernel.memory_share));
    const char* bound = name(kernel.bound);
    json.member("regime", bound ? Value(std::string(bound)) : Value());
    json.close('}');
  }
  json.close(']');
}

void write_strings(JsonText& json, std::string_view key, const std::vector<std::string>& strings) {
  json.key(key);
  json.open('[');
  for (const std::string& s : strings) json.string(s);
  json.close(']');
}

void write_subject(JsonText& json, const PathSubject& subject) {
  json.member("action", subject.action);
  json.member("name", subject.name);
}

void write_critical_path(JsonText& json, const PathSummary& path) {
  json.key("critical_path");
  json.open('{');
  json.member("makespan_us", path.makespan);
  json.member("steps", path.steps);
  json.key("by_resource_us");
  json.open('{');
  for (std::size_t i = 0; i < path_resource_count; ++i)
    json.member(gpusim::name(static_cast<PathResource>(i)), path.by_resource[i]);
  json.close('}');
  json.member("unexplained_us", path.unexplained);
  json.key("items");
  json.open('[');
  for (std::size_t i = 0; i < path.items.size() && i < kernels_listed; ++i) {
    const PathSummary::Item& item = path.items[i];
    json.open('{');
    write_subject(json, item.subject);
    json.member("resource", std::string(gpusim::name(item.resource)));
    json.member("time_us", item.time);
    json.member("count", item.count);
    json.close('}');
  }
  json.close(']');
  json.key("longest_stretches");
  json.open('[');
  for (const PathSummary::Stretch& stretch : path.longest) {
    json.open('{');
    json.member("from_us", stretch.from);
    json.member("to_us", stretch.to);
    json.member("resource", std::string(gpusim::name(stretch.resource)));
    write_subject(json, stretch.subject);
    json.member("pieces", stretch.pieces);
    json.close('}');
  }
  json.close(']');
  json.key("slack");
  json.open('{');
  json.member("ops", path.ops);
  json.member("ops_with_slack", path.ops_with_slack);
  json.member("run_time_with_slack_us", path.time_with_slack);
  json.member("sum_us", path.slack_sum);
  json.member("median_us", path.slack_median);
  json.close('}');
  json.key("infinitely_fast");
  json.open('{');
  for (const Counterfactual& c : path.infinitely_fast) {
    json.key(gpusim::name(c.what));
    json.open('{');
    json.member("makespan_us", time_or_unknown(c.makespan));
    json.member("speedup", share_or_unknown(c.speedup(path.makespan)));
    json.member("order_kept_us", c.order_kept);
    json.close('}');
  }
  json.close('}');
  json.close('}');
}

void write_run(JsonText& json, const VariantResult& result) {
  const KernelRanking ranking = rank_kernels(result);
  json.open('{');
  write_fields(json, fields(metrics(result, ranking)));
  json.key("one_cuda_graph");
  if (result.one_cuda_graph) {
    json.open('{');
    json.member("step_time_us", result.one_cuda_graph->step_time);
    json.member("gpu_utilization", result.one_cuda_graph->gpu_utilization);
    json.close('}');
  } else {
    json.raw("null");
  }
  write_strings(json, "cuda_graphs_cut_by", result.cuda_graphs_cut_by);
  if (!result.gains.empty()) {
    json.key("gains");
    json.open('[');
    for (const GainPart& part : result.gains) {
      json.open('{');
      json.member("name", part.name);
      json.member("step_time_us", part.step_time);
      json.close('}');
    }
    json.close(']');
  }
  if (!result.shapes.empty()) {
    json.key("shapes");
    json.open('[');
    for (const ShapeResult& shape : result.shapes) {
      json.open('{');
      json.member("batch", shape.batch);
      json.member("sequence", shape.sequence);
      json.member("outcome", shape.outcome);
      json.member("padded_to", count_or_unknown(shape.padded_to));
      json.member("step_time_us", shape.step_time);
      json.member("compile_time_us", shape.compile_time);
      json.close('}');
    }
    json.close(']');
  }
  if (!result.remedies.empty()) write_strings(json, "remedies", result.remedies);
  json.key("trace");
  if (const auto& trace = result.trace) {
    json.open('{');
    json.member("wall_us", trace->traced_wall);
    json.member("busy_us", trace->traced_busy);
    json.member("start_error_median_us", trace->start_error_median);
    json.member("start_error_p90_us", trace->start_error_p90);
    json.member("start_error_max_us", trace->start_error_max);
    json.member("kernels", trace->kernels);
    json.member("unlinked_ops", trace->unlinked_ops);
    json.close('}');
  } else {
    json.raw("null");
  }
  write_kernels(json, ranking);
  if (result.critical_path) write_critical_path(json, *result.critical_path);
  write_strings(json, "notes", result.notes);
  json.close('}');
}

void write_expectation(JsonText& json, const ExpectationResult& expectation) {
  json.open('{');
  json.member("path", expectation.path);
  json.member("expected", expectation.expected);
  json.member("actual", expectation.actual);
  json.member("pass", expectation.pass);
  json.member("relation", expectation.relation);
  if (!expectation.within.empty()) json.member("within", expectation.within);
  if (!expectation.relative_to.empty()) json.member("relative_to", expectation.relative_to);
  if (!expectation.where.empty()) json.member("where", expectation.where);
  json.close('}');
}

}  // namespace

std::string to_json(const std::vector<ScenarioReport>& reports, std::string_view version) {
  JsonText json;
  json.open('{');
  json.member("gpusim", std::string(version));
  json.key("scenarios");
  json.open('[');
  for (const ScenarioReport& report : reports) {
    json.open('{');
    json.member("scenario", report.scenario);
    json.member("file", report.file);
    if (!report.input.empty()) json.member("input", report.input);
    json.key("runs");
    json.open('[');
    for (const VariantResult& variant : report.variants) write_run(json, variant);
    json.close(']');
    json.key("expectations");
    json.open('[');
    for (const ExpectationResult& expectation : report.expectations) write_expectation(json, expectation);
    json.close(']');
    json.close('}');
  }
  json.close(']');
  json.close('}');
  return json.take();
}

}  // namespace gpusim::report
