// SPDX-License-Identifier: Apache-2.0
// The event loop. Internal to the engine: users call engine.hpp. docs/engine.md has the semantics in words.
//
// Actors are streams and host threads; each has at most one appointment in the agenda. A host instruction
// costs one event and a GPU op one: its end is known when it starts, so ends need no event of their own. The
// sink is a template parameter: without a timeline nothing is paid for one.
#pragma once

#include <algorithm>
#include <bit>
#include <vector>

#include "sim/engine/accounts.hpp"
#include "sim/engine/agenda.hpp"
#include "sim/engine/assertion.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/graph_schedule.hpp"
#include "sim/engine/ring.hpp"
#include "sim/engine/sharing.hpp"
#include "sim/engine/state_writer.hpp"
#include "sim/engine/step_lead.hpp"

namespace gpusim::engine {

/// Keeps nothing.
struct NullSink {
  void begin_step(std::size_t, Picoseconds) {}
  void end_call(std::size_t, Picoseconds) {}
  void op(const OpRecord&) {}
  Index begin_op(const OpRecord&) { return no_index; }
  void end_op(Index, Picoseconds) {}
  void memory(Picoseconds, std::int64_t) {}

  struct Writer {
    void op(const OpRecord&) {}
    void end_call(Picoseconds) {}
  };
  Writer writer(std::size_t, std::size_t) { return {}; }
  void take_back(const Writer&, std::size_t) {}
};

template <class Sink>
class Simulator {
 public:
  Simulator(const Program& program, const Machine& machine, Sink& sink);

  Run run(std::int64_t steps);
  Steady run_steady(const SteadyOptions& options);
  std::optional<Run> run_by_period(std::int64_t steps, std::int64_t instructions_max);
  /// Whether a launch call ever found its launch queue full.
  bool queue_was_full() const { return queue_was_full_; }
  void keep_idle_intervals(std::vector<IdleInterval>* intervals) { accounts_.keep_intervals(intervals); }

 private:
  /// The part of a launch that idle attribution walks back to.
  struct Origin {
    Picoseconds arrival{0};
    Picoseconds call_end{0};
    std::uint16_t thread = 0;
  };

  /// One call of Record on an event, from its call (or the first wait for it) until nobody refers to it any
  /// more.
  struct Instance {
    bool fired = false;  ///< `fire` is known; it may lie in the future.
    Picoseconds fire{0};
    Origin origin;
    std::uint32_t references = 0;
    std::vector<std::uint32_t> waiting_streams;
    std::vector<std::uint32_t> waiting_threads;
  };

  struct EventState {
    Index latest = no_index;  ///< Instance of the latest record call, or one that waits for the first.
    bool recorded = false;
    std::vector<std::uint32_t> recording_threads;  ///< Those whose instructions record it.
  };

  struct Entry {
    enum class Type : std::uint8_t { Op, Graph, Wait, Record };
    Type type = Type::Op;
    std::uint16_t attached_waits = 0;
    std::uint32_t graph_events = 0;  ///< Events that the CUDA graph records or waits for.
    Index object = no_index;         ///< Op or CUDA graph.
    Index instance = no_index;       ///< Wait, Record.
    Index instruction = no_index;
    Index call = no_index;
    std::int64_t step = 0;
    Origin origin;
  };

  /// An entry that left its queue; it counts as processed when it and all before it have ended.
  struct InFlight {
    Index running = no_index;
    bool ended = false;
  };

  /// An op on a shared device, from the moment it is ready.
  struct Running {
    std::uint32_t stream = 0;
    Index node = no_index;  ///< Of the CUDA graph that the stream runs, or no_index.
    Index record = no_index;
    Picoseconds start{0};
  };

  /// A CUDA graph whose times depend on what else happens: nodes that share the device, copy, or meet events.
  struct GraphRun {
    struct Ready {
      Picoseconds at;
      Index node;
      bool operator<(const Ready& other) const {
        return at != other.at ? at > other.at : node > other.node;  // for a heap with the earliest on top
      }
    };
    std::vector<std::uint32_t> left;    ///< Of each node: predecessors that have not ended.
    std::vector<Picoseconds> ready_at;  ///< So far.
    std::vector<StartCause> cause;      ///< What ready_at comes from.
    std::vector<Index> instance;        ///< Of events that it records or waits for.
    std::vector<Ready> ready;           ///< A heap.
    std::vector<Index> waiting;         ///< Nodes that wait for an event which has not fired.
    std::size_t not_ended = 0;          ///< Nodes whose end is not known.
    bool any_started = false;
    Picoseconds end{0};  ///< Of all nodes so far.
  };

  struct SyncWaiter {
    std::uint32_t thread = 0;
    std::uint64_t entries = 0;  ///< Released once the stream has processed so many.
  };

  struct StreamState {
    Ring<Entry> queue;
    Ring<Index> attached;      ///< Instances that launches in the queue carry, in order.
    Ring<Index> graph_events;  ///< Instances that CUDA graphs in the queue meet, in order of their nodes.
    Ring<std::uint32_t> blocked_threads;
    std::vector<SyncWaiter> waiters;
    std::int32_t waiting = 0;  ///< Entries that hold a place in the launch queue.
    std::uint64_t pushed = 0;
    std::uint64_t processed = 0;
    // The last op, for gaps and periods.
    bool has_last = false;
    GapClass last_class = 0;
    Picoseconds last_start{0};
    Picoseconds last_end{0};
    Picoseconds last_min_period{0};
    Picoseconds all_end{0};  ///< Completion of everything processed so far.
    // What later ops must not start before: the latest event waited for, and the latest wait's own arrival.
    Picoseconds barrier{0};
    Picoseconds barrier_fire{0};
    Origin barrier_origin;
    bool has_barrier = false;
    Picoseconds floor{0};
    Origin floor_origin;
    // The head of the queue.
    bool head_taken = false;
    Picoseconds taken_at{0};
    bool engine_reserved = false;
    Picoseconds reserved_duration{0};
    // Ops that share their device: their ends are not known before they come.
    bool submitted = false;    ///< The head of the queue is ready and waits for room on the device.
    Ring<InFlight> in_flight;  ///< Entries that left the queue and have not ended, and those after them.
    // A CUDA graph that is running.
    bool dynamic = false;  ///< Its times are found out node by node: graph_run.
    GraphRun graph_run;
    bool in_graph = false;
    std::size_t next_node = 0;
    Picoseconds graph_start{0};
    const std::vector<ScheduledNode>* schedule = nullptr;
    std::vector<ScheduledNode> drawn_schedule;
  };

  enum class ThreadPhase : std::uint8_t {
    Ready,          ///< At the start of the next instruction.
    Insert,         ///< In a launch call, about to look for a place in the queue.
    QueueFull,      ///< Blocked there.
    Completing,     ///< At the end of a call whose effect comes then.
    Waiting,        ///< Blocked in a synchronisation or a blocking launch.
    Awaiting,       ///< Blocked until a signal.
    AheadOfOthers,  ///< Blocked at the start of a step because another thread is too many steps behind.
    Done,
  };

  struct ThreadState {
    std::size_t pc = 0;
    std::int64_t step = 0;
    ThreadPhase phase = ThreadPhase::Ready;
    std::uint64_t executed = 0;  ///< Instructions.
    Picoseconds call_start{0};
    Picoseconds blocked_since{0};
    Picoseconds completion{0};  ///< Of what it waits for, so far.
    std::uint32_t open_waits = 0;
    Picoseconds end{0};
    std::vector<std::pair<std::uint16_t, Index>>
        attached;  ///< Stream and instance of waits that ride on a launch.
  };

  struct SignalState {
    std::int64_t count = 0;
    bool awaited = false;  ///< By some instruction; otherwise the count matters to nobody.
    Ring<std::uint32_t> waiting_threads;
  };

  // Actors: streams, then devices if kernels share them, then threads.
  std::size_t device_actor(std::size_t device) const { return streams_.size() + device; }
  std::size_t thread_actor(std::size_t thread) const { return streams_.size() + devices_.size() + thread; }
  void set_stream(std::size_t stream, Picoseconds when) { agenda_.set(stream, when, Agenda::Phase::Stream); }
  void set_thread(std::size_t thread, Picoseconds when) {
    agenda_.set(thread_actor(thread), when, Agenda::Phase::Host);
  }

  void note_recording(Index event, std::uint32_t thread);
  void begin(std::int64_t steps);
  void loop();
  void check_finished() const;
  std::string waits_of_thread(std::size_t thread) const;
  std::string waits_of_stream(std::size_t stream) const;
  Run finish();

  // Host.
  void run_thread(std::size_t thread);
  bool execute(std::size_t thread);  ///< One instruction; false if the thread blocked or has an appointment.
  void step_boundary(std::size_t thread);
  void advance_slowest(std::size_t thread);
  void put(std::size_t thread, const Instruction& instruction);
  void insert(std::size_t thread, const Instruction& instruction, Picoseconds arrival, Picoseconds call_end);
  void call_done(std::size_t thread, Picoseconds end);
  void resume_waiting(std::size_t thread);
  void wait_for_stream(std::size_t thread, std::size_t stream);
  void log(std::size_t thread, Picoseconds start, Picoseconds end, HostState state,
           std::uint16_t signaller = 0) {
    accounts_.host(thread, start, end, state, signaller);
  }
  static bool takes_place(const Instruction& instruction) {
    return instruction.call != Call::Record &&
           !(instruction.call == Call::StreamWait && instruction.attached);
  }

  // Events.
  Index new_instance();
  void release(Index instance);
  Index instance_to_record(Index event);
  Index instance_to_wait_for(Index event, std::size_t thread);  ///< no_index: nothing to wait for.
  void resolve(Index instance, Picoseconds fire, const Origin& origin);

  // Device.
  void settle(std::size_t stream);  ///< Makes the appointment of the head of the queue.
  void run_stream(std::size_t stream);
  Picoseconds take_time(const StreamState& stream, const Entry& entry) const;
  bool pass_barrier(StreamState& stream, std::size_t index, Index instance);  ///< False: not known yet.
  void start_op(StreamState& stream, std::size_t index, Picoseconds duration);
  void start_graph(StreamState& stream, std::size_t index);
  void start_node(StreamState& stream, std::size_t index);
  void finish_entry(StreamState& stream);
  void leave_queue(StreamState& stream);
  void entry_processed(StreamState& stream);
  bool engine_is_free(std::size_t stream, const GpuOp& op, Picoseconds duration, Picoseconds& start);

  // Sharing.
  bool shares(Index op) const { return sharing_ && program_.info[op].footprint != no_index; }
  void submit(std::size_t stream, Index op, Index node, Picoseconds duration);
  void run_device(std::size_t device);
  void apply_changes(std::size_t device);
  void shared_op_started(Index running);
  void shared_op_ended(Index running);

  // CUDA graphs whose times are not known beforehand.
  void start_dynamic_graph(StreamState& stream, std::size_t index);
  void run_graph(StreamState& stream, std::size_t index);
  void run_node(StreamState& stream, std::size_t index, Index node);
  void node_started(StreamState& stream, std::size_t index, Index node);
  void node_ended(StreamState& stream, Index node, Picoseconds start, Picoseconds end,
                  const StartCause& cause);
  void settle_graph(StreamState& stream, std::size_t index);
  Picoseconds duration_of(const GpuOp& op, const Entry& entry, Index node) const;

  StartCause cause_of(const StreamState& stream, const Entry& entry) const;

  // Steady state.
  struct Snapshot {
    std::int64_t step = 0;
    Picoseconds now{0};
    Totals totals;
    std::int64_t allocated = 0;
  };
  bool repeats(std::int64_t step);
  void skip_periods(std::int64_t step);
  Snapshot snapshot(std::int64_t step) const;
  void scalar_state(std::vector<std::int64_t>& state) const;
  void full_state(std::vector<std::int64_t>& state) const;

  const Program& program_;
  const Machine& machine_;
  Sink& sink_;
  Agenda agenda_;
  std::vector<StreamState> streams_;
  std::vector<ThreadState> threads_;
  std::vector<EventState> events_;
  std::vector<Instance> instances_;
  std::vector<Index> free_instances_;
  std::vector<SignalState> signals_;
  std::vector<std::vector<ScheduledNode>> graph_schedules_;
  std::vector<bool> graph_is_random_;
  std::vector<Picoseconds> graph_free_;  ///< End of the latest replay: two of one graph never overlap.
  struct GraphShape {
    bool dynamic = false;  ///< Its times depend on what else happens.
    bool running = false;
    Ring<std::uint32_t> waiting_streams;  ///< Those with a replay ready.
    std::vector<std::vector<Index>> successors;
  };
  std::vector<GraphShape> graph_shapes_;
  bool sharing_ = false;
  bool negative_gaps_ = false;
  std::vector<SharedDevice> devices_;  ///< None if kernels do not share them.
  std::vector<Running> running_;
  std::vector<Index> free_running_;  ///< Largest first, so that numbers stay small and the same.
  std::vector<SharedDevice::Change> changes_;
  std::vector<Picoseconds> engine_free_;  ///< By device and copy engine; the last one takes peer copies in.
  static constexpr std::size_t engines_per_device = copy_engine_count + 1;
  std::vector<std::vector<std::uint32_t>> device_streams_;
  Picoseconds largest_gap_{0};

  Picoseconds now_{0};
  std::int64_t steps_target_ = 1;
  std::int64_t slowest_step_ = 0;
  std::size_t marker_ = 0;  ///< The first thread that does anything: it marks the steps.
  bool stop_ = false;
  bool random_ = false;

  Accounts accounts_;
  Totals& totals_ = accounts_.totals;
  std::int64_t allocated_ = 0;
  std::int64_t peak_ = 0;
  std::int32_t queue_length_max_ = 0;
  bool queue_was_full_ = false;
  std::int64_t instructions_executed_ = 0;

  // Of run_by_period.
  std::int64_t skip_instructions_max_ = 0;  ///< Look for a repetition until then.
  std::int64_t skipped_ = 0;                ///< Periods.
  Totals skipped_period_;
  std::int64_t peak_since_saved_ = 0;

  // Of run_steady.
  const SteadyOptions* steady_options_ = nullptr;
  Steady steady_;
  Snapshot saved_;  ///< The boundary whose state is kept in saved_state_.
  std::size_t saved_scalars_ = 0;
  std::vector<std::int64_t> saved_state_;
  std::vector<std::int64_t> scratch_state_;
};

}  // namespace gpusim::engine
