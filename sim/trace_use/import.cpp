// SPDX-License-Identifier: Apache-2.0
#include "sim/trace_use/import.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "sim/config/error.hpp"
#include "sim/config/load.hpp"
#include "sim/config/whole.hpp"
#include "sim/engine/engine.hpp"
#include "sim/program/build.hpp"
#include "sim/program/replay_rules.hpp"
#include "sim/report/format.hpp"
#include "sim/scenario/scenario_reader.hpp"
#include "sim/trace_use/fold.hpp"

namespace gpusim {
namespace {

using engine::Call;
using engine::Index;
using engine::Instruction;
using engine::no_index;

/// Keys of YAML maps are plain words.
std::string plain_word(std::string_view text) {
  std::string word;
  for (const char c : text) word += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return word.empty() ? "thread" : word;
}

class Importer {
 public:
  Importer(const Trace& trace, const ImportOptions& options) : trace_(trace), options_(options) {
    ReplayOptions replay;
    if (options.host_factor) {
      replay.host_time =
          *options.host_factor == 0 ? TraceWorkload::HostTime::Auto : TraceWorkload::HostTime::Factor;
      replay.host_factor = *options.host_factor;
    }
    replay_ = build_replay(trace, options.gpu ? &*options.gpu : nullptr, replay);
    for (std::uint32_t i = 0; i < replay_.op_of.size(); ++i)
      if (replay_.op_of[i] != no_index) traced_[replay_.op_of[i]] = i;
  }

  ImportedScenario run() {
    if (trace_.ops.empty() && trace_.calls.empty())
      throw ConfigError(
          Diagnostic{.where = whole(trace_.file),
                     .path = "",
                     .what = "the trace has neither GPU ops nor runtime calls: nothing to import",
                     .hint = "record it with ProfilerActivity.CUDA"});
    name_threads();
    name_signals();
    name_streams();
    std::vector<std::vector<FoldedItem>> threads;
    for (std::size_t t = 0; t < program().threads.size(); ++t) threads.push_back(items_of(t));
    if (!options_.fold) return written(threads);
    // Means hide what happens once. Fewer and fewer items are taken for alike until the whole takes as long
    // as without folding.
    const Picoseconds whole = wall_of(replay_.built);
    for (const int parts : {1, 20, 100, 500, 2500}) {
      std::vector<std::vector<FoldedItem>> folded = threads;
      for (std::vector<FoldedItem>& items : folded) {
        mark_outliers(items, whole / parts);
        items = fold(std::move(items));
      }
      ImportedScenario scenario = written(folded);
      const Picoseconds off = simulated(scenario.yaml) - whole;
      if (off <= whole / folding_error && -off <= whole / folding_error) return scenario;
    }
    return written(threads);
  }

 private:
  const engine::Program& program() const { return replay_.built.program; }

  /// Part of the wall by which folding may change it.
  static constexpr int folding_error = 125;

  static Picoseconds wall_of(const BuiltProgram& built) {
    const engine::Run run = engine::run(built.program, built.machine, 1);
    return run.last_op_end - run.first_op_start;
  }

  static Picoseconds simulated(const std::string& yaml) {
    const Scenario scenario = read_scenario_tree(config::load_text(yaml, "imported"), "imported");
    return wall_of(build_program(scenario.variants.front()));
  }

  ImportedScenario written(const std::vector<std::vector<FoldedItem>>& threads) {
    ImportedScenario result;
    std::string lists;
    for (std::size_t t = 0; t < threads.size(); ++t) {
      result.instructions += static_cast<std::int64_t>(program().threads[t].instructions.size());
      if (t == 1) lists += "  threads:\n";
      lists += t == 0 ? std::string("  kernels:\n") : fmt::format("    {}:\n", threads_[t]);
      if (threads[t].empty()) lists += std::string(t == 0 ? 4 : 6, ' ') + "- {work: 0 us}\n";
      result.items += write(threads[t], t == 0 ? 4 : 6, lists);
    }
    result.yaml = head() + lists;
    if (one_device()) result.yaml += "variants:\n  traced: {}\n  cuda_graph: {cuda_graph: full}\n";
    return result;
  }

  bool one_device() const {
    return std::all_of(program().streams.begin(), program().streams.end(),
                       [](const engine::Stream& stream) { return stream.device == 0; });
  }

  void name_threads() {
    std::set<std::string> taken{"main"};
    for (std::size_t t = 0; t < program().threads.size(); ++t) {
      std::string name = t == 0 ? "main" : plain_word(program().threads[t].name);
      while (t > 0 && !taken.insert(name).second) name += "_";
      threads_.push_back(name);
    }
  }

  /// Signals are counted: all that go from one thread to another in turn can share a name.
  void name_signals() {
    std::map<Index, std::size_t> from;
    std::map<Index, std::size_t> to;
    for (std::size_t t = 0; t < program().threads.size(); ++t)
      for (const Instruction& i : program().threads[t].instructions) {
        if (i.call == Call::Signal) from[i.object] = t;
        if (i.call == Call::Await) to[i.object] = t;
      }
    for (Index s = 0; s < program().signals.size(); ++s)
      signals_.push_back(threads_[from[s]] + " to " + threads_[to[s]]);
  }

  void name_streams() {
    std::set<std::string> taken;
    for (const engine::Stream& stream : program().streams) {
      std::string name = plain_word(stream.name);
      while (!taken.insert(name).second) name += "_";
      streams_.push_back(name);
    }
    used_.assign(streams_.size(), false);
  }

  std::string head() const {
    std::string text = fmt::format("# Imported from {}\n", report::printable(trace_.file));
    text += fmt::format(
        "# Steps in the lists below: {}. host: CPU work before the call; launch: the call; latency: until "
        "the\n"
        "# stream can act on it; gap: from the end of the op before. Times of loops are means of what they "
        "repeat.\n",
        replay_.built.steps_per_program);
    for (const std::string& note : replay_.built.notes) text += "# " + report::printable(note) + "\n";
    text += "name: " + report::json_string("Imported " + trace_.file) + "\n";
    const Picoseconds event = replay_.built.machine.event_latency;
    if (options_.gpu) {
      if (event != options_.gpu->launch.event_latency)
        text += fmt::format("hardware: {{base: {}, launch: {{event_latency: {}}}}}\n", options_.gpu->key,
                            time_text(event));
      else
        text += fmt::format("hardware: {}\n", options_.gpu->key);
    } else if (event > Picoseconds(0)) {
      text += fmt::format("# Waits between streams took {} in the trace: lost, as no hardware is named.\n",
                          time_text(event));
    }
    text += "workload:\n";
    if (replay_.built.steps_per_program > 1)
      text += fmt::format("  steps_in_lists: {}\n", replay_.built.steps_per_program);
    std::string devices;
    for (std::size_t s = 0; s < streams_.size(); ++s)
      if (program().streams[s].device != 0 && used_[s])
        devices += fmt::format("    {}: {{device: {}}}\n", streams_[s], program().streams[s].device);
    if (!devices.empty()) text += "  streams:\n" + devices;
    return text;
  }

  std::string stream_key(std::uint16_t stream) {
    used_[stream] = true;
    return streams_.size() == 1 ? std::string() : fmt::format(", stream: {}", streams_[stream]);
  }

  std::vector<FoldedItem> items_of(std::size_t t) {
    std::vector<FoldedItem> items;
    std::size_t second_step = 0;  ///< Where it begins.
    Picoseconds host{0};
    std::vector<std::string> after;
    const auto flush = [&] {
      if (host > Picoseconds(0))
        items.push_back({.text = "work: {}", .times = {host}, .comment = "", .repeat = 1, .body = {}});
      host = Picoseconds(0);
    };
    const engine::HostThread& thread = program().threads[t];
    for (Index at = 0; at < thread.instructions.size(); ++at) {
      const Instruction& i = thread.instructions[at];
      // What the host did before a step is the end of the step before: so steps look alike.
      const InstructionPlace place{static_cast<std::uint16_t>(t), at};
      const std::vector<InstructionPlace>& starts = replay_.built.step_starts;
      if (std::find(starts.begin(), starts.end(), place) != starts.end()) {
        flush();
        if (second_step == 0) second_step = items.size();
      }
      FoldedItem item;
      const auto time = [&](const char* key, Picoseconds value) {
        item.text += fmt::format(", {}: {{}}", key);
        item.times.push_back(value);
      };
      switch (i.call) {
        case Call::Work:
        case Call::Input:
          host += i.duration;
          continue;
        case Call::StreamWait:
        case Call::Record:
          if (i.attached) {
            after.push_back(program().events[i.object]);
            continue;
          }
          item.text = fmt::format("{}: {}", i.call == Call::Record ? "record" : "wait",
                                  literal(program().events[i.object])) +
                      stream_key(i.stream);
          time("host", host);
          time("launch", i.duration);
          time("latency", i.latency);
          break;
        case Call::Launch:
          item = op_item(i.object, i.blocking);
          item.text += stream_key(i.stream);
          if (!after.empty()) {
            std::string list;
            for (const std::string& event : after) list += (list.empty() ? "" : ", ") + literal(event);
            item.text += fmt::format(", after: [{}]", list);
          }
          time("host", host);
          time("launch", i.duration);
          time("latency", i.latency);
          if (i.blocking) time("return", i.return_latency);
          break;
        case Call::LaunchGraph:
          item = graph_item(i.object);
          item.text += stream_key(i.stream);
          time("host", host);
          time("launch", i.duration);
          time("latency", i.latency);
          break;
        case Call::SynchronizeDevice:
        case Call::SynchronizeStream:
        case Call::SynchronizeEvent:
          flush();  // Work at the end of a step is the same with and without a synchronisation behind it.
          item.text = "synchronize: " + target(i);
          time("launch", i.duration);
          time("return", i.return_latency);
          break;
        case Call::Signal:
        case Call::Await:
          flush();
          item.text =
              fmt::format("{}: {}", i.call == Call::Signal ? "signal" : "await", literal(signals_[i.object]));
          break;
        case Call::Allocate:
        case Call::Free:
          continue;
      }
      host = Picoseconds(0);
      after.clear();
      items.push_back(std::move(item));
    }
    flush();
    if (options_.fold && second_step > 0 && second_step < items.size())
      level_first_launch(items, second_step);
    return items;
  }

  /// The first launch of a trace often loads code. What it took longer than that of the second step becomes
  /// host work in front, so that the steps look alike; before the first GPU op it moves nothing.
  static void level_first_launch(std::vector<FoldedItem>& items, std::size_t second_step) {
    FoldedItem& first = items.front();
    const FoldedItem& usual = items[second_step];
    if (first.text != usual.text || first.times.size() != usual.times.size()) return;
    Picoseconds before{0};
    Picoseconds after{0};
    for (std::size_t k = first_host_time(first); k < first.times.size(); ++k) {
      before += first.times[k];
      after += usual.times[k];
      first.times[k] = usual.times[k];
    }
    if (before > after)
      items.insert(items.begin(),
                   {.text = "work: {}",
                    .times = {before - after},
                    .comment = "what the first launch took longer than that of the second step",
                    .repeat = 1,
                    .body = {},
                    .distinct = 1});
  }

  /// Where the times of the host begin: those of the device differ by what is computed, not by accident.
  static std::size_t first_host_time(const FoldedItem& item) {
    if (item.text.starts_with("cuda_graph")) return item.times.size() - 3;
    const bool op =
        item.text.starts_with("kernel") || item.text.starts_with("copy") || item.text.starts_with("memset");
    return op ? std::min<std::size_t>(2, item.times.size()) : 0;
  }

  /// Items with a host time farther than `far` from the usual one of their text (a first launch that loads
  /// code) are others.
  void mark_outliers(std::vector<FoldedItem>& items, Picoseconds far) const {
    std::map<std::string, std::vector<std::vector<Picoseconds>>> times;
    for (const FoldedItem& item : items) {
      std::vector<std::vector<Picoseconds>>& of_text = times[item.text];
      of_text.resize(item.times.size());
      for (std::size_t k = 0; k < item.times.size(); ++k) of_text[k].push_back(item.times[k]);
    }
    std::map<std::string, std::vector<Picoseconds>> usual;
    for (auto& [text, of_text] : times)
      for (std::vector<Picoseconds>& values : of_text) usual[text].push_back(median(std::move(values)));
    for (FoldedItem& item : items)
      for (std::size_t k = first_host_time(item); k < item.times.size(); ++k) {
        const Picoseconds off = item.times[k] - usual[item.text][k];
        if (off <= far && -off <= far) continue;
        const double size = std::log2(static_cast<double>((off < Picoseconds(0) ? -off : off).count()));
        item.distinct =
            64 * item.distinct + static_cast<int>(std::lround(off < Picoseconds(0) ? -size : size));
      }
  }

  std::string target(const Instruction& i) {
    if (i.call == Call::SynchronizeEvent)
      return fmt::format("{{event: {}}}", report::json_string(program().events[i.object]));
    if (i.call == Call::SynchronizeStream) {
      used_[i.stream] = true;
      return fmt::format("{{stream: {}}}",
                         streams_.size() == 1 ? std::string(default_stream) : streams_[i.stream]);
    }
    return i.object == 0 ? std::string("device") : fmt::format("{{device: {}}}", i.object);
  }

  /// Text in which braces stand for themselves.
  static std::string literal(const std::string& text) { return report::json_string(text); }

  FoldedItem op_item(Index o, bool blocking) {
    const engine::GpuOp& op = program().ops[o];
    const engine::OpInfo& info = program().info[o];
    const std::string name = literal(program().names[info.name]);
    FoldedItem item;
    switch (op.kind) {
      case engine::OpKind::Kernel:
        item.text = "kernel: " + name;
        break;
      case engine::OpKind::Memset:
        item.text = "memset: " + name;
        break;
      case engine::OpKind::Memcpy: {
        const std::string& text = program().names[info.name];
        const char* direction = text.find("HtoD") != std::string::npos   ? "h2d"
                                : text.find("DtoH") != std::string::npos ? "d2h"
                                                                         : "d2d";
        item.text = fmt::format("copy: {}, name: {}", direction, name);
        if (blocking) item.text += ", blocking: true";
        break;
      }
    }
    item.text += ", duration: {}";
    item.times.push_back(op.duration);
    if (op.gap_before != engine::gap_from_table) {
      item.text += ", gap: {}";
      item.times.push_back(op.gap_before);
    }
    if (info.bytes > 0) item.text += fmt::format(", bytes: {} B", info.bytes);
    const auto traced = traced_.find(o);
    if (traced != traced_.end()) {
      const TraceOp& t = trace_.ops[traced->second];
      if (op.kind == engine::OpKind::Kernel && t.blocks() > 0 && t.blocks() < 1'000'000'000'000)
        item.text += fmt::format(", blocks: {}", t.blocks());
      item.comment = shapes_of(t);
    }
    return item;
  }

  FoldedItem graph_item(Index g) {
    const engine::CudaGraph& graph = program().graphs[g];
    FoldedItem item;
    item.text = "cuda_graph: " + literal(program().names[graph.name]) + ", nodes: [";
    std::set<Index> named;
    for (std::size_t n = 0; n < graph.nodes.size(); ++n)
      if (!follows(graph, n)) named.insert(graph.nodes[n].after.begin(), graph.nodes[n].after.end());
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
      FoldedItem node = op_item(graph.nodes[n].op, false);
      item.text += (n == 0 ? "\n{" : ",\n{") + node.text;
      item.times.insert(item.times.end(), node.times.begin(), node.times.end());
      if (named.count(static_cast<Index>(n)) != 0) item.text += fmt::format(", id: n{}", n);
      if (!follows(graph, n)) {
        std::string needs;
        for (const Index before : graph.nodes[n].after)
          needs += fmt::format("{}n{}", needs.empty() ? "" : ", ", before);
        item.text += fmt::format(", needs: [{}]", needs);
      }
      item.text += "}";
    }
    item.text += "]";
    return item;
  }

  /// Whether a node waits for the one before it and no other, which needs not be said.
  static bool follows(const engine::CudaGraph& graph, std::size_t n) {
    const std::vector<Index>& after = graph.nodes[n].after;
    return n == 0 ? after.empty() : after.size() == 1 && after.front() + 1 == n;
  }

  /// The op that launched it and the shapes of its inputs, where the trace has them.
  std::string shapes_of(const TraceOp& op) {
    if (op.external_id < 0) return {};
    if (spans_.empty())
      for (std::uint32_t k = 0; k < trace_.cpu_ops.size(); ++k)
        if (trace_.cpu_ops[k].external_id >= 0) spans_.emplace(trace_.cpu_ops[k].external_id, k);
    const auto found = spans_.find(op.external_id);
    if (found == spans_.end()) return {};
    const TraceSpan& span = trace_.cpu_ops[found->second];
    std::string text = trace_.name_of(span.name);
    if (span.inputs != trace_none)
      for (const TraceInput& input : trace_.inputs[span.inputs])
        for (const std::vector<std::int64_t>& shape : input.shapes)
          text += fmt::format(" [{}]", fmt::join(shape, ", "));
    return report::printable(report::shorten(text, 100));
  }

  static std::string time_text(Picoseconds time) {
    const std::int64_t nanoseconds = (time.count() + (time.count() >= 0 ? 500 : -500)) / 1000;
    const char* sign = nanoseconds < 0 ? "-" : "";
    const std::int64_t size = nanoseconds < 0 ? -nanoseconds : nanoseconds;
    std::string text = fmt::format("{}{}.{:03}", sign, size / 1000, size % 1000);
    while (text.back() == '0') text.pop_back();
    if (text.back() == '.') text.pop_back();
    return text + " us";
  }

  static std::string filled(const FoldedItem& item) {
    std::string text;
    std::size_t next = 0;
    for (std::size_t i = 0; i < item.text.size(); ++i) {
      // Only "{}" after a key is a place for a time: names are quoted and hold none outside of quotes.
      if (item.text.compare(i, 4, ": {}") == 0 && next < item.times.size() && outside_quotes(item.text, i)) {
        text += ": " + time_text(item.times[next++]);
        i += 3;
      } else {
        text += item.text[i];
      }
    }
    return text;
  }
  static bool outside_quotes(const std::string& text, std::size_t at) {
    bool inside = false;
    for (std::size_t i = 0; i < at; ++i) {
      if (inside && text[i] == '\\') {
        ++i;
      } else if (text[i] == '"') {
        inside = !inside;
      }
    }
    return !inside;
  }

  /// Gives how many items it wrote.
  static std::int64_t write(const std::vector<FoldedItem>& items, std::size_t indent, std::string& out) {
    const std::string space(indent, ' ');
    std::int64_t count = 0;
    for (const FoldedItem& item : items) {
      ++count;
      if (item.body.empty()) {
        std::string text = filled(item);
        for (std::size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1))
          text.insert(at + 1, space + "    ");
        out += space + "- {" + text + "}";
        if (!item.comment.empty()) out += "  # " + item.comment;
        out += "\n";
      } else {
        out += fmt::format("{}- repeat: {}\n{}  body:\n", space, item.repeat, space);
        count += write(item.body, indent + 4, out);
      }
    }
    return count;
  }

  const Trace& trace_;
  const ImportOptions& options_;
  Replay replay_;
  std::map<Index, std::uint32_t> traced_;
  std::map<std::int64_t, std::uint32_t> spans_;  ///< By external id.
  std::vector<std::string> threads_;
  std::vector<std::string> signals_;
  std::vector<std::string> streams_;
  std::vector<bool> used_;
};

}  // namespace

ImportedScenario import_trace(const Trace& trace, const ImportOptions& options) {
  return Importer(trace, options).run();
}

}  // namespace gpusim
