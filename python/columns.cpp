// SPDX-License-Identifier: Apache-2.0
#include "python/columns.hpp"

#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "models/graph/memory.hpp"
#include "sim/engine/result.hpp"

namespace gpusim::python {
namespace {

namespace py = pybind11;

template <class T>
py::object array_of_type(const char* code, const std::vector<T>& values) {
  py::object array = py::module_::import("array").attr("array")(code);
  if (!values.empty())
    array.attr("frombytes")(
        py::memoryview::from_memory(values.data(), static_cast<py::ssize_t>(values.size() * sizeof(T))));
  return array;
}

const char* name_of(engine::OpKind kind) {
  switch (kind) {
    case engine::OpKind::Kernel:
      return "kernel";
    case engine::OpKind::Memcpy:
      return "memcpy";
    case engine::OpKind::Memset:
      return "memset";
  }
  return "kernel";
}

const char* name_of(engine::Call call) {
  using engine::Call;
  switch (call) {
    case Call::Work:
      return "work";
    case Call::Input:
      return "input";
    case Call::Launch:
      return "launch";
    case Call::LaunchGraph:
      return "launch_cuda_graph";
    case Call::Record:
      return "record";
    case Call::StreamWait:
      return "wait";
    case Call::SynchronizeStream:
    case Call::SynchronizeEvent:
    case Call::SynchronizeDevice:
      return "synchronize";
    case Call::Allocate:
      return "allocate";
    case Call::Free:
      return "free";
    case Call::Signal:
      return "signal";
    case Call::Await:
      return "await";
  }
  return "work";
}

/// One str object for each name, however often it is used.
std::vector<py::str> strings_of(const std::vector<std::string>& names) {
  std::vector<py::str> strings;
  strings.reserve(names.size());
  for (const std::string& name : names) strings.emplace_back(name);
  return strings;
}

/// Start and end of rows, exact and in microseconds.
struct Spans {
  std::vector<std::int64_t> start_ps;
  std::vector<std::int64_t> end_ps;
  std::vector<double> start_us;
  std::vector<double> end_us;

  void add(Picoseconds start, Picoseconds end) {
    start_ps.push_back(start.count());
    end_ps.push_back(end.count());
    start_us.push_back(microseconds(start));
    end_us.push_back(microseconds(end));
  }
  void write(py::dict& table) const {
    table["start_us"] = array_of(start_us);
    table["end_us"] = array_of(end_us);
    table["start_ps"] = array_of(start_ps);
    table["end_ps"] = array_of(end_ps);
  }
};

py::object name_or_none(engine::Index index, const std::vector<py::str>& names) {
  return index == engine::no_index ? py::object(py::none()) : py::object(names[index]);
}

/// Memory in use from a moment on; of networks by what it is taken for, too.
py::dict memory_of(const report::VariantResult& result, const std::vector<engine::Index>& calls) {
  const engine::Timeline& timeline = *result.timeline;
  std::vector<double> at_us;
  std::vector<std::int64_t> bytes;
  std::vector<std::vector<std::int64_t>> by_kind;
  if (result.memory_marks.empty()) {
    for (const engine::MemoryRecord& record : timeline.memory) {
      at_us.push_back(microseconds(record.at));
      bytes.push_back(record.bytes);
    }
  } else {
    // By thread and instruction; of pieces that one call launches, the one that needs most.
    std::map<std::pair<std::uint16_t, engine::Index>, const MemoryShares*> marks;
    for (const report::MemoryMark& mark : result.memory_marks) {
      const MemoryShares*& shares = marks[{mark.thread, mark.instruction}];
      if (shares == nullptr || shares->total() < mark.shares.total()) shares = &mark.shares;
    }
    by_kind.resize(memory_kind_count);
    for (const engine::Index number : calls) {
      const engine::CallRecord call = timeline.call(number);
      const auto mark = marks.find({call.thread, call.instruction});
      if (mark == marks.end()) continue;
      at_us.push_back(microseconds(call.start));
      bytes.push_back(mark->second->total().value());
      for (std::size_t kind = 0; kind < memory_kind_count; ++kind)
        by_kind[kind].push_back((*mark->second)[static_cast<MemoryKind>(kind)].value());
    }
  }
  py::dict memory;
  memory["at_us"] = array_of(at_us);
  memory["bytes"] = array_of(bytes);
  for (std::size_t kind = 0; kind < by_kind.size(); ++kind)
    memory[py::str(std::string(gpusim::name(static_cast<MemoryKind>(kind))))] = array_of(by_kind[kind]);
  return memory;
}

}  // namespace

py::object array_of(const std::vector<std::int64_t>& values) {
  static_assert(sizeof(long long) == sizeof(std::int64_t));
  return array_of_type("q", values);
}
py::object array_of(const std::vector<double>& values) {
  return array_of_type("d", values);
}

py::dict to_dict(const std::vector<SweepColumn>& columns) {
  py::dict dict;
  for (const SweepColumn& column : columns)
    dict[py::str(column.name())] = std::visit(
        [](const auto& values) -> py::object {
          if constexpr (std::is_same_v<std::decay_t<decltype(values)>, SweepColumn::Words>) {
            py::list words;
            for (const auto& word : values)
              words.append(word ? py::object(py::str(*word)) : py::object(py::none()));
            return words;
          } else {
            return array_of(values);
          }
        },
        column.values());
  return dict;
}

py::dict timeline_of(const report::VariantResult& result) {
  const engine::Program& program = result.program;
  const engine::Timeline& timeline = *result.timeline;
  const std::vector<py::str> names = strings_of(program.names);

  // Rows of calls by their number.
  const std::vector<engine::Index> calls = timeline.calls_in_order();
  std::vector<std::int64_t> row_of(timeline.call_limit(), -1);
  Spans call_spans;
  std::vector<std::int64_t> call_steps;
  py::list call_names;
  py::list call_kinds;
  py::list call_threads;
  py::list call_streams;
  std::vector<py::str> threads;
  std::vector<py::str> streams;
  for (const engine::HostThread& thread : program.threads) threads.emplace_back(thread.name);
  for (const engine::Stream& stream : program.streams) streams.emplace_back(stream.name);
  for (std::size_t row = 0; row < calls.size(); ++row) {
    row_of[calls[row]] = static_cast<std::int64_t>(row);
    const engine::CallRecord call = timeline.call(calls[row]);
    const engine::Instruction& instruction = engine::instruction_of(program, call);
    call_spans.add(call.start, call.end);
    call_steps.push_back(call.step);
    engine::Index name = program.threads[call.thread].name_of(call.instruction);
    bool has_stream = false;
    if (instruction.call == engine::Call::Launch) {
      name = program.info[instruction.object].name;
      has_stream = true;
    } else if (instruction.call == engine::Call::LaunchGraph) {
      name = program.graphs[instruction.object].name;
      has_stream = true;
    } else if (instruction.call == engine::Call::Record || instruction.call == engine::Call::StreamWait ||
               instruction.call == engine::Call::SynchronizeStream) {
      has_stream = true;
    }
    call_names.append(name_or_none(name, names));
    call_kinds.append(name_of(instruction.call));
    call_threads.append(threads[call.thread]);
    call_streams.append(has_stream ? py::object(streams[instruction.stream]) : py::object(py::none()));
  }
  py::dict host_calls;
  host_calls["name"] = call_names;
  host_calls["kind"] = call_kinds;
  host_calls["thread"] = call_threads;
  host_calls["stream"] = call_streams;
  call_spans.write(host_calls);
  host_calls["step"] = array_of(call_steps);

  Spans op_spans;
  std::vector<std::int64_t> op_steps;
  std::vector<std::int64_t> op_calls;
  std::vector<std::int64_t> op_devices;
  py::list op_names;
  py::list op_kinds;
  py::list op_streams;
  for (const engine::Index i : timeline.ops_in_order()) {
    const engine::OpRecord& record = timeline.ops[i];
    const engine::CallRecord call = timeline.call(record.call);
    const engine::Instruction& launch = engine::instruction_of(program, call);
    const engine::Index op = engine::op_of(program, timeline, record);
    op_spans.add(record.start, record.end);
    op_steps.push_back(call.step);
    op_calls.push_back(row_of[record.call]);
    op_devices.push_back(program.streams[launch.stream].device);
    op_names.append(name_or_none(program.info[op].name, names));
    op_kinds.append(name_of(program.ops[op].kind));
    op_streams.append(streams[launch.stream]);
  }
  py::dict gpu_ops;
  gpu_ops["name"] = op_names;
  gpu_ops["kind"] = op_kinds;
  gpu_ops["stream"] = op_streams;
  gpu_ops["device"] = array_of(op_devices);
  op_spans.write(gpu_ops);
  gpu_ops["step"] = array_of(op_steps);
  gpu_ops["host_call"] = array_of(op_calls);

  const py::dict memory = memory_of(result, calls);

  py::dict tables;
  tables["gpu_ops"] = gpu_ops;
  tables["host_calls"] = host_calls;
  tables["memory"] = memory;
  return tables;
}

}  // namespace gpusim::python
