// SPDX-License-Identifier: Apache-2.0
// OnePass: the loop over plain launches. Included by engine.cpp.

namespace gpusim::engine {

/// Eight bytes of a record at once: several small fields are compared in one instruction.
template <class Record>
std::uint64_t word(const Record& record, std::size_t offset) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, reinterpret_cast<const char*>(&record) + offset, sizeof bits);
  return bits;
}

/// What the fields in a word have to be.
struct Pattern {
  std::uint64_t mask = 0;
  std::uint64_t value = 0;
  /// The bits that are not as they have to be.
  std::uint64_t differs(std::uint64_t bits) const { return (bits ^ value) & mask; }
};

/// A launch that does not block; into stream 0, if that is the only one.
inline Pattern plain_launch(bool only_stream) {
  const Instruction all{.call = static_cast<Call>(0xff),
                        .blocking = true,
                        .attached = true,
                        .stream = static_cast<std::uint16_t>(only_stream ? 0xffff : 0),
                        .object = 0};
  const Instruction wanted{.call = Call::Launch, .stream = 0, .object = 0};
  const std::uint64_t mask = word(all, 0);
  return {mask, word(wanted, 0) & mask};
}

constexpr std::size_t op_word = offsetof(GpuOp, distribution);

/// An op without anything that takes more than a look at its duration.
inline Pattern plain_op() {
  static_assert(sizeof(GpuOp) == op_word + sizeof(std::uint64_t));
  static_assert(gap_class_limit == 8);
  const GpuOp all{.distribution = no_index,
                  .gap_class = 0xf8,
                  .kind = OpKind{},
                  .copy_engine = static_cast<CopyEngine>(0xff),
                  .peer = 0};
  const GpuOp wanted{.distribution = no_index, .gap_class = 0, .kind = OpKind{}, .peer = 0};
  const std::uint64_t mask = word(all, op_word);
  return {mask, word(wanted, op_word) & mask};
}

// In the loop below times are bare counts of picoseconds: g++ 12 leaves std::chrono values in memory, and the
// loop then spends most of its time waiting for its own stores.
inline std::int64_t later(std::int64_t a, std::int64_t b) {
  return a < b ? b : a;
}
inline std::int64_t earlier(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}

/// Brings the accounts up to date.
template <class Sink>
[[gnu::noinline]] typename OnePass<Sink>::Sums OnePass<Sink>::hand_over(Sums sums) {
  // Whatever was not idle was busy.
  const std::int64_t idle = sums.launch_latency + sums.gap + sums.dispatch;
  accounts_.add({.busy_until = Picoseconds(sums.busy_until),
                 .busy = Picoseconds(sums.busy_until - sums.handed_over - idle),
                 .op_sum = Picoseconds(sums.op_sum),
                 .launch_latency = Picoseconds(sums.launch_latency),
                 .gap = Picoseconds(sums.gap),
                 .dispatch = Picoseconds(sums.dispatch)});
  return {.busy_until = sums.busy_until, .handed_over = sums.busy_until};
}

/// An event is recorded, or waited for by the next launch. Costs CPU time and no place in the queue.
template <class Sink>
[[gnu::noinline]] bool OnePass<Sink>::record_or_attach(const Instruction& in, std::int64_t now) {
  if (!all_short(in.duration.count() | in.latency.count())) return false;
  if (in.call == Call::Record)
    return record(in, Picoseconds(now) + in.latency, Picoseconds(now) + in.duration);
  return in.call == Call::StreamWait && in.attached && attach(in);
}

/// Executes launches as long as they are valid and need nothing but a place in the queue; gives the first
/// that does not. The time of the whole engine is spent here: what changes with every launch is kept in
/// registers, what every launch needs of a stream is in one cache line, what is rare is in functions that are
/// not inlined, or left to execute().
template <class Sink>
template <bool several>
const Instruction* OnePass<Sink>::launch_plain(const Instruction* at, const Instruction* end) {
  // Before an op has started, idle time is nobody's: see Accounts::note_first.
  if (!accounts_.any_op() || !gaps_are_short_) return at;
  if (!several && streams_.front().attached_open) return at;
  end = at + std::min(end - at, instructions_between_looks);
  const Instruction* const first = at;
  const GpuOp* const ops = program_.ops.data();
  const std::size_t op_count = program_.ops.size();
  const std::size_t stream_count = streams_.size();
  const Pattern launch_wanted = plain_launch(!several);
  const Pattern op_wanted = plain_op();
  const auto depth = static_cast<std::size_t>(machine_.launch_queue_depth);
  auto longest_queue = static_cast<std::size_t>(queue_length_max_);
  const std::uint64_t threads = program_.threads.size();
  std::uint64_t call = executed_ * threads + thread_;
  auto writer = sink_.writer(thread_, static_cast<std::size_t>(end - at));

  std::int64_t now = now_.count();
  const std::int64_t began = now;
  // Since when the host has worked without a break.
  std::int64_t working_since = accounts_.working_since(thread_, now_).count();
  std::int64_t blocked = 0;
  std::int64_t events = 0;
  std::int64_t memcpys = 0;
  std::int64_t memsets = 0;
  std::int64_t starts = 0;  ///< All of them, combined by or: whether one is beyond time_max.
  Sums sums{.busy_until = accounts_.busy_until().count(), .handed_over = accounts_.busy_until().count()};
  StreamState* stream = streams_.data();
  std::int64_t tail_end = stream->tail.end.count();
  std::int64_t not_before = stream->tail.not_before.count();
  std::size_t tail_class = stream->tail.op_class;
  std::int64_t held_until = stream->held_until.count();
  Stretch next = next_;
  const auto log_until = [&](std::int64_t until) {
    accounts_.host(thread_, Picoseconds(working_since), Picoseconds(until), HostState::Working);
  };
  // The device was idle until `start`, while the host did nothing but launch.
  const auto idle_for_launch = [&](std::int64_t start, std::int64_t call_end) {
    sums.dispatch += start - sums.busy_until;
    if (call_end < start) {
      const std::int64_t on_its_way = start - later(call_end, sums.busy_until);
      sums.launch_latency += on_its_way;
      sums.dispatch -= on_its_way;
    }
  };

  for (; at != end; ++at) {
    const Instruction& in = *at;
    if (launch_wanted.differs(word(in, 0)) != 0 || in.object >= op_count) {
      if (!several || !record_or_attach(in, now)) break;
      now += in.duration.count();
      writer.end_call(Picoseconds(now));
      call += threads;
      ++events;
      continue;
    }
    const GpuOp& op = ops[in.object];
    const std::int64_t call_time = in.duration.count();
    const std::int64_t latency = in.latency.count();
    const std::int64_t duration = op.duration.count();
    const std::int64_t period = op.min_period.count();
    if (!all_short(call_time | latency | duration | period)) break;
    if (op_wanted.differs(word(op, op_word)) != 0) break;
    if constexpr (several) {
      if (in.stream >= stream_count) break;
      stream = streams_.data() + in.stream;
      tail_end = stream->tail.end.count();
      not_before = stream->tail.not_before.count();
      tail_class = stream->tail.op_class;
    }
    std::int64_t gap = op.gap_before.count();
    if (op.gap_before == gap_from_table) {
      gap = machine_.gap[tail_class][op.gap_class].count();
    } else if (!is_short_gap(op.gap_before)) {
      break;
    }
    if (op.kind != OpKind::Kernel) [[unlikely]]
      ++(op.kind == OpKind::Memcpy ? memcpys : memsets);

    // A place in the queue: the host is blocked until the entry `depth` before is taken, if that is after the
    // moment at which the call would write its own. No queue has ever been longer than `longest_queue`.
    std::int64_t wait = 0;
    const std::int64_t taken_before = stream->taken.latest(longest_queue);
    if (longest_queue == depth) {
      const std::int64_t asks = now + earlier(call_time, latency);
      wait = later(0, taken_before - asks);
      // On a device that is busy until then nobody will ask what the host did.
      if (taken_before > sums.busy_until && wait > 0) [[unlikely]] {
        log_until(asks);
        accounts_.host(thread_, Picoseconds(asks), Picoseconds(taken_before), HostState::QueueFull);
      }
      working_since = wait > 0 ? taken_before : working_since;
      blocked += wait;
    } else if (taken_before > now) {
      lengthen_queue();
      ++longest_queue;
    }
    const std::int64_t call_end = now + call_time + wait;
    const std::int64_t arrival = now + latency + wait;

    const std::int64_t taken = later(later(arrival, not_before), tail_end + gap);
    std::int64_t start = taken;
    stream->taken.push(taken);
    if constexpr (several) {
      if (stream->attached_open) start = pass_attached(*stream, Picoseconds(taken)).count();
      held_until = stream->held_until.count();
    }
    const std::int64_t op_end = start + duration;
    starts |= start;
    tail_end = later(tail_end, op_end);
    not_before = start + period;
    tail_class = op.gap_class;
    sums.op_sum += duration;
    writer.op({.start = Picoseconds(start),
               .end = Picoseconds(op_end),
               .call = static_cast<Index>(call),
               .node = no_index});
    writer.end_call(Picoseconds(call_end));
    call += threads;
    const auto cause = [&] {
      return cause_of(*stream, Picoseconds(start),
                      {.arrival = Picoseconds(arrival), .call_end = Picoseconds(call_end)});
    };
    if constexpr (several) {
      stream->tail.end = Picoseconds(tail_end);
      stream->tail.not_before = Picoseconds(not_before);
      stream->tail.op_class = op.gap_class;
      if (start <= sums.busy_until) {
        sums.busy_until = later(sums.busy_until, op_end);
      } else if (next.start < earlier(start, call_end) && later_.empty()) {
        // Nothing will start before `next` any more, nor with it: its turn has come.
        if (next.start > sums.busy_until) {
          if (next.cause.kind == StartCause::Kind::Launch && sums.busy_until >= working_since) {
            idle_for_launch(next.start, next.cause.call_end.count());
            sums.busy_until = next.start;
          } else if (next.cause.kind == StartCause::Kind::Gap) {
            sums.gap += next.start - sums.busy_until;
            sums.busy_until = next.start;
          } else {
            sums = hand_over(sums);
            log_until(now);
            account(next);
            sums.busy_until = sums.handed_over = accounts_.busy_until().count();
          }
        }
        sums.busy_until = later(sums.busy_until, next.end);
        next.start = start;
        next.end = op_end;
        next.stream = in.stream;
        next.cause.kind = StartCause::Kind::Launch;
        next.cause.thread = static_cast<std::uint16_t>(thread_);
        next.cause.call_end = Picoseconds(call_end);
        if (start != arrival || start == held_until) next.cause = cause();
      } else {
        sums = hand_over(sums);
        log_until(call_end);
        next_ = next;
        put({.start = start, .end = op_end, .stream = in.stream, .cause = cause()}, call_end);
        next = next_;
        sums.busy_until = sums.handed_over = accounts_.busy_until().count();
      }
    } else {
      if (start > sums.busy_until) {
        if (start == arrival && start != held_until && sums.busy_until >= working_since) {
          idle_for_launch(start, call_end);
        } else if (start != arrival && start != held_until) {
          sums.gap += start - sums.busy_until;
        } else {
          sums = hand_over(sums);
          log_until(call_end);
          accounts_.started_alone(Picoseconds(start), cause);
          sums.handed_over = start;
        }
        sums.busy_until = start;
      }
      sums.busy_until = later(sums.busy_until, op_end);  // Of programmatic launches two can overlap.
    }
    now = call_end;
  }

  sink_.take_back(writer, thread_);
  if (at == first) return at;
  too_long_ = now > time_max.count() || starts > time_max.count();
  next_ = next;
  if constexpr (!several)
    stream->tail = {.end = Picoseconds(tail_end),
                    .not_before = Picoseconds(not_before),
                    .op_class = static_cast<GapClass>(tail_class)};
  hand_over(sums);
  log_until(now);
  Totals& totals = accounts_.totals;
  totals.host_work += Picoseconds(now - began - blocked);
  totals.host_blocked_queue += Picoseconds(blocked);
  const std::int64_t kernels = (at - first) - events - memcpys - memsets;
  totals.counts.kernel_launches += kernels;
  totals.counts.kernels += kernels;
  totals.counts.memcpys += memcpys;
  totals.counts.memsets += memsets;
  executed_ += static_cast<std::uint64_t>(at - first);
  now_ = Picoseconds(now);
  return at;
}

}  // namespace gpusim::engine
