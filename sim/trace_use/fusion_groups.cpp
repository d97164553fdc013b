// SPDX-License-Identifier: Apache-2.0
#include "sim/trace_use/fusion_groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "sim/report/format.hpp"

namespace gpusim {
namespace {

// What every kernel takes, however little it does: its time does not shrink with its traffic.
constexpr Picoseconds kernel_floor{900'000};
// Grids count whole blocks: up to 1024 elements more than there are.
constexpr std::int64_t grid_slack = 1024;
constexpr std::int64_t columns_min = 32;
// An elementwise op on a tensor of more than 2 GiB is launched in pieces.
constexpr std::int64_t piece_bytes_min = std::int64_t{1} << 30;

bool about_equal(std::int64_t a, std::int64_t b) {
  return std::abs(a - b) <= grid_slack;
}

struct Member {
  std::vector<std::uint32_t> ops;  ///< Several: pieces of one op.
  KernelTraits traits;
  bool loss = false;  ///< Picks one number per row, or puts one there.
};

bool is_loss(std::string_view name) {
  return name.find("nll_loss") != std::string_view::npos;
}

bool reduces(FusionRole role) {
  return role == FusionRole::RowReduction || role == FusionRole::Norm || role == FusionRole::Softmax;
}

std::int64_t read_per_element(const KernelTraits& t) {
  if (t.inputs == 2 && t.read_bytes != t.written_bytes) return t.read_bytes + t.written_bytes;
  return std::int64_t{t.inputs} * t.read_bytes;
}

/// Kernels with one iteration space.
struct Space {
  std::vector<Member> members;
  std::int64_t elements = 0;
  std::int64_t rows = 0;
  bool backward = false;
  bool weights = false;

  std::optional<std::int64_t> columns(std::int64_t of_rows, std::int64_t of_elements) const {
    if (of_rows <= 0 || of_elements <= 0) return std::nullopt;
    const std::int64_t columns = of_elements / of_rows;
    if (columns < columns_min || of_elements - columns * of_rows > grid_slack) return std::nullopt;
    return columns;
  }

  bool takes(const Member& m) const {
    const KernelTraits& t = m.traits;
    if (m.loss) return elements > 0 || rows > 0;
    if (t.role == FusionRole::NormWeights)
      return std::any_of(members.begin(), members.end(), [](const Member& other) {
        return other.traits.role == FusionRole::Norm && other.traits.backward;
      });
    if (reduces(t.role)) {
      if (t.rows <= 0) return false;
      if (rows > 0 && rows != t.rows) return false;
      return elements == 0 ? rows == t.rows : columns(t.rows, elements).has_value();
    }
    if (t.role != FusionRole::Pointwise || t.elements <= 0) return false;
    if (elements > 0 && about_equal(elements, t.elements)) return true;
    if (rows > 0 && t.elements - rows >= 0 && t.elements - rows <= grid_slack) return true;
    return elements == 0 && columns(rows, t.elements).has_value();
  }

  bool of_rows_only(const Member& m) const {
    return m.traits.role == FusionRole::Pointwise && elements > 0 &&
           !about_equal(elements, m.traits.elements);
  }

  void add(const Member& m) {
    const KernelTraits& t = m.traits;
    if (!m.loss && t.role == FusionRole::Pointwise) {
      const bool per_row = rows > 0 && t.elements - rows >= 0 && t.elements - rows <= grid_slack;
      if (elements == 0 && !per_row) elements = t.elements;
    } else if (reduces(t.role)) {
      rows = t.rows;
    } else if (t.role == FusionRole::NormWeights) {
      weights = true;
    }
    backward = backward || t.backward;
    members.push_back(m);
  }
};

struct Traffic {
  std::int64_t read = 0;
  std::int64_t written = 0;
};

/// Bytes that a kernel moves by itself.
std::int64_t alone(const Space& space, const Member& m) {
  if (m.loss || m.traits.role == FusionRole::NormWeights || space.of_rows_only(m)) return 0;
  const std::int64_t elements = m.traits.role == FusionRole::Pointwise ? m.traits.elements : space.elements;
  const bool writes_rows = m.traits.role == FusionRole::RowReduction;
  return elements * (read_per_element(m.traits) + (writes_rows ? 0 : m.traits.written_bytes));
}

Traffic traffic_of(const Space& space) {
  Traffic traffic;
  bool begun = false;
  std::int64_t last_written = 0;
  for (const Member& m : space.members) {
    const KernelTraits& t = m.traits;
    if (m.loss) {
      if (!t.backward) last_written = 0;
      begun = true;
      continue;
    }
    if (t.role == FusionRole::NormWeights || space.of_rows_only(m)) continue;
    std::int64_t per_element = 0;
    if (!begun) {
      per_element = read_per_element(t);
    } else if (space.backward && t.inputs > 1) {
      per_element = std::int64_t{t.inputs - 1} * t.read_bytes;
    }
    traffic.read += per_element * space.elements;
    last_written = t.role == FusionRole::RowReduction ? 0 : space.elements * t.written_bytes;
    begun = true;
  }
  traffic.written = last_written;
  return traffic;
}

std::optional<KernelWork> work_of(const Space& space, const Traffic& traffic, const GpuSpec& gpu) {
  if (space.elements <= 0) return std::nullopt;
  double lanes = 0;
  std::int32_t reductions = 0;
  auto reduction = InductorRowReduction::Reduction::Plain;
  for (const Member& m : space.members) {
    if (m.loss || space.of_rows_only(m)) continue;
    if (m.traits.role == FusionRole::Pointwise) lanes += lane_cycles(m.traits.function, gpu);
    if (reduces(m.traits.role)) ++reductions;
    if (m.traits.role == FusionRole::Norm) reduction = InductorRowReduction::Reduction::Welford;
    if (m.traits.role == FusionRole::Softmax && !m.traits.backward)
      reduction = InductorRowReduction::Reduction::OnlineSoftmax;
  }
  const Bytes read(traffic.read);
  const Bytes written(traffic.written);
  const auto columns = space.columns(space.rows, space.elements);
  if (reductions == 0 || !columns)
    return InductorPointwise{
        .elements = space.elements, .read = read, .written = written, .lane_cycles = lanes};
  const Bytes shared(*columns * 4);
  if (space.weights)
    return InductorMixedReduction{.rows = space.rows,
                                  .columns = *columns,
                                  .read = read,
                                  .shared = shared,
                                  .written = written,
                                  .sums = 2,
                                  .lane_cycles = lanes};
  return InductorRowReduction{.rows = space.rows,
                              .columns = *columns,
                              .read = read,
                              .read_again = read,
                              .shared = shared,
                              .written = written,
                              .reductions = reductions,
                              .writes_rows = traffic.written > 0,
                              .reduction = reduction,
                              .lane_cycles = lanes};
}

Picoseconds times(Picoseconds time, double factor) {
  return Picoseconds(std::llround(static_cast<double>(time.count()) * factor));
}

class Grouper {
 public:
  explicit Grouper(const FusionInput& input) : in_(input), places_(input.trace, input.rules) {}

  std::vector<FusedGroup> all() {
    for (const std::vector<std::uint32_t>& sequence : in_.rules.sequences) {
      for (const std::uint32_t i : sequence) {
        Member m{.ops = {i}, .traits = traits(i), .loss = is_loss(name(i))};
        const bool fixed = m.traits.role == FusionRole::Fixed && !m.loss;
        if (fixed || !places_.is_plain(i) || places_.in_optimizer(i)) {
          close();
          continue;
        }
        if (!run_.empty() && !places_.can_follow(run_.back().ops.back(), i)) close();
        if (!run_.empty() && is_piece(run_.back().ops.back(), i, m.traits)) {
          run_.back().ops.push_back(i);
          run_.back().traits.elements += m.traits.elements;
        } else {
          run_.push_back(std::move(m));
        }
      }
      close();
    }
    return std::move(groups_);
  }

  std::vector<FusedGroup> named(const std::string& pattern) {
    for (const std::vector<std::uint32_t>& sequence : in_.rules.sequences) {
      std::vector<std::uint32_t> run;
      const auto close_run = [&] {
        if (run.size() > 1) groups_.push_back(joined(run));
        run.clear();
      };
      for (const std::uint32_t i : sequence) {
        const bool meant = places_.is_plain(i) && in_.trace.ops[i].kind == TraceOpKind::Kernel &&
                           matches_pattern(name(i), pattern);
        if (!run.empty() && (!meant || !places_.can_follow(run.back(), i))) close_run();
        if (meant) run.push_back(i);
      }
      close_run();
    }
    return std::move(groups_);
  }

 private:
  const std::string& name(std::uint32_t i) const { return in_.trace.name_of(in_.trace.ops[i].name); }
  KernelTraits traits(std::uint32_t i) const { return kernel_traits(name(i), in_.trace.ops[i]); }

  bool is_piece(std::uint32_t before, std::uint32_t i, const KernelTraits& t) const {
    const TraceOp& a = in_.trace.ops[before];
    const TraceOp& b = in_.trace.ops[i];
    return t.role == FusionRole::Pointwise && a.name == b.name && a.grid == b.grid &&
           t.elements * std::max(t.read_bytes, t.written_bytes) >= piece_bytes_min;
  }

  void close() {
    std::vector<Space> spaces;
    for (const Member& m : run_) {
      const auto taker = std::find_if(spaces.rbegin(), spaces.rend(), [&](const Space& space) {
        return m.traits.role != FusionRole::ColumnReduction && space.takes(m);
      });
      if (taker == spaces.rend()) {
        spaces.emplace_back().add(m);
      } else {
        taker->add(m);
      }
    }
    for (const Space& space : spaces)
      if (space.members.size() > 1) finish(space);
    run_.clear();
  }

  FusedGroup group_of(std::vector<std::uint32_t> members) const {
    FusedGroup group;
    group.members = std::move(members);
    for (const std::uint32_t i : group.members) group.apart += in_.durations[i];
    group.name = fmt::format("fused {}: {} .. {}", group.members.size(),
                             report::shorten(telling_name(name(group.members.front())), 40),
                             report::shorten(telling_name(name(group.members.back())), 40));
    return group;
  }

  void finish(const Space& space) {
    std::vector<std::uint32_t> members;
    for (const Member& m : space.members) members.insert(members.end(), m.ops.begin(), m.ops.end());
    std::sort(members.begin(), members.end(), [&](std::uint32_t a, std::uint32_t b) {
      return in_.rules.ops[a].position < in_.rules.ops[b].position;
    });
    FusedGroup group = group_of(std::move(members));
    const Traffic traffic = traffic_of(space);
    if (!price(space, traffic, group)) {
      std::int64_t before = 0;
      for (const Member& m : space.members) before += alone(space, m);
      const std::int64_t after = traffic.read + traffic.written;
      if (before > 0) {
        scale(group, std::min(1.0, static_cast<double>(after) / static_cast<double>(before)));
        group.price = FusedPrice::Traffic;
      } else {
        group = joined(group.members);
      }
    }
    groups_.push_back(std::move(group));
  }

  bool price(const Space& space, const Traffic& traffic, FusedGroup& group) const {
    if (in_.gpu == nullptr || !in_.gpu->calibration) return false;
    const std::optional<KernelWork> work = work_of(space, traffic, *in_.gpu);
    if (!work) return false;
    const double share = cold_share(Bytes(traffic.read + traffic.written), *in_.gpu);
    Picoseconds time{0};
    for (const GpuOpEstimate& estimate :
         gpu_ops(*work, *in_.gpu, {.cold_reads = share, .cold_writes = share}))
      time += estimate.cost.duration;
    group.together = time;
    group.price = FusedPrice::Model;
    return true;
  }

  /// What of the members' time above the floor is left.
  void scale(FusedGroup& group, double share) const {
    Picoseconds above{0};
    for (const std::uint32_t i : group.members)
      above += std::max(Picoseconds(0), in_.durations[i] - kernel_floor);
    group.together = std::min(group.apart, kernel_floor + times(above, share));
  }

  /// Between two neighbours the smaller of the first one's writing and the second one's reading vanishes,
  /// each taken as half of its time.
  FusedGroup joined(const std::vector<std::uint32_t>& members) const {
    FusedGroup group = group_of(members);
    double above = 0;
    double saved = 0;
    double previous = -1;
    for (const std::uint32_t i : members) {
      const double time =
          static_cast<double>(std::max(Picoseconds(0), in_.durations[i] - kernel_floor).count());
      above += time;
      if (previous >= 0) saved += std::min(previous, time);
      previous = time;
    }
    scale(group, above > 0 ? (above - saved) / above : 0);
    return group;
  }

  const FusionInput& in_;
  LaunchPlaces places_;
  std::vector<Member> run_;  ///< Since something else ran.
  std::vector<FusedGroup> groups_;
};

}  // namespace

LaunchPlaces::LaunchPlaces(const Trace& trace, const TraceRules& rules) : trace_(trace), rules_(rules) {
  for (const TraceStep& step : trace.steps) steps_.push_back(step.start);
  std::sort(steps_.begin(), steps_.end());
  for (const TraceSpan& span : trace.annotations)
    if (trace.name_of(span.name).starts_with("Optimizer.")) optimizer_.push_back(span);
}

std::size_t LaunchPlaces::step_of(std::uint32_t i) const {
  if (rules_.ops[i].call == trace_none) return 0;
  const Picoseconds called = trace_.calls[rules_.ops[i].call].start;
  return static_cast<std::size_t>(std::upper_bound(steps_.begin(), steps_.end(), called) - steps_.begin());
}

bool LaunchPlaces::is_plain(std::uint32_t i) const {
  const RuledOp& r = rules_.ops[i];
  return r.call != trace_none && !r.graph && rules_.ops_of_call[r.call].size() == 1 &&
         r.waits_for == trace_none;
}

bool LaunchPlaces::can_follow(std::uint32_t before, std::uint32_t i) const {
  return is_plain(before) && is_plain(i) && step_of(before) == step_of(i) &&
         trace_.calls[rules_.ops[before].call].thread == trace_.calls[rules_.ops[i].call].thread;
}

bool LaunchPlaces::in_optimizer(std::uint32_t i) const {
  if (rules_.ops[i].call == trace_none) return false;
  const TraceCall& call = trace_.calls[rules_.ops[i].call];
  return optimizer_time(call.thread, call.start, call.end) > Picoseconds(0);
}

Picoseconds LaunchPlaces::optimizer_time(std::uint32_t thread, Picoseconds from, Picoseconds to) const {
  Picoseconds covered{0};
  for (const TraceSpan& span : optimizer_) {
    if (span.thread != thread) continue;
    const Picoseconds common = std::min(to, span.end) - std::max(from, span.start);
    if (common > Picoseconds(0)) covered += common;
  }
  return covered;
}

std::vector<FusedGroup> fuse_all(const FusionInput& input) {
  return Grouper(input).all();
}

std::vector<FusedGroup> fuse_named(const FusionInput& input, const std::string& pattern) {
  return Grouper(input).named(pattern);
}

}  // namespace gpusim
