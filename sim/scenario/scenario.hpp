// SPDX-License-Identifier: Apache-2.0
// What a scenario file says, as plain structs: no YAML, no simulated time. docs/scenarios.md explains the
// format; scenario_reader.hpp fills these structs; sim/program turns one Variant into a program for the
// engine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "models/compiler/options.hpp"
#include "models/graph/network.hpp"
#include "models/graph/parallel_plan.hpp"
#include "models/graph/training.hpp"
#include "models/hardware/gpu_spec.hpp"
#include "models/hardware/host_spec.hpp"
#include "models/units/quantity.hpp"
#include "sim/config/error.hpp"

namespace gpusim {

/// How long a kernel takes: always the same, the listed durations in turn, or drawn from a distribution.
struct KernelDuration {
  std::vector<Picoseconds> in_turn;  ///< One entry: always the same.
  std::string distribution;          ///< Used where `in_turn` is empty.
  friend bool operator==(const KernelDuration&, const KernelDuration&) = default;
};

/// CPU side of putting something into a stream, or of waiting for it. Absent: from the hardware's launch
/// model.
struct LaunchTimes {
  std::optional<Picoseconds> call;     ///< CPU time of the call.
  std::optional<Picoseconds> latency;  ///< Start of the call until the stream can act on it.
  std::optional<Picoseconds>
      returns;          ///< Synchronisations, blocking copies: completion until the call returns.
  Picoseconds host{0};  ///< CPU work before the call.
  friend bool operator==(const LaunchTimes&, const LaunchTimes&) = default;
};

inline constexpr const char* default_stream = "default";

struct KernelItem {
  std::string name;
  KernelDuration duration;
  std::int64_t repeat = 1;
  std::string stream = default_stream;
  LaunchTimes launch;
  Bytes bytes{0};
  Flops flops{0};
  std::string dtype;         ///< For the roof of its FLOPs; empty: the workload's.
  std::int64_t blocks = 0;   ///< 0: unknown.
  std::int64_t threads = 0;  ///< Per block; 0: unknown. With `blocks`: what it shares with others is known.
  std::int64_t registers = 32;  ///< Per thread.
  Bytes shared_memory{0};       ///< Per block.
  std::optional<double>
      arithmetic;              ///< Share of the issue slots of its SMs, alone; absent: from its traffic.
  bool memory_hidden = false;  ///< Its memory traffic hides behind other work.
  bool programmatic = false;
  /// From the end of the stream's previous op; negative: before it. Absent: the hardware's gap and period.
  std::optional<Picoseconds> gap;
  std::vector<std::string> after;  ///< Events; the waits ride on the launch.
  friend bool operator==(const KernelItem&, const KernelItem&) = default;
};

enum class CopyDirection : std::uint8_t { HostToDevice, DeviceToHost, DeviceToDevice, Peer };

struct CopyItem {
  CopyDirection direction = CopyDirection::HostToDevice;
  int to = 0;        ///< Peer: the device that it goes to.
  std::string name;  ///< Empty: named after the direction.
  Bytes bytes{0};
  std::optional<Picoseconds>
      duration;  ///< Absent: bytes over the hardware's bandwidth, plus its copy latency.
  bool blocking = false;
  /// From the end of the stream's previous op; negative: before it. Absent: the hardware's gap and period.
  std::optional<Picoseconds> gap;
  std::int64_t repeat = 1;
  std::string stream = default_stream;
  LaunchTimes launch;
  std::vector<std::string> after;
  friend bool operator==(const CopyItem&, const CopyItem&) = default;
};

struct MemsetItem {
  std::string name;
  Bytes bytes{0};
  std::optional<Picoseconds> duration;  ///< Absent: bytes over the memory bandwidth, plus the copy latency.
  /// From the end of the stream's previous op; negative: before it. Absent: the hardware's gap and period.
  std::optional<Picoseconds> gap;
  std::int64_t repeat = 1;
  std::string stream = default_stream;
  LaunchTimes launch;
  std::vector<std::string> after;
  friend bool operator==(const MemsetItem&, const MemsetItem&) = default;
};

/// CPU work of the host thread, or a wait of the host thread for input from outside.
struct WorkItem {
  Picoseconds duration{0};
  std::string name;
  bool input = false;
  std::int64_t repeat = 1;
  friend bool operator==(const WorkItem&, const WorkItem&) = default;
};

struct RecordItem {
  std::string event;
  std::string stream = default_stream;
  LaunchTimes launch;
  friend bool operator==(const RecordItem&, const RecordItem&) = default;
};

struct WaitItem {
  std::string event;
  std::string stream = default_stream;
  LaunchTimes launch;
  friend bool operator==(const WaitItem&, const WaitItem&) = default;
};

struct SynchronizeItem {
  enum class Target : std::uint8_t { Device, Stream, Event };
  Target target = Target::Device;
  std::string name;    ///< Of the stream or event.
  int device = 0;      ///< Target::Device.
  LaunchTimes launch;  ///< Its latency is not used.
  friend bool operator==(const SynchronizeItem&, const SynchronizeItem&) = default;
};

struct AllocateItem {
  std::string name;
  Bytes bytes{0};
  friend bool operator==(const AllocateItem&, const AllocateItem&) = default;
};

struct FreeItem {
  std::string name;
  Bytes bytes{0};  ///< Of the allocation it gives back.
  friend bool operator==(const FreeItem&, const FreeItem&) = default;
};

struct SignalItem {
  std::string signal;
  friend bool operator==(const SignalItem&, const SignalItem&) = default;
};

struct AwaitItem {
  std::string signal;
  friend bool operator==(const AwaitItem&, const AwaitItem&) = default;
};

/// A recorded CUDA graph and its launches.
struct CudaGraphItem {
  struct Node {
    /// Its stream, launch and `after` are not used.
    std::variant<KernelItem, CopyItem, MemsetItem, RecordItem, WaitItem> op;
    std::vector<std::size_t> needs;  ///< Earlier positions in `nodes`.
    friend bool operator==(const Node&, const Node&) = default;
  };
  std::string name;
  std::vector<Node> nodes;
  std::int64_t repeat = 1;
  std::string stream = default_stream;
  LaunchTimes launch;
  friend bool operator==(const CudaGraphItem&, const CudaGraphItem&) = default;
};

struct Item;

/// Items that run several times, one after the other.
struct LoopItem {
  std::int64_t repeat = 1;
  std::vector<Item> body;
  friend bool operator==(const LoopItem&, const LoopItem&);
};

/// One entry of a host thread's list.
struct Item {
  std::variant<KernelItem, WorkItem, CopyItem, MemsetItem, RecordItem, WaitItem, SynchronizeItem,
               AllocateItem, FreeItem, SignalItem, AwaitItem, LoopItem, CudaGraphItem>
      what;
  friend bool operator==(const Item&, const Item&) = default;
};
inline bool operator==(const LoopItem& a, const LoopItem& b) {
  return a.repeat == b.repeat && a.body == b.body;
}

/// A host thread and what it does in one step.
struct ThreadItems {
  std::string name;
  std::vector<Item> items;
  friend bool operator==(const ThreadItems&, const ThreadItems&) = default;
};

struct DurationDistribution {
  enum class Kind : std::uint8_t { Uniform, Normal, Lognormal, Exponential, Choice };
  std::string name;
  Kind kind = Kind::Uniform;
  Picoseconds a{0};  ///< Minimum, mean or median.
  Picoseconds b{0};  ///< Maximum or standard deviation.
  double sigma = 0;  ///< Lognormal: standard deviation of the logarithm.
  std::vector<Picoseconds> choices;
  friend bool operator==(const DurationDistribution&, const DurationDistribution&) = default;
};

/// A stream that is not on device 0.
struct StreamPlace {
  std::string name;
  int device = 0;
  friend bool operator==(const StreamPlace&, const StreamPlace&) = default;
};

/// Host threads and their items, written by hand. The first thread, "main", marks the steps.
struct KernelsWorkload {
  std::vector<ThreadItems> threads;
  std::vector<DurationDistribution> distributions;
  std::vector<StreamPlace> streams;  ///< Those not listed are on device 0.
  std::int64_t steps = 1;            ///< Steps of the user that the lists hold: figures are per step.
  friend bool operator==(const KernelsWorkload&, const KernelsWorkload&) = default;
};

/// A profiler trace to be replayed.
struct TraceWorkload {
  enum class HostTime : std::uint8_t {
    Traced,  ///< As the trace has it, profiler's overhead included.
    Factor,  ///< Times `factor`.
    Auto,    ///< Times what an unprofiled launch call takes over what a traced one took.
    Model,   ///< Replaced by the costs of the host file.
  };
  std::string path;      ///< As the user wrote it.
  std::string resolved;  ///< Beside the scenario where relative: what to open.
  HostTime host_time = HostTime::Traced;
  double factor = 1;
  friend bool operator==(const TraceWorkload&, const TraceWorkload&) = default;
};

/// Which FLOPs causal attention counts: those of the whole square of scores (PaLM, torch's FlopCounterMode)
/// or of the half that the mask leaves (llm.c).
enum class AttentionFlops : std::uint8_t { Full, Causal };

/// torch.set_float32_matmul_precision: whether products of fp32 tensors run as tf32 or on the vector units.
enum class Float32Matmul : std::uint8_t { High, Highest };

/// One step of a network.
struct NetworkWorkload {
  std::shared_ptr<const Network> network;  ///< Never null.
  NetworkSizes sizes;  ///< As the network is built: under autocast its dtype is fp32, products have another.
  std::optional<TrainingOptions> training;  ///< Of a training step only.
  std::optional<ParallelPlan> parallel;     ///< What one of several ranks runs; absent: there is one.
  AttentionFlops attention_flops = AttentionFlops::Full;
  Float32Matmul float32_matmul = Float32Matmul::High;
  /// What build_graph() makes of network and sizes, and of that a rank's part; never null.
  std::shared_ptr<const OpGraph> forward;
  std::shared_ptr<const OpGraph> graph;      ///< The whole step: `forward`, or what training makes of it.
  std::int64_t ops_max = GraphLimits{}.ops;  ///< Where its graph is built again: graph_ops_max.
  Location where;  ///< Of `workload.network`: for mistakes that no line of the network's file shows.
  friend bool operator==(const NetworkWorkload& a, const NetworkWorkload& b) {
    return a.network->key == b.network->key && a.network->file == b.network->file && a.sizes == b.sizes &&
           a.training == b.training && a.parallel == b.parallel && a.attention_flops == b.attention_flops &&
           a.float32_matmul == b.float32_matmul;
  }
};

struct Workload {
  std::variant<KernelsWorkload, TraceWorkload, NetworkWorkload> source;
  Flops model_flops{0};  ///< Of the model in one step, for MFU; 0: unknown.
  std::string dtype;     ///< Whose peak MFU is measured against; empty: unknown.
  friend bool operator==(const Workload&, const Workload&) = default;
};

enum class CudaGraphMode : std::uint8_t { None, Full };

/// The sizes of one step in a sequence of steps. Its graph is built by whoever runs it.
struct ShapeStep {
  std::int64_t batch = 1;
  std::int64_t sequence = 1;
  Location where;  ///< For sizes that do not go with the network.
  friend bool operator==(const ShapeStep& a, const ShapeStep& b) {
    return a.batch == b.batch && a.sequence == b.sequence;
  }
};

/// One answer to the scenario's question: the top level with one overlay laid over it.
struct Variant {
  std::string name;
  std::optional<GpuSpec>
      hardware;  ///< Absent: launches cost only what the items say, ops follow without a gap.
  std::optional<HostSpec> host;
  Workload workload;
  CudaGraphMode cuda_graph = CudaGraphMode::None;  ///< What is compiled has it in `compile` instead.
  /// How a network is compiled. Absent: it runs eagerly. An eager network has it too (with a backend that
  /// captures nothing) where it has breaks, better kernels or batch sizes that are recorded.
  std::optional<CompileOptions> compile;
  Location compile_where;             ///< Of `backend`, or the variant: for what a compiler refuses later.
  std::vector<ShapeStep> shapes;      ///< Of a network's steps, in turn; empty: all as the workload says.
  std::optional<std::int64_t> steps;  ///< Simulate exactly so many; absent: the steady step.
  std::uint64_t seed = 0;
  std::int64_t instructions_max = 10'000'000;  ///< Of one step, over all host threads.
  friend bool operator==(const Variant&, const Variant&) = default;
};

/// Something that has to hold for the results.
struct Expectation {
  enum class Relation : std::uint8_t { Equals, Min, Max, Not };
  /// Null (unknown), truth, bare number (bytes, FLOPs, seconds of `_s` figures included), word, time.
  using Value = std::variant<std::monostate, bool, double, std::string, Picoseconds>;
  /// Widens Equals, Min and Max; for Not it is the distance that must be kept.
  struct Tolerance {
    double value = 0;  ///< A share of the expected value, or a distance in the unit of the JSON figure.
    bool relative = false;
    std::string text;  ///< As the user wrote it.
    friend bool operator==(const Tolerance&, const Tolerance&) = default;
  };
  std::string path;     ///< As the user wrote it.
  std::string variant;  ///< Whose result.
  std::string metric;   ///< Path of the JSON figure: "step_time_us", "idle_us.dispatch".
  Relation relation = Relation::Equals;
  Value value;
  std::optional<Tolerance> within;
  std::string relative_to;  ///< Variant; empty: compare the metric itself, else the quotient of the two.
  Location where;
  friend bool operator==(const Expectation&, const Expectation&) = default;
};

/// A scenario file with its variants laid out.
struct Scenario {
  std::string name;
  std::string description;
  std::string file;  ///< As given by the user.
  std::vector<Variant> variants;
  std::vector<Expectation> expectations;

  const Variant* find(const std::string& variant) const;
  friend bool operator==(const Scenario&, const Scenario&) = default;
};

}  // namespace gpusim
