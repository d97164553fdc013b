// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/sharing.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "sim/engine/assertion.hpp"

namespace gpusim::engine {

namespace {

constexpr double nearly_done =
    1 - 1e-9;  // of a block's time: what rounding leaves over is no event of its own
constexpr double nearly_no_block = 1e-6;  // of a pool, for the same reason
constexpr std::size_t no_group = std::numeric_limits<std::size_t>::max();

void append_bits(double value, std::vector<std::int64_t>& state) {
  state.push_back(std::bit_cast<std::int64_t>(value));
}

void append_footprint(const Footprint& f, std::vector<std::int64_t>& state) {
  state.insert(state.end(), {f.blocks, f.threads_per_block, f.registers_per_thread, f.shared_memory_per_block,
                             f.bytes, f.memory_hidden ? 1 : 0});
  append_bits(f.arithmetic, state);
}

void add(SmResources& sum, const SmResources& need, std::int32_t times) {
  sum.threads += times * need.threads;
  sum.registers += times * need.registers;
  sum.shared_memory += times * need.shared_memory;
  sum.blocks += times * need.blocks;
}

}  // namespace

SharedDevice::Kernel::Kernel(std::uint32_t its_name, const Footprint& its_footprint,
                             Picoseconds its_time_alone, const SharingLimits& limits)
    : name(its_name),
      pool(static_cast<double>(std::max<std::int64_t>(its_footprint.blocks, 1))),
      alone(its_time_alone),
      footprint(its_footprint),
      block(its_footprint, std::max(its_time_alone, Picoseconds(1)), limits) {}

SharedDevice::SharedDevice(const SharingMachine& machine) : limits_(machine) {}

// ---- kernels come, time goes on
// --------------------------------------------------------------------------------

/// Not idle: the kernel may have to share.
void SharedDevice::submit_beside(std::uint32_t name, const Footprint& footprint, Picoseconds alone,
                                 Picoseconds now, std::vector<Change>& changes) {
  if (limits_.sms == 0) {
    if (mode_ == Mode::Lone) apart_.push_back(lone_);
    mode_ = Mode::Apart;
    apart_.push_back({name, now, now + alone});
    next_ = std::min(next_, now + alone);
    changes.push_back({Change::Kind::Started, name});
    return;
  }
  const bool derived = mode_ == Mode::Lone;
  if (derived) share(now);
  kernels_.emplace_back(name, footprint, alone, limits_);
  if (now == next_) return;  // what is due makes room first
  const bool at_the_head = waiting_ + 1 == kernels_.size();
  const bool starts =
      at_the_head && (alone == Picoseconds(0) || best_group(kernels_.back().block) != no_group);
  if (starts) {
    progress(now);
    place(&changes);
  } else {
    mark_late();
    if (!derived) return;  // nothing goes on at another rate
  }
  update_rates();
  update_next();
}

/// Several kernels, and `now` is next_.
void SharedDevice::change(Picoseconds now, std::vector<Change>& changes) {
  if (mode_ == Mode::Apart) {
    change_apart(now, changes);
    return;
  }
  progress(now);
  retire(changes);
  if (kernels_.empty()) {
    mode_ = Mode::Idle;
    next_ = Picoseconds::max();
  } else if (has_device_to_itself()) {
    const Kernel kernel = kernels_.front();
    kernels_.clear();
    mode_ = Mode::Idle;
    next_ = Picoseconds::max();
    submit(kernel.name, kernel.footprint, kernel.alone, now, changes);
  } else {
    place(&changes);
    update_rates();
    update_next();
  }
}

/// One kernel is left, which has not started, and it will lie on the SMs as it does when it is submitted to
/// an idle device. One that packs lies closer, unless it fills them all anyway.
bool SharedDevice::has_device_to_itself() const {
  if (kernels_.size() != 1 || kernels_.front().started) return false;
  const Kernel& kernel = kernels_.front();
  return !kernel.packs || kernel.pool >= static_cast<double>(limits_.sms) * kernel.block.per_sm;
}

void SharedDevice::change_apart(Picoseconds now, std::vector<Change>& changes) {
  next_ = Picoseconds::max();
  std::size_t kept = 0;
  for (const Undisturbed& kernel : apart_) {
    if (kernel.end == now) {
      changes.push_back({Change::Kind::Ended, kernel.kernel});
    } else {
      next_ = std::min(next_, kernel.end);
      apart_[kept++] = kernel;
    }
  }
  apart_.resize(kept);
  if (kept == 0) mode_ = Mode::Idle;
}

/// From a kernel alone to a state of the SMs, as of `now`.
void SharedDevice::share(Picoseconds now) {
  mode_ = Mode::Shared;
  since_ = now;
  waiting_ = 0;
  clear_groups();
  kernels_.emplace_back(lone_.kernel, lone_footprint_, lone_.end - lone_.start, limits_);
  kernels_.front().started = true;
  if (now == next_) {  // it has ended, only nobody has been told yet
    kernels_.front().pool = 0;
    waiting_ = 1;
  } else {
    derive(static_cast<double>((now - lone_.start).count()));
  }
}

/// The state of the SMs when the first of kernels_ has been alone for `elapsed` ps: it makes even progress.
void SharedDevice::derive(double elapsed) {
  Kernel& kernel = kernels_.front();
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
  const BlockModel& block = kernels_.front().block;
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

// ---- what is on the SMs
// ----------------------------------------------------------------------------------------

void SharedDevice::clear_groups() {
  if (groups_.empty()) groups_.emplace_back();
  group_count_ = 1;
  groups_.front().sms = limits_.sms;
  groups_.front().free = limits_.sm;
  groups_.front().load = 0;
  groups_.front().residents.clear();
}

/// Blocks of a kernel that still fit on each SM of the group.
std::int32_t SharedDevice::room_on(const Group& group, const BlockModel& block) const {
  SmResources free = group.free;
  if (!group.residents.empty()) free.shared_memory -= limits_.sm.shared_memory - group.carveout;
  return room(free, block.need);
}

/// Where the next blocks go: where most of them fit, among equals to the fuller SMs.
std::size_t SharedDevice::best_group(const BlockModel& block) const {
  std::size_t best = no_group;
  std::int32_t most = 0;
  for (std::size_t g = 0; g < group_count_; ++g) {
    const std::int32_t fits = room_on(groups_[g], block);
    if (fits > most || (fits == most && fits > 0 && groups_[g].load > groups_[best].load)) {
      best = g;
      most = fits;
    }
  }
  return best;
}

/// Gives room to the kernels that wait, the first come first; the head of the line blocks the rest.
void SharedDevice::place(std::vector<Change>* changes) {
  for (; waiting_ < kernels_.size(); ++waiting_) {
    Kernel& kernel = kernels_[waiting_];
    if (kernel.alone == Picoseconds(0)) kernel.pool = 0;  // needs no room
    while (kernel.pool > 0) {
      const std::size_t g = best_group(kernel.block);
      if (g == no_group) break;
      place_blocks(static_cast<std::uint32_t>(waiting_), g);
      if (!kernel.started) changes->push_back({Change::Kind::Started, kernel.name});
      kernel.started = true;
    }
    if (kernel.pool > 0) break;
    if (!kernel.started) changes->push_back({Change::Kind::Started, kernel.name});
    kernel.started = true;
  }
  mark_late();
}

/// One block on each SM of a group, or all that fit if the kernel packs; fewer SMs if it has fewer blocks
/// left.
void SharedDevice::place_blocks(std::uint32_t k, std::size_t g) {
  Kernel& kernel = kernels_[k];
  const double left = std::ceil(kernel.pool - nearly_no_block);
  std::int32_t blocks = 1;
  if (kernel.packs)
    blocks = static_cast<std::int32_t>(std::min<double>(room_on(groups_[g], kernel.block), left));
  const double reach = std::max(1.0, std::floor(left / blocks));
  if (reach < groups_[g].sms) {
    if (group_count_ == groups_.size()) groups_.emplace_back();
    Group& others = groups_[group_count_++];
    others = groups_[g];
    groups_[g].sms = static_cast<std::int32_t>(reach);
    others.sms -= groups_[g].sms;
  }
  Group& group = groups_[g];
  if (group.residents.empty()) group.carveout = kernel.block.carveout;
  add(group.free, kernel.block.need, -blocks);
  GPUSIM_ASSERT(blocks > 0 && group.sms > 0 && group.free.threads >= 0 && group.free.registers >= 0 &&
                group.free.shared_memory >= 0 && group.free.blocks >= 0);
  group.load += blocks * kernel.block.load;
  const Resident resident{k, kernel.block.fluid ? blocks : 1, 0, 0, 0};
  if (!kernel.block.fluid) {
    group.residents.insert(group.residents.end(), static_cast<std::size_t>(blocks), resident);
  } else if (!group.residents.empty() && group.residents.back().kernel == k &&
             group.residents.back().done == 0) {
    group.residents.back().blocks += blocks;
  } else {
    group.residents.push_back(resident);
  }
  kernel.pool = std::max(0.0, kernel.pool - static_cast<double>(group.sms) * blocks);
}

/// Kernels that wait for SMs which come free one by one will fill the first ones up.
void SharedDevice::mark_late() {
  bool one_by_one = false;
  for (std::size_t k = waiting_; k < kernels_.size(); ++k) {
    if (kernels_[k].started || kernels_[k].packs) continue;
    for (std::size_t g = 0; g < group_count_ && !one_by_one; ++g)
      for (const Resident& r : groups_[g].residents)
        one_by_one = one_by_one || kernels_[r.kernel].block.lasting;
    if (!one_by_one) return;
    kernels_[k].packs = true;
  }
}

/// gone(i, resident): whether the i-th oldest resident of an SM leaves.
template <class Gone>
void SharedDevice::remove_residents(Gone gone) {
  for (std::size_t g = 0; g < group_count_; ++g) {
    Group& group = groups_[g];
    std::size_t kept = 0;
    for (std::size_t i = 0; i < group.residents.size(); ++i) {
      const Resident r = group.residents[i];
      if (gone(i, r)) {
        const BlockModel& block = kernels_[r.kernel].block;
        add(group.free, block.need, r.blocks);
        group.load -= r.blocks * block.load;
      } else {
        group.residents[kept++] = r;
      }
    }
    group.residents.resize(kept);
  }
}

void SharedDevice::merge_groups() {
  const auto equal = [](const Group& a, const Group& b) {
    if (a.residents.size() != b.residents.size()) return false;
    if (!a.residents.empty() && a.carveout != b.carveout) return false;
    return std::equal(a.residents.begin(), a.residents.end(), b.residents.begin(),
                      [](const Resident& r, const Resident& s) {
                        return r.kernel == s.kernel && r.blocks == s.blocks &&
                               std::abs(r.done - s.done) < 1 - nearly_done;
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
  group_count_ = kept;
}

/// Takes away the blocks that are done and the kernels that have none left.
void SharedDevice::retire(std::vector<Change>& changes) {
  remove_residents([this](std::size_t, const Resident& r) {
    return r.done >= nearly_done && !consumes_pool(kernels_[r.kernel]);
  });
  merge_groups();
  for (std::size_t k = 0; k < kernels_.size(); ++k) kernels_[k].residents = 0;
  for (std::size_t g = 0; g < group_count_; ++g)
    for (const Resident& r : groups_[g].residents) ++kernels_[r.kernel].residents;

  renumbered_.resize(kernels_.size());
  const std::size_t placed = waiting_;
  std::size_t kept = 0;
  for (std::size_t k = 0; k < kernels_.size(); ++k) {
    if (k < placed && kernels_[k].residents == 0) {
      changes.push_back({Change::Kind::Ended, kernels_[k].name});
      --waiting_;
      continue;
    }
    renumbered_[k] = static_cast<std::uint32_t>(kept);
    if (kept != k) kernels_[kept] = kernels_[k];
    ++kept;
  }
  if (kept == kernels_.size()) return;
  kernels_.erase(kernels_.begin() + static_cast<std::ptrdiff_t>(kept), kernels_.end());
  for (std::size_t g = 0; g < group_count_; ++g)
    for (Resident& r : groups_[g].residents) r.kernel = renumbered_[r.kernel];
}

// ---- how fast it goes on
// ---------------------------------------------------------------------------------------

/// Shares the SMs' issue slots and the memory. What the memory gives decides how many issue slots are asked
/// for, so the memory is shared out twice, at first as if every kernel got what it gets alone.
void SharedDevice::update_rates() {
  double memory_share = 1;  // of what a kernel asks for: the same for all
  for (int pass = 0; pass < 2; ++pass) {
    double asked = 0;
    double served_first = 0;  // traffic that hides behind other work, and that of kernels bound by arithmetic
    for (std::size_t g = 0; g < group_count_; ++g) {
      share_sm(groups_[g], pass == 0 ? nullptr : &memory_share);
      for (const Resident& r : groups_[g].residents) {
        const BlockModel& block = kernels_[r.kernel].block;
        const double draw = static_cast<double>(groups_[g].sms) * r.blocks * block.draw * r.full;
        (block.memory ? asked : served_first) += draw;
      }
    }
    if (asked == 0) break;
    memory_share = std::max(0.0, limits_.soft_cap(asked + served_first) - served_first) / asked;
    memory_share = std::min(memory_share, 1.0);
  }
  for (Kernel& kernel : kernels_) kernel.rate = 0;
  for (std::size_t g = 0; g < group_count_; ++g) {
    for (Resident& r : groups_[g].residents) {
      Kernel& kernel = kernels_[r.kernel];
      r.rate = r.full * (kernel.block.memory ? memory_share : 1.0) / kernel.block.time;
      kernel.rate += static_cast<double>(groups_[g].sms) * r.blocks * r.rate;
    }
  }
}

/// On one SM: issue slots to the oldest first; then at most so much traffic as an SM can ask for, or as the
/// greediest kernel on it asks for when it is alone. memory_share: null for what each gets alone.
void SharedDevice::share_sm(Group& group, const double* memory_share) const {
  double slots = 1;
  double asked = 0;
  double most = limits_.bandwidth_per_sm;
  for (Resident& r : group.residents) {
    const BlockModel& block = kernels_[r.kernel].block;
    double ask = r.blocks * block.issue;
    if (block.memory) ask *= memory_share != nullptr ? *memory_share : block.memory_alone;
    r.full = ask <= slots ? 1 : slots / ask;
    slots = ask <= slots ? slots - ask : 0;
    if (!block.memory) continue;
    asked += r.blocks * block.draw * r.full;
    most = std::max(most, block.fullest_draw);
  }
  if (limits_.bandwidth_per_sm == 0 || asked <= most) return;
  for (Resident& r : group.residents)
    if (kernels_[r.kernel].block.memory) r.full *= most / asked;
}

void SharedDevice::progress(Picoseconds now) {
  GPUSIM_ASSERT(now >= since_);
  if (now == since_) return;
  const double elapsed = static_cast<double>((now - since_).count());
  since_ = now;
  for (std::size_t g = 0; g < group_count_; ++g)
    for (Resident& r : groups_[g].residents)
      if (!consumes_pool(kernels_[r.kernel])) r.done += r.rate * elapsed;
  for (Kernel& kernel : kernels_) {
    if (!consumes_pool(kernel)) continue;
    kernel.pool -= kernel.rate * elapsed;
    if (kernel.pool < nearly_no_block) kernel.pool = 0;
  }
}

/// Shared: the next end of a block that is not replaced by one of the same kernel, or of a pool.
void SharedDevice::update_next() {
  double first = std::numeric_limits<double>::infinity();
  for (std::size_t g = 0; g < group_count_; ++g)
    for (const Resident& r : groups_[g].residents)
      if (r.rate > 0 && !consumes_pool(kernels_[r.kernel])) first = std::min(first, (1 - r.done) / r.rate);
  for (std::size_t k = 0; k < kernels_.size(); ++k) {
    const Kernel& kernel = kernels_[k];
    if (kernel.rate > 0 && consumes_pool(kernel)) first = std::min(first, kernel.pool / kernel.rate);
    if (k < waiting_ && kernel.alone == Picoseconds(0)) first = 0;  // has started, and ends at once
  }
  next_ = after(first);
  GPUSIM_ASSERT(next_ != Picoseconds::max());  // the oldest block of an SM always gets its issue slots
}

/// since_ + a time, rounded up to a picosecond: a block is done when the clock stops for it.
Picoseconds SharedDevice::after(double picoseconds) const {
  const double most = static_cast<double>((Picoseconds::max() - since_).count());
  if (!(picoseconds < most / 2)) return Picoseconds::max();
  return since_ + Picoseconds(static_cast<std::int64_t>(std::ceil(std::max(picoseconds, 0.0))));
}

// ---- questions
// -------------------------------------------------------------------------------------------------

Picoseconds SharedDevice::predicted_end(std::uint32_t name) const {
  if (mode_ == Mode::Lone && lone_.kernel == name) return lone_.end;
  for (const Undisturbed& kernel : apart_)
    if (kernel.kernel == name) return kernel.end;
  for (std::uint32_t k = 0; k < kernels_.size(); ++k) {
    const Kernel& kernel = kernels_[k];
    if (kernel.name != name || !kernel.started) continue;
    double longest = 0;
    double left = kernel.pool;  // blocks
    for (std::size_t g = 0; g < group_count_; ++g) {
      for (const Resident& r : groups_[g].residents) {
        if (r.kernel != k) continue;
        left += static_cast<double>(groups_[g].sms) * r.blocks * (1 - r.done);
        longest = std::max(longest, (1 - r.done) / r.rate);
      }
    }
    return after(kernel.pool > 0 ? left / kernel.rate : longest);
  }
  return Picoseconds::max();
}

void SharedDevice::append_state(Picoseconds now, std::vector<std::int64_t>& state) const {
  state.push_back(static_cast<std::int64_t>(mode_));
  const auto append_undisturbed = [&](const Undisturbed& kernel) {
    state.insert(state.end(), {kernel.kernel, (kernel.start - now).count(), (kernel.end - now).count()});
  };
  switch (mode_) {
    case Mode::Idle:
      return;
    case Mode::Lone:
      append_undisturbed(lone_);
      append_footprint(lone_footprint_, state);
      return;
    case Mode::Apart:
      for (const Undisturbed& kernel : apart_) append_undisturbed(kernel);
      return;
    case Mode::Shared:
      break;
  }
  state.insert(state.end(),
               {(since_ - now).count(), (next_ - now).count(), static_cast<std::int64_t>(waiting_),
                static_cast<std::int64_t>(kernels_.size())});
  for (const Kernel& kernel : kernels_) {
    state.insert(state.end(),
                 {kernel.name, kernel.alone.count(), kernel.started ? 1 : 0, kernel.packs ? 1 : 0});
    append_footprint(kernel.footprint, state);
    append_bits(kernel.pool, state);
  }
  for (std::size_t g = 0; g < group_count_; ++g) {
    const Group& group = groups_[g];
    state.insert(state.end(), {group.sms, group.residents.empty() ? 0 : group.carveout,
                               static_cast<std::int64_t>(group.residents.size())});
    for (const Resident& r : group.residents) {
      state.insert(state.end(), {r.kernel, r.blocks});
      append_bits(r.done, state);
    }
  }
}

}  // namespace gpusim::engine
