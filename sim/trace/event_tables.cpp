// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/event_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "sim/trace/clock.hpp"
#include "sim/trace/kernel_names.hpp"
#include "sim/trace/op_inputs.hpp"

namespace gpusim {

using trace_json::clock;
using trace_json::whole;

enum class EventTables::Category : std::uint8_t {
  Unknown,
  Kernel,
  Memcpy,
  Memset,
  Runtime,
  Driver,
  CpuOp,
  Annotation,
  GpuAnnotation,
  Sync,
  EventRecord,
};

namespace {

/// Number of earlier spans of the same thread that enclose each span. Equal spans: the one listed first is
/// outside.
void find_depths(std::vector<TraceSpan>& spans) {
  std::vector<std::uint32_t> order(spans.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const TraceSpan& x = spans[a];
    const TraceSpan& y = spans[b];
    if (x.thread != y.thread) return x.thread < y.thread;
    if (x.start != y.start) return x.start < y.start;
    if (x.end != y.end) return x.end > y.end;
    return a < b;
  });
  std::vector<std::uint32_t> open;
  for (const std::uint32_t i : order) {
    TraceSpan& span = spans[i];
    while (!open.empty()) {
      const TraceSpan& outer = spans[open.back()];
      if (outer.thread == span.thread && outer.end >= span.end && outer.end > span.start) break;
      if (outer.thread == span.thread && outer.end == span.end && outer.start == span.start) break;
      open.pop_back();
    }
    span.depth = static_cast<std::uint32_t>(open.size());
    open.push_back(i);
  }
}

/// The index of `key`, which is the next one where it is new.
template <class Index>
std::pair<std::uint32_t, bool> find_or_add(Index& index, std::string_view key, std::size_t next) {
  if (const auto at = index.find(key); at != index.end()) return {at->second, false};
  index.emplace(key, static_cast<std::uint32_t>(next));
  return {static_cast<std::uint32_t>(next), true};
}

}  // namespace

std::string EventTables::shown(const Raw& raw) {
  if (raw.kind == Raw::Kind::Absent || (raw.kind == Raw::Kind::Word && raw.text == "null")) return "None";
  if (raw.kind == Raw::Kind::Word && raw.text == "true") return "True";
  if (raw.kind == Raw::Kind::Word && raw.text == "false") return "False";
  return std::string(raw.text);
}

std::int64_t EventTables::id(const Raw& raw) {
  return std::max<std::int64_t>(whole(raw).value_or(-1), -1);
}

std::uint32_t EventTables::intern(std::string_view name) {
  const auto [index, added] = find_or_add(name_index_, name, trace_.names.size());
  if (added) {
    trace_.names.emplace_back(name);
    call_kinds_.push_back(std::nullopt);
  }
  return index;
}

TraceCallKind EventTables::call_kind_of(std::uint32_t name) {
  std::optional<TraceCallKind>& kind = call_kinds_[name];
  if (!kind) kind = call_kind(trace_.names[name]);
  return *kind;
}

std::uint32_t EventTables::thread_of(const Event& e) {
  if (e.pid.present() && e.pid.text == last_pid_ && e.tid.text == last_tid_ && last_thread_ != trace_none) {
    return last_thread_;
  }
  const std::string process = shown(e.pid);
  const std::string thread = shown(e.tid);
  const auto [index, added] = find_or_add(thread_index_, process + '\n' + thread, trace_.threads.size());
  if (added) trace_.threads.push_back({process, thread, {}});
  last_pid_ = e.pid.text;
  last_tid_ = e.tid.text;
  last_thread_ = index;
  return index;
}

std::uint32_t EventTables::stream_of(const std::string& device, const std::string& name) {
  const auto [index, added] = find_or_add(stream_index_, device + '\n' + name, trace_.streams.size());
  if (added) {
    const auto found = std::find(trace_.devices.begin(), trace_.devices.end(), device);
    const auto device_index = static_cast<std::uint32_t>(found - trace_.devices.begin());
    if (found == trace_.devices.end()) trace_.devices.push_back(device);
    trace_.streams.push_back({device, name, device_index});
  }
  return index;
}

std::uint32_t EventTables::op_stream(const Event& e) {
  const Raw& device = e.device.present() ? e.device : e.pid;
  const Raw& stream = e.stream.present() ? e.stream : e.tid;
  if (last_stream_ != trace_none && device.kind == Raw::Kind::Number && stream.kind == Raw::Kind::Number &&
      device.text == last_device_text_ && stream.text == last_stream_text_) {
    return last_stream_;
  }
  const std::uint32_t index = stream_of(shown(device), shown(stream));
  if (device.kind == Raw::Kind::Number && stream.kind == Raw::Kind::Number) {
    last_device_text_ = device.text;
    last_stream_text_ = stream.text;
    last_stream_ = index;
  }
  return index;
}

EventTables::Category EventTables::category_of(const Raw& raw) {
  if (raw.kind != Raw::Kind::String) return Category::Unknown;
  if (raw.text == last_category_text_ && !raw.text.empty()) return last_category_;
  std::string text(raw.text);
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  Category category = Category::Unknown;
  if (text == "kernel") {
    category = Category::Kernel;
  } else if (text == "gpu_memcpy" || text == "memcpy") {
    category = Category::Memcpy;
  } else if (text == "gpu_memset" || text == "memset") {
    category = Category::Memset;
  } else if (text == "cuda_runtime" || text == "runtime" || text == "hip_runtime") {
    category = Category::Runtime;
  } else if (text == "cuda_driver" || text == "driver" || text == "hip_driver") {
    category = Category::Driver;
  } else if (text == "cpu_op" || text == "operator") {
    category = Category::CpuOp;
  } else if (text == "user_annotation") {
    category = Category::Annotation;
  } else if (text == "gpu_user_annotation") {
    category = Category::GpuAnnotation;
  } else if (text == "cuda_sync") {
    category = Category::Sync;
  } else if (text == "cuda_event") {
    category = Category::EventRecord;
  }
  last_category_text_ = raw.text;
  last_category_ = category;
  return category;
}

/// The index of the op's inputs. Few lists differ: a text met before is not read again.
std::uint32_t EventTables::inputs_of(const Event& e) {
  const auto list = [](const Raw& raw) {
    return raw.kind == Raw::Kind::Array ? raw.text : std::string_view();
  };
  const trace_json::InputTexts texts{list(e.shapes), list(e.strides), list(e.types), list(e.values)};
  if (texts.shapes.empty() && texts.types.empty()) return trace_none;
  std::string key;
  for (const std::string_view text : {texts.shapes, texts.strides, texts.types, texts.values}) {
    key += text;
    key += '\n';
  }
  const auto [index, added] = find_or_add(inputs_index_, key, trace_.inputs.size());
  if (added) trace_.inputs.push_back(trace_json::read_inputs(texts));
  return index;
}

std::uint32_t EventTables::collective_of(const Event& e) {
  if (!e.collective.present()) return trace_none;
  TraceCollective collective;
  collective.name = shown(e.collective);
  if (e.dtype.present()) collective.dtype = shown(e.dtype);
  if (e.group.present()) collective.group = shown(e.group);
  collective.in_elements = id(e.in_elements);
  collective.out_elements = id(e.out_elements);
  collective.group_size = id(e.group_size);
  const std::string key =
      fmt::format("{}\n{}\n{}\n{} {} {}", collective.name, collective.dtype, collective.group,
                  collective.in_elements, collective.out_elements, collective.group_size);
  const auto [index, added] = find_or_add(collective_index_, key, trace_.collectives.size());
  if (added) trace_.collectives.push_back(std::move(collective));
  return index;
}

void EventTables::keep(const Event& e) {
  ++trace_.events;
  if (!e.ph.is_string("X")) {
    if (e.ph.is_string("M") && e.name.is_string("thread_name") && e.label.present()) {
      thread_names_.emplace_back(shown(e.pid) + '\n' + shown(e.tid), shown(e.label));
    }
    return;
  }
  const Category category = category_of(e.cat);
  std::string other_name;
  std::string_view name = e.name.text;
  if (e.name.kind != Raw::Kind::String && e.name.kind != Raw::Kind::Number) {
    other_name = e.name.present() ? shown(e.name) : "";
    name = other_name;
  }
  const bool is_op =
      category == Category::Kernel || category == Category::Memcpy || category == Category::Memset;
  const bool is_call = category == Category::Runtime || category == Category::Driver;
  const bool is_step = !is_op && !is_call && category != Category::GpuAnnotation &&
                       (name.starts_with("ProfilerStep#") || name.starts_with("ProfilerStep*"));
  if (!is_op && !is_call && !is_step && category != Category::CpuOp && category != Category::Annotation &&
      category != Category::Sync && category != Category::EventRecord) {
    return;
  }
  const std::optional<TraceClock> start = clock(e.ts);
  const std::optional<TraceClock> length = e.dur.present() ? clock(e.dur) : TraceClock{};
  const std::optional<Picoseconds> duration = length ? clock_difference(*length, {}) : std::nullopt;
  if (!start || !duration || *duration < Picoseconds(0)) {
    ++(is_op || is_call || is_step ? trace_.invalid_events : trace_.dropped_spans);
    return;
  }
  const Start at{*start, e.ts_offset};
  if (is_op) {
    keep_op(e, category, name, at, *duration);
  } else if (is_call) {
    TraceCall call;
    call.end = *duration;
    call.name = intern(name);
    call.thread = thread_of(e);
    call.kind = call_kind_of(call.name);
    call.driver = category == Category::Driver;
    call.correlation = whole(e.correlation);
    call.external_id = id(e.external_id);
    trace_.calls.push_back(call);
    call_starts_.push_back(at);
  } else if (is_step) {
    TraceStep step;
    step.end = *duration;
    step.name = intern(name);
    step.thread = thread_of(e);
    const std::string_view digits = name.substr(std::string_view("ProfilerStep#").size());
    std::int64_t number = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), number).ec == std::errc())
      step.number = number;
    trace_.steps.push_back(step);
    step_starts_.push_back(at);
  } else if (category == Category::CpuOp || category == Category::Annotation) {
    keep_span(e, category, name, at, *duration);
  } else {
    keep_sync(e, category, name, at, *duration);
  }
}

void EventTables::keep_op(const Event& e, Category category, std::string_view name, Start at,
                          Picoseconds duration) {
  TraceOp op;
  op.end = duration;
  op.name = intern(name);
  op.stream = op_stream(e);
  op.kind = category == Category::Kernel   ? TraceOpKind::Kernel
            : category == Category::Memcpy ? TraceOpKind::Memcpy
                                           : TraceOpKind::Memset;
  op.correlation = whole(e.correlation);
  op.graph = whole(e.graph);
  op.graph_node = whole(e.graph_node);
  op.bytes = whole(e.bytes).value_or(0);
  op.grid = e.grid;
  op.block = e.block;
  op.registers = whole(e.registers).value_or(0);
  op.shared_memory = whole(e.shared_memory).value_or(0);
  op.external_id = id(e.external_id);
  op.collective = collective_of(e);
  const std::int64_t occupancy = id(e.occupancy);
  op.occupancy_percent = occupancy <= 100 ? static_cast<std::int32_t>(occupancy) : -1;
  trace_.ops.push_back(op);
  op_starts_.push_back(at);
}

void EventTables::keep_span(const Event& e, Category category, std::string_view name, Start at,
                            Picoseconds duration) {
  TraceSpan span;
  span.end = duration;
  span.name = intern(name);
  span.thread = thread_of(e);
  span.external_id = id(e.external_id);
  span.sequence = id(e.sequence);
  span.forward_thread = id(e.forward_thread);
  span.inputs = inputs_of(e);
  const bool op = category == Category::CpuOp;
  (op ? trace_.cpu_ops : trace_.annotations).push_back(span);
  (op ? cpu_op_starts_ : annotation_starts_).push_back(at);
}

void EventTables::keep_sync(const Event& e, Category category, std::string_view name, Start at,
                            Picoseconds duration) {
  TraceSync sync;
  sync.end = duration;
  sync.name = intern(name);
  sync.correlation = whole(e.correlation);
  const std::string device = shown(e.device.present() ? e.device : e.pid);
  const std::string stream = shown(e.stream.present() ? e.stream : e.tid);
  if (stream != "-1" && stream != "None") sync.stream = stream_of(device, stream);
  if (e.wait_on_stream.present() && shown(e.wait_on_stream) != "-1") {
    sync.wait_on_stream = stream_of(device, shown(e.wait_on_stream));
  }
  sync.event = whole(category == Category::EventRecord ? e.event_id : e.wait_on_event);
  sync.record_correlation = whole(e.record_correlation);
  if (sync.record_correlation && *sync.record_correlation < 0) sync.record_correlation.reset();
  if (category == Category::EventRecord) {
    sync.kind = TraceSyncKind::EventRecord;
  } else {
    const std::string_view kind = e.sync_kind.kind == Raw::Kind::String ? e.sync_kind.text : name;
    const auto says = [&](std::string_view word) { return kind.find(word) != std::string_view::npos; };
    sync.kind = says("Wait")                        ? TraceSyncKind::StreamWaitEvent
                : says("Event")                     ? TraceSyncKind::Event
                : says("Stream")                    ? TraceSyncKind::Stream
                : says("Context") || says("Device") ? TraceSyncKind::Context
                                                    : TraceSyncKind::Other;
  }
  trace_.syncs.push_back(sync);
  sync_starts_.push_back(at);
}

void EventTables::forget_texts() {
  last_pid_ = last_tid_ = last_device_text_ = last_stream_text_ = last_category_text_ = {};
  last_thread_ = last_stream_ = trace_none;
}

void EventTables::clear() {
  Trace kept;
  kept.device_properties = std::move(trace_.device_properties);
  kept.rank = trace_.rank;
  kept.world_size = trace_.world_size;
  *this = EventTables();
  trace_ = std::move(kept);
}

void EventTables::expect(double factor) {
  const auto reserve = [&](auto& entries) {
    entries.reserve(static_cast<std::size_t>(static_cast<double>(entries.size()) * factor));
  };
  reserve(trace_.ops);
  reserve(trace_.calls);
  reserve(trace_.cpu_ops);
  reserve(op_starts_);
  reserve(call_starts_);
  reserve(cpu_op_starts_);
}

/// Sets start and end of a table's entries. Those too far from the base are an error, or dropped.
template <class Entry>
void EventTables::place(std::vector<Entry>& entries, std::vector<Start>& starts, bool must_fit) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::optional<Picoseconds> start = clock_difference(starts[i].clock, trace_.base);
    if (!start) {
      if (must_fit) throw TimesTooFarApart{starts[i].offset};
      ++trace_.dropped_spans;
      continue;
    }
    entries[i].end += *start;
    entries[i].start = *start;
    if (kept != i) entries[kept] = entries[i];
    ++kept;
  }
  entries.resize(kept);
  starts = {};
}

Trace EventTables::finish() {
  std::optional<TraceClock> figures;  // of GPU ops, calls and steps
  std::optional<TraceClock> all;
  std::optional<TraceClock> last;
  const auto look = [&](const std::vector<Start>& starts, bool figure) {
    for (const Start& start : starts) {
      if (!all || start.clock < *all) all = start.clock;
      if (!last || start.clock > *last) last = start.clock;
      if (figure && (!figures || start.clock < *figures)) figures = start.clock;
    }
  };
  look(op_starts_, true);
  look(call_starts_, true);
  look(step_starts_, true);
  look(cpu_op_starts_, false);
  look(annotation_starts_, false);
  look(sync_starts_, false);
  if (all) {
    // A stray span far away must not cost the trace; GPU ops and calls have to fit.
    trace_.base = figures && !clock_difference(*last, *all) ? *figures : *all;
  }
  place(trace_.ops, op_starts_, true);
  place(trace_.calls, call_starts_, true);
  place(trace_.steps, step_starts_, true);
  place(trace_.cpu_ops, cpu_op_starts_, false);
  place(trace_.annotations, annotation_starts_, false);
  place(trace_.syncs, sync_starts_, false);
  find_depths(trace_.cpu_ops);
  find_depths(trace_.annotations);
  for (const auto& [key, name] : thread_names_) {
    if (const auto at = thread_index_.find(key); at != thread_index_.end())
      trace_.threads[at->second].name = name;
  }
  return std::move(trace_);
}

}  // namespace gpusim
