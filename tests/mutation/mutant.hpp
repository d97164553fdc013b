// SPDX-License-Identifier: Apache-2.0
// What instrumented sources call: every mutant is a number, and the environment variable GPUSIM_MUTANT says
// which one is active. rewrite.py inserts the calls.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <type_traits>

namespace mutant {

inline constexpr int none = -1;
inline constexpr int coverage = -2;  ///< No mutant; note which ones are reached.
inline constexpr int limit = 40000;

inline int active = none;
inline unsigned char reached[limit] = {};

/// Appends the numbers of all mutants reached, as one line, to the file that GPUSIM_MUTANT_COVERAGE names.
/// Programs that tests start add lines of their own.
inline void write_coverage() {
  const char* path = std::getenv("GPUSIM_MUTANT_COVERAGE");
  std::FILE* file = path != nullptr ? std::fopen(path, "a") : nullptr;
  if (file == nullptr) return;
  for (int id = 0; id < limit; ++id)
    if (reached[id] != 0) std::fprintf(file, "%d ", id);
  std::fprintf(file, "\n");
  std::fclose(file);
}

// Before every other initialiser, in whichever file comes first.
__attribute__((constructor(101))) inline void read_environment() {
  const char* text = std::getenv("GPUSIM_MUTANT");
  if (text == nullptr || active != none) return;
  active = std::atoi(text);
  if (active == coverage) std::atexit(write_coverage);
}
namespace {
__attribute__((constructor(102), used)) void start() {
  read_environment();
}
}  // namespace

inline bool on(int id) {
  if (active == coverage) reached[id] = 1;
  return active == id;
}

/// !x, a && b and a || b: one rule of De Morgan makes one of the other without evaluating more.
template <class T>
bool flip(int id, const T& value) {
  return static_cast<bool>(value) != on(id);
}

#define GPUSIM_MUTANT_BINARY(name, original, mutated)           \
  template <class A, class B>                                   \
  decltype(auto) name(int id, const A& a, const B& b) {         \
    using Result = std::decay_t<decltype(a original b)>;        \
    return on(id) ? Result(a mutated b) : Result(a original b); \
  }
GPUSIM_MUTANT_BINARY(less, <, <=)
GPUSIM_MUTANT_BINARY(less_equal, <=, <)
GPUSIM_MUTANT_BINARY(greater, >, >=)
GPUSIM_MUTANT_BINARY(greater_equal, >=, >)
GPUSIM_MUTANT_BINARY(equal, ==, !=)
GPUSIM_MUTANT_BINARY(unequal, !=, ==)
GPUSIM_MUTANT_BINARY(plus, +, -)
GPUSIM_MUTANT_BINARY(minus, -, +)
GPUSIM_MUTANT_BINARY(times, *, /)
GPUSIM_MUTANT_BINARY(over, /, *)
#undef GPUSIM_MUTANT_BINARY

/// The right-hand side of += and -=.
template <class T>
T negate(int id, const T& value) {
  return on(id) ? static_cast<T>(-value) : value;
}

template <class T>
T one_more(int id, T value) {
  return on(id) ? static_cast<T>(value + 1) : value;
}

}  // namespace mutant
