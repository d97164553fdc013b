// SPDX-License-Identifier: Apache-2.0
// To be preloaded into a program: strings and numbers hash differently (GPUSIM_TEST_HASH_SEED), and the
// environment's locale holds for C and for C++ streams, as in a program that has gpusim as a library.
#include <clocale>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <locale>

namespace {

std::uint64_t seed_of_environment() {
  const char* text = std::getenv("GPUSIM_TEST_HASH_SEED");
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

struct Locale {
  Locale() {
    if (std::setlocale(LC_ALL, "") == nullptr) std::abort();
    std::locale::global(std::locale(""));
  }
};
const Locale locale;

}  // namespace

namespace std {

// What std::hash of libstdc++ calls.
size_t _Hash_bytes(const void* bytes, size_t length, size_t seed) {
  static const std::uint64_t own = seed_of_environment();
  std::uint64_t hash = 0xcbf29ce484222325ULL ^ own ^ seed;
  for (size_t i = 0; i < length; ++i)
    hash = (hash ^ static_cast<const unsigned char*>(bytes)[i]) * 0x100000001b3ULL;
  return hash ^ (hash >> 31U);
}

}  // namespace std
