// SPDX-License-Identifier: Apache-2.0
#include "sim/app/sweep_knobs.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "sim/config/error.hpp"
#include "sim/config/load.hpp"

namespace gpusim {
namespace {

/// Reads the scenario at points, and builds its kernel lists.
class PointBuilder {
 public:
  explicit PointBuilder(const SweepPlan& plan) : plan_(plan), options_(plan.options) {
    options_.files = std::make_shared<config::FileStore>(options_.limits);
  }

  /// Nothing if the scenario does not take these values.
  std::optional<Scenario> read(const std::vector<std::uint32_t>& at) {
    options_.sets = plan_.options.sets;
    for (std::size_t axis = 0; axis < at.size(); ++axis)
      options_.sets.push_back(plan_.points.axes()[axis].path + '=' +
                              plan_.points.axes()[axis].values[at[axis]]);
    try {
      return read_scenario_tree(plan_.tree, plan_.file, options_);
    } catch (const ConfigError&) {
      return std::nullopt;
    }
  }

  static std::optional<sweep::Built> build(const Variant& variant) {
    try {
      BuiltProgram built = build_kernels(variant);
      return sweep::Built{std::move(built.program), std::move(built.machine)};
    } catch (const ConfigError&) {
      return std::nullopt;
    }
  }

 private:
  const SweepPlan& plan_;
  ScenarioOptions options_;
};

/// What of a variant an axis changes.
struct Changes {
  bool prices = false;       ///< Figures of the hardware beside its launch mechanics.
  bool min_periods = false;  ///< Tables by number of blocks.
  bool workload = false;
  bool other = false;  ///< Something that is no time.
};

void note_changes(const Variant& base, const Variant& variant, Changes& changes) {
  if (base.hardware.has_value() != variant.hardware.has_value() || base.steps != variant.steps ||
      base.cuda_graph != variant.cuda_graph) {
    changes.other = true;
    return;
  }
  if (base.hardware) {
    const LaunchSpec& launch = variant.hardware->launch;
    if (launch.min_period != base.hardware->launch.min_period ||
        launch.graph_min_period != base.hardware->launch.graph_min_period)
      changes.min_periods = true;
    GpuSpec rest = *variant.hardware;
    rest.launch = base.hardware->launch;
    if (rest != *base.hardware) changes.prices = true;
  }
  if (variant.workload != base.workload) changes.workload = true;
}

bool has_roofs(const std::vector<Item>& items);

/// A kernel that the longer of two times prices.
bool is_priced_by_roofs(const KernelItem& kernel) {
  return kernel.duration.in_turn.empty() && kernel.duration.distribution.empty() && kernel.flops.value() > 0;
}

bool has_roofs(const Item& item) {
  if (const auto* kernel = std::get_if<KernelItem>(&item.what)) return is_priced_by_roofs(*kernel);
  if (const auto* loop = std::get_if<LoopItem>(&item.what)) return has_roofs(loop->body);
  const auto* graph = std::get_if<CudaGraphItem>(&item.what);
  return graph != nullptr && std::any_of(graph->nodes.begin(), graph->nodes.end(), [](const auto& node) {
           const auto* kernel = std::get_if<KernelItem>(&node.op);
           return kernel != nullptr && is_priced_by_roofs(*kernel);
         });
}

bool has_roofs(const std::vector<Item>& items) {
  return std::any_of(items.begin(), items.end(), [](const Item& item) { return has_roofs(item); });
}

bool has_roofs(const Variant& variant) {
  const auto& threads = std::get<KernelsWorkload>(variant.workload.source).threads;
  return std::any_of(threads.begin(), threads.end(), [](const ThreadItems& t) { return has_roofs(t.items); });
}

bool stand_side_by_side(const std::vector<Changes>& axes, const Variant& base,
                        const engine::Program& program) {
  const auto count = [&](const auto& what) { return std::count_if(axes.begin(), axes.end(), what); };
  if (count([](const Changes& c) { return c.other; }) > 0) return false;
  // A price may be the larger of two that different figures decide.
  if (count([](const Changes& c) { return c.prices; }) > 1) return false;
  if (count([](const Changes& c) { return c.min_periods; }) > 0 &&
      count([](const Changes& c) { return c.min_periods || c.workload; }) > 1)
    return false;
  if (count([](const Changes& c) { return c.prices || c.workload; }) > 1 && has_roofs(base)) return false;
  // Without a table of its costs a CUDA graph costs what the median launch does.
  const bool has_table = base.hardware && !base.hardware->launch.cuda_graph.call.points.empty();
  if (base.cuda_graph == CudaGraphMode::Full && !has_table &&
      count([](const Changes& c) { return c.workload; }) > 1)
    return false;
  // What a kernel leaves to others depends on its duration, its bytes and the device, the least of which
  // counts.
  const bool shares = !program.footprints.empty() && (program.streams.size() > 1 || !program.graphs.empty());
  return !shares || count([](const Changes& c) { return c.prices || c.workload; }) <= 1;
}

class KnobFinder {
 public:
  KnobFinder(SweepPlan& plan, const std::vector<std::uint32_t>& base)
      : plan_(plan), builder_(plan), base_at_(base) {
    for (const sweep::Axis& axis : plan.points.axes())
      counts_.push_back(static_cast<std::uint32_t>(axis.values.size()));
  }

  void run() {
    const auto base = builder_.read(base_at_);
    if (!base) return;
    for (const std::string& name : plan_.variants) found_.push_back(begin(base->find(name)));
    for (std::size_t axis = 0; axis < counts_.size(); ++axis)
      for (std::uint32_t value = 0; value < counts_[axis]; ++value) add(axis, value);
    for (std::size_t i = 0; i < found_.size(); ++i) {
      Candidate& candidate = found_[i];
      if (!candidate.knobs) continue;
      if (!stand_side_by_side(candidate.changes, candidate.base, candidate.program) ||
          !candidate.knobs->finish() || !holds(i))
        candidate.knobs.reset();
    }
    plan_.knobs.clear();
    for (Candidate& candidate : found_)
      plan_.knobs.push_back({.knobs = std::move(candidate.knobs),
                             .steps = candidate.base.steps.value_or(1),
                             .steady = plan_.run.steady && !candidate.base.steps});
  }

 private:
  struct Candidate {
    std::shared_ptr<sweep::Knobs> knobs;  ///< Null: found out that there are none.
    Variant base;
    engine::Program program;
    std::vector<Changes> changes;  ///< By axis.
  };

  Candidate begin(const Variant* variant) const {
    // Beyond this a step takes longer to simulate than to build.
    constexpr std::size_t instructions_most = 20'000;
    Candidate candidate;
    if (variant == nullptr || !std::holds_alternative<KernelsWorkload>(variant->workload.source))
      return candidate;
    auto built = PointBuilder::build(*variant);
    if (!built) return candidate;
    std::size_t size = built->program.ops.size();
    for (const engine::HostThread& thread : built->program.threads) size += thread.instructions.size();
    for (const engine::CudaGraph& graph : built->program.graphs) size += graph.nodes.size();
    if (size > instructions_most) return candidate;
    candidate.base = *variant;
    candidate.program = built->program;
    candidate.changes.resize(counts_.size());
    candidate.knobs = std::make_shared<sweep::Knobs>(std::move(*built), counts_, base_at_);
    return candidate;
  }

  void add(std::size_t axis, std::uint32_t value) {
    if (std::none_of(found_.begin(), found_.end(), [](const Candidate& c) { return c.knobs != nullptr; }))
      return;
    std::vector<std::uint32_t> at = base_at_;
    at[axis] = value;
    const auto scenario = builder_.read(at);
    for (std::size_t i = 0; i < found_.size(); ++i) {
      Candidate& candidate = found_[i];
      if (!candidate.knobs) continue;
      const Variant* variant = scenario ? scenario->find(plan_.variants[i]) : nullptr;
      if (scenario &&
          (variant == nullptr || !std::holds_alternative<KernelsWorkload>(variant->workload.source))) {
        candidate.knobs.reset();
        continue;
      }
      const auto built = variant != nullptr ? PointBuilder::build(*variant) : std::nullopt;
      if (!built) {
        candidate.knobs->add_broken(axis, value);
        continue;
      }
      note_changes(candidate.base, *variant, candidate.changes[axis]);
      if (!candidate.knobs->add(axis, value, *built)) candidate.knobs.reset();
    }
  }

  /// Builds some points in both ways.
  bool holds(std::size_t i) {
    constexpr int tries = 16;
    sweep::Knobs::Setting setting(*found_[i].knobs);
    std::vector<std::uint32_t> at(counts_.size());
    std::uint64_t random = 1;
    for (int k = 0; k < tries; ++k) {
      std::int64_t point = plan_.points.count() - 1;
      if (k > 0) {
        random = random * 6364136223846793005ULL + 1442695040888963407ULL;
        point = static_cast<std::int64_t>((random >> 33U) % static_cast<std::uint64_t>(plan_.points.count()));
      }
      plan_.points.at(point, at);
      if (!found_[i].knobs->known(at)) continue;
      const auto scenario = builder_.read(at);
      const Variant* variant = scenario ? scenario->find(plan_.variants[i]) : nullptr;
      const auto built = variant != nullptr ? PointBuilder::build(*variant) : std::nullopt;
      if (!built || !same_times(*built, setting.set(at))) return false;
    }
    return true;
  }

  SweepPlan& plan_;
  PointBuilder builder_;
  std::vector<std::uint32_t> base_at_;
  std::vector<std::uint32_t> counts_;
  std::vector<Candidate> found_;
};

}  // namespace

void find_knobs(SweepPlan& plan, const std::vector<std::uint32_t>& base) {
  plan.time_figures.clear();
  const auto known = report::time_figures();
  for (const std::string& column : plan.encoder.columns().results) {
    const auto figure =
        std::find_if(known.begin(), known.end(), [&](const auto& f) { return f.path == column; });
    if (figure == known.end()) return;
    plan.time_figures.push_back(&*figure);
  }
  // What reading all values once saves must be worth it.
  std::int64_t values = 0;
  for (const sweep::Axis& axis : plan.points.axes()) values += static_cast<std::int64_t>(axis.values.size());
  if (values > plan.points.count() / 2) return;
  KnobFinder(plan, base).run();
}

}  // namespace gpusim
