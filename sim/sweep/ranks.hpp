// SPDX-License-Identifier: Apache-2.0
// A sweep over the processes of an MPI job. Rank 0 hands out stretches of points, gathers their rows and
// writes them in order; the others, and a thread of rank 0, evaluate.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "sim/sweep/in_order.hpp"

namespace gpusim::sweep {

/// Whether this gpusim was built with MPI, and finds the libraries of it; loads them.
bool has_mpi();
/// Whether the process was started as one of several of an MPI job (by mpirun, srun or their like).
bool is_part_of_job();

/// A rank has ended without being told to, or was stopped with work in its hands: its rows are missing.
class RankError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The MPI job that this process is part of; without one, or without MPI, a single rank. One at a time.
class Ranks {
 public:
  Ranks();
  /// Waits for all ranks, unless run() has thrown: then the job is ended.
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int count() const { return count_; }
  bool is_first() const { return rank_ == 0; }

  /// Called once by all ranks: whether all say that all is well.
  bool agree(bool well);

  /// What goes on beside points.
  struct Talk {
    std::function<std::string()> report;              ///< Other ranks, when there are no more points.
    std::function<void(std::string_view)> on_report;  ///< Rank 0, for each of them.
  };
  /// Called by all ranks, of more than one. On rank 0 as run_in_order(); `order.points`, `write` and `stop`
  /// count there alone. Throws RankError on rank 0 if a rank is not there any more or says that it failed.
  void run(const InOrder& order, const Talk& talk);

 private:
  void lead(const InOrder& order, const Talk& talk);
  void follow(const InOrder& order, const Talk& talk);

  int rank_ = 0;
  int count_ = 1;
  bool started_ = false;
  bool ended_well_ = true;
};

}  // namespace gpusim::sweep
