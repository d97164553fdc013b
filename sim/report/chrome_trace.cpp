// SPDX-License-Identifier: Apache-2.0
#include "sim/report/chrome_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <ostream>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/report/format.hpp"

namespace gpusim::report {
namespace {

using engine::Call;
using engine::CallRecord;
using engine::Instruction;
using engine::no_index;
using engine::OpKind;
using engine::OpRecord;

/// Rows for overlapping ops start here: above every stream number.
constexpr std::int64_t lane_rows = 1'000'000;
constexpr std::int64_t lanes_per_stream = 10'000;
constexpr std::int64_t stream_number_max = 99'999;
constexpr std::int64_t first_stream_number = 7;  // what the default stream is called in profiler traces

/// The numbers that streams have in args.stream and as tid.
std::vector<std::int64_t> stream_numbers(const engine::Program& program) {
  std::vector<std::int64_t> numbers(program.streams.size(), -1);
  std::set<std::int64_t> used;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::string& name = program.streams[i].name;
    std::int64_t number = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc() && end == name.data() + name.size() && number >= 0 &&
        number <= stream_number_max && used.insert(number).second)
      numbers[i] = number;
  }
  std::int64_t next = first_stream_number;
  for (std::int64_t& number : numbers) {
    if (number >= 0) continue;
    while (!used.insert(next).second) ++next;
    number = next;
  }
  return numbers;
}

bool is_runtime_name(std::string_view name) {
  for (const std::string_view prefix : {"cuda", "hip", "cu"})
    if (name.starts_with(prefix) && name.size() > prefix.size() && name[prefix.size()] >= 'A' &&
        name[prefix.size()] <= 'Z')
      return true;
  return false;
}

/// Row of the host: what is shown, and under which category.
struct HostEvent {
  std::string name;
  const char* category = "cuda_runtime";
};

class Writer {
 public:
  Writer(std::ostream& out, const engine::Program& program, const engine::Timeline& timeline,
         const ChromeTraceOptions& options)
      : out_(out),
        program_(program),
        timeline_(timeline),
        options_(options),
        streams_(stream_numbers(program)),
        lanes_(engine::lanes(program, timeline)),
        calls_(timeline.calls_in_order()) {}

  void write() {
    write_head();
    write_names();
    write_steps();
    write_calls();
    write_ops();
    write_queue_counters();
    write_memory_counter();
    write_memory_by_kind();
    append("\n]}}\n");
    flush();
  }

 private:
  template <class... T>
  void append(fmt::format_string<T...> format, T&&... args) {
    fmt::format_to(std::back_inserter(buffer_), format, std::forward<T>(args)...);
    if (buffer_.size() > 64 * 1024) flush();
  }
  void flush() {
    out_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
    buffer_.clear();
  }
  void begin_event() {
    append("{}", first_event_ ? "\n" : ",\n");
    first_event_ = false;
  }

  static std::string us(Picoseconds time) { return exact_microseconds(time, 3); }
  static std::int64_t thread_row(std::size_t thread) { return host_pid + static_cast<std::int64_t>(thread); }
  std::int64_t stream_row(std::size_t stream, std::size_t lane) const {
    return lane == 0 ? streams_[stream]
                     : lane_rows + streams_[stream] * lanes_per_stream + static_cast<std::int64_t>(lane);
  }
  std::string name_of(engine::Index index) const { return index == no_index ? "" : program_.names[index]; }
  std::size_t stream_of(const OpRecord& record) const {
    return engine::launch_of(program_, timeline_, record).stream;
  }

  void write_head() {
    append("{{\n\"schemaVersion\": 1,\n");
    if (!options_.version.empty()) append("\"gpusim\": {},\n", json_string(options_.version));
    if (!options_.input.empty()) append("\"input\": {},\n", json_string(options_.input));
    append("\"deviceProperties\": [");
    std::set<int> devices;
    for (const engine::Stream& stream : program_.streams) devices.insert(stream.device);
    bool first = true;
    for (const int device : devices) {
      append("{}\n{{\"id\": {}, \"name\": {}", first ? "" : ",", device, json_string(options_.device_name));
      first = false;
      if (options_.device_memory_bytes > 0) append(", \"totalGlobalMem\": {}", options_.device_memory_bytes);
      if (options_.sms > 0) append(", \"numSms\": {}", options_.sms);
      append("}}");
    }
    append(
        "\n],\n\"displayTimeUnit\": \"ms\",\n\"baseTimeNanoseconds\": 0,\n\"distributedInfo\": {{\"rank\": "
        "0}},\n\"traceEvents\": [");
  }

  void metadata(const char* what, std::int64_t pid, std::int64_t tid, const std::string& args) {
    begin_event();
    append("{{\"ph\": \"M\", \"name\": \"{}\", \"ts\": 0.0, \"pid\": {}, \"tid\": {}, \"args\": {{{}}}}}",
           what, pid, tid, args);
  }

  void write_names() {
    const std::string title = options_.title.empty() ? "gpusim" : options_.title;
    metadata("process_name", host_pid, 0, "\"name\": " + json_string(title));
    metadata("process_labels", host_pid, 0, "\"labels\": \"CPU\"");
    metadata("process_sort_index", host_pid, 0, "\"sort_index\": 0");
    for (std::size_t i = 0; i < program_.threads.size(); ++i) {
      metadata("thread_name", host_pid, thread_row(i),
               "\"name\": " + json_string("thread " + program_.threads[i].name));
      metadata("thread_sort_index", host_pid, thread_row(i), fmt::format("\"sort_index\": {}", i));
    }
    std::set<int> devices;
    for (const engine::Stream& stream : program_.streams) devices.insert(stream.device);
    for (const int device : devices) {
      metadata("process_name", device, 0, "\"name\": " + json_string(title));
      metadata("process_labels", device, 0, "\"labels\": " + json_string(fmt::format("GPU {}", device)));
      metadata("process_sort_index", device, 0, fmt::format("\"sort_index\": {}", host_pid + 1 + device));
    }
    std::vector<int> lanes(program_.streams.size(), 0);
    for (std::size_t i = 0; i < timeline_.ops.size(); ++i) {
      int& most = lanes[stream_of(timeline_.ops[i])];
      most = std::max(most, static_cast<int>(lanes_[i]));
    }
    for (std::size_t i = 0; i < program_.streams.size(); ++i) {
      const int device = program_.streams[i].device;
      const std::string& name = program_.streams[i].name;
      const std::string number = fmt::format("{}", streams_[i]);
      const std::string shown = name == number ? "stream " + number : "stream " + number + " " + name;
      for (int lane = 0; lane <= lanes[i]; ++lane) {
        const std::int64_t row = stream_row(i, static_cast<std::size_t>(lane));
        metadata("thread_name", device, row,
                 "\"name\": " + json_string(lane ? fmt::format("{} (+{})", shown, lane) : shown));
        metadata("thread_sort_index", device, row,
                 fmt::format("\"sort_index\": {}", static_cast<std::int64_t>(i) * lanes_per_stream + lane));
      }
    }
  }

  /// From the first call of a step on the first host thread to the end of the last one.
  void write_steps() {
    struct Span {
      std::int64_t step;
      Picoseconds start, end;
    };
    const std::vector<engine::Index>& starts = options_.step_starts;
    // One start fewer than steps: the first step began before the program did.
    const bool begun_before = static_cast<std::int64_t>(starts.size()) + 1 == options_.steps_per_program;
    const std::int64_t first = begun_before ? 1 : 0;
    std::vector<Span> spans;  // calls of one thread come in the order of its steps
    for (const engine::Index number : calls_) {
      const CallRecord call = timeline_.call(number);
      if (call.thread != 0) continue;
      std::int64_t step = call.step;
      if (!starts.empty()) {
        const auto begun = std::upper_bound(starts.begin(), starts.end(), call.instruction) - starts.begin();
        if (begun + first == 0) continue;
        step = step * (static_cast<std::int64_t>(starts.size()) + first) + begun + first - 1;
      }
      if (spans.empty() || spans.back().step != step)
        spans.push_back({step, call.start, call.end});
      else
        spans.back().end = std::max(spans.back().end, call.end);
    }
    for (const Span& span : spans) {
      begin_event();
      append(
          "{{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"{}#{}\", \"pid\": {}, \"tid\": {}, "
          "\"ts\": {}, "
          "\"dur\": {}, \"args\": {{}}}}",
          options_.steps_per_program == 1 || !starts.empty() ? "ProfilerStep" : "Window", span.step, host_pid,
          thread_row(0), us(span.start), us(span.end - span.start));
    }
  }

  HostEvent host_event(const CallRecord& call) const {
    HostEvent event;
    const Instruction& instruction = instruction_of(program_, call);
    const std::string given = name_of(program_.threads[call.thread].name_of(call.instruction));
    switch (instruction.call) {
      case Call::Work:
        return {given.empty() ? "work" : given, "cpu_op"};
      case Call::Input:
        return {given.empty() ? "wait for input" : given, "cpu_op"};
      case Call::Signal:
        return {"signal " + program_.signals[instruction.object], "cpu_op"};
      case Call::Await:
        return {"await " + program_.signals[instruction.object], "cpu_op"};
      case Call::Allocate:
        return {given.empty() ? "allocate" : "allocate " + given, "cpu_op"};
      case Call::Free:
        return {given.empty() ? "free" : "free " + given, "cpu_op"};
      case Call::Launch:
        switch (program_.ops[instruction.object].kind) {
          case OpKind::Kernel:
            event.name = "cudaLaunchKernel";
            break;
          case OpKind::Memcpy:
            event.name = instruction.blocking ? "cudaMemcpy" : "cudaMemcpyAsync";
            break;
          case OpKind::Memset:
            event.name = instruction.blocking ? "cudaMemset" : "cudaMemsetAsync";
            break;
        }
        break;
      case Call::LaunchGraph:
        event.name = "cudaGraphLaunch";
        break;
      case Call::Record:
        event.name = "cudaEventRecord";
        break;
      case Call::StreamWait:
        event.name = "cudaStreamWaitEvent";
        break;
      case Call::SynchronizeStream:
        event.name = "cudaStreamSynchronize";
        break;
      case Call::SynchronizeEvent:
        event.name = "cudaEventSynchronize";
        break;
      case Call::SynchronizeDevice:
        event.name = "cudaDeviceSynchronize";
        break;
    }
    // A replayed trace keeps the names of its calls; readers find launches by them, so no other name will do.
    if (is_runtime_name(given)) event.name = given;
    if (!event.name.starts_with("cuda") && event.name.starts_with("cu")) event.category = "cuda_driver";
    return event;
  }

  static bool is_launch(Call call) { return call == Call::Launch || call == Call::LaunchGraph; }

  void write_calls() {
    for (const engine::Index i : calls_) {
      const CallRecord call = timeline_.call(i);
      const Instruction& instruction = instruction_of(program_, call);
      const HostEvent event = host_event(call);
      begin_event();
      append(
          "{{\"ph\": \"X\", \"cat\": \"{}\", \"name\": {}, \"pid\": {}, \"tid\": {}, \"ts\": {}, \"dur\": "
          "{}, \"args\": {{",
          event.category, json_string(event.name), host_pid, thread_row(call.thread), us(call.start),
          us(call.end - call.start));
      if (event.category == std::string_view("cpu_op"))
        append("\"External id\": {}", i + 1);
      else
        append("\"correlation\": {}", i + 1);
      append("}}}}");
      if (!is_launch(instruction.call)) continue;
      begin_event();
      append(
          "{{\"ph\": \"s\", \"id\": {}, \"pid\": {}, \"tid\": {}, \"ts\": {}, \"cat\": \"ac2g\", \"name\": "
          "\"ac2g\"}}",
          i + 1, host_pid, thread_row(call.thread), us(call.start));
    }
  }

  std::string op_name(const engine::GpuOp& op, const engine::OpInfo& info) const {
    const std::string given = name_of(info.name);
    if (op.kind == OpKind::Kernel) return given.empty() ? "kernel" : given;
    // Tools tell copies from kernels by the beginning of the name.
    if (op.kind == OpKind::Memset) {
      if (given.starts_with("Memset")) return given;
      return given.empty() ? "Memset (Device)" : fmt::format("Memset (Device) {}", given);
    }
    if (given.starts_with("Memcpy") || given.starts_with("Copy")) return given;
    std::string direction = "Memcpy";
    switch (op.copy_engine) {
      case engine::CopyEngine::HostToDevice:
        direction = "Memcpy HtoD (Pinned -> Device)";
        break;
      case engine::CopyEngine::DeviceToHost:
        direction = "Memcpy DtoH (Device -> Pinned)";
        break;
      case engine::CopyEngine::DeviceToDevice:
        direction = "Memcpy DtoD (Device -> Device)";
        break;
      case engine::CopyEngine::Peer:
        direction = "Memcpy PtoP (Device -> Device)";
        break;
      case engine::CopyEngine::None:
        if (info.footprint != engine::no_index) direction = "Memcpy DtoD (Device -> Device)";
        break;
    }
    return given.empty() ? direction : direction + " " + given;
  }

  void write_ops() {
    for (std::size_t i = 0; i < timeline_.ops.size(); ++i) {
      const OpRecord& record = timeline_.ops[i];
      const Instruction& launch = engine::launch_of(program_, timeline_, record);
      const engine::Index index = engine::op_of(program_, timeline_, record);
      const engine::GpuOp& op = program_.ops[index];
      const engine::OpInfo& info = program_.info[index];
      const std::int64_t row = stream_row(launch.stream, lanes_[i]);
      const int device = program_.streams[launch.stream].device;
      const Picoseconds duration = record.end - record.start;
      const char* category = op.kind == OpKind::Kernel   ? "kernel"
                             : op.kind == OpKind::Memcpy ? "gpu_memcpy"
                                                         : "gpu_memset";
      begin_event();
      append(
          "{{\"ph\": \"X\", \"cat\": \"{}\", \"name\": {}, \"pid\": {}, \"tid\": {}, \"ts\": {}, \"dur\": "
          "{}, "
          "\"args\": {{\"device\": {}, \"context\": 1, \"stream\": {}",
          category, json_string(op_name(op, info)), device, row, us(record.start), us(duration), device,
          streams_[launch.stream]);
      append(", \"correlation\": {}", record.call + 1);
      if (record.node != no_index)
        append(", \"graph id\": {}, \"graph node id\": {}", launch.object + 1, record.node + 1);
      if (op.kind != OpKind::Kernel) {
        append(", \"bytes\": {}", info.bytes);
        if (duration.count() > 0)
          append(", \"memory bandwidth (GB/s)\": {}",
                 exact_number(static_cast<double>(info.bytes) / static_cast<double>(duration.count()) * 1e3));
      }
      append("}}}}");
      begin_event();
      append(
          "{{\"ph\": \"f\", \"bp\": \"e\", \"id\": {}, \"pid\": {}, \"tid\": {}, \"ts\": {}, \"cat\": "
          "\"ac2g\", "
          "\"name\": \"ac2g\"}}",
          record.call + 1, device, row, us(record.start));
    }
  }

  /// An entry is in the queue from the end of its call, or from its start if that is earlier, until its first
  /// op starts.
  void write_queue_counters() {
    std::vector<Picoseconds> started(timeline_.call_limit(), Picoseconds::max());
    for (const OpRecord& record : timeline_.ops)
      started[record.call] = std::min(started[record.call], record.start);
    struct Change {
      Picoseconds at;
      std::uint16_t stream;
      int by;
    };
    std::vector<Change> changes;
    for (const engine::Index i : calls_) {
      const CallRecord call = timeline_.call(i);
      const Instruction& instruction = instruction_of(program_, call);
      if (!is_launch(instruction.call) || started[i] == Picoseconds::max()) continue;
      changes.push_back(
          {std::min(instruction.blocking ? call.start : call.end, started[i]), instruction.stream, 1});
      changes.push_back({started[i], instruction.stream, -1});
    }
    std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
      return a.stream != b.stream ? a.stream < b.stream : a.at < b.at;
    });
    std::int64_t length = 0;
    for (std::size_t i = 0; i < changes.size(); ++i) {
      const Change& change = changes[i];
      if (i == 0 || changes[i - 1].stream != change.stream) length = 0;
      length += change.by;
      const bool more_at_once =
          i + 1 < changes.size() && changes[i + 1].stream == change.stream && changes[i + 1].at == change.at;
      if (more_at_once) continue;
      begin_event();
      append(
          "{{\"ph\": \"C\", \"name\": \"launch queue, stream {}\", \"pid\": {}, \"tid\": 0, \"ts\": {}, "
          "\"args\": "
          "{{\"entries\": {}}}}}",
          streams_[change.stream], program_.streams[change.stream].device, us(change.at), length);
    }
  }

  void write_memory_counter() {
    const int device = program_.streams.empty() ? 0 : program_.streams.front().device;
    for (const engine::MemoryRecord& record : timeline_.memory) {
      begin_event();
      append(
          "{{\"ph\": \"C\", \"name\": \"allocated memory\", \"pid\": {}, \"tid\": 0, \"ts\": {}, \"args\": "
          "{{\"bytes\": "
          "{}}}}}",
          device, us(record.at), record.bytes);
    }
  }

  void write_memory_by_kind() {
    if (options_.memory.empty()) return;
    // By thread and instruction; of pieces that one call launches, the one that needs most.
    std::map<std::pair<std::uint16_t, engine::Index>, const MemoryShares*> marks;
    for (const MemoryMark& mark : options_.memory) {
      const MemoryShares*& shares = marks[{mark.thread, mark.instruction}];
      if (shares == nullptr || shares->total() < mark.shares.total()) shares = &mark.shares;
    }
    const int device = program_.streams.empty() ? 0 : program_.streams.front().device;
    for (const engine::Index number : calls_) {
      const CallRecord call = timeline_.call(number);
      const auto mark = marks.find({call.thread, call.instruction});
      if (mark == marks.end()) continue;
      begin_event();
      append(
          "{{\"ph\": \"C\", \"name\": \"device memory\", \"pid\": {}, \"tid\": 0, \"ts\": {}, \"args\": {{",
          device, us(call.start));
      for (std::size_t i = 0; i < memory_kind_count; ++i) {
        const auto kind = static_cast<MemoryKind>(i);
        append("{}\"{}\": {}", i > 0 ? ", " : "", gpusim::name(kind), (*mark->second)[kind].value());
      }
      append("}}}}");
    }
  }

  std::ostream& out_;
  const engine::Program& program_;
  const engine::Timeline& timeline_;
  const ChromeTraceOptions& options_;
  std::vector<std::int64_t> streams_;
  std::vector<std::uint16_t> lanes_;  ///< Of each op.
  std::vector<engine::Index> calls_;  ///< In order of start.
  fmt::memory_buffer buffer_;
  bool first_event_ = true;
};

}  // namespace

void write_chrome_trace(std::ostream& out, const engine::Program& program, const engine::Timeline& timeline,
                        const ChromeTraceOptions& options) {
  Writer(out, program, timeline, options).write();
}

}  // namespace gpusim::report
