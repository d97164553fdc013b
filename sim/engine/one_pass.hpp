// SPDX-License-Identifier: Apache-2.0
// The engine's fast path. Internal to the engine: users call engine.hpp.
//
// Where host threads take turns, each awaiting the other's signal, or there is but one, and nothing on the
// device depends on which of two things comes first, no event queue is needed: in the order of the calls,
// every time is a maximum of sums of earlier ones. One pass over the instructions computes them; ops of
// several streams are put in order of time before they are accounted for. Same semantics and same bytes as
// Simulator (tests/property/engine_one_pass_test.cpp); what this path cannot do it finds out on the way, and
// the caller starts again with Simulator.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "sim/engine/accounts.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/graph_schedule.hpp"
#include "sim/engine/ring.hpp"
#include "sim/engine/state_writer.hpp"
#include "sim/engine/step_lead.hpp"
#include "sim/engine/take_times.hpp"

namespace gpusim::engine {

/// Whether kernels might slow each other down: then ends are not known at starts.
bool may_share(const Program& program, const Machine& machine);

template <class Sink>
class OnePass {
 public:
  OnePass(const Program& program, const Machine& machine, Sink& sink)
      : program_(program),
        machine_(machine),
        sink_(sink),
        accounts_(program.threads.size()),
        streams_(program.streams.size()),
        events_(program.events.size()),
        graphs_(program.graphs.size()),
        threads_(program.threads.size()),
        signals_(program.signals.size()) {}

  /// All steps; nothing if the program needs the general engine, is wrong, or runs too long.
  std::optional<Run> run(std::int64_t steps);
  /// The step that repeats, of a program with one stream; nothing if the program needs the general engine or
  /// does not repeat within the limits.
  std::optional<Steady> run_steady(const SteadyOptions& options);
  /// Whether a launch queue may have been full.
  bool queue_was_full() const { return queue_length_max_ == machine_.launch_queue_depth; }

 private:
  /// An event that has been recorded.
  struct Fire {
    Picoseconds at{0};
    Picoseconds call_end{0};  ///< Of the record.
    bool late = false;        ///< It fired when the record arrived.
  };

  struct EventState {
    bool recorded = false;
    bool known_to_be_recorded_later = false;
    Fire fire;
  };

  /// What the next launch into a stream looks at.
  struct Tail {
    Picoseconds end = -time_max;  ///< Of the ops before; long ago if there was none.
    /// Nothing starts before: the latest wait, the latest event waited for, the minimum period of the op
    /// before.
    Picoseconds not_before{0};
    GapClass op_class = 0;  ///< Of the op before.
  };

  struct alignas(64) StreamState {
    // What every launch reads and writes: one cache line.
    Tail tail;
    bool attached_open = false;  ///< Waits ride on the next launch;
    bool has_attached = false;   ///< some of them for an event that has been recorded: `attached`.
    bool has_barrier = false;
    Picoseconds held_until{0};  ///< The later of `barrier` and `floor`.
    TakeTimes taken;            ///< Of the launch queue.

    Picoseconds barrier{-1};  ///< The latest event waited for, with the event latency.
    Fire barrier_fire;
    Picoseconds floor{0};  ///< The latest wait is taken.
    Picoseconds floor_call_end{0};
    Picoseconds done{0};  ///< Completion of the latest wait or record.
    Fire attached;        ///< The latest of the events that waits ride on the next launch for.

    /// Completion of everything so far.
    Picoseconds all_end() const { return std::max(done, tail.end); }
  };

  /// The device is busy from `start` to `end`, in picoseconds; none if start is negative.
  struct Stretch {
    std::int64_t start = -1;
    std::int64_t end = -1;
    std::uint16_t stream = 0;
    StartCause cause;
  };

  struct GraphState {
    Index stream = no_index;  ///< The only one that it is launched into.
    bool random = false;
    std::vector<ScheduledNode> schedule;
    Picoseconds free{0};  ///< End of the latest replay.
    // Of a replay on an idle device, from its start.
    bool summed = false;
    Accounts::Additions sums;
    Counts counts;
  };

  /// Where a call that puts something into a stream found its place.
  struct Placed {
    Picoseconds arrival;
    Picoseconds call_end;
  };

  /// A host thread.
  struct ThreadState {
    // Of one that does not run; of the one that does they stand in the members of the same names.
    std::size_t pc = 0;
    std::int64_t step = 0;
    std::uint64_t executed = 0;
    Picoseconds now{0};  ///< Since when it waits, or its end.
    bool waits = false;  ///< For a signal.
  };
  struct SignalState {
    std::int64_t count = 0;
    std::size_t waiting = none;  ///< The thread that awaits it.
    bool awaited = false;        ///< By some instruction; otherwise the count matters to nobody.
  };
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  /// What the machine was like at a boundary between steps.
  struct Kept {
    std::int64_t step = 0;
    Picoseconds now{0};
    Picoseconds lead{0};  ///< Of the device: when it will be idle, from now.
    Totals totals;
    std::vector<std::int64_t> state;
  };

  bool begin();
  template <bool several>
  bool take_turns(std::int64_t steps);
  template <bool several>
  bool run_thread(std::int64_t steps);
  bool begin_waiting(std::size_t thread);
  bool await(const Instruction& instruction);
  bool signal(const Instruction& instruction);
  void go_on_with(std::size_t thread);
  void pause();
  bool is_far_ahead() const;
  bool boundary();
  bool repeats();
  void write_state(std::vector<std::int64_t>& state) const;
  template <bool several>
  const Instruction* launch_plain(const Instruction* at, const Instruction* end);
  template <bool several>
  const Instruction* plain_until(const Instruction* at, const Instruction* end) const;
  bool execute(const Instruction& instruction);
  bool wait(const Instruction& instruction);
  void record(StreamState& stream, EventState& event, Picoseconds arrival, Picoseconds call_end);
  void attach(StreamState& stream, const EventState& event);
  bool launch_op(const Instruction& instruction);
  bool launch_graph(const Instruction& instruction);
  void sum_up(GraphState& state, const CudaGraph& graph) const;
  void replay(const Instruction& instruction, GraphState& state, Picoseconds start, const Placed& placed);
  void synchronize(const Instruction& instruction, Picoseconds completion);
  bool recorded_by_thread(Index event);

  Picoseconds pass_attached(StreamState& stream, Picoseconds taken);
  void launch_done(const Instruction& instruction, const StreamState& stream, Picoseconds call_end);
  Placed place(const Instruction& instruction, bool takes_place);
  void take(StreamState& stream, Picoseconds at);
  void lengthen_queue();
  void pass_barrier(StreamState& stream, const Fire& fire);
  Picoseconds take_time(const StreamState& stream, Picoseconds arrival, Picoseconds gap) const;
  Picoseconds gap_to(const StreamState& stream, const GpuOp& op, GapClass op_class) const {
    return op.gap_before == gap_from_table ? machine_.gap[stream.tail.op_class][op_class] : op.gap_before;
  }
  StartCause cause_of(const StreamState& stream, Picoseconds start, const Placed& placed) const;
  void started(std::uint16_t stream, const OpRecord& record, const StartCause& cause,
               Picoseconds later_start);
  void put(const Stretch& stretch, std::int64_t later_start);
  void settle(std::int64_t later_start);
  void account(const Stretch& stretch);
  void call_done(Picoseconds end) {
    sink_.end_call(thread_, end);
    ++executed_;
    now_ = end;
  }
  Index call_number() const { return static_cast<Index>(executed_ * program_.threads.size() + thread_); }
  Picoseconds duration_of(const GpuOp& op, Index node) const {
    if (op.distribution == no_index) return op.duration;
    const std::uint64_t where = (static_cast<std::uint64_t>(thread_) << 32) | static_cast<std::uint64_t>(pc_);
    return draw(program_.distributions[op.distribution],
                mix(program_.seed, static_cast<std::uint64_t>(step_), where, node));
  }
  void log(Picoseconds start, Picoseconds end, HostState state) {
    accounts_.host(thread_, start, end, state);
  }

  const Program& program_;
  const Machine& machine_;
  Sink& sink_;
  Accounts accounts_;
  std::vector<StreamState> streams_;
  // If the program has several streams: what starts on an idle device, as far as is known, and whose turn in
  // the order of time has not come. Nearly always there is one; next_ is empty while there are more.
  Stretch next_;
  std::vector<Stretch> later_;      ///< In order of start; none touches another.
  std::size_t settled_ = 0;         ///< So many of the first are accounted for.
  std::int64_t attached_open_ = 0;  ///< Streams with waits that ride on the next launch.
  std::vector<EventState> events_;
  std::vector<GraphState> graphs_;
  struct EngineState {
    Index stream = no_index;  ///< The only one that copies with it.
    Picoseconds free{0};
  };
  std::array<EngineState, copy_engine_count> engines_;
  std::vector<ThreadState> threads_;
  std::vector<SignalState> signals_;
  std::size_t thread_ = 0;          ///< The one that runs.
  std::size_t next_thread_ = none;  ///< The one whose turn comes when this one waits.
  std::size_t marker_ = none;       ///< The first thread that does anything: it marks the steps.
  std::size_t threads_used_ = 0;
  std::size_t pc_ = 0;
  std::int64_t step_ = 0;
  std::uint64_t executed_ = 0;
  Picoseconds now_{0};
  std::int64_t allocated_ = 0;
  std::int64_t peak_ = 0;
  std::int32_t queue_length_max_ = 0;
  bool gaps_are_short_ = false;
  bool too_long_ = false;

  // Of run_steady.
  const SteadyOptions* steady_options_ = nullptr;
  Picoseconds largest_gap_{0};
  bool stop_ = false;
  Steady steady_;
  Kept kept_;
  std::vector<std::int64_t> state_;
};

}  // namespace gpusim::engine
