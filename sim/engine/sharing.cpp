// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/sharing.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <memory>

#include "sim/engine/assertion.hpp"

namespace gpusim::engine {

namespace {

void append_bits(double value, std::vector<std::int64_t>& state) {
  state.push_back(std::bit_cast<std::int64_t>(value));
}

void append_footprint(const Footprint& f, std::vector<std::int64_t>& state) {
  state.insert(state.end(), {f.blocks, f.threads_per_block, f.registers_per_thread, f.shared_memory_per_block,
                             f.bytes, f.memory_hidden ? 1 : 0});
  append_bits(f.arithmetic, state);
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

// ---- kernels come, time goes on ----

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
  const Kernel& kernel = add_kernel(name, footprint, alone);
  if (now == next_) return;  // what is due makes room first
  const bool at_the_head = waiting_ + 1 == present_.size();
  if (at_the_head) find_room(kernel.block);
  const bool starts = at_the_head && (alone == Picoseconds(0) || best_group() < group_count_);
  if (starts) {
    progress(now);
    place(&changes, true);
  } else {
    mark_late();
    if (!derived) return;  // nothing goes on at another rate
  }
  update();
}

/// Several kernels, and `now` is next_.
void SharedDevice::change(Picoseconds now, std::vector<Change>& changes) {
  if (mode_ == Mode::Apart) {
    change_apart(now, changes);
    return;
  }
  retire(now, changes);
  if (present_.empty()) {
    mode_ = Mode::Idle;
    next_ = Picoseconds::max();
  } else if (has_device_to_itself()) {
    const Kernel kernel = kernels_[present_.front()];
    free_places_.push_back(present_.front());
    present_.clear();
    mode_ = Mode::Idle;
    next_ = Picoseconds::max();
    submit(kernel.name, kernel.footprint, kernel.alone, now, changes);
  } else {
    place(&changes);
    update();
  }
}

SharedDevice::Kernel& SharedDevice::add_kernel(std::uint32_t name, const Footprint& footprint,
                                               Picoseconds alone) {
  if (free_places_.empty()) {
    present_.push_back(static_cast<std::uint32_t>(kernels_.size()));
    return kernels_.emplace_back(name, footprint, alone, limits_);
  }
  present_.push_back(free_places_.back());
  free_places_.pop_back();
  return *std::construct_at(&kernels_[present_.back()], name, footprint, alone, limits_);
}

/// One kernel is left, which has not started, and it will lie on the SMs as it does when it is submitted to
/// an idle device. One that packs lies closer, unless it fills them all anyway.
bool SharedDevice::has_device_to_itself() const {
  if (present_.size() != 1) return false;
  const Kernel& kernel = kernels_[present_.front()];
  if (kernel.started) return false;
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
  Kernel& kernel = add_kernel(lone_.kernel, lone_footprint_, lone_.end - lone_.start);
  kernel.started = true;
  if (now == next_) {  // it has ended, only nobody has been told yet
    kernel.pool = 0;
    waiting_ = 1;
  } else {
    derive(static_cast<double>((now - lone_.start).count()));
  }
}

// ---- questions ----

Picoseconds SharedDevice::predicted_end(std::uint32_t name) const {
  if (mode_ == Mode::Lone && lone_.kernel == name) return lone_.end;
  for (const Undisturbed& kernel : apart_)
    if (kernel.kernel == name) return kernel.end;
  for (const std::uint32_t k : present_) {
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
                static_cast<std::int64_t>(present_.size())});
  for (const std::uint32_t k : present_) {
    const Kernel& kernel = kernels_[k];
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
      state.insert(state.end(),
                   {std::find(present_.begin(), present_.end(), r.kernel) - present_.begin(), r.blocks});
      append_bits(r.done, state);
    }
  }
}

}  // namespace gpusim::engine
