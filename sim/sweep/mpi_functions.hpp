// SPDX-License-Identifier: Apache-2.0
// What a sweep needs of MPI. Libraries of MPI take longer to load than a small scenario to run, so they are
// linked to a module of its own, which is loaded where a job is started and not otherwise. Internal to
// sim/sweep.
#pragma once

#include <string>

namespace gpusim::sweep {

struct MpiMessage {
  int source = 0;
  int tag = 0;
  std::string bytes;
};

struct MpiFunctions {
  void (*start)(int& rank, int& count);
  void (*finish)();         ///< Waits for all ranks.
  void (*end_job)();        ///< Of all ranks, at once.
  int (*least)(int value);  ///< Of what all ranks call it with.
  void (*send)(int to, int tag, const std::string& bytes);
  bool (*receive)(MpiMessage& message);  ///< False if nothing has come.
};

}  // namespace gpusim::sweep

/// The module's only name.
extern "C" const gpusim::sweep::MpiFunctions* gpusim_mpi_functions();
