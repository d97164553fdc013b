// SPDX-License-Identifier: Apache-2.0
// OnePass: whose turn it is. Included by engine.cpp. Every function that returns bool gives up with false.

namespace gpusim::engine {

/// Runs one thread after the other, each until it waits, until all have done their steps. All but one have to
/// begin by waiting.
template <class Sink>
template <bool several>
bool OnePass<Sink>::take_turns(std::int64_t steps) {
  std::size_t first = marker_;
  if (threads_used_ > 1) {
    first = none;
    for (std::size_t i = 0; i < threads_.size(); ++i) {
      const LargeVector<Instruction>& instructions = program_.threads[i].instructions;
      if (instructions.empty()) continue;
      if (instructions.front().call == Call::Await) {
        if (!begin_waiting(i)) return false;
      } else if (std::exchange(first, i) != none) {
        return false;
      }
    }
    if (first == none) return false;
  }
  for (next_thread_ = first; next_thread_ != none;) {
    go_on_with(std::exchange(next_thread_, none));
    if (!run_thread<several>(steps)) return false;
    if (stop_) return true;
    pause();
  }
  // Whoever waits still waits for ever.
  return std::none_of(threads_.begin(), threads_.end(), [](const ThreadState& t) { return t.waits; });
}

template <class Sink>
void OnePass<Sink>::go_on_with(std::size_t thread) {
  const ThreadState& state = threads_[thread];
  thread_ = thread;
  pc_ = state.pc;
  step_ = state.step;
  executed_ = state.executed;
  now_ = state.now;
}

template <class Sink>
void OnePass<Sink>::pause() {
  ThreadState& state = threads_[thread_];
  state.pc = pc_;
  state.step = step_;
  state.executed = executed_;
  state.now = now_;
}

template <class Sink>
bool OnePass<Sink>::begin_waiting(std::size_t thread) {
  go_on_with(thread);
  sink_.begin_step(thread, now_);
  const Instruction& instruction = program_.threads[thread].instructions.front();
  if (!await(instruction) || !threads_[thread].waits) return false;
  pause();
  return true;
}

/// Until the thread waits or has done its steps.
template <class Sink>
template <bool several>
bool OnePass<Sink>::run_thread(std::int64_t steps) {
  const LargeVector<Instruction>& instructions = program_.threads[thread_].instructions;
  const Instruction* const begin = instructions.data();
  const Instruction* const end = begin + instructions.size();
  for (const Instruction* at = begin + pc_;; ++at) {
    // Nearly all of a long program is plain launches. Once another thread has its turn, nothing of this one
    // may happen beside it.
    if (at != end && at != begin && next_thread_ == none) {
      at = launch_plain<several>(at, end);
      if (too_long_) return false;
    }
    if (at == end) {
      ++step_;
      pc_ = 0;
      if (attached_open_ != 0 || is_far_ahead()) return false;
      if (thread_ == marker_ && !boundary()) return false;
      if (stop_ || step_ == steps) return true;
      at = begin;
    }
    if (at == begin) {
      sink_.begin_step(thread_, now_);
      if (next_thread_ == none) at = launch_plain<several>(at, end);
      if (too_long_) return false;
      if (at == end) {
        --at;
        continue;
      }
    }
    pc_ = static_cast<std::size_t>(at - begin);
    if (at->call == Call::Await) {
      if (!await(*at)) return false;
      if (threads_[thread_].waits) return true;
    } else if (next_thread_ != none || !execute(*at)) {
      return false;
    }
  }
}

/// Takes the signal, or waits for it.
template <class Sink>
bool OnePass<Sink>::await(const Instruction& instruction) {
  if (!valid(instruction.duration) || instruction.object >= signals_.size() || attached_open_ != 0)
    return false;
  accounts_.totals.host_work += instruction.duration;
  const Picoseconds end = now_ + instruction.duration;
  log(now_, end, HostState::Working);
  SignalState& signal = signals_[instruction.object];
  if (signal.count > 0) {
    --signal.count;
    call_done(end);
    return now_ <= time_max;
  }
  if (signal.waiting != none) return false;
  signal.waiting = thread_;
  threads_[thread_].waits = true;
  now_ = end;
  return true;
}

/// Gives the turn to the thread that awaits the signal, if there is one.
template <class Sink>
bool OnePass<Sink>::signal(const Instruction& instruction) {
  if (instruction.object >= signals_.size()) return false;
  const Picoseconds end = now_ + instruction.duration;
  log(now_, end, HostState::Working);
  call_done(end);
  SignalState& signal = signals_[instruction.object];
  if (signal.waiting == none) {
    ++signal.count;
    return true;
  }
  next_thread_ = std::exchange(signal.waiting, none);
  ThreadState& waiter = threads_[next_thread_];
  waiter.waits = false;
  accounts_.host(next_thread_, waiter.now, end, HostState::Awaiting, static_cast<std::uint16_t>(thread_));
  accounts_.totals.host_blocked += std::max(Picoseconds(0), end - waiter.now);
  waiter.now = std::max(waiter.now, end);
  sink_.end_call(next_thread_, waiter.now);
  ++waiter.executed;
  ++waiter.pc;
  return true;
}

/// Whether the thread that runs has to wait for others before its next step.
template <class Sink>
bool OnePass<Sink>::is_far_ahead() const {
  for (std::size_t i = 0; i < threads_.size(); ++i)
    if (i != thread_ && !program_.threads[i].instructions.empty() && step_ - threads_[i].step > step_lead_max)
      return true;
  return false;
}

}  // namespace gpusim::engine
