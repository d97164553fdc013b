// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/ranks.hpp"

#include <cstdlib>

#ifdef GPUSIM_HAS_MPI

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "sim/sweep/mpi_functions.hpp"

#endif

namespace gpusim::sweep {

bool is_part_of_job() {
  const auto above_one = [](const char* name) {
    const char* text = std::getenv(name);
    return text != nullptr && std::atoi(text) > 1;
  };
  // Open MPI; MPICH, Intel MPI and srun by PMI; PMIx does not tell how many there are.
  return above_one("OMPI_COMM_WORLD_SIZE") || above_one("PMI_SIZE") || std::getenv("PMIX_RANK") != nullptr;
}

#ifdef GPUSIM_HAS_MPI

namespace {

enum Tag : int {
  Work = 1,  ///< To a rank: first point and end, two int64. Empty: there is no more.
  Rows,      ///< From a rank: first point and end, then their rows. Nothing at first.
  Report,    ///< From a rank, after the last one.
  Failed,    ///< From a rank: why.
};

/// The module beside this gpusim as it was built, or as it was installed; null if it cannot be loaded.
const MpiFunctions* load_mpi() {
  // Loaded at most once and never changed: a library, not state.
  static const MpiFunctions* const functions = []() -> const MpiFunctions* {
    for (const char* const path : {GPUSIM_BUILT_MPI, GPUSIM_INSTALLED_MPI}) {
      // Plugins of MPI ask for its names without saying where they are.
      void* const module = ::dlopen(path, RTLD_NOW | RTLD_GLOBAL);
      if (module == nullptr) continue;
      if (auto* const get =
              reinterpret_cast<decltype(&gpusim_mpi_functions)>(::dlsym(module, "gpusim_mpi_functions")))
        return get();
    }
    return nullptr;
  }();
  return functions;
}

void send(int to, Tag tag, const std::string& bytes) {
  load_mpi()->send(to, tag, bytes);
}

/// False if nothing has come.
bool receive_if_there(MpiMessage& message) {
  return load_mpi()->receive(message);
}

/// Waits without taking a core away from those who work.
MpiMessage receive() {
  MpiMessage message;
  for (int idle = 0; !receive_if_there(message); ++idle)
    if (idle > 100) std::this_thread::sleep_for(std::chrono::microseconds(std::min(idle, 1000)));
  return message;
}

std::string to_bytes(const Stretch& points) {
  const std::int64_t ends[2] = {points.first, points.end};
  std::string bytes(sizeof ends, '\0');
  std::memcpy(bytes.data(), ends, sizeof ends);
  return bytes;
}

Stretch stretch_of(const std::string& bytes) {
  std::int64_t ends[2] = {};
  std::memcpy(ends, bytes.data(), sizeof ends);
  return {ends[0], ends[1]};
}

double now_in_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Points to hand out and rows that wait for their turn, for the main thread of rank 0 and its worker.
class Leader {
 public:
  explicit Leader(const InOrder& order, std::size_t ranks)
      : order_(order),
        next_(order.points.first),
        next_written_(order.points.first),
        waiting_max_(64 * ranks) {}

  /// False: nothing now, since rows wait for a slow stretch before them, or nothing any more.
  bool take(Stretch& into) {
    const std::lock_guard lock(mutex_);
    if (stopped_ || next_ >= order_.points.end || waiting_.size() >= waiting_max_) return false;
    into = {next_, std::min(next_ + length_.next(), order_.points.end)};
    next_ = into.end;
    ++out_;
    return true;
  }
  void took(std::int64_t points, double seconds) {
    const std::lock_guard lock(mutex_);
    length_.took(points, seconds);
  }
  void bring(const Stretch& points, std::string rows) {
    const std::lock_guard lock(mutex_);
    --out_;
    waiting_.emplace(points.first, std::pair(points, std::move(rows)));
  }
  /// Writes whose turn it is. By the main thread only.
  void write() {
    for (;;) {
      std::pair<Stretch, std::string> piece;
      {
        const std::lock_guard lock(mutex_);
        const auto first = waiting_.find(next_written_);
        if (first == waiting_.end()) return;
        piece = std::move(first->second);
        waiting_.erase(first);
        next_written_ = piece.first.end;
      }
      order_.write(piece.first, piece.second);
    }
  }
  void stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  bool is_handing_out() const {
    const std::lock_guard lock(mutex_);
    return !stopped_ && next_ < order_.points.end;
  }
  std::int64_t out() const {
    const std::lock_guard lock(mutex_);
    return out_;
  }

 private:
  const InOrder& order_;
  mutable std::mutex mutex_;
  std::int64_t next_;
  std::int64_t next_written_;
  std::int64_t out_ = 0;  ///< Stretches that somebody works on.
  std::size_t waiting_max_;
  std::map<std::int64_t, std::pair<Stretch, std::string>> waiting_;  ///< By first point.
  StretchLength length_;
  bool stopped_ = false;
};

}  // namespace

bool has_mpi() {
  return load_mpi() != nullptr;
}

Ranks::Ranks() {
  if (!is_part_of_job() || !has_mpi()) return;
  load_mpi()->start(rank_, count_);
  started_ = true;
}

Ranks::~Ranks() {
  if (!started_) return;
  if (ended_well_)
    load_mpi()->finish();
  else
    load_mpi()->end_job();
}

bool Ranks::agree(bool well) {
  return count_ == 1 ? well : load_mpi()->least(well ? 1 : 0) == 1;
}

void Ranks::run(const InOrder& order, const Talk& talk) {
  ended_well_ = false;
  if (is_first())
    lead(order, talk);
  else
    follow(order, talk);
  ended_well_ = true;
}

void Ranks::lead(const InOrder& order, const Talk& talk) {
  Leader leader(order, static_cast<std::size_t>(count_));
  std::string own_failure;
  std::mutex own_mutex;
  std::thread own([&] {
    try {
      const auto worker = order.make_worker();
      Stretch points;
      while (leader.is_handing_out()) {
        if (!leader.take(points)) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          continue;
        }
        const double begin = now_in_seconds();
        std::string rows = worker->rows(points);
        leader.took(points.count(), now_in_seconds() - begin);
        leader.bring(points, std::move(rows));
      }
    } catch (const std::exception& error) {
      const std::lock_guard lock(own_mutex);
      own_failure = error.what();
      leader.stop();
    }
  });
  struct Join {
    std::thread& thread;
    Leader& leader;
    ~Join() {
      leader.stop();
      if (thread.joinable()) thread.join();
    }
  } const join{own, leader};

  std::vector<double> began(static_cast<std::size_t>(count_), 0);
  std::vector<int> idle;  // Ranks that wait for work.
  int reports = 0;        // Ranks that are done.
  double stopped_at = 0;
  std::string failure;
  for (int quiet = 0; reports < count_ - 1 || leader.out() > 0;) {
    if (stopped_at == 0 && order.stop && order.stop()) {
      leader.stop();
      stopped_at = now_in_seconds();
    }
    MpiMessage message;
    if (receive_if_there(message)) {
      quiet = 0;
      const auto rank = static_cast<std::size_t>(message.source);
      if (message.tag == Rows) {
        if (!message.bytes.empty()) {
          const Stretch points = stretch_of(message.bytes);
          leader.took(points.count(), now_in_seconds() - began[rank]);
          leader.bring(points, message.bytes.substr(sizeof(std::int64_t) * 2));
        }
        idle.push_back(message.source);
      } else if (message.tag == Report) {
        ++reports;
        if (talk.on_report) talk.on_report(message.bytes);
      } else if (message.tag == Failed) {
        throw RankError("rank " + std::to_string(message.source) + " failed: " + message.bytes);
      }
    } else if (++quiet > 100) {
      std::this_thread::sleep_for(std::chrono::microseconds(std::min(quiet, 1000)));
    }
    while (!idle.empty()) {
      const int rank = idle.back();
      Stretch points;
      if (leader.take(points)) {
        began[static_cast<std::size_t>(rank)] = now_in_seconds();
        send(rank, Work, to_bytes(points));
      } else if (!leader.is_handing_out()) {
        send(rank, Work, "");
      } else {
        break;
      }
      idle.pop_back();
    }
    leader.write();
    // Whoever ends the job does not wait long for ranks that may be dead.
    constexpr double patience = 2;
    if (stopped_at > 0 && now_in_seconds() - stopped_at > patience && reports < count_ - 1)
      throw RankError(std::to_string(count_ - 1 - reports) + " of " + std::to_string(count_) +
                      " ranks do not answer: killed, or busy");
  }
  leader.write();
  const std::lock_guard lock(own_mutex);
  if (!own_failure.empty()) throw std::runtime_error(own_failure);
}

void Ranks::follow(const InOrder& order, const Talk& talk) {
  try {
    const auto worker = order.make_worker();
    send(0, Rows, "");
    for (;;) {
      const MpiMessage message = receive();
      if (message.bytes.empty()) break;
      const Stretch points = stretch_of(message.bytes);
      send(0, Rows, to_bytes(points) + worker->rows(points));
    }
    send(0, Report, talk.report ? talk.report() : "");
  } catch (const std::exception& error) {
    send(0, Failed, error.what());
    throw;
  }
}

#else

bool has_mpi() {
  return false;
}

Ranks::Ranks() = default;
Ranks::~Ranks() = default;

bool Ranks::agree(bool well) {
  return well;
}

void Ranks::run(const InOrder& order, const Talk&) {
  run_in_order(order);
}

#endif

}  // namespace gpusim::sweep
