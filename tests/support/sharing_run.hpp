// SPDX-License-Identifier: Apache-2.0
// Kernels that arrive at a shared device at given times, run to their ends.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <vector>

#include "sim/engine/sharing.hpp"

namespace gpusim::test {

struct Arrival {
  engine::Footprint footprint;
  Picoseconds alone{};
  Picoseconds at{};
};

struct Stay {
  Picoseconds start{-1};
  Picoseconds end{-1};

  friend bool operator==(const Stay&, const Stay&) = default;
};

/// An H200 as validation/h200/concurrency has it.
inline engine::SharingMachine h200(double bandwidth_top = 4250e9) {
  engine::SharingMachine machine;
  machine.sms = 132;
  machine.bandwidth_top = bandwidth_top;
  machine.bandwidth_per_sm = 100e9;
  return machine;
}

/// Notes what the changes say at `now`. A kernel's name is its index. Throws if a kernel starts or ends
/// twice.
inline void note(const std::vector<engine::SharedDevice::Change>& changes, Picoseconds now,
                 std::vector<Stay>& stays) {
  for (const auto& change : changes) {
    Stay& stay = stays.at(change.kernel);
    Picoseconds& when = change.kind == engine::SharedDevice::Change::Kind::Started ? stay.start : stay.end;
    if (when != Picoseconds(-1)) throw std::logic_error("told twice");
    when = now;
  }
}

/// Runs them, in the order of their arrivals (which must be sorted), until the device is idle.
inline std::vector<Stay> run_shared(engine::SharedDevice& device, const std::vector<Arrival>& arrivals,
                                    Picoseconds offset = Picoseconds(0)) {
  std::vector<Stay> stays(arrivals.size());
  std::vector<engine::SharedDevice::Change> changes;
  std::size_t next = 0;
  while (next < arrivals.size() || !device.idle()) {
    changes.clear();
    if (next < arrivals.size() && arrivals[next].at + offset <= device.next_change()) {
      const Arrival& arrival = arrivals[next];
      device.submit(static_cast<std::uint32_t>(next), arrival.footprint, arrival.alone, arrival.at + offset,
                    changes);
      note(changes, arrival.at, stays);
      ++next;
    } else {
      const Picoseconds now = device.next_change();
      device.advance(now, changes);
      note(changes, now - offset, stays);
    }
  }
  return stays;
}

}  // namespace gpusim::test
