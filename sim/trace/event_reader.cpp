// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/event_reader.hpp"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <limits>
#include <string>
#include <string_view>

#include "sim/trace/text.hpp"

namespace gpusim {
namespace {

namespace ondemand = simdjson::ondemand;
using trace_json::is_digit;
using trace_json::is_json_number;
using trace_json::unescape;
using trace_json::whole;

static_assert(trace_text::padding >= simdjson::SIMDJSON_PADDING);

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

constexpr bool ok(simdjson::error_code error) {
  return error == simdjson::SUCCESS;
}

/// Where the value of an event's args goes; null: nowhere.
Raw* argument(Event& e, std::string_view key) {
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

/// The same for the event's own keys.
Raw* member(Event& e, std::string_view key) {
  switch (key.size()) {
    case 2:
      return key == "ph" ? &e.ph : key == "ts" ? &e.ts : nullptr;
    case 3:
      return key == "cat"   ? &e.cat
             : key == "pid" ? &e.pid
             : key == "tid" ? &e.tid
             : key == "dur" ? &e.dur
                            : nullptr;
    case 4:
      return key == "name" ? &e.name : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace

/// Reads one text. What it says of strings is valid until the next.
class EventReader::Parser {
 public:
  Parser(EventTables& tables, int depth_max) : tables_(tables), depth_max_(depth_max) {}

  bool open(const char* text, std::size_t size, ondemand::document& document) {
    text_ = text;
    limit_ = text + size;
    too_deep_ = nullptr;
    unescaped_.clear();
    has_backslash_ = std::memchr(text, '\\', size) != nullptr;
    if (has_backslash_ && trace_text::has_bad_backslash({text, size})) return false;
    document_ = &document;
    return ok(
        parser_.iterate(simdjson::padded_string_view(text, size, size + trace_text::padding)).get(document));
  }

  bool read_events(ondemand::array& events, std::uint64_t offset, const char*& whole_until) {
    offset_ = offset;
    for (auto element : events) {
      ondemand::value value;
      if (!ok(element.get(value))) return false;
      if (value.raw_json_token()[0] == '{') {
        ondemand::object object;
        event_ = Event();
        if (!ok(value.get_object().get(object)) || !read_event(object)) return false;
        tables_.keep(event_);
      } else {
        Raw ignored;
        if (!read_value(value, ignored, 2)) return false;
        ++tables_.trace().events;
      }
      const char* next = nullptr;
      if (!ok(document_->current_location().get(next))) return false;
      whole_until = next;
    }
    return true;
  }

  bool read_top(ondemand::object& top) {
    Trace& trace = tables_.trace();
    for (auto field : top) {
      std::string_view key;
      ondemand::value value;
      if (!key_of(field, key) || !ok(field.value().get(value))) return false;
      const char first = value.raw_json_token()[0];
      if (key == "deviceProperties" && first == '[') {
        ondemand::array devices;
        if (!ok(value.get_array().get(devices)) || !read_devices(devices)) return false;
      } else if (key == "distributedInfo" && first == '{') {
        ondemand::object info;
        if (!ok(value.get_object().get(info))) return false;
        const bool read = for_each_member(info, [&](std::string_view name, const Raw& raw) {
          if (name == "rank") trace.rank = EventTables::id(raw);
          if (name == "world_size") trace.world_size = EventTables::id(raw);
        });
        if (!read) return false;
      } else {
        Raw ignored;
        if (!read_value(value, ignored, 1)) return false;
      }
    }
    return true;
  }

  const char* too_deep() const { return too_deep_; }

 private:
  bool read_event(ondemand::object& object) {
    for (auto field : object) {
      std::string_view key;
      ondemand::value value;
      if (!key_of(field, key) || !ok(field.value().get(value))) return false;
      if (key == "args" && value.raw_json_token()[0] == '{') {
        ondemand::object args;
        if (!ok(value.get_object().get(args)) || !read_args(args)) return false;
        continue;
      }
      Raw* const place = member(event_, key);
      if (place == &event_.ts)
        event_.ts_offset = offset_ + static_cast<std::uint64_t>(value.raw_json_token().data() - text_);
      Raw ignored;
      Raw& raw = place != nullptr ? *place : ignored;
      raw = {};
      if (!read_value(value, raw, 3)) return false;
    }
    return true;
  }

  bool read_args(ondemand::object& args) {
    for (auto field : args) {
      std::string_view key;
      ondemand::value value;
      if (!key_of(field, key) || !ok(field.value().get(value))) return false;
      const char* const start = value.raw_json_token().data();
      if (*start == '[' && (key == "grid" || key == "block")) {
        ondemand::array sizes;
        if (!ok(value.get_array().get(sizes))) return false;
        if (!read_sizes(sizes, key == "grid" ? event_.grid : event_.block)) return false;
        continue;
      }
      Raw* const place = argument(event_, key);
      Raw ignored;
      Raw& raw = place != nullptr ? *place : ignored;
      raw = {};
      if (!read_value(value, raw, 4)) return false;
      if (place != nullptr && raw.kind == Raw::Kind::Array) {
        const char* end = nullptr;  // of the next token, with white space before it
        if (ok(document_->current_location().get(end)))
          raw.text = {start, static_cast<std::size_t>(end - start)};
      }
    }
    return true;
  }

  bool read_sizes(ondemand::array& array, std::array<std::int64_t, 3>& sizes) {
    std::size_t i = 0;
    for (auto element : array) {
      ondemand::value value;
      Raw raw;
      if (!ok(element.get(value)) || !read_value(value, raw, 5)) return false;
      if (i < sizes.size()) {
        const std::int64_t size = whole(raw).value_or(0);
        // CUDA's own limit on a grid; it also keeps the product of two from overflowing.
        sizes[i++] = size >= 0 && size <= std::numeric_limits<std::int32_t>::max() ? size : 0;
      }
    }
    return true;
  }

  /// Calls visit(key, value) for each member.
  template <class Visit>
  bool for_each_member(ondemand::object& object, Visit visit) {
    for (auto field : object) {
      std::string_view key;
      ondemand::value value;
      Raw raw;
      if (!key_of(field, key) || !ok(field.value().get(value)) || !read_value(value, raw, 3)) return false;
      visit(key, raw);
    }
    return true;
  }

  bool read_devices(ondemand::array& devices) {
    Trace& trace = tables_.trace();
    trace.device_properties.clear();
    for (auto element : devices) {
      ondemand::value value;
      if (!ok(element.get(value))) return false;
      if (value.raw_json_token()[0] != '{') {
        Raw ignored;
        if (!read_value(value, ignored, 2)) return false;
        continue;
      }
      ondemand::object object;
      if (!ok(value.get_object().get(object))) return false;
      TraceDevice device;
      const bool read = for_each_member(object, [&](std::string_view key, const Raw& raw) {
        const std::int64_t number = whole(raw).value_or(0);
        if (key == "id") {
          device.id = EventTables::shown(raw);
        } else if (key == "name") {
          device.name = EventTables::shown(raw);
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
      });
      if (!read) return false;
      trace.device_properties.push_back(std::move(device));
    }
    return true;
  }

  /// Visits a value and all in it.
  bool read_value(ondemand::value& value, Raw& raw, int depth) {
    std::string_view token = value.raw_json_token();
    switch (token[0]) {
      case '{': {
        raw.kind = Raw::Kind::Object;
        if (!check_depth(depth, token.data())) return false;
        ondemand::object object;
        if (!ok(value.get_object().get(object))) return false;
        for (auto field : object) {
          std::string_view key;
          ondemand::value inner;
          Raw ignored;
          if (!key_of(field, key) || !ok(field.value().get(inner))) return false;
          if (!read_value(inner, ignored, depth + 1)) return false;
        }
        return true;
      }
      case '[': {
        raw.kind = Raw::Kind::Array;
        if (!check_depth(depth, token.data())) return false;
        ondemand::array array;
        if (!ok(value.get_array().get(array))) return false;
        for (auto element : array) {
          ondemand::value inner;
          Raw ignored;
          if (!ok(element.get(inner)) || !read_value(inner, ignored, depth + 1)) return false;
        }
        return true;
      }
      default:
        break;
    }
    // A token reaches up to the next one and so has white space at its end.
    while (!token.empty() && is_space(token.back())) token.remove_suffix(1);
    if (token.empty()) return false;
    if (token[0] == '"') {
      raw.kind = Raw::Kind::String;
      if (token.size() < 2 || token.back() != '"') return false;
      // Taken, not skipped: skipping a string also skips a ':' after it, even in an array.
      ondemand::raw_json_string taken;
      if (!ok(value.get_raw_json_string().get(taken))) return false;
      raw.text = token.substr(1, token.size() - 2);
      if (has_backslash_ && raw.text.find('\\') != std::string_view::npos)
        raw.text = kept(unescape(raw.text));
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

  bool check_depth(int depth, const char* place) {
    if (depth < depth_max_) return true;
    too_deep_ = place;
    return false;
  }

  template <class Field>
  bool key_of(Field& field, std::string_view& key) {
    ondemand::raw_json_string raw;
    if (!ok(field.key().get(raw))) return false;
    const char* const start = raw.raw();
    const char* end = start;
    if (!has_backslash_) {
      while (end < limit_ && *end != '"') ++end;  // Keys are short: faster than memchr.
    } else {
      while (end < limit_ && *end != '"') end += *end == '\\' ? 2 : 1;
    }
    if (end >= limit_) return false;
    key = {start, static_cast<std::size_t>(end - start)};
    if (has_backslash_ && key.find('\\') != std::string_view::npos) key = kept(unescape(key));
    return true;
  }

  std::string_view kept(std::string text) { return unescaped_.emplace_back(std::move(text)); }

  EventTables& tables_;
  const int depth_max_;
  ondemand::parser parser_{std::numeric_limits<std::uint32_t>::max()};
  ondemand::document* document_ = nullptr;
  const char* text_ = nullptr;
  const char* limit_ = nullptr;
  const char* too_deep_ = nullptr;
  std::uint64_t offset_ = 0;
  bool has_backslash_ = false;
  Event event_;
  /// Strings that Raw values point into when the text itself has escapes.
  std::deque<std::string> unescaped_;
};

EventReader::EventReader(EventTables& tables, int depth_max)
    : tables_(tables), depth_max_(depth_max), parser_(std::make_unique<Parser>(tables, depth_max)) {}

EventReader::~EventReader() = default;

EventReader::Piece EventReader::read_events(char* text, std::size_t size, std::uint64_t offset) {
  char& before = *(text - 1);
  char& after = text[size];
  const char before_was = std::exchange(before, '[');
  const char after_was = std::exchange(after, ']');
  Piece piece;
  ondemand::document document;
  ondemand::array events;
  if (parser_->open(text - 1, size + 2, document) && ok(document.get_array().get(events))) {
    const char* whole_until = text;
    const bool all = parser_->read_events(events, offset - 1, whole_until);
    // Up to here it was the next token; white space before it belongs to nobody.
    const char* next = nullptr;
    if (all && ok(document.current_location().get(next)) && next <= text + size) {
      piece.closed = true;  // by a bracket of the text
      whole_until = next;
    }
    while (whole_until > text && is_space(whole_until[-1])) --whole_until;
    piece.end = static_cast<std::size_t>(std::min<const char*>(whole_until, text + size) - text);
    if (const char* const place = parser_->too_deep(); place != nullptr)
      too_deep_ = offset + static_cast<std::uint64_t>(place - text);
  }
  tables_.forget_texts();
  before = before_was;
  after = after_was;
  return piece;
}

bool EventReader::read_member(const char* text, std::size_t size, std::uint64_t offset) {
  ondemand::document document;
  ondemand::object object;
  const bool read = parser_->open(text, size, document) && ok(document.get_object().get(object)) &&
                    parser_->read_top(object) &&
                    document.current_location().error() == simdjson::OUT_OF_BOUNDS;
  if (const char* const place = parser_->too_deep(); place != nullptr)
    too_deep_ = offset + static_cast<std::uint64_t>(place - text);
  return read;
}

}  // namespace gpusim
