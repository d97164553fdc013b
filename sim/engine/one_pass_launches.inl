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
  bool matches(std::uint64_t bits) const { return (bits & mask) == value; }
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
  return {word(all, op_word), word(wanted, op_word)};
}

// In the loop below times are bare counts of picoseconds: g++ 12 leaves std::chrono values in memory, and the
// loop then spends most of its time waiting for its own stores.
inline std::int64_t later(std::int64_t a, std::int64_t b) {
  return a < b ? b : a;
}
inline std::int64_t earlier(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}

/// Executes launches as long as they are valid and need nothing but a place in the queue; gives the first
/// that does not. The time of the whole engine is spent here: what changes with every launch is kept in
/// registers, and what is rare is left to execute().
template <class Sink>
template <bool several>
const Instruction* OnePass<Sink>::launch_plain(const Instruction* at, const Instruction* const end) {
  const GpuOp* const ops = program_.ops.data();
  const std::size_t op_count = program_.ops.size();
  const std::size_t stream_count = streams_.size();
  if (stream_count == 0 || (!several && !streams_.front().plain)) return at;
  const auto depth = static_cast<std::size_t>(machine_.launch_queue_depth);
  const Instruction* const first = at;
  const std::uint64_t threads = program_.threads.size();
  std::uint64_t call = executed_ * threads + thread_;

  std::int64_t now = now_.count();
  // Since when the host has worked without a break.
  std::int64_t working_since = accounts_.working_since(thread_, now_).count();
  auto queue_length_max = static_cast<std::size_t>(queue_length_max_);
  const std::int64_t began = now;
  std::int64_t blocked = 0;
  std::int64_t busy_until = accounts_.busy_until().count();
  std::int64_t handed_over = busy_until;
  std::int64_t op_sum = 0;
  std::int64_t launch_latency = 0;
  std::int64_t dispatch = 0;
  std::array<std::int64_t, 4> launched{};  ///< By kind.
  const Pattern launch_wanted = plain_launch(!several);
  const Pattern op_wanted = plain_op();
  bool any_op = accounts_.any_op();
  auto writer = sink_.writer(thread_, static_cast<std::size_t>(end - at));
  StreamState* stream = streams_.data();
  std::int64_t tail_end = stream->tail.end.count();
  std::int64_t not_before = stream->tail.not_before.count();
  GapClass tail_class = stream->tail.op_class;
  const auto log_until = [&](std::int64_t until) {
    accounts_.host(thread_, Picoseconds(working_since), Picoseconds(until), HostState::Working);
  };
  // Whatever was not idle was busy.
  const auto hand_over = [&] {
    accounts_.add({.busy_until = Picoseconds(busy_until),
                   .busy = Picoseconds(busy_until - handed_over - launch_latency - dispatch),
                   .op_sum = Picoseconds(op_sum),
                   .launch_latency = Picoseconds(launch_latency),
                   .dispatch = Picoseconds(dispatch)});
    op_sum = launch_latency = dispatch = 0;
  };

  for (; at != end; ++at) {
    const Instruction& in = *at;
    if (!launch_wanted.matches(word(in, 0)) || in.object >= op_count) {
      // Events come with several streams; they cost CPU time and no place in the queue.
      if (!several || !valid(in.duration) || !valid(in.latency) || now > time_max.count()) break;
      const Picoseconds end_of_call(now + in.duration.count());
      if (in.call == Call::Record) {
        if (!record(in, Picoseconds(now) + in.latency, end_of_call)) break;
      } else if (in.call == Call::StreamWait && in.attached) {
        if (!attach(in)) break;
      } else {
        break;
      }
      writer.end_call(end_of_call);
      call += threads;
      now = end_of_call.count();
      continue;
    }
    const GpuOp& op = ops[in.object];
    if constexpr (several) {
      if (in.stream >= stream_count || !streams_[in.stream].used) break;
      stream = streams_.data() + in.stream;
      tail_end = stream->tail.end.count();
      not_before = stream->tail.not_before.count();
      tail_class = stream->tail.op_class;
    }
    const std::int64_t call_time = in.duration.count();
    const std::int64_t latency = in.latency.count();
    const std::int64_t duration = op.duration.count();
    const std::int64_t period = op.min_period.count();
    // Negative, or longer than time_max.
    if ((static_cast<std::uint64_t>(call_time | latency | duration | period) >> 61) != 0) break;
    if (!op_wanted.matches(word(op, op_word))) break;
    // A place in the queue: the host is blocked until the entry `depth` before is taken, if that is after the
    // moment at which the call would write its own.
    std::int64_t call_end = now + call_time;
    std::int64_t arrival = now + latency;
    const std::int64_t freed = stream->taken.latest(depth);
    const std::int64_t wait = later(0, freed - earlier(call_end, arrival));
    // On a device that is busy until then nobody will ask what the host did.
    if ((wait > 0) & (freed > busy_until)) {
      log_until(freed - wait);
      accounts_.host(thread_, Picoseconds(freed - wait), Picoseconds(freed), HostState::QueueFull);
    }
    working_since = wait > 0 ? freed : working_since;
    call_end += wait;
    arrival += wait;
    blocked += wait;
    // The longest queue grew if the entry as many places before is still waiting.
    if (queue_length_max < depth && stream->taken.latest(queue_length_max) > now) ++queue_length_max;

    const std::int64_t gap = op.gap_before == gap_from_table ? machine_.gap[tail_class][op.gap_class].count()
                                                             : op.gap_before.count();
    const std::int64_t taken = later(later(arrival, not_before), tail_end + gap);
    const std::int64_t start =
        several && !stream->plain ? pass_attached(*stream, Picoseconds(taken)).count() : taken;
    const std::int64_t op_end = start + duration;
    if ((static_cast<std::uint64_t>(start | call_end) >> 61) != 0) [[unlikely]] {
      too_long_ = true;
      break;
    }
    stream->taken.push(taken);
    tail_end = later(tail_end, op_end);
    not_before = start + period;
    tail_class = op.gap_class;
    ++launched[static_cast<std::size_t>(op.kind) & 3];
    const OpRecord op_record{.start = Picoseconds(start),
                             .end = Picoseconds(op_end),
                             .call = static_cast<Index>(call),
                             .node = no_index};
    const Placed placed{.arrival = Picoseconds(arrival), .call_end = Picoseconds(call_end)};
    op_sum += duration;
    writer.op(op_record);
    if constexpr (several) {
      stream->tail.end = Picoseconds(tail_end);
      stream->tail.not_before = Picoseconds(not_before);
      stream->tail.op_class = tail_class;
      const bool covered = start <= busy_until;
      if (covered & any_op) {
        busy_until = later(busy_until, op_end);
      } else if (any_op && later_.empty() && next_.start < earlier(start, call_end)) {
        // Nothing will start before next_ any more, nor with it: its turn has come.
        if (next_.start > busy_until) {
          if (next_.cause.kind == StartCause::Kind::Launch && busy_until >= working_since) {
            // The host was launching all the while.
            const std::int64_t returned =
                later(earlier(next_.cause.call_end.count(), next_.start), busy_until);
            launch_latency += next_.start - returned;
            dispatch += returned - busy_until;
            busy_until = next_.start;
          } else {
            hand_over();
            log_until(now);
            account(next_);
            handed_over = busy_until = accounts_.busy_until().count();
          }
        }
        busy_until = later(busy_until, next_.end);
        next_.start = start;
        next_.end = op_end;
        next_.stream = in.stream;
        next_.cause.call_end = Picoseconds(call_end);
        next_.cause.thread = static_cast<std::uint16_t>(thread_);
        next_.cause.kind = StartCause::Kind::Launch;
        if (start != arrival || start == stream->barrier.count())
          next_.cause = cause_of(*stream, Picoseconds(start), placed);
      } else {
        hand_over();
        log_until(call_end);
        put({.start = start,
             .end = op_end,
             .stream = in.stream,
             .cause = cause_of(*stream, Picoseconds(start), placed)},
            call_end);
        handed_over = busy_until = accounts_.busy_until().count();
        any_op = accounts_.any_op();
      }
    } else {
      if (start > busy_until) {
        if (start == arrival && start != stream->barrier.count() && busy_until >= working_since) {
          // The host was launching all the while.
          const std::int64_t returned = later(earlier(call_end, start), busy_until);
          launch_latency += start - returned;
          dispatch += returned - busy_until;
        } else {
          hand_over();
          log_until(call_end);
          accounts_.started_alone(Picoseconds(start),
                                  [&] { return cause_of(*stream, Picoseconds(start), placed); });
          handed_over = start;
        }
        busy_until = start;
      }
      busy_until = later(busy_until, op_end);  // Of programmatic launches two can overlap.
    }
    writer.end_call(Picoseconds(call_end));
    call += threads;
    now = call_end;
  }

  sink_.take_back(writer, thread_);
  if (at == first) return at;
  if constexpr (!several)
    stream->tail = {
        .end = Picoseconds(tail_end), .not_before = Picoseconds(not_before), .op_class = tail_class};
  hand_over();
  log_until(now);
  Totals& totals = accounts_.totals;
  totals.host_work += Picoseconds(now - began - blocked);
  totals.host_blocked_queue += Picoseconds(blocked);
  totals.counts.kernel_launches += launched[static_cast<std::size_t>(OpKind::Kernel)];
  totals.counts.kernels += launched[static_cast<std::size_t>(OpKind::Kernel)];
  totals.counts.memcpys += launched[static_cast<std::size_t>(OpKind::Memcpy)];
  totals.counts.memsets += launched[static_cast<std::size_t>(OpKind::Memset)];
  executed_ += static_cast<std::uint64_t>(at - first);
  now_ = Picoseconds(now);
  queue_length_max_ = static_cast<std::int32_t>(queue_length_max);
  return at;
}

}  // namespace gpusim::engine
