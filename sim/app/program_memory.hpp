// SPDX-License-Identifier: Apache-2.0
// Memory of a program: for whoever has a main().
#pragma once

#ifdef GPUSIM_HAS_MIMALLOC
#include <mimalloc.h>
#elif __has_include(<malloc.h>)
#include <malloc.h>
#endif

namespace gpusim {

/// What has been freed is kept for the next step. Given back after each one, it is asked for again by the
/// next: on a virtual machine those page faults take longer than all the rest.
inline void keep_freed_memory() {
#if defined(GPUSIM_HAS_MIMALLOC) && MI_MALLOC_VERSION < 210
  mi_option_disable(mi_option_allow_decommit);
#elif defined(GPUSIM_HAS_MIMALLOC)
  mi_option_set(mi_option_purge_delay, -1);
#elif defined(M_TRIM_THRESHOLD)
  mallopt(M_MMAP_THRESHOLD, 1 << 28);
  mallopt(M_TRIM_THRESHOLD, 1 << 28);
#endif
}

}  // namespace gpusim
