// SPDX-License-Identifier: Apache-2.0
// What is on the SMs of a shared device, and how fast it goes on.
#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/engine/assertion.hpp"
#include "sim/engine/sharing.hpp"

namespace gpusim::engine {

namespace {

// What rounding leaves over is no event of its own:
constexpr double rounding = 1e-9;         // of a block's time
constexpr double nearly_no_block = 1e-6;  // of a pool

/// std::ceil, which is a call of the library where the processor may be an old one; at most 2^62.
std::int64_t ceiling(double x) {
  const double bounded = std::min(x, 0x1p62);
  const auto whole = static_cast<std::int64_t>(bounded);  // towards 0
  return static_cast<double>(whole) < bounded ? whole + 1 : whole;
}

void add(SmResources& sum, const SmResources& need, std::int32_t times) {
  sum.threads += times * need.threads;
  sum.registers += times * need.registers;
  sum.shared_memory += times * need.shared_memory;
  sum.blocks += times * need.blocks;
}

bool none_negative(const SmResources& r) {
  return (r.threads | r.registers | r.shared_memory | r.blocks) >= 0;  // of the signs
}

}  // namespace

// ---- a kernel that has been alone so far ----

/// The state of the SMs when the only kernel has been alone for `elapsed` ps: it makes even progress.
void SharedDevice::derive(double elapsed) {
  Kernel& kernel = kernels_[present_.front()];
  const double all = kernel.pool;
  place(nullptr);
  if (!kernel.block.fluid) {
    derive_layers(elapsed);
    return;
  }
  // Blocks are replaced as they end until none is left; those that are placed then take their time.
  const double last = kernel.block.alone / kernel.block.layers;
  const double left = kernel.pool - all * (elapsed / kernel.block.alone);
  if (left >= nearly_no_block) {
    kernel.pool = left;
    return;
  }
  kernel.pool = 0;
  waiting_ = 1;
  const double done = std::clamp((elapsed - (kernel.block.alone - last)) / last, 0.0, 1.0);
  for (std::size_t g = 0; g < group_count_; ++g)
    for (Resident& r : groups_[g].residents) r.done = done;
}

/// Blocks in lockstep: so many layers are gone. Bound by arithmetic, the blocks of an SM end one by one.
void SharedDevice::derive_layers(double elapsed) {
  const BlockModel& block = kernels_[present_.front()].block;
  const double layer = block.alone / block.layers;
  const double gone = std::min(std::floor(elapsed / layer), block.layers - 1);
  for (double i = 0; i < gone; ++i) {
    remove_residents([&](std::size_t j, const Resident&) { return !block.arithmetic || j == 0; });
    merge_groups();
    place(nullptr);
  }
  const double done = std::clamp(elapsed / layer - gone, 0.0, 1.0);
  for (std::size_t g = 0; g < group_count_; ++g)
    for (std::size_t j = 0; j < groups_[g].residents.size(); ++j)
      if (!block.arithmetic || j == 0) groups_[g].residents[j].done = done;
}

// ---- what is on the SMs ----

void SharedDevice::clear_groups() {
  if (groups_.empty()) groups_.emplace_back();
  group_count_ = 1;
  groups_.front().sms = limits_.sms;
  groups_.front().free = limits_.sm;
  groups_.front().load = 0;
  groups_.front().settled = false;
  groups_.front().residents.clear();
  stale_ = true;
}

/// Blocks of a kernel that still fit on each SM of the group.
std::int32_t SharedDevice::room_on(const Group& group, const BlockModel& block) const {
  SmResources free = group.free;
  if (!group.residents.empty()) free.shared_memory -= limits_.sm.shared_memory - group.carveout;
  return room(free, block.need);
}

void SharedDevice::find_room(const BlockModel& block) {
  for (std::size_t g = 0; g < group_count_; ++g) groups_[g].fits = room_on(groups_[g], block);
}

/// Where the next blocks go: where most of them fit, among equals to the fuller SMs. After find_room.
std::size_t SharedDevice::best_group() const {
  std::size_t best = group_count_;
  std::int64_t most = std::int64_t{1} << 32;  // one block; a load is below 2^32
  for (std::size_t g = 0; g < group_count_; ++g) {
    const std::int64_t rank = (std::int64_t{groups_[g].fits} << 32) + groups_[g].load;
    best = rank >= most ? g : best;
    most = std::max(most, rank + 1);
  }
  return best;
}

/// Gives room to the kernels that wait, the first come first; the head of the line blocks the rest.
/// room_found: find_room has just been called for that head.
void SharedDevice::place(std::vector<Change>* changes, bool room_found) {
  for (; waiting_ < present_.size(); ++waiting_) {
    const std::uint32_t k = present_[waiting_];
    Kernel& kernel = kernels_[k];
    if (kernel.alone == Picoseconds(0)) {
      kernel.pool = 0;  // needs no room
      at_once_ = true;
    }
    if (kernel.pool > 0 && !room_found) find_room(kernel.block);
    room_found = false;
    while (kernel.pool > 0) {
      const std::size_t g = best_group();
      if (g == group_count_) break;
      place_blocks(k, g);
    }
    if (!kernel.started && (kernel.placed > 0 || kernel.pool == 0)) {
      changes->push_back({Change::Kind::Started, kernel.name});
      kernel.started = true;
    }
    if (kernel.pool > 0) break;
  }
  mark_late();
}

/// One block on each SM of a group, or all that fit if the kernel packs; fewer SMs if it has fewer blocks
/// left.
void SharedDevice::place_blocks(std::uint32_t k, std::size_t g) {
  Kernel& kernel = kernels_[k];
  std::int32_t blocks = 1;
  if (kernel.packs || kernel.pool < groups_[g].sms) {
    const std::int64_t left = std::max<std::int64_t>(ceiling(kernel.pool - nearly_no_block), 1);
    if (kernel.packs) blocks = static_cast<std::int32_t>(std::min<std::int64_t>(groups_[g].fits, left));
    if (left / blocks < groups_[g].sms) split(g, static_cast<std::int32_t>(left / blocks));
  }
  Group& group = groups_[g];
  group.settled = false;
  stale_ = unmerged_ = true;
  const bool was_idle = group.residents.empty();
  if (was_idle) group.carveout = kernel.block.carveout;
  add(group.free, kernel.block.need, -blocks);
  GPUSIM_ASSERT(blocks > 0 && group.sms > 0 && none_negative(group.free));
  group.load += blocks * kernel.block.load;
  if (!kernel.block.fluid) {
    for (std::int32_t i = 0; i < blocks; ++i) group.residents.push_back({k, 1, 0, 0, 0});
  } else if (!was_idle && group.residents.back().kernel == k && group.residents.back().done == 0) {
    group.residents.back().blocks += blocks;
  } else {
    group.residents.push_back({k, blocks, 0, 0, 0});
  }
  group.fits = was_idle && kernel.block.carveout > 0 ? room_on(group, kernel.block) : group.fits - blocks;
  kernel.placed += std::int64_t{group.sms} * blocks;
  kernel.pool = std::max(0.0, kernel.pool - static_cast<double>(group.sms) * blocks);
}

/// Leaves so many SMs in a group; the others become the last group.
void SharedDevice::split(std::size_t g, std::int32_t sms) {
  if (group_count_ == groups_.size()) groups_.emplace_back();
  Group& others = groups_[group_count_++];
  others = groups_[g];
  groups_[g].sms = sms;
  others.sms -= sms;
}

/// Kernels that wait for SMs which come free one by one will fill the first ones up.
void SharedDevice::mark_late() {
  bool one_by_one = false;
  for (std::size_t i = waiting_; i < present_.size(); ++i) {
    Kernel& kernel = kernels_[present_[i]];
    if (kernel.started || kernel.packs) continue;
    for (std::size_t g = 0; g < group_count_ && !one_by_one; ++g)
      for (const Resident& r : groups_[g].residents)
        one_by_one = one_by_one || kernels_[r.kernel].block.lasting;
    if (!one_by_one) return;
    kernel.packs = true;
  }
}

/// gone(i, resident): whether the i-th oldest resident of an SM leaves. Whether any did.
template <class Gone>
bool SharedDevice::remove_residents(Gone gone) {
  bool any = false;
  for (Group& group : groups()) {
    Resident* const first = group.residents.data();
    Resident* const end = first + group.residents.size();
    Resident* kept = first;
    for (Resident* r = first; r != end; ++r) {
      if (!gone(static_cast<std::size_t>(r - first), *r)) {
        if (kept != r) *kept = *r;
        ++kept;
        continue;
      }
      Kernel& kernel = kernels_[r->kernel];
      add(group.free, kernel.block.need, r->blocks);
      group.load -= r->blocks * kernel.block.load;
      kernel.placed -= std::int64_t{group.sms} * r->blocks;
    }
    if (kept == end) continue;
    group.residents.resize(static_cast<std::size_t>(kept - first));
    group.settled = kept == first;
    any = true;
  }
  if (any) stale_ = unmerged_ = true;
  return any;
}

/// SMs of equal content become one group. Those that differ go on differing until something comes or goes.
void SharedDevice::merge_groups() {
  if (!unmerged_) return;
  unmerged_ = false;
  const auto equal = [](const Group& a, const Group& b) {
    if (a.load != b.load || a.residents.size() != b.residents.size()) return false;
    if (!a.residents.empty() && a.carveout != b.carveout) return false;
    return std::equal(a.residents.begin(), a.residents.end(), b.residents.begin(),
                      [](const Resident& r, const Resident& s) {
                        return r.kernel == s.kernel && r.blocks == s.blocks &&
                               std::abs(r.done - s.done) < rounding;
                      });
  };
  std::size_t kept = 0;
  for (std::size_t g = 0; g < group_count_; ++g) {
    std::size_t same = 0;
    while (same < kept && !equal(groups_[same], groups_[g])) ++same;
    if (same < kept) {
      groups_[same].sms += groups_[g].sms;
    } else {
      if (kept != g) std::swap(groups_[kept], groups_[g]);  // keeps the memory of both
      ++kept;
    }
  }
  if (kept != group_count_) stale_ = true;  // a sum over groups is rounded in another way
  group_count_ = kept;
}

/// Goes on to `now`; takes away the blocks that are done and the kernels that have none left.
void SharedDevice::retire(Picoseconds now, std::vector<Change>& changes) {
  const double elapsed = drain_pools(now);
  const double elapsed_for[] = {elapsed, 0};
  remove_residents([&](std::size_t, Resident& r) {
    const Kernel& kernel = kernels_[r.kernel];
    r.done += r.rate * elapsed_for[kernel.drained];
    return (r.done >= 1 - rounding) & !consumes_pool(kernel);
  });
  merge_groups();
  at_once_ = false;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < waiting_; ++i) {
    const std::uint32_t k = present_[i];
    if (kernels_[k].placed > 0) {
      present_[kept++] = k;
      continue;
    }
    changes.push_back({Change::Kind::Ended, kernels_[k].name});
    free_places_.push_back(k);
  }
  if (kept == waiting_) return;
  present_.erase(present_.begin() + static_cast<std::ptrdiff_t>(kept),
                 present_.begin() + static_cast<std::ptrdiff_t>(waiting_));
  waiting_ = kept;
}

// ---- how fast it goes on ----

/// The rates and next_: the next end of a block that is not replaced by one of the same kernel, or of a pool.
void SharedDevice::update() {
  // What is on the SMs decides how fast it goes on, not how far it has come.
  if (stale_) memory_share_ = share_memory();
  stale_ = false;
  // Which kind of kernel is next is as good as random to the processor: here and below an index chooses, no
  // branch.
  const double share_of[] = {1.0, memory_share_};
  constexpr double never = std::numeric_limits<double>::infinity();
  double first = never;
  for (Group& group : groups()) {
    const std::int64_t sms = group.sms;
    for (Resident& r : group.residents) {
      Kernel& kernel = kernels_[r.kernel];
      r.rate = r.full * share_of[kernel.block.memory] / kernel.block.time;
      kernel.rate += static_cast<double>(sms * r.blocks) * r.rate;
      const double end[] = {never, (1 - r.done) / r.rate};
      first = std::min(first, end[(r.rate > 0) & !consumes_pool(kernel)]);
    }
  }
  for (const std::uint32_t k : present_) {
    const Kernel& kernel = kernels_[k];
    const double end[] = {never, kernel.pool / kernel.rate};
    first = std::min(first, end[(kernel.rate > 0) & consumes_pool(kernel)]);
  }
  if (at_once_) first = 0;
  next_ = after(first);
  GPUSIM_ASSERT(next_ != Picoseconds::max());  // the oldest block of an SM always gets its issue slots
}

/// Shares the SMs' issue slots and the memory; returns the share that a kernel gets of what it asks of the
/// memory, the same for all. That decides how many issue slots are asked for, so the memory is shared out
/// twice, at first as if every kernel got what it gets alone; once if that makes no difference to any SM.
double SharedDevice::share_memory() {
  double memory_share = 1;
  for (int pass = 0; pass < 2; ++pass) {
    bool settled = true;
    double drawn[] = {0, 0};  // by kernels that are not, or are, bound by memory
    for (Group& group : groups()) {
      if (!group.settled) share_sm(group, pass == 0, memory_share);
      settled = settled && group.settled;
      for (const Resident& r : group.residents) {
        const BlockModel& block = kernels_[r.kernel].block;
        drawn[block.memory] += static_cast<double>(std::int64_t{group.sms} * r.blocks) * block.draw * r.full;
      }
    }
    // Traffic that hides behind other work, and that of kernels bound by arithmetic, is served first.
    const auto [served_first, asked] = drawn;
    if (asked == 0) break;
    memory_share = std::min(limits_.beside(served_first, asked) / asked, 1.0);
    if (settled) break;
  }
  return memory_share;
}

/// On one SM: issue slots to the oldest first; then at most so much traffic as an SM can ask for, or as the
/// greediest kernel on it asks for when it is alone. `alone`: each gets of the memory what it gets alone.
void SharedDevice::share_sm(Group& group, bool alone, double memory_share) const {
  double slots = 1;
  double least_slots = 1;                         // if the memory gave all that is asked of it
  double asked[] = {0, 0};                        // by kernels that are not, or are, bound by memory
  double most[] = {0, limits_.bandwidth_per_sm};  // for the same; only those that are have to obey
  bool all_fit = true;                            // even then
  bool feels_memory = false;                      // less memory makes room for others
  for (Resident& r : group.residents) {
    const BlockModel& block = kernels_[r.kernel].block;
    double ask = r.blocks * block.issue;
    all_fit &= ask <= least_slots;
    least_slots -= ask;
    feels_memory |= block.memory & (block.issue > 0);
    const double share_of[] = {1, memory_share};
    ask *= alone ? block.memory_alone : share_of[block.memory];
    r.full = std::min(1.0, slots / ask);
    slots = std::max(0.0, slots - ask);
    asked[block.memory] += r.blocks * block.draw * r.full;
    most[block.memory] = std::max(most[block.memory], block.fullest_draw);
  }
  group.settled = all_fit || !feels_memory;
  if (limits_.bandwidth_per_sm == 0 || asked[1] <= most[1]) return;
  for (Resident& r : group.residents)
    if (kernels_[r.kernel].block.memory) r.full *= most[1] / asked[1];
}

/// The pools as of `now`; marks the kernels that had one until now. Returns the ps since the last time.
double SharedDevice::drain_pools(Picoseconds now) {
  GPUSIM_ASSERT(now >= since_);
  const double elapsed = static_cast<double>((now - since_).count());
  since_ = now;
  for (const std::uint32_t k : present_) {
    Kernel& kernel = kernels_[k];
    kernel.drained = consumes_pool(kernel);
    const double drain[] = {0, kernel.rate * elapsed};
    const double left = kernel.pool - drain[kernel.drained];
    kernel.pool = left < nearly_no_block ? 0 : left;
    kernel.rate = 0;
  }
  return elapsed;
}

void SharedDevice::progress(Picoseconds now) {
  const double elapsed = drain_pools(now);
  const double elapsed_for[] = {elapsed, 0};
  for (Group& group : groups())
    for (Resident& r : group.residents) r.done += r.rate * elapsed_for[kernels_[r.kernel].drained];
}

/// since_ + a time, rounded up to a picosecond: a block is done when the clock stops for it.
Picoseconds SharedDevice::after(double picoseconds) const {
  const double most = static_cast<double>((Picoseconds::max() - since_).count());
  if (!(picoseconds < most / 2)) return Picoseconds::max();
  return since_ + Picoseconds(ceiling(std::max(picoseconds, 0.0)));
}

}  // namespace gpusim::engine
