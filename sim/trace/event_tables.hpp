// SPDX-License-Identifier: Apache-2.0
// The tables of a trace while its events come in, one by one.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/trace/json_value.hpp"
#include "sim/trace/trace.hpp"

namespace gpusim {

using trace_json::Raw;

/// The parts of an event that some table keeps, whatever its category turns out to be: keys come in any
/// order.
struct Event {
  Raw ph, cat, name, pid, tid, ts, dur;
  std::uint64_t ts_offset = 0;  ///< Of the ts in the JSON text, for errors.
  // args:
  Raw correlation, device, stream, bytes, graph, graph_node, registers, shared_memory, label;
  Raw sync_kind, wait_on_stream, wait_on_event, record_correlation, event_id;
  Raw external_id, sequence, forward_thread, occupancy;
  Raw collective, dtype, group, group_size, in_elements, out_elements;
  Raw shapes, strides, types, values;
  std::array<std::int64_t, 3> grid{0, 0, 0};
  std::array<std::int64_t, 3> block{0, 0, 0};
};

/// Some numbers of a trace cannot belong together.
struct TimesTooFarApart {
  std::uint64_t offset = 0;  ///< Of the time that does not fit.
};

class EventTables {
 public:
  /// Adds what the event says, if anybody needs it.
  void keep(const Event& event);
  /// The texts that Raw values of earlier events point to are about to go.
  void forget_texts();
  /// Drops all events, keeps what was said beside them.
  void clear();
  /// Makes room for as many entries as `factor` times those so far.
  void expect(double factor);
  /// The finished tables, with times after Trace::base. Throws TimesTooFarApart.
  Trace finish();

  Trace& trace() { return trace_; }

  /// As people see a value; the words are those that the reference figures use to tell streams apart.
  static std::string shown(const Raw& raw);
  /// A number that is at least 0; -1 where there is none.
  static std::int64_t id(const Raw& raw);

 private:
  struct Start {
    TraceClock clock;
    std::uint64_t offset;
  };
  enum class Category : std::uint8_t;
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  using Index = std::unordered_map<std::string, std::uint32_t, TextHash, std::equal_to<>>;

  std::uint32_t intern(std::string_view name);
  TraceCallKind call_kind_of(std::uint32_t name);
  std::uint32_t thread_of(const Event& e);
  std::uint32_t stream_of(const std::string& device, const std::string& name);
  std::uint32_t op_stream(const Event& e);
  std::uint32_t inputs_of(const Event& e);
  std::uint32_t collective_of(const Event& e);
  Category category_of(const Raw& raw);
  void keep_op(const Event& e, Category category, std::string_view name, Start at, Picoseconds duration);
  void keep_span(const Event& e, Category category, std::string_view name, Start at, Picoseconds duration);
  void keep_sync(const Event& e, Category category, std::string_view name, Start at, Picoseconds duration);
  template <class Entry>
  void place(std::vector<Entry>& entries, std::vector<Start>& starts, bool must_fit);

  Trace trace_;
  std::vector<Start> op_starts_, call_starts_, step_starts_, cpu_op_starts_, annotation_starts_, sync_starts_;
  Index name_index_, thread_index_, stream_index_, inputs_index_, collective_index_;
  std::vector<std::optional<TraceCallKind>> call_kinds_;  ///< By name.
  std::vector<std::pair<std::string, std::string>> thread_names_;
  // Neighbouring events mostly agree in these.
  std::string_view last_pid_, last_tid_, last_device_text_, last_stream_text_, last_category_text_;
  std::uint32_t last_thread_ = trace_none;
  std::uint32_t last_stream_ = trace_none;
  Category last_category_{};
};

}  // namespace gpusim
