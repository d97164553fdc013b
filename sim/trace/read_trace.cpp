// SPDX-License-Identifier: Apache-2.0
// Reads traces with simdjson's On-Demand interface in one pass. Every value is visited, also those that
// nobody needs: only then is a text known to be JSON, and a broken one gets the same repairs as in any other
// reader.
#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "sim/trace/clock.hpp"
#include "sim/trace/json_value.hpp"
#include "sim/trace/kernel_names.hpp"
#include "sim/trace/op_inputs.hpp"
#include "sim/trace/text.hpp"
#include "sim/trace/trace.hpp"

namespace gpusim {
namespace {

namespace ondemand = simdjson::ondemand;
using trace_json::clock;
using trace_json::is_digit;
using trace_json::is_json_number;
using trace_json::Raw;
using trace_json::unescape;
using trace_json::whole;
using trace_text::Padded;

static_assert(trace_text::padding >= simdjson::SIMDJSON_PADDING);

/// The parts of an event that some table keeps, whatever its category turns out to be: keys come in any
/// order.
struct Event {
  Raw ph, cat, name, pid, tid, ts, dur;
  bool has_args = false;
  // args:
  Raw correlation, device, stream, bytes, graph, graph_node, registers, shared_memory, label;
  Raw sync_kind, wait_on_stream, wait_on_event, record_correlation, event_id;
  Raw external_id, sequence, forward_thread, occupancy;
  Raw collective, dtype, group, group_size, in_elements, out_elements;
  Raw shapes, strides, types, values;
  std::array<std::int64_t, 3> grid{0, 0, 0};
  std::array<std::int64_t, 3> block{0, 0, 0};
};

enum class Category : std::uint8_t {
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

/// One attempt to read a text as a trace.
class Reader {
 public:
  Reader(const Padded& text, const std::string& path, const TraceLimits& limits)
      : text_(text),
        path_(path),
        limits_(limits),
        has_backslash_(text.view().find('\\') != std::string_view::npos) {}

  /// Nothing where the text is not valid JSON.
  std::optional<Trace> read() {
    if (has_backslash_ && trace_text::has_bad_backslash(text_.view())) return std::nullopt;
    if (!read_document()) return std::nullopt;
    finish();
    return std::move(trace_);
  }

 private:
  struct Start {
    TraceClock clock;
    const char* place;  ///< In the text, for the error.
  };

  bool read_document() {
    const std::string_view text = text_.view();
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos) return false;

    ondemand::parser& parser = parser_;
    ondemand::document& document = document_;
    const simdjson::padded_string_view padded(text.data(), text.size(), text.size() + trace_text::padding);
    if (parser.iterate(padded).get(document) != simdjson::SUCCESS) return false;
    if (text[first] == '[') {
      ondemand::array events;
      if (document.get_array().get(events) != simdjson::SUCCESS || !read_events(events)) return false;
    } else if (text[first] == '{') {
      ondemand::object top;
      if (document.get_object().get(top) != simdjson::SUCCESS || !read_top(top)) return false;
    } else {
      return false;
    }
    // Whatever follows the value makes the text invalid.
    return document.current_location().error() == simdjson::OUT_OF_BOUNDS;
  }

  bool read_top(ondemand::object& top) {
    for (auto field : top) {
      std::string_view key;
      ondemand::value value;
      if (!key_of(field, key) || field.value().get(value) != simdjson::SUCCESS) return false;
      const char first = value.raw_json_token()[0];
      if (key == "traceEvents" && first == '[') {
        ondemand::array events;
        if (value.get_array().get(events) != simdjson::SUCCESS) return false;
        clear();  // Of two keys of one name, the last one counts.
        if (!read_events(events)) return false;
      } else if (key == "deviceProperties" && first == '[') {
        ondemand::array devices;
        if (value.get_array().get(devices) != simdjson::SUCCESS || !read_devices(devices)) return false;
      } else if (key == "distributedInfo" && first == '{') {
        ondemand::object info;
        if (value.get_object().get(info) != simdjson::SUCCESS || !read_distributed(info)) return false;
      } else {
        if (key == "traceEvents") clear();
        Raw ignored;
        if (!read_value(value, ignored, 1)) return false;
      }
    }
    return true;
  }

  bool read_events(ondemand::array& events) {
    for (auto element : events) {
      ondemand::value value;
      if (element.get(value) != simdjson::SUCCESS) return false;
      ++trace_.events;
      if (value.raw_json_token()[0] != '{') {
        Raw ignored;
        if (!read_value(value, ignored, 2)) return false;
        continue;
      }
      ondemand::object object;
      if (value.get_object().get(object) != simdjson::SUCCESS) return false;
      event_ = Event();
      if (!read_event(object)) return false;
      keep_event();
    }
    return true;
  }

  bool read_event(ondemand::object& object) {
    for (auto field : object) {
      std::string_view key;
      ondemand::value value;
      if (!key_of(field, key) || field.value().get(value) != simdjson::SUCCESS) return false;
      if (key == "args" && value.raw_json_token()[0] == '{') {
        ondemand::object args;
        if (value.get_object().get(args) != simdjson::SUCCESS || !read_args(args)) return false;
        continue;
      }
      Raw raw;
      if (!read_value(value, raw, 3)) return false;
      if (key == "ph") {
        event_.ph = raw;
      } else if (key == "cat") {
        event_.cat = raw;
      } else if (key == "name") {
        event_.name = raw;
      } else if (key == "pid") {
        event_.pid = raw;
      } else if (key == "tid") {
        event_.tid = raw;
      } else if (key == "ts") {
        event_.ts = raw;
      } else if (key == "dur") {
        event_.dur = raw;
      }
    }
    return true;
  }

  /// Where the value of an args key goes; null: nowhere.
  Raw* argument(std::string_view key) {
    Event& e = event_;
    switch (key.size()) {
      case 4:
        return key == "name" ? &e.label : nullptr;
      case 5:
        return key == "bytes" ? &e.bytes : key == "dtype" ? &e.dtype : nullptr;
      case 6:
        return key == "device" ? &e.device : key == "stream" ? &e.stream : nullptr;
      case 8:
        return key == "graph id" ? &e.graph : key == "event_id" ? &e.event_id : nullptr;
      case 10:
        return key == "Input Dims"   ? &e.shapes
               : key == "Input type" ? &e.types
               : key == "Group size" ? &e.group_size
                                     : nullptr;
      case 11:
        return key == "correlation" ? &e.correlation : key == "External id" ? &e.external_id : nullptr;
      case 13:
        return key == "graph node id"   ? &e.graph_node
               : key == "shared memory" ? &e.shared_memory
               : key == "Fwd thread id" ? &e.forward_thread
               : key == "Input Strides" ? &e.strides
               : key == "In msg nelems" ? &e.in_elements
                                        : nullptr;
      case 14:
        return key == "cuda_sync_kind"   ? &e.sync_kind
               : key == "wait_on_stream" ? &e.wait_on_stream
               : key == "Out msg nelems" ? &e.out_elements
                                         : nullptr;
      case 15:
        return key == "Sequence number"   ? &e.sequence
               : key == "Concrete Inputs" ? &e.values
               : key == "Collective name" ? &e.collective
                                          : nullptr;
      case 18:
        return key == "Process Group Name" ? &e.group : nullptr;
      case 20:
        return key == "registers per thread" ? &e.registers : nullptr;
      case 21:
        return key == "wait_on_cuda_event_id" ? &e.wait_on_event : nullptr;
      case 25:
        return key == "est. achieved occupancy %" ? &e.occupancy : nullptr;
      case 33:
        return key == "wait_on_cuda_event_record_corr_id" ? &e.record_correlation : nullptr;
      default:
        return nullptr;
    }
  }

  bool read_args(ondemand::object& args) {
    event_.has_args = true;
    for (auto field : args) {
      std::string_view key;
      ondemand::value value;
      if (!key_of(field, key) || field.value().get(value) != simdjson::SUCCESS) return false;
      if ((key == "grid" || key == "block") && value.raw_json_token()[0] == '[') {
        ondemand::array sizes;
        if (value.get_array().get(sizes) != simdjson::SUCCESS) return false;
        if (!read_sizes(sizes, key == "grid" ? event_.grid : event_.block)) return false;
        continue;
      }
      Raw raw;
      const char* const start = value.raw_json_token().data();
      if (!read_value(value, raw, 4)) return false;
      Raw* const place = argument(key);
      if (place == nullptr) continue;
      if (raw.kind == Raw::Kind::Array) {
        const char* end = nullptr;  // of the next token, with white space before it
        if (document_.current_location().get(end) == simdjson::SUCCESS)
          raw.text = {start, static_cast<std::size_t>(end - start)};
      }
      *place = raw;
    }
    return true;
  }

  bool read_sizes(ondemand::array& array, std::array<std::int64_t, 3>& sizes) {
    std::size_t i = 0;
    for (auto element : array) {
      ondemand::value value;
      Raw raw;
      if (element.get(value) != simdjson::SUCCESS || !read_value(value, raw, 5)) return false;
      if (i < sizes.size()) {
        const std::int64_t size = whole(raw).value_or(0);
        // CUDA's own limit on a grid; it also keeps the product of two from overflowing.
        sizes[i++] = size >= 0 && size <= std::numeric_limits<std::int32_t>::max() ? size : 0;
      }
    }
    return true;
  }

  bool read_devices(ondemand::array& devices) {
    trace_.device_properties.clear();
    for (auto element : devices) {
      ondemand::value value;
      if (element.get(value) != simdjson::SUCCESS) return false;
      if (value.raw_json_token()[0] != '{') {
        Raw ignored;
        if (!read_value(value, ignored, 2)) return false;
        continue;
      }
      ondemand::object object;
      if (value.get_object().get(object) != simdjson::SUCCESS) return false;
      TraceDevice device;
      for (auto field : object) {
        std::string_view key;
        ondemand::value property;
        Raw raw;
        if (!key_of(field, key) || field.value().get(property) != simdjson::SUCCESS) return false;
        if (!read_value(property, raw, 3)) return false;
        const std::int64_t number = whole(raw).value_or(0);
        if (key == "id") {
          device.id = shown(raw);
        } else if (key == "name") {
          device.name = shown(raw);
        } else if (key == "numSms") {
          device.sms = number;
        } else if (key == "totalGlobalMem") {
          device.memory_bytes = number;
        } else if (key == "computeMajor") {
          device.compute_major = number;
        } else if (key == "computeMinor") {
          device.compute_minor = number;
        } else if (key == "warpSize") {
          device.warp_size = number;
        } else if (key == "sharedMemPerMultiprocessor" || key == "maxSharedMemoryPerMultiProcessor") {
          device.shared_memory_per_sm = number;
        } else if (key == "regsPerMultiprocessor") {
          device.registers_per_sm = number;
        } else if (key == "maxThreadsPerMultiprocessor") {
          device.threads_per_sm = number;
        }
      }
      trace_.device_properties.push_back(std::move(device));
    }
    return true;
  }

  bool read_distributed(ondemand::object& info) {
    for (auto field : info) {
      std::string_view key;
      ondemand::value value;
      Raw raw;
      if (!key_of(field, key) || field.value().get(value) != simdjson::SUCCESS) return false;
      if (!read_value(value, raw, 2)) return false;
      if (key == "rank") trace_.rank = id(raw);
      if (key == "world_size") trace_.world_size = id(raw);
    }
    return true;
  }

  /// Visits a value and all in it.
  bool read_value(ondemand::value& value, Raw& raw, int depth) {
    std::string_view token = value.raw_json_token();
    switch (token[0]) {
      case '{': {
        raw.kind = Raw::Kind::Object;
        check_depth(depth, token.data());
        ondemand::object object;
        if (value.get_object().get(object) != simdjson::SUCCESS) return false;
        for (auto field : object) {
          std::string_view key;
          ondemand::value inner;
          Raw ignored;
          if (!key_of(field, key) || field.value().get(inner) != simdjson::SUCCESS) return false;
          if (!read_value(inner, ignored, depth + 1)) return false;
        }
        return true;
      }
      case '[': {
        raw.kind = Raw::Kind::Array;
        check_depth(depth, token.data());
        ondemand::array array;
        if (value.get_array().get(array) != simdjson::SUCCESS) return false;
        for (auto element : array) {
          ondemand::value inner;
          Raw ignored;
          if (element.get(inner) != simdjson::SUCCESS || !read_value(inner, ignored, depth + 1)) return false;
        }
        return true;
      }
      default:
        break;
    }
    // A token reaches up to the next one and so has white space at its end.
    while (!token.empty() && (token.back() == ' ' || (token.back() >= '\t' && token.back() <= '\r'))) {
      token.remove_suffix(1);
    }
    if (token.empty()) return false;
    if (token[0] == '"') {
      raw.kind = Raw::Kind::String;
      if (token.size() < 2 || token.back() != '"') return false;
      // Taken, not skipped: skipping a string also skips a ':' after it, even in an array.
      ondemand::raw_json_string taken;
      if (value.get_raw_json_string().get(taken) != simdjson::SUCCESS) return false;
      raw.text = token.substr(1, token.size() - 2);
      if (has_backslash_ && raw.text.find('\\') != std::string_view::npos)
        raw.text = keep(unescape(raw.text));
      return true;
    }
    raw.text = token;
    if (token[0] == '-' || is_digit(token[0])) {
      raw.kind = Raw::Kind::Number;
      if (is_json_number(token)) return true;
    }
    raw.kind = Raw::Kind::Word;
    return token == "null" || token == "true" || token == "false" || token == "NaN" || token == "Infinity" ||
           token == "-Infinity";
  }

  void check_depth(int depth, const char* place) const {
    if (depth < limits_.depth) return;
    const auto byte = static_cast<std::size_t>(place - text_.view().data());
    throw TraceError(
        path_, trace_text::place_of(text_.view(), byte),
        fmt::format("values are nested deeper than the limit TraceLimits::depth of {}", limits_.depth));
  }

  template <class Field>
  bool key_of(Field& field, std::string_view& key) {
    ondemand::raw_json_string raw;
    if (field.key().get(raw) != simdjson::SUCCESS) return false;
    const char* const start = raw.raw();
    const char* const limit = text_.view().data() + text_.size;
    const char* end = start;
    if (!has_backslash_) {
      end = static_cast<const char*>(std::memchr(start, '"', static_cast<std::size_t>(limit - start)));
      if (end == nullptr) return false;
      key = {start, static_cast<std::size_t>(end - start)};
      return true;
    }
    while (end < limit && *end != '"') end += *end == '\\' ? 2 : 1;
    if (end >= limit) return false;
    key = {start, static_cast<std::size_t>(end - start)};
    if (key.find('\\') != std::string_view::npos) key = keep(unescape(key));
    return true;
  }

  std::string_view keep(std::string text) { return unescaped_.emplace_back(std::move(text)); }

  /// As people see it. The words are those that the reference figures use to tell streams apart.
  static std::string shown(const Raw& raw) {
    if (raw.kind == Raw::Kind::Absent || (raw.kind == Raw::Kind::Word && raw.text == "null")) return "None";
    if (raw.kind == Raw::Kind::Word && raw.text == "true") return "True";
    if (raw.kind == Raw::Kind::Word && raw.text == "false") return "False";
    return std::string(raw.text);
  }

  std::uint32_t intern(std::string_view name) {
    const auto [at, added] = name_index_.try_emplace(name, static_cast<std::uint32_t>(trace_.names.size()));
    if (added) {
      trace_.names.emplace_back(name);
      call_kinds_.push_back(std::nullopt);
    }
    return at->second;
  }

  TraceCallKind call_kind_of(std::uint32_t name) {
    std::optional<TraceCallKind>& kind = call_kinds_[name];
    if (!kind) kind = call_kind(trace_.names[name]);
    return *kind;
  }

  std::uint32_t thread_of(const Event& e) {
    if (e.pid.present() && e.pid.text == last_pid_ && e.tid.text == last_tid_ && last_thread_ != trace_none) {
      return last_thread_;
    }
    const std::string process = shown(e.pid);
    const std::string thread = shown(e.tid);
    const auto [at, added] =
        thread_index_.try_emplace(process + '\n' + thread, static_cast<std::uint32_t>(trace_.threads.size()));
    if (added) trace_.threads.push_back({process, thread, {}});
    last_pid_ = e.pid.text;
    last_tid_ = e.tid.text;
    last_thread_ = at->second;
    return at->second;
  }

  std::uint32_t stream_of(const std::string& device, const std::string& name) {
    const auto [at, added] =
        stream_index_.try_emplace(device + '\n' + name, static_cast<std::uint32_t>(trace_.streams.size()));
    if (added) {
      const auto found = std::find(trace_.devices.begin(), trace_.devices.end(), device);
      const auto index = static_cast<std::uint32_t>(found - trace_.devices.begin());
      if (found == trace_.devices.end()) trace_.devices.push_back(device);
      trace_.streams.push_back({device, name, index});
    }
    return at->second;
  }

  std::uint32_t op_stream(const Event& e) {
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

  Category category_of(const Raw& raw) {
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

  void keep_event() {
    const Event& e = event_;
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
      name = keep(other_name);
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
    const Start at{*start, e.ts.text.data()};
    if (is_op) {
      keep_op(category, name, at, *duration);
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
      TraceSpan span;
      span.end = *duration;
      span.name = intern(name);
      span.thread = thread_of(e);
      span.external_id = id(e.external_id);
      span.sequence = id(e.sequence);
      span.forward_thread = id(e.forward_thread);
      span.inputs = inputs_of(e);
      if (category == Category::CpuOp) {
        trace_.cpu_ops.push_back(span);
        cpu_op_starts_.push_back(at);
      } else {
        trace_.annotations.push_back(span);
        annotation_starts_.push_back(at);
      }
    } else {
      keep_sync(category, name, at, *duration);
    }
  }

  /// A number that is at least 0; -1 where there is none.
  static std::int64_t id(const Raw& raw) { return std::max<std::int64_t>(whole(raw).value_or(-1), -1); }

  /// The index of the op's inputs. Few lists differ: a text met before is not read again.
  std::uint32_t inputs_of(const Event& e) {
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
    const auto [at, added] =
        inputs_index_.try_emplace(std::move(key), static_cast<std::uint32_t>(trace_.inputs.size()));
    if (added) trace_.inputs.push_back(trace_json::read_inputs(texts));
    return at->second;
  }

  std::uint32_t collective_of(const Event& e) {
    if (!e.collective.present()) return trace_none;
    TraceCollective collective;
    collective.name = shown(e.collective);
    if (e.dtype.present()) collective.dtype = shown(e.dtype);
    if (e.group.present()) collective.group = shown(e.group);
    collective.in_elements = id(e.in_elements);
    collective.out_elements = id(e.out_elements);
    collective.group_size = id(e.group_size);
    std::vector<TraceCollective>& all = trace_.collectives;
    const std::string key =
        fmt::format("{}\n{}\n{}\n{} {} {}", collective.name, collective.dtype, collective.group,
                    collective.in_elements, collective.out_elements, collective.group_size);
    const auto [at, added] = collective_index_.try_emplace(key, static_cast<std::uint32_t>(all.size()));
    if (added) all.push_back(std::move(collective));
    return at->second;
  }

  void keep_op(Category category, std::string_view name, Start at, Picoseconds duration) {
    const Event& e = event_;
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

  void keep_sync(Category category, std::string_view name, Start at, Picoseconds duration) {
    const Event& e = event_;
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

  void clear() {
    Trace kept;
    kept.device_properties = std::move(trace_.device_properties);
    kept.rank = trace_.rank;
    kept.world_size = trace_.world_size;
    trace_ = std::move(kept);
    for (auto* starts :
         {&op_starts_, &call_starts_, &step_starts_, &cpu_op_starts_, &annotation_starts_, &sync_starts_}) {
      starts->clear();
    }
    name_index_.clear();
    thread_index_.clear();
    stream_index_.clear();
    inputs_index_.clear();
    collective_index_.clear();
    call_kinds_.clear();
    thread_names_.clear();
    last_thread_ = last_stream_ = trace_none;
  }

  /// Sets start and end of a table's entries. Those too far from the base are an error, or dropped.
  template <class Entry>
  void place(std::vector<Entry>& entries, const std::vector<Start>& starts, bool must_fit) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const std::optional<Picoseconds> start = clock_difference(starts[i].clock, trace_.base);
      if (!start) {
        if (must_fit) {
          const auto byte = static_cast<std::size_t>(starts[i].place - text_.view().data());
          throw TraceError(path_, trace_text::place_of(text_.view(), byte),
                           "GPU ops and calls start more than 53 days apart; this time cannot be right, or "
                           "another is wrong");
        }
        ++trace_.dropped_spans;
        continue;
      }
      entries[i].end += *start;
      entries[i].start = *start;
      if (kept != i) entries[kept] = entries[i];
      ++kept;
    }
    entries.resize(kept);
  }

  void finish() {
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
    for (auto& [key, name] : thread_names_) {
      if (const auto at = thread_index_.find(key); at != thread_index_.end())
        trace_.threads[at->second].name = name;
    }
  }

  const Padded& text_;
  const std::string& path_;
  const TraceLimits& limits_;
  const bool has_backslash_;
  ondemand::parser parser_{std::numeric_limits<std::uint32_t>::max()};
  ondemand::document document_;
  Event event_;
  Trace trace_;
  std::deque<std::string>
      unescaped_;  ///< Strings that Raw values point into when the text itself has escapes.
  std::vector<Start> op_starts_, call_starts_, step_starts_, cpu_op_starts_, annotation_starts_, sync_starts_;
  std::unordered_map<std::string_view, std::uint32_t> name_index_;
  std::unordered_map<std::string, std::uint32_t> thread_index_;
  std::unordered_map<std::string, std::uint32_t> stream_index_;
  std::unordered_map<std::string, std::uint32_t> inputs_index_;
  std::unordered_map<std::string, std::uint32_t> collective_index_;
  std::vector<std::optional<TraceCallKind>> call_kinds_;  ///< By name.
  std::vector<std::pair<std::string, std::string>> thread_names_;
  // Neighbouring events mostly agree in these.
  std::string_view last_pid_, last_tid_, last_device_text_, last_stream_text_, last_category_text_;
  std::uint32_t last_thread_ = trace_none;
  std::uint32_t last_stream_ = trace_none;
  Category last_category_ = Category::Unknown;
};

Trace read_text(Padded text, const std::string& path, const TraceLimits& limits) {
  std::vector<std::string> repairs;
  const auto attempt = [&](const Padded& candidate) {
    std::optional<Trace> trace = Reader(candidate, path, limits).read();
    if (trace) {
      trace->file = path;
      trace->repairs = repairs;
    }
    return trace;
  };
  if (std::optional<Trace> trace = attempt(text)) return *std::move(trace);

  if (!simdjson::validate_utf8(text.view().data(), text.size)) {
    repairs.emplace_back("invalid utf-8");
    text = trace_text::pad(trace_text::replace_invalid_utf8(text.view()));
    if (std::optional<Trace> trace = attempt(text)) return *std::move(trace);
  }
  std::vector<std::string> before = repairs;
  if (trace_text::has_bad_backslash(text.view())) {
    repairs.emplace_back("unescaped backslash");
    text = trace_text::pad(trace_text::double_backslashes(text.view()));
  } else {
    repairs.emplace_back("control character");
  }
  if (std::optional<Trace> trace = attempt(trace_text::pad(trace_text::escape_controls(text.view())))) {
    return *std::move(trace);
  }
  if (repairs.back() == "control character") repairs = std::move(before);

  const trace_text::Salvage salvage = trace_text::salvage_events(text.view(), limits.depth);
  if (!salvage.found) {
    const trace_text::Scan scan = trace_text::first_error(text.view(), limits.depth);
    const bool whole = scan.ok();
    throw TraceError(
        path, trace_text::place_of(text.view(), whole ? 0 : scan.end),
        whole ? "not a trace: an object or a list of events was expected"
              : fmt::format("not a trace, neither valid JSON nor a list of events: {}", scan.error));
  }
  repairs.emplace_back("truncated");
  if (std::optional<Trace> trace = attempt(trace_text::pad(salvage.complete))) return *std::move(trace);
  if (std::optional<Trace> trace = attempt(trace_text::pad(salvage.events_alone))) return *std::move(trace);
  const trace_text::Scan scan = trace_text::first_error(text.view(), limits.depth);
  throw TraceError(path, trace_text::place_of(text.view(), scan.end),
                   fmt::format("not a trace: {}", scan.ok() ? "it cannot be read" : scan.error));
}

std::string compose(const std::string& path, const TraceError::Place& place, const std::string& message) {
  if (place.line > 0) {
    return fmt::format("{}:{}:{}: error: {} (byte {})", path, place.line, place.column, message, place.byte);
  }
  if (place.byte != TraceError::nowhere)
    return fmt::format("{}: error: {} (byte {})", path, message, place.byte);
  return fmt::format("{}: error: {}", path, message);
}

}  // namespace

TraceError::TraceError(std::string path, Place place, const std::string& message)
    : std::runtime_error(compose(path, place, message)),
      path_(std::move(path)),
      place_(place),
      message_(message) {}

Trace read_trace(const std::string& path, const TraceLimits& limits) {
  return read_text(trace_text::expand(trace_text::read_file(path, limits), path, limits), path, limits);
}

Trace read_trace_bytes(std::string_view bytes, const std::string& name, const TraceLimits& limits) {
  if (bytes.size() > limits.file_bytes) {
    throw TraceError(
        name, {},
        fmt::format("is larger than the limit TraceLimits::file_bytes of {} bytes", limits.file_bytes));
  }
  return read_text(trace_text::expand(trace_text::pad(bytes), name, limits), name, limits);
}

}  // namespace gpusim
