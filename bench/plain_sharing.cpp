// SPDX-License-Identifier: Apache-2.0
#include "bench/plain_sharing.hpp"

#include <algorithm>
#include <cmath>

namespace gpusim::bench {

PlainDevice::PlainDevice(const engine::SharingMachine& machine)
    : sm_{machine.threads_per_sm, machine.registers_per_sm, machine.shared_memory_per_sm,
          machine.blocks_per_sm},
      sms_(machine.sms),
      top_(machine.bandwidth_top / 1e12),
      cap_(top_),
      sm_draw_(machine.bandwidth_per_sm / 1e12),
      long_block_(static_cast<double>(machine.long_block.count())),
      groups_{{.sms = machine.sms, .carveout = 0, .residents = {}}} {
  double x = 1.0 / 3.0;
  if (sms_ > 0 && sm_draw_ > 0) x = std::clamp(top_ / (static_cast<double>(sms_) * sm_draw_), 0.1, 0.9);
  cap_ = top_ / std::sqrt(1 - x * x);
}

double PlainDevice::soft_cap(double asked) const {
  const double x = asked / cap_;
  return asked / std::sqrt(1 + x * x);
}

std::int64_t PlainDevice::fits(const Slots& free, const Slots& need) {
  std::int64_t n = free.blocks / need.blocks;
  if (need.threads > 0) n = std::min(n, free.threads / need.threads);
  if (need.registers > 0) n = std::min(n, free.registers / need.registers);
  if (need.shared_memory > 0) n = std::min(n, free.shared_memory / need.shared_memory);
  return n;
}

PlainDevice::Kernel PlainDevice::prepare(std::uint32_t name, const engine::Footprint& f,
                                         std::int64_t alone) const {
  Kernel k;
  k.name = name;
  k.alone = static_cast<double>(alone);
  const std::int64_t blocks = std::max<std::int64_t>(f.blocks, 1);
  k.blocks = k.pool = static_cast<double>(blocks);
  k.need.threads = std::min<std::int64_t>(f.threads_per_block, sm_.threads);
  k.need.registers =
      std::min<std::int64_t>(std::int64_t{f.threads_per_block} * f.registers_per_thread, sm_.registers);
  k.need.blocks = 1;
  if (f.shared_memory_per_block > 0) {
    const std::int64_t without = fits(sm_, k.need);
    k.need.shared_memory = std::min(f.shared_memory_per_block + 1024, sm_.shared_memory);
    k.carveout = std::min(k.need.shared_memory * without, sm_.shared_memory);
  }
  k.fit = fits(sm_, k.need);
  const auto share = [](std::int64_t need, std::int64_t all) {
    return static_cast<double>(need) / static_cast<double>(all);
  };
  k.load = std::max({share(k.need.threads, sm_.threads), share(k.need.registers, sm_.registers),
                     share(k.need.shared_memory, sm_.shared_memory), share(1, sm_.blocks)});
  k.load = std::floor(k.load * (1 << 20));  // a sum of whole numbers is the same in any order

  const std::int64_t slots = sms_ * k.fit;
  const double used = static_cast<double>(std::min(sms_, blocks));
  const double fullest = std::min(static_cast<double>(k.fit), std::ceil(k.blocks / used));
  const double bytes = top_ > 0 ? static_cast<double>(f.bytes) : 0;
  k.arithmetic = f.arithmetic >= 0.95;
  k.memory = bytes > 0 && !f.memory_hidden && !k.arithmetic;
  k.fluid = k.memory || blocks > 4 * slots;
  const double waves = k.blocks / static_cast<double>(slots);
  k.layers = k.fluid ? std::max(1.0, waves) : std::ceil(waves);
  const double time_alone = k.alone / k.layers;
  if (k.arithmetic && k.blocks > used) {
    if (!k.fluid) k.layers = std::ceil(k.blocks / used);
    k.time = k.fluid ? k.alone * used / k.blocks : k.alone / k.layers;
    k.issue = 1;
  } else {
    const double issue_time = std::min(f.arithmetic * k.alone * used / k.blocks, time_alone / fullest);
    k.time = time_alone;
    if (k.memory) {
      const double x = std::min(bytes / k.alone, top_) / cap_;
      k.want = bytes / k.blocks / std::max(time_alone * std::sqrt(1 - x * x), issue_time);
      const double asked = k.want * static_cast<double>(std::min(blocks, slots));
      k.slow_alone = soft_cap(asked) / asked;
      k.time = time_alone * k.slow_alone;
    }
    k.issue = issue_time / k.time;
  }
  if (!k.memory) k.want = bytes / k.blocks / k.time;
  k.fullest_want = k.want * fullest;
  return k;
}

void PlainDevice::submit(std::uint32_t name, const engine::Footprint& footprint, std::int64_t alone,
                         std::int64_t now, std::vector<Change>& changes) {
  const bool idle = kernels_.empty();
  kernels_.push_back(prepare(name, footprint, alone));
  if (idle) {
    line_.push_back(&kernels_.back());
    start_alone(now, changes);
    return;
  }
  if (alone_) derive(now);
  line_.push_back(&kernels_.back());
  if (now == next_) return;  // what is due makes room first
  if (line_.size() == 1 && best_group(kernels_.back()) != nullptr) {
    progress(now);
    place(changes);
  } else {
    mark_late();
  }
  update();
}

void PlainDevice::advance(std::int64_t now, std::vector<Change>& changes) {
  if (alone_)
    take_away([](std::size_t, const Resident&) { return true; });
  else
    progress(now);
  if (!alone_)
    take_away([](std::size_t, const Resident& r) {
      return r.done >= 1 - 1e-9 && !(r.kernel->fluid && r.kernel->pool > 0);
    });
  merge();
  for (auto k = kernels_.begin(); k != kernels_.end();) {
    bool resident = k->in_line && !alone_;
    for (const Group& group : groups_)
      for (const Resident& r : group.residents) resident = resident || r.kernel == &*k;
    if (resident) {
      ++k;
      continue;
    }
    changes.push_back({true, k->name});
    k = kernels_.erase(k);
  }
  if (alone_) line_.clear();
  alone_ = false;
  if (kernels_.size() == 1 && !kernels_.front().started) {
    // Left over, and about to lie on the SMs as on a device that was idle.
    Kernel& last = kernels_.front();
    if (!last.late || last.blocks >= static_cast<double>(sms_ * last.fit)) {
      last.late = false;
      start_alone(now, changes);
      return;
    }
  }
  place(changes);
  update();
}

/// A kernel by itself takes `alone` to the picosecond, whatever rates round to.
void PlainDevice::start_alone(std::int64_t now, std::vector<Change>& changes) {
  alone_ = true;
  since_ = now;
  place(changes);
  update();
  next_ = now + static_cast<std::int64_t>(kernels_.front().alone);
}

/// What the kernel that was alone until now has done: even progress.
void PlainDevice::derive(std::int64_t now) {
  alone_ = false;
  Kernel& k = kernels_.front();
  const double elapsed = static_cast<double>(now - since_);
  since_ = now;
  const double layer = k.alone / k.layers;
  if (k.fluid) {
    const double left = k.pool - k.blocks * (elapsed / k.alone);
    if (left >= 1e-6) {
      k.pool = left;
      return;
    }
    k.pool = 0;
    k.in_line = false;
    line_.clear();
    const double done = std::clamp((elapsed - (k.alone - layer)) / layer, 0.0, 1.0);
    for (Group& group : groups_)
      for (Resident& r : group.residents) r.done = done;
    return;
  }
  const double gone = std::min(std::floor(elapsed / layer), k.layers - 1);
  std::vector<Change> none;
  for (double i = 0; i < gone; ++i) {
    take_away([&](std::size_t j, const Resident&) { return !k.arithmetic || j == 0; });
    merge();
    place(none);
  }
  const double done = std::clamp(elapsed / layer - gone, 0.0, 1.0);
  for (Group& group : groups_)
    for (std::size_t j = 0; j < group.residents.size(); ++j)
      if (!k.arithmetic || j == 0) group.residents[j].done = done;
}

std::int64_t PlainDevice::room(const Group& group, const Kernel& kernel) const {
  Slots free = sm_;
  if (!group.residents.empty()) free.shared_memory = group.carveout;
  for (const Resident& r : group.residents) {
    free.threads -= r.blocks * r.kernel->need.threads;
    free.registers -= r.blocks * r.kernel->need.registers;
    free.shared_memory -= r.blocks * r.kernel->need.shared_memory;
    free.blocks -= r.blocks;
  }
  return fits(free, kernel.need);
}

double PlainDevice::load(const Group& group) {
  double sum = 0;
  for (const Resident& r : group.residents) sum += static_cast<double>(r.blocks) * r.kernel->load;
  return sum;
}

/// Where most blocks fit, among equals the fuller SMs.
PlainDevice::Group* PlainDevice::best_group(const Kernel& kernel) {
  Group* best = nullptr;
  std::int64_t most = 0;
  for (Group& group : groups_) {
    const std::int64_t n = room(group, kernel);
    if (n > most || (n == most && n > 0 && load(group) > load(*best))) {
      best = &group;
      most = n;
    }
  }
  return best;
}

/// First come, first served; the head of the line blocks the rest.
void PlainDevice::place(std::vector<Change>& changes) {
  while (!line_.empty()) {
    Kernel& k = *line_.front();
    while (k.pool > 0) {
      Group* group = best_group(k);
      if (group == nullptr) break;
      const double left = std::ceil(k.pool - 1e-6);
      const double n = k.late ? std::min(static_cast<double>(room(*group, k)), left) : 1;
      const double reach = std::max(1.0, std::floor(left / n));
      if (reach < static_cast<double>(group->sms)) {
        const std::size_t at = static_cast<std::size_t>(group - groups_.data());
        groups_.push_back(*group);
        group = &groups_[at];
        group->sms = static_cast<std::int64_t>(reach);
        groups_.back().sms -= group->sms;
      }
      if (group->residents.empty()) group->carveout = k.carveout;
      const auto blocks = static_cast<std::int64_t>(n);
      if (!k.fluid) {
        for (std::int64_t i = 0; i < blocks; ++i) group->residents.push_back({.kernel = &k, .blocks = 1});
      } else if (!group->residents.empty() && group->residents.back().kernel == &k &&
                 group->residents.back().done == 0) {
        group->residents.back().blocks += blocks;
      } else {
        group->residents.push_back({.kernel = &k, .blocks = blocks});
      }
      k.pool = std::max(0.0, k.pool - static_cast<double>(group->sms) * n);
      if (!k.started) changes.push_back({false, k.name});
      k.started = true;
    }
    if (k.pool > 0) break;
    k.in_line = false;
    line_.pop_front();
  }
  mark_late();
}

/// Who waits for SMs that come free one by one fills the first ones up.
void PlainDevice::mark_late() {
  bool one_by_one = false;
  for (const Group& group : groups_)
    for (const Resident& r : group.residents)
      one_by_one = one_by_one || (!r.kernel->arithmetic && r.kernel->time > long_block_);
  if (!one_by_one) return;
  for (Kernel* k : line_)
    if (!k->started) k->late = true;
}

template <class Gone>
void PlainDevice::take_away(Gone gone) {
  for (Group& group : groups_) {
    std::vector<Resident> kept;
    for (std::size_t j = 0; j < group.residents.size(); ++j)
      if (!gone(j, group.residents[j])) kept.push_back(group.residents[j]);
    group.residents = std::move(kept);
  }
}

/// SMs of equal content become one group.
void PlainDevice::merge() {
  std::vector<Group> merged;
  for (Group& group : groups_) {
    const auto same = std::find_if(merged.begin(), merged.end(), [&](const Group& other) {
      if (!group.residents.empty() && group.carveout != other.carveout) return false;
      return std::equal(group.residents.begin(), group.residents.end(), other.residents.begin(),
                        other.residents.end(), [](const Resident& a, const Resident& b) {
                          return a.kernel == b.kernel && a.blocks == b.blocks &&
                                 std::abs(a.done - b.done) < 1e-9;
                        });
    });
    if (same == merged.end())
      merged.push_back(std::move(group));
    else
      same->sms += group.sms;
  }
  groups_ = std::move(merged);
}

void PlainDevice::progress(std::int64_t now) {
  const double elapsed = static_cast<double>(now - since_);
  since_ = now;
  for (Group& group : groups_)
    for (Resident& r : group.residents)
      if (!(r.kernel->fluid && r.kernel->pool > 0)) r.done += r.rate * elapsed;
  for (Kernel& k : kernels_) {
    if (!k.fluid || k.pool <= 0) continue;
    k.pool -= k.rate * elapsed;
    if (k.pool < 1e-6) k.pool = 0;
  }
}

/// Issue slots to the oldest first; then so much traffic as an SM can ask for.
void PlainDevice::share_sm(Group& group, bool first, double slow) const {
  double left = 1;
  double asked = 0;
  double most = sm_draw_;
  for (Resident& r : group.residents) {
    const Kernel& k = *r.kernel;
    const double n = static_cast<double>(r.blocks);
    const double ask = n * k.issue * (!k.memory ? 1.0 : first ? k.slow_alone : slow);
    r.full = ask <= left ? 1 : left / ask;
    left = ask <= left ? left - ask : 0;
    if (!k.memory) continue;
    asked += n * k.want * r.full;
    most = std::max(most, k.fullest_want);
  }
  if (sm_draw_ == 0 || asked <= most) return;
  for (Resident& r : group.residents)
    if (r.kernel->memory) r.full *= most / asked;
}

/// The rates of all blocks, and when the next of them, or a pool, is done.
void PlainDevice::update() {
  double slow = 1;
  for (int pass = 0; pass < 2; ++pass) {
    double memory = 0;
    double others = 0;
    for (Group& group : groups_) {
      share_sm(group, pass == 0, slow);
      for (const Resident& r : group.residents)
        (r.kernel->memory ? memory : others) +=
            static_cast<double>(group.sms) * static_cast<double>(r.blocks) * r.kernel->want * r.full;
    }
    if (memory == 0) break;
    // The others draw what the cap gives to some demand, which that of the memory-bound ones adds to.
    const double x = std::min(others / cap_, 0.95);
    const double left = soft_cap(memory + x * cap_ / std::sqrt(1 - x * x)) - x * cap_;
    slow = std::min(left / memory, 1.0);
  }
  double first = std::numeric_limits<double>::infinity();
  for (Kernel& k : kernels_) k.rate = 0;
  for (Group& group : groups_)
    for (Resident& r : group.residents) {
      Kernel& k = *r.kernel;
      r.rate = r.full * (k.memory ? slow : 1.0) / k.time;
      k.rate += static_cast<double>(group.sms) * static_cast<double>(r.blocks) * r.rate;
      if (r.rate > 0 && !(k.fluid && k.pool > 0)) first = std::min(first, (1 - r.done) / r.rate);
    }
  for (const Kernel& k : kernels_)
    if (k.rate > 0 && k.fluid && k.pool > 0) first = std::min(first, k.pool / k.rate);
  next_ = first < 4e18 ? since_ + static_cast<std::int64_t>(std::ceil(std::max(first, 0.0))) : never;
}

}  // namespace gpusim::bench
