// SPDX-License-Identifier: Apache-2.0
#include "sim/app/interruption.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>

namespace gpusim {
namespace {

// A signal handler reaches nothing but objects with static storage.
std::atomic<int> received{0};
static_assert(std::atomic<int>::is_always_lock_free);

void note(int signal) {
  received.store(signal, std::memory_order_relaxed);
}

constexpr std::array signals{SIGINT, SIGTERM};

}  // namespace

Interruption::Interruption() {
  received.store(0, std::memory_order_relaxed);
  // Reset by the first signal: the second one ends the process as usual.
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &action, &before_[i]);
}

Interruption::~Interruption() {
  for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &before_[i], nullptr);
}

int Interruption::signal() {
  return received.load(std::memory_order_relaxed);
}

}  // namespace gpusim
