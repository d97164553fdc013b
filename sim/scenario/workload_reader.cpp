// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/workload_reader.hpp"

#include "sim/scenario/network_workload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

namespace gpusim {
namespace {

using config::at_least;
using config::at_most;
using config::Fields;
using config::Node;
using config::non_negative;
using config::positive;

constexpr Bytes bytes_max{1'000'000'000'000'000};
constexpr double flops_max = 1e24;

/// Counts that repeats multiply; stays at its largest value instead of overflowing.
std::int64_t times(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::int64_t>::max() : product;
}
std::int64_t plus(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::int64_t>::max() : sum;
}

const std::array<std::string_view, 12> item_keys{"kernel",   "work",   "input",  "copy",
                                                 "memset",   "record", "wait",   "synchronize",
                                                 "allocate", "free",   "signal", "await"};

class WorkloadReader {
 public:
  WorkloadReader(std::filesystem::path folder, const WorkloadLimits& limits)
      : folder_(std::move(folder)), limits_(limits) {}

  Workload read(const Node& node) {
    Workload workload;
    Fields fields(node);
    if (is_network_workload(node)) return known_network_workload(node);
    const bool has_kernels = node.has("kernels");
    const bool has_trace = node.has("trace");
    if (has_kernels && has_trace) {
      node.at("trace").fail("a workload is either a list of kernels or a trace",
                            "remove 'kernels' or 'trace'");
    } else if (!has_kernels && !has_trace && !misspelt(node)) {
      errors_.add(
          node.diagnostic("says neither 'network' nor 'kernels' nor 'trace'",
                          "write 'network:' with a name, 'kernels:' with a list, or 'trace:' with the "
                          "path of a profiler trace"));
    }
    if (has_trace) {
      TraceWorkload& trace = workload.source.emplace<TraceWorkload>();
      fields.required_with("trace", [&](const Node& path) { read_trace(path, trace); });
      fields.optional_with("host_time", [&](const Node& host_time) { read_host_time(host_time, trace); });
    } else {
      KernelsWorkload& kernels = workload.source.emplace<KernelsWorkload>();
      fields.optional_with("distributions", [&](const Node& all) { read_distributions(all, kernels); });
      fields.optional_with("streams", [&](const Node& all) { read_streams(all, kernels); });
      fields.optional("steps_in_lists", kernels.steps, at_least(std::int64_t{1}),
                      at_most(std::int64_t{1'000'000}));
      fields.optional_with("kernels", [&](const Node& list) { read_thread("main", list, kernels); });
      fields.optional_with("threads", [&](const Node& threads) {
        for (const auto& [name, list] : threads.entries()) {
          // A variant takes a thread away by setting it to null.
          if (list.is_null()) continue;
          if (name == "main") {
            errors_.add(
                list.diagnostic("'main' is the thread of workload.kernels", "give this thread another name"));
            continue;
          }
          read_thread(name, list, kernels);
        }
        if (kernels.threads.size() > threads_max)
          threads.fail(fmt::format("more than {} host threads (threads_max)", threads_max));
      });
      check_references();
      check_devices();
      check_memory();
    }
    fields.optional("model_flops", workload.model_flops, non_negative, at_most(Flops(flops_max)));
    fields.optional_with("dtype", [&](const Node& dtype) { workload.dtype = read_dtype(dtype); });
    errors_.collect([&] { fields.done(); });
    errors_.throw_if_any();
    return workload;
  }

 private:
  /// Read, or taken from what has been read before.
  Workload known_network_workload(const Node& node) const {
    if (limits_.known == nullptr) return read_network_workload(node, folder_, limits_);
    const std::string key = fmt::format("{}|{}|{}|{}|{}|{}", folder_.string(), limits_.instructions_max,
                                        limits_.limits.graph_ops_max, limits_.has_hardware, limits_.has_host,
                                        node.canonical_text());
    if (const Workload* known = limits_.known->find(key)) {
      Workload workload = *known;
      // Written alike, but perhaps elsewhere.
      const Node name = node.has("network") ? node.at("network") : node.at("hf_config");
      std::get<NetworkWorkload>(workload.source).where = name.location();
      return workload;
    }
    Workload workload = read_network_workload(node, folder_, limits_);
    limits_.known->keep(key, workload);
    return workload;
  }

  enum class NameKind { Distribution, Stream, Event };
  struct Reference {
    NameKind kind;
    Node node;
    std::string name;
  };
  struct Allocation {
    Bytes bytes{0};
    std::int64_t count = 0;
    std::int64_t freed = 0;
  };

  struct DeclaredStream {
    int device = 0;
    Node node;
  };

  /// An unknown key that is all but 'network', 'kernels' or 'trace' says enough.
  static bool misspelt(const Node& node) {
    const std::vector<std::string> known{"kernels", "network", "trace"};
    for (const std::string& key : node.keys())
      if (nearest_name(key, known)) return true;
    return false;
  }

  void read_trace(const Node& node, TraceWorkload& into) {
    into.path = node.as<std::string>();
    if (into.path.empty()) node.fail("the path is empty");
    const std::filesystem::path path(into.path);
    into.resolved = (path.is_absolute() || folder_.empty() ? path : folder_ / path).string();
    std::error_code ignored;
    const auto status = std::filesystem::status(into.resolved, ignored);
    if (!std::filesystem::exists(status))
      node.fail(fmt::format("no such file: '{}'", into.resolved), "paths are relative to the scenario file");
    if (std::filesystem::is_directory(status)) node.fail(fmt::format("'{}' is a directory", into.resolved));
  }

  void read_host_time(const Node& node, TraceWorkload& trace) {
    using HostTime = TraceWorkload::HostTime;
    if (node.is_map()) {
      const Node factor = node.at("factor");
      if (factor.is_scalar() && factor.text() == "auto") {
        trace.host_time = HostTime::Auto;
      } else {
        trace.host_time = HostTime::Factor;
        trace.factor = factor.as<double>(non_negative, at_most(1e6));
      }
      node.done();
      return;
    }
    trace.host_time = node.one_of<HostTime>({{"traced", HostTime::Traced}, {"model", HostTime::Model}});
  }

  void read_distributions(const Node& all, KernelsWorkload& kernels) {
    for (const auto& [name, node] : all.entries()) {
      DurationDistribution distribution;
      distribution.name = name;
      distributions_.insert(name);
      if (errors_.collect([&, &spec = node] { read_distribution(spec, distribution); }))
        kernels.distributions.push_back(std::move(distribution));
    }
  }

  static int read_device(const Node& node) {
    return static_cast<int>(node.as<std::int64_t>(non_negative, at_most(devices_max - 1)));
  }

  void read_streams(const Node& all, KernelsWorkload& kernels) {
    for (const auto& [name, node] : all.entries()) {
      // A variant takes an entry away by setting it to null.
      if (node.is_null()) continue;
      StreamPlace place;
      place.name = name;
      errors_.collect([&, &stream = node] {
        if (!stream.is_map()) stream.fail("a stream is a map", "write {device: 1}");
        Fields fields(stream);
        fields.required_with("device", [&](const Node& device) { place.device = read_device(device); });
        fields.done();
      });
      declared_streams_.emplace(name, DeclaredStream{place.device, node});
      kernels.streams.push_back(std::move(place));
    }
  }

  int device_of(const std::string& stream) const {
    const auto declared = declared_streams_.find(stream);
    return declared == declared_streams_.end() ? 0 : declared->second.device;
  }

  void read_distribution(const Node& node, DurationDistribution& into) {
    using Kind = DurationDistribution::Kind;
    if (!node.is_map() || node.size() != 1)
      node.fail("a distribution is a map with one key",
                "write {uniform: {min: 1 us, max: 5 us}}, {normal: {mean: , deviation: }}, "
                "{lognormal: {median: , sigma: }}, {exponential: {mean: }} or {choice: [1 us, 2 us]}");
    if (const auto choices = node.find("choice")) {
      into.kind = Kind::Choice;
      into.choices = read_durations(*choices);
      return;
    }
    if (const auto uniform = node.find("uniform")) {
      into.kind = Kind::Uniform;
      Fields fields(*uniform);
      fields.required("min", into.a, non_negative, at_most(duration_max));
      fields.required("max", into.b, non_negative, at_most(duration_max));
      fields.done();
      if (into.b < into.a) uniform->fail("max is less than min");
    } else if (const auto normal = node.find("normal")) {
      into.kind = Kind::Normal;
      Fields fields(*normal);
      fields.required("mean", into.a, non_negative, at_most(duration_max));
      fields.required("deviation", into.b, non_negative, at_most(duration_max));
      fields.done();
    } else if (const auto lognormal = node.find("lognormal")) {
      into.kind = Kind::Lognormal;
      Fields fields(*lognormal);
      fields.required("median", into.a, non_negative, at_most(duration_max));
      fields.required("sigma", into.sigma, non_negative, at_most(3.0));
      fields.done();
    } else if (const auto exponential = node.find("exponential")) {
      into.kind = Kind::Exponential;
      Fields fields(*exponential);
      fields.required("mean", into.a, non_negative, at_most(duration_max));
      fields.done();
    }
    node.done();
  }

  std::vector<Picoseconds> read_durations(const Node& list) {
    std::vector<Picoseconds> durations;
    Errors errors;
    for (const Node& duration : list.items())
      errors.collect(
          [&] { durations.push_back(duration.as<Picoseconds>(non_negative, at_most(duration_max))); });
    errors.throw_if_any();
    if (durations.empty()) list.fail("the list is empty", "give at least one duration");
    return durations;
  }

  void read_thread(const std::string& name, const Node& list, KernelsWorkload& kernels) {
    ThreadItems& thread = kernels.threads.emplace_back();
    thread.name = name;
    factor_ = 1;
    read_items(list, thread.items);
  }

  /// Adds what the list executes to the count of instructions.
  void read_items(const Node& list, std::vector<Item>& into) {
    errors_.collect([&] {
      const std::vector<Node> nodes = list.items();
      into.reserve(nodes.size());
      for (const Node& node : nodes) {
        errors_.collect([&] {
          Item item = read_item(node);
          into.push_back(std::move(item));
        });
      }
    });
  }

  /// `n` more host instructions or CUDA-graph nodes; complains once, at the item that goes beyond the limit.
  void count(const Node& node, std::int64_t n) {
    const bool was_within = instructions_ <= limits_.instructions_max;
    instructions_ = plus(instructions_, times(n, factor_));
    if (was_within && instructions_ > limits_.instructions_max)
      node.fail(fmt::format("the step has more than {} host instructions and CUDA-graph nodes "
                            "(instructions_max)",
                            limits_.instructions_max),
                "repeat less, or set 'instructions_max' at the top level of the scenario");
    if (was_within && times(instructions_, limits_.steps) > limits_.limits.run_instructions_max)
      node.fail(fmt::format("{} steps have more than {} host instructions (run_instructions_max)",
                            limits_.steps, limits_.limits.run_instructions_max),
                "ask for fewer steps");
  }

  Item read_item(const Node& node) {
    if (!node.is_map())
      node.fail("an item of a host thread is a map", "write for example {kernel: relu, duration: 3 us}");
    const std::vector<std::string> keys = node.keys();
    for (const std::string& key : keys) {
      if (key == "cuda_graph") return {read_cuda_graph(node)};
      if (std::find(item_keys.begin(), item_keys.end(), key) == item_keys.end()) continue;
      if (key == "kernel") return {read_kernel(node, false)};
      if (key == "copy") return {read_copy(node, false)};
      if (key == "memset") return {read_memset(node, false)};
      if (key == "work" || key == "input") return {read_work(node, key)};
      if (key == "record") return {read_record(node, false)};
      if (key == "wait") return {read_wait(node, false)};
      if (key == "synchronize") return {read_synchronize(node)};
      if (key == "allocate") return {read_allocate(node)};
      if (key == "free") return {read_free(node)};
      if (key == "signal" || key == "await") return read_signal(node, key);
    }
    if (node.has("repeat") || node.has("body")) return {read_loop(node)};
    std::vector<std::string> known(item_keys.begin(), item_keys.end());
    known.insert(known.end(), {"cuda_graph", "repeat"});
    for (const std::string& key : keys)
      if (const auto near = nearest_name(key, known))
        throw ConfigError(Diagnostic{node.at(key).key_location(), node.at(key).path(), "unknown key",
                                     fmt::format("did you mean '{}'?", *near)});
    node.fail("no key says what this item is", name_hint("", known, "items"));
  }

  void read_repeat(Fields& fields, std::int64_t& repeat) { fields.optional("repeat", repeat, non_negative); }

  void read_stream(Fields& fields, std::string& stream) {
    fields.optional_with("stream", [&](const Node& node) {
      stream = node.as<std::string>();
      if (stream.empty()) node.fail("the name is empty");
    });
    if (streams_.insert(stream).second && streams_.size() == streams_max + 1)
      fields.errors().add(
          fields.node().diagnostic(fmt::format("more than {} streams (streams_max)", streams_max)));
  }

  void read_launch(Fields& fields, LaunchTimes& launch) {
    read_call(fields, launch);
    fields.optional("latency", launch.latency, non_negative, at_most(duration_max));
  }

  void read_call(Fields& fields, LaunchTimes& launch) {
    fields.optional("host", launch.host, non_negative, at_most(duration_max));
    fields.optional("launch", launch.call, non_negative, at_most(duration_max));
  }

  static void read_gap(Fields& fields, std::optional<Picoseconds>& gap) {
    fields.optional("gap", gap, at_least(-duration_max), at_most(duration_max));
  }

  /// Instructions of one execution: waits that ride on the launch, host work, the call.
  template <class ItemType>
  static std::int64_t instructions_of(const ItemType& item) {
    return 1 + static_cast<std::int64_t>(item.after.size()) + (item.launch.host > Picoseconds(0) ? 1 : 0);
  }

  void read_after(Fields& fields, std::vector<std::string>& events) {
    fields.optional_with("after", [&](const Node& list) {
      if (list.is_scalar()) {
        events.push_back(read_name(list));
        return;
      }
      for (const Node& event : list.items()) events.push_back(read_name(event));
    });
  }

  static std::string read_name(const Node& node) {
    std::string name = node.as<std::string>();
    if (name.empty()) node.fail("the name is empty");
    return name;
  }

  /// A dtype that the hardware, if there is any, has a peak for.
  std::string read_dtype(const Node& node) const {
    const std::string text = node.as<std::string>();
    const auto dtype = find_dtype(text);
    std::vector<std::string> known;
    for (int i = 0; i < dtype_count; ++i) {
      const auto candidate = static_cast<Dtype>(i);
      if (limits_.hardware == nullptr || limits_.hardware->peak.find(candidate))
        known.emplace_back(gpusim::name(candidate));
    }
    if (!dtype) node.fail(fmt::format("unknown dtype '{}'", text), name_hint(text, known, "dtypes"));
    if (std::find(known.begin(), known.end(), text) == known.end())
      node.fail(fmt::format("{} has no peak for {}", limits_.hardware->name, text),
                name_hint("", known, "dtypes with a peak"));
    return text;
  }

  void read_bytes(Fields& fields, Bytes& bytes) {
    fields.optional("bytes", bytes, non_negative, at_most(bytes_max));
  }

  /// Keys that a node of a CUDA graph has beside its op's own; the caller reads them.
  static void skip_node_keys(Fields& fields) {
    fields.optional_with("id", [](const Node&) {});
    fields.optional_with("needs", [](const Node&) {});
  }

  KernelItem read_kernel(const Node& node, bool in_graph) {
    KernelItem item;
    Fields fields(node);
    fields.required_with("kernel", [&](const Node& name) { item.name = read_name(name); });
    int given = 0;
    fields.optional_with("duration", [&](const Node& duration) {
      ++given;
      item.duration.in_turn = {duration.as<Picoseconds>(non_negative, at_most(duration_max))};
    });
    fields.optional_with("durations", [&](const Node& durations) {
      ++given;
      item.duration.in_turn = read_durations(durations);
    });
    fields.optional_with("distribution", [&](const Node& distribution) {
      ++given;
      item.duration.distribution = read_name(distribution);
      references_.push_back({NameKind::Distribution, distribution, item.duration.distribution});
    });
    // On a hardware its bytes price it, as they do a copy.
    const bool priced = limits_.has_hardware && node.has("bytes");
    if (given == 0 && !priced && !node.has("duration") && !node.has("durations") && !node.has("distribution"))
      fields.errors().add(node.diagnostic(
          "missing key 'duration'",
          limits_.has_hardware ? "give 'duration', 'durations', 'distribution', or 'bytes' for the time "
                                 "of the hardware's roofs"
                               : "give 'duration', 'durations' or 'distribution'"));
    if (given > 1)
      fields.errors().add(node.diagnostic("gives its duration twice",
                                          "keep one of 'duration', 'durations' and 'distribution'"));
    read_repeat(fields, item.repeat);
    read_bytes(fields, item.bytes);
    fields.optional("flops", item.flops, non_negative, at_most(Flops(flops_max)));
    fields.optional_with("dtype", [&](const Node& dtype) { item.dtype = read_dtype(dtype); });
    fields.optional("blocks", item.blocks, non_negative);
    read_footprint(fields, item);
    fields.optional("programmatic", item.programmatic);
    read_gap(fields, item.gap);
    read_placement(fields, item, in_graph);
    fields.done();
    if (!in_graph) count(node, times(item.repeat, instructions_of(item)));
    return item;
  }

  /// What the kernel needs of the device that it shares.
  void read_footprint(Fields& fields, KernelItem& item) {
    fields.optional("threads", item.threads, at_least(std::int64_t{1}), at_most(std::int64_t{1024}));
    fields.optional("registers", item.registers, at_least(std::int64_t{1}), at_most(std::int64_t{255}));
    fields.optional("shared_memory", item.shared_memory, non_negative, at_most(Bytes(1 << 20)));
    fields.optional("arithmetic", item.arithmetic, non_negative, at_most(1.0));
    fields.optional("memory_hidden", item.memory_hidden);
    const Node& node = fields.node();
    for (const char* key : {"threads", "registers", "shared_memory", "arithmetic", "memory_hidden"}) {
      if (!node.has(key) || (node.has("blocks") && node.has("threads"))) continue;
      fields.errors().add(node.at(key).diagnostic(
          fmt::format("says nothing without '{}'", node.has("blocks") ? "threads" : "blocks"),
          "how a kernel shares its device is known from 'blocks' and 'threads'"));
      return;
    }
    if (!node.has("threads")) return;
    if (item.blocks == 0 && node.at("blocks").is_scalar() && node.at("blocks").text() == "0")
      fields.errors().add(node.at("blocks").diagnostic("must be at least 1 beside 'threads', not 0"));
    if (limits_.hardware == nullptr || !limits_.hardware->sm) return;
    const SmSpec& sm = *limits_.hardware->sm;
    const auto more_than_sm = [&](const char* key, const std::string& has) {
      const Node& at = node.has(key) ? node.at(key) : node.at("threads");
      fields.errors().add(at.diagnostic("no block fits on an SM",
                                        fmt::format("an SM of {} has {}", limits_.hardware->name, has)));
    };
    if (item.threads > sm.threads) more_than_sm("threads", fmt::format("{} threads", sm.threads));
    if (item.threads * item.registers > sm.registers)
      more_than_sm("registers", fmt::format("{} registers", sm.registers));
    if (item.shared_memory > sm.shared_memory)
      more_than_sm("shared_memory", format_quantity(sm.shared_memory) + " of shared memory");
  }

  template <class ItemType>
  void read_placement(Fields& fields, ItemType& item, bool in_graph) {
    if (in_graph) {
      skip_node_keys(fields);
      return;
    }
    read_stream(fields, item.stream);
    read_launch(fields, item.launch);
    read_after(fields, item.after);
  }

  /// A copy or memset without a duration needs hardware to price it, and bytes.
  template <class ItemType>
  void read_priced(Fields& fields, ItemType& item, bool between_devices = false) {
    read_bytes(fields, item.bytes);
    fields.optional("duration", item.duration, non_negative, at_most(duration_max));
    const Node& node = fields.node();
    if (node.has("duration")) return;
    if (between_devices)
      fields.errors().add(node.diagnostic("missing key 'duration'",
                                          "no hardware file gives the bandwidth between two devices"));
    else if (!limits_.has_hardware)
      fields.errors().add(
          node.diagnostic("missing key 'duration'", "without 'hardware' a copy has no bandwidth"));
    else if (!node.has("bytes"))
      fields.errors().add(node.diagnostic("missing key 'bytes'", "give 'bytes', or a 'duration'"));
  }

  CopyItem read_copy(const Node& node, bool in_graph) {
    CopyItem item;
    Fields fields(node);
    fields.required_with("copy", [&](const Node& direction) {
      item.direction = direction.one_of<CopyDirection>({{"h2d", CopyDirection::HostToDevice},
                                                        {"d2h", CopyDirection::DeviceToHost},
                                                        {"d2d", CopyDirection::DeviceToDevice},
                                                        {"peer", CopyDirection::Peer}});
    });
    const bool peer = item.direction == CopyDirection::Peer;
    if (peer)
      fields.required_with("to", [&](const Node& to) { item.to = read_device(to); });
    else
      fields.optional_with("to", [&](const Node& to) {
        to.fail("only a copy to another device has 'to'", "write {copy: peer, to: 1}");
      });
    fields.optional("name", item.name);
    read_priced(fields, item, peer);
    if (!in_graph) {
      fields.optional("blocking", item.blocking);
      fields.optional("return", item.launch.returns, non_negative, at_most(duration_max));
      if (item.launch.returns && !item.blocking)
        fields.errors().add(node.at("return").diagnostic(
            "says nothing of a copy that does not block the host", "write 'blocking: true' beside it"));
    }
    read_gap(fields, item.gap);
    read_repeat(fields, item.repeat);
    read_placement(fields, item, in_graph);
    fields.done();
    const int from = in_graph ? graph_device_ : device_of(item.stream);
    if (peer && item.to == from)
      node.at("to").fail(fmt::format("the copy comes from device {} itself", from),
                         "'streams: {NAME: {device: 1}}' beside 'kernels' puts a stream on another device");
    if (!in_graph) count(node, times(item.repeat, instructions_of(item)));
    return item;
  }

  MemsetItem read_memset(const Node& node, bool in_graph) {
    MemsetItem item;
    Fields fields(node);
    fields.required_with("memset", [&](const Node& name) { item.name = read_name(name); });
    read_priced(fields, item);
    read_gap(fields, item.gap);
    read_repeat(fields, item.repeat);
    read_placement(fields, item, in_graph);
    fields.done();
    if (!in_graph) count(node, times(item.repeat, instructions_of(item)));
    return item;
  }

  WorkItem read_work(const Node& node, const std::string& key) {
    WorkItem item;
    Fields fields(node);
    item.input = key == "input";
    fields.required(key, item.duration, non_negative, at_most(duration_max));
    fields.optional("name", item.name);
    read_repeat(fields, item.repeat);
    fields.done();
    count(node, item.repeat);
    return item;
  }

  /// In a CUDA graph: events have no stream and no launch of their own.
  template <class ItemType>
  void read_event_place(Fields& fields, ItemType& item, bool in_graph) {
    if (in_graph) {
      skip_node_keys(fields);
      return;
    }
    read_stream(fields, item.stream);
    read_launch(fields, item.launch);
  }

  RecordItem read_record(const Node& node, bool in_graph) {
    RecordItem item;
    Fields fields(node);
    fields.required_with("record", [&](const Node& event) { item.event = read_name(event); });
    events_.insert(item.event);
    read_event_place(fields, item, in_graph);
    fields.done();
    if (!in_graph) count(node, item.launch.host > Picoseconds(0) ? 2 : 1);
    return item;
  }

  WaitItem read_wait(const Node& node, bool in_graph) {
    WaitItem item;
    Fields fields(node);
    fields.required_with("wait", [&](const Node& event) { item.event = read_name(event); });
    read_event_place(fields, item, in_graph);
    fields.done();
    if (!in_graph) count(node, item.launch.host > Picoseconds(0) ? 2 : 1);
    return item;
  }

  SynchronizeItem read_synchronize(const Node& node) {
    using Target = SynchronizeItem::Target;
    SynchronizeItem item;
    Fields fields(node);
    fields.required_with("synchronize", [&](const Node& target) {
      if (target.is_scalar()) {
        item.target = target.one_of<Target>({{"device", Target::Device}});
        return;
      }
      const auto stream = target.find("stream");
      const auto event = target.find("event");
      const auto device = target.find("device");
      target.done();
      if (int{stream.has_value()} + int{event.has_value()} + int{device.has_value()} != 1)
        target.fail("says none or several of 'stream', 'event' and 'device'",
                    "write device, {stream: NAME}, {event: NAME} or {device: 1}");
      if (device) {
        item.target = Target::Device;
        item.device = read_device(*device);
        synchronized_devices_.emplace_back(item.device, *device);
        return;
      }
      item.target = stream ? Target::Stream : Target::Event;
      item.name = read_name(stream ? *stream : *event);
      references_.push_back(
          {stream ? NameKind::Stream : NameKind::Event, stream ? *stream : *event, item.name});
    });
    read_call(fields, item.launch);
    fields.optional("return", item.launch.returns, non_negative, at_most(duration_max));
    fields.done();
    count(node, item.launch.host > Picoseconds(0) ? 2 : 1);
    return item;
  }

  AllocateItem read_allocate(const Node& node) {
    AllocateItem item;
    Fields fields(node);
    fields.required_with("allocate", [&](const Node& name) { item.name = read_name(name); });
    fields.required("bytes", item.bytes, positive, at_most(bytes_max));
    fields.done();
    Allocation& known = allocations_[item.name];
    if (known.count > 0 && known.bytes != item.bytes)
      node.at("bytes").fail(
          fmt::format("'{}' is allocated with {} before", item.name, format_quantity(known.bytes)),
          "give allocations of different sizes different names");
    known.bytes = item.bytes;
    known.count = plus(known.count, factor_);
    if (static_cast<double>(known.count) * static_cast<double>(known.bytes.value()) > 4e18)
      node.fail("allocates more than 4 EB in a step");
    count(node, 1);
    return item;
  }

  FreeItem read_free(const Node& node) {
    FreeItem item;
    Fields fields(node);
    fields.required_with("free", [&](const Node& name) {
      item.name = read_name(name);
      frees_.emplace_back(name, factor_);
    });
    fields.done();
    count(node, 1);
    return item;
  }

  Item read_signal(const Node& node, const std::string& key) {
    std::string name;
    Fields fields(node);
    fields.required_with(key, [&](const Node& signal) { name = read_name(signal); });
    fields.done();
    count(node, 1);
    if (key == "signal") return {SignalItem{name}};
    return {AwaitItem{name}};
  }

  LoopItem read_loop(const Node& node) {
    LoopItem item;
    Fields fields(node);
    fields.required("repeat", item.repeat, non_negative);
    fields.required_with("body", [&](const Node& body) {
      const std::int64_t outer = factor_;
      factor_ = times(factor_, item.repeat);
      read_items(body, item.body);
      factor_ = outer;
    });
    fields.done();
    return item;
  }

  CudaGraphItem read_cuda_graph(const Node& node) {
    CudaGraphItem item;
    Fields fields(node);
    fields.required_with("cuda_graph", [&](const Node& name) { item.name = read_name(name); });
    read_stream(fields, item.stream);
    graph_device_ = device_of(item.stream);
    fields.required_with("nodes", [&](const Node& list) { read_graph_nodes(list, item); });
    read_repeat(fields, item.repeat);
    read_launch(fields, item.launch);
    fields.done();
    count(node, times(item.repeat, item.launch.host > Picoseconds(0) ? 2 : 1));
    return item;
  }

  void read_graph_nodes(const Node& list, CudaGraphItem& graph) {
    std::map<std::string, std::size_t> ids;
    std::vector<std::string> known_ids;
    Errors errors;
    // A graph is recorded once, however often it is launched.
    const std::int64_t factor = factor_;
    factor_ = 1;
    for (const Node& node : list.items()) {
      errors.collect([&] {
        CudaGraphItem::Node entry;
        const std::size_t position = graph.nodes.size();
        if (!node.is_map())
          node.fail("a node of a CUDA graph is a map", "write {kernel: relu, duration: 3 us}");
        std::int64_t repeat = 1;
        if (node.has("kernel")) {
          repeat = entry.op.emplace<KernelItem>(read_kernel(node, true)).repeat;
        } else if (node.has("copy")) {
          repeat = entry.op.emplace<CopyItem>(read_copy(node, true)).repeat;
        } else if (node.has("memset")) {
          repeat = entry.op.emplace<MemsetItem>(read_memset(node, true)).repeat;
        } else if (node.has("record")) {
          entry.op.emplace<RecordItem>(read_record(node, true));
        } else if (node.has("wait")) {
          entry.op.emplace<WaitItem>(read_wait(node, true));
        } else {
          node.fail("a node of a CUDA graph is a kernel, copy, memset, record or wait");
        }
        if (repeat == 0) node.fail("a node of a CUDA graph cannot be repeated 0 times");
        count(node, repeat);
        if (const auto needs = node.find("needs")) {
          for (const Node& need : needs->items()) {
            const auto found = ids.find(need.as<std::string>());
            if (found == ids.end()) {
              std::string hint = name_hint(need.text(), known_ids, "ids");
              if (known_ids.empty()) hint = "no node before this one has an 'id'";
              need.fail(fmt::format("no earlier node has the id '{}'", need.text()), hint);
            }
            entry.needs.push_back(found->second);
          }
          std::sort(entry.needs.begin(), entry.needs.end());
          entry.needs.erase(std::unique(entry.needs.begin(), entry.needs.end()), entry.needs.end());
        } else if (position > 0) {
          entry.needs = {position - 1};
        }
        if (const auto id = node.find("id")) {
          const std::string name = read_name(*id);
          if (!ids.emplace(name, position).second) id->fail(fmt::format("the id '{}' is taken", name));
          known_ids.push_back(name);
        }
        graph.nodes.push_back(std::move(entry));
      });
    }
    factor_ = factor;
    errors.throw_if_any();
    if (graph.nodes.empty())
      list.fail("a CUDA graph has at least one node", "write {kernel: relu, duration: 3 us}");
  }

  void check_references() {
    for (const Reference& reference : references_) {
      const std::set<std::string>* known = nullptr;
      std::string_view what;
      std::string_view plural;
      switch (reference.kind) {
        case NameKind::Distribution:
          known = &distributions_, what = "distribution", plural = "distributions";
          break;
        case NameKind::Stream:
          known = &streams_, what = "stream", plural = "streams";
          break;
        case NameKind::Event:
          known = &events_, what = "event", plural = "events";
          break;
      }
      if (known->count(reference.name) != 0) continue;
      const std::vector<std::string> names(known->begin(), known->end());
      std::string hint = name_hint(reference.name, names, plural);
      if (names.empty()) hint = fmt::format("the workload has no {}", plural);
      errors_.add(reference.node.diagnostic(fmt::format("unknown {} '{}'", what, reference.name), hint));
    }
  }

  void check_devices() {
    std::set<int> devices;
    for (const std::string& stream : streams_) devices.insert(device_of(stream));
    const std::vector<std::string> used(streams_.begin(), streams_.end());
    for (const auto& [name, stream] : declared_streams_) {
      if (streams_.count(name) == 0) {
        errors_.add(stream.node.diagnostic(fmt::format("nothing uses the stream '{}'", name),
                                           name_hint(name, used, "streams")));
      } else if (limits_.one_device && stream.device != *devices.begin()) {
        errors_.add(stream.node.diagnostic(
            "'cuda_graph: full' records the work of one device, and the streams are on several",
            "write the CUDA graphs of each device as items, or put all streams on one device"));
      }
    }
    for (const auto& [device, node] : synchronized_devices_)
      if (devices.count(device) == 0)
        errors_.add(node.diagnostic(fmt::format("no stream is on device {}", device),
                                    "'streams: {NAME: {device: 1}}' beside 'kernels' puts one there"));
  }

  void check_memory() {
    std::vector<std::string> names;
    for (const auto& [name, allocation] : allocations_) names.push_back(name);
    double total = 0;
    for (const auto& [name, allocation] : allocations_)
      total += static_cast<double>(allocation.count) * static_cast<double>(allocation.bytes.value());
    if (total > 4e18 && !frees_.empty())
      errors_.add(frees_.front().first.diagnostic("allocates more than 4 EB"));
    for (const auto& [node, n] : frees_) {
      const auto known = allocations_.find(node.text());
      if (known == allocations_.end()) {
        std::string hint = name_hint(node.text(), names, "allocations");
        if (names.empty()) hint = "the workload allocates nothing";
        errors_.add(node.diagnostic(fmt::format("'{}' is never allocated", node.text()), hint));
        continue;
      }
      Allocation& allocation = known->second;
      const bool was_within = allocation.freed <= allocation.count;
      allocation.freed = plus(allocation.freed, n);
      if (was_within && allocation.freed > allocation.count)
        errors_.add(node.diagnostic(fmt::format("'{}' is freed more often than it is allocated", node.text()),
                                    fmt::format("in one step it is allocated {}x", allocation.count)));
    }
  }

  std::filesystem::path folder_;
  WorkloadLimits limits_;
  Errors errors_;
  std::int64_t factor_ = 1;  ///< How often the enclosing loops run what is being read.
  std::int64_t instructions_ = 0;
  std::set<std::string> distributions_;
  std::set<std::string> streams_;  ///< Those that items use.
  std::map<std::string, DeclaredStream> declared_streams_;
  std::vector<std::pair<int, Node>> synchronized_devices_;
  int graph_device_ = 0;  ///< Of the CUDA graph that is being read.
  std::set<std::string> events_;
  std::vector<Reference> references_;
  std::map<std::string, Allocation> allocations_;
  std::vector<std::pair<Node, std::int64_t>> frees_;
};

/// Gives every free the size of what it frees.
void resolve_frees(std::vector<Item>& items, const std::map<std::string, Bytes>& sizes) {
  for (Item& item : items) {
    if (auto* loop = std::get_if<LoopItem>(&item.what)) resolve_frees(loop->body, sizes);
    if (auto* free = std::get_if<FreeItem>(&item.what)) free->bytes = sizes.at(free->name);
  }
}

void collect_sizes(const std::vector<Item>& items, std::map<std::string, Bytes>& sizes) {
  for (const Item& item : items) {
    if (const auto* loop = std::get_if<LoopItem>(&item.what)) collect_sizes(loop->body, sizes);
    if (const auto* allocate = std::get_if<AllocateItem>(&item.what)) sizes[allocate->name] = allocate->bytes;
  }
}

}  // namespace

Workload read_workload(const config::Node& node, const std::filesystem::path& folder,
                       const WorkloadLimits& limits) {
  Workload workload = WorkloadReader(folder, limits).read(node);
  if (auto* kernels = std::get_if<KernelsWorkload>(&workload.source)) {
    std::map<std::string, Bytes> sizes;
    for (const ThreadItems& thread : kernels->threads) collect_sizes(thread.items, sizes);
    for (ThreadItems& thread : kernels->threads) resolve_frees(thread.items, sizes);
  }
  return workload;
}

}  // namespace gpusim
