// SPDX-License-Identifier: Apache-2.0
#include "sim/app/plan_store.hpp"

#include <utility>

namespace gpusim {
namespace {

/// The first that `same`, moved to the front; null if there is none.
template <class Entry, class Same>
Entry* found(std::list<Entry>& known, const Same& same) {
  for (auto entry = known.begin(); entry != known.end(); ++entry) {
    if (!same(*entry)) continue;
    known.splice(known.begin(), known, entry);
    return &known.front();
  }
  return nullptr;
}

template <class Entry>
Entry& kept(std::list<Entry>& known, Entry entry, std::size_t most) {
  known.push_front(std::move(entry));
  if (known.size() > most) known.pop_back();
  return known.front();
}

}  // namespace

GpuSpec as_planned_for(const GpuSpec& gpu, const CompileOptions& options) {
  GpuSpec seen = gpu;
  seen.key.clear();
  seen.name.clear();
  seen.aliases.clear();
  seen.launch = {};
  seen.host_link = {};
  seen.power.reset();
  seen.memory.capacity = Bytes(0);
  if (options.recompute_by_time) return seen;
  // Beyond that kernels are not priced while a step is planned.
  seen.clock = Hertz(0);
  seen.l2 = Bytes(0);
  seen.copy = {};
  if (options.mode.products.padding) return seen;
  seen.memory = {};
  seen.peak = {};
  return seen;
}

SizedWorkload PlanStore::sized(const NetworkWorkload& workload, const CompileOptions& options,
                               const Sizing& make) {
  // The graph is told by its place: one that has been read again may be another.
  const Sized* known = found(sized_, [&](const Sized& entry) {
    return entry.from.graph == workload.graph && entry.from == workload && entry.options == options;
  });
  if (known == nullptr) known = &kept(sized_, Sized{workload, options, make()}, known_max);
  return known->result;
}

std::shared_ptr<const CompiledStep> PlanStore::step(const NetworkWorkload& workload,
                                                    const CompileOptions& options, const GpuSpec& gpu,
                                                    const Planning& make) {
  GpuSpec seen = as_planned_for(gpu, options);
  const Planned* known = found(planned_, [&](const Planned& entry) {
    return entry.graph == workload.graph && entry.training == workload.training && entry.options == options &&
           entry.gpu == seen;
  });
  if (known == nullptr)
    known = &kept(planned_,
                  Planned{workload.graph, workload.training, options, std::move(seen),
                          std::make_shared<const CompiledStep>(make())},
                  known_max);
  return known->step;
}

}  // namespace gpusim
