// SPDX-License-Identifier: Apache-2.0
// Simulator: finding the step that repeats. Included by engine.cpp.
//
// At every boundary of a step of the first thread that does anything the whole state of the machine is
// written down relative to now: what the future depends on, and nothing else (not the memory in use, which no
// time depends on). Two equal states mean that everything between them repeats for ever. Brent's method finds
// the repetition with one kept state: it is replaced at boundaries 1, 2, 4, 8, ...

namespace gpusim::engine {

template <class Sink>
void Simulator<Sink>::step_boundary(std::size_t thread) {
  const std::int64_t step = threads_[thread].step;
  if (skip_instructions_max_ > 0) skip_periods(step);
  if (steady_options_ == nullptr) return;
  // Nothing will ever run on the device: its idle time is explained here.
  if (program_.ops.empty()) accounts_.explain_by_host(thread, now_);
  accounts_.settle(now_);
  if (!random_ && repeats(step)) {
    steady_.exact = true;
    steady_.period = totals_ - saved_.totals;
    steady_.period.steps = step - saved_.step;
    steady_.period.wall = now_ - saved_.now;
    steady_.warmup_steps = saved_.step;
    stop_ = true;
    return;
  }
  const bool enough = (step >= 16 && instructions_executed_ >= steady_options_->instructions_max) ||
                      (step >= 2 && now_ > time_max / 4);
  if (enough || step >= steady_options_->steps_max) stop_ = true;
  steady_.warmup_steps = step;
}

/// Whether the state is that of the boundary that is kept; keeps this one if it is time to.
template <class Sink>
bool Simulator<Sink>::repeats(std::int64_t step) {
  scratch_state_.clear();
  scalar_state(scratch_state_);
  const std::size_t scalars = scratch_state_.size();
  if (saved_.step > 0 && scalars == saved_scalars_ &&
      std::equal(scratch_state_.begin(), scratch_state_.end(), saved_state_.begin())) {
    full_state(scratch_state_);
    if (scratch_state_ == saved_state_) return true;
  }
  if (std::has_single_bit(static_cast<std::uint64_t>(step))) {
    scratch_state_.resize(scalars);
    full_state(scratch_state_);
    saved_state_ = scratch_state_;
    saved_scalars_ = scalars;
    saved_ = snapshot(step);
    peak_since_saved_ = allocated_;
  }
  return false;
}

/// Leaves out as many whole periods as there are before the last step.
template <class Sink>
void Simulator<Sink>::skip_periods(std::int64_t step) {
  if (instructions_executed_ > skip_instructions_max_) {
    stop_ = true;
    return;
  }
  accounts_.settle(now_);
  if (!repeats(step)) return;
  skip_instructions_max_ = 0;
  const std::int64_t period = step - saved_.step;
  // Other threads may be some steps ahead of the one that marks them.
  const std::int64_t lead = threads_.size() > 1 ? step_lead_max + 1 : 0;
  skipped_ = std::max<std::int64_t>(0, (steps_target_ - step - lead) / period);
  skipped_period_ = totals_ - saved_.totals;
  skipped_period_.steps = period;
  skipped_period_.wall = now_ - saved_.now;
  steps_target_ -= skipped_ * period;
  if (skipped_ == 0) return;
  if (skipped_period_.wall > Picoseconds(0) && skipped_ > (time_max - now_) / skipped_period_.wall)
    throw TimeLimitError("more than 26 days of simulated time (time_max)");
  // A step that leaks: what is allocated grows with every period.
  const std::int64_t leaked = allocated_ - saved_.allocated;
  peak_ = std::max(peak_, peak_since_saved_ + skipped_ * std::max<std::int64_t>(0, leaked));
  allocated_ += skipped_ * leaked;
}

template <class Sink>
std::optional<Run> Simulator<Sink>::run_by_period(std::int64_t steps, std::int64_t instructions_max) {
  if (random_) return std::nullopt;
  while (marker_ < threads_.size() && program_.threads[marker_].instructions.empty()) ++marker_;
  if (marker_ == threads_.size()) return std::nullopt;
  skip_instructions_max_ = instructions_max;
  begin(steps);
  loop();
  if (stop_) return std::nullopt;
  Run result = finish();
  for (Totals* totals : {&result.totals, &result.window}) *totals = add(*totals, skipped_period_, skipped_);
  result.last_op_end += skipped_ * skipped_period_.wall;
  return result;
}

template <class Sink>
typename Simulator<Sink>::Snapshot Simulator<Sink>::snapshot(std::int64_t step) const {
  return {.step = step, .now = now_, .totals = totals_, .allocated = allocated_};
}

/// The cheap part: if it differs, the rest need not be looked at.
template <class Sink>
void Simulator<Sink>::scalar_state(std::vector<std::int64_t>& state) const {
  StateWriter out(state, now_);
  out.add_time(accounts_.busy_until(), Picoseconds::min());
  for (const StreamState& stream : streams_) {
    out.add(static_cast<std::int64_t>(stream.queue.size()));
    out.add(stream.waiting);
    out.add_time(stream.last_end, -largest_gap_);
  }
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    const ThreadState& thread = threads_[i];
    out.add(static_cast<std::int64_t>(thread.phase));
    // The first thread's count is taken before the slowest one's is brought up to date: both stand still
    // here.
    out.add(program_.threads[i].instructions.empty() ? 0 : thread.step - threads_[marker_].step);
    out.add(static_cast<std::int64_t>(thread.pc %
                                      std::max<std::size_t>(1, program_.threads[i].instructions.size())));
    const Picoseconds next = agenda_.time_of(thread_actor(i));
    out.add(next == Agenda::never ? -1 : (next - now_).count());
  }
}

template <class Sink>
void Simulator<Sink>::full_state(std::vector<std::int64_t>& state) const {
  StateWriter out(state, now_);
  // Instances are told apart by the order in which this walk meets them.
  std::vector<Index> met;
  const auto add_instance = [&](Index index) {
    if (index == no_index) {
      out.add(-1);
      return;
    }
    const auto found = std::find(met.begin(), met.end(), index);
    out.add(found - met.begin());
    if (found != met.end()) return;
    met.push_back(index);
    const Instance& instance = instances_[index];
    out.add(instance.fired ? 1 : 0);
    if (!instance.fired) return;
    // Long past fires are all alike. Idle time is walked back to the last op's end and no further.
    const Picoseconds horizon =
        std::min(Picoseconds(0), accounts_.busy_until() - now_) - machine_.event_latency;
    out.add_time(instance.fire, horizon);
    out.add_time(instance.origin.arrival, horizon);
    out.add_time(instance.origin.call_end, horizon);
    out.add(instance.origin.thread);
  };
  const Picoseconds open_idle = std::min(Picoseconds(0), accounts_.busy_until() - now_);
  for (const EventState& event : events_) {
    out.add(event.recorded ? 1 : 0);
    add_instance(event.latest);
  }
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const StreamState& stream = streams_[i];
    out.add(stream.has_last ? 1 : 0);
    const bool gap_may_bind = stream.last_end - now_ > -largest_gap_;
    out.add(gap_may_bind ? stream.last_class : -1);
    out.add_time(std::max(stream.last_start, stream.last_start + stream.last_min_period));
    out.add_time(stream.all_end);
    out.add_time(stream.barrier, open_idle);
    out.add_time(stream.floor, open_idle);
    out.add(stream.head_taken ? 1 : 0);
    out.add(stream.engine_reserved ? stream.reserved_duration.count() : -1);
    out.add(stream.in_graph ? static_cast<std::int64_t>(stream.next_node) : -1);
    out.add(stream.submitted ? 1 : 0);
    for (std::size_t j = 0; j < stream.in_flight.size(); ++j) {
      out.add(stream.in_flight[j].running == no_index
                  ? -1
                  : static_cast<std::int64_t>(stream.in_flight[j].running));
      out.add(stream.in_flight[j].ended ? 1 : 0);
    }
    for (std::size_t j = 0; j < stream.graph_events.size(); ++j) add_instance(stream.graph_events[j]);
    if (stream.in_graph && stream.dynamic) {
      const GraphRun& run = stream.graph_run;
      out.add(run.any_started ? 1 : 0);
      out.add_time(run.end);
      for (std::size_t node = 0; node < run.left.size(); ++node) {
        out.add(run.left[node]);
        out.add_time(run.ready_at[node], open_idle);
        out.add(static_cast<std::int64_t>(run.cause[node].kind));
        add_instance(run.instance[node]);
      }
      for (const auto& ready : run.ready) {
        out.add_time(ready.at);
        out.add(ready.node);
      }
      for (const Index node : run.waiting) out.add(node);
    }
    const Picoseconds next = agenda_.time_of(i);
    out.add(next == Agenda::never ? -1 : (next - now_).count());
    for (std::size_t j = 0; j < stream.queue.size(); ++j) {
      const Entry& entry = stream.queue[j];
      out.add(static_cast<std::int64_t>(entry.type));
      out.add(entry.object == no_index ? -1 : static_cast<std::int64_t>(entry.object));
      out.add(entry.attached_waits);
      out.add_time(entry.origin.arrival, open_idle);
      out.add_time(entry.origin.call_end, open_idle);
      out.add(entry.origin.thread);
      add_instance(entry.instance);
    }
    for (std::size_t j = 0; j < stream.attached.size(); ++j) add_instance(stream.attached[j]);
    for (std::size_t j = 0; j < stream.blocked_threads.size(); ++j) out.add(stream.blocked_threads[j]);
    for (const SyncWaiter& waiter : stream.waiters) {
      out.add(waiter.thread);
      out.add(static_cast<std::int64_t>(waiter.entries - stream.processed));
    }
  }
  for (const ThreadState& thread : threads_) {
    if (thread.phase == ThreadPhase::Ready || thread.phase == ThreadPhase::Done) continue;
    out.add_time(thread.call_start, Picoseconds::min());
    out.add_time(thread.blocked_since, Picoseconds::min());
    // Completions before the call began make no difference to it, and an await has none.
    out.add_time(std::max(thread.completion, thread.call_start), Picoseconds::min());
    out.add(thread.open_waits);
  }
  for (const ThreadState& thread : threads_)
    for (const auto& [stream, instance] : thread.attached) {
      out.add(stream);
      add_instance(instance);
    }
  for (const SignalState& signal : signals_) {
    if (!signal.awaited) continue;
    out.add(signal.count);
    for (std::size_t j = 0; j < signal.waiting_threads.size(); ++j) out.add(signal.waiting_threads[j]);
  }
  for (const Picoseconds free : engine_free_) out.add_time(free);
  for (const Picoseconds free : graph_free_) out.add_time(free);
  for (const GraphShape& shape : graph_shapes_) {
    out.add(shape.running ? 1 : 0);
    for (std::size_t j = 0; j < shape.waiting_streams.size(); ++j) out.add(shape.waiting_streams[j]);
  }
  if (sharing_) {
    for (const Running& running : running_) {
      out.add(running.stream);
      out.add(running.node == no_index ? -1 : static_cast<std::int64_t>(running.node));
    }
    for (const Index number : free_running_) out.add(number);
    for (const SharedDevice& device : devices_) device.append_state(now_, state);
  }
  accounts_.write_state(now_, out);
}

}  // namespace gpusim::engine
