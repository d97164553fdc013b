// SPDX-License-Identifier: Apache-2.0
// Which buffers a measured run meets in the L2: the scripts rotate them, and by how much follows from how.
#pragma once

#include "models/cost/kernel_work.hpp"

namespace gpusim::calibrate {

/// Repeated runs of one op as the measurement scripts make them: `sets` buffers are written one after the
/// other, two runs warm up, then every run takes the next set.
struct Rotation {
  double sets = 1;
  double in = 0;         ///< Bytes that a run reads of its own set.
  double out = 0;        ///< Bytes that it writes.
  bool own_out = false;  ///< Each set has its own output; else the allocator gives the same block each time.
  int runs = 5;
};

/// Bytes touched since the same bytes were touched last, themselves included: median of the runs.
struct Reuse {
  double reads = 0;
  double writes = 0;
};

Reuse reuse(const Rotation& rotation);

/// The shares of reads and writes that come from memory on `gpu`.
CacheState cache_state(const Reuse& reuse, const GpuSpec& gpu);

/// `rot` of the scripts: as many sets as are needed to miss a cache of 120 MiB.
double rotated_sets(double bytes);

}  // namespace gpusim::calibrate
