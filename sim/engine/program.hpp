// SPDX-License-Identifier: Apache-2.0
// What the engine runs: the host instructions and GPU ops of one step, as flat tables.
//
// A Program is plain data. Host threads hold instructions; instructions name streams, ops, CUDA graphs,
// events and signals by index. Whoever builds one calls `check(program, machine)` once (run by the engine
// too): indices must exist, durations must not be negative, CUDA graphs must not be cyclic.
#pragma once

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/engine/distribution.hpp"
#include "sim/engine/footprint.hpp"
#include "sim/engine/large_vector.hpp"
#include "sim/engine/time.hpp"

namespace gpusim::engine {

using Index = std::uint32_t;
inline constexpr Index no_index = std::numeric_limits<Index>::max();

/// A Program or Machine that breaks the rules written at its types. Scenario readers check before, so that
/// users see a located message; this one is for people who build programs in C++.
class ProgramError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// The simulated world is stuck: every unfinished host thread and stream waits for something that cannot
/// happen. The message has one line for each, naming who waits for what.
class DeadlockError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// More simulated time than the clock can count without losing exactness (`time_max`).
class TimeLimitError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Longest duration and latest moment: 26 days. Sums of a few of them stay within 64 bits of picoseconds.
inline constexpr Picoseconds time_max{std::int64_t{1} << 61};

enum class OpKind : std::uint8_t { Kernel, Memcpy, Memset };

/// Hardware queue that a copy occupies while it runs; copies on one engine run one at a time, first come
/// first served. Kernels and memsets use none.
/// A peer copy occupies the outgoing side of its stream's device and the incoming side of the device it goes
/// to.
enum class CopyEngine : std::uint8_t { None, HostToDevice, DeviceToHost, DeviceToDevice, Peer };
inline constexpr int copy_engine_count = 5;

/// Which row and column of the machine's gap tables an op uses. The engine only indexes with it.
using GapClass = std::uint8_t;
inline constexpr int gap_class_limit = 8;

/// Marks GpuOp::gap_before as "take it from the machine's table".
inline constexpr Picoseconds gap_from_table = Picoseconds::min();

/// One GPU op: a kernel, a copy or a memset. Durations are those a profiler would show. What the event loop
/// reads at every execution is here, in half a cache line; the rest is in OpInfo.
struct GpuOp {
  Picoseconds duration{0};    ///< Ignored where `distribution` is set.
  Picoseconds min_period{0};  ///< Least time from this op's start to the next one's, in a stream.
  Picoseconds gap_before =
      gap_from_table;  ///< From the end of the previous op of the stream; overrides the table. Of the first
                       ///< node of a CUDA graph: from the end of what ran before the graph.
  Index distribution = no_index;  ///< Into Program::distributions: drawn anew at each execution.
  GapClass gap_class = 0;
  OpKind kind = OpKind::Kernel;
  CopyEngine copy_engine = CopyEngine::None;
  std::uint8_t peer = 0;  ///< CopyEngine::Peer: the device that the copy goes to.
};
static_assert(sizeof(GpuOp) == 32);

/// What else is known about an op: read when a CUDA graph is laid out, when kernels share a GPU, and by
/// reports.
struct OpInfo {
  Index name = no_index;               ///< Into Program::names.
  Index footprint = no_index;          ///< Into Program::footprints; no_index: shares nothing with others.
  Picoseconds min_period_in_graph{0};  ///< GpuOp::min_period inside a CUDA graph.
  std::int64_t bytes = 0;  ///< Moved by a copy or memset, or read and written by a kernel; 0 where unknown.
  double flops = 0;        ///< Floating-point operations of a kernel; 0 where unknown.
};

/// A recorded piece of GPU work. Nodes are listed in an order in which every node comes after those it waits
/// for; a node starts when all of `after` have ended plus the gap. Nodes without `after` start with the
/// graph.
struct CudaGraph {
  enum class NodeKind : std::uint8_t {
    Op,      ///< A kernel, a copy or a memset.
    Record,  ///< Records an event when all of `after` have ended.
    Wait,    ///< Ends when all of `after` have and the event has fired that was recorded last when the graph
             ///< was launched.
  };
  struct Node {
    Index op = no_index;       ///< Into Program::ops; Record, Wait: into Program::events.
    std::vector<Index> after;  ///< Earlier positions in `nodes`.
    NodeKind kind = NodeKind::Op;
  };
  Index name = no_index;
  std::vector<Node> nodes;
};

struct Stream {
  std::string name;  ///< As shown to people: "7", "default", "copy".
  int device = 0;
};

/// What a host thread does. `duration` is the CPU time of the call itself.
enum class Call : std::uint8_t {
  Work,         ///< CPU work: Python, dispatcher, optimizer bookkeeping.
  Input,        ///< The same, but spent waiting for input (data loader, request).
  Launch,       ///< Puts GpuOp `object` into `stream`. `blocking`: returns when the op has ended.
  LaunchGraph,  ///< Puts CudaGraph `object` into `stream`.
  Record,       ///< Records event `object` in `stream`: fires when all earlier ops of the stream have ended.
  StreamWait,   ///< Later ops of `stream` wait for the latest record of event `object` called so far.
  SynchronizeStream,  ///< Blocks until all that was put into `stream` so far has ended.
  SynchronizeEvent,   ///< Blocks until the latest record of event `object` called so far has fired.
  SynchronizeDevice,  ///< Blocks until all streams of device `object` have ended.
  Allocate,           ///< Takes Program::sizes[object] bytes of device memory at the end of the call.
  Free,               ///< Gives them back.
  Signal,             ///< Adds one to signal `object`.
  Await,              ///< Blocks until signal `object` is at least one, and takes one.
};

struct Instruction {
  Call call = Call::Work;
  bool blocking : 1 = false;
  /// StreamWait: rides on the next launch into the stream instead of taking a place in the launch queue of
  /// its own; the place is freed when the stream takes the launch, before the wait.
  bool attached : 1 = false;
  std::uint16_t stream = 0;
  Index object = no_index;
  Picoseconds duration{0};
  /// Launch, LaunchGraph, Record, StreamWait: from the start of the call until the stream can act on it.
  Picoseconds latency{0};
  /// Synchronisations, blocking launches: from the completion waited for until the call returns.
  Picoseconds return_latency{0};
};
static_assert(sizeof(Instruction) == 32);

struct HostThread {
  std::string name;
  LargeVector<Instruction> instructions;  ///< Of one step.
  /// What people see on the host row, by instruction; no_index, or a list that is shorter: the call's own
  /// name.
  std::vector<Index> names;

  Index name_of(std::size_t instruction) const {
    return instruction < names.size() ? names[instruction] : no_index;
  }
  void add(const Instruction& instruction, Index shown = no_index) {
    if (shown != no_index) {
      names.resize(instructions.size(), no_index);
      names.push_back(shown);
    }
    instructions.push_back(instruction);
  }
};

struct Program {
  std::vector<std::string> names;
  LargeVector<GpuOp> ops;
  LargeVector<OpInfo> info;  ///< Of each op.
  std::vector<Footprint> footprints;
  std::vector<CudaGraph> graphs;
  std::vector<Stream> streams;
  std::vector<std::string> events;   ///< Their names.
  std::vector<std::string> signals;  ///< Their names.
  std::vector<HostThread> threads;   ///< The first one marks the steps.
  std::vector<Distribution> distributions;
  std::vector<std::int64_t> sizes;  ///< Bytes that Allocate and Free name.
  std::uint64_t seed = 0;

  /// Adds an op; gives its index.
  Index add(const GpuOp& op, const OpInfo& about);

  /// Index of `name`, added if new. Linear in the number of names: for builders that know theirs, keep the
  /// index.
  Index intern(const std::string& name);
};

/// What of the hardware the engine needs to know.
struct Machine {
  /// Launched but not started entries of one stream; the host blocks at more.
  std::int32_t launch_queue_depth = 1024;
  /// From the end of one op to the start of the next of the same stream, by their classes. A negative value
  /// lets the later one start before the earlier one has ended (programmatic dependent launch), never before
  /// it has started.
  Picoseconds gap[gap_class_limit][gap_class_limit] = {};
  /// The same between the nodes of a CUDA graph.
  Picoseconds graph_gap[gap_class_limit][gap_class_limit] = {};
  /// The class that a whole CUDA graph has towards its neighbours in a stream.
  GapClass graph_class = 0;
  /// From the firing of an event until an op that waited for it starts.
  Picoseconds event_latency{0};
  /// How kernels of several streams share a device; all devices are alike.
  SharingMachine sharing;
};

/// Throws ProgramError naming the first thing that is wrong.
void check(const Program& program, const Machine& machine);

}  // namespace gpusim::engine
