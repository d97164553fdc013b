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

/// Where launch_plain() has to stop at the latest: it looks at nothing in the instructions before that is not
/// known to be in range.
template <class Sink>
template <bool several>
const Instruction* OnePass<Sink>::plain_until(const Instruction* at, const Instruction* end) const {
  const GpuOp* const ops = program_.ops.data();
  const std::size_t op_count = program_.ops.size();
  const std::size_t stream_count = streams_.size();
  const Pattern launch_wanted = plain_launch(!several);
  const Pattern op_wanted = plain_op();
  for (; at != end; ++at) {
    const Instruction& in = *at;
    if (!all_short(in.duration.count() | in.latency.count())) return at;
    if (several && in.stream >= stream_count) return at;
    if (launch_wanted.differs(word(in, 0)) == 0) {
      if (in.object >= op_count) return at;
      const GpuOp& op = ops[in.object];
      if (op_wanted.differs(word(op, op_word)) != 0) return at;
      if (!all_short(op.duration.count() | op.min_period.count())) return at;
      if (op.gap_before != gap_from_table && !is_short_gap(op.gap_before)) return at;
    } else if (in.call != Call::Work) {
      // Events cost CPU time and no place in the queue. Of one stream, they are left to execute().
      const bool event = in.call == Call::Record || (in.call == Call::StreamWait && in.attached);
      if (!several || !event || in.object >= events_.size()) return at;
    }
  }
  return at;
}

/// Executes launches and work between them as long as they are valid and need nothing but a place in the
/// queue; gives the first that is not so simple, for execute(). The time of the whole engine is spent here.
/// Instructions are looked at in blocks (plain_until), then executed by a loop that calls nothing, so that
/// what changes with every launch stays in registers; what it needs of a stream is in one cache line. Nothing
/// is changed for a launch before it is sure that it is a simple one.
template <class Sink>
template <bool several>
const Instruction* OnePass<Sink>::launch_plain(const Instruction* at, const Instruction* end) {
  // Before an op has started, idle time is nobody's: see Accounts::note_first.
  if (!accounts_.any_op() || !gaps_are_short_ || !later_.empty()) return at;
  // What another thread has launched is explained by what that one did.
  if (several && next_.start >= 0 && next_.cause.thread != thread_) return at;
  if (!several && streams_.front().attached_open) return at;
  // In the loop the host works, or is blocked while the device is busy: nobody will ask about that. Idle time
  // that began when the host did something else is explained by execute().
  const Picoseconds working_since = accounts_.working_since(thread_, now_);
  if (accounts_.busy_until() < working_since) return at;
  end = at + std::min(end - at, instructions_between_looks);
  const auto block_from = [&](const Instruction* from) {
    return plain_until<several>(from, from + std::min<std::ptrdiff_t>(end - from, 32));
  };
  const Instruction* block_end = block_from(at);
  if (block_end == at) return at;

  const Instruction* const first = at;
  const GpuOp* const ops = program_.ops.data();
  StreamState* const streams = streams_.data();
  const auto depth = static_cast<std::size_t>(machine_.launch_queue_depth);
  const std::size_t remembered = streams->taken.remembered();
  const std::uint64_t threads = program_.threads.size();
  const std::int64_t began = now_.count();
  const std::int64_t busy_before = accounts_.busy_until().count();
  auto writer = sink_.writer(thread_, static_cast<std::size_t>(end - at));

  std::uint64_t call = executed_ * threads + thread_;
  std::int64_t now = began;
  auto longest_queue = static_cast<std::size_t>(queue_length_max_);
  std::int64_t busy_until = busy_before;
  std::int64_t not_before = streams->tail.not_before.count();
  std::size_t tail_class = streams->tail.op_class;
  Stretch next = next_;
  std::int64_t op_sum = 0;
  std::int64_t blocked = 0;
  std::int64_t launch_latency = 0;
  std::int64_t gaps = 0;
  std::int64_t dispatch = 0;
  std::int64_t others = 0;  // Than launches.
  std::int64_t memcpys = 0;
  std::int64_t memsets = 0;
  // The device was idle until `start`, while the host did nothing but launch.
  const auto idle_for_launch = [&](std::int64_t start, std::int64_t call_end) {
    std::int64_t returned = start;
    if (call_end < start) {
      returned = later(call_end, busy_until);
      launch_latency += start - returned;
    }
    dispatch += returned - busy_until;
  };

  for (; at != block_end; block_end = at == block_end ? block_from(at) : at) {
    for (; at != block_end; ++at) {
      const Instruction& in = *at;
      StreamState& stream = several ? streams[in.stream] : *streams;
      if (in.call != Call::Launch) {
        if (several && in.call == Call::Record) {
          record(stream, events_[in.object], Picoseconds(now) + in.latency, Picoseconds(now) + in.duration);
        } else if (several && in.call == Call::StreamWait) {
          if (!events_[in.object].recorded) break;
          attach(stream, events_[in.object]);
        }
        now += in.duration.count();
        writer.end_call(Picoseconds(now));
        call += threads;
        ++others;
        continue;
      }
      const GpuOp& op = ops[in.object];
      if constexpr (several) {
        not_before = stream.tail.not_before.count();
        tail_class = stream.tail.op_class;
      }
      // Of the only stream, the device is as busy as its tail.
      const std::int64_t tail_end = several ? stream.tail.end.count() : busy_until;

      // A place in the queue: the host is blocked until the entry `depth` before is taken, if that is after
      // the moment at which the call would write its own. No queue has ever been longer than
      // `longest_queue`.
      if (!stream.taken.has_room()) break;
      const std::int64_t taken_before = stream.taken.latest(longest_queue);
      std::int64_t wait = 0;
      if (longest_queue == depth) {
        wait = later(0, taken_before - (now + earlier(in.duration.count(), in.latency.count())));
        // Only on an idle device will anybody ask why the host was blocked.
        if (taken_before > busy_until && wait > 0) break;
      } else if (taken_before > now) {
        if (longest_queue == remembered) break;
        ++longest_queue;
      }
      const std::int64_t call_end = now + wait + in.duration.count();
      const std::int64_t arrival = now + wait + in.latency.count();

      const std::int64_t gap = op.gap_before == gap_from_table
                                   ? machine_.gap[tail_class][op.gap_class].count()
                                   : op.gap_before.count();
      const std::int64_t taken = later(later(arrival, not_before), tail_end + gap);
      const std::int64_t held_until = stream.held_until.count();
      const std::int64_t start = several ? later(taken, held_until) : taken;
      const std::int64_t op_end = start + op.duration.count();
      if constexpr (several) {
        if (start <= busy_until) {
          busy_until = later(busy_until, op_end);
        } else {
          // Nothing will start before `next` any more, nor with it: its turn has come.
          if (start == held_until || next.start >= earlier(start, call_end)) break;
          if (next.start > busy_until) {
            if (next.cause.kind == StartCause::Kind::Launch) {
              idle_for_launch(next.start, next.cause.call_end.count());
            } else if (next.cause.kind == StartCause::Kind::Gap) {
              gaps += next.start - busy_until;
            } else {
              break;
            }
          }
          busy_until = later(busy_until, next.end);
          next.start = start;
          next.end = op_end;
          next.stream = in.stream;
          next.cause.kind = start == arrival ? StartCause::Kind::Launch : StartCause::Kind::Gap;
          next.cause.call_end = Picoseconds(call_end);
        }
      } else {
        if (start > busy_until) {
          if (start == held_until) break;
          if (start == arrival) {
            idle_for_launch(start, call_end);
          } else {
            gaps += start - busy_until;
          }
        }
        busy_until = later(busy_until, op_end);  // Of programmatic launches two can overlap.
      }

      stream.taken.push_into_room(taken);
      not_before = start + op.min_period.count();
      tail_class = op.gap_class;
      if constexpr (several) {
        stream.tail = {.end = Picoseconds(later(tail_end, op_end)),
                       .not_before = Picoseconds(not_before),
                       .op_class = op.gap_class};
        if (stream.attached_open) pass_attached(stream, Picoseconds(taken));
      }
      if (op.kind != OpKind::Kernel) [[unlikely]]
        ++(op.kind == OpKind::Memcpy ? memcpys : memsets);
      op_sum += op.duration.count();
      blocked += wait;
      writer.op({.start = Picoseconds(start),
                 .end = Picoseconds(op_end),
                 .call = static_cast<Index>(call),
                 .node = no_index});
      writer.end_call(Picoseconds(call_end));
      call += threads;
      now = call_end;
    }
  }

  sink_.take_back(writer, thread_);
  if (at == first) return at;
  // No op starts after the last end.
  too_long_ = later(now, later(busy_until, next.end)) > time_max.count();
  next.cause.thread = static_cast<std::uint16_t>(thread_);
  next_ = next;
  if constexpr (!several)
    streams->tail = {.end = Picoseconds(busy_until),
                     .not_before = Picoseconds(not_before),
                     .op_class = static_cast<GapClass>(tail_class)};
  accounts_.add({.busy_until = Picoseconds(busy_until),
                 // Whatever was not idle was busy.
                 .busy = Picoseconds(busy_until - busy_before - launch_latency - gaps - dispatch),
                 .op_sum = Picoseconds(op_sum),
                 .launch_latency = Picoseconds(launch_latency),
                 .gap = Picoseconds(gaps),
                 .dispatch = Picoseconds(dispatch)});
  accounts_.host(thread_, working_since, Picoseconds(now), HostState::Working);
  Totals& totals = accounts_.totals;
  totals.host_work += Picoseconds(now - began - blocked);
  totals.host_blocked_queue += Picoseconds(blocked);
  const std::int64_t kernels = (at - first) - others - memcpys - memsets;
  totals.counts.kernel_launches += kernels;
  totals.counts.kernels += kernels;
  totals.counts.memcpys += memcpys;
  totals.counts.memsets += memsets;
  queue_length_max_ = static_cast<std::int32_t>(longest_queue);
  executed_ += static_cast<std::uint64_t>(at - first);
  now_ = Picoseconds(now);
  return at;
}

}  // namespace gpusim::engine
