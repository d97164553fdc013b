// SPDX-License-Identifier: Apache-2.0
// One target as libFuzzer wants it: built once for each, with its number in targets().
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "tests/fuzz/targets.hpp"

extern "C" {

std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  gpusim::fuzz::GPUSIM_FUZZ_TARGET(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                    unsigned int seed) {
  // Now and then the bytes themselves, for the parsers.
  if (seed % 8 == 0) return LLVMFuzzerMutate(data, size, max_size);
  for (const gpusim::fuzz::Target& target : gpusim::fuzz::targets()) {
    if (target.run != &gpusim::fuzz::GPUSIM_FUZZ_TARGET) continue;
    const std::string text = target.mutate({reinterpret_cast<const char*>(data), size}, seed);
    if (text.empty() || text.size() > max_size) break;
    std::memcpy(data, text.data(), text.size());
    return text.size();
  }
  return LLVMFuzzerMutate(data, size, max_size);
}

}  // extern "C"
