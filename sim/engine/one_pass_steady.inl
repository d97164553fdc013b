// SPDX-License-Identifier: Apache-2.0
// OnePass: finding the step that repeats, as simulator_steady.inl does. Included by engine.cpp.

namespace gpusim::engine {

template <class Sink>
std::optional<Steady> OnePass<Sink>::run_steady(const SteadyOptions& options) {
  const auto is_random = [](const GpuOp& op) { return op.distribution != no_index; };
  if (streams_.size() != 1 || program_.ops.empty() || !program_.sizes.empty() ||
      std::any_of(program_.ops.begin(), program_.ops.end(), is_random) || !begin())
    return std::nullopt;
  steady_options_ = &options;
  for (const auto& row : machine_.gap)
    for (const Picoseconds gap : row) largest_gap_ = std::max(largest_gap_, gap);
  for (const GpuOp& op : program_.ops)
    if (op.gap_before != gap_from_table) largest_gap_ = std::max(largest_gap_, op.gap_before);
  for (const HostThread& thread : program_.threads)
    for (const Instruction& in : thread.instructions)
      if (in.call == Call::Await && in.object < signals_.size()) signals_[in.object].awaited = true;
  if (!take_turns<false>(std::numeric_limits<std::int64_t>::max()) || !steady_.exact) return std::nullopt;
  return steady_;
}

/// The first thread that does anything has ended a step. False to give up.
template <class Sink>
bool OnePass<Sink>::boundary() {
  if (steady_options_ == nullptr) return true;
  if (repeats()) {
    steady_.exact = true;
    steady_.period = accounts_.totals - kept_.totals;
    steady_.period.steps = step_ - kept_.step;
    steady_.period.wall = now_ - kept_.now;
    steady_.warmup_steps = kept_.step;
    stop_ = true;
    return true;
  }
  std::uint64_t executed = executed_;
  for (std::size_t i = 0; i < threads_.size(); ++i)
    if (i != thread_) executed += threads_[i].executed;
  const bool enough =
      (step_ >= 16 && executed >= static_cast<std::uint64_t>(steady_options_->instructions_max)) ||
      (step_ >= 2 && now_ > time_max / 4);
  return !enough && step_ < steady_options_->steps_max;
}

/// Whether the state is that of the boundary that is kept; keeps this one if it is time to.
template <class Sink>
bool OnePass<Sink>::repeats() {
  // First what is cheap to compare: how far the device is ahead, or behind.
  const Picoseconds lead = accounts_.busy_until() - now_;
  const bool keeps = std::has_single_bit(static_cast<std::uint64_t>(step_));
  const bool may_repeat = kept_.step > 0 && lead == kept_.lead;
  if (!keeps && !may_repeat) return false;
  state_.clear();
  write_state(state_);
  if (may_repeat && state_ == kept_.state) return true;
  if (keeps) kept_ = {.step = step_, .now = now_, .lead = lead, .totals = accounts_.totals, .state = state_};
  return false;
}

template <class Sink>
void OnePass<Sink>::write_state(std::vector<std::int64_t>& state) const {
  StateWriter out(state, now_);
  const StreamState& stream = streams_.front();
  // Idle time is walked back to the last op's end and no further.
  const Picoseconds open_idle = std::min(Picoseconds(0), accounts_.busy_until() - now_);
  const auto add_fire = [&](const Fire& fire, Picoseconds horizon) {
    out.add_time(fire.at, horizon);
    out.add_time(fire.call_end, horizon);
    out.add(fire.late && fire.at - now_ > horizon ? 1 : 0);
  };
  out.add_time(stream.tail.end, -largest_gap_);
  out.add(stream.tail.end - now_ > -largest_gap_ ? stream.tail.op_class : -1);
  out.add_time(stream.tail.not_before);
  out.add_time(stream.barrier, open_idle);
  add_fire(stream.barrier_fire, open_idle);
  out.add_time(stream.floor, open_idle);
  out.add_time(stream.floor_call_end, open_idle);
  out.add_time(stream.done);
  // What is launched and not taken. Entries are taken in order.
  for (std::size_t n = 1; n <= static_cast<std::size_t>(queue_length_max_); ++n) {
    const Picoseconds taken(stream.taken.latest(n));
    if (taken <= now_) break;
    out.add_time(taken);
  }
  out.add(-1);
  for (const EventState& event : events_) {
    out.add(event.recorded ? 1 : 0);
    add_fire(event.fire, open_idle - machine_.event_latency);
  }
  for (const GraphState& graph : graphs_) out.add_time(graph.free);
  for (const EngineState& engine : engines_) out.add_time(engine.free);
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    const ThreadState& thread = threads_[i];
    if (i == thread_ || program_.threads[i].instructions.empty()) continue;
    out.add(static_cast<std::int64_t>(thread.pc));
    out.add(thread.step - step_);
    out.add(thread.waits ? 1 : 0);
    out.add_time(thread.now, Picoseconds::min());
  }
  out.add(next_thread_ == none ? -1 : static_cast<std::int64_t>(next_thread_));
  for (const SignalState& signal : signals_) {
    if (!signal.awaited) continue;
    out.add(signal.count);
    out.add(signal.waiting == none ? -1 : static_cast<std::int64_t>(signal.waiting));
  }
  accounts_.write_state(now_, out);
}

}  // namespace gpusim::engine
