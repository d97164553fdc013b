// SPDX-License-Identifier: Apache-2.0
#include "sim/app/interruption.hpp"

#include <atomic>
#include <csignal>

namespace gpusim {
namespace {

// A signal handler reaches nothing but objects with static storage.
std::atomic<int> received{0};
static_assert(std::atomic<int>::is_always_lock_free);

void note(int signal) {
  received.store(signal, std::memory_order_relaxed);
}

void set_handlers(void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

}  // namespace

Interruption::Interruption() {
  received.store(0, std::memory_order_relaxed);
  // Reset by the first signal: the second one ends the process as usual.
  set_handlers(note, static_cast<int>(SA_RESETHAND) | SA_RESTART);
}

Interruption::~Interruption() {
  set_handlers(SIG_DFL, 0);
}

int Interruption::signal() {
  return received.load(std::memory_order_relaxed);
}

}  // namespace gpusim
