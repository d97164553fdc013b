// SPDX-License-Identifier: Apache-2.0
// A profiler trace (PyTorch Kineto, Chrome trace events) as plain tables with exact times.
//
// Times are picoseconds after `Trace::base`, taken from the decimal text of the file and never through a
// double: a ts of 1712195495505583.011 us loses nothing. Events are listed in the order of the file, which
// need not be that of time. Streams, threads and names are dense indices in the order of their first use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "models/units/quantity.hpp"

namespace gpusim {

/// A point on the clock of the profiled machine: whole microseconds, and 0 to 999,999 picoseconds more.
/// Microseconds since 1970 with picoseconds after the point do not fit a 64-bit count of picoseconds.
struct TraceClock {
  std::int64_t microseconds = 0;
  std::int32_t picoseconds = 0;
  auto operator<=>(const TraceClock&) const = default;
};

inline constexpr std::uint32_t trace_none = std::numeric_limits<std::uint32_t>::max();

enum class TraceOpKind : std::uint8_t { Kernel, Memcpy, Memset };

/// A kernel, copy or memset that ran on a device.
struct TraceOp {
  Picoseconds start{0};
  Picoseconds end{0};
  std::uint32_t name = trace_none;    ///< Into Trace::names.
  std::uint32_t stream = trace_none;  ///< Into Trace::streams.
  TraceOpKind kind = TraceOpKind::Kernel;
  std::optional<std::int64_t> correlation;     ///< Of the runtime call that launched it.
  std::optional<std::int64_t> graph;           ///< args "graph id": the CUDA graph it is a node of.
  std::optional<std::int64_t> graph_node;      ///< args "graph node id".
  std::int64_t bytes = 0;                      ///< Of copies and memsets; 0 where not stated.
  std::array<std::int64_t, 3> grid{0, 0, 0};   ///< Blocks; zeros where not stated. On AMD: work-items.
  std::array<std::int64_t, 3> block{0, 0, 0};  ///< Threads of a block; zeros where not stated.
  std::int64_t registers = 0;                  ///< Per thread; 0 where not stated.
  std::int64_t shared_memory = 0;              ///< Bytes per block; 0 where not stated.
  std::int64_t external_id = -1;               ///< Of the host op that launched it; -1 where not stated.
  std::uint32_t collective = trace_none;       ///< Into Trace::collectives.
  std::int32_t occupancy_percent = -1;         ///< The profiler's estimate; -1 where not stated.

  Picoseconds duration() const { return end - start; }
  std::int64_t blocks() const { return grid[0] * grid[1] * grid[2]; }
  std::int64_t threads() const { return block[0] * block[1] * block[2]; }
};

/// A (device, stream) pair that ran at least one op or that a synchronisation record names.
struct TraceStream {
  std::string device;              ///< args.device, else pid, as text.
  std::string name;                ///< args.stream, else tid, as text.
  std::uint32_t device_index = 0;  ///< Dense; into Trace::devices.
};

enum class TraceCallKind : std::uint8_t {
  KernelLaunch,
  GraphLaunch,
  MemcpyCall,
  MemsetCall,
  SynchronizeDevice,  ///< cudaDeviceSynchronize, and the Ctx, Context and Thread forms.
  SynchronizeStream,
  SynchronizeEvent,
  EventRecord,
  StreamWaitEvent,
  Other,
};

/// A call of the CUDA or HIP runtime or driver on a host thread.
struct TraceCall {
  Picoseconds start{0};
  Picoseconds end{0};
  std::uint32_t name = trace_none;
  std::uint32_t thread = trace_none;  ///< Into Trace::threads.
  TraceCallKind kind = TraceCallKind::Other;
  bool driver = false;  ///< Of category cuda_driver (hip_driver) rather than cuda_runtime.
  std::optional<std::int64_t> correlation;
  std::int64_t external_id = -1;  ///< Of the host op that called; -1 where not stated.

  Picoseconds duration() const { return end - start; }
};

/// A host thread with at least one call, op or annotation.
struct TraceThread {
  std::string process;  ///< pid as text.
  std::string thread;   ///< tid as text.
  std::string name;     ///< From a thread_name record; empty where there is none.
};

/// One input of an op, as a trace with record_shapes tells it.
struct TraceInput {
  std::string type;  ///< "float", "c10::BFloat16", "Scalar", "TensorList", ...; empty where not stated.
  /// Of a tensor one shape (an empty one for a tensor without dimensions), of a list of tensors one for each,
  /// of anything else none.
  std::vector<std::vector<std::int64_t>> shapes;
  std::vector<std::vector<std::int64_t>> strides;  ///< Of `shapes`, in elements; empty where not stated.
  std::string value;                               ///< "Concrete Inputs": "1", "[2, 3]"; empty for tensors.

  friend bool operator==(const TraceInput&, const TraceInput&) = default;
};

/// What a collective kernel was asked for.
struct TraceCollective {
  std::string name;               ///< "allreduce", "all_gather", ...
  std::string dtype;              ///< "Float", "BFloat16", ...
  std::string group;              ///< "Process Group Name".
  std::int64_t in_elements = -1;  ///< -1 where not stated, as in the next two.
  std::int64_t out_elements = -1;
  std::int64_t group_size = -1;

  friend bool operator==(const TraceCollective&, const TraceCollective&) = default;
};

/// An op of the framework ("aten::mm") or an annotation on a host thread.
struct TraceSpan {
  Picoseconds start{0};
  Picoseconds end{0};
  std::uint32_t name = trace_none;
  std::uint32_t thread = trace_none;
  std::uint32_t depth =
      0;  ///< Number of spans of the same table and thread that enclose this one; 0: top level.
  std::uint32_t inputs = trace_none;  ///< Into Trace::inputs.
  std::int64_t external_id = -1;      ///< -1 where not stated, as in the next two.
  std::int64_t sequence = -1;         ///< "Sequence number": a backward op bears that of its forward op.
  std::int64_t forward_thread = -1;   ///< "Fwd thread id": not 0 for a backward op.

  Picoseconds duration() const { return end - start; }
};

/// A ProfilerStep#N annotation on the host.
struct TraceStep {
  Picoseconds start{0};
  Picoseconds end{0};
  std::uint32_t name = trace_none;
  std::uint32_t thread = trace_none;
  std::int64_t number = -1;  ///< N; -1 where the name has none.

  Picoseconds duration() const { return end - start; }
};

enum class TraceSyncKind : std::uint8_t { Context, Stream, Event, StreamWaitEvent, EventRecord, Other };

/// A record of category cuda_sync (who waited for what) or cuda_event (where an event was recorded). These
/// say what the runtime calls leave out: streams and events. `correlation` is that of the runtime call.
struct TraceSync {
  Picoseconds start{0};
  Picoseconds end{0};
  std::uint32_t name = trace_none;
  std::uint32_t stream = trace_none;  ///< The stream that waits, or in which the event is recorded.
  TraceSyncKind kind =
      TraceSyncKind::Other;  ///< EventRecord: a cuda_event. The rest: by cuda_sync_kind, else by name.
  std::optional<std::int64_t> correlation;
  std::uint32_t wait_on_stream =
      trace_none;                     ///< StreamWaitEvent, Event: the stream in which the event was recorded.
  std::optional<std::int64_t> event;  ///< event_id, or wait_on_cuda_event_id.
  std::optional<std::int64_t> record_correlation;  ///< wait_on_cuda_event_record_corr_id: the recording call.
};

/// One entry of deviceProperties; 0 or empty where not stated.
struct TraceDevice {
  std::string id;
  std::string name;
  std::int64_t sms = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t compute_major = 0;
  std::int64_t compute_minor = 0;
  std::int64_t warp_size = 0;
  std::int64_t shared_memory_per_sm = 0;
  std::int64_t registers_per_sm = 0;
  std::int64_t threads_per_sm = 0;
};

struct Trace {
  std::string file;  ///< As given.
  TraceClock base;   ///< The moment that is 0 in all tables: the earliest start kept.
  std::vector<std::string> names;
  std::vector<TraceOp> ops;
  std::vector<TraceStream> streams;
  std::vector<std::string> devices;  ///< Those of `streams`, as text.
  std::vector<TraceCall> calls;
  std::vector<TraceThread> threads;
  std::vector<TraceSync> syncs;
  std::vector<TraceStep> steps;
  std::vector<TraceSpan> cpu_ops;
  std::vector<TraceSpan> annotations;           ///< user_annotation spans on the host, steps apart.
  std::vector<std::vector<TraceInput>> inputs;  ///< Of ops: equal lists once, in the order of first use.
  std::vector<TraceCollective> collectives;     ///< Of kernels, equal ones once.
  std::int64_t rank = -1;                       ///< distributedInfo; -1 where not stated.
  std::int64_t world_size = -1;
  std::vector<TraceDevice>
      device_properties;           ///< Of all devices of the machine, whether or not they ran anything.
  std::size_t events = 0;          ///< Entries of traceEvents, of whatever sort.
  std::size_t invalid_events = 0;  ///< GPU ops, calls and steps without a usable ts or dur; left out.
  std::size_t dropped_spans =
      0;  ///< Host spans and sync records without usable times, or too far from the others.
  /// "invalid utf-8", "unescaped backslash", "control character", "damaged events left out", "truncated"; and
  /// "no traceEvents" where an object has no such member.
  std::vector<std::string> repairs;
  std::uint64_t lost_bytes = 0;  ///< Of the text, in damaged events or behind the last whole one.
  std::uint64_t lost_at = 0;     ///< The first of them.
  std::uint64_t text_bytes = 0;  ///< All of the text; 0 where none is lost.

  const std::string& name_of(std::uint32_t index) const { return names[index]; }
};

/// How much a trace may ask for. Each limit is named in the error that it causes.
struct TraceLimits {
  std::uint64_t file_bytes = std::uint64_t{16} << 30;      ///< Size of the file as stored.
  std::uint64_t expanded_bytes = std::uint64_t{16} << 30;  ///< Size of the JSON text.
  /// The same of a text that has to be in memory as a whole: one that is damaged, or comes through a pipe.
  std::uint64_t whole_bytes = std::uint64_t{3} << 30;
  double expansion_ratio =
      300;          ///< Of JSON text to gzip data, from 64 MiB of text on. Traces reach about 30.
  int depth = 256;  ///< Of nested JSON values.
};

/// Told of the way through a file: bytes taken of it, and its size.
using TraceProgress = std::function<void(std::uint64_t taken, std::uint64_t size)>;

/// A file that is not a trace, or beyond a limit. what() reads "file:line:column: error: message", with line
/// and column of the JSON text, or "file: error: message" where no place in the text is to blame.
class TraceError : public std::runtime_error {
 public:
  static constexpr std::uint64_t nowhere = std::numeric_limits<std::uint64_t>::max();
  struct Place {
    std::uint64_t byte = nowhere;  ///< Into the JSON text, or into the gzip data.
    std::uint64_t line = 0;        ///< From 1; 0 where unknown.
    std::uint64_t column = 0;      ///< In bytes, from 1; 0 where unknown.
  };
  TraceError(std::string path, Place place, const std::string& message);

  const std::string& path() const { return path_; }
  std::uint64_t byte_offset() const { return place_.byte; }
  const Place& place() const { return place_; }
  const std::string& message() const { return message_; }

 private:
  std::string path_;
  Place place_;
  std::string message_;
};

/// Reads a trace file, plain or gzip (told apart by content), piece by piece: beside the tables some hundred
/// kB are needed. Damage that people meet is repaired and listed in Trace::repairs; for that the text is read
/// once more, as a whole. Throws TraceError.
Trace read_trace(const std::string& path, const TraceLimits& limits = {}, const TraceProgress& progress = {});

/// The same from memory; `name` stands for the path in errors and in Trace::file.
Trace read_trace_bytes(std::string_view bytes, const std::string& name = "<memory>",
                       const TraceLimits& limits = {});

}  // namespace gpusim
