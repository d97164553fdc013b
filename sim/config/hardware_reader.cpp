// SPDX-License-Identifier: Apache-2.0
#include "sim/config/hardware_reader.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "sim/config/calibration_reader.hpp"
#include "sim/config/load.hpp"
#include "sim/config/overlay.hpp"
#include "sim/config/resolve.hpp"

namespace gpusim::config {
namespace {

// --- Launch mechanics.

std::string known_classes() {
  std::string text;
  for (int i = 0; i < gap_class_count; ++i) text += std::string(name(static_cast<GapClass>(i))) + ", ";
  return text + "kernel";
}

/// The classes that a row or column key stands for; `kernel` is every class of kernel without one of its own.
std::vector<GapClass> classes_of(const std::string& key) {
  if (key == "kernel") return {GapClass::ShortKernel, GapClass::LongKernel};
  for (int i = 0; i < gap_class_count; ++i)
    if (name(static_cast<GapClass>(i)) == key) return {static_cast<GapClass>(i)};
  return {};
}

/// The entries of a map of classes, `kernel` first, so that a class's own entry wins over it.
std::vector<std::pair<std::string, Node>> by_class(const Node& map, Errors& errors) {
  auto entries = map.entries();
  std::stable_partition(entries.begin(), entries.end(),
                        [](const auto& entry) { return entry.first == "kernel"; });
  for (const auto& [key, value] : entries)
    if (classes_of(key).empty())
      errors.add(value.diagnostic("unknown class of op", "known: " + known_classes()));
  return entries;
}

Picoseconds read_gap(const Node& node, GapClass after) {
  // Only a programmatic kernel may start before its predecessor has ended.
  return after == GapClass::Programmatic ? node.as<Picoseconds>() : node.as<Picoseconds>(non_negative);
}

/// A table of gaps: one time for all, or rows by class of the op before, each one time or columns by class of
/// the op after. After a kernel the programmatic column is `-pdl_overlap` unless it is given.
GapTable read_gaps(const Node& node, Picoseconds pdl_overlap) {
  GapTable table;
  if (node.is_scalar()) {
    const auto gap = node.as<Picoseconds>(non_negative);
    for (auto& row : table.gap) row.fill(gap);
    return table;
  }
  Errors errors;
  std::array<std::array<bool, gap_class_count>, gap_class_count> given{};
  const auto set = [&](GapClass before, GapClass after, Picoseconds gap) {
    table.at(before, after) = gap;
    given[static_cast<std::size_t>(before)][static_cast<std::size_t>(after)] = true;
  };
  std::array<bool, gap_class_count> row_given{};
  for (const auto& [row_key, row] : by_class(node, errors)) {
    const auto befores = classes_of(row_key);
    for (const GapClass before : befores) row_given[static_cast<std::size_t>(before)] = true;
    errors.collect([&, &line = row] {
      if (line.is_scalar()) {
        const auto gap = line.template as<Picoseconds>(non_negative);
        for (const GapClass before : befores)
          for (int after = 0; after < gap_class_count; ++after)
            set(before, static_cast<GapClass>(after), gap);
        return;
      }
      for (const auto& [column_key, cell] : by_class(line, errors)) {
        errors.collect([&, &column = column_key, &value = cell] {
          for (const GapClass after : classes_of(column)) {
            const Picoseconds gap = read_gap(value, after);
            for (const GapClass before : befores) set(before, after, gap);
          }
        });
      }
    });
  }
  for (int i = 0; i < gap_class_count; ++i) {
    const auto before = static_cast<GapClass>(i);
    if (!row_given[static_cast<std::size_t>(i)]) {
      errors.add(node.diagnostic("missing row '" + std::string(name(before)) + "'",
                                 "give one time for all, or a row for each class: " + known_classes()));
      continue;
    }
    const bool kernel =
        before == GapClass::ShortKernel || before == GapClass::LongKernel || before == GapClass::Programmatic;
    auto& columns = given[static_cast<std::size_t>(i)];
    if (!columns[static_cast<std::size_t>(GapClass::Programmatic)] &&
        columns[static_cast<std::size_t>(GapClass::ShortKernel)])
      set(before, GapClass::Programmatic, kernel ? -pdl_overlap : table.at(before, GapClass::ShortKernel));
    for (int j = 0; j < gap_class_count; ++j) {
      if (!columns[static_cast<std::size_t>(j)])
        errors.add(
            node.diagnostic("row '" + std::string(name(before)) + "' lacks the column '" +
                                std::string(name(static_cast<GapClass>(j))) + "'",
                            "give one time for the row, or a column for each class: " + known_classes()));
    }
  }
  errors.throw_if_any();
  return table;
}

/// A time by count: one time for all counts, or a map from counts to times.
TimeTable read_table(const Node& node) {
  TimeTable table;
  if (node.is_scalar()) {
    table.points.push_back({1, node.as<Picoseconds>(non_negative)});
    return table;
  }
  Errors errors;
  for (const auto& [key, value] : node.entries()) {
    std::int64_t count = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), count);
    if (error != std::errc() || end != key.data() + key.size() || count < 1 ||
        count > std::numeric_limits<std::int32_t>::max()) {
      errors.add(value.diagnostic("'" + key + "' is not a count", "counts are whole numbers from 1 on"));
      continue;
    }
    errors.collect([&, &entry = value] {
      table.points.push_back({count, entry.template as<Picoseconds>(non_negative)});
    });
  }
  if (table.points.empty() && errors.empty())
    errors.add(node.diagnostic("the table is empty", "write {1: 1.3 us}"));
  std::sort(table.points.begin(), table.points.end(),
            [](const auto& a, const auto& b) { return a.count < b.count; });
  for (std::size_t i = 1; i < table.points.size(); ++i)
    if (table.points[i].count == table.points[i - 1].count)
      errors.add(node.diagnostic("the count " + std::to_string(table.points[i].count) + " is given twice"));
  errors.throw_if_any();
  return table;
}

CudaGraphLaunchSpec read_cuda_graph(const Node& node) {
  CudaGraphLaunchSpec spec;
  Fields fields(node);
  fields.required_with("call", [&](const Node& call) { spec.call = read_table(call); });
  fields.required("arrival_after_call", spec.arrival_after_call, non_negative);
  fields.optional("replay_work", spec.replay_work, non_negative);
  fields.done();
  return spec;
}

LaunchSpec read_launch(const Node& node) {
  LaunchSpec spec;
  Fields fields(node);
  fields.required("call", spec.call, non_negative);
  spec.copy_call = spec.memset_call = spec.call;
  fields.optional("copy_call", spec.copy_call, non_negative);
  fields.optional("memset_call", spec.memset_call, non_negative);
  fields.required("arrival_after_call", spec.arrival_after_call, non_negative);
  std::int64_t depth = spec.queue_depth;
  fields.optional("queue_depth", depth, at_least(std::int64_t{1}), at_most(std::int64_t{1} << 30));
  spec.queue_depth = static_cast<std::int32_t>(depth);
  fields.optional("event_record", spec.event_record, non_negative);
  fields.optional("stream_wait", spec.stream_wait, non_negative);
  fields.optional("event_latency", spec.event_latency, non_negative);
  fields.optional("sync_call", spec.sync_call, non_negative);
  fields.optional("sync_return", spec.sync_return, non_negative);
  fields.optional("pdl_overlap", spec.pdl_overlap, non_negative);
  fields.optional("code_fetch", spec.code_fetch, non_negative);
  fields.required_with("gap", [&](const Node& gap) { spec.gap = read_gaps(gap, spec.pdl_overlap); });
  fields.required_with("graph_gap",
                       [&](const Node& gap) { spec.graph_gap = read_gaps(gap, spec.pdl_overlap); });
  fields.optional_with("min_period", [&](const Node& table) { spec.min_period = read_table(table); });
  fields.optional_with("graph_min_period",
                       [&](const Node& table) { spec.graph_min_period = read_table(table); });
  fields.required_with("cuda_graph", [&](const Node& graph) { spec.cuda_graph = read_cuda_graph(graph); });
  fields.optional("transferred", spec.transferred);
  fields.done();
  return spec;
}

/// A section (`launch:`, `calibration:`) with its own `base:` laid out: that section of another device.
/// `mark` adds to it, by the base's name, that it stands for another device than the one it was measured on.
template <class Mark>
Node resolve_section(const char* key, const Node& section, const SearchPath& search, const BaseChain& chain,
                     Mark mark) {
  if (!section.is_map()) section.fail("this has to be a map", "write for example {base: h200}");
  const auto base = section.find("base");
  if (!base) return section;
  if (!base->is_scalar()) base->fail("'base' is the name of another hardware file");
  const BaseChain longer = extended(chain, *base);
  const Node other = resolve("hardware", "h200", *base, search).map;
  const Node under = resolve_section(key, other.at(key), search, longer, mark);
  const Node merged = deep_merge(under.as_root(), section.as_root().without("base"));
  return at_path(mark(section, merged, *base), section.path());
}

Node resolve_launch(const Node& launch, const SearchPath& search) {
  return resolve_section("launch", launch, search, {},
                         [](const Node& section, const Node& merged, const Node& base) {
                           if (section.has("transferred")) return merged;
                           return merged.with("transferred", load_text("true", base.location().file));
                         });
}

Node resolve_calibration(const Node& calibration, const SearchPath& search) {
  return resolve_section("calibration", calibration, search, {},
                         [](const Node&, const Node& merged, const Node& base) {
                           if (merged.has("transferred_from")) return merged;
                           return merged.with("transferred_from", base.as_root());
                         });
}

PeakTable read_peak(const Node& node) {
  PeakTable table;
  Errors errors;
  std::vector<std::string> known;
  for (int i = 0; i < dtype_count; ++i) known.emplace_back(name(static_cast<Dtype>(i)));
  for (const auto& [key, value] : node.entries()) {
    const auto dtype = find_dtype(key);
    if (!dtype) {
      errors.add(value.diagnostic("unknown dtype '" + key + "'", name_hint(key, known, "dtypes")));
      continue;
    }
    errors.collect([&, &rate = value] {
      if (!rate.is_null()) table.set(*dtype, rate.template as<FlopsPerSecond>(positive));
    });
  }
  if (table.empty() && errors.empty()) errors.add(node.diagnostic("at least one dtype needs a peak"));
  errors.throw_if_any();
  return table;
}

SmSpec read_sm(const Node& node) {
  SmSpec sm;
  Fields fields(node);
  const auto read_count = [&](const char* key, std::int32_t& into, std::int64_t most) {
    std::int64_t count = into;
    fields.optional(key, count, at_least(std::int64_t{1}), at_most(most));
    into = static_cast<std::int32_t>(count);
  };
  read_count("threads", sm.threads, 65536);
  read_count("registers", sm.registers, 16'777'216);
  fields.optional("shared_memory", sm.shared_memory, positive, at_most(Bytes(1 << 30)));
  read_count("blocks", sm.blocks, 65536);
  fields.done();
  return sm;
}

HostOpCost read_op_cost(const Node& node) {
  HostOpCost cost;
  if (node.is_scalar()) {
    cost.no_grad = node.as<Picoseconds>(non_negative);
    return cost;
  }
  Fields fields(node);
  fields.required("no_grad", cost.no_grad, non_negative);
  fields.optional("grad", cost.grad, non_negative);
  fields.optional("backward", cost.backward, non_negative);
  std::int64_t launches = cost.launches;
  fields.optional("launches", launches, non_negative, at_most(std::int64_t{1000}));
  cost.launches = static_cast<std::int32_t>(launches);
  fields.done();
  return cost;
}

}  // namespace

GpuSpec read_hardware(const Node& hardware, const SearchPath& search) {
  const Resolved resolved = resolve("hardware", "h200", hardware, search);
  GpuSpec gpu;
  gpu.key = resolved.key;
  gpu.name = resolved.key;
  Fields fields(resolved.map);
  fields.optional("name", gpu.name);
  fields.optional_with("vendor", [&](const Node& vendor) {
    gpu.vendor = vendor.one_of<Vendor>({{"nvidia", Vendor::Nvidia}, {"amd", Vendor::Amd}});
  });
  fields.optional_with("aliases", [&](const Node& aliases) {
    for (const Node& alias : aliases.items()) gpu.aliases.push_back(alias.as<std::string>());
  });
  std::int64_t sms = 0;
  fields.required("sms", sms, at_least(std::int64_t{1}), at_most(std::int64_t{1'000'000}));
  gpu.sms = static_cast<std::int32_t>(sms);
  // What an SM has room for is known of NVIDIA's. Null: not known.
  if (gpu.vendor == Vendor::Nvidia) gpu.sm = SmSpec{};
  fields.optional_with("sm", [&](const Node& sm) {
    gpu.sm.reset();
    if (!sm.is_null()) gpu.sm = read_sm(sm);
  });
  fields.required("clock", gpu.clock, positive);
  fields.required("l2", gpu.l2, positive);
  fields.required_with("memory", [&](const Node& memory) {
    Fields parts(memory);
    parts.required("capacity", gpu.memory.capacity, positive);
    parts.required("bandwidth", gpu.memory.bandwidth, positive);
    parts.optional_with("bandwidth_top", [&](const Node& top) {
      gpu.memory.bandwidth_top = top.as<BytesPerSecond>(positive);
      if (gpu.memory.bandwidth.value() > 0 && gpu.memory.bandwidth_top > gpu.memory.bandwidth)
        top.fail("no kernel draws more than memory.bandwidth, " + format_quantity(gpu.memory.bandwidth),
                 "leave it away for 4.25 / 4.8 of the bandwidth");
    });
    parts.optional("bandwidth_per_sm", gpu.memory.bandwidth_per_sm, non_negative);
    parts.done();
  });
  fields.required_with("peak", [&](const Node& peak) { gpu.peak = read_peak(peak); });
  fields.required_with("host_link", [&](const Node& link) {
    Fields parts(link);
    parts.required("h2d", gpu.host_link.host_to_device, positive);
    parts.required("d2h", gpu.host_link.device_to_host, positive);
    parts.done();
  });
  fields.required_with("copy", [&](const Node& copy) {
    Fields parts(copy);
    parts.required("latency", gpu.copy.latency, non_negative);
    parts.required("d2d", gpu.copy.device_to_device, positive);
    parts.done();
  });
  fields.required_with("launch",
                       [&](const Node& launch) { gpu.launch = read_launch(resolve_launch(launch, search)); });
  fields.optional_with("interconnect", [&](const Node& link) {
    if (!link.is_null()) gpu.interconnect = link.as<std::string>();
  });
  fields.optional_with("power", [&](const Node& power) {
    if (power.is_null()) return;
    gpu.power.emplace();
    Fields parts(power);
    parts.required("limit", gpu.power->limit, positive);
    parts.required("idle", gpu.power->idle, non_negative);
    parts.required("flop", gpu.power->flop, non_negative);
    parts.required("byte", gpu.power->byte, non_negative);
    parts.done();
    if (!(gpu.power->limit > gpu.power->idle)) power.fail("the limit must be above what is drawn when idle");
  });
  fields.optional_with("calibration", [&](const Node& calibration) {
    gpu.calibration = read_calibration(resolve_calibration(calibration, search));
  });
  fields.done();
  return gpu;
}

HostSpec read_host(const Node& host, const SearchPath& search) {
  const Resolved resolved = resolve("hosts", "xeon-h200-cloud", host, search);
  HostSpec spec;
  spec.key = resolved.key;
  spec.name = resolved.key;
  Fields fields(resolved.map);
  fields.optional("name", spec.name);
  fields.optional("speed", spec.speed, positive);
  fields.optional("after_profiler", spec.after_profiler);
  fields.optional_with("ops", [&](const Node& ops) {
    Errors errors;
    for (const auto& [op, cost] : ops.entries())
      errors.collect([&, &key = op, &value = cost] { spec.ops.emplace(key, read_op_cost(value)); });
    errors.throw_if_any();
  });
  fields.optional_with("default_op", [&](const Node& cost) { spec.default_op = read_op_cost(cost); });
  fields.done();
  return spec;
}

std::vector<GpuSpec> known_hardware(const SearchPath& search) {
  std::vector<GpuSpec> gpus;
  for (const std::string& name : known_configs("hardware", search))
    gpus.push_back(read_hardware(load_text(name, name), search));
  return gpus;
}

std::optional<GpuSpec> hardware_of_device(std::string_view device_name, const SearchPath& search) {
  std::optional<GpuSpec> best;
  std::size_t longest = 0;
  for (GpuSpec& gpu : known_hardware(search)) {
    if (const std::size_t match = alias_match(gpu, device_name); match > longest) {
      longest = match;
      best = std::move(gpu);
    }
  }
  return best;
}

}  // namespace gpusim::config
