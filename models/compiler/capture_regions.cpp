// SPDX-License-Identifier: Apache-2.0
#include "models/compiler/capture_regions.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "models/graph/catalogue.hpp"
#include "models/graph/value.hpp"

namespace gpusim {
namespace {

/// A graph break.
struct Stop {
  OpIndex first = 0;  ///< The ops [first, last) run eagerly there; none where a scenario puts a break.
  OpIndex last = 0;
  CallIndex call = 0;      ///< In whose body it stands.
  bool in_repeat = false;  ///< Stands in a repeat of that body.
  std::optional<bool> in_loop{};
  bool reads = false;  ///< The host reads a number there that no op reads.
  BreakCause cause = BreakCause::Explicit;
  std::string where;
  std::string effect{};
};

/// Whether `name` is `pattern`, in which `[*]` stands for any index.
bool matches(std::string_view pattern, std::string_view name) {
  while (true) {
    const std::size_t star = pattern.find("[*]");
    if (star == std::string_view::npos) return pattern == name;
    if (name.substr(0, star + 1) != pattern.substr(0, star + 1)) return false;
    const std::size_t close = name.find(']', star);
    if (close == std::string_view::npos) return false;
    pattern.remove_prefix(star + 3);
    name.remove_prefix(close + 1);
  }
}

/// "block[3].mlp" as "block[*].mlp".
std::string with_any_index(std::string_view name) {
  std::string text;
  for (std::size_t i = 0; i < name.size(); ++i) {
    text += name[i];
    if (name[i] != '[') continue;
    text += '*';
    const std::size_t close = name.find(']', i);
    if (close == std::string_view::npos) return text;
    i = close;
    text += ']';
  }
  return text;
}

std::span<const Op> ops_up_to(const OpGraph& graph, OpIndex end) {
  return std::span(graph.ops).first(std::min<std::size_t>(end, graph.ops.size()));
}

class Capture {
 public:
  Capture(const OpGraph& graph, const CompileOptions& options, OpIndex end)
      : graph_(graph), ops_(ops_up_to(graph, end)), options_(options) {
    // Graphs that no network made have no calls.
    if (graph.calls.empty()) own_calls_.emplace_back().last = static_cast<OpIndex>(ops_.size());
  }

  CapturedStep run() {
    gather_stops();
    gather_cuts();
    if (options_.backend.capture == CaptureKind::None) {
      run_eagerly();
    } else {
      if (options_.regional || !stops_.empty()) find_children();
      std::size_t stop = 0;
      if (options_.regional) {
        walk(0, 0, stop, true);
        if (compiled_calls_ == 0)
          throw CompileError("regional compilation needs a block that repeats, and the network has none",
                             "regional: false");
      } else {
        frame(0, stop);
      }
    }
    finish();
    return std::move(result_);
  }

 private:
  // --- Where regions end.

  void gather_stops() {
    const OpKind* const marked = find_op("graph_break");
    const OpKind* const item = find_op("item");
    const OpKind* const nonzero = find_op("nonzero");
    for (OpIndex i = 0; i < ops_.size(); ++i) {
      const Op& op = ops_[i];
      BreakCause cause = BreakCause::Explicit;
      if (op.kind == marked)
        cause = *find_break_cause(op.attributes.word("cause"));
      else if (op.kind == item)
        cause = BreakCause::Item;
      else if (op.kind == nonzero)
        cause = BreakCause::DynamicShape;
      else
        continue;
      stops_.push_back({.first = i,
                        .last = i + 1,
                        .call = op.call,
                        .in_repeat = op.in_repeat,
                        .cause = cause,
                        .where = op.name});
    }
    for (const GraphBreak& wanted : options_.breaks) insert(wanted);
    std::stable_sort(stops_.begin(), stops_.end(), [this](const Stop& a, const Stop& b) {
      if (a.first != b.first) return a.first < b.first;
      if (a.last != b.last) return a.last < b.last;
      return depth(a.call) > depth(b.call);  // what stands in a call comes before what stands behind it
    });
  }

  /// Where DDPOptimizer cuts what was captured: no graph break, but a piece of its own (data_parallel.hpp).
  void gather_cuts() {
    const OpKind* const bucket = find_op("ddp_bucket");
    for (std::size_t i = ops_.size(); i < graph_.ops.size(); ++i)
      if (const Op& op = graph_.ops[i]; op.kind == bucket && op.attributes.integer("cut") >= 0)
        cuts_.push_back(static_cast<OpIndex>(op.attributes.integer("cut")));
    std::sort(cuts_.begin(), cuts_.end());
  }

  void insert(const GraphBreak& wanted) {
    check_break_place(graph_, wanted.after, static_cast<OpIndex>(ops_.size()));
    const auto add = [&](OpIndex at, CallIndex call, bool in_repeat, const std::string& where) {
      stops_.push_back({.first = at,
                        .last = at,
                        .call = call,
                        .in_repeat = in_repeat,
                        .in_loop = wanted.in_loop,
                        .reads = synchronizes(wanted.cause),
                        .cause = wanted.cause,
                        .where = where});
    };
    for (const BlockCall& call : calls())
      if (call.parent != graph_none && matches(wanted.after, call.name))
        add(call.last, call.parent, call.in_repeat, call.name);
    for (OpIndex i = 0; i < ops_.size(); ++i)
      if (matches(wanted.after, ops_[i].name)) add(i + 1, ops_[i].call, ops_[i].in_repeat, ops_[i].name);
  }

  // --- Frames.

  const std::vector<BlockCall>& calls() const { return graph_.calls.empty() ? own_calls_ : graph_.calls; }

  int depth(CallIndex call) const {
    int result = 0;
    for (; calls()[call].parent != graph_none; call = calls()[call].parent) ++result;
    return result;
  }

  void find_children() {
    children_.resize(calls().size());
    for (CallIndex c = 1; c < calls().size(); ++c)
      if (calls()[c].first < calls()[c].last) children_[calls()[c].parent].push_back(c);
  }

  bool inside(CallIndex call, CallIndex of) const {
    while (call != of && call != graph_none) call = calls()[call].parent;
    return call == of;
  }

  /// The call in `of`'s body that has `call` in it; none if that is `of` itself.
  CallIndex towards(CallIndex call, CallIndex of) const {
    if (call == of) return graph_none;
    while (calls()[call].parent != of) call = calls()[call].parent;
    return call;
  }

  std::string frame_name(CallIndex call) const {
    return calls()[call].name.empty() ? "step" : calls()[call].name;
  }

  /// nn.Linear and the like, which Dynamo does not compile by themselves.
  bool is_library_module(CallIndex c) const {
    const BlockCall& call = calls()[c];
    return call.parent != graph_none && call.module && call.last - call.first == 1 &&
           ops_[call.first].kind->module;
  }

  /// Whether the frame would jump back over the break.
  bool loops(const Stop& stop, CallIndex c) const {
    if (stop.in_loop == false) return false;
    const CallIndex callee = towards(stop.call, c);
    return callee == graph_none ? stop.in_loop.value_or(stop.in_repeat) : calls()[callee].in_repeat;
  }

  void refuse(const Stop& stop) const {
    if (!options_.full_graph && options_.backend.capture != CaptureKind::WholeGraph) return;
    throw CompileError("graph break behind '" + stop.where + "' (" + std::string(name(stop.cause)) +
                           "): " + (options_.full_graph ? "full_graph" : options_.backend.name) +
                           " takes the step as one graph or not at all",
                       std::string(remedy(stop.cause)));
  }

  static void note(Stop& stop, const std::string& effect) {
    stop.effect += (stop.effect.empty() ? "" : "; ") + effect;
  }

  /// Compiles a frame. `stop`: the first one in it, afterwards the first one behind it.
  void frame(CallIndex c, std::size_t& stop) {
    const BlockCall& call = calls()[c];
    OpIndex at = call.first;
    if (is_library_module(c)) return walk(c, at, stop, false);
    while (stop < stops_.size() && inside(stops_[stop].call, c)) {
      refuse(stops_[stop]);
      if (loops(stops_[stop], c)) return give_up(c, at, stop);
      const CallIndex callee = towards(stops_[stop].call, c);
      if (callee != graph_none) {
        for (std::size_t s = stop; s < stops_.size() && inside(stops_[s].call, callee); ++s)
          note(stops_[s], frame_name(c) + " is split around " + frame_name(callee));
        compiled(c, at, calls()[callee].first);
        frame(callee, stop);
        at = calls()[callee].last;
        continue;
      }
      Stop& here = stops_[stop++];
      note(here, frame_name(c) + " is split here");
      compiled(c, at, here.first);
      eager(c, here.first, here.last);
      if (here.reads) read_behind();
      at = here.last;
    }
    compiled(c, at, call.last);
  }

  /// Runs what is left of a frame as Python does; what it calls is compiled.
  void give_up(CallIndex c, OpIndex at, std::size_t& stop) {
    std::vector<std::size_t> causes;
    for (std::size_t s = stop; s < stops_.size() && inside(stops_[s].call, c); ++s)
      if (stops_[s].call == c || loops(stops_[s], c)) causes.push_back(s);
    const std::int64_t calls_before = std::exchange(compiled_calls_, 0);
    const std::int64_t ops_before = std::exchange(eager_ops_, 0);
    walk(c, at, stop, false);
    for (const std::size_t s : causes)
      note(stops_[s], frame_name(c) + " is given up: " + std::to_string(compiled_calls_) +
                          " calls compiled by themselves, " + std::to_string(eager_ops_) + " ops eager");
    compiled_calls_ += calls_before;
    eager_ops_ += ops_before;
  }

  /// Goes through a body that is not compiled, and compiles what it calls: everything of the user, or, if
  /// `regional`, only what repeats.
  void walk(CallIndex c, OpIndex at, std::size_t& stop, bool regional) {
    for (const CallIndex callee : children_[c]) {
      if (calls()[callee].first < at) continue;
      eager_up_to(c, at, calls()[callee].first, stop);
      const bool by_itself =
          !is_library_module(callee) && (!regional || (calls()[callee].module && calls()[callee].in_repeat));
      if (by_itself) {
        ++compiled_calls_;
        frame(callee, stop);
      } else {
        walk(callee, calls()[callee].first, stop, regional);
      }
      at = calls()[callee].last;
    }
    eager_up_to(c, at, calls()[c].last, stop);
  }

  void eager_up_to(CallIndex c, OpIndex at, OpIndex end, std::size_t& stop) {
    for (; stop < stops_.size() && stops_[stop].call == c && stops_[stop].first <= end; ++stop) {
      eager(c, at, stops_[stop].last);
      if (stops_[stop].reads) read_behind();
      at = std::max(at, stops_[stop].last);
    }
    eager(c, at, end);
  }

  /// Without a compiler only what the host waits for matters.
  void run_eagerly() {
    OpIndex at = 0;
    for (const Stop& stop : stops_) {
      if (!stop.reads) continue;
      eager(0, at, stop.first);
      read_behind();
      at = stop.first;
    }
    eager(0, at, static_cast<OpIndex>(ops_.size()));
  }

  // --- Regions.

  /// PyTorch 2.11 follows .cpu() and the like, but the host waits for the copy, so a region ends there too.
  void compiled(CallIndex c, OpIndex first, OpIndex last) {
    const OpKind* const to_host = find_op("to_host");
    for (OpIndex i = first; i < last; ++i) {
      if (i > first && std::binary_search(cuts_.begin(), cuts_.end(), i)) {
        add(c, first, i, true);
        first = i;
      }
      if (ops_[i].kind != to_host) continue;
      compiled(c, first, i);
      eager(c, i, i + 1);
      first = i + 1;
    }
    if (first < last) add(c, first, last, true);
  }

  void eager(CallIndex c, OpIndex first, OpIndex last) {
    if (first >= last) return;
    eager_ops_ += last - first;
    if (!result_.regions.empty() && !result_.regions.back().compiled && !result_.regions.back().waits)
      result_.regions.back().last = last;
    else
      add(c, first, last, false);
  }

  void add(CallIndex c, OpIndex first, OpIndex last, bool is_compiled) {
    Region region;
    region.first = first;
    region.last = last;
    region.compiled = is_compiled;
    result_.regions.push_back(std::move(region));
    frames_.push_back(c);
  }

  /// The host reads a number behind what came last; a break always stands behind something.
  void read_behind() {
    result_.regions.back().waits = true;
    ++result_.regions.back().host_reads;
  }

  void finish() {
    std::map<CallIndex, std::int64_t> pieces;
    for (const CallIndex c : frames_) ++pieces[c];
    std::map<CallIndex, std::int64_t> numbers;
    std::map<std::pair<std::uint32_t, std::int64_t>, std::vector<std::size_t>> compiled_before;
    std::map<std::vector<OpIndex>, std::size_t> graphs;
    std::vector<std::size_t> seen(graph_.tensors.size(), ops_.size() + 1);
    for (std::size_t r = 0; r < frames_.size(); ++r) {
      Region& region = result_.regions[r];
      const CallIndex c = frames_[r];
      const std::int64_t number = numbers[c]++;
      region.name = frame_name(c) + (pieces[c] > 1 ? "/" + std::to_string(number) : "");
      region.like = r;
      region.same_graph = r;
      if (!region.compiled) continue;
      std::vector<OpIndex> ops;
      for (OpIndex i = region.first; i < region.last; ++i) ops.push_back(ops_[i].like);
      region.same_graph = graphs.try_emplace(std::move(ops), r).first->second;
      // The same code is the same piece of the same block.
      std::vector<std::size_t>& candidates = compiled_before[{calls()[c].block, number}];
      const auto known = std::find_if(candidates.begin(), candidates.end(), [&](std::size_t candidate) {
        return result_.regions[candidate].same_graph == region.same_graph;
      });
      if (known != candidates.end())
        region.like = *known;
      else
        candidates.push_back(r);
      for (OpIndex i = region.first; i < region.last; ++i)
        for (const TensorIndex t : ops_[i].inputs)
          if (t != graph_none && guarded(graph_.tensors[t]) && std::exchange(seen[t], r) != r)
            ++region.parameters;
    }
    for (Stop& stop : stops_)
      if (!stop.effect.empty())
        result_.breaks.push_back({.where = std::move(stop.where),
                                  .cause = stop.cause,
                                  .effect = std::move(stop.effect),
                                  .remedy = std::string(remedy(stop.cause))});
    result_.graph_breaks = static_cast<std::int64_t>(result_.breaks.size());
  }

  static bool guarded(const GraphTensor& tensor) {
    return tensor.producer == graph_none &&
           (tensor.role == Role::Parameter || tensor.role == Role::Buffer || tensor.role == Role::State);
  }

  const OpGraph& graph_;
  const std::span<const Op> ops_;  ///< Those that are captured.
  const CompileOptions& options_;
  std::vector<BlockCall> own_calls_;
  std::vector<Stop> stops_;                       ///< In the order in which they are passed.
  std::vector<OpIndex> cuts_;                     ///< Ascending.
  std::vector<std::vector<CallIndex>> children_;  ///< By call: those in its body that have ops, in order.
  std::vector<CallIndex> frames_;                 ///< By region.
  std::int64_t compiled_calls_ = 0;
  std::int64_t eager_ops_ = 0;
  CapturedStep result_;
};

}  // namespace

void check_break_place(const OpGraph& graph, const std::string& after, OpIndex end) {
  const std::span<const Op> ops = ops_up_to(graph, end);
  const auto named = [&](const auto& part) { return matches(after, part.name); };
  const auto is_block = [](const BlockCall& call) { return call.parent != graph_none; };
  if (std::any_of(ops.begin(), ops.end(), named)) return;
  if (std::any_of(graph.calls.begin(), graph.calls.end(),
                  [&](const BlockCall& call) { return is_block(call) && named(call); }))
    return;
  std::vector<std::string> known;
  for (const BlockCall& call : graph.calls)
    if (is_block(call)) known.push_back(with_any_index(call.name));
  for (const Op& op : ops) known.push_back(with_any_index(op.name));
  throw CompileError("there is no op and no block '" + after + "' to break the graph behind",
                     hint_for(with_any_index(after), known, "ops and blocks"));
}

CapturedStep capture_regions(const OpGraph& graph, const CompileOptions& options, OpIndex end) {
  return Capture(graph, options, end).run();
}

}  // namespace gpusim
