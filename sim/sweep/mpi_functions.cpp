// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/mpi_functions.hpp"

// The C interface alone.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <cstddef>

namespace {

void start(int& rank, int& count) {
  int got = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &got);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &count);
}

void finish() {
  MPI_Finalize();
}

void end_job() {
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int least(int value) {
  int all = 0;
  MPI_Allreduce(&value, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return all;
}

void send(int to, int tag, const std::string& bytes) {
  MPI_Send(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, to, tag, MPI_COMM_WORLD);
}

bool receive(gpusim::sweep::MpiMessage& message) {
  int there = 0;
  MPI_Status status;
  MPI_Message handle;
  MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, &handle, &status);
  if (there == 0) return false;
  int size = 0;
  MPI_Get_count(&status, MPI_BYTE, &size);
  message = {status.MPI_SOURCE, status.MPI_TAG, std::string(static_cast<std::size_t>(size), '\0')};
  MPI_Mrecv(message.bytes.data(), size, MPI_BYTE, &handle, &status);
  return true;
}

}  // namespace

const gpusim::sweep::MpiFunctions* gpusim_mpi_functions() {
  static constexpr gpusim::sweep::MpiFunctions functions{
      .start = start, .finish = finish, .end_job = end_job, .least = least, .send = send, .receive = receive};
  return &functions;
}
